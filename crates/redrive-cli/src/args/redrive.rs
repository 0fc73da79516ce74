//! `redrive`: which letters go back, how fast, and what to do with redrives that are under way.

use redrive_store::RunId;
use redrive_store::filter::{Filter, LetterField};

use super::filter;
use super::id::{self, IdArg};
use super::value;

// Each flag is its own switch; together they are no state machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
pub(crate) struct RedriveArgs {
    #[arg(value_name = "ID", value_parser = id::id)]
    #[arg(required_unless_present_any = ["group", "filter", "all", "runs", "resume", "cancel"])]
    pub(crate) ids: Vec<IdArg>,
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ids", "filter", "all"])]
    pub(crate) group: Option<String>,
    #[arg(long = "where", value_name = "FILTER", value_parser = filter::letters, conflicts_with_all = ["ids", "all"])]
    pub(crate) filter: Option<Filter<LetterField>>,
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
    #[arg(long)]
    pub(crate) canary: bool,
    #[arg(long, value_name = "PERCENT", value_parser = value::percent, requires = "canary", allow_hyphen_values = true)]
    pub(crate) max_failures: Option<f64>,
    #[arg(long, value_name = "N/s", value_parser = value::rate, allow_hyphen_values = true)]
    pub(crate) rate: Option<f64>,
    #[arg(long, value_name = "N", value_parser = value::at_least_one, allow_hyphen_values = true)]
    pub(crate) limit: Option<u64>,
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) detach: bool,
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[arg(long, conflicts_with_all = ["ids", "group", "filter", "all", "resume", "cancel"])]
    pub(crate) runs: bool,
    #[arg(long, value_name = "REDRIVE", value_parser = value::run_id, conflicts_with_all = ["ids", "group", "filter", "all"])]
    pub(crate) resume: Option<RunId>,
    #[arg(long, value_name = "REDRIVE", value_parser = value::run_id)]
    #[arg(conflicts_with_all = ["ids", "group", "filter", "all", "resume"])]
    pub(crate) cancel: Option<RunId>,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}
