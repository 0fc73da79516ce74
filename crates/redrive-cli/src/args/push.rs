//! `push`: services that are called for jobs.

use std::time::Duration;

use super::value;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum PushCommand {
    List,
    Show {
        #[arg(value_name = "NAME", value_parser = value::name)]
        name: String,
        #[arg(long)]
        with_url: bool,
    },
    Set(Box<PushSetArgs>),
    Remove {
        #[arg(value_name = "NAME", value_parser = value::name)]
        name: String,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
}

// Each flag is its own switch; together they are no state machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
pub(crate) struct PushSetArgs {
    #[arg(value_name = "NAME", value_parser = value::name)]
    pub(crate) name: String,
    #[arg(long, value_name = "NAME", value_parser = value::name)]
    pub(crate) queue: Option<String>,
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = value::name)]
    pub(crate) kind: Vec<String>,
    #[arg(long, conflicts_with = "kind")]
    pub(crate) all_kinds: bool,
    #[arg(long, conflicts_with = "secret_env")]
    pub(crate) rotate: bool,
    // By the name of a variable: a secret on the command line is read by everybody who lists processes.
    #[arg(long, value_name = "VARIABLE", value_delimiter = ',')]
    pub(crate) secret_env: Vec<String>,
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(crate) concurrency: Option<u32>,
    #[arg(long, value_name = "N", value_parser = value::count, allow_hyphen_values = true)]
    pub(crate) batch: Option<u32>,
    #[arg(long, value_name = "D", value_parser = value::wait, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    #[arg(long, conflicts_with = "disable")]
    pub(crate) enable: bool,
    #[arg(long)]
    pub(crate) disable: bool,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}
