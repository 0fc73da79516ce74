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
use crate::hooks::guarded;
use crate::outcome::{Evidence, Executed, Outcome};
use crate::secrets::redact;
use crate::snapshot::{
    NEEDED, RestoreOptions, Restored, Scope, SnapshotError, SnapshotId, SnapshotRequest, Snapshots,
};

/// How many names an event tells.
const NAMES: usize = 1_000;
/// By whom a snapshot is needed that an attempt works on.
const AT_WORK: &str = "at-work";

/// What happened to the files of a command, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileNews {
    /// They are as they were before it.
    PutBack {
        /// Files that are as they were.
        restored: usize,
        /// Files that were moved aside.
        aside: usize,
    },
    /// They are not kept, and will not be put back.
    Unprotected {
        /// Why.
        why: String,
    },
}

/// Whoever wants to hear of it, with the job's source.
pub(super) type FileListener = Box<dyn Fn(JobId, &str, &FileNews) + Send + Sync>;

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

    /// Where it is noted that an attempt works on the files of a snapshot, which is not pruned meanwhile. The note goes when
    /// they are put back, or are as the work wants them; one that is still there tells that nobody got that far. It need
    /// not outlive the machine: then the lease has not, either, and the attempt is known to have crashed.
    fn note(&self, id: &SnapshotId) -> PathBuf {
        self.dir.join(NEEDED).join(AT_WORK).join(id.as_str())
    }

    /// Notes that a snapshot is needed, by whom.
    fn need(&self, by: &str, id: &SnapshotId) -> Result<(), SnapshotError> {
        let folder = self.dir.join(NEEDED).join(by);
        let path = folder.join(id.as_str());
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, b""));
        written.map_err(|source| SnapshotError::Io { doing: "note", path, source })
    }

    fn remove_note(&self, id: &SnapshotId) {
        let path = self.note(id);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            // The next attempt puts back once more what is as it was.
            tracing::warn!(%error, path = %path.display(), "a note could not be removed");
        }
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
    let Some(protected) = protected.filter(|_| engine.held().recovery.enable_snapshots) else {
        return Ok(Guard { kept: None });
    };
    let Some(place) = engine.0.snapshots.clone() else {
        engine.unprotected(running, "this worker has no place for snapshots").await;
        return Ok(Guard { kept: None });
    };
    let job = running.job_id();
    match newest(&place, job).await {
        // A snapshot of an earlier life is no longer of use, unless that life was cut short with its files as they were then.
        Ok(Some(id)) if running.attempt > 1 || running.crashes > 0 || place.note(&id).exists() => {
            let guard = Guard { kept: Some(Kept { place, id, base: protected.base.clone() }) };
            guard.put_back(running).await?;
            return guard.at_work();
        }
        Ok(_) => {}
        Err(error) => return Err(Box::new(not_restored(&error, Duration::ZERO))),
    }
    if let Some(root) = leads_out(protected) {
        engine.unprotected(running, &format!("{root:?} leads out of {}", protected.base.display())).await;
        return Ok(Guard { kept: None });
    }
    let request = request(engine, job, running.token.fence, protected, running);
    let now = engine.now();
    // Noted before, so that nobody prunes it in between.
    let noted = request.id.as_ref().map_or(Ok(()), |id| place.need(AT_WORK, id));
    let created = match noted {
        Ok(()) => at(&place, move |snapshots| snapshots.create(&request, now.millis())).await,
        Err(error) => Err(error),
    };
    match created {
        Ok(created) => {
            let (id, base) = (created.snapshot.id, protected.base.clone());
            Guard { kept: Some(Kept { place, id, base }) }.at_work()
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
        keep_for: Duration::from_hours(u64::from(engine.held().recovery.snapshot_retention_hours)),
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

/// Whether a caller is a task, by its name.
fn is_task(caller: &str) -> bool {
    caller.parse::<redrive_store::TaskId>().is_ok()
}

/// The first root that was meant below the base and is not, by way of a link.
fn leads_out(protected: &Protected) -> Option<&String> {
    let base = protected.base.canonicalize().ok()?;
    let out = |root: &&String| {
        Path::new(root.as_str()).is_relative()
            && protected.base.join(root).canonicalize().is_ok_and(|path| !path.starts_with(&base))
    };
    protected.plan.roots.iter().find(out)
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
    /// Notes that the work begins.
    fn at_work(self) -> Result<Guard, Box<Executed>> {
        let noted = self.kept.as_ref().map_or(Ok(()), |kept| kept.place.need(AT_WORK, &kept.id));
        noted.map(|()| self).map_err(|error| Box::new(not_restored(&error, Duration::ZERO)))
    }

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
            let (marked, now) = (id.clone(), running.engine().now().millis());
            if let Err(error) = at(place, move |snapshots| snapshots.mark_after(&marked, now)).await {
                // Undoing it later will take every difference for its own, or find that it cannot.
                tracing::warn!(job = %running.job_id(), %error, "what a command has changed is not kept");
            }
            // Its task may take it back while it is not over.
            if let Some(task) = running.job.caller_id.as_deref().filter(|caller| is_task(caller))
                && let Err(error) = place.need(task, id)
            {
                tracing::warn!(job = %running.job_id(), %error, "a snapshot may be pruned before its task is over");
            }
            place.remove_note(id);
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
            Ok(put_back) => {
                place.remove_note(id);
                if !put_back.is_empty() {
                    running.engine().tell_put_back(running, &put_back).await;
                }
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
        let Some(place) = self.0.snapshots.as_ref().filter(|_| self.held().recovery.enable_snapshots) else {
            return Ok(None);
        };
        let Some(id) = newest(place, job).await? else {
            return Err(SnapshotError::NotFound { id: format!("{}0", prefix(job)).parse()? });
        };
        let put_back = restore(place, id, base, scope, self.now()).await?;
        Ok(Some(put_back).filter(|put_back| !put_back.is_empty()))
    }

    /// Puts back what an attempt of a job has left behind that nobody let end: a new job takes its place.
    #[cfg(feature = "tasks")]
    pub(super) async fn clear_up_after(
        &self,
        job: JobId,
        base: &Path,
    ) -> Result<Option<PutBack>, SnapshotError> {
        let Some(place) = self.0.snapshots.as_ref().filter(|place| place.dir.join(NEEDED).is_dir()) else {
            return Ok(None);
        };
        let Some(id) = newest(place, job).await?.filter(|id| place.note(id).exists()) else {
            return Ok(None);
        };
        let put_back = restore(place, id.clone(), base, Scope::Everything, self.now()).await?;
        place.remove_note(&id);
        Ok(Some(put_back).filter(|put_back| !put_back.is_empty()))
    }

    /// A task has succeeded: nothing of it will be taken back.
    #[cfg(feature = "tasks")]
    pub(super) fn let_go_of_snapshots(&self, task: redrive_store::TaskId) {
        let Some(place) = &self.0.snapshots else { return };
        let folder = place.dir.join(NEEDED).join(task.to_string());
        if let Err(error) = std::fs::remove_dir_all(&folder)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(%task, %error, "the snapshots of a task are kept for longer than need be");
        }
    }

    /// The snapshot that a job's files would be put back from, for people.
    #[cfg(feature = "tasks")]
    pub(super) async fn snapshot_of(&self, job: JobId) -> Option<SnapshotId> {
        newest(self.0.snapshots.as_ref()?, job).await.ok().flatten()
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
        let (restored, aside) = (put_back.restored_files.len(), put_back.deleted_files.len());
        self.tell_files(running, &FileNews::PutBack { restored, aside });
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
        self.tell_files(running, &FileNews::Unprotected { why: redact(&why) });
        let event = self
            .emit("snapshot_missing", &running.job.source)
            .job(running.job_id())
            .status(EventStatus::Success)
            .importance(4)
            .data(&json!({ "why": why }));
        self.tell_beside(running, event).await;
    }

    fn tell_files(&self, running: &Running, news: &FileNews) {
        if let Some(listener) = &self.0.file_listener {
            guarded("a listener of files", || listener(running.job_id(), &running.job.source, news));
        }
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
