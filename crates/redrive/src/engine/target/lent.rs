//! Work that is lent to workers elsewhere. It has its place under its lease: whichever process lent it, any may extend it and end it, and a
//! server that goes takes no place along that is still needed.

use std::sync::Arc;
use std::time::Duration;

use redrive_policy::protection::CallResult;
use redrive_store::{Job, LeaseToken};

use super::name::MadeBy;
use crate::engine::Engine;

/// A lease of a worker elsewhere whose job goes to a protected target.
#[derive(Debug)]
pub(in crate::engine) struct Lent<'a> {
    pub(in crate::engine) token: LeaseToken,
    pub(in crate::engine) queue: &'a str,
    pub(in crate::engine) key: Option<&'a str>,
}

/// What is new of it.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) enum News {
    /// It lasts for so long from now on.
    Lasts(Duration),
    /// It is over; what came of it, if anybody knows.
    Over(Option<CallResult>),
}

/// How a lease is called on the board.
pub(super) fn place_of(token: LeaseToken) -> String {
    format!("{:x}.{}", token.job.0, token.fence)
}

impl Engine {
    /// Whether a job that a worker elsewhere gets goes to a protected target.
    pub(in crate::engine) fn is_protected_elsewhere(&self, job: &Job) -> bool {
        !self.targets_known().rules().targets_of(job, MadeBy::Elsewhere).is_empty()
    }

    /// Hears what is new of work that was lent, here or by another process, and tells the others.
    pub(in crate::engine) async fn hear_of_lent(&self, heard: Vec<(Lent<'_>, News)>) {
        if heard.is_empty() {
            return;
        }
        if self.targets_known().rules().read_at.is_none()
            && let Err(error) = self.read_limits(true).await
        {
            tracing::warn!(%error, "what became of calls is not told: limits cannot be read");
            return;
        }
        let now = match self.store_now().await {
            Ok(now) => now,
            Err(error) => {
                tracing::warn!(%error, "what became of calls is not told: the store's clock cannot be read");
                return;
            }
        };
        let rules = self.targets_known().rules();
        for (lent, news) in heard {
            let mut local = self.targets_known().local();
            for name in rules.targets_elsewhere(lent.queue, lent.key) {
                let settings = rules.of(&name);
                let known = local.entry(Arc::from(name)).or_default();
                if settings.concurrency.is_some() {
                    let lasts = match news {
                        News::Lasts(left) => Some(now.after(left).millis()),
                        News::Over(_) => None,
                    };
                    known.untold.leases.insert(place_of(lent.token), lasts);
                    known.untold.urgent = true;
                }
                if let News::Over(Some(result)) = news {
                    known.add(&settings, result);
                }
            }
        }
        let due = self.targets_to_tell(true);
        if !due.is_empty() {
            self.tell_targets(&due).await;
        }
    }
}
