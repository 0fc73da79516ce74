//! The commands that bring work in and do it: `run`, `enqueue`, `work`.

use std::ffi::OsString;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use redrive_idempotency::client::Key;
use redrive_policy::plan::HintBy;

use super::{MAX_SLOTS, PolicyFlags, WorkFlags, value};

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    #[arg(long, value_name = "D", value_parser = value::wait, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    #[arg(long, value_name = "D", value_parser = value::wait, allow_hyphen_values = true)]
    pub(crate) deadline: Option<Duration>,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) name: Option<String>,
    #[arg(long, value_name = "DIR")]
    pub(crate) snapshot: Vec<String>,
    #[arg(long)]
    pub(crate) review: bool,
    #[arg(long, value_name = "HOW", value_parser = how())]
    pub(crate) hint: Option<HintBy>,
    #[arg(long, value_name = "KEY", value_parser = value::key, conflicts_with = "detach")]
    pub(crate) idempotency_key: Option<Key>,
    #[arg(long)]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) flags: PolicyFlags,
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// How a command is told what to do better.
fn how() -> impl TypedValueParser<Value = HintBy> {
    PossibleValuesParser::new(HintBy::NAMES)
        .map(|name| if name == HintBy::Stdin.name() { HintBy::Stdin } else { HintBy::Env })
}

#[derive(Debug, clap::Args)]
pub(crate) struct EnqueueArgs {
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) delay: Option<Duration>,
    #[arg(long, value_name = "KEY", value_parser = value::name)]
    pub(crate) unique: Option<String>,
    #[arg(long, value_name = "ID", value_parser = value::name)]
    pub(crate) caller_id: Option<String>,
    #[command(flatten)]
    pub(crate) work: WorkFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WorkArgs {
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) queue: Vec<String>,
    #[arg(long, value_name = "N", value_parser = value::slots, allow_hyphen_values = true)]
    #[arg(default_value_t = DEFAULT_SLOTS)]
    pub(crate) concurrency: usize,
    #[arg(long)]
    pub(crate) until_empty: bool,
}

/// How many jobs a worker runs at once unless it is told.
const DEFAULT_SLOTS: usize = 4;
const _: () = assert!(DEFAULT_SLOTS <= MAX_SLOTS);
