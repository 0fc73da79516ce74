//! The command line as types. What clap accepts here is valid; nothing behind it parses again.
//!
//! No text for people stands here: `help.rs` walks the finished tree and puts it in by key.

mod alerts;
mod doctor;
mod escalation;
mod filter;
mod id;
mod idempotency;
mod jobs;
mod look;
mod looking;
mod operate;
mod outbox;
mod policy_flags;
mod proxy;
mod push;
mod redrive;
mod review;
mod schedule;
mod serve;
mod simulate;
mod snapshot;
mod targets;
mod tasks;
mod token;
mod value;
mod work_flags;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use redrive_policy::{Cause, Lang};

pub(crate) use alerts::{AlertsCommand, SilenceArgs};
pub(crate) use doctor::{DoctorArgs, HealthArgs};
pub(crate) use escalation::{EscalationsArgs, EscalationsCommand, Place as EscalationPlace, SubjectArg};
pub(crate) use filter::BadFilter;
pub(crate) use filter::{events as events_where, letters as letters_where};
pub(crate) use id::{IdArg, LetterPlace};
pub(crate) use idempotency::{IdempotencyCommand, KeyArg, KeysArgs};
pub(crate) use jobs::{EnqueueArgs, RunArgs, WorkArgs};
pub(crate) use look::{
    CopyArgs, DlqCommand, DlqListArgs, EventsArgs, KeygenArgs, RetryArgs, ShowArgs, StoreCommand,
};
pub(crate) use looking::{CandidatesArgs, ExportArgs, FailedArgs, PurgeArgs, TraceArgs};
pub(crate) use operate::{
    DeskCommand, DiscardArgs, DlqExportArgs, DlqPurgeArgs, EditArgs, GroupsArgs, MetricsArgs, PrometheusArgs,
    QueueCommand,
};
pub(crate) use outbox::{OutboxAddArgs, OutboxCommand, OutboxFlushArgs, OutboxListArgs};
pub(crate) use policy_flags::{POLICY_FLAGS, PolicyChanges, PolicyFlags};
pub(crate) use proxy::ProxyArgs;
pub(crate) use push::{PushCommand, PushSetArgs};
pub(crate) use redrive::RedriveArgs;
pub(crate) use review::ReviewArgs;
pub(crate) use schedule::{ScheduleAddArgs, ScheduleArg, ScheduleCommand};
pub(crate) use serve::{LogChoice, ServeArgs};
pub(crate) use simulate::SimulateArgs;
pub(crate) use snapshot::{SnapshotCommand, SnapshotCreateArgs, SnapshotRestoreArgs};
pub(crate) use targets::{TargetLimitArgs, TargetsCommand};
pub(crate) use tasks::{TaskCommand, TaskRunArgs};
pub(crate) use token::{TokenCommand, TokenCreateArgs};
pub(crate) use value::{BadValue, JobRef, Since, job_ref};
pub(crate) use work_flags::WorkFlags;

/// The most delays that `policy delays` computes.
pub(crate) const MAX_COUNT: u64 = 10_000;
/// The most rows that a list shows.
pub(crate) const MAX_LIMIT: u64 = 10_000;
/// The most jobs that one worker runs at once.
pub(crate) const MAX_SLOTS: usize = 1_024;

/// Flags that every command knows, before or after its name.
pub(crate) const GLOBAL_FLAGS: &[&str] = &[
    "store", "key_file", "config", "plain", "json", "lang", "color", "quiet", "verbose", "absolute", "help",
    "version",
];

#[derive(Debug, Parser)]
#[command(
    name = "redrive",
    bin_name = "redrive",
    version,
    disable_help_flag = true,
    disable_version_flag = true,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

// Each flag is its own switch; together they are no state machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GlobalArgs {
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[arg(long, global = true)]
    pub(crate) plain: bool,
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[arg(long, global = true, value_name = "en|ja", value_parser = lang_parser())]
    pub(crate) lang: Option<Lang>,
    #[arg(long, global = true, value_name = "auto|always|never", value_parser = color_parser())]
    pub(crate) color: Option<ColorChoice>,
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    #[arg(long, global = true)]
    pub(crate) absolute: bool,
    #[arg(short, long, global = true, action = ArgAction::Help)]
    pub(crate) help: Option<bool>,
    #[arg(short = 'V', long, action = ArgAction::Version)]
    pub(crate) version: Option<bool>,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorChoice {
    Auto,
    Always,
    Never,
}

fn lang_parser() -> impl TypedValueParser<Value = Lang> {
    PossibleValuesParser::new(["en", "ja"]).map(|name| if name == "ja" { Lang::Ja } else { Lang::En })
}

fn color_parser() -> impl TypedValueParser<Value = ColorChoice> {
    PossibleValuesParser::new(["auto", "always", "never"]).map(|name| match name.as_str() {
        "always" => ColorChoice::Always,
        "never" => ColorChoice::Never,
        _ => ColorChoice::Auto,
    })
}

// One is made per process: its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Stored(StoredCommand),
    Classify(ClassifyArgs),
    Policy {
        #[command(subcommand)]
        command: Option<PolicyCommand>,
    },
    Config {
        #[command(subcommand)]
        command: Option<ConfigCommand>,
    },
    Review(Box<ReviewArgs>),
    Snapshot {
        #[command(subcommand)]
        command: Option<SnapshotCommand>,
    },
    Demo(DemoArgs),
    Completions {
        #[arg(value_name = "SHELL", value_parser = PossibleValuesParser::new(["bash", "zsh", "fish"]))]
        shell: String,
    },
    Man {
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// What a shell asks while somebody types.
    #[command(name = "__complete", hide = true)]
    Complete {
        #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    Help {
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
}

/// The commands that work on the store.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
pub(crate) enum StoredCommand {
    Run(Box<RunArgs>),
    Enqueue(Box<EnqueueArgs>),
    Work(WorkArgs),
    Status,
    Failed(FailedArgs),
    RetryCandidates(CandidatesArgs),
    Dlq {
        #[command(flatten)]
        list: Box<DlqListArgs>,
        #[command(subcommand)]
        command: Option<Box<DlqCommand>>,
    },
    Detail {
        #[arg(value_name = "ID", value_parser = id::id)]
        id: IdArg,
    },
    Explain {
        #[arg(value_name = "ID", value_parser = id::id)]
        id: IdArg,
    },
    Trace(TraceArgs),
    Retry(RetryArgs),
    Redrive(Box<RedriveArgs>),
    Events(Box<EventsArgs>),
    Export(ExportArgs),
    Import {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    Purge(PurgeArgs),
    Metrics(MetricsArgs),
    Prometheus(PrometheusArgs),
    Queue {
        #[command(subcommand)]
        command: Option<QueueCommand>,
    },
    Targets {
        #[command(subcommand)]
        command: Option<TargetsCommand>,
    },
    Task {
        #[command(subcommand)]
        command: Option<TaskCommand>,
    },
    Store {
        #[command(subcommand)]
        command: Option<StoreCommand>,
    },
    Escalations {
        #[command(flatten)]
        list: EscalationsArgs,
        #[command(subcommand)]
        command: Option<EscalationsCommand>,
    },
    Idempotency {
        #[command(flatten)]
        list: KeysArgs,
        #[command(subcommand)]
        command: Option<IdempotencyCommand>,
    },
    Proxy(ProxyArgs),
    Token {
        #[command(subcommand)]
        command: Option<TokenCommand>,
    },
    Serve(ServeArgs),
    Alerts {
        #[command(subcommand)]
        command: Option<AlertsCommand>,
    },
    Schedule {
        #[command(subcommand)]
        command: Option<ScheduleCommand>,
    },
    Push {
        #[command(subcommand)]
        command: Option<PushCommand>,
    },
    Doctor(DoctorArgs),
    Health(HealthArgs),
    Outbox {
        #[command(subcommand)]
        command: Option<OutboxCommand>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClassifyArgs {
    #[arg(value_name = "TEXT", conflicts_with_all = ["jsonl", "corpus"])]
    pub(crate) text: Vec<OsString>,
    #[command(flatten)]
    pub(crate) evidence: Evidence,
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[arg(long, value_name = "N", value_parser = value::seed)]
    pub(crate) seed: Option<u64>,
    #[arg(long, conflicts_with_all = ["http_status", "exit_code", "code", "retry_after", "corpus"])]
    pub(crate) jsonl: bool,
    #[arg(long, value_name = "FILE", conflicts_with_all = ["http_status", "exit_code", "code", "retry_after"])]
    pub(crate) corpus: Vec<PathBuf>,
}

/// What is known about a failure besides its words.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Evidence {
    #[arg(long, value_name = "N", value_parser = value::http_status, allow_hyphen_values = true)]
    pub(crate) http_status: Option<u16>,
    #[arg(long, value_name = "N", value_parser = value::exit_code, allow_hyphen_values = true)]
    pub(crate) exit_code: Option<i32>,
    #[arg(long, value_name = "CODE")]
    pub(crate) code: Option<String>,
    #[arg(long, value_name = "V", allow_hyphen_values = true)]
    pub(crate) retry_after: Option<String>,
}

impl Evidence {
    /// Whether anything at all is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.http_status.is_none() && self.exit_code.is_none() && self.code.is_none()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    List,
    Show {
        #[arg(value_name = "NAME")]
        name: String,
    },
    Check {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    Explain(Box<ExplainArgs>),
    Delays(Box<DelaysArgs>),
    Simulate(Box<SimulateArgs>),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    #[arg(long, value_name = "CAUSE", value_parser = value::cause)]
    pub(crate) cause: Option<Cause>,
    #[arg(long, value_name = "N", value_parser = value::whole, allow_hyphen_values = true, default_value = "0")]
    pub(crate) retry_count: u32,
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<OsString>,
    #[command(flatten)]
    pub(crate) evidence: Evidence,
    #[arg(long, value_name = "N", value_parser = value::seed)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) flags: PolicyFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DelaysArgs {
    #[arg(long, value_name = "CAUSE", value_parser = value::cause)]
    pub(crate) cause: Option<Cause>,
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true, default_value = "10")]
    pub(crate) count: u32,
    #[arg(long, value_name = "N", value_parser = value::seed)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) flags: PolicyFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show {
        #[arg(long)]
        origin: bool,
    },
    Check {
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    Schema,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    #[arg(long = "for", value_name = "D", value_parser = value::show_time, allow_hyphen_values = true)]
    #[arg(default_value = "20s")]
    pub(crate) lasts: Duration,
    #[arg(long, value_name = "N", value_parser = value::seed, default_value = "7")]
    pub(crate) seed: u64,
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

/// The tree of all commands with its texts in that language.
pub(crate) fn tree(lang: Lang) -> clap::Command {
    crate::help::put_texts(Args::command(), lang)
}

/// Reads a command line. The error is also how clap asks for help to be shown.
pub(crate) fn parse(args: &[OsString], lang: Lang) -> Result<Args, clap::Error> {
    let matches = tree(lang).try_get_matches_from(args)?;
    Args::from_arg_matches(&matches)
}
