//! The child's side: this very binary, run again with a task in its environment.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redrive::engine::{Context, Engine, Shutdown};
use redrive::{Cause, Fail, Override, Policy, fail};
use redrive_store::{Ending, NewJob, Postgres, PostgresOptions, Store};

pub(crate) const TASK: &str = "REDRIVE_TEST_TASK";
pub(crate) const URL: &str = "REDRIVE_TEST_URL";
pub(crate) const SCHEMA: &str = "REDRIVE_TEST_SCHEMA";
pub(crate) const JOURNAL: &str = "REDRIVE_TEST_JOURNAL";
pub(crate) const LEASE_MS: &str = "REDRIVE_TEST_LEASE_MS";

/// Not a test of its own: what a child does. Without a task there is nothing to do.
#[test]
fn does_what_it_is_told() {
    let Ok(task) = std::env::var(TASK) else { return };
    let told = |name: &str| std::env::var(name).unwrap();
    let journal = Arc::new(Journal::open(&told(JOURNAL).into()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = engine(open(&told(URL), &told(SCHEMA)).await);
        match task.split_once(' ') {
            Some(("produce", name)) => produce(&engine, &journal, name).await,
            Some(("work", millis)) => {
                let lasts = Duration::from_millis(millis.parse().unwrap());
                work(&engine, &journal, Duration::from_millis(told(LEASE_MS).parse().unwrap()), lasts).await;
            }
            _ => panic!("what is {task}?"),
        }
    });
    runtime.shutdown_background();
}

pub(crate) async fn open(url: &str, schema: &str) -> Arc<dyn Store> {
    let options = PostgresOptions { create: true, schema: Some(schema.to_owned()), ..Default::default() };
    Arc::new(Postgres::open(url, options).await.unwrap())
}

pub(crate) fn engine(store: Arc<dyn Store>) -> Engine {
    let wish = Override {
        initial: Some(Duration::from_millis(20)),
        cap: Some(Duration::from_millis(100)),
        ..Override::default()
    };
    Engine::builder(store).policy(Policy::standard().with_override(&wish)).build().unwrap()
}

/// One line for each thing that is certain, in one write: it is there whole, or not at all.
pub(crate) struct Journal(Mutex<File>);

impl Journal {
    pub(crate) fn open(path: &PathBuf) -> Journal {
        Journal(Mutex::new(File::options().create(true).append(true).open(path).unwrap()))
    }

    fn note(&self, line: &str) {
        self.0.lock().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Works until it is told to leave. What `count` does takes a while; `flaky` fails the first time; `late` has a deadline.
async fn work(engine: &Engine, journal: &Arc<Journal>, lease_for: Duration, lasts: Duration) {
    let shutdown = Shutdown::new();
    let heard = shutdown.clone();
    let mut terms = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    tokio::spawn(async move {
        terms.recv().await;
        heard.signal();
    });
    let settled = Arc::clone(journal);
    let (counts, fails, late) = (Arc::clone(journal), Arc::clone(journal), Arc::clone(journal));
    let worker = engine
        .worker()
        .lease_for(lease_for)
        .concurrency(16)
        .observe(move |report| {
            let ended =
                if matches!(report.ending, Ending::Succeeded { .. }) { "succeeded" } else { "failed" };
            let token = report.leased.token;
            settled.note(&format!("settled {} {} {ended}", token.job.0, token.fence));
        })
        .handle("count", move |number: String, cx: Context| {
            let journal = Arc::clone(&counts);
            async move {
                tokio::time::sleep(lasts).await;
                journal.note(&format!("did {number} {}", cx.fence()));
                Ok::<_, Fail>(())
            }
        })
        .handle("flaky", move |number: String, cx: Context| {
            let journal = Arc::clone(&fails);
            async move {
                journal.note(&format!("did {number} {}", cx.fence()));
                if cx.attempt() == 1 { Err(fail(Cause::Network, "not yet")) } else { Ok(()) }
            }
        })
        .handle("late", move |number: String, cx: Context| {
            let journal = Arc::clone(&late);
            async move {
                journal.note(&format!("did {number} {}", cx.fence()));
                Ok::<_, Fail>(())
            }
        })
        .register()
        .await
        .unwrap();
    journal.note("ready");
    match worker.run(&shutdown).await {
        Ok(_) => journal.note("left"),
        Err(error) => {
            journal.note(&format!("broke {}", error.to_string().replace('\n', " ")));
            std::process::exit(1);
        }
    }
}

/// Enqueues from several callers until it is told to stop, and notes what it was told. Whatever is refused is not asked for again: it
/// may be there or not, but never twice.
async fn produce(engine: &Engine, journal: &Arc<Journal>, name: &str) {
    let mut callers = tokio::task::JoinSet::new();
    journal.note("ready");
    for caller in 0..8 {
        let (engine, journal, name) = (engine.clone(), Arc::clone(journal), name.to_owned());
        callers.spawn(async move {
            for number in 0_u64.. {
                let id = format!("{name}-{caller}-{number}");
                let job = NewJob { caller_id: Some(id.clone()), ..engine.job("count", &id).build().unwrap() };
                journal.note(&format!("asks {id}"));
                match engine.enqueue(job).await {
                    Ok(told) => journal.note(&format!("enqueued {id} {}", told.id.0)),
                    Err(error) => {
                        journal.note(&format!("refused {id} {}", error.to_string().replace('\n', " ")));
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        });
    }
    let mut terms = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
    terms.recv().await;
    callers.shutdown().await;
    journal.note("left");
}
