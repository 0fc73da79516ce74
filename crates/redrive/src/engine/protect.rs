//! Files that a command works on are kept before it, and put back when it fails (R-T3, R-P14).
//!
//! A snapshot is taken before the first attempt of a job's life; later attempts, and the one after a crash, begin with the
//! files as they were then. Its name is made from the job and its lease, so that whoever takes the job over finds it. A
//! snapshot that cannot be made is told and done without; files that cannot be put back are a person's to look at.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, Verdict, one_line};
use redrive_store::{EventStatus, JobId, Timestamp};
use serde_json::{Value, json};

use super::{Engine, Running};
use crate::exec::Protected;
use crate::outcome::{Evidence, Executed, Outcome};
use crate::secrets::redact;
use crate::snapshot::{
    RestoreOptions, Restored, Scope, SnapshotError, SnapshotId, SnapshotRequest, Snapshots,
};

/// How many names an event tells.
const NAMES: usize = 1_000;

/// What protects an attempt's files.
pub(super) struct Guard {
    kept: Option<Kept>,
}

struct Kept {
    snapshots: Arc<Snapshots>,
    id: SnapshotId,
}

/// What was put back, as the trace tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PutBack {
    pub(super) snapshot_id: String,
    pub(super) restored_files: Vec<String>,
    pub(super) deleted_files: Vec<String>,
}

impl PutBack {
    fn of(restored: &Restored) -> PutBack {
        let names = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().take(NAMES).map(|path| redact(&path.to_string_lossy())).collect()
        };
        PutBack {
            snapshot_id: restored.id.to_string(),
            restored_files: names(&restored.restored_files),
            deleted_files: names(&restored.deleted_files),
        }
    }

    fn is_empty(&self) -> bool {
        self.restored_files.is_empty() && self.deleted_files.is_empty()
    }

    /// The fields of 002 §6.3.
    pub(super) fn to_data(&self) -> Value {
        json!({
            "snapshot_id": self.snapshot_id,
            "restored_files": self.restored_files,
            "deleted_files": self.deleted_files,
        })
    }
}

/// Before an attempt: the files are kept, or put back to what they were before the first one. The error is how the attempt
/// ends when they cannot be.
pub(super) async fn begin(running: &Running, protected: Option<&Protected>) -> Result<Guard, Box<Executed>> {
    let engine = running.engine();
    let Some(protected) = protected.filter(|_| engine.0.recovery.enable_snapshots) else {
        return Ok(Guard { kept: None });
    };
    let Some(snapshots) = engine.0.snapshots.clone() else {
        engine.unprotected(running, "this worker has no place for snapshots").await;
        return Ok(Guard { kept: None });
    };
    let job = running.job_id();
    if running.attempt > 1 || running.crashes > 0 {
        match newest(&snapshots, job).await {
            Ok(Some(id)) => {
                let guard = Guard { kept: Some(Kept { snapshots, id }) };
                return guard.put_back(running).await.map(|()| guard);
            }
            Ok(None) => {}
            Err(error) => return Err(not_restored(&error, Duration::ZERO)),
        }
    }
    let request = request(engine, job, running.token.fence, protected, running);
    let now = engine.now();
    let (place, made) = (Arc::clone(&snapshots), request.id.clone());
    match blocking(move || place.create(&request, now.millis())).await {
        Ok(created) => {
            let id = made.unwrap_or(created.snapshot.id);
            Ok(Guard { kept: Some(Kept { snapshots, id }) })
        }
        // R-P14: warned of, and done without.
        Err(error) => {
            engine.unprotected(running, &error.to_string()).await;
            Ok(Guard { kept: None })
        }
    }
}

fn request(
    engine: &Engine,
    job: JobId,
    fence: i64,
    protected: &Protected,
    running: &Running,
) -> SnapshotRequest {
    let plan = &protected.plan;
    let mut request = SnapshotRequest {
        id: format!("{}{fence:010}", prefix(job)).parse().ok(),
        roots: plan.roots.iter().map(|root| protected.base.join(root)).collect(),
        ignore: plan.ignore.clone(),
        task_id: running.job.caller_id.clone().or_else(|| Some(job.to_string())),
        retention: Duration::from_hours(u64::from(engine.0.recovery.snapshot_retention_hours)),
        ..SnapshotRequest::default()
    };
    if let Some(max) = plan.max_bytes {
        request.limits.max_bytes = max;
    }
    if let Some(max) = plan.max_entries {
        request.limits.max_entries = max;
    }
    request
}

/// What the names of a job's snapshots begin with.
fn prefix(job: JobId) -> String {
    format!("snap-{job}-")
}

/// The snapshot of a job's latest life.
async fn newest(snapshots: &Arc<Snapshots>, job: JobId) -> Result<Option<SnapshotId>, SnapshotError> {
    let snapshots = Arc::clone(snapshots);
    blocking(move || Ok(snapshots.ids_beginning(&prefix(job))?.into_iter().max())).await
}

impl Guard {
    /// How many files the command has changed so far; nothing when nobody knows.
    pub(super) async fn changed(&self) -> Option<usize> {
        let Kept { snapshots, id } = self.kept.as_ref()?;
        let (snapshots, id) = (Arc::clone(snapshots), id.clone());
        match blocking(move || snapshots.diff(&id)).await {
            Ok(differences) => Some(differences.len()),
            Err(error) => {
                tracing::warn!(%error, "what a command has changed is not known");
                None
            }
        }
    }

    /// After an attempt: what it did is remembered as its own, or undone.
    pub(super) async fn over(self, running: &Running, executed: Executed) -> Executed {
        let Some(Kept { snapshots, id }) = &self.kept else { return executed };
        if executed.outcome == Outcome::Succeeded {
            let (place, id) = (Arc::clone(snapshots), id.clone());
            let now = running.engine().now().millis();
            if let Err(error) = blocking(move || place.mark_after(&id, now)).await {
                // Undoing it later will take every difference for its own, or find that it cannot.
                tracing::warn!(job = %running.job_id(), %error, "what a command has changed is not kept");
            }
            return executed;
        }
        match self.put_back(running).await {
            Ok(()) => executed,
            // What the command died of is told as well.
            Err(mut trouble) => {
                if let (Outcome::Failed(why), Outcome::Failed(evidence)) =
                    (&mut trouble.outcome, &executed.outcome)
                {
                    why.message = format!("{} (after: {})", why.message, evidence.summary());
                }
                Executed { outcome: trouble.outcome, ..executed }
            }
        }
    }

    /// Puts the files back, and tells so if there was anything to put back.
    async fn put_back(&self, running: &Running) -> Result<(), Box<Executed>> {
        let Some(Kept { snapshots, id }) = &self.kept else { return Ok(()) };
        let began = std::time::Instant::now();
        let now = running.engine().now();
        match restore(Arc::clone(snapshots), id.clone(), Scope::Everything, now).await {
            Ok(put_back) if put_back.is_empty() => Ok(()),
            Ok(put_back) => {
                running.engine().tell_put_back(running, &put_back).await;
                Ok(())
            }
            Err(error) => Err(not_restored(&error, began.elapsed())),
        }
    }
}

/// Puts files back, and remembers that nothing of the work is left in them.
async fn restore(
    snapshots: Arc<Snapshots>,
    id: SnapshotId,
    scope: Scope,
    now: Timestamp,
) -> Result<PutBack, SnapshotError> {
    blocking(move || {
        let restored = snapshots.restore(&id, &RestoreOptions { scope, ..RestoreOptions::default() })?;
        snapshots.mark_after(&id, now.millis())?;
        Ok(PutBack::of(&restored))
    })
    .await
}

/// An attempt whose files could not be put back: nobody but a person can go on (R-P14).
fn not_restored(error: &SnapshotError, elapsed: Duration) -> Box<Executed> {
    let evidence = Evidence {
        said: Some((Cause::HumanJudgment, Verdict::No)),
        error_type: "Snapshot".to_owned(),
        message: format!("the files could not be put back: {}", one_line(&error.to_string())),
        ..Evidence::default()
    };
    Box::new(Executed::silent(Outcome::failed(evidence), elapsed))
}

impl Engine {
    /// Puts back what the last life of a job has changed, where nobody else has changed it since. Nothing when it had no
    /// snapshot.
    #[cfg(feature = "tasks")]
    pub(super) async fn undo_job(&self, job: JobId) -> Result<Option<PutBack>, SnapshotError> {
        let Some(snapshots) = self.0.snapshots.clone().filter(|_| self.0.recovery.enable_snapshots) else {
            return Ok(None);
        };
        let Some(id) = newest(&snapshots, job).await? else { return Ok(None) };
        let put_back = restore(snapshots, id, Scope::OwnChanges, self.now()).await?;
        Ok(Some(put_back).filter(|put_back| !put_back.is_empty()))
    }

    /// Files are put back: an event beside the job says which.
    async fn tell_put_back(&self, running: &Running, put_back: &PutBack) {
        let event = self
            .emit("snapshot_restore", &running.job.source)
            .job(running.job_id())
            .status(EventStatus::Success)
            .data(&put_back.to_data());
        self.tell_beside(running, event).await;
    }

    /// No files are kept: an event beside the job says why.
    async fn unprotected(&self, running: &Running, why: &str) {
        let why = one_line(why);
        tracing::warn!(job = %running.job_id(), why, "a command runs without a snapshot");
        let event = self
            .emit("snapshot_missing", &running.job.source)
            .job(running.job_id())
            .status(EventStatus::Success)
            .importance(4)
            .data(&json!({ "why": why }));
        self.tell_beside(running, event).await;
    }

    async fn tell_beside(&self, running: &Running, event: super::Emit) {
        let event = match &running.job.caller_id {
            Some(caller) => event.caller_id(caller),
            None => event,
        };
        if let Err(error) = event.await {
            tracing::warn!(job = %running.job_id(), %error, "an event about files could not be written");
        }
    }
}

/// Runs what waits for disks where nobody else waits for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, SnapshotError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away, and everything with it.
            Err(_) => std::future::pending().await,
        },
    }
}
