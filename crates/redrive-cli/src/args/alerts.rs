//! `alerts`: how the rules stand, whether messages arrive, and what is not told for a while.

use std::time::Duration;

use super::value;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AlertsCommand {
    List,
    Check,
    Test {
        #[arg(value_name = "RECEIVER", value_parser = value::name)]
        receiver: Option<String>,
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    Silence(SilenceArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct SilenceArgs {
    #[arg(value_name = "RULE|FINGERPRINT", value_parser = value::name)]
    pub(crate) of: String,
    #[arg(long = "for", value_name = "D", value_parser = value::wait, allow_hyphen_values = true, default_value = "1h")]
    pub(crate) lasts: Duration,
    #[arg(long, conflicts_with = "lasts")]
    pub(crate) end: bool,
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}
