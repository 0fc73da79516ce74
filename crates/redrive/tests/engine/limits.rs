//! Panics, time limits, deadlines and lost leases: whatever the work does, it ends as data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::Context;
use redrive::{Cause, Fail, Override, fail};
use redrive_store::{JobState, LetterReason};

use crate::support::{World, run, until};

struct Mine;
impl Drop for Mine {
    fn drop(&mut self) {
        panic!("also while it is dropped");
    }
}

/// Reliability row 24: a panic is caught, charged to the crash budget, and the worker lives.
#[test]
fn a_panicking_handler_has_a_crash_budget_of_three() {
    run(async {
        let world = World::new();
        let job = world.engine.job("boom", &()).enqueue().await.unwrap().id;
        let fine = world.engine.job("fine", &()).enqueue().await.unwrap().id;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let work = world
            .worker()
            .handle("boom", move |(): (), _: Context| {
                let call = counted.fetch_add(1, Ordering::SeqCst);
                assert!(call != 0, "before there is a future");
                async move {
                    assert!(call != 1, "inside");
                    let mine = Mine;
                    tokio::task::yield_now().await;
                    drop(mine);
                    Ok::<_, Fail>(())
                }
            })
            .handle("fine", |(): (), _| async { Ok::<_, Fail>(()) })
            .run_until_empty();
        let report = world.while_time_passes(Duration::from_secs(30), work).await.unwrap();
        assert_eq!((report.succeeded, report.retried, report.dead), (1, 3, 1));
        assert_eq!(world.state(fine).await, JobState::Ended);
        let letter = world.letter(job).await;
        assert_eq!((letter.reason, letter.cause), (LetterReason::Crashed, Cause::Crashed));
        assert_eq!((letter.crashes, letter.retries, letter.attempts), (3, 0, 4));
        assert_eq!(letter.error_message, "also while it is dropped");
    });
}

/// R-P13, reliability row 25: an attempt that takes too long is a timeout with its details.
#[test]
fn an_attempt_that_takes_too_long_is_a_timeout() {
    run(async {
        let world = World::new();
        let job = world
            .engine
            .job("hang", &())
            .timeout(Duration::from_millis(20))
            .overrides(&Override { max_retries: Some(0), ..Override::default() })
            .enqueue()
            .await
            .unwrap()
            .id;
        world
            .worker()
            .handle("hang", |(): (), _: Context| std::future::pending::<Result<(), Fail>>())
            .run_until_empty()
            .await
            .unwrap();
        let letter = world.letter(job).await;
        assert_eq!((letter.cause, letter.rule.as_str()), (Cause::Timeout, "attempt.timeout"));
        assert!(letter.error_message.starts_with("timed out after "), "{}", letter.error_message);
    });
}

/// R-P13: no attempt begins past the deadline, and no retry is due at or after it.
#[test]
fn the_deadline_leaves_a_letter_and_no_further_attempt() {
    run(async {
        let world = World::new();
        let minute = Duration::from_mins(1);
        let late = world.engine.job("fetch", &()).deadline(minute).enqueue().await.unwrap().id;
        world.clock.advance(minute);
        let soon =
            world.engine.job("fetch", &()).deadline(Duration::from_millis(500)).enqueue().await.unwrap().id;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        world
            .worker()
            .handle("fetch", move |(): (), _: Context| {
                counted.fetch_add(1, Ordering::SeqCst);
                async { Err::<(), _>(fail(Cause::Network, "reset")) }
            })
            .run_until_empty()
            .await
            .unwrap();
        assert_eq!(calls.load(Ordering::SeqCst), 1, "only the one whose deadline had not passed");
        let letter = world.letter(late).await;
        assert_eq!((letter.reason, letter.attempts), (LetterReason::Deadline, 0));
        let letter = world.letter(soon).await;
        assert_eq!(
            (letter.reason, letter.attempts, letter.cause),
            (LetterReason::Deadline, 1, Cause::Network)
        );
    });
}

/// R-D2, reliability rows 18 and 19: a worker that slept past its lease stops before it acts, and cannot settle.
#[test]
fn a_lost_lease_stops_the_attempt_and_settles_nothing() {
    run(async {
        let world = World::new();
        let job = world.engine.job("slow", &()).enqueue().await.unwrap().id;
        let (acted, go) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
        let (acts, waits) = (Arc::clone(&acted), Arc::clone(&go));
        let shutdown = redrive::engine::Shutdown::new();
        let stop = shutdown.clone();
        let worker = world.worker().handle("slow", move |(): (), _: Context| {
            let (acts, waits) = (Arc::clone(&acts), Arc::clone(&waits));
            async move {
                waits.notified().await;
                acts.store(true, Ordering::SeqCst);
                Ok::<_, Fail>(())
            }
        });
        let task = tokio::spawn(async move { worker.run(&stop).await });
        until(|| async { matches!(world.state(job).await, JobState::Leased { begun_at: Some(_), .. }) })
            .await;
        // The process is stopped for a minute; meanwhile another one takes the lease over.
        world.clock.advance(Duration::from_mins(1));
        let reaper = world
            .engine
            .store()
            .register(world.engine.now(), "reaper".into(), Duration::from_mins(1))
            .await
            .unwrap();
        // Unless the worker has done so itself, which keeps the store in order as well.
        let maintained = world.engine.maintain(reaper).await.unwrap();
        assert!(maintained.reaped <= 1, "{maintained:?}");
        go.notify_one();
        until(|| async {
            !acted.load(Ordering::SeqCst) && matches!(world.state(job).await, JobState::Ready { .. })
        })
        .await;
        shutdown.signal();
        let report = task.await.unwrap().unwrap();
        assert_eq!((report.succeeded, report.lost), (0, 1));
        assert!(!acted.load(Ordering::SeqCst), "it acted without its lease");
        let record = world.engine.store().job(job).await.unwrap().unwrap();
        assert_eq!((record.attempts, record.crashes), (1, 1));
    });
}

/// Reliability row 24: a panic in a task that a handler has spawned is the handler's to see, and the worker's to survive.
#[test]
fn a_panic_in_a_spawned_task_is_no_end_of_the_worker() {
    run(async {
        let world = World::new();
        let seen = world.engine.job("spawns", &true).enqueue().await.unwrap().id;
        let unseen = world.engine.job("spawns", &false).enqueue().await.unwrap().id;
        let work = world
            .worker()
            .handle("spawns", |looks: bool, _: Context| async move {
                let task = tokio::spawn(async { panic!("in a task of its own") });
                if looks {
                    task.await.map_err(|error| fail(Cause::Unknown, error.to_string()))
                } else {
                    Ok::<_, Fail>(())
                }
            })
            .run_until_empty();
        let report = world.while_time_passes(Duration::from_secs(30), work).await.unwrap();
        assert_eq!((report.succeeded, report.dead), (1, 1));
        assert_eq!(world.state(unseen).await, JobState::Ended);
        assert!(world.letter(seen).await.error_message.contains("panicked"));
    });
}

/// R-D2: `run_until_empty` waits for what is held for a living process, takes over what a dead one held, and ends.
#[test]
fn until_empty_waits_for_the_living_and_inherits_from_the_dead() {
    run(async {
        let world = World::new();
        let store = world.engine.store();
        let minute = Duration::from_mins(1);
        let owner = store.register(world.engine.now(), "owner".into(), minute).await.unwrap();
        let held = world.engine.job("fetch", &()).held_for(owner).enqueue().await.unwrap().id;
        let later = world.engine.job("fetch", &()).delay(minute * 3).enqueue().await.unwrap().id;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let engine = world.engine.clone();
        let work = world
            .worker()
            .handle("fetch", move |(): (), cx: Context| {
                counted.fetch_add(1, Ordering::SeqCst);
                let gone = engine.now() >= crate::support::start().after(minute);
                assert!(gone, "{} was taken from a living worker", cx.job_id());
                async { Ok::<_, Fail>(()) }
            })
            .run_until_empty();
        let report = world.while_time_passes(Duration::from_secs(1), work).await.unwrap();
        assert_eq!((report.succeeded, report.retried), (2, 0));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        for job in [held, later] {
            assert_eq!(world.state(job).await, JobState::Ended);
        }
    });
}
