//! Who is told of an escalation, and when: once it is durable, and once only (R-T8).
//!
//! With `escalate.notify_immediately` whoever listens is told at once. Otherwise what happens is gathered and handed
//! over together, at most once a minute, and when a worker or the engine ends. Nothing waits for a listener, and one
//! that panics is logged.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_policy::EscalationReport;
use redrive_store::{Ending, JobId, JobState, Settled, Settlement};

use crate::engine::Engine;
use crate::hooks::guarded;

/// How long escalations are gathered.
const GATHER_FOR: Duration = Duration::from_mins(1);
/// How many are gathered; one more, and they are handed over before their time.
const MOST_GATHERED: usize = 1_000;

/// Something that a person is told of: a job that was set aside, or a task that cannot go on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Escalated {
    /// The task's or the job's id, as people write it.
    pub id: String,
    /// What there is to say, with the message for a person.
    pub report: EscalationReport,
}

/// Whoever wants to be told.
pub(in crate::engine) struct Listener(pub(in crate::engine) Box<Hears>);

type Hears = dyn Fn(&[Escalated]) + Send + Sync;

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// What is told, and to whom.
#[derive(Debug)]
pub(in crate::engine) struct Telling {
    listener: Option<Listener>,
    pub(in crate::engine) at_once: AtomicBool,
    gathered: Mutex<Gathered>,
}

#[derive(Debug, Default)]
struct Gathered {
    waiting: Vec<Escalated>,
    /// On the steady reading, when the first of them came.
    since: Duration,
}

impl Telling {
    pub(in crate::engine) fn new(listener: Option<Listener>, at_once: bool) -> Telling {
        Telling { listener, at_once: AtomicBool::new(at_once), gathered: Mutex::default() }
    }

    fn add(&self, escalated: Vec<Escalated>, steady: Duration) {
        if escalated.is_empty() {
            return;
        }
        if self.at_once.load(Ordering::Relaxed) {
            self.tell(&escalated);
            return;
        }
        let ready = {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            if gathered.waiting.is_empty() {
                gathered.since = steady;
            }
            gathered.waiting.extend(escalated);
            let full = gathered.waiting.len() >= MOST_GATHERED;
            gathered.take_if(steady, full)
        };
        self.tell(&ready);
    }

    fn hand_over(&self, steady: Duration, whatever_the_time: bool) {
        let ready = {
            let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
            gathered.take_if(steady, whatever_the_time)
        };
        self.tell(&ready);
    }

    /// The lock is free here: a listener may use the engine.
    fn tell(&self, escalated: &[Escalated]) {
        if let Some(Listener(listener)) = self.listener.as_ref().filter(|_| !escalated.is_empty()) {
            guarded("on_escalation", || listener(escalated));
        }
    }
}

impl Gathered {
    fn take_if(&mut self, steady: Duration, wanted: bool) -> Vec<Escalated> {
        let due = !self.waiting.is_empty() && steady.saturating_sub(self.since) >= GATHER_FOR;
        if due || wanted { std::mem::take(&mut self.waiting) } else { Vec::new() }
    }
}

/// An engine that ends leaves nobody uninformed.
impl Drop for Telling {
    fn drop(&mut self) {
        self.hand_over(Duration::ZERO, true);
    }
}

impl Engine {
    /// Tells of the jobs that these settlements have set aside. `in_doubt` when they may have been written by a try
    /// before, of which nobody heard: then the store knows.
    pub(in crate::engine) async fn tell_letters(
        &self,
        settlements: &[Settlement],
        settled: &[Settled],
        in_doubt: bool,
    ) {
        #[cfg(feature = "alerts")]
        if settlements.iter().any(|settlement| matches!(settlement.ending, Ending::Dead { .. })) {
            self.alert_soon();
        }
        if self.0.telling.listener.is_none() {
            return;
        }
        let mut escalated = Vec::new();
        for (Settlement { token, ending }, settled) in settlements.iter().zip(settled) {
            let Ending::Dead { letter, .. } = ending else { continue };
            let written = match settled {
                Settled::Done { .. } => true,
                Settled::Stale if in_doubt => self.is_letter(token.job, &letter.report).await,
                Settled::Stale | Settled::Cancelled { .. } => false,
            };
            match serde_json::from_value::<EscalationReport>(letter.report.clone()) {
                // A task speaks for its subtasks, once it has found out what becomes of them.
                Ok(report) if written && report.subtask_id.is_none() => {
                    escalated.push(Escalated { id: token.job.to_string(), report });
                }
                Ok(_) => {}
                Err(error) => tracing::error!(job = %token.job, %error, "a letter has no report to be told"),
            }
        }
        self.0.telling.add(escalated, self.clock().steady());
    }

    async fn is_letter(&self, job: JobId, report: &serde_json::Value) -> bool {
        match self.store().job(job).await {
            Ok(Some(record)) => {
                matches!(&record.state, JobState::Dead(letter) if letter.report == *report)
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(%job, %error, "nobody knows whether a letter was written; nobody is told of it");
                false
            }
        }
    }

    /// Tells of something else that a person has to know, such as a task that cannot go on. It is durable by now.
    #[cfg(feature = "tasks")]
    pub(in crate::engine) fn tell_escalation(&self, id: String, report: EscalationReport) {
        self.0.telling.add(vec![Escalated { id, report }], self.clock().steady());
    }

    /// Hands over what was gathered, if its time has come.
    pub(in crate::engine) fn tell_gathered(&self) {
        self.0.telling.hand_over(self.clock().steady(), false);
    }

    /// Hands over what was gathered, whatever the time: somebody leaves.
    pub(in crate::engine) fn tell_the_rest(&self) {
        self.0.telling.hand_over(self.clock().steady(), true);
    }
}
