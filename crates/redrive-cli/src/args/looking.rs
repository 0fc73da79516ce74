//! The commands that only look: `failed`, `retry-candidates`, `detail`, `trace`, `explain`; and `export` and `purge`.

use std::path::PathBuf;
use std::time::Duration;

use redrive_store::filter::{EventField, Filter, LetterField};

use super::escalation::{self, SubjectArg};
use super::id::{self, LetterPlace};
use super::{filter, value};

#[derive(Debug, clap::Args)]
pub(crate) struct FailedArgs {
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::events)]
    pub(crate) filter: Option<Filter<EventField>>,
    #[arg(long, value_name = "ID")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CandidatesArgs {
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::letters)]
    pub(crate) filter: Option<Filter<LetterField>>,
    #[arg(long, value_name = "ID", value_parser = id::letter_place)]
    pub(crate) after: Option<LetterPlace>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    #[arg(value_name = "ID", value_parser = escalation::subject)]
    pub(crate) id: SubjectArg,
    #[arg(long)]
    pub(crate) latest: bool,
    #[arg(long)]
    pub(crate) raw: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A report has letters in it, too: its filter is read once for each noun.
    #[arg(long = "where", id = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    #[arg(default_value = "30d")]
    pub(crate) older_than: Duration,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[arg(long, short)]
    pub(crate) yes: bool,
    #[arg(long)]
    pub(crate) dry_run: bool,
}
