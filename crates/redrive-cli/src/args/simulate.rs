//! `policy simulate`: which failures, and under what.

use std::path::PathBuf;

use redrive_policy::Cause;

use super::PolicyChanges;
use super::value::{self, Since};

#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    #[arg(long, value_name = "D|TIME", value_parser = value::since, allow_hyphen_values = true)]
    #[arg(default_value = "24h")]
    pub(crate) since: Since,
    #[arg(long, value_name = "D|TIME", value_parser = value::since, allow_hyphen_values = true)]
    pub(crate) until: Option<Since>,
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub(crate) kind: Option<String>,
    #[arg(long, value_name = "CAUSE", value_parser = value::cause)]
    pub(crate) cause: Option<Cause>,
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[arg(long, value_name = "N", value_parser = value::seed, default_value = "1")]
    pub(crate) seed: u64,
    #[arg(long, value_name = "N", value_parser = value::jobs, allow_hyphen_values = true)]
    #[arg(default_value = "100000")]
    pub(crate) limit: u32,
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Vec<String>,
    #[command(flatten)]
    pub(crate) changes: PolicyChanges,
}
