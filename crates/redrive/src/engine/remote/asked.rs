//! What workers elsewhere ask for, so that people are told who takes what: each queue and set of kinds that was asked for within the
//! last minute stands in the store as a worker of its own. How many processes ask for the same is not known; they count as one.

use std::sync::Arc;
use std::time::Duration;

use redrive_store::{StoreError, Takes, Timestamp, WorkerId};
use tokio::sync::Mutex;

use super::RemoteRequest;
use crate::engine::Engine;

/// How long after its last request somebody counts as there: longer than workers pause between two.
const STAYS: Duration = Duration::from_mins(1);
/// How much of that may be left before it is written down anew.
const RENEWED_AT: Duration = Duration::from_secs(30);
/// The most that one process remembers; who asks for anything else goes untold.
const MOST: usize = 64;

/// What is asked for at one place.
#[derive(Clone, Default)]
pub(super) struct Asked(Arc<Mutex<Vec<Entry>>>);

struct Entry {
    takes: Takes,
    worker: WorkerId,
    until: Timestamp,
}

impl Asked {
    /// Somebody asks for this, and waits for it. Trouble is told to nobody but the log: the work goes on without.
    pub(super) async fn note(&self, engine: &Engine, request: &RemoteRequest) {
        if let Err(error) = self.try_note(engine, request).await {
            tracing::debug!(%error, "what a worker elsewhere takes is not written down");
        }
    }

    async fn try_note(&self, engine: &Engine, request: &RemoteRequest) -> Result<(), StoreError> {
        let now = engine.now();
        let mut entries = self.0.lock().await;
        let is_it = |takes: &Takes| takes.queues == request.queues && takes.kinds == request.kinds;
        let known = entries.iter().position(|entry| is_it(&entry.takes));
        let lasts = request.wait.saturating_add(STAYS);
        if let Some(entry) = known.and_then(|at| entries.get_mut(at)).filter(|entry| entry.until > now) {
            if entry.until < now.after(request.wait.saturating_add(RENEWED_AT)) {
                engine.store().renew(now, entry.worker, lasts, Vec::new()).await?;
                entry.until = now.after(lasts);
            }
            return Ok(());
        }
        // Whose time is over was taken for gone, and comes anew.
        while let Some(at) = entries.iter().position(|entry| entry.until <= now) {
            engine.store().unregister(now, entries.swap_remove(at).worker).await?;
        }
        if entries.len() < MOST {
            let takes = Takes { queues: request.queues.clone(), kinds: request.kinds.clone() };
            let label = format!("workers elsewhere, by way of process {}", std::process::id());
            let worker = engine.store().register(now, label, lasts).await?;
            entries.push(Entry { takes: takes.clone(), worker, until: now.after(lasts) });
            engine.store().takes(worker, takes).await?;
        }
        Ok(())
    }
}
