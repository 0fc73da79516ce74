//! Files that a command works on are kept before it, and put back when it fails (R-T3, R-P14).
//!
//! A snapshot is taken before the first attempt of a job's life; later attempts, and the one after a crash, begin with the
//! files as they were then. Its name is made from the job and its lease, so that whoever takes the job over finds it. A
//! snapshot that cannot be made is told and done without; files that cannot be put back are a person's to look at.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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

/// Where snapshots are kept; made and opened when the first one is wanted.
#[derive(Debug)]
pub(super) struct SnapshotPlace {
    dir: PathBuf,
    never: Vec<PathBuf>,
    opened: Mutex<Option<Arc<Snapshots>>>,
}

impl SnapshotPlace {
    pub(super) fn new(dir: PathBuf, never: Vec<PathBuf>) -> SnapshotPlace {
        SnapshotPlace { dir, never, opened: Mutex::new(None) }
    }

    /// Opens it, once; restores that were cut short are finished by that. Blocks.
    fn open(&self) -> Result<Arc<Snapshots>, SnapshotError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshots) = &*opened {
            return Ok(Arc::clone(snapshots));
        }
        let snapshots = Arc::new(Snapshots::open(&self.dir)?.never_touching(self.never.iter().cloned()));
        *opened = Some(Arc::clone(&snapshots));
        Ok(snapshots)
    }
}

/// What protects an attempt's files.
pub(super) struct Guard {
    kept: Option<Kept>,
}

struct Kept {
    place: Arc<SnapshotPlace>,
    id: SnapshotId,
    base: PathBuf,
}

/// What was put back, as the trace tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PutBack {
    pub(super) snapshot_id: String,
    pub(super) restored_files: Vec<String>,
    pub(super) deleted_files: Vec<String>,
}

impl PutBack {
    /// Names are told from where the work's paths are meant.
    fn of(restored: &Restored, base: &Path) -> PutBack {
        let name = |path: &PathBuf| redact(&path.strip_prefix(base).unwrap_or(path).to_string_lossy());
        let names = |paths: &[PathBuf]| paths.iter().take(NAMES).map(name).collect();
        PutBack {
            snapshot_id: restored.snapshot_id.to_string(),
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
    let Some(place) = engine.0.snapshots.clone() else {
        engine.unprotected(running, "this worker has no place for snapshots").await;
        return Ok(Guard { kept: None });
    };
    let job = running.job_id();
    if running.attempt > 1 || running.crashes > 0 {
        match newest(&place, job).await {
            Ok(Some(id)) => {
                let guard = Guard { kept: Some(Kept { place, id, base: protected.base.clone() }) };
                return guard.put_back(running).await.map(|()| guard);
            }
            Ok(None) => {}
            Err(error) => return Err(Box::new(not_restored(&error, Duration::ZERO))),
        }
    }
    let request = request(engine, job, running.token.fence, protected, running);
    let now = engine.now();
    match at(&place, move |snapshots| snapshots.create(&request, now.millis())).await {
        Ok(created) => {
            let (id, base) = (created.snapshot.id, protected.base.clone());
            Ok(Guard { kept: Some(Kept { place, id, base }) })
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
        ignore: plan.ignore.clone(),
        task_id: running.job.caller_id.clone().or_else(|| Some(job.to_string())),
        keep_for: Duration::from_hours(u64::from(engine.0.recovery.snapshot_retention_hours)),
        ..SnapshotRequest::of(plan.roots.iter().map(|root| protected.base.join(root)))
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
async fn newest(place: &Arc<SnapshotPlace>, job: JobId) -> Result<Option<SnapshotId>, SnapshotError> {
    at(place, move |snapshots| Ok(snapshots.ids_beginning(&prefix(job))?.into_iter().max())).await
}

impl Guard {
    /// How many files the command has changed so far; nothing when nobody knows.
    pub(super) async fn changed(&self) -> Option<usize> {
        let Kept { place, id, .. } = self.kept.as_ref()?;
        let id = id.clone();
        match at(place, move |snapshots| snapshots.diff(&id)).await {
            Ok(differences) => Some(differences.len()),
            Err(error) => {
                tracing::warn!(%error, "what a command has changed is not known");
                None
            }
        }
    }

    /// After an attempt: what it did is remembered as its own, or undone.
    pub(super) async fn over(self, running: &Running, executed: Executed) -> Executed {
        let Some(Kept { place, id, .. }) = &self.kept else { return executed };
        if executed.outcome == Outcome::Succeeded {
            let (id, now) = (id.clone(), running.engine().now().millis());
            if let Err(error) = at(place, move |snapshots| snapshots.mark_after(&id, now)).await {
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
        let Some(Kept { place, id, base }) = &self.kept else { return Ok(()) };
        let began = std::time::Instant::now();
        match restore(place, id.clone(), base, Scope::Everything, running.engine().now()).await {
            Ok(put_back) if put_back.is_empty() => Ok(()),
            Ok(put_back) => {
                running.engine().tell_put_back(running, &put_back).await;
                Ok(())
            }
            Err(error) => Err(Box::new(not_restored(&error, began.elapsed()))),
        }
    }
}

/// Puts files back.
async fn restore(
    place: &Arc<SnapshotPlace>,
    id: SnapshotId,
    base: &Path,
    scope: Scope,
    now: Timestamp,
) -> Result<PutBack, SnapshotError> {
    let options = RestoreOptions { scope, ..RestoreOptions::default() };
    let restored = at(place, move |snapshots| snapshots.restore(&id, options, now.millis())).await?;
    Ok(PutBack::of(&restored, base))
}

/// An attempt whose files could not be put back: nobody but a person can go on (R-P14).
fn not_restored(error: &SnapshotError, elapsed: Duration) -> Executed {
    let evidence = Evidence {
        said: Some((Cause::HumanJudgment, Verdict::No)),
        error_type: "Snapshot".to_owned(),
        message: format!("the files could not be put back: {}", one_line(&error.to_string())),
        ..Evidence::default()
    };
    Executed::silent(Outcome::failed(evidence), elapsed)
}

impl Engine {
    /// Puts back what the last life of a job has changed, where nobody else has changed it since. Nothing when there was
    /// nothing to put back, or snapshots are turned off.
    #[cfg(feature = "tasks")]
    pub(super) async fn undo_job(
        &self,
        job: JobId,
        base: &Path,
        scope: Scope,
    ) -> Result<Option<PutBack>, SnapshotError> {
        let Some(place) = self.0.snapshots.as_ref().filter(|_| self.0.recovery.enable_snapshots) else {
            return Ok(None);
        };
        let Some(id) = newest(place, job).await? else {
            return Err(SnapshotError::NotFound { id: format!("{}0", prefix(job)).parse()? });
        };
        let put_back = restore(place, id, base, scope, self.now()).await?;
        Ok(Some(put_back).filter(|put_back| !put_back.is_empty()))
    }

    /// Finishes restores that were cut short, and lets go of snapshots whose time is over. Does nothing where there are none.
    pub async fn tidy_snapshots(&self) -> Result<(), SnapshotError> {
        let Some(place) = self.0.snapshots.as_ref().filter(|place| place.dir.is_dir()) else {
            return Ok(());
        };
        let now = self.now().millis();
        at(place, move |snapshots| snapshots.prune(now, None)).await.map(|_| ())
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

/// Does something with the snapshots, where nobody else waits for the disk.
async fn at<T: Send + 'static>(
    place: &Arc<SnapshotPlace>,
    work: impl FnOnce(&Snapshots) -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, SnapshotError> {
    let place = Arc::clone(place);
    match tokio::task::spawn_blocking(move || work(&*place.open()?)).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going away, and everything with it.
            Err(_) => std::future::pending().await,
        },
    }
}
