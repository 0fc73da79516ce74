//! The commands that operate: groups, mending and letting go of letters, queues, and numbers.

use std::path::PathBuf;
use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::GroupState;
use redrive_store::filter::{Filter, LetterField};

use super::filter;
use super::id::{self, IdArg};
use super::value::{self, Assignment, Since};

/// What can be done with dead letters beyond looking at them.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum DeskCommand {
    Groups(GroupsArgs),
    Ack(NotedArgs),
    Resolve(NotedArgs),
    Reopen {
        #[arg(value_name = "FINGERPRINT", required = true)]
        groups: Vec<String>,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    Edit(Box<EditArgs>),
    Discard(DiscardArgs),
    Purge(DlqPurgeArgs),
    Export(DlqExportArgs),
    Import {
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct GroupsArgs {
    #[arg(long, value_name = "STATE", value_parser = value::group_state)]
    pub(crate) state: Vec<GroupState>,
    #[arg(long, value_name = "CAUSE", value_parser = value::cause)]
    pub(crate) cause: Option<Cause>,
    #[arg(long, value_name = "N", value_parser = value::limit, allow_hyphen_values = true)]
    pub(crate) limit: Option<u32>,
    #[arg(long, conflicts_with = "limit")]
    pub(crate) all: bool,
}

/// Groups, and what a person has to say about them.
#[derive(Debug, clap::Args)]
pub(crate) struct NotedArgs {
    #[arg(value_name = "FINGERPRINT", required = true)]
    pub(crate) groups: Vec<String>,
    // What is noted of a group is why it stands so.
    #[arg(long, value_name = "TEXT", alias = "why")]
    pub(crate) note: Option<String>,
}

// Each flag is its own switch; together they are no state machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
pub(crate) struct EditArgs {
    #[arg(value_name = "ID", value_parser = value::job_ref)]
    pub(crate) id: value::JobRef,
    #[arg(long, value_name = "PATH=VALUE", value_parser = value::assignment, conflicts_with_all = ["payload", "payload_file"])]
    pub(crate) set: Vec<Assignment>,
    #[arg(long, value_name = "PATH", conflicts_with_all = ["payload", "payload_file"])]
    pub(crate) unset: Vec<String>,
    #[arg(long, value_name = "JSON", allow_hyphen_values = true, conflicts_with = "payload_file")]
    pub(crate) payload: Option<String>,
    #[arg(long, value_name = "FILE")]
    pub(crate) payload_file: Option<PathBuf>,
    #[arg(long)]
    pub(crate) redrive: bool,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Letters by their ids, of a group, or by a filter.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscardArgs {
    #[arg(value_name = "ID", value_parser = id::id, required_unless_present_any = ["group", "where"])]
    pub(crate) ids: Vec<IdArg>,
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ids", "where"])]
    pub(crate) group: Option<String>,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::letters, conflicts_with = "ids")]
    pub(crate) filter: Option<Filter<LetterField>>,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DlqPurgeArgs {
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) older_than: Duration,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::letters)]
    pub(crate) filter: Option<Filter<LetterField>>,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[arg(long, short)]
    pub(crate) yes: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DlqExportArgs {
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[arg(long, value_name = "FINGERPRINT", conflicts_with = "where")]
    pub(crate) group: Option<String>,
    #[arg(long = "where", id = "where", value_name = "FILTER", value_parser = filter::letters)]
    pub(crate) filter: Option<Filter<LetterField>>,
    #[arg(long)]
    pub(crate) with_payload: bool,
    #[arg(long)]
    pub(crate) csv: bool,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum QueueCommand {
    List,
    Pause {
        #[arg(value_name = "NAME", value_parser = value::name)]
        name: String,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    Resume {
        #[arg(value_name = "NAME", value_parser = value::name)]
        name: String,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct MetricsArgs {
    #[arg(long, value_name = "D|TIME", value_parser = value::since, allow_hyphen_values = true)]
    #[arg(default_value = "24h")]
    pub(crate) since: Since,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) queue: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PrometheusArgs {
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
