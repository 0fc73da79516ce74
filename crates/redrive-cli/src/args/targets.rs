//! `targets`: looking at what is protected, limiting it, and forgetting what is held against it.

use redrive_policy::protection::Rate;

use super::value::{self, BadValue};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TargetsCommand {
    List,
    Show {
        #[arg(value_name = "TARGET", value_parser = target)]
        target: String,
    },
    Limit(TargetLimitArgs),
    Reset {
        #[arg(value_name = "TARGET", value_parser = target)]
        target: String,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("limits").args(["rate", "burst", "concurrency", "none"]).required(true).multiple(true))]
pub(crate) struct TargetLimitArgs {
    #[arg(value_name = "TARGET", value_parser = target)]
    pub(crate) target: String,
    #[arg(long, value_name = "N/s", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    #[arg(long, value_name = "N", value_parser = value::count)]
    pub(crate) burst: Option<u32>,
    #[arg(long, value_name = "N", value_parser = value::count)]
    pub(crate) concurrency: Option<u32>,
    #[arg(long, conflicts_with_all = ["rate", "burst", "concurrency"])]
    pub(crate) none: bool,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

fn target(text: &str) -> Result<String, BadValue> {
    if redrive::engine::is_target(text) { Ok(text.to_owned()) } else { Err(BadValue::Target) }
}

fn rate(text: &str) -> Result<Rate, BadValue> {
    text.parse().map_err(|_| BadValue::Rate)
}
