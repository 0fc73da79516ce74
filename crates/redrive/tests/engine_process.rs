//! The engine in real processes that are stopped, killed, told to leave and lied to about the time.
//!
//! Each test starts this very binary again as a worker with a task. What handlers do is appended to a journal, one line per
//! act, which outlives every process. Children end with the test, whatever happens.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

#[path = "../../redrive-store/tests/history/mod.rs"]
mod history;

use std::collections::HashMap;
use std::future::Future;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::engine::{Context, Engine, Shutdown};
use redrive::{Cause, Fail, Override, Policy};
use redrive_store::{EventFilter, EventStatus, JobId, JobState, LetterReason, Order};

const TASK: &str = "REDRIVE_TEST_TASK";
const FOLDER: &str = "REDRIVE_TEST_FOLDER";
const NAME: &str = "REDRIVE_TEST_NAME";
const LEASE_MS: &str = "REDRIVE_TEST_LEASE_MS";
/// The longest that anything is waited for.
const MOST: Duration = Duration::from_secs(20);

// ---- the worker ------------------------------------------------------------------------------------------------------

/// Not a test of its own: what a child does. Without a task there is nothing to do.
#[test]
fn child() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut builder = if task == "one thread" {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(&task));
    // What blocks its thread is not waited for.
    runtime.shutdown_background();
}

struct Place {
    folder: PathBuf,
    name: String,
}

impl Place {
    fn note(&self, text: &str) {
        let mut options = std::fs::OpenOptions::new();
        let mut journal = options.append(true).create(true).open(self.folder.join("journal")).unwrap();
        journal.write_all(format!("{} {text}\n", self.name).as_bytes()).unwrap();
    }
}

fn quick() -> Policy {
    let wish = Override {
        initial: Some(Duration::from_millis(1)),
        cap: Some(Duration::from_millis(5)),
        ..Override::default()
    };
    Policy::standard().with_override(&wish)
}

fn open(folder: &Path) -> Engine {
    let store = Engine::open_store(folder.join("redrive.db")).unwrap();
    Engine::builder(store).policy(quick()).build().unwrap()
}

async fn work(task: &str) {
    let told = |name: &str| std::env::var(name).unwrap();
    let place = Arc::new(Place { folder: told(FOLDER).into(), name: told(NAME) });
    let engine = open(&place.folder);
    let shutdown = Shutdown::new();
    let mut terms = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    let heard = shutdown.clone();
    tokio::spawn(async move {
        while terms.recv().await.is_some() {
            heard.signal();
        }
    });
    let (fast, slow, poison, block) =
        (Arc::clone(&place), Arc::clone(&place), Arc::clone(&place), Arc::clone(&place));
    let worker = engine
        .worker()
        .lease_for(Duration::from_millis(told(LEASE_MS).parse().unwrap()))
        .handle("fast", move |number: u64, _: Context| {
            let place = Arc::clone(&fast);
            async move {
                tokio::task::yield_now().await;
                place.note(&format!("did {number}"));
                Ok::<_, Fail>(())
            }
        })
        .handle("slow", move |go: String, cx: Context| {
            let place = Arc::clone(&slow);
            async move {
                place.note(&format!("begins {}", cx.fence()));
                while !place.folder.join(&go).exists() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                // Whether the lease is still its own is asked where the work waits, and nowhere else.
                tokio::task::yield_now().await;
                place.note(&format!("acts {}", cx.fence()));
                Ok::<_, Fail>(())
            }
        })
        .handle("poison", move |(): (), cx: Context| {
            poison.note(&format!("dies {}", cx.attempt()));
            async {
                // Whoever runs beside it has a moment to end.
                tokio::time::sleep(Duration::from_millis(60)).await;
                std::process::abort();
                #[allow(unreachable_code)]
                Ok::<_, Fail>(())
            }
        })
        .handle("block", move |millis: u64, cx: Context| {
            let place = Arc::clone(&block);
            async move {
                place.note(&format!("begins {}", cx.fence()));
                // The second one to come does better.
                if cx.fence() == 1 {
                    std::thread::sleep(Duration::from_millis(millis));
                }
                place.note(&format!("ends {}", cx.fence()));
                Ok::<_, Fail>(())
            }
        })
        .register()
        .await
        .unwrap();
    place.note("ready");
    let report = match task {
        "until told" => worker.run(&shutdown).await,
        _ => worker.run_until_empty(&shutdown).await,
    };
    let report = report.unwrap();
    place.note(&format!(
        "leaves succeeded={} lost={} released={}",
        report.succeeded, report.lost, report.released
    ));
}

// ---- the tests' side -------------------------------------------------------------------------------------------------

struct Process(Child);

impl Process {
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).stderr(Stdio::null()).status();
        assert!(sent.is_ok(), "kill could not be run");
    }

    fn end(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(began.elapsed() < MOST, "a child hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            // Also one that is stopped.
            self.signal("-KILL");
            let _status = self.0.wait();
        }
    }
}

struct World {
    engine: Engine,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        World { engine: open(folder.path()), folder }
    }

    fn command(&self, task: &str, name: &str, lease_ms: u64) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--nocapture", "--test-threads=1", "--quiet"])
            .env(TASK, task)
            .env(FOLDER, self.folder.path())
            .env(NAME, name)
            .env(LEASE_MS, lease_ms.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        command
    }

    fn start(&self, task: &str, name: &str, lease_ms: u64) -> Process {
        Process(self.command(task, name, lease_ms).spawn().unwrap())
    }

    fn journal(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn has(&self, line: &str) -> bool {
        self.journal().iter().any(|noted| noted.starts_with(line))
    }

    fn put(&self, file: &str, text: &str) {
        // In one piece, so that nobody reads half of it.
        let new = self.folder.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.folder.path().join(file)).unwrap();
    }

    async fn state(&self, job: JobId) -> JobState {
        self.engine.store().job(job).await.unwrap().unwrap().state
    }

    async fn clean(&self) {
        let report = self.engine.store().check().await.unwrap();
        assert!(report.is_clean(), "{:#?}", report.violations);
        history::replay(self.engine.store(), history::Writers::Engines).await.must_be_whole();
    }

    /// The types and numbers of attempts of a job's events, the oldest first.
    async fn story(&self, job: JobId) -> Vec<(String, u64)> {
        let filter = EventFilter { job: Some(job), order: Order::OldestFirst, ..EventFilter::default() };
        let events = self.engine.query(filter, 1_000).await.unwrap();
        let attempt = |event: &redrive_store::Event| event.data["attempt"].as_u64().unwrap_or(0);
        events.into_iter().map(|event| (event.event_type.clone(), attempt(&event))).collect()
    }
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(50), test).await })
        .expect("the test hangs")
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < MOST, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// R-D2, reliability row 18: a process that was stopped beyond its lease acts no further when it wakes, settles nothing, and
/// the attempt is charged once.
#[test]
fn a_process_stopped_beyond_its_lease_acts_no_further() {
    run(async {
        // At several points of its heartbeat, which comes every 500 ms.
        for delay in [0, 170, 340, 510] {
            let world = World::new();
            let job = world.engine.job("slow", "go").enqueue().await.unwrap().id;
            let mut first = world.start("until empty", "A", 1_500);
            until("A begins", async || world.has("A begins 1")).await;
            tokio::time::sleep(Duration::from_millis(delay)).await;
            first.signal("-STOP");
            let mut second = world.start("until empty", "B", 1_500);
            until("B begins", async || world.has("B begins 3")).await;
            // From here on whoever runs may act; the one that sleeps must not when it wakes.
            world.put("go", "");
            assert!(second.end().success());
            first.signal("-CONT");
            assert!(first.end().success());
            let journal = world.journal();
            let acts: Vec<_> = journal.iter().filter(|line| line.contains("acts")).collect();
            assert_eq!(acts, ["B acts 3"], "{journal:?}");
            assert!(world.has("A leaves succeeded=0 lost=1"), "{journal:?}");
            assert!(world.has("B leaves succeeded=1 lost=0"), "{journal:?}");
            let told = [
                ("job_enqueued", 0),
                ("attempt_started", 1),
                ("attempt_failed", 1),
                ("attempt_started", 2),
                ("attempt_succeeded", 2),
            ];
            assert_eq!(world.story(job).await, told.map(|(name, attempt)| (name.to_owned(), attempt)));
            world.clean().await;
        }
    });
}

/// R-D2, reliability row 23: a job that takes its process down is a letter after its crash budget, and others are done.
#[test]
fn a_job_that_aborts_its_process_ends_as_a_letter() {
    run(async {
        let world = World::new();
        let poison = world.engine.job("poison", &()).enqueue().await.unwrap().id;
        let fine = world.engine.job("fast", &1_u64).enqueue().await.unwrap().id;
        let mut deaths = 0;
        for life in 1..=10 {
            let mut child = world.start("until empty", &life.to_string(), 150);
            let status = child.end();
            if status.success() {
                break;
            }
            assert_eq!(status.signal(), Some(6), "{status:?}");
            deaths += 1;
        }
        assert_eq!(deaths, 4, "{:?}", world.journal());
        let letter = world.engine.letter(poison).await.unwrap().expect("a letter");
        assert_eq!((letter.reason, letter.cause), (LetterReason::Crashed, Cause::Crashed));
        assert_eq!((letter.attempts, letter.crashes, letter.retries), (4, 3, 0));
        assert_eq!(world.state(fine).await, JobState::Ended);
        world.clean().await;
    });
}

/// Reliability row 25: a handler that blocks its thread holds up nobody else, and its lease is kept.
#[test]
fn a_handler_that_blocks_holds_up_nobody() {
    run(async {
        let world = World::new();
        let blocked = world.engine.job("block", &1_200_u64).enqueue().await.unwrap().id;
        for number in 0..50_u64 {
            world.engine.job("fast", &number).enqueue().await.unwrap();
        }
        let mut child = world.start("until empty", "A", 200);
        assert!(child.end().success());
        let journal = world.journal();
        let ended = journal.iter().position(|line| line == "A ends 1").unwrap();
        assert_eq!(journal[..ended].iter().filter(|line| line.contains("did")).count(), 50, "{journal:?}");
        assert!(world.has("A leaves succeeded=51 lost=0"), "{journal:?}");
        assert_eq!(world.story(blocked).await.len(), 3);
        world.clean().await;
    });
}

/// Reliability rows 19 and 25: one that blocks the only thread loses its lease; what it comes to does not count.
#[test]
fn a_handler_that_blocks_the_only_thread_loses_its_lease() {
    run(async {
        let world = World::new();
        let job = world.engine.job("block", &1_500_u64).enqueue().await.unwrap().id;
        let mut first = world.start("one thread", "A", 300);
        until("A begins", async || world.has("A begins 1")).await;
        let mut second = world.start("until empty", "B", 300);
        assert!(second.end().success());
        assert!(world.has("B ends 3"), "{:?}", world.journal());
        assert!(first.end().success());
        assert!(world.has("A leaves succeeded=0 lost=1"), "{:?}", world.journal());
        let story = world.story(job).await;
        let of = |name: &str| story.iter().filter(|(told, _)| told == name).count();
        assert_eq!((of("attempt_succeeded"), of("attempt_started")), (1, 2), "{story:?}");
        world.clean().await;
    });
}

/// Reliability row 27: told to leave at any instant, once or twice, a worker loses nothing, does nothing twice, and nothing
/// that was given back is counted.
#[test]
fn a_worker_may_be_told_to_leave_at_any_instant() {
    const INSTANTS: u64 = 60;
    run(async {
        let world = World::new();
        let mut number = 0;
        for instant in 0..INSTANTS {
            let jobs = (0..150).map(|_| {
                number += 1;
                world.engine.job("fast", &number).build().unwrap()
            });
            world.engine.enqueue_many(jobs.collect()).await.unwrap();
            let name = instant.to_string();
            let mut child = world.start("until told", &name, 30_000);
            until("it is ready", async || world.has(&format!("{name} ready"))).await;
            tokio::time::sleep(Duration::from_micros(instant * 211 % 9_000)).await;
            child.signal("-TERM");
            if instant % 3 == 0 {
                child.signal("-TERM");
            }
            let status = child.end();
            assert!(status.success(), "{status:?} at {instant}");
            let status = world.engine.store().status(world.engine.now()).await.unwrap();
            assert_eq!(status.lanes[0].leased, 0, "something was left behind at {instant}");
        }
        assert!(world.start("until empty", "last", 30_000).end().success());
        let mut did: HashMap<String, u32> = HashMap::new();
        for line in world.journal().iter().filter_map(|line| line.split_once("did ")) {
            *did.entry(line.1.to_owned()).or_default() += 1;
        }
        assert_eq!(did.len() as u64, number, "something was lost");
        let twice: Vec<_> = did.iter().filter(|(_, times)| **times != 1).collect();
        assert!(twice.is_empty(), "done twice: {twice:?}");
        let filter = EventFilter { statuses: vec![EventStatus::Success], ..EventFilter::default() };
        let done = world.engine.query(filter, 100_000).await.unwrap();
        assert_eq!(done.len() as u64, number);
        assert!(
            done.iter().all(|event| event.data["attempt"] == 1),
            "something that was given back was counted"
        );
        let cut: Vec<_> = world
            .journal()
            .into_iter()
            .filter(|line| line.contains("leaves") && !line.starts_with("last"))
            .collect();
        let busy = cut
            .iter()
            .filter(|line| !line.contains("succeeded=0 ") && !line.contains("succeeded=150 "))
            .count();
        eprintln!("{INSTANTS} instants, {busy} of them in the middle of work");
        world.clean().await;
    });
}

/// libfaketime, whose clock is read from a file.
fn faketime() -> Option<PathBuf> {
    let roots = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/lib64"];
    roots.iter().map(|root| Path::new(root).join("faketime/libfaketimeMT.so.1")).find(|path| path.exists())
}

/// Reliability rows 15 and 16: when the clock jumps a year either way, nobody who lives loses a lease, what is due is done,
/// and what waits is delayed by no more than the jump.
#[test]
fn a_clock_that_jumps_a_year_either_way_takes_nothing_from_the_living() {
    let Some(library) = faketime() else {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing");
        eprintln!("SKIPPED: libfaketime is missing (apt-get install faketime)");
        return;
    };
    run(async {
        let world = World::new();
        let start = |name: &str| {
            let mut command = world.command("until told", name, 900);
            command
                .env("LD_PRELOAD", &library)
                .env("FAKETIME_TIMESTAMP_FILE", world.folder.path().join("clock"))
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1")
                .env("NO_FAKE_STAT", "1");
            Process(command.spawn().unwrap())
        };
        let slow = async |go: &str| {
            let job = world.engine.job("slow", go).enqueue().await.unwrap().id;
            until("it begins", async || matches!(world.state(job).await, JobState::Leased { .. })).await;
            job
        };
        let jumps = async |count: usize| {
            let filter = EventFilter { types: vec!["clock_jumped".into()], ..EventFilter::default() };
            until("everybody noticed", async || {
                world.engine.query(filter.clone(), 99).await.unwrap().len() == count
            })
            .await;
        };
        let done = async |job: JobId| {
            until("it is done", async || world.state(job).await == JobState::Ended).await;
            let told = ["job_enqueued", "attempt_started", "attempt_succeeded"];
            let story: Vec<_> = world.story(job).await.into_iter().map(|(name, _)| name).collect();
            assert_eq!(story, told, "{:?}", world.journal());
        };
        world.put("clock", "+0d");
        let mut workers = vec![start("A"), start("B")];
        // Who begins only after the jump would not notice it.
        until("A and B are ready", async || world.has("A ready") && world.has("B ready")).await;
        let first = slow("first").await;
        world.put("clock", "+365d");
        // One that starts only now has never seen another time.
        workers.push(start("C"));
        until("C is ready", async || world.has("C ready")).await;
        jumps(2).await;
        world.put("first", "");
        done(first).await;
        let second = slow("second").await;
        world.put("clock", "-365d");
        jumps(5).await;
        world.put("second", "");
        done(second).await;
        // Due now, and for those who live in the past in a year: delayed by the jump, and not beyond it.
        let third = world.engine.job("fast", &3_u64).enqueue().await.unwrap().id;
        world.put("clock", "+0d");
        done(third).await;
        for worker in &mut workers {
            worker.signal("-TERM");
            assert!(worker.end().success());
        }
        world.clean().await;
    });
}
