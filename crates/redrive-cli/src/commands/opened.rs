//! The store that a command works on, and finding a job in it.
//!
//! A command that writes makes the store when there is none. One that only looks says that there is none yet.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, EngineBuilder, ManualClock, Named};
use redrive_policy::Config;
use redrive_store::{
    Event, EventFilter, Group, JobRecord, KeyRing, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store,
    StoreError, Timestamp, Trouble as StoreTrouble,
};
use tokio::runtime::{Builder, Runtime};

use crate::Stage;
use crate::args::JobRef;
use crate::settings::StorePlace;
use crate::text::text;
use crate::trouble::Trouble;

/// The most events of one job that are told.
const STORY_EVENTS: u32 = 1_000;

/// How long a command waits for a database that does not answer.
const WAIT_TO_WRITE: Duration = Duration::from_secs(30);
const WAIT_TO_READ: Duration = Duration::from_secs(3);

/// A store, and what waits for its answers.
pub(super) struct Opened {
    pub(super) store: Arc<dyn Store>,
    pub(super) runtime: Runtime,
    pub(super) now: Timestamp,
}

/// What to do when there is no store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WhenMissing {
    Make,
    Refuse,
    /// Refused, too; one that is there is about to be encrypted.
    Encrypt,
}

/// The store, made if need be.
pub(super) fn to_write(stage: &Stage<'_>) -> Result<Opened, Trouble> {
    open(&stage.settings.store_place(&stage.cwd)?, WhenMissing::Make, stage)
}

/// The store, whose plain values are about to be encrypted.
pub(super) fn to_encrypt(stage: &Stage<'_>) -> Result<Opened, Trouble> {
    open(&stage.settings.store_place(&stage.cwd)?, WhenMissing::Encrypt, stage)
}

/// The store; trouble when there is none.
pub(super) fn to_read(stage: &Stage<'_>) -> Result<Opened, Trouble> {
    open(&stage.settings.store_place(&stage.cwd)?, WhenMissing::Refuse, stage)
}

/// The store; nothing when there is none, and the person is told.
pub(super) fn if_there(stage: &mut Stage<'_>) -> Result<Option<Opened>, Trouble> {
    match to_read(stage) {
        Ok(opened) => Ok(Some(opened)),
        Err(Trouble::NoStore { path }) => {
            let note = text(stage.settings.lang, "trouble.no-store", &[("path", &path.display())]);
            stage.talk.note(&note);
            Ok(None)
        }
        Err(trouble) => Err(trouble),
    }
}

fn open(place: &StorePlace, when_missing: WhenMissing, stage: &Stage<'_>) -> Result<Opened, Trouble> {
    let keys = stage.settings.keys(&stage.cwd)?;
    // Whoever only looks wants to know now; work outlasts a restart.
    let patience = if when_missing == WhenMissing::Make { WAIT_TO_WRITE } else { WAIT_TO_READ };
    open_within(place, when_missing, keys, patience, Timestamp::from_system(stage.now))
}

/// The store for a glance, by a shell that completes a word: nothing is made, and nobody waits.
pub(super) fn to_glance(
    place: &StorePlace,
    keys: Option<KeyRing>,
    patience: Duration,
    now: Timestamp,
) -> Result<Opened, Trouble> {
    open_within(place, WhenMissing::Refuse, keys, patience, now)
}

/// As many as there are cores; two at least, so that one that is busy keeps nobody from a heartbeat.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 16))
}

fn open_within(
    place: &StorePlace,
    when_missing: WhenMissing,
    keys: Option<KeyRing>,
    patience: Duration,
    now: Timestamp,
) -> Result<Opened, Trouble> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(threads())
        .thread_name("redrive")
        .enable_all()
        .build()
        .map_err(Trouble::NoRuntime)?;
    let (create, encrypt) = (when_missing == WhenMissing::Make, when_missing == WhenMissing::Encrypt);
    let store: Arc<dyn Store> = match place {
        StorePlace::File(path) => Arc::new(open_file(path, create, encrypt, keys)?),
        StorePlace::Postgres(url) => {
            let options = PostgresOptions {
                create,
                keys,
                encrypt,
                open_within: patience,
                ..PostgresOptions::default()
            };
            let opened = runtime.block_on(Postgres::open(url, options));
            Arc::new(opened.map_err(|error| match error.trouble() {
                StoreTrouble::Missing(path) => Trouble::NoStore { path: path.clone() },
                _ => Trouble::Store(error),
            })?)
        }
    };
    Ok(Opened { store, runtime, now })
}

fn open_file(path: &Path, create: bool, encrypt: bool, keys: Option<KeyRing>) -> Result<Sqlite, Trouble> {
    if !create && !path.try_exists().unwrap_or(true) {
        return Err(Trouble::NoStore { path: path.to_owned() });
    }
    if let Some(folder) = path.parent().filter(|_| create) {
        let unwritable = |source| Trouble::Unwritable { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
    }
    Sqlite::open(path, SqliteOptions { create, keys, encrypt, ..SqliteOptions::default() })
        .map_err(|error| Trouble::Opening { path: path.to_owned(), error })
}

impl Opened {
    /// Waits for an answer of the store.
    pub(super) fn wait<T>(&self, answer: impl Future<Output = Result<T, StoreError>>) -> Result<T, Trouble> {
        self.runtime.block_on(answer).map_err(Trouble::Store)
    }

    /// The engine on this store, with what the configuration says.
    pub(super) fn engine(&self, config: &Config, stage: &Stage<'_>) -> Result<Engine, Trouble> {
        Ok(self.engine_builder(config, stage).build()?)
    }

    /// The same, to be furnished further.
    pub(super) fn engine_builder(&self, config: &Config, stage: &Stage<'_>) -> EngineBuilder {
        let engine = Engine::builder(Arc::clone(&self.store)).config(config).lang(stage.settings.lang);
        match stage.settings.snapshot_place(&stage.env, &stage.cwd) {
            Ok(Some(place)) => engine.snapshots_in(place.dir, place.never),
            // Without a place files are not kept, and whoever wants them kept is told.
            Ok(None) | Err(_) => engine,
        }
    }

    /// The job that a person means, by its own id or by that of one of its events.
    pub(super) fn job(&self, id: &JobRef) -> Result<JobRecord, Trouble> {
        let unknown = || Trouble::NoJob { id: id.to_string(), store: self.store.location() };
        let job = match id {
            JobRef::Job(job) => *job,
            JobRef::Event(event) => self.event(event)?.and_then(|event| event.job).ok_or_else(unknown)?,
        };
        self.wait(self.store.job(job))?.ok_or_else(unknown)
    }

    /// The event that a person means, by its id or by the beginning of one that no other shares.
    pub(super) fn event(&self, written: &str) -> Result<Option<Event>, Trouble> {
        match self.runtime.block_on(self.looker()?.event_named(written))? {
            Named::One(event) => Ok(Some(*event)),
            Named::Nothing => Ok(None),
            Named::Several(named) => Err(Trouble::Ambiguous { written: written.to_owned(), named }),
        }
    }

    /// An engine for looking around, which no configuration has a say in.
    pub(super) fn looker(&self) -> Result<Engine, Trouble> {
        let clock = Arc::new(ManualClock::at(self.now));
        Ok(Engine::builder(Arc::clone(&self.store)).clock(clock).build()?)
    }

    /// The one group whose fingerprint begins so.
    pub(super) fn group(&self, written: &str, engine: &Engine) -> Result<Group, Trouble> {
        match self.runtime.block_on(engine.group_named(&written.to_lowercase()))? {
            Named::One(group) => Ok(*group),
            Named::Several(candidates) => {
                Err(Trouble::AmbiguousGroup { prefix: written.to_owned(), candidates })
            }
            Named::Nothing => {
                Err(Trouble::NoGroup { prefix: written.to_owned(), store: self.store.location() })
            }
        }
    }

    /// A job's own events, the oldest first.
    pub(super) fn story(&self, record: &JobRecord) -> Result<Vec<Event>, Trouble> {
        let mut events = self.wait(self.store.causality(record.event, STORY_EVENTS))?;
        // What led to the job belongs to other stories.
        events.retain(|event| event.job == Some(record.id));
        // That somebody has mended its payload stands beside the story, and explains what follows.
        let edits = EventFilter {
            job: Some(record.id),
            types: vec!["payload_edited".to_owned()],
            ..EventFilter::default()
        };
        events.extend(self.wait(self.store.events(edits, STORY_EVENTS))?);
        events.sort_by_key(|event| event.seq);
        events.dedup_by_key(|event| event.seq);
        Ok(events)
    }
}
