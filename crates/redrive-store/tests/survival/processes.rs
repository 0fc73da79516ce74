//! Several processes on one file: they take turns, and nobody hears of a lock (reliability row 12).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_policy::Cause;
use redrive_store::{
    DeadLetters, Events, Housekeeping, Jobs, Leases, LetterFilter, NewEvent, NewJob, Redriven, Settled,
    Settlement, Sqlite, SqliteOptions, Workers,
};

use crate::given::{Hand, SECOND, at, dead, retry, success, wants};
use crate::journal::{Acknowledged, Journal};
use crate::process::{Process, child};

const PROCESSES: i64 = 8;
const OPERATIONS: usize = 1_000;

/// The child's side: a thousand operations of every kind, every one of which must succeed.
pub(crate) async fn mixed(store: &Arc<Sqlite>, journal: &Arc<Journal>, number: i64) {
    let worker = store.register(at(0), format!("process {number}"), SECOND * 600).await.unwrap();
    let mut done = 1;
    while done < OPERATIONS {
        let new = NewJob::new("a", format!("{number}-{done}"));
        let keyed = NewJob { unique_key: Some(format!("key {}", done % 50)), ..NewJob::new("b", "keyed") };
        let (first, second) =
            tokio::join!(store.enqueue(at(0), vec![new.clone(), new]), store.enqueue(at(0), vec![keyed]));
        for one in first.unwrap().into_iter().chain(second.unwrap()).filter(|one| !one.existing) {
            journal.enqueued(one.id);
        }
        let leased = store.lease(at(0), wants(worker, &["a", "b"], 3)).await.unwrap();
        let tokens: Vec<_> = leased.iter().map(|leased| leased.token).collect();
        store.renew(at(0), worker, SECOND * 600, tokens.clone()).await.unwrap();
        for (at_hand, leased) in leased.iter().enumerate() {
            let (ending, how) = match (done + at_hand) % 5 {
                0 => (dead(Cause::Network, "mixed"), "dead"),
                1 => (retry(at(0)), "retry"),
                _ => (success(), "succeeded"),
            };
            let settlement = Settlement { token: leased.token, ending };
            let settled = store.settle(at(0), vec![settlement]).await.unwrap();
            assert!(matches!(settled[0], Settled::Done { .. }), "somebody else settled {:?}", leased.token);
            journal.begun(leased.token);
            journal.settled(leased.token, how);
        }
        let event = NewEvent { event_type: "note".into(), source: "mixed".into(), ..NewEvent::default() };
        journal.event(&store.append(at(0), vec![event]).await.unwrap()[0].1);
        let letters = store.letters(LetterFilter::default(), 1).await.unwrap();
        let ids: Vec<_> = letters.iter().map(|letter| letter.id).collect();
        for (told, id) in store.redrive(at(0), ids.clone(), "redriven").await.unwrap().iter().zip(ids) {
            if *told == Redriven::Ready {
                journal.redriven(id);
            }
        }
        store.status(at(0)).await.unwrap();
        done += 8 + leased.len();
    }
    store.unregister(at(0), worker).await.unwrap();
}

/// Reliability row 12, invariants I1–I5, I9: eight processes, a thousand operations each, not one error.
#[test]
fn eight_processes_share_one_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let journal = |number: i64| home.path().join(format!("journal-{number}"));
    let mut all: Vec<_> = (0..PROCESSES)
        .map(|number| Process::spawn(&mut child(&format!("mixed {number}"), &path, &journal(number))))
        .collect();
    for (number, process) in all.iter_mut().enumerate() {
        assert!(process.end().success(), "process {number} met an error");
    }
    let told: Vec<_> = (0..PROCESSES).map(|number| Acknowledged::read(&journal(number))).collect();
    assert!(told.iter().all(|told| told.finished));
    let enqueued: Vec<_> = told.iter().flat_map(|told| told.enqueued.iter().copied()).collect();
    assert_eq!(enqueued.iter().collect::<BTreeSet<_>>().len(), enqueued.len(), "an id was given out twice");
    let settled: Vec<_> = told.iter().flat_map(|told| told.settled.iter()).collect();
    let fences: BTreeSet<_> = settled.iter().map(|(token, _)| (token.job, token.fence)).collect();
    assert_eq!(fences.len(), settled.len(), "a lease was settled twice");
    let count = |how: &str| settled.iter().filter(|(_, one)| one == how).count() as u64;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        let hand = Hand(&store);
        hand.clean().await;
        let status = store.status(at(0)).await.unwrap();
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for lane in &status.lanes {
            *sums.entry("ready").or_default() += lane.ready;
            *sums.entry("leased").or_default() += lane.leased;
            *sums.entry("succeeded").or_default() += lane.succeeded;
        }
        let redriven: usize = told.iter().flat_map(|told| told.redriven.values()).sum();
        assert_eq!(sums["leased"], 0);
        assert_eq!(sums["succeeded"], count("succeeded"));
        assert_eq!(status.dead_letters, count("dead") - redriven as u64);
        assert_eq!(sums["ready"] + status.dead_letters + sums["succeeded"], enqueued.len() as u64);
        assert_eq!(status.workers, 0);
        for told in &told {
            for id in &told.events {
                assert!(store.event(id.clone()).await.unwrap().is_some(), "event {id} is lost");
            }
        }
        println!("{} jobs, {} settled, {} events", enqueued.len(), settled.len(), status.events);
    });
}

/// Reliability rows 11, 12 and 42: whoever comes first makes the store, and nobody else minds.
#[test]
fn several_make_the_same_store_at_once() {
    for round in 0..20 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("redrive.db");
        let journal = home.path().join("journal");
        let mut all: Vec<_> =
            (0..4).map(|_| Process::spawn(&mut child("add-one", &path, &journal))).collect();
        for process in &mut all {
            assert!(process.end().success(), "round {round}: a process met an error");
        }
        let told = Acknowledged::read(&journal);
        assert_eq!(told.enqueued.iter().collect::<BTreeSet<_>>().len(), 4);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { told.holds(&Sqlite::open(&path, SqliteOptions::default()).unwrap()).await });
    }
}

/// The same inside one process, where opening is quicker and so closer together.
#[test]
fn several_handles_make_the_same_store_at_once() {
    for round in 0..40 {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("redrive.db");
        let barrier = std::sync::Barrier::new(6);
        let stores: Vec<_> = std::thread::scope(|scope| {
            let opening: Vec<_> = (0..6)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        Sqlite::open(&path, SqliteOptions::default())
                    })
                })
                .collect();
            opening.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let ids: BTreeSet<_> = stores
            .iter()
            .map(|store| store.as_ref().unwrap_or_else(|error| panic!("round {round}: {error}")).store_id())
            .collect();
        assert_eq!(ids.len(), 1, "round {round}: two stores were made");
    }
}

/// Reliability rows 1 and 12: one of them is killed again and again in the middle of its writing; the others hear nothing of
/// it, and what the dead ones were told is there.
#[test]
fn the_death_of_one_process_is_not_the_others_trouble() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let journal = |number: i64| home.path().join(format!("journal-{number}"));
    let mut living: Vec<_> = (0..2)
        .map(|number| Process::spawn(&mut child(&format!("mixed {number}"), &path, &journal(number))))
        .collect();
    let mut deaths = 0;
    let mut dead = Vec::new();
    while living.iter_mut().any(Process::is_running) {
        let mine = journal(100 + deaths);
        let mut victim = Process::spawn(&mut child("flood", &path, &mine));
        let began = std::time::Instant::now();
        while Acknowledged::read(&mine).lines < 20 {
            assert!(victim.is_running() && began.elapsed() < SECOND * 60, "the victim met an error");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        victim.signal("-KILL");
        victim.end();
        deaths += 1;
        dead.extend(Acknowledged::read(&mine).enqueued);
    }
    for process in &mut living {
        assert!(process.end().success(), "one of the living met an error");
    }
    println!("{deaths} deaths, {} jobs from the dead", dead.len());
    assert!(deaths >= 2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        Hand(&store).clean().await;
        for id in dead {
            assert!(store.job(id).await.unwrap().is_some(), "{id} is lost");
        }
    });
}

/// The child's side: takes a job, and settles it when a file appears.
pub(crate) async fn hold(store: &Arc<Sqlite>, journal: &Arc<Journal>, sign: &std::path::Path) {
    let worker = Hand(&**store).worker().await;
    let leased = Hand(&**store).take(at(0), worker, &["a"]).await;
    journal.begun(leased.token);
    while !sign.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let settled = Hand(&**store).settle(at(0), leased.token, success()).await;
    if settled != Settled::Stale {
        journal.settled(leased.token, "succeeded");
    }
}

/// Reliability row 18: a process is stopped beyond its lease. Others go on without it, and when it wakes, what it has to say
/// changes nothing.
#[test]
fn a_process_that_slept_beyond_its_lease_settles_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (path, journal) = (home.path().join("redrive.db"), home.path().join("journal"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        let hand = Hand(&store);
        let id = hand.add(NewJob::new("a", "x")).await;
        let mut sleeper = Process::spawn(&mut child("hold", &path, &journal));
        let began = std::time::Instant::now();
        while Acknowledged::read(&journal).begun.is_empty() {
            assert!(sleeper.is_running() && began.elapsed() < SECOND * 60, "it never took the job");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        sleeper.signal("-STOP");
        let reaper = hand.worker().await;
        let seized = store.seize_expired(at(31_000), reaper, SECOND * 30, 9).await.unwrap();
        assert_eq!(seized.len(), 1);
        hand.done(at(31_000), seized[0].leased.token, retry(at(31_000))).await;
        let again = hand.take(at(31_000), reaper, &["a"]).await;
        let before = hand.everything().await;
        std::fs::write(home.path().join("journal.sign"), "").unwrap();
        sleeper.signal("-CONT");
        assert!(sleeper.end().success());
        assert!(Acknowledged::read(&journal).settled.is_empty(), "the sleeper settled");
        // It came and went as a worker; the job is as it was, and what came too late is told.
        let mut after = hand.everything().await;
        let late = after.1.extract_if(.., |event| event.event_type == "stale_settle").count();
        assert_eq!(late, 1);
        assert_eq!((before.1, before.2), (after.1, after.2));
        hand.done(at(31_001), again.token, success()).await;
        assert_eq!(hand.types(id).await.len(), 6);
        hand.clean().await;
    });
}
