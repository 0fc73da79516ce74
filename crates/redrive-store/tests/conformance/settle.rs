//! One door ends an attempt; a stale token changes nothing (R-D2, design invariants 2 and 3).

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{
    Ending, EventStatus, JobId, JobState, LeaseRequest, LeaseToken, NewJob, Output, Redriven, Settled,
    Settlement, Timestamp,
};

use serde_json::json;

use crate::back_end::Given;
use crate::given::{
    Hand, LEASE, SECOND, at, cancelled, dead, failure, job, parked, released, retry, retry_after, success,
    wants,
};

/// R-E2
pub(crate) async fn success_ends_the_job(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let leased = hand.take(at(1), worker, &["a"]).await;
    let output = Output { stdout: Some("done".to_owned()), stderr: None };
    let ending = Ending::Succeeded {
        latency: Duration::from_micros(1_200),
        exit_code: Some(0),
        max_retries: 3,
        output: Some(Box::new(output)),
    };
    hand.done(at(2), leased.token, ending).await;
    let record = hand.record(id).await;
    assert_eq!((record.state, record.job), (JobState::Ended, None));
    let story = hand.story(id).await;
    let said: Vec<_> = story.iter().map(|event| event.status).collect();
    assert_eq!(said, [EventStatus::Pending, EventStatus::Running, EventStatus::Success]);
    assert_eq!(
        (story[2].latency_ms, story[2].exit_code, story[2].timestamp, story[2].seq),
        (Some(2), Some(0), at(2), record.event)
    );
    assert_eq!(story[2].data["output"]["stdout"], "done");
    assert_eq!(story[2].data["decision"]["decision"], "PASS");
    for pair in story.windows(2) {
        assert_eq!(pair[1].parent_event_id.as_ref(), Some(&pair[0].event_id));
    }
}

/// R-D2, invariant I2, reliability row 19: whatever a zombie says, the whole store is as it was.
pub(crate) async fn a_stale_token_changes_nothing(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 4]).await.unwrap();
    let worker = hand.worker().await;
    let leased = given.store.lease(at(0), wants(worker, &["a"], 4)).await.unwrap();
    hand.done(at(1), leased[0].token, success()).await;
    hand.done(at(1), leased[1].token, dead(Cause::Network, "x")).await;
    hand.done(at(1), leased[2].token, retry(at(9_000))).await;
    given.store.seize_expired(at(40_000), worker, LEASE, 9).await.unwrap();
    let before = hand.everything().await;
    for token in leased.iter().map(|leased| leased.token) {
        for token in [token, LeaseToken { fence: 0, ..token }, LeaseToken { fence: token.fence + 7, ..token }]
        {
            for ending in [
                success(),
                retry(at(2)),
                dead(Cause::Timeout, "y"),
                Ending::Snoozed { run_at: at(5), held_for: None },
                cancelled(),
                released(),
            ] {
                assert_eq!(hand.settle(at(41_000), token, ending).await, Settled::Stale);
            }
        }
    }
    // Everything is as it was, but for what the stream tells about those who came too late.
    let (status, mut events, records, letters) = hand.everything().await;
    let stale: Vec<_> = events.extract_if(.., |event| event.event_type == "stale_settle").collect();
    assert_eq!(stale.len(), 4 * 3 * 6);
    assert_eq!((status.failed_events, status.lanes), (before.0.failed_events, before.0.lanes.clone()));
    assert_eq!((events, records, letters), (before.1, before.2, before.3));
    let told = stale.last().unwrap();
    assert_eq!((told.status, told.job), (EventStatus::Pending, Some(leased[3].token.job)));
    assert_eq!((&told.data["ending"], &told.data["fence"]), (&"released".into(), &8.into()));
    // Of a job that never was there is nothing to tell.
    let nobody = LeaseToken { job: JobId(404), fence: 1 };
    assert_eq!(hand.settle(at(41_000), nobody, success()).await, Settled::Stale);
    assert_eq!(given.store.status(at(41_000)).await.unwrap().events, status.events);
}

/// R-D1, R-D2: whoever cancels a job that is running is heard, whatever its worker comes to without having heard it.
pub(crate) async fn a_wish_to_cancel_sticks(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    for ending in [retry(at(9)), released(), Ending::Snoozed { run_at: at(9), held_for: Some(worker) }] {
        let name = ending.name();
        let unique =
            NewJob { unique_key: Some("k".to_owned()), caller_id: Some("me".to_owned()), ..job("a") };
        let id = hand.add(unique).await;
        let leased = hand.take(at(0), worker, &["a"]).await;
        for why in ["enough", "again"] {
            assert_eq!(given.store.cancel(at(1), id, why.to_owned()).await.unwrap(), Some(false));
        }
        let settled = hand.settle(at(2), leased.token, ending).await;
        let Settled::Cancelled { event } = settled else { panic!("{settled:?} after {name}") };
        let record = hand.record(id).await;
        assert_eq!((record.state, record.event), (JobState::Ended, event));
        let last = hand.story(id).await.pop().unwrap();
        assert_eq!((last.event_type.as_str(), last.seq), ("job_cancelled", event));
        assert_eq!((&last.data["why"], &last.data["instead_of"]), (&"enough".into(), &name.into()));
    }
    // What has ended by itself has ended.
    for (ending, letters) in [(success(), 0), (dead(Cause::Network, "x"), 1)] {
        let id = hand.add(job("a")).await;
        let leased = hand.take(at(0), worker, &["a"]).await;
        given.store.cancel(at(1), id, "late".to_owned()).await.unwrap();
        hand.done(at(2), leased.token, ending).await;
        assert_eq!(given.store.status(at(2)).await.unwrap().dead_letters, letters);
    }
    let lane = given.store.status(at(2)).await.unwrap().lanes.remove(0);
    assert_eq!((lane.cancelled, lane.succeeded, lane.ready, lane.leased), (3, 1, 0, 0));
}

/// Invariant I2
pub(crate) async fn the_same_twice_in_one_call(given: &Given) {
    let hand = Hand(&*given.store);
    hand.add(job("a")).await;
    let worker = hand.worker().await;
    let token = hand.take(at(0), worker, &["a"]).await.token;
    let twice = vec![Settlement { token, ending: success() }, Settlement { token, ending: retry(at(0)) }];
    let settled = given.store.settle(at(1), twice).await.unwrap();
    assert!(matches!(settled[..], [Settled::Done { .. }, Settled::Stale]));
    assert_eq!(given.store.status(at(1)).await.unwrap().lanes[0].succeeded, 1);
}

/// R-D2: as if the attempt had never begun.
pub(crate) async fn snoozed_and_released_are_uncounted(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let first = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), first.token, retry(at(0))).await;
    for round in 1..=3 {
        let now = round * 10_000;
        let leased = hand.take(at(now), worker, &["a"]).await;
        assert_eq!((leased.attempt, leased.retries, leased.crashes), (2, 1, 0));
        assert_eq!(leased.last_delay, Some(SECOND), "what was waited before is remembered");
        hand.done(at(now), leased.token, Ending::Snoozed { run_at: at(now + 5_000), held_for: None }).await;
        let early = given.store.lease(at(now + 4_999), wants(worker, &["a"], 1)).await.unwrap();
        assert!(early.is_empty());
        let leased = hand.take(at(now + 5_000), worker, &["a"]).await;
        hand.done(at(now + 5_000), leased.token, released()).await;
        let record = hand.record(id).await;
        assert_eq!((record.attempts, record.retries, record.crashes), (1, 1, 0));
        assert_eq!(record.state, JobState::Ready { run_at: at(now + 5_000), held_for: None });
    }
}

/// R-P15: parked work waits for its time as if it had never been taken, keeps what its next attempt is told, and its event
/// names the target and the reason.
pub(crate) async fn parked_work_is_uncounted_and_keeps_its_hint(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let first = hand.take(at(0), worker, &["a"]).await;
    let again = Ending::Retry {
        run_at: at(0),
        delay: SECOND,
        held_for: None,
        hint: Some("be kind".to_owned()),
        failure: failure(Cause::Network, "it failed"),
    };
    hand.done(at(0), first.token, again).await;
    for round in 1..=3 {
        let now = round * 10_000;
        let leased = hand.take(at(now), worker, &["a"]).await;
        assert_eq!((leased.attempt, leased.retries, leased.crashes), (2, 1, 0));
        assert_eq!((leased.hint.as_deref(), leased.last_delay), (Some("be kind"), Some(SECOND)));
        let ending = parked(at(now + 5_000), None);
        hand.done(at(now), leased.token, ending).await;
        let early = given.store.lease(at(now + 4_999), wants(worker, &["a"], 1)).await.unwrap();
        assert!(early.is_empty());
        let record = hand.record(id).await;
        assert_eq!((record.attempts, record.retries, record.crashes), (1, 1, 0));
        assert_eq!(record.state, JobState::Ready { run_at: at(now + 5_000), held_for: None });
        let told = hand.story(id).await.pop().unwrap();
        assert_eq!(told.seq, record.event);
        assert_eq!((told.event_type.as_str(), told.status), ("job_parked", EventStatus::Pending));
        assert_eq!(told.data["target"], "host:api.example.com");
        assert_eq!(
            (&told.data["why"], &told.data["failed"], &told.data["calls"]),
            (&json!("open"), &json!(37), &json!(40))
        );
        assert_eq!(told.data["until"], json!(at(now + 5_000)));
    }
}

/// R-P15: the target that whoever enqueued a job has named comes with every lease, and so does whether the job was redriven.
pub(crate) async fn a_target_is_read_back(given: &Given) {
    let hand = Hand(&*given.store);
    let named = NewJob { target: Some("tenant-7".to_owned()), ..job("a") };
    let id = hand.add(named).await;
    let worker = hand.worker().await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    assert_eq!((leased.job.target.as_deref(), leased.redriven), (Some("tenant-7"), false));
    hand.done(at(0), leased.token, dead(Cause::Network, "gone")).await;
    assert_eq!(given.store.redrive(at(1), vec![id], "redriven").await.unwrap(), [Redriven::Ready]);
    let leased = hand.take(at(2), worker, &["a"]).await;
    assert_eq!((leased.job.target.as_deref(), leased.redriven), (Some("tenant-7"), true));
    let bad = NewJob { target: Some("a\nb".to_owned()), ..job("a") };
    assert!(given.store.enqueue(at(3), vec![bad]).await.is_err());
}

/// R-D2: a crash is charged to its own budget.
pub(crate) async fn retries_and_crashes_are_charged_apart(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let causes = [Cause::Network, Cause::Crashed, Cause::Crashed, Cause::RateLimit];
    let mut expected = (0, 0, 0);
    for cause in causes {
        let leased = hand.take(at(0), worker, &["a"]).await;
        let counts = (leased.attempt - 1, leased.retries, leased.crashes);
        assert_eq!(counts, expected);
        hand.done(at(0), leased.token, retry_after(cause, at(0), None)).await;
        expected.0 += 1;
        if cause == Cause::Crashed {
            expected.2 += 1;
        } else {
            expected.1 += 1;
        }
        let record = hand.record(id).await;
        assert_eq!((record.attempts, record.retries, record.crashes), expected);
    }
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), leased.token, dead(Cause::Crashed, "again")).await;
    let JobState::Dead(letter) = hand.record(id).await.state else { panic!("no letter") };
    assert_eq!((letter.attempts, letter.retries, letter.crashes), (5, 2, 2));
}

/// R-D4, R-E2
pub(crate) async fn a_retry_waits_for_its_time(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(10), leased.token, retry(at(7_000))).await;
    assert!(given.store.lease(at(6_999), wants(worker, &["a"], 1)).await.unwrap().is_empty());
    let story = hand.story(id).await;
    let failed = story.last().unwrap();
    assert_eq!((failed.status, failed.exit_code), (EventStatus::Retrying, Some(75)));
    let retry_info = failed.retry_info.as_ref().unwrap();
    assert_eq!((retry_info.next_retry_at, retry_info.max_retries), (Some(at(7_000)), 3));
    assert_eq!(failed.data["decision"]["reasoning"], "because");
    let error = failed.error_info.as_ref().unwrap();
    assert_eq!((error.error_type.as_str(), error.error_message.as_str()), ("TestError", "it failed"));
    assert_eq!(hand.take(at(7_000), worker, &["a"]).await.last_delay, Some(SECOND));
}

/// R-T6: a hint is what the last decision says; a later decision without one says nothing.
pub(crate) async fn a_hint_reaches_the_next_attempt_only(given: &Given) {
    let hand = Hand(&*given.store);
    hand.add(job("a")).await;
    let worker = hand.worker().await;
    let hinted = |hint: Option<&str>| Ending::Retry {
        run_at: at(0),
        delay: SECOND,
        held_for: None,
        hint: hint.map(str::to_owned),
        failure: failure(Cause::Quality, "it is not good"),
    };
    let first = hand.take(at(0), worker, &["a"]).await;
    assert_eq!(first.hint, None);
    hand.done(at(0), first.token, hinted(Some("try harder"))).await;
    let second = hand.take(at(0), worker, &["a"]).await;
    assert_eq!(second.hint.as_deref(), Some("try harder"));
    // Not an attempt, so the hint is still unheard.
    hand.done(at(0), second.token, released()).await;
    let second = hand.take(at(0), worker, &["a"]).await;
    assert_eq!(second.hint.as_deref(), Some("try harder"));
    hand.done(at(0), second.token, hinted(None)).await;
    assert_eq!(hand.take(at(0), worker, &["a"]).await.hint, None);
}

/// R-D3: each item of a batch has an end of its own.
pub(crate) async fn many_at_once(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 600]).await.unwrap();
    let worker = hand.worker().await;
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 600) };
    let leased = given.store.lease(at(0), request).await.unwrap();
    let tokens: Vec<_> = leased.iter().map(|leased| leased.token).collect();
    assert!(given.store.begin(at(0), tokens.clone()).await.unwrap().into_iter().all(|begun| begun));
    let ending = |index| match index % 6 {
        0 => success(),
        1 => retry(at(60_000)),
        2 => dead(Cause::Network, "x"),
        3 => Ending::Snoozed { run_at: at(60_000), held_for: None },
        4 => cancelled(),
        _ => released(),
    };
    let settlements =
        tokens.iter().enumerate().map(|(index, &token)| Settlement { token, ending: ending(index) });
    let settled = given.store.settle(at(1), settlements.collect()).await.unwrap();
    assert!(settled.iter().all(|settled| matches!(settled, Settled::Done { .. })));
    let lane = given.store.status(at(1)).await.unwrap().lanes.remove(0);
    assert_eq!(
        (lane.ready, lane.scheduled, lane.leased, lane.dead, lane.succeeded, lane.cancelled),
        (300, 200, 0, 100, 100, 100)
    );
}

/// R-E2, reliability row 30: a delay that overflows every calendar leaves an event that can be read, and a worker that
/// can wait for it.
pub(crate) async fn a_time_beyond_all_calendars_is_read_back(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    for never in [at(0).after(Duration::MAX), Timestamp::from_millis(300_000_000_000_000)] {
        let id = hand.add(job("a")).await;
        let leased = hand.take(at(0), worker, &["a"]).await;
        hand.done(at(0), leased.token, retry(never)).await;
        assert_eq!(hand.record(id).await.state, JobState::Ready { run_at: never, held_for: None });
        let failed = hand.story(id).await.pop().unwrap();
        assert_eq!(failed.error_info.map(|error| error.error_type).as_deref(), Some("TestError"));
        assert!(failed.retry_info.is_some_and(|info| info.next_retry_at > Some(at(0))));
        let request = LeaseRequest { wait: Duration::from_millis(20), ..wants(worker, &["a"], 1) };
        assert!(given.store.lease(at(0), request).await.unwrap().is_empty());
    }
}
