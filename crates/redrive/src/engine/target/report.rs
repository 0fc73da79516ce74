//! A target as JSON: the same fields in the API and on the command line.

use redrive_policy::Lang;
use redrive_policy::protection::{Phase, Protection, Rate};
use redrive_store::Timestamp;
use serde::Serialize;

use super::TargetView;

/// A target as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetReport {
    /// Its name: `host:api.example.com`, `queue:mail`, `key:tenant-7`.
    pub name: String,
    /// `closed`, `open`, `half_open` or `ramp`.
    pub state: &'static str,
    /// When it is tried again, while nobody calls it.
    pub tried_again_at: Option<Timestamp>,
    /// Why nobody calls it, or few do, in words.
    pub why: Option<String>,
    /// Calls of late.
    pub calls: u32,
    /// Those that say that it is sick.
    pub failed: u32,
    /// Those that it refused for want of a right.
    pub refused: u32,
    /// Calls that run now; known only where they are limited.
    pub running: Option<u32>,
    /// Jobs that are parked now, about.
    pub parked: u32,
    /// Jobs that were parked so far.
    pub parked_total: u64,
    /// How often nobody called it any more.
    pub opened_total: u64,
    /// Retries and redriven jobs that it can bear at once.
    pub retry_budget: Option<u32>,
    /// How many calls may begin in a time.
    pub rate: Option<Rate>,
    /// How many of them may come at once.
    pub burst: Option<u32>,
    /// How many calls may run at a time.
    pub concurrency: Option<u32>,
    /// Whether somebody has set a limit while everything runs.
    pub limited: bool,
}

impl TargetView {
    /// The target as JSON, with words in this language.
    pub fn report(&self, lang: Lang) -> TargetReport {
        let Protection { rate, burst, concurrency, .. } = self.protection;
        TargetReport {
            name: self.name.clone(),
            state: self.phase.name(),
            tried_again_at: self.next_at(),
            why: self.why().map(|why| why.words(&self.name, lang)),
            calls: self.standing.calls,
            failed: self.standing.failed,
            refused: self.standing.refused,
            running: concurrency.map(|_| self.standing.running),
            parked: self.standing.parked,
            parked_total: self.parked_total,
            opened_total: self.opened_total,
            retry_budget: self.standing.budget,
            rate,
            burst,
            concurrency,
            limited: self.limits.is_some(),
        }
    }

    /// Whether somebody should look at it: nobody calls it, few do, or work waits for it.
    pub fn is_troubled(&self) -> bool {
        self.phase != Phase::Closed || self.standing.parked > self.standing.put_off
    }
}
