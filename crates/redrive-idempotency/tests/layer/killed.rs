//! Services that are killed with SIGKILL: this very binary, run again as a service, and looked at afterwards (R-I4, must show).

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use redrive::engine::Engine;
use redrive_idempotency::rules::{Guarded, OnUnknown};
use redrive_idempotency::{Idem, IdempotencyLayer};
use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};

use crate::effects::{Effects, app};
use crate::place::Place;
use crate::support::{ask, keyed};

const STORE: &str = "REDRIVE_TEST_LAYER_STORE";
const SCHEMA: &str = "REDRIVE_TEST_LAYER_SCHEMA";
const PORT_FILE: &str = "REDRIVE_TEST_LAYER_PORT_FILE";
const JOURNAL: &str = "REDRIVE_TEST_LAYER_JOURNAL";

/// Short, so that nobody waits long for a killed one.
const HOLD_FOR: Duration = Duration::from_millis(1_500);

fn guarded(unknown: OnUnknown) -> Guarded {
    let mut guarded = Guarded::whatever_carries_a_key();
    guarded.routes[0].rules.hold_for = HOLD_FOR;
    guarded.routes[0].rules.unknown = unknown;
    guarded
}

/// By the machine's clock, and the database's, as a service has it.
async fn open(effects: &Effects) -> Engine {
    let store: Arc<dyn Store> = match effects {
        Effects::Sqlite(path) => Arc::new(Sqlite::open(path, SqliteOptions::default()).unwrap()),
        Effects::Postgres { url, schema } => {
            let schema = Some(schema.clone());
            let options = PostgresOptions { create: true, schema, ..Default::default() };
            Arc::new(Postgres::open(url, options).await.unwrap())
        }
    };
    Engine::builder(store).build().unwrap()
}

/// The app with effects in the store's database, and a route whose effect is a line in a file.
fn service(engine: &Engine, effects: Effects, journal: PathBuf, unknown: OnUnknown) -> Router {
    let plain = async move |idem: Idem| {
        append(&journal, idem.key().as_str());
        // Killed about here, more often than not.
        tokio::time::sleep(Duration::from_millis(2)).await;
        format!("did {}", idem.key())
    };
    app(effects)
        .route("/v1/plain", post(plain))
        .layer(IdempotencyLayer::new(engine).guarding(guarded(unknown)))
}

fn append(journal: &Path, line: &str) {
    use std::io::Write;
    let mut file = std::fs::File::options().create(true).append(true).open(journal).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Not a test of its own: the service that is killed. Without a store in the environment there is nothing to do.
#[test]
fn serves_until_it_is_killed() {
    let Ok(store) = std::env::var(STORE) else { return };
    let effects = match std::env::var(SCHEMA) {
        Ok(schema) => Effects::Postgres { url: store, schema },
        Err(_) => Effects::Sqlite(store.into()),
    };
    let journal = std::env::var(JOURNAL).unwrap().into();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = open(&effects).await;
        let app = service(&engine, effects, journal, OnUnknown::Fail);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port_file = PathBuf::from(std::env::var(PORT_FILE).unwrap());
        let made = port_file.with_extension("made");
        std::fs::write(&made, listener.local_addr().unwrap().to_string()).unwrap();
        std::fs::rename(made, port_file).unwrap();
        axum::serve(listener, app).await.unwrap();
    });
}

/// A service in a process of its own, which does not outlive the test.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(effects: &Effects, folder: &Path) -> Service {
        let port_file = folder.join("port");
        drop(std::fs::remove_file(&port_file));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::serves_until_it_is_killed"]);
        command.env(PORT_FILE, &port_file).env(JOURNAL, folder.join("journal"));
        match effects {
            Effects::Sqlite(path) => command.env(STORE, path),
            Effects::Postgres { url, schema } => command.env(STORE, url).env(SCHEMA, schema),
        };
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&port_file);
        Service { child, address: std::fs::read_to_string(&port_file).unwrap() }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn wait_for(path: &Path) {
    let since = Instant::now();
    while !path.exists() {
        assert!(since.elapsed() < Duration::from_secs(30), "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A request that is killed at this moment, and what is left: the effects, and the answer to a retry once nobody holds the key.
async fn killed_at(place: Place, moment: &str, unknown: OnUnknown) -> (i64, crate::support::Answer, i64) {
    drop(place.open().await);
    let effects = Effects::of(&place).await;
    let folder = tempfile::tempdir().unwrap();
    let mut service_process = Service::start(&effects, folder.path());
    let marker = folder.path().join("marker");
    let request = reqwest::Client::new()
        .post(format!("http://{}/v1/bookmarks", service_process.address))
        .header("idempotency-key", "a")
        .header("x-test", moment)
        .header("x-marker", marker.to_str().unwrap())
        .body("{}");
    let asked = tokio::spawn(request.send());
    wait_for(&marker);
    service_process.kill();
    assert!(asked.await.unwrap().is_err(), "nobody was answered");
    let engine = open(&effects).await;
    let left = effects.count().await;
    let app = service(&engine, effects.clone(), folder.path().join("journal"), unknown);
    let since = Instant::now();
    let retried = loop {
        let retried = ask(&app, keyed("a")).await;
        if !retried.body.contains("in-flight") {
            break retried;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "its key is stuck");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    (left, retried, effects.count().await)
}

async fn after_the_commit(place: Place) {
    let (left, retried, count) = killed_at(place, "hold-committed", OnUnknown::Fail).await;
    assert_eq!((left, count), (1, 1));
    assert_eq!((retried.status.as_u16(), retried.body.as_str(), retried.is_replay()), (201, "saved a", true));
}

async fn before_the_commit(place: Place) {
    let (left, retried, count) = killed_at(place, "hold-open", OnUnknown::Fail).await;
    retried.is_problem(409, "unknown-outcome");
    assert_eq!((left, count), (0, 0));
}

async fn before_the_commit_and_run_again(place: Place) {
    let (left, retried, count) = killed_at(place, "hold-open", OnUnknown::SafeToRerun).await;
    assert_eq!(
        (retried.status.as_u16(), retried.body.as_str(), retried.is_replay()),
        (201, "saved a", false)
    );
    assert_eq!((left, count), (0, 1));
}

/// R-I4, must show: killed between commit and answer, the effect is there once, and the retry is replayed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_the_commit_the_retry_is_replayed_on_sqlite() {
    after_the_commit(Place::sqlite()).await;
}

/// R-I4, must show: the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_the_commit_the_retry_is_replayed_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    after_the_commit(place).await;
}

/// R-I4, must show: killed before the commit there is no effect, and nobody runs it again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_the_commit_nothing_was_done_on_sqlite() {
    before_the_commit(Place::sqlite()).await;
}

/// R-I4, must show: the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_the_commit_nothing_was_done_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    before_the_commit(place).await;
}

/// R-I4, must show: a route whose effects are in that database can bear to be run again, and so is exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_the_commit_it_is_run_again_on_sqlite() {
    before_the_commit_and_run_again(Place::sqlite()).await;
}

/// R-I4, must show: the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_the_commit_it_is_run_again_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    before_the_commit_and_run_again(place).await;
}

/// Killed again and again under load, with effects that are in no database: no effect is there twice, and no key is stuck.
async fn killed_under_load(place: Place) {
    drop(place.open().await);
    let effects = Effects::of(&place).await;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let client = reqwest::Client::new();
    for round in 0..5_u64 {
        let mut service_process = Service::start(&effects, folder.path());
        let clients: Vec<_> = (0..8_u64)
            .map(|number| {
                let (client, url) = (client.clone(), format!("http://{}/v1/plain", service_process.address));
                tokio::spawn(async move {
                    for turn in 0..2_000_u64 {
                        // Old keys as well, of every round: each is sent about three times.
                        let key = format!("{number}-{}-{}", round - round.min(turn % 3), turn / 3);
                        let request = client.post(&url).header("idempotency-key", key).body("{}");
                        if request.send().await.is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(150 + round * 37)).await;
        service_process.kill();
        for client in clients {
            client.await.unwrap();
        }
    }
    let lines = std::fs::read_to_string(&journal).unwrap();
    let mut done: Vec<&str> = lines.lines().collect();
    let all = done.len();
    done.sort_unstable();
    done.dedup();
    assert!(all > 20, "hardly anything was done: {all}");
    assert_eq!(done.len(), all, "something was done twice");

    // Whoever was killed in between is found when its lease is over; then nothing is in flight any more.
    let engine = open(&effects).await;
    tokio::time::sleep(HOLD_FOR).await;
    while engine.store().sweep_keys(engine.now(), Duration::from_hours(72), 1_000).await.unwrap().more {}
    let (in_progress, _) = engine.store().key_standing().await.unwrap();
    assert_eq!(in_progress, 0, "keys are stuck");
    // Each key with an effect is known, by its answer or as unknown: none can be run again.
    let app = service(&engine, effects, folder.path().join("other-journal"), OnUnknown::Fail);
    for key in done {
        let mut request = keyed(key);
        *request.uri_mut() = "/v1/plain".parse().unwrap();
        let retried = ask(&app, request).await;
        assert!(retried.is_replay() || retried.body.contains("unknown-outcome"), "{retried:?}");
    }
    assert!(!folder.path().join("other-journal").exists());
}

/// R-I4, must show: killed between effect and record, at random, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_nothing_is_done_twice_on_sqlite() {
    killed_under_load(Place::sqlite()).await;
}

/// R-I4, must show: the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_under_load_nothing_is_done_twice_on_postgres() {
    let Some(place) = Place::postgres() else { return };
    killed_under_load(place).await;
}
