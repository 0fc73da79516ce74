//! The way of a job: done, retried, set aside, put off, cancelled, given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{Context, EngineError, Reply, RetryNow, Shutdown};
use redrive::{Cause, Fail, Lang, fail};
use redrive_store::{EventStatus, JobState, LetterReason, Redriven};
use serde_json::json;

use crate::support::{World, run, until};

use EventStatus::{DeadLetter, Failed, Pending, Retrying, Running, Success};

/// R-E2: a job that simply succeeds leaves pending, running and success.
#[test]
fn a_success_leaves_three_events() {
    run(async {
        let world = World::new();
        let job = world.engine.job("greet", "Ada").caller_id("c-1").enqueue().await.unwrap().id;
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let report = world
            .worker()
            .state(41)
            .handle("greet", move |name: String, cx: Context<i32>| {
                told.lock().unwrap().push((
                    name,
                    *cx.state() + 1,
                    cx.attempt(),
                    cx.fence(),
                    cx.caller_id().map(str::to_owned),
                    cx.idempotency_key(),
                ));
                async { Ok::<_, Fail>(()) }
            })
            .run_until_empty()
            .await
            .unwrap();
        assert_eq!(report.succeeded, 1);
        assert_eq!(world.statuses(job).await, [Pending, Running, Success]);
        assert_eq!(world.state(job).await, JobState::Ended);
        let key = job.idempotency_key(world.engine.store().store_id());
        assert_eq!(*seen.lock().unwrap(), [("Ada".to_owned(), 42, 1, 1, Some("c-1".to_owned()), key)]);
    });
}

/// R-D4, R-P10: a failure that may heal is tried again at its stored time, and the attempt is told what came before.
#[test]
fn a_failure_that_may_heal_is_tried_again_when_its_time_has_come() {
    run(async {
        let world = World::new();
        let job = world.engine.job("fetch", &()).enqueue().await.unwrap().id;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let work = world
            .worker()
            .handle("fetch", move |(): (), cx: Context| {
                let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
                assert_eq!(cx.attempt(), if first { 1 } else { 2 });
                async move { if first { Err(fail(Cause::Network, "connection reset")) } else { Ok(()) } }
            })
            .run_until_empty();
        let task = tokio::spawn(work);
        until(|| async {
            // Called first and looked at afterwards: before its first attempt it is ready, too.
            calls.load(Ordering::SeqCst) == 1 && matches!(world.state(job).await, JobState::Ready { .. })
        })
        .await;
        let JobState::Ready { run_at, .. } = world.state(job).await else { panic!("it waits") };
        assert!(run_at > world.engine.now(), "the wait is a stored time");
        world.clock.advance(Duration::from_mins(1));
        let report = task.await.unwrap().unwrap();
        assert_eq!((report.retried, report.succeeded, calls.load(Ordering::SeqCst)), (1, 1, 2));
        assert_eq!(world.statuses(job).await, [Pending, Running, Retrying, Running, Success]);
    });
}

/// R-D5, R-T7: when its retries are used up, the letter has all that a person needs.
#[test]
fn what_is_exhausted_becomes_a_letter_with_everything() {
    run(async {
        let world = World::with(|builder| builder.default_policy("api"));
        let payload = json!({"page": 7});
        let job =
            world.engine.job("fetch", &payload).queue("pages").caller_id("d-9").enqueue().await.unwrap().id;
        let work = world
            .worker()
            .handle("fetch", |_: serde_json::Value, _| async {
                Err::<(), _>(fail(Cause::ApiError, "HTTP 503 from upstream, token=hunter2").code("E503"))
            })
            .run_until_empty();
        let report = world.while_time_passes(Duration::from_secs(10), work).await.unwrap();
        assert_eq!((report.retried, report.dead), (3, 1));
        let letter = world.letter(job).await;
        assert_eq!((letter.reason, letter.cause), (LetterReason::Exhausted, Cause::ApiError));
        assert_eq!((letter.attempts, letter.retries, letter.max_retries), (4, 3, 3));
        assert_eq!((letter.queue.as_str(), letter.kind.as_str()), ("pages", "fetch"));
        assert_eq!(letter.error_message, "HTTP 503 from upstream, token=[redacted]");
        assert_eq!((letter.error_type.as_str(), letter.retryable), ("Fail", true));
        assert_eq!(letter.caller_id.as_deref(), Some("d-9"));
        assert_eq!(letter.payload, payload.to_string().into_bytes());
        assert_eq!(letter.context["action"], "fetch");
        assert_eq!((&letter.context["queue"], &letter.context["code"]), (&json!("pages"), &json!("E503")));
        let history = letter.report["debug_info"]["retry_history"].as_array().unwrap();
        let numbers: Vec<u64> =
            history.iter().map(|attempt| attempt["attempt_number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4]);
        assert_eq!(letter.report["reason"]["type"], "MAX_RETRIES");
        assert!(!letter.fingerprint.is_empty() && !letter.report.to_string().contains("hunter2"));
        assert_eq!(world.engine.get_retry_candidates(10).await.unwrap().len(), 1);
        assert_eq!(world.statuses(job).await.last(), Some(&DeadLetter));
    });
}

/// R-P4, R-D5: what time does not heal is set aside at once, and `retry` asks first.
#[test]
fn what_cannot_heal_is_set_aside_at_once_and_redriven_only_on_purpose() {
    run(async {
        let world = World::new();
        let job = world.engine.job("pay", &()).enqueue().await.unwrap().id;
        let fixed = Arc::new(AtomicU32::new(0));
        let handler = |fixed: Arc<AtomicU32>| {
            move |(): (), _: Context| {
                let fixed = fixed.load(Ordering::SeqCst) == 1;
                async move { if fixed { Ok(()) } else { Err(fail(Cause::AuthError, "key revoked")) } }
            }
        };
        world.worker().handle("pay", handler(Arc::clone(&fixed))).run_until_empty().await.unwrap();
        let letter = world.letter(job).await;
        assert_eq!((letter.reason, letter.attempts), (LetterReason::NonRetryable, 1));
        let asked = world.engine.retry_now(job, false).await.unwrap();
        assert!(matches!(asked, RetryNow::Permanent { cause: Cause::AuthError, .. }), "{asked:?}");
        fixed.store(1, Ordering::SeqCst);
        assert_eq!(world.engine.retry_now(job, true).await.unwrap(), RetryNow::Redriven);
        assert_eq!(world.engine.redrive(vec![job]).await.unwrap(), [Redriven::NotDead]);
        world.worker().handle("pay", handler(fixed)).run_until_empty().await.unwrap();
        assert_eq!(world.state(job).await, JobState::Ended);
        assert_eq!(world.engine.retry_now(job, true).await.unwrap(), RetryNow::Ended);
    });
}

#[derive(serde::Deserialize)]
struct Greeting {
    #[allow(dead_code)]
    name: String,
}

/// R-D1: a payload that does not parse is a validation error and names the field.
#[test]
fn a_payload_that_does_not_fit_is_a_letter_that_names_the_field() {
    run(async {
        let world = World::new();
        let job = world.engine.job("greet", &json!({"name": 7})).enqueue().await.unwrap().id;
        world
            .worker()
            .handle("greet", |_: Greeting, _| async { Ok::<_, Fail>(()) })
            .run_until_empty()
            .await
            .unwrap();
        let letter = world.letter(job).await;
        assert_eq!(letter.cause, Cause::ValidationError);
        assert!(letter.error_message.contains("name: invalid type"), "{}", letter.error_message);
    });
}

/// R-D2: snoozing counts nothing.
#[test]
fn a_snooze_is_not_an_attempt() {
    run(async {
        let world = World::new();
        let job = world.engine.job("poll", &()).enqueue().await.unwrap().id;
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let work = world
            .worker()
            .handle("poll", move |(): (), cx: Context| {
                let calls = counted.fetch_add(1, Ordering::SeqCst);
                assert_eq!(cx.attempt(), 1);
                async move {
                    Ok::<_, Fail>(if calls < 3 { Reply::Snooze(Duration::from_mins(1)) } else { Reply::Done })
                }
            })
            .run_until_empty();
        let report = world.while_time_passes(Duration::from_secs(20), work).await.unwrap();
        assert_eq!((report.snoozed, report.succeeded), (3, 1));
        let story = world.engine.explain(job, Lang::En).await.unwrap().unwrap();
        assert_eq!(story.attempts.len(), 1);
    });
}

/// R-D1: a handler may end its job, and so may anybody while it waits or runs: no retry, no letter.
#[test]
fn a_cancelled_job_is_over_without_a_letter() {
    run(async {
        let world = World::new();
        let by_handler = world.engine.job("drop", &()).enqueue().await.unwrap().id;
        world
            .worker()
            .handle("drop", |(): (), _| async { Ok::<_, Fail>(Reply::Cancel("not needed".into())) })
            .run_until_empty()
            .await
            .unwrap();
        assert_eq!(world.statuses(by_handler).await, [Pending, Running, Failed]);

        let waiting = world.engine.job("drop", &()).delay(Duration::from_mins(1)).enqueue().await.unwrap().id;
        assert_eq!(world.engine.cancel(waiting, "changed my mind").await.unwrap(), Some(true));
        assert_eq!(world.state(waiting).await, JobState::Ended);

        let running = world.engine.job("hang", &()).enqueue().await.unwrap().id;
        let worker = world
            .worker()
            .lease_for(Duration::from_millis(300))
            .handle("hang", |(): (), cx: Context| async move {
                cx.cancel().cancelled().await;
                Err::<(), _>(fail(Cause::Network, "stopped"))
            })
            .run_until_empty();
        let task = tokio::spawn(worker);
        until(|| async { matches!(world.state(running).await, JobState::Leased { .. }) }).await;
        assert_eq!(world.engine.cancel(running, "stop").await.unwrap(), Some(false));
        assert_eq!(task.await.unwrap().unwrap().cancelled, 1);
        assert_eq!(world.engine.get_dead_letter_queue(10).await.unwrap(), []);
    });
}

/// R-D2, reliability row 27: who drains finishes or gives back, and what is given back was not counted.
#[test]
fn a_drained_worker_gives_back_what_does_not_end() {
    run(async {
        let world = World::new();
        let job = world.engine.job("hang", &()).enqueue().await.unwrap().id;
        let shutdown = Shutdown::new();
        let (asked, stop) = (shutdown.clone(), shutdown.clone());
        let worker = world
            .worker()
            .grace(Duration::from_millis(20))
            .handle("hang", move |(): (), cx: Context| {
                asked.signal();
                async move {
                    cx.cancel().cancelled().await;
                    Err::<(), _>(fail(Cause::Network, "stopped"))
                }
            })
            .register()
            .await
            .unwrap();
        let report = worker.run(&stop).await.unwrap();
        assert_eq!(report.released, 1);
        let record = world.engine.store().job(job).await.unwrap().unwrap();
        assert!(matches!(record.state, JobState::Ready { .. }));
        assert_eq!((record.attempts, record.retries), (0, 0));

        // A second signal does not wait for the grace.
        let shutdown = Shutdown::new();
        let asked = shutdown.clone();
        let worker =
            world.worker().grace(Duration::from_hours(1)).handle("hang", move |(): (), _: Context| {
                asked.signal();
                asked.signal();
                std::future::pending::<Result<(), Fail>>()
            });
        assert_eq!(worker.run(&shutdown).await.unwrap().released, 1);
        assert!(matches!(world.state(job).await, JobState::Ready { .. }));
    });
}

/// R-D2: what is held for a worker is its own, between attempts as well, and ends its run.
#[test]
fn a_reserved_job_is_run_by_the_worker_that_it_is_held_for() {
    run(async {
        let world = World::new();
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let worker = world
            .worker()
            .reserved_only()
            .handle("mine", move |(): (), _: Context| {
                let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
                async move { if first { Err(fail(Cause::Network, "reset")) } else { Ok(()) } }
            })
            .register()
            .await
            .unwrap();
        let other = world.engine.job("mine", &()).enqueue().await.unwrap().id;
        let job = world.engine.job("mine", &()).held_for(worker.id()).enqueue().await.unwrap().id;
        let shutdown = Shutdown::new();
        let work = worker.run_job(job, &shutdown);
        let report = world.while_time_passes(Duration::from_secs(1), work).await.unwrap();
        assert_eq!((report.retried, report.succeeded), (1, 1));
        assert!(matches!(world.state(other).await, JobState::Ready { .. }));
    });
}

/// R-D1: a policy that nobody knows is refused where somebody can still correct it.
#[test]
fn an_unknown_policy_is_refused_at_enqueue() {
    run(async {
        let world = World::new();
        let error = world.engine.job("x", &()).policy("apii").enqueue().await.unwrap_err();
        assert!(matches!(error, EngineError::UnknownPolicy { .. }));
        assert!(error.to_string().contains("api, client"), "{error}");
        assert!(matches!(world.worker().run_until_empty().await, Err(EngineError::NothingToRun)));
    });
}
