//! Redrives as durable runs: killed half-way, they go on where they were, and put nothing back twice (R-D8, R-D9).

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{
    EventFilter, FirstAttempt, JobId, JobState, LetterFilter, MAX_BATCH, NewJob, NewRun, Order, Redriven,
    RunId, RunState, RunStep, Stepped, WorkerId,
};
use serde_json::json;

use crate::back_end::Given;
use crate::given::{Hand, LEASE, at, dead, job, released, retry, success};

async fn started(given: &Given) -> RunId {
    let run = NewRun {
        wanted_by: "somebody".to_owned(),
        plan: json!({ "rate": 5, "what": "everything" }),
        progress: json!({ "done": 0 }),
    };
    given.store.start_run(at(0), run).await.unwrap()
}

fn step(run: RunId, version: i64, ids: &[JobId]) -> RunStep {
    RunStep {
        run,
        version,
        ids: ids.to_vec(),
        judged_in: None,
        progress: json!({ "done": ids.len() }),
        state: RunState::Running,
        why: None,
    }
}

async fn letters(given: &Given, worker: WorkerId, many: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..many {
        ids.push(Hand(&*given.store).letter(at(0), worker, job("a"), Cause::Network).await);
    }
    ids
}

async fn told(given: &Given, event_type: &str) -> Vec<redrive_store::Event> {
    let filter = EventFilter {
        types: vec![event_type.to_owned()],
        order: Order::OldestFirst,
        ..EventFilter::default()
    };
    given.store.events(filter, 100).await.unwrap()
}

/// R-D8: what a run is stands in the store, for whoever comes after.
pub(crate) async fn a_run_is_read_back(given: &Given) {
    let (first, second) = (started(given).await, started(given).await);
    assert!(second > first);
    let run = given.store.run(first).await.unwrap().expect("there is such a run");
    assert_eq!((run.id, run.created_at, run.wanted_by.as_str()), (first, at(0), "somebody"));
    assert_eq!((run.plan, run.progress), (json!({ "rate": 5, "what": "everything" }), json!({ "done": 0 })));
    assert_eq!((run.state, run.why, run.held_until, run.ended_at), (RunState::Running, None, None, None));
    assert_eq!(given.store.run(RunId(9_999)).await.unwrap(), None);
    assert!(given.store.cancel_run(at(1), first, "enough".to_owned()).await.unwrap());
    let ids = async |open_only, limit| {
        let runs = given.store.runs(open_only, limit).await.unwrap();
        runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(false, 10).await, [second, first]);
    assert_eq!(ids(false, 1).await, [second]);
    assert_eq!(ids(true, 10).await, [second]);
    let started = told(given, "redrive_started").await;
    assert_eq!(started.len(), 2);
    assert_eq!(started[0].data["redrive_id"], json!(first));
    assert_eq!(
        (&started[0].data["wanted_by"], &started[0].data["plan"]["rate"]),
        (&json!("somebody"), &json!(5))
    );
}

/// R-D8: a step is done by one who knows the version, whole or not at all.
pub(crate) async fn a_step_counts_for_who_knows_the_version(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 3).await;
    let run = started(given).await;
    let version = given.store.run(run).await.unwrap().unwrap().version;
    let stepped = given.store.advance_run(at(5), step(run, version, &ids[..2])).await.unwrap().unwrap();
    assert_eq!(stepped.redriven, [Redriven::Ready; 2]);
    assert!(stepped.version > version);
    let late = given.store.advance_run(at(6), step(run, version, &ids[2..])).await.unwrap();
    assert_eq!(late, None, "somebody else has moved it on");
    assert!(matches!(hand.record(ids[2]).await.state, JobState::Dead(_)));
    let after = given.store.run(run).await.unwrap().unwrap();
    assert_eq!((after.version, after.progress), (stepped.version, json!({ "done": 2 })));
    assert_eq!((after.moved, after.skipped), (2, 0));
    let record = hand.record(ids[0]).await;
    assert_eq!(record.state, JobState::Ready { run_at: at(5), held_for: None });
    assert_eq!((record.attempts, record.retries), (0, 0));
    let event = hand.story(ids[0]).await.pop().unwrap();
    assert_eq!((event.event_type.as_str(), event.seq), ("redrive", record.event));
    assert_eq!((&event.data["redrive_id"], &event.data["redrives"]), (&json!(run), &json!(1)));
    assert_eq!(given.store.advance_run(at(6), step(RunId(9_999), 1, &[])).await.unwrap(), None);
    let too_many =
        given.store.advance_run(at(6), step(run, after.version, &vec![ids[2]; MAX_BATCH + 1])).await;
    assert!(too_many.is_err());
}

/// R-D8: whoever thought out the same step at the same time, one of them does it.
pub(crate) async fn a_race_has_one_winner(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 4).await;
    let run = started(given).await;
    let version = given.store.run(run).await.unwrap().unwrap().version;
    let other = given.another().await;
    let (one, two) = tokio::join!(
        given.store.advance_run(at(5), step(run, version, &ids)),
        other.advance_run(at(5), step(run, version, &ids)),
    );
    let done: Vec<Stepped> = [one.unwrap(), two.unwrap()].into_iter().flatten().collect();
    assert_eq!(done.len(), 1);
    assert_eq!(done[0].redriven, [Redriven::Ready; 4]);
    for id in ids {
        let redriven = hand.types(id).await.iter().filter(|name| *name == "redrive").count();
        assert_eq!(redriven, 1);
    }
    other.close().await.unwrap();
}

/// R-D8: what died again stays dead for the run that put it back, and not for the next one.
pub(crate) async fn a_run_puts_a_letter_back_once(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 2).await;
    let run = started(given).await;
    let first = given.store.advance_run(at(5), step(run, 1, &ids[..1])).await.unwrap().unwrap();
    let leased = hand.take(at(5), worker, &["a"]).await;
    hand.done(at(6), leased.token, dead(Cause::Network, "again")).await;
    let again = given.store.advance_run(at(7), step(run, first.version, &ids)).await.unwrap().unwrap();
    assert_eq!(again.redriven, [Redriven::NotDead, Redriven::Ready]);
    let found = async |not_by| {
        let filter = LetterFilter { not_by, ..LetterFilter::default() };
        let heads = given.store.letter_heads(filter, 10, 10).await.unwrap();
        heads.heads.into_iter().map(|head| head.id).collect::<Vec<_>>()
    };
    assert_eq!(found(Some(run)).await, []);
    assert_eq!(found(None).await, [ids[0]]);
    let next = started(given).await;
    assert_eq!(found(Some(next)).await, [ids[0]]);
    let stepped = given.store.advance_run(at(8), step(next, 1, &ids[..1])).await.unwrap().unwrap();
    assert_eq!(stepped.redriven, [Redriven::Ready]);
}

/// R-D8: each letter of a step has its answer: not dead, or kept back by its unique key.
pub(crate) async fn each_letter_has_its_answer(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let unique = || NewJob { unique_key: Some("k".to_owned()), ..job("a") };
    let kept_back = hand.letter(at(0), worker, unique(), Cause::Network).await;
    let holder = hand.add(unique()).await;
    let dead = hand.letter(at(1), worker, job("b"), Cause::Network).await;
    let run = started(given).await;
    let ids = [kept_back, dead, holder, JobId(9_999), dead];
    let stepped = given.store.advance_run(at(5), step(run, 1, &ids)).await.unwrap().unwrap();
    let not_dead = Redriven::NotDead;
    assert_eq!(
        stepped.redriven,
        [Redriven::Duplicate { of: holder }, Redriven::Ready, not_dead, not_dead, not_dead]
    );
    let run = given.store.run(run).await.unwrap().unwrap();
    assert_eq!((run.moved, run.skipped), (1, 4));
}

/// R-D8: one moves a run on; when that one is gone, the next does.
pub(crate) async fn one_holds_a_run(given: &Given) {
    let run = started(given).await;
    let hold = async |now, holder| {
        let held = given.store.hold_run(at(now), run, holder, Duration::from_secs(10)).await.unwrap();
        held.map(|run| run.held_until.expect("it is held"))
    };
    assert_eq!(hold(0, 1).await, Some(at(10_000)));
    assert_eq!(hold(1, 2).await, None);
    assert_eq!(hold(5_000, 1).await, Some(at(15_000)));
    assert_eq!(hold(14_999, 2).await, None);
    assert_eq!(hold(15_000, 2).await, Some(at(25_000)));
    assert_eq!(hold(15_001, 1).await, None);
    assert!(given.store.cancel_run(at(15_002), run, "enough".to_owned()).await.unwrap());
    assert_eq!(hold(15_003, 2).await, None);
    assert_eq!(given.store.run(run).await.unwrap().unwrap().held_until, None);
    assert_eq!(given.store.hold_run(at(0), RunId(9_999), 1, LEASE).await.unwrap(), None);
}

/// R-D9: the first attempt of each is judged, and only that one; given back, it is not known yet.
pub(crate) async fn first_attempts_are_judged(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 6).await;
    let run = started(given).await;
    let judged_step = RunStep { judged_in: Some(1), ..step(run, 1, &ids) };
    given.store.advance_run(at(5), judged_step).await.unwrap().unwrap();
    assert_eq!(outcomes(given, run, Some(1)).await, [(FirstAttempt::Unknown, None, 6)]);
    given.store.cancel(at(5), ids[5], "no".to_owned()).await.unwrap();
    for ending in [success(), retry(at(6)), dead(Cause::Timeout, "x"), released()] {
        let leased = hand.take(at(5), worker, &["a"]).await;
        hand.done(at(6), leased.token, ending).await;
    }
    // The one that was given back is due at the time of that, beside the one that is tried again.
    let expected = [
        (FirstAttempt::Unknown, None, 2),
        (FirstAttempt::Succeeded, None, 1),
        (FirstAttempt::Failed, Some("print of it failed".to_owned()), 1),
        (FirstAttempt::Failed, Some("print of x".to_owned()), 1),
        (FirstAttempt::None, None, 1),
    ];
    assert_eq!(outcomes(given, run, Some(1)).await, expected);
    while let Some(leased) =
        given.store.lease(at(7), crate::given::wants(worker, &["a"], 1)).await.unwrap().pop()
    {
        hand.done(at(7), leased.token, success()).await;
    }
    let expected = [
        (FirstAttempt::Succeeded, None, 3),
        (FirstAttempt::Failed, Some("print of it failed".to_owned()), 1),
        (FirstAttempt::Failed, Some("print of x".to_owned()), 1),
        (FirstAttempt::None, None, 1),
    ];
    assert_eq!(outcomes(given, run, None).await, expected);
    assert_eq!(outcomes(given, run, Some(2)).await, []);
}

async fn outcomes(given: &Given, run: RunId, step: Option<u32>) -> Vec<(FirstAttempt, Option<String>, u64)> {
    let judged = given.store.judged(run, step).await.unwrap();
    judged.into_iter().map(|one| (one.first_attempt, one.fingerprint, one.jobs)).collect()
}

/// R-D9: a run that is not in steps keeps no list of what it has put back.
pub(crate) async fn what_is_not_judged_is_not_listed(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 1).await;
    let run = started(given).await;
    given.store.advance_run(at(5), step(run, 1, &ids)).await.unwrap().unwrap();
    let leased = hand.take(at(5), worker, &["a"]).await;
    hand.done(at(6), leased.token, success()).await;
    assert_eq!(outcomes(given, run, None).await, []);
}

/// R-D9: the end of a run is told once, whoever ends it; afterwards it puts nothing back.
pub(crate) async fn an_end_is_told(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 2).await;
    let (done, stopped, cancelled) = (started(given).await, started(given).await, started(given).await);
    let last = RunStep { state: RunState::Done, ..step(done, 1, &ids[..1]) };
    given.store.advance_run(at(5), last).await.unwrap().unwrap();
    let why = Some("half of them failed".to_owned());
    let last = RunStep { state: RunState::Stopped, why: why.clone(), ..step(stopped, 1, &[]) };
    given.store.advance_run(at(6), last).await.unwrap().unwrap();
    assert!(given.store.cancel_run(at(7), cancelled, "enough".to_owned()).await.unwrap());
    assert!(!given.store.cancel_run(at(8), cancelled, "enough".to_owned()).await.unwrap());
    assert!(!given.store.cancel_run(at(8), done, "enough".to_owned()).await.unwrap());
    assert!(!given.store.cancel_run(at(8), RunId(9_999), "enough".to_owned()).await.unwrap());
    let run = given.store.run(stopped).await.unwrap().unwrap();
    assert_eq!((run.state, run.why, run.ended_at), (RunState::Stopped, why, Some(at(6))));
    for run in [done, stopped, cancelled] {
        let version = given.store.run(run).await.unwrap().unwrap().version;
        assert_eq!(given.store.advance_run(at(9), step(run, version, &ids[1..])).await.unwrap(), None);
    }
    assert!(matches!(hand.record(ids[1]).await.state, JobState::Dead(_)));
    let ended = told(given, "redrive_ended").await;
    let told: Vec<_> = ended.iter().map(|event| (event.data["state"].clone(), event.importance)).collect();
    assert_eq!(told, [(json!("done"), 3), (json!("stopped"), 4), (json!("cancelled"), 3)]);
    assert_eq!(ended[1].data["why"], "half of them failed");
    assert_eq!(ended[0].data["progress"], json!({ "done": 1 }));
}

/// R-D8: runs that ended long ago go, with what they list; one that goes on never does.
pub(crate) async fn old_runs_go(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids = letters(given, worker, 1).await;
    let (old, open, newest) = (started(given).await, started(given).await, started(given).await);
    let judged = RunStep { judged_in: Some(1), state: RunState::Done, ..step(old, 1, &ids) };
    given.store.advance_run(at(5), judged).await.unwrap().unwrap();
    given.store.cancel_run(at(5), newest, "enough".to_owned()).await.unwrap();
    given.store.prune(at(300), at(0), at(5), 100).await.unwrap();
    assert_eq!(given.store.runs(false, 10).await.unwrap().len(), 3, "none ended before that");
    given.store.prune(at(300), at(0), at(100), 100).await.unwrap();
    let left: Vec<_> = given.store.runs(false, 10).await.unwrap().into_iter().map(|run| run.id).collect();
    assert_eq!(left, [newest, open], "the newest keeps its number from being given again");
    assert_eq!(outcomes(given, old, None).await, []);
    let leased = hand.take(at(301), worker, &["a"]).await;
    hand.done(at(302), leased.token, success()).await;
}
