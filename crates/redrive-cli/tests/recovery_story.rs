//! The operator's story from beginning to end, on both back ends: handlers that really fail and heal, run by a real worker,
//! and the real binary for all that a person types.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

use std::collections::HashMap;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redrive::engine::{Engine, Shutdown};
use redrive::{Cause, Fail, Override, fail};
use redrive_store::{EventFilter, Order, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use serde_json::Value;

/// Nothing here takes longer than that.
const PATIENCE: Duration = Duration::from_mins(2);

/// A store of its own that two processes see.
struct Place {
    url: String,
    folder: tempfile::TempDir,
}

impl Place {
    fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        Place { url: format!("sqlite:{}", folder.path().join("store.db").display()), folder }
    }

    fn postgres() -> Option<Place> {
        let Some(shared) = redrive_testing::shared() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is missing");
            eprintln!("SKIPPED: PostgreSQL is missing");
            return None;
        };
        let joint = if shared.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{joint}schema={}", shared.url(), shared.schema());
        Some(Place { url, folder: tempfile::tempdir().unwrap() })
    }

    async fn open(&self) -> Arc<dyn Store> {
        match self.url.strip_prefix("sqlite:") {
            Some(path) => Arc::new(Sqlite::open(path.as_ref(), SqliteOptions::default()).unwrap()),
            None => Arc::new(Postgres::open(&self.url, PostgresOptions::default()).await.unwrap()),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command
            .args(words)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder.path())
            .env("REDRIVE_STORE", &self.url)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn redrive(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// The document that a command prints, which must end with this code.
    fn json(&self, code: i32, words: &[&str]) -> Value {
        let ran = self.redrive(&[words, &["--json"]].concat());
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{words:?}: {said}");
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{words:?}: {error} {said}"))
    }
}

/// The services that the jobs call: each is broken until somebody mends it.
#[derive(Default)]
struct World {
    payments_are_mended: AtomicBool,
    mail_is_mended: AtomicBool,
    /// How often each job was begun.
    begun: Mutex<HashMap<String, u64>>,
    calls: AtomicU64,
}

impl World {
    fn call(&self, kind: &str, job: &str, number: u64) -> Result<(), Fail> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        *self.begun.lock().unwrap().entry(job.to_owned()).or_default() += 1;
        match kind {
            "pay" if !self.payments_are_mended.load(Ordering::Relaxed) => Err(fail(
                Cause::AuthError,
                format!("payment {number} refused: invalid API key (request req_{call:08x})"),
            )),
            "mail" if !self.mail_is_mended.load(Ordering::Relaxed) => Err(fail(
                Cause::Network,
                format!("connect to 10.0.{}.{}:25 refused after {call} ms", number % 7, number % 250),
            )),
            "report" => Err(fail(
                Cause::ValidationError,
                format!("row {number} of \"/tmp/in-{call}.csv\" has no column amount"),
            )),
            _ => Ok(()),
        }
    }
}

fn worker(engine: &Engine, world: &Arc<World>, shutdown: &Shutdown) -> tokio::task::JoinHandle<()> {
    let mut worker = engine.worker().concurrency(64);
    for kind in ["pay", "mail", "report"] {
        let world = Arc::clone(world);
        worker = worker.handle(kind, move |number: u64, cx| {
            let ended = world.call(kind, &cx.job_id().to_string(), number);
            async move { ended }
        });
    }
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        worker.run(&shutdown).await.unwrap();
    })
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn group<'a>(groups: &'a Value, cause: &str) -> &'a Value {
    let items = groups["items"].as_array().unwrap();
    items.iter().find(|group| group["cause"] == cause).unwrap_or_else(|| panic!("{cause}: {groups}"))
}

/// R-D8, R-D9, R-D10: 2,000 jobs fail for three reasons; one is mended and its canary resolves the group; another is not, and its
/// canary stops after the first step.
async fn the_story(place: Place) {
    let store = place.open().await;
    let engine = Engine::builder(Arc::clone(&store)).build().unwrap();
    let world = Arc::new(World::default());
    let shutdown = Shutdown::new();
    let once = Override { max_retries: Some(0), ..Override::default() };
    let kinds = ["pay", "mail", "report"];
    let jobs: Vec<_> = (0..2_000_u64)
        .map(|number| {
            engine.job(kinds[usize::try_from(number % 3).unwrap()], &number).overrides(&once).build().unwrap()
        })
        .collect();
    engine.enqueue_many(jobs).await.unwrap();
    let working = worker(&engine, &world, &shutdown);
    until("the end of all jobs", async || store.status(engine.now()).await.unwrap().dead_letters == 2_000)
        .await;

    let groups = place.json(0, &["dlq", "groups"]);
    assert_eq!(groups["items"].as_array().unwrap().len(), 3, "{groups}");
    for (cause, count) in [("auth_error", 667), ("network", 667), ("validation_error", 666)] {
        let group = group(&groups, cause);
        assert_eq!((&group["count"], &group["state"]), (&count.into(), &"open".into()), "{groups}");
    }

    // The key is put right, and the group goes back in steps.
    world.payments_are_mended.store(true, Ordering::Relaxed);
    let payments = group(&groups, "auth_error")["fingerprint"].as_str().unwrap();
    let done = place.json(0, &["redrive", "--group", payments, "--canary", "--yes"]);
    assert_eq!((&done["run"]["state"], &done["redriven"]), (&"done".into(), &667.into()), "{done}");
    assert_eq!(done["run"]["canary"]["succeeded"], 667, "{done}");
    until("the end of the payments", async || {
        let groups = place.json(0, &["dlq", "groups"]);
        group(&groups, "auth_error")["state"] == "resolved"
    })
    .await;
    let groups = place.json(0, &["dlq", "groups"]);
    assert_eq!(group(&groups, "auth_error")["count"], 0, "{groups}");
    assert!(world.begun.lock().unwrap().values().all(|begun| *begun <= 2));

    // The mail server is still down: one letter finds that out for all.
    let mail = group(&groups, "network")["fingerprint"].as_str().unwrap();
    let stopped = place.json(1, &["redrive", "--group", &mail[..8], "--canary", "--yes"]);
    assert_eq!((&stopped["run"]["state"], &stopped["redriven"]), (&"stopped".into(), &1.into()), "{stopped}");
    assert_eq!(stopped["run"]["why"]["kind"], "failures", "{stopped}");
    let untouched = place.json(0, &["dlq", "list", "--where", "kind=mail and redrives=0", "--limit", "1000"]);
    assert_eq!(untouched["items"].as_array().unwrap().len(), 666, "{untouched}");
    let groups = place.json(0, &["dlq", "groups"]);
    let of_mail = group(&groups, "network");
    assert_eq!((&of_mail["state"], &of_mail["count"]), (&"regressed".into(), &667.into()), "{groups}");
    assert_eq!(group(&groups, "validation_error")["state"], "open", "{groups}");

    let problems = store.check().await.unwrap();
    assert!(problems.violations.is_empty(), "{problems:?}");
    shutdown.signal();
    working.await.unwrap();
    store.close().await.unwrap();
}

/// R-D8: a redrive that is killed again and again is gone on with, and puts each letter back exactly once.
async fn a_killed_redrive(place: Place) {
    const LETTERS: u64 = 10_000;
    let store = place.open().await;
    let engine = Engine::builder(Arc::clone(&store)).build().unwrap();
    let world = Arc::new(World::default());
    let jobs: Vec<_> = (0..LETTERS).map(|number| engine.job("pay", &number).build().unwrap()).collect();
    engine.enqueue_many(jobs).await.unwrap();
    let shutdown = Shutdown::new();
    let working = worker(&engine, &world, &shutdown);
    until("the end of all jobs", async || store.status(engine.now()).await.unwrap().dead_letters == LETTERS)
        .await;
    shutdown.signal();
    working.await.unwrap();

    // Killed at four moments on its way, then left to end.
    let mut first = vec!["redrive", "--all", "--yes", "--rate", "6000/s"];
    let mut kills = 0;
    for part in 1..=4 {
        let mut child = place.command(&first).spawn().unwrap();
        first = vec!["redrive", "--resume", "redrive_1"];
        let goal = LETTERS * part / 5;
        until("some of the way", async || {
            let run = store.run(redrive_store::RunId(1)).await.unwrap();
            run.is_some_and(|run| run.moved >= goal)
        })
        .await;
        child.kill().unwrap();
        child.wait().unwrap();
        let moved = store.run(redrive_store::RunId(1)).await.unwrap().unwrap().moved;
        kills += u32::from(moved < LETTERS);
        let status = store.status(engine.now()).await.unwrap();
        assert_eq!(status.dead_letters + moved, LETTERS, "what is counted as back is back, and nothing else");
    }
    assert!(kills >= 3, "it was killed on its way only {kills} times");
    let ended = place.json(0, &["redrive", "--resume", "redrive_1"]);
    assert_eq!((&ended["run"]["state"], &ended["redriven"]), (&"done".into(), &LETTERS.into()), "{ended}");

    let mut redriven: HashMap<redrive_store::JobId, u32> = HashMap::new();
    let mut filter = EventFilter {
        types: vec!["redrive".to_owned()],
        order: Order::OldestFirst,
        ..EventFilter::default()
    };
    loop {
        let events = store.events(filter.clone(), 5_000).await.unwrap();
        let Some(last) = events.last() else { break };
        filter.after = Some(last.seq);
        for event in &events {
            *redriven.entry(event.job.unwrap()).or_default() += 1;
        }
    }
    assert_eq!(redriven.len() as u64, LETTERS);
    assert!(redriven.values().all(|times| *times == 1), "a letter was put back twice");
    let status = store.status(engine.now()).await.unwrap();
    assert_eq!((status.dead_letters, status.lanes[0].ready), (0, LETTERS));
    let problems = store.check().await.unwrap();
    assert!(problems.violations.is_empty(), "{problems:?}");
    store.close().await.unwrap();
}

fn run(story: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(story);
}

mod sqlite {
    use super::*;

    /// R-D8, R-D9, R-D10.
    #[test]
    fn three_groups_one_mended_one_not() {
        run(the_story(Place::sqlite()));
    }

    /// R-D8.
    #[test]
    fn a_redrive_that_is_killed_puts_each_letter_back_once() {
        run(a_killed_redrive(Place::sqlite()));
    }
}

mod postgres {
    use super::*;

    /// R-D8, R-D9, R-D10.
    #[test]
    fn three_groups_one_mended_one_not() {
        if let Some(place) = Place::postgres() {
            run(the_story(place));
        }
    }

    /// R-D8.
    #[test]
    fn a_redrive_that_is_killed_puts_each_letter_back_once() {
        if let Some(place) = Place::postgres() {
            run(a_killed_redrive(place));
        }
    }
}
