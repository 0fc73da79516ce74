//! The flags that change a policy on the command line, the same for every command that takes one.

use std::time::Duration;

use redrive_policy::{CauseSet, CurveKind, Jitter, Multiplier, Override};

use super::value;

/// The ids of these flags, which stand under their own heading in the help.
pub(crate) const POLICY_FLAGS: &[&str] = &[
    "policy",
    "max_retries",
    "backoff",
    "initial_delay",
    "max_delay",
    "multiplier",
    "increment",
    "jitter",
    "retry_on",
];

/// A policy by name, and what is to be different about it.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PolicyFlags {
    #[arg(long, value_name = "NAME")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) changes: PolicyChanges,
}

/// What is to be different about a policy.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct PolicyChanges {
    #[arg(long, value_name = "N", value_parser = value::whole, allow_hyphen_values = true)]
    pub(crate) max_retries: Option<u32>,
    #[arg(long, value_name = "CURVE", value_parser = value::curve)]
    pub(crate) backoff: Option<CurveKind>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) initial_delay: Option<Duration>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) max_delay: Option<Duration>,
    #[arg(long, value_name = "X", value_parser = value::multiplier, allow_hyphen_values = true)]
    pub(crate) multiplier: Option<Multiplier>,
    #[arg(long, value_name = "D", value_parser = value::duration, allow_hyphen_values = true)]
    pub(crate) increment: Option<Duration>,
    #[arg(long, value_name = "none|F|full|decorrelated", value_parser = value::jitter)]
    #[arg(allow_hyphen_values = true)]
    pub(crate) jitter: Option<Jitter>,
    #[arg(long, value_name = "CAUSE,…", value_parser = value::causes, value_delimiter = ',')]
    pub(crate) retry_on: Vec<CauseSet>,
}

impl PolicyFlags {
    /// What these flags change in the policy.
    pub(crate) fn wish(&self) -> Override {
        self.changes.wish()
    }
}

impl PolicyChanges {
    /// What these flags change in a policy.
    pub(crate) fn wish(&self) -> Override {
        Override {
            max_retries: self.max_retries,
            curve: self.backoff,
            initial: self.initial_delay,
            multiplier: self.multiplier,
            increment: self.increment,
            cap: self.max_delay,
            jitter: self.jitter,
            retry_on: self.retry_on.iter().fold(CauseSet::NONE, |all, some| all.union(*some)),
            crash_budget: None,
        }
    }
}
