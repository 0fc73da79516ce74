//! Letters hold all that a person needs (R-D5).

use redrive_policy::Cause;
use redrive_store::{JobState, LetterFilter, LetterReason, NewJob};

use crate::back_end::Given;
use crate::given::{Hand, at, dead, job, retry};

/// R-D5
pub(crate) async fn a_letter_has_its_fields(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let new = NewJob {
        queue: "mail".to_owned(),
        caller_id: Some("mine".to_owned()),
        policy: Some("api".to_owned()),
        ..NewJob::new("send", "the payload")
    };
    let id = hand.add(new).await;
    let first = hand.take(at(1), worker, &["send"]).await;
    hand.done(at(2), first.token, retry(at(3))).await;
    let second = hand.take(at(3), worker, &["send"]).await;
    hand.done(at(4), second.token, dead(Cause::AuthError, "wrong key")).await;
    let letters = given.store.letters(LetterFilter::default(), 10).await.unwrap();
    let letter = &letters[0];
    assert_eq!((letter.id, letter.queue.as_str(), letter.kind.as_str()), (id, "mail", "send"));
    assert_eq!((letter.enqueued_at, letter.died_at, letter.event.at), (at(0), at(4), at(4)));
    assert_eq!(
        (letter.reason, letter.cause, letter.retryable),
        (LetterReason::Exhausted, Cause::AuthError, false)
    );
    assert_eq!((letter.error_type.as_str(), letter.error_message.as_str()), ("TestError", "wrong key"));
    assert_eq!((letter.attempts, letter.retries, letter.crashes, letter.max_retries), (2, 1, 0, 3));
    assert_eq!((letter.caller_id.as_deref(), letter.policy.as_deref()), (Some("mine"), Some("api")));
    assert_eq!((letter.payload.as_slice(), letter.redrives), (&b"the payload"[..], 0));
    assert_eq!((&letter.context["where"], &letter.report["report"]), (&"here".into(), &1.into()));
    assert_eq!((letter.fingerprint.as_str(), letter.rule.as_str()), ("print of wrong key", "test"));
    assert_eq!(hand.record(id).await.state, JobState::Dead(Box::new(letter.clone())));
    let last = hand.story(id).await.pop().unwrap();
    assert_eq!((last.seq, last.event_type.as_str(), last.importance), (letter.event.seq, "job_dead", 5));
    assert_eq!(last.data["context"]["where"], "here");
    let shown = serde_json::to_value(letter).unwrap();
    assert!(shown.get("payload").is_none(), "a payload is shown only when it is asked for");
    assert_eq!(shown["event"], last.event_id.as_str());
}

/// R-D5: the newest first, page by page, none twice and none left out, though many died at once.
pub(crate) async fn pages_follow_each_other(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mut ids = Vec::new();
    for number in 0..23 {
        ids.push(hand.letter(at(number / 5), worker, job("a"), Cause::Network).await);
    }
    ids.reverse();
    let mut got = Vec::new();
    let mut after = None;
    loop {
        let filter = LetterFilter { after, ..LetterFilter::default() };
        let page = given.store.letters(filter, 4).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.died_at, last.id));
        got.extend(page.iter().map(|letter| letter.id));
    }
    assert_eq!(got, ids);
    assert!(given.store.letters(LetterFilter::default(), 0).await.unwrap().is_empty());
}

/// R-D5, R-D8: by queue, kind, cause, group, caller, class and age, each alone and together.
pub(crate) async fn filters_choose(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mine = NewJob { caller_id: Some("x".to_owned()), ..job("a") };
    let network = hand.letter(at(0), worker, mine, Cause::Network).await;
    let other_queue = NewJob { queue: "q".to_owned(), ..job("a") };
    let auth = hand.letter(at(5), worker, other_queue, Cause::AuthError).await;
    let timeout = hand.letter(at(9), worker, job("b"), Cause::Timeout).await;
    let some = |text: &str| Some(text.to_owned());
    let none = LetterFilter::default;
    for (filter, expected) in [
        (none(), vec![timeout, auth, network]),
        (LetterFilter { queue: some("q"), ..none() }, vec![auth]),
        (LetterFilter { kind: some("a"), ..none() }, vec![auth, network]),
        (LetterFilter { cause: Some(Cause::Timeout), ..none() }, vec![timeout]),
        (LetterFilter { fingerprint: some("print of it is dead"), ..none() }, vec![timeout, auth, network]),
        (LetterFilter { fingerprint: some("print"), ..none() }, vec![]),
        (LetterFilter { caller_id: some("x"), ..none() }, vec![network]),
        (LetterFilter { transient_only: true, ..none() }, vec![timeout, network]),
        (LetterFilter { before: Some(at(9)), ..none() }, vec![auth, network]),
        (LetterFilter { kind: some("a"), transient_only: true, ..none() }, vec![network]),
        (LetterFilter { kind: some("a' OR 1=1 --"), ..none() }, vec![]),
    ] {
        let letters = given.store.letters(filter.clone(), 99).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), expected, "{filter:?}");
    }
}

/// R-D5
pub(crate) async fn cancelling_ends_a_letter(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.letter(at(0), worker, job("a"), Cause::Network).await;
    assert_eq!(given.store.cancel(at(1), id, "never mind".to_owned()).await.unwrap(), Some(true));
    assert_eq!(hand.record(id).await.state, JobState::Ended);
    assert!(given.store.letters(LetterFilter::default(), 9).await.unwrap().is_empty());
    let status = given.store.status(at(1)).await.unwrap();
    assert_eq!((status.dead_letters, status.lanes[0].dead, status.lanes[0].cancelled), (0, 0, 1));
    assert_eq!(hand.story(id).await.last().unwrap().data["why"], "never mind");
}
