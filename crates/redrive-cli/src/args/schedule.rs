//! `schedule`: jobs by the clock.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive::engine::Missed;

use super::{WorkFlags, value};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ScheduleCommand {
    Add(Box<ScheduleAddArgs>),
    List,
    Show {
        #[arg(value_name = "NAME", value_parser = value::name)]
        name: String,
    },
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
pub(crate) struct ScheduleAddArgs {
    /// The name and the expression, or the expression alone. More than these are one that was not quoted.
    #[arg(value_names = ["NAME", "CRON"], num_args = 1.., required = true)]
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
    #[command(flatten)]
    pub(crate) work: WorkFlags,
}

fn missed() -> impl TypedValueParser<Value = Missed> {
    PossibleValuesParser::new(Missed::NAMES).map(|name| Missed::from_name(&name).unwrap_or_default())
}
