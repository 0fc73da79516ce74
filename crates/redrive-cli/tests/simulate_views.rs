//! What people see of a simulation: a recorded outage under other policies, rich, plain and as JSON, in both languages.
//!
//! The outage is the one of `crates/redrive/tests/simulate/outage.rs`, where its numbers are worked out by hand: six jobs,
//! a target that is down from minute 1 to minute 5, 60 s between attempts, three retries.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Clock, Engine, ManualClock, Shutdown};
use redrive::{Cause, Fail, fail};
use redrive_policy::{Config, Format};
use redrive_store::{JobState, Sqlite, SqliteOptions, Timestamp};
use support::{line, redrive};
use tempfile::TempDir;

/// Twenty minutes before the clock of [`support::Line`].
const BEGINNING: &str = "2015-10-21T07:08:00Z";

const POLICIES: &str = r#"
[policies.a]
extends = "standard"
max_retries = 3
backoff = { type = "constant", initial_delay = "60s", max_delay = "5m", jitter = "none" }

[policies.b]
extends = "a"
max_retries = 6
backoff = { type = "constant", initial_delay = "45s", max_delay = "5m", jitter = "none" }

[policies.c]
extends = "a"
max_retries = 1

[policies.d]
extends = "b"
max_retries = 5
"#;

fn second(seconds: u64) -> Timestamp {
    BEGINNING.parse::<Timestamp>().unwrap().after(Duration::from_secs(seconds))
}

/// Records the outage in a folder that also has the policies.
fn outage() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redrive.toml"), POLICIES).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let recorded = async { tokio::time::timeout(Duration::from_mins(1), record(&folder)).await };
    runtime.block_on(recorded).expect("the outage does not end");
    folder
}

async fn record(folder: &TempDir) {
    let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap();
    let clock = Arc::new(ManualClock::at(second(0)));
    let config = Config::parse(POLICIES, Format::Toml, "redrive.toml").unwrap();
    let engine = Engine::builder(Arc::new(store))
        .clock(Arc::clone(&clock) as _)
        .config(&config)
        .default_policy("a")
        .build()
        .unwrap();
    let time = Arc::clone(&clock);
    // It never waits at the store, which would add the time that really passed to ours.
    let worker = engine.worker().wait(Duration::ZERO).lease_for(Duration::from_hours(10)).handle(
        "charge",
        move |(): (), _cx| {
            let now = time.now();
            async move {
                let down = now >= second(60) && now < second(300);
                if down { Err::<(), Fail>(fail(Cause::Network, "connection refused")) } else { Ok(()) }
            }
        },
    );
    let shutdown = Shutdown::new();
    let outage = async {
        let mut jobs = Vec::new();
        // Nothing is due but at a multiple of 30 s.
        for at in (0..=600).step_by(30) {
            clock.advance(second(at).since(engine.now()));
            if [30, 60, 90, 150, 210, 270].contains(&at) {
                jobs.push(engine.job("charge", &()).queue("billing").enqueue().await.unwrap().id);
            }
            for job in &jobs {
                while match engine.store().job(*job).await.unwrap().unwrap().state {
                    JobState::Leased { .. } => true,
                    JobState::Ready { run_at, .. } => run_at <= engine.now(),
                    _ => false,
                } {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        }
        shutdown.signal();
    };
    let (report, ()) = tokio::join!(worker.run(&shutdown), outage);
    report.unwrap();
    engine.store().close().await.unwrap();
}

const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// Arguments that name the store and the policies.
fn here(folder: &TempDir) -> String {
    let at = folder.path().display();
    format!("--store sqlite:{at}/redrive.db --config {at}/redrive.toml")
}

fn check(name: &str, command: &str, folder: &TempDir) {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let ran = line(&format!("{command} {flags} {}", here(folder))).run();
        page.push_str(&format!("===== {form}: redrive {command} {flags}\n{ran}\n"));
    }
    insta::assert_snapshot!(name, page.replace(&folder.path().display().to_string(), "[DIR]"));
}

/// R-C2, issue 5, item 5: two policies beside the record, what is unknown, and what only stops earlier; all in every form.
#[test]
fn simulations_in_every_form() {
    let folder = outage();
    check("simulate_two", "policy simulate --policy b --policy c", &folder);
    check("simulate_unknown", "policy simulate --policy d --since 2015-10-21T07:08:00Z", &folder);
    check("simulate_own", "policy simulate --queue billing", &folder);
    check("simulate_changed", "policy simulate --max-retries 1 --cause network --limit 4", &folder);
}

/// Issue 5, "bad input": what there is nothing of is exit 3 with what to do; what cannot be meant is exit 2.
#[test]
fn what_cannot_be_simulated_is_told() {
    let folder = outage();
    check("simulate_nothing", "policy simulate --queue elsewhere", &folder);
    let run = |more: &str| line(&format!("policy simulate {more} {}", here(&folder))).run();
    for (more, code, words) in [
        ("--policy gremlin", 2, "there is no policy \"gremlin\""),
        ("--file nowhere.toml", 1, "nowhere.toml"),
        ("--limit 0", 2, "--limit"),
        ("--since yesterday", 2, "--since"),
        ("--cause gremlin", 2, "gremlin"),
    ] {
        let ran = run(more);
        assert_eq!(ran.code, code, "{more}: {ran}");
        assert!(ran.stderr.contains(words), "{more}: {ran}");
        assert_eq!(ran.stdout, "", "{more}");
    }
    let broken = folder.path().join("broken.toml");
    std::fs::write(&broken, "[policies.x]\nmax_tries = 3\n").unwrap();
    let ran = run(&format!("--file {}", broken.display()));
    assert!(ran.code == 1 && ran.stderr.contains("max_tries"), "{ran}");
    let missing = format!("sqlite:{}/none.db", folder.path().display());
    let ran = redrive(["policy", "simulate", "--store", &missing]).run();
    assert_eq!(ran.code, 3, "{ran}");
}

/// Issue 5, item 5: policies of a file are tried by the names that the jobs' own have.
#[test]
fn a_file_is_tried_as_if_it_were_deployed() {
    let folder = outage();
    let file = folder.path().join("next.toml");
    std::fs::write(&file, POLICIES.replace("max_retries = 3", "max_retries = 1")).unwrap();
    let simulate = |more: &str| {
        let ran = line(&format!("policy simulate --json {more} {}", here(&folder))).run();
        assert_eq!(ran.code, 0, "{ran}");
        serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()["simulated"][0].clone()
    };
    let deployed = simulate(&format!("--file {}", file.display()));
    // As C of the outage: jobs 2 to 5 are lost after two attempts each, and job 6 recovers.
    assert_eq!(deployed["lost"], 4);
    assert_eq!(deployed["attempts"]["most"], 10);
    assert_eq!(deployed["attempts_estimated"], 0);
    let named = simulate("--policy c");
    assert_eq!(named["lost"], deployed["lost"]);
}
