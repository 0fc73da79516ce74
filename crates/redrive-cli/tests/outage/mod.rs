//! A night at a collector of company disclosures (001): real workers, jobs with their own ids, and six things that are
//! broken until somebody mends them. The runbooks are walked in it.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redrive::engine::{Engine, Shutdown};
use redrive_policy::{Config, Format};
use redrive_store::{Claimed, KeyClaim, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

/// Nothing here takes longer than that.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// As the seed says it, with waits that a test can wait for. The command line finds it in the folder, too.
const CONFIG: &str = r#"policy = "tdnet"

[policies.tdnet]
extends = "collector"
max_retries = 3
backoff = { type = "exponential", initial_delay = "5ms", max_delay = "20ms", jitter = "none" }

[[policies.tdnet.cause_specific]]
cause = ["rate_limit"]
max_retries = 2
backoff = { type = "fixed", initial_delay = "5ms" }
"#;

/// The collector's own check of what it has stored; it is not redrive's. It leaves word that it ran.
const INTEGRITY_CHECK: &str = "#!/bin/sh\ntouch checked\necho 'rolled back: 3 records without a PDF'\n";

/// What the runbook says happens outside of the terminal.
pub const EVENTS: [&str; 5] = [
    "TDnet answers again",
    "the key is renewed",
    "a list is published",
    "TDnet is asked more slowly",
    "a service dies in the middle of a request",
];

#[derive(Serialize, Deserialize)]
struct Disclosure {
    disclosure_id: String,
    pdf_url: String,
}

/// What is broken.
#[derive(Default)]
struct World {
    tdnet_answers: AtomicBool,
    the_key_is_good: AtomicBool,
    is_asked_slowly: AtomicBool,
}

impl World {
    fn collect(&self, kind: &str, disclosure: &Disclosure, folder: &Path) -> Result<(), String> {
        let is = |mended: &AtomicBool| mended.load(Ordering::SeqCst);
        match kind {
            "xbrl" if disclosure.pdf_url.ends_with("000.pdf") => {
                Err(format!("HTTP 404 Not Found: {}", disclosure.pdf_url))
            }
            "pdf" if disclosure.pdf_url.ends_with("410.pdf") => {
                Err(format!("HTTP 410 Gone: {} was withdrawn", disclosure.disclosure_id))
            }
            "pdf" if !is(&self.tdnet_answers) => {
                Err("read ECONNRESET (www.release.tdnet.info:443)".to_owned())
            }
            "publish" if !is(&self.the_key_is_good) => {
                Err("HTTP 401 Unauthorized: the API key has expired".to_owned())
            }
            "list" if !is(&self.is_asked_slowly) => Err("HTTP 429 Too Many Requests".to_owned()),
            "metadata" if !folder.join("checked").exists() => {
                let id = &disclosure.disclosure_id;
                Err(format!("integrity error: {id} is pending, and temp/{id}.pdf is gone"))
            }
            _ => Ok(()),
        }
    }
}

/// The collector, its store, and whoever works for it.
pub struct Outage {
    pub folder: tempfile::TempDir,
    pub url: String,
    pub store: Arc<dyn Store>,
    engine: Engine,
    world: Arc<World>,
    runtime: Runtime,
    shutdown: Shutdown,
    working: tokio::task::JoinHandle<()>,
}

impl Outage {
    /// On a file of its own.
    pub fn on_sqlite() -> Outage {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("store.db").display());
        Outage::begin(folder, url)
    }

    /// On a schema of its own; nothing where no PostgreSQL can be had.
    pub fn on_postgres() -> Option<Outage> {
        let shared = redrive_testing::shared()?;
        let joint = if shared.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{joint}schema={}", shared.url(), shared.schema());
        Some(Outage::begin(tempfile::tempdir().unwrap(), url))
    }

    /// Everything that breaks is broken, and what could be tried was.
    fn begin(folder: tempfile::TempDir, url: String) -> Outage {
        fs::write(folder.path().join("redrive.toml"), CONFIG).unwrap();
        let script = folder.path().join("integrity-check.sh");
        fs::write(&script, INTEGRITY_CHECK).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();

        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let entered = runtime.enter();
        let store: Arc<dyn Store> = match url.strip_prefix("sqlite:") {
            Some(path) => Arc::new(Sqlite::open(path.as_ref(), SqliteOptions::default()).unwrap()),
            None => Arc::new(runtime.block_on(Postgres::open(&url, PostgresOptions::default())).unwrap()),
        };
        let config = Config::parse(CONFIG, Format::Toml, "redrive.toml").unwrap();
        let engine =
            Engine::builder(Arc::clone(&store)).config(&config).default_policy("tdnet").build().unwrap();
        let world = Arc::new(World::default());
        let shutdown = Shutdown::new();
        let working = work(&engine, &world, &shutdown, folder.path());
        drop(entered);
        let outage = Outage { folder, url, store, engine, world, runtime, shutdown, working };
        for (kind, codes, ending) in [
            ("pdf", &CODES[..12], "500"),
            ("list", &CODES[12..20], "500"),
            ("publish", &CODES[20..24], "500"),
            ("metadata", &CODES[24..27], "500"),
            ("xbrl", &CODES[27..28], "000"),
            ("pdf", &CODES[28..30], "410"),
            ("report", &CODES[..6], "500"),
        ] {
            outage.enqueue(kind, codes, ending);
        }
        outage.until_calm();
        outage
    }

    fn enqueue(&self, kind: &str, codes: &[u32], ending: &str) {
        let jobs = codes.iter().map(|code| {
            let disclosure_id = format!("20240115_{code}_{}", if kind == "report" { "002" } else { "001" });
            let pdf_url = format!("https://www.release.tdnet.info/inbs/1401202401{code}{ending}.pdf");
            let disclosure = Disclosure { disclosure_id: disclosure_id.clone(), pdf_url };
            let queue = if kind == "list" { "lists" } else { "tdnet" };
            self.engine.job(kind, &disclosure).queue(queue).caller_id(disclosure_id).build().unwrap()
        });
        self.runtime.block_on(self.engine.enqueue_many(jobs.collect())).unwrap();
    }

    /// Something happens outside of the terminal.
    pub fn hear(&self, event: &str) {
        let set = |what: &AtomicBool| what.store(true, Ordering::SeqCst);
        match event {
            "TDnet answers again" => set(&self.world.tdnet_answers),
            "the key is renewed" => set(&self.world.the_key_is_good),
            "TDnet is asked more slowly" => set(&self.world.is_asked_slowly),
            "a list is published" => self.enqueue("report", &CODES[6..7], "500"),
            "a service dies in the middle of a request" => self.leave_a_key_behind(),
            _ => panic!("the page says {event:?}, which nobody knows: {EVENTS:?}"),
        }
    }

    /// What the proxy writes down when the service behind it dies: a key of which nobody knows the outcome.
    fn leave_a_key_behind(&self) {
        let keep_for = Duration::from_hours(72);
        let claim = KeyClaim {
            principal: "nobody".to_owned(),
            key: "order-4711".to_owned(),
            endpoint: "POST /v1/orders".to_owned(),
            request_hash: "ab".repeat(32),
            hold_for: Duration::from_secs(30),
            keep_for,
            rerun: false,
            job: None,
        };
        let now = self.engine.now();
        let Claimed::Taken { hold, .. } = self.runtime.block_on(self.store.claim_key(now, claim)).unwrap()
        else {
            panic!("the key is taken");
        };
        let why = "the connection to the service was lost after it was sent".to_owned();
        self.runtime.block_on(self.store.give_up_key(now, hold, why, keep_for)).unwrap();
    }

    /// Until the workers have done what there was: a person types more slowly than they work.
    pub fn until_calm(&self) {
        let began = Instant::now();
        loop {
            let status = self.runtime.block_on(self.store.status(self.engine.now())).unwrap();
            let waits =
                |lane: &redrive_store::LaneCounts| lane.leased + lane.ready > 0 && lane.paused_at.is_none();
            if !status.lanes.iter().any(waits) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "work that does not end: {status:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn dead_letters(&self) -> u64 {
        self.runtime.block_on(self.store.status(self.engine.now())).unwrap().dead_letters
    }

    /// The workers go home, and everything is as it must be.
    pub fn end(self) {
        self.shutdown.signal();
        self.runtime.block_on(self.working).unwrap();
        let report = self.runtime.block_on(self.store.check()).unwrap();
        assert!(report.is_clean(), "{:?}", report.violations);
        self.runtime.block_on(self.store.close()).unwrap();
    }
}

fn work(
    engine: &Engine,
    world: &Arc<World>,
    shutdown: &Shutdown,
    folder: &Path,
) -> tokio::task::JoinHandle<()> {
    let mut worker = engine.worker().concurrency(8);
    for kind in ["pdf", "list", "publish", "metadata", "xbrl", "report"] {
        let (world, folder) = (Arc::clone(world), folder.to_owned());
        worker = worker.handle(kind, move |disclosure: Disclosure, _cx| {
            let ended = world.collect(kind, &disclosure, &folder);
            async move { ended }
        });
    }
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        worker.run(&shutdown).await.unwrap();
    })
}

/// Companies whose disclosures are collected.
const CODES: [u32; 30] = [
    7203, 6758, 9984, 8306, 6861, 9432, 4063, 8035, 6098, 7974, 4502, 8058, 1301, 1332, 1333, 1375, 1376,
    1377, 1379, 1381, 2502, 2503, 2801, 2802, 3382, 3402, 3407, 4901, 4911, 5108,
];
