//! What a job is and where it goes, in the same words wherever one is made: `enqueue` now, `schedule add` by the clock.

use std::ffi::OsString;
use std::time::Duration;

use super::value::{self, Header};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("work").args(["http", "payload", "exec"]).required(true))]
pub(crate) struct WorkFlags {
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) queue: Option<String>,
    #[arg(long, value_name = "N", value_parser = value::priority, allow_hyphen_values = true)]
    pub(crate) priority: Option<i32>,
    #[arg(long, value_name = "KEY", value_parser = value::name)]
    pub(crate) target: Option<String>,
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[arg(long, value_name = "D", value_parser = value::wait, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    #[arg(long, num_args = 2, value_names = ["METHOD", "URL"])]
    pub(crate) http: Vec<String>,
    #[arg(long, value_name = "'K: V'", value_parser = value::header, requires = "http")]
    pub(crate) header: Vec<Header>,
    #[arg(long, value_name = "TEXT|@FILE|-", requires = "http", allow_hyphen_values = true)]
    pub(crate) body: Option<String>,
    #[arg(long, value_name = "JSON", requires = "kind", allow_hyphen_values = true)]
    pub(crate) payload: Option<String>,
    #[arg(long, value_name = "KIND", requires = "payload", value_parser = value::name)]
    pub(crate) kind: Option<String>,
    // Everything behind it is the command, whatever it looks like.
    #[arg(long, value_name = "CMD", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) exec: Vec<OsString>,
}
