//! Letters go back: never both dead and alive, never neither (R-D8, invariant I5).

use redrive_policy::Cause;
use redrive_store::{JobId, JobState, NewJob, Redriven};

use crate::back_end::Given;
use crate::given::{Hand, LEASE, at, dead, job, retry, success};

/// R-D8: a fresh budget; the fence and the story go on; failing again dead-letters again.
pub(crate) async fn a_fresh_budget_and_the_old_story(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.add(job("a")).await;
    let first = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), first.token, retry(at(0))).await;
    let second = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), second.token, dead(Cause::Network, "x")).await;
    assert_eq!(given.store.redrive(at(5), vec![id], "redriven").await.unwrap(), [Redriven::Ready]);
    let record = hand.record(id).await;
    assert_eq!((record.attempts, record.retries, record.crashes), (0, 0, 0));
    assert_eq!(record.state, JobState::Ready { run_at: at(5), held_for: None });
    let third = hand.take(at(5), worker, &["a"]).await;
    assert_eq!((third.attempt, third.retries, third.hint.clone(), third.last_delay), (1, 0, None, None));
    assert!(third.token.fence > second.token.fence);
    hand.done(at(6), third.token, dead(Cause::Network, "x again")).await;
    let JobState::Dead(letter) = hand.record(id).await.state else { panic!("no letter") };
    assert_eq!((letter.redrives, letter.attempts, letter.enqueued_at), (1, 1, at(0)));
    given.store.redrive(at(7), vec![id], "redriven").await.unwrap();
    let fourth = hand.take(at(7), worker, &["a"]).await;
    hand.done(at(7), fourth.token, success()).await;
    let types = hand.types(id).await;
    let expected = [
        "job_enqueued",
        "attempt_started",
        "attempt_failed",
        "attempt_started",
        "job_dead",
        "redriven",
        "attempt_started",
        "job_dead",
        "redriven",
        "attempt_started",
        "attempt_succeeded",
    ];
    assert_eq!(types, expected);
    for pair in hand.story(id).await.windows(2) {
        assert_eq!(pair[1].parent, Some(pair[0].seq));
    }
}

/// R-D8
pub(crate) async fn only_letters_go_back(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ended = hand.add(job("a")).await;
    let leased = hand.take(at(0), worker, &["a"]).await;
    hand.done(at(0), leased.token, success()).await;
    let running = hand.add(job("a")).await;
    hand.take(at(0), worker, &["a"]).await;
    let waiting = hand.add(job("a")).await;
    let letter = hand.letter(at(0), worker, job("b"), Cause::Network).await;
    let asked = vec![ended, running, waiting, JobId(-1), JobId(999), letter];
    let before = hand.record(running).await;
    let told = given.store.redrive(at(1), asked, "redriven").await.unwrap();
    assert_eq!(told[..5], [Redriven::NotDead; 5]);
    assert_eq!((told[5], hand.record(running).await), (Redriven::Ready, before));
}

/// Invariant I5
pub(crate) async fn twice_in_a_row(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.letter(at(0), worker, job("a"), Cause::Network).await;
    let told = given.store.redrive(at(1), vec![id, id], "redriven").await.unwrap();
    assert_eq!(told, [Redriven::Ready, Redriven::NotDead]);
    assert_eq!(given.store.status(at(1)).await.unwrap().lanes[0].ready, 1);
}

/// R-D8: a job that somebody had hurried before its first attempt dies and comes back like any other.
pub(crate) async fn a_job_that_was_run_now(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.add(redrive_store::NewJob { run_at: Some(at(9_000)), ..job("a") }).await;
    given.store.run_now(at(1), id).await.unwrap();
    let leased = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(1), leased.token, dead(Cause::Network, "x")).await;
    hand.clean().await;
    assert_eq!(given.store.redrive(at(2), vec![id], "redriven").await.unwrap(), [Redriven::Ready]);
    assert_eq!(hand.take(at(2), worker, &["a"]).await.attempt, 1);
}

/// R-D2, R-D8: a closure that was redriven is carried out by a handler of its name; the death of a worker is then a crash
/// like any other.
pub(crate) async fn redriven_inline_work_is_everybodys(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let inline = NewJob { inline: true, held_for: Some(worker), ..job("closure") };
    let id = hand.letter(at(0), worker, inline, Cause::Network).await;
    assert_eq!(given.store.redrive(at(1), vec![id], "redriven").await.unwrap(), [Redriven::Ready]);
    assert!(!hand.take(at(1), worker, &["closure"]).await.job.inline);
    let seized = given.store.seize_expired(at(40_000), worker, LEASE, 9).await.unwrap();
    assert!(!seized[0].leased.job.inline);
    hand.done(at(40_000), seized[0].leased.token, success()).await;
}

/// R-D8: a fresh budget has as much time as the first one had; a deadline that has not come stays.
pub(crate) async fn a_deadline_that_passed_is_renewed(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let late = NewJob { deadline_at: Some(at(30)), ..job("a") };
    let in_time = NewJob { deadline_at: Some(at(900)), ..job("a") };
    let late = hand.letter(at(0), worker, late, Cause::Network).await;
    let in_time = hand.letter(at(0), worker, in_time, Cause::Network).await;
    given.store.redrive(at(100), vec![late, in_time], "redriven").await.unwrap();
    let deadline = async |id| hand.record(id).await.job.unwrap().deadline_at;
    assert_eq!((deadline(late).await, deadline(in_time).await), (Some(at(130)), Some(at(900))));
}
