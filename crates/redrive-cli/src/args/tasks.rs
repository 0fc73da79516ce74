//! The commands of tasks: `task run`, `task resume`, `task status`, `task cancel`, `task schema`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Subcommand;

use super::value;

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    Run(TaskRunArgs),
    Resume {
        #[arg(value_name = "TASK|PLAN")]
        which: OsString,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    Status {
        #[arg(value_name = "TASK|PLAN")]
        which: Option<OsString>,
        #[arg(long)]
        all: bool,
    },
    Cancel {
        #[arg(value_name = "TASK|PLAN")]
        which: OsString,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    Check {
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
    },
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TaskRunArgs {
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    #[arg(long, value_name = "N", value_parser = value::slots, allow_hyphen_values = true)]
    pub(crate) parallel: Option<usize>,
    #[arg(long)]
    pub(crate) detach: bool,
    #[arg(long)]
    pub(crate) again: bool,
}
