//! `schedule`: jobs by the clock.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive::engine::Missed;

use super::value::{self, Header};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ScheduleCommand {
    Add(Box<ScheduleAddArgs>),
    List,
    Show(ScheduleArg),
    Remove(ScheduleArg),
    Pause(ScheduleArg),
    Resume(ScheduleArg),
    Run(ScheduleArg),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ScheduleArg {
    #[arg(value_name = "NAME", value_parser = value::name)]
    pub(crate) name: String,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("work").args(["http", "payload", "exec"]).required(true))]
pub(crate) struct ScheduleAddArgs {
    /// The name and the expression, or the expression alone.
    #[arg(value_names = ["NAME", "CRON"], num_args = 1..=2, required = true)]
    pub(crate) when: Vec<String>,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) name: Option<String>,
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    pub(crate) tz: String,
    #[arg(long, value_name = "skip|once|all", default_value = "once", value_parser = missed())]
    pub(crate) missed: Missed,
    #[arg(long)]
    pub(crate) replace: bool,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) queue: Option<String>,
    #[arg(long, value_name = "N", value_parser = value::priority, allow_hyphen_values = true)]
    pub(crate) priority: Option<i32>,
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

fn missed() -> impl TypedValueParser<Value = Missed> {
    PossibleValuesParser::new(Missed::NAMES).map(|name| Missed::from_name(&name).unwrap_or_default())
}
