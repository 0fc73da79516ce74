//! The commands that look at what happened and put things back: `events`, `dlq`, `explain`, `retry`, `redrive`,
//! and those that keep the store in order.

use std::path::PathBuf;
use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::filter::{EventField, Filter, LetterField};
use redrive_store::{EventStatus, JobId};

use super::filter;
use super::id::{self, IdArg, LetterPlace};
use super::operate::DeskCommand;
use super::value::{self, Since};

#[derive(Debug, clap::Args)]
pub(crate) struct EventsArgs {
    #[arg(long, short)]
    pub(crate) follow: bool,
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) event_type: Vec<String>,
    #[arg(long, value_name = "STATUS", value_parser = value::event_status)]
    pub(crate) status: Vec<EventStatus>,
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    #[arg(long, value_name = "ID")]
    pub(crate) caller_id: Option<String>,
    #[arg(long, value_name = "ID", value_parser = value::job_id)]
    pub(crate) job: Option<JobId>,
    #[arg(long, value_name = "D|TIME", value_parser = value::since, allow_hyphen_values = true)]
    pub(crate) since: Option<Since>,
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Vec<String>,
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::events)]
    pub(crate) filter: Option<Filter<EventField>>,
}

/// Which dead letters to list. These flags stand behind `dlq` as well as behind `dlq list`.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct DlqListArgs {
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    #[arg(long, value_name = "CAUSE", value_parser = value::cause)]
    pub(crate) cause: Option<Cause>,
    #[arg(long, value_name = "ID")]
    pub(crate) caller_id: Option<String>,
    #[arg(long)]
    pub(crate) with_payload: bool,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::letters)]
    pub(crate) filter: Option<Filter<LetterField>>,
    #[arg(long, value_name = "ID", value_parser = id::letter_place)]
    pub(crate) after: Option<LetterPlace>,
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) group: Option<String>,
}

impl DlqListArgs {
    /// These flags, and where they say nothing those that stood before.
    pub(crate) fn or(self, before: DlqListArgs) -> DlqListArgs {
        DlqListArgs {
            limit: self.limit.or(before.limit),
            queue: self.queue.or(before.queue),
            cause: self.cause.or(before.cause),
            caller_id: self.caller_id.or(before.caller_id),
            with_payload: self.with_payload || before.with_payload,
            filter: self.filter.or(before.filter),
            after: self.after.or(before.after),
            group: self.group.or(before.group),
        }
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum DlqCommand {
    List(DlqListArgs),
    Show(ShowArgs),
    #[command(flatten)]
    Desk(DeskCommand),
}

/// One letter, or the group that it belongs to.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[arg(value_name = "ID", value_parser = id::id, required_unless_present = "group", conflicts_with = "group")]
    pub(crate) id: Option<IdArg>,
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) group: Option<String>,
    #[arg(long, conflicts_with = "group")]
    pub(crate) versions: bool,
    #[arg(long)]
    pub(crate) with_payload: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RetryArgs {
    #[arg(value_name = "ID", value_parser = id::id)]
    pub(crate) id: IdArg,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum StoreCommand {
    Migrate,
    Check,
    Backup {
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    Copy(CopyArgs),
    Keygen(KeygenArgs),
    RotateKey,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CopyArgs {
    #[arg(long, value_name = "URL")]
    pub(crate) from: Option<String>,
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) wait: Option<Duration>,
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KeygenArgs {
    #[arg(long = "id", value_name = "NAME")]
    pub(crate) key_id: Option<String>,
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}
