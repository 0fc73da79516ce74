//! Why work was parked, as data that is kept with its event, and in words for people.

use serde::{Deserialize, Serialize};

use super::rate::Rate;
use crate::lang::{Lang, text};

/// Why work was parked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum ParkedWhy {
    /// The target is sick: nobody calls it.
    Open {
        /// So many calls had failed …
        failed: u32,
        /// … of so many.
        calls: u32,
    },
    /// The target refuses everybody: credentials or permissions are wrong for all.
    Refused {
        /// So many calls, none of which succeeded.
        calls: u32,
    },
    /// A few others try whether it is well again.
    Probing,
    /// It is well again, and what waited comes back bit by bit.
    Recovering,
    /// So many calls may begin in a time.
    Rate {
        /// The rate.
        rate: Rate,
    },
    /// So many calls may run at a time.
    Concurrency {
        /// The number.
        limit: u32,
    },
    /// The budget for retries and redriven work is spent.
    Budget,
    /// What the others do could not be made out in time, and a limit must not be passed.
    Contended,
}

impl ParkedWhy {
    /// A short name for labels and filters.
    pub const fn name(&self) -> &'static str {
        match self {
            ParkedWhy::Open { .. } => "open",
            ParkedWhy::Refused { .. } => "refused",
            ParkedWhy::Probing => "probing",
            ParkedWhy::Recovering => "recovering",
            ParkedWhy::Rate { .. } => "rate",
            ParkedWhy::Concurrency { .. } => "concurrency",
            ParkedWhy::Budget => "budget",
            ParkedWhy::Contended => "contended",
        }
    }

    /// What is the matter with this target, in words.
    ///
    /// ```
    /// use redrive_policy::{Lang, protection::ParkedWhy};
    /// let why = ParkedWhy::Open { failed: 37, calls: 40 };
    /// assert_eq!(why.words("host:api.example.com", Lang::En), "host:api.example.com has failed 37 of its last 40 calls");
    /// ```
    pub fn words(&self, target: &str, lang: Lang) -> String {
        let key = format!("protection.{}", self.name());
        match self {
            ParkedWhy::Open { failed, calls } => {
                text(lang, &key, &[("target", &target), ("failed", failed), ("calls", calls)])
            }
            ParkedWhy::Refused { calls } => text(lang, &key, &[("target", &target), ("calls", calls)]),
            ParkedWhy::Rate { rate } => text(lang, &key, &[("target", &target), ("rate", rate)]),
            ParkedWhy::Concurrency { limit } => text(lang, &key, &[("target", &target), ("limit", limit)]),
            ParkedWhy::Probing | ParkedWhy::Recovering | ParkedWhy::Budget | ParkedWhy::Contended => {
                text(lang, &key, &[("target", &target)])
            }
        }
    }
}
