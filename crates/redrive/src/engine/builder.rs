//! Furnishing an engine: which policies, which clock, which chance, how long things are kept.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use redrive_policy::{AutoRedrive, Classifier, Config, Lang, Policy};
use redrive_store::{Sqlite, SqliteOptions, Store};

use super::escalation::{Escalated, Listener, Telling};
use super::maintenance::ClockWatch;
use super::policies::Policies;
use super::reload::Held;
use super::target::Targets;
use super::{Clock, Engine, EngineError, Shared, SystemClock};

/// How long things are kept (R-D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Dead letters; 14 days.
    pub letters: Duration,
    /// Events, except those of a living job or letter; 30 days.
    pub events: Duration,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention { letters: Duration::from_hours(14 * 24), events: Duration::from_hours(30 * 24) }
    }
}

/// An engine in the making; see [`Engine::builder`].
#[derive(Debug)]
#[must_use = "an engine comes of it only when it is built"]
pub struct EngineBuilder {
    store: StoreHandle,
    config: Option<Config>,
    own: Vec<Policy>,
    default_policy: Option<String>,
    classifier: Option<Classifier>,
    clock: Arc<dyn Clock>,
    seed: Option<u64>,
    retention: Retention,
    auto_redrive: Vec<AutoRedrive>,
    #[cfg(all(feature = "snapshot", feature = "exec"))]
    snapshots: Option<Arc<super::protect::SnapshotPlace>>,
    #[cfg(all(feature = "snapshot", feature = "exec"))]
    file_listener: Option<HearsOfFiles>,
    lang: Option<Lang>,
    listener: Option<Listener>,
}

/// Whoever is told of files.
#[cfg(all(feature = "snapshot", feature = "exec"))]
struct HearsOfFiles(super::protect::FileListener);

#[cfg(all(feature = "snapshot", feature = "exec"))]
impl std::fmt::Debug for HearsOfFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HearsOfFiles")
    }
}

struct StoreHandle(Arc<dyn Store>);

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.location())
    }
}

impl EngineBuilder {
    pub(super) fn new(store: Arc<dyn Store>) -> EngineBuilder {
        EngineBuilder {
            store: StoreHandle(store),
            config: None,
            own: Vec::new(),
            default_policy: None,
            classifier: None,
            clock: Arc::new(SystemClock::new()),
            seed: None,
            retention: Retention::default(),
            auto_redrive: Vec::new(),
            #[cfg(all(feature = "snapshot", feature = "exec"))]
            snapshots: None,
            #[cfg(all(feature = "snapshot", feature = "exec"))]
            file_listener: None,
            lang: None,
            listener: None,
        }
    }

    /// The named policies, the classifier's rules, the default policy and how people are told.
    pub fn config(mut self, config: &Config) -> EngineBuilder {
        self.config = Some(config.clone());
        self
    }

    /// One more policy, under its own name; it beats a configuration's of that name.
    pub fn policy(mut self, policy: impl Into<Policy>) -> EngineBuilder {
        self.own.push(policy.into());
        self
    }

    /// The policy of jobs that name none; `standard` unless the configuration names another.
    pub fn default_policy(mut self, name: impl Into<String>) -> EngineBuilder {
        self.default_policy = Some(name.into());
        self
    }

    /// Another classifier than the configuration's.
    pub fn classifier(mut self, classifier: Classifier) -> EngineBuilder {
        self.classifier = Some(classifier);
        self
    }

    /// Another clock than the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> EngineBuilder {
        self.clock = clock;
        self
    }

    /// Makes every delay repeatable.
    pub fn seed(mut self, seed: u64) -> EngineBuilder {
        self.seed = Some(seed);
        self
    }

    /// How long letters and events are kept.
    pub fn retention(mut self, retention: Retention) -> EngineBuilder {
        self.retention = retention;
        self
    }

    /// One more rule by which workers put dead letters back; those of the configuration hold as well.
    pub fn auto_redrive(mut self, rule: AutoRedrive) -> EngineBuilder {
        self.auto_redrive.push(rule);
        self
    }

    /// The folder in which files are kept that are put back when a command fails; it is made when the first one is. Never part
    /// of a snapshot is what is listed beside it: a store's own files. Without such a folder a command runs unprotected,
    /// and an event says so.
    #[cfg(all(feature = "snapshot", feature = "exec"))]
    pub fn snapshots_in(
        mut self,
        dir: impl Into<std::path::PathBuf>,
        never: Vec<std::path::PathBuf>,
    ) -> EngineBuilder {
        self.snapshots = Some(Arc::new(super::protect::SnapshotPlace::new(dir.into(), never)));
        self
    }

    /// Who is told when the files of a command are put back, or are not protected; with the job and its source.
    #[cfg(all(feature = "snapshot", feature = "exec"))]
    pub fn on_files(
        mut self,
        listener: impl Fn(redrive_store::JobId, &str, &super::FileNews) + Send + Sync + 'static,
    ) -> EngineBuilder {
        self.file_listener = Some(HearsOfFiles(Box::new(listener)));
        self
    }

    /// The language that reports are written in; the configuration's, else English.
    pub fn lang(mut self, lang: Lang) -> EngineBuilder {
        self.lang = Some(lang);
        self
    }

    /// Who is told when something needs a person: a letter, or a task that cannot go on. It is durable by then, and told
    /// once. With `escalate.notify_immediately` that is at once, else together, at most once a minute and at the end.
    ///
    /// ```
    /// use redrive::engine::Engine;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let store = Engine::open_store(dir.path().join("redrive.db"))?;
    /// let engine = Engine::builder(store).on_escalation(|told| {
    ///     for escalated in told {
    ///         eprintln!("{}", escalated.report.user_message);
    ///     }
    /// });
    /// # drop(engine.build()?);
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// ```
    pub fn on_escalation(mut self, listener: impl Fn(&[Escalated]) + Send + Sync + 'static) -> EngineBuilder {
        self.listener = Some(Listener(Box::new(listener)));
        self
    }

    /// The engine; an error for a default policy that nobody has defined, and for a rule that cannot be obeyed.
    pub fn build(self) -> Result<Engine, EngineError> {
        let config = self.config.as_ref();
        let policies = Policies::new(config, self.own, self.default_policy)?;
        let classifier = self
            .classifier
            .or_else(|| config.map(Config::classifier))
            .unwrap_or_else(|| Classifier::with_user_rules(Vec::new()));
        let held = Held::new(config, &self.auto_redrive)?;
        #[cfg(feature = "alerts")]
        let alerts = config.map(|config| config.alerts.clone()).unwrap_or_default();
        #[cfg(feature = "alerts")]
        super::alert::check_alert_receivers(&alerts, config.map_or(&[], |config| &config.server.listen))?;
        Ok(Engine(Arc::new(Shared {
            clock_watch: Mutex::new(ClockWatch::new(&*self.clock)),
            store_clock: super::store_clock::StoreClock::default(),
            store: self.store.0,
            clock: self.clock,
            policies: RwLock::new(Arc::new(policies)),
            classifier: RwLock::new(Arc::new(classifier)),
            #[cfg(all(feature = "snapshot", feature = "exec"))]
            snapshots: self.snapshots,
            #[cfg(all(feature = "snapshot", feature = "exec"))]
            file_listener: self.file_listener.map(|hears| hears.0),
            telling: Telling::new(self.listener, held.escalate.notify_immediately),
            held: RwLock::new(Arc::new(held)),
            lang: self.lang.or_else(|| config.and_then(|config| config.settings.lang)).unwrap_or_default(),
            seed: self.seed.map(AtomicU64::new),
            targets: Targets::new(config.map(|config| config.targets.clone()).unwrap_or_default()),
            retention: self.retention,
            own_rules: self.auto_redrive,
            longest_lease_ms: AtomicU64::new(0),
            desk: tokio::sync::Mutex::new(None),
            #[cfg(feature = "alerts")]
            alerts: super::alert::Alerts::new(alerts),
            #[cfg(feature = "schedules")]
            schedules: super::schedule::ScheduleWatch::default(),
            #[cfg(feature = "tasks")]
            tasks_moved: tokio::sync::watch::Sender::default(),
            #[cfg(feature = "tasks")]
            tasks_heard: super::worker::TasksHeard::default(),
        })))
    }
}

impl Engine {
    /// The engine on a store that is opened, or made, here: `sqlite:PATH`, or just a path.
    pub fn open(location: impl AsRef<Path>) -> Result<Engine, EngineError> {
        Engine::builder(Engine::open_store(location)?).build()
    }

    /// The engine on a PostgreSQL store that is opened, or made, here: `postgres://HOST/DATABASE`.
    #[cfg(feature = "postgres")]
    pub async fn connect(url: &str) -> Result<Engine, EngineError> {
        let store = redrive_store::Postgres::open(url, redrive_store::PostgresOptions::default()).await?;
        Engine::builder(Arc::new(store)).build()
    }

    /// Opens a store, or makes it: `sqlite:PATH`, or just a path.
    pub fn open_store(location: impl AsRef<Path>) -> Result<Arc<dyn Store>, EngineError> {
        let location = location.as_ref();
        let text = location.to_string_lossy();
        let path = match text.split_once(':') {
            Some(("sqlite", path)) => Path::new(path),
            Some((scheme, _)) if text.contains("://") => {
                return Err(EngineError::UnknownStore(format!("{scheme}:…")));
            }
            Some(_) | None => location,
        };
        Ok(Arc::new(Sqlite::open(path, SqliteOptions::default())?))
    }
}
