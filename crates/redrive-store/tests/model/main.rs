//! Random commands against the store and against a small model of it, compared after every step (invariants I1–I3).
//!
//! The clock steps forward and back. One test runs on one handle, one alternates between two handles on one file. What the
//! generator reaches is counted: a transition that never happened would be a hollow pass (I9).
//!
//! The cases are the same each time. `REDRIVE_MODEL_CASES=5000` looks longer, `REDRIVE_MODEL_SEED=7` elsewhere.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod anchor;
mod board;
mod command;
mod compare;
#[path = "../given/mod.rs"]
mod given;
mod keys;
mod reference;
mod step;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use redrive_store::{Durability, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};

use command::{Command, commands};
use reference::Reference;

/// How often each transition happened, over all cases.
type Reached = RefCell<BTreeMap<&'static str, u64>>;

const CASES: u32 = 150;
/// Each question goes to a server and back. So fewer cases, and not all that can be seen is compared after every step: every answer is.
const CASES_ON_POSTGRES: u32 = 20;
const STEPS: usize = 100;

/// Everything that must have happened at least once.
const TRANSITIONS: &[&str] = &[
    "enqueued",
    "duplicate",
    "reserved",
    "leased",
    "leased past its deadline",
    "found nothing",
    "begun",
    "begun twice",
    "refused to begin",
    "renewed",
    "renewal lost",
    "told to cancel",
    "succeeded",
    "retried",
    "crashed",
    "dead",
    "snoozed",
    "parked",
    "cancelled by its worker",
    "released",
    "stale",
    "cancelled instead of put back",
    "over with its lease",
    "seized begun",
    "seized unbegun",
    "set free",
    "redriven",
    "not dead",
    "redrive refused: duplicate",
    "hurried",
    "cancelled waiting",
    "cancelled dead",
    "cancel asked",
    "worker came",
    "worker left",
    "letters purged",
    "events pruned",
    "clock back",
];

/// The stores that are held against the model.
#[derive(Debug, Clone, Copy)]
enum BackEnd {
    Sqlite,
    Postgres,
}

async fn run_case(
    steps: &[Command],
    stores: &[Arc<dyn Store>],
    compared_every: usize,
    reached: &Reached,
) -> Result<(), TestCaseError> {
    let handles = stores.len();
    let mut reference = Reference::default();
    anchor::put(&*stores[0], &mut reference).await;
    for presence in [20_000, 50_000] {
        step::run(&*stores[0], &mut reference, &Command::Register { presence }).await?;
    }
    for (number, command) in steps.iter().enumerate() {
        let store = &*stores[number % handles];
        let said = step::run(store, &mut reference, command).await?;
        for name in said {
            *reached.borrow_mut().entry(name).or_default() += 1;
        }
        let is_last = number + 1 == steps.len();
        if (number + 1) % compared_every != 0 && !is_last {
            continue;
        }
        // Another handle must see it at once.
        let reader = &*stores[(number + 1) % handles];
        compare::compare(reader, &reference, number % 8 == 7 || is_last)
            .await
            .map_err(|error| TestCaseError::fail(format!("after step {number} {command:?}: {error}")))?;
    }
    let replay = given::history::replay(&*stores[0], given::history::Writers::Tests).await;
    prop_assert!(replay.wrong.is_empty(), "{:#?}", replay.wrong);
    for store in stores {
        store.close().await.unwrap();
    }
    Ok(())
}

/// A fresh store for one case, opened several times.
fn sqlite(
    handles: usize,
    case: impl AsyncFnOnce(&[Arc<dyn Store>]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    // What it means is looked at here, not how sure it is: the crash tests do that.
    let options =
        SqliteOptions { durability: Durability::RelaxedMayLoseAcknowledgedWork, ..Default::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let open = |_| Arc::new(Sqlite::open(&path, options.clone()).unwrap()) as Arc<dyn Store>;
        case(&(0..handles).map(open).collect::<Vec<_>>()).await
    })
}

/// The same, each case in a schema of its own. A machine without PostgreSQL has said so.
fn postgres(
    handles: usize,
    case: impl AsyncFnOnce(&[Arc<dyn Store>]) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let shared = redrive_testing::shared().expect("it was there a moment ago");
    let schema = Some(shared.schema());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        for _ in 0..handles {
            let options = PostgresOptions {
                create: true,
                schema: schema.clone(),
                caller_clock: true,
                ..PostgresOptions::default()
            };
            stores.push(Arc::new(Postgres::open(shared.url(), options).await.unwrap()));
        }
        case(&stores).await
    })
}

fn sweep(back_end: BackEnd, cases: u32, handles: usize, mut seed: [u8; 32]) {
    let told = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    let cases = told("REDRIVE_MODEL_CASES").unwrap_or(cases);
    if let Some(other) = told("REDRIVE_MODEL_SEED") {
        seed[..4].copy_from_slice(&other.to_le_bytes());
    }
    let reached = Reached::default();
    // A seed of its own: the same cases each time. A failure is shrunk and prints its commands.
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 400, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let outcome = runner.run(&commands(STEPS), |steps| match back_end {
        BackEnd::Sqlite => sqlite(handles, async |stores| run_case(&steps, stores, 1, &reached).await),
        BackEnd::Postgres => postgres(handles, async |stores| run_case(&steps, stores, 12, &reached).await),
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let reached = reached.into_inner();
    println!("{cases} cases of up to {STEPS} commands on {handles} handle(s) reached:");
    for (name, times) in &reached {
        println!("{times:7} {name}");
    }
    let missed: Vec<_> = TRANSITIONS.iter().filter(|name| !reached.contains_key(*name)).collect();
    // The rarest need more cases than PostgreSQL is given.
    let allowed = if cases < CASES { TRANSITIONS.len() / 5 } else { 0 };
    assert!(missed.len() <= allowed, "the generator never reached: {missed:?}");
}

/// R-D1, R-D2, R-D6, R-D8, R-E1, reliability rows 15 and 16
#[test]
fn the_store_does_what_the_model_does() {
    sweep(BackEnd::Sqlite, CASES, 1, *b"redrive's one handle, one model.");
}

/// Reliability row 12: two handles on one file, by turns, are one store.
#[test]
fn two_handles_do_what_the_model_does() {
    sweep(BackEnd::Sqlite, CASES, 2, *b"redrive's two handles, one model");
}

/// R-D1, R-D2, R-D6, R-D8, R-E1, reliability rows 15 and 16: PostgreSQL, too.
#[test]
fn the_store_on_postgres_does_what_the_model_does() {
    if redrive_testing::shared().is_some() {
        sweep(BackEnd::Postgres, CASES_ON_POSTGRES, 1, *b"redrive's one handle, one model.");
    }
}

/// Reliability row 39: two processes on one database, by turns, are one store.
#[test]
fn two_handles_on_postgres_do_what_the_model_does() {
    if redrive_testing::shared().is_some() {
        sweep(BackEnd::Postgres, CASES_ON_POSTGRES, 2, *b"redrive's two handles, one model");
    }
}
