//! `snapshot …`: keeping files as they are, and putting them back.

use std::path::PathBuf;
use std::time::Duration;

use super::value;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum SnapshotCommand {
    Create(SnapshotCreateArgs),
    List,
    Show {
        #[arg(value_name = "SNAPSHOT")]
        snapshot: String,
    },
    Diff {
        #[arg(value_name = "SNAPSHOT")]
        snapshot: String,
    },
    Restore(SnapshotRestoreArgs),
    Prune {
        #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
        older_than: Option<Duration>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotCreateArgs {
    #[arg(value_name = "DIR", required = true)]
    pub(crate) roots: Vec<PathBuf>,
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub(crate) ignore: Vec<String>,
    #[arg(long, value_name = "BYTES", value_parser = value::bytes)]
    pub(crate) max_size: Option<u64>,
    #[arg(long, value_name = "D", value_parser = value::wait, allow_hyphen_values = true)]
    pub(crate) keep: Option<Duration>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotRestoreArgs {
    #[arg(value_name = "SNAPSHOT")]
    pub(crate) snapshot: String,
    #[arg(long)]
    pub(crate) force: bool,
    #[arg(long)]
    pub(crate) dry_run: bool,
}
