//! Retries in process that are durable history.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{Engine, ManualClock};
use redrive::{Cancel, Cause, Fail, Override, Policy, Stop, fail};
use redrive_store::{EventFilter, EventStatus, JobId, JobState, LetterReason, Order};

use crate::support::{World, run, until};

use EventStatus::{Pending, Retrying, Running, Success};

fn quick() -> Policy {
    let wish = Override { initial: Some(Duration::from_millis(1)), ..Override::default() };
    Policy::standard().with_override(&wish)
}

/// An engine whose clock runs by itself: a retry in process waits for real.
fn real() -> (Engine, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Engine::open(folder.path().join("redrive.db")).unwrap(), folder)
}

async fn statuses(engine: &Engine, job: JobId) -> Vec<EventStatus> {
    let filter = EventFilter { job: Some(job), order: Order::OldestFirst, ..EventFilter::default() };
    engine.query(filter, 100).await.unwrap().iter().map(|event| event.status).collect()
}

/// R-P13, R-E2: every attempt is begun and settled, and the value comes back.
#[test]
fn a_closure_that_succeeds_at_last_leaves_its_whole_story() {
    run(async {
        let (engine, _folder) = real();
        let calls = AtomicU32::new(0);
        let answer = engine
            .retry("fetch", || {
                let call = calls.fetch_add(1, Ordering::SeqCst);
                async move { if call < 2 { Err(fail(Cause::Network, "reset")) } else { Ok(call) } }
            })
            .policy(quick())
            .await;
        assert_eq!(answer.unwrap(), 2);
        assert_eq!(
            statuses(&engine, JobId(1)).await,
            [Pending, Running, Retrying, Running, Retrying, Running, Success]
        );
        // Many at once, each with its own lease.
        let many = (0..50).map(|number| {
            let engine = engine.clone();
            tokio::spawn(
                async move { engine.retry("many", || async { Ok::<_, Fail>(number) }).await.unwrap() },
            )
        });
        for (number, task) in many.enumerate().collect::<Vec<_>>() {
            assert_eq!(task.await.unwrap(), number);
        }
        assert_eq!(engine.store().status(engine.now()).await.unwrap().dead_letters, 0);
    });
}

/// R-D5: a closure that fails for good, panics or takes too long is a letter, and the error tells the attempts.
#[test]
fn a_closure_that_fails_for_good_is_a_letter() {
    run(async {
        let (engine, _folder) = real();
        let error = engine
            .retry("pay", || async { Err::<(), _>(fail(Cause::AuthError, "key revoked")) })
            .payload(&"order 7")
            .caller_id("o-7")
            .await
            .unwrap_err();
        assert_eq!((error.attempts_made(), error.stopped()), (1, Stop::Decided));
        let letter = engine.letter(JobId(1)).await.unwrap().unwrap();
        assert_eq!((letter.cause, letter.reason), (Cause::AuthError, LetterReason::NonRetryable));
        assert_eq!((letter.kind.as_str(), letter.payload.as_slice()), ("pay", br#""order 7""#.as_slice()));
        assert_eq!(letter.caller_id.as_deref(), Some("o-7"));

        let policy = quick().with_max_retries(1);
        let hang = || std::future::pending::<Result<(), Fail>>();
        let error =
            engine.retry("hang", hang).policy(&policy).timeout(Duration::from_millis(10)).await.unwrap_err();
        assert_eq!(error.attempts_made(), 2);
        let letter = engine.letter(JobId(2)).await.unwrap().unwrap();
        assert_eq!((letter.cause, letter.attempts, letter.retries), (Cause::Timeout, 2, 1));

        let total = Duration::from_millis(30);
        let error = engine.retry("late", hang).deadline(total).await.unwrap_err();
        assert!(matches!(error.stopped(), Stop::Deadline { .. }));
        assert_eq!(engine.letter(JobId(3)).await.unwrap().unwrap().reason, LetterReason::Deadline);
    });
}

/// R-P13: whoever cancels ends it, while it runs or waits; there is no letter.
#[test]
fn a_cancelled_closure_leaves_no_letter() {
    run(async {
        let (engine, _folder) = real();
        let cancel = Cancel::new();
        let running = engine
            .retry("hang", || {
                cancel.cancel();
                std::future::pending::<Result<(), Fail>>()
            })
            .cancelled_by(&cancel);
        assert_eq!(running.await.unwrap_err().stopped(), Stop::Cancelled);
        assert_eq!(engine.store().job(JobId(1)).await.unwrap().unwrap().state, JobState::Ended);

        let cancel = Cancel::new();
        let theirs = cancel.clone();
        let waiting = engine.retry("wait", || async { Err::<(), _>(fail(Cause::RateLimit, "slow down")) });
        let waiting = tokio::spawn({
            let waiting = waiting.cancelled_by(&cancel);
            async move { waiting.await.unwrap_err().stopped() }
        });
        until(|| async {
            matches!(
                engine.store().job(JobId(2)).await.unwrap(),
                Some(record) if record.attempts == 1 && matches!(record.state, JobState::Ready { .. })
            )
        })
        .await;
        theirs.cancel();
        assert_eq!(waiting.await.unwrap(), Stop::Cancelled);
        until(|| async { engine.store().job(JobId(2)).await.unwrap().unwrap().state == JobState::Ended })
            .await;
        assert_eq!(engine.get_dead_letter_queue(10).await.unwrap(), []);
    });
}

/// Design §5: an inline job whose process died becomes a letter with cause `crashed`, and a handler can take it over.
#[test]
fn a_closure_whose_process_died_is_a_letter() {
    let world = World::new();
    let engine = world.engine.clone();
    // The runtime is the process: when it goes, nobody renews anything.
    let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    process.spawn(async move {
        let hang = || std::future::pending::<Result<(), Fail>>();
        engine.retry("charge", hang).payload(&7).await.unwrap();
    });
    let clock: &Arc<ManualClock> = &world.clock;
    run(async {
        until(|| async {
            matches!(
                world.engine.store().job(JobId(1)).await.unwrap().map(|record| record.state),
                Some(JobState::Leased { begun_at: Some(_), .. })
            )
        })
        .await;
    });
    process.shutdown_background();
    run(async {
        clock.advance(Duration::from_mins(1));
        let now = world.engine.now();
        let reaper =
            world.engine.store().register(now, "reaper".into(), Duration::from_mins(1)).await.unwrap();
        let other = world.another(|builder| builder);
        until(|| async {
            other.maintain(reaper).await.unwrap().reaped == 1
                || other.letter(JobId(1)).await.unwrap().is_some()
        })
        .await;
        let letter = world.letter(JobId(1)).await;
        assert_eq!((letter.cause, letter.reason), (Cause::Crashed, LetterReason::Crashed));
        other.redrive(vec![JobId(1)]).await.unwrap();
        let report = other
            .worker()
            .wait(Duration::from_millis(5))
            .handle("charge", |amount: u32, _| async move {
                assert_eq!(amount, 7);
                Ok::<_, Fail>(())
            })
            .run_until_empty()
            .await
            .unwrap();
        assert_eq!(report.succeeded, 1);
    });
}
