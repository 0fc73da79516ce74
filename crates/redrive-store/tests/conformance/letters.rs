//! Looking for letters, mending their payloads, letting them go, and taking in those of others (R-D5, R-D8).

use std::sync::Arc;
use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{
    Edited, Enqueued, EventStatus, ImportedLetter, JobId, JobState, LetterFilter, LetterHead, LetterReason,
    LetterTest, NewJob, NewRun, Redriven, RunState, RunStep, Store, Timestamp, Trouble, WorkerId,
};
use serde_json::json;

use crate::back_end::Given;
use crate::given::{Hand, at, dead, job, success};

/// A letter whose group is of its own words.
async fn letter(
    hand: &Hand<'_>,
    worker: WorkerId,
    now: Timestamp,
    new: NewJob,
    cause: Cause,
    words: &str,
) -> JobId {
    let kind = new.kind.clone();
    let id = hand.add_at(now, new).await;
    let leased = hand.take(now, worker, &[&kind]).await;
    hand.done(now, leased.token, dead(cause, words)).await;
    id
}

async fn ids(store: &dyn Store, filter: LetterFilter) -> Vec<JobId> {
    let found = store.letter_heads(filter, 100, 10_000).await.unwrap();
    assert_eq!(found.next, None, "there were no more");
    found.heads.into_iter().map(|head| head.id).collect()
}

fn only(test: impl Fn(&LetterHead) -> bool + Send + Sync + 'static) -> LetterFilter {
    LetterFilter { only: Some(LetterTest(Arc::new(test))), ..LetterFilter::default() }
}

/// R-D5: a head says the same as its letter.
pub(crate) async fn heads_say_what_is_short(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let new = NewJob { queue: "mail".to_owned(), caller_id: Some("mine".to_owned()), ..job("send") };
    let id = letter(&hand, worker, at(4), new, Cause::AuthError, "wrong \u{2026} key").await;
    let head = given.store.letter_heads(LetterFilter::default(), 9, 99).await.unwrap().heads.remove(0);
    let letter = given.store.letters(LetterFilter::default(), 9).await.unwrap().remove(0);
    let expected = LetterHead {
        id,
        queue: "mail".to_owned(),
        kind: "send".to_owned(),
        died_at: at(4),
        reason: LetterReason::Exhausted,
        cause: Cause::AuthError,
        retryable: false,
        rule: "test".to_owned(),
        fingerprint: "print of wrong \u{2026} key".to_owned(),
        error_type: "TestError".to_owned(),
        error_message: "wrong \u{2026} key".to_owned(),
        attempts: 1,
        retries: 0,
        redrives: 0,
        caller_id: Some("mine".to_owned()),
    };
    assert_eq!(head, expected);
    assert_eq!((letter.id, letter.caller_id.as_deref(), letter.died_at), (id, Some("mine"), at(4)));
}

/// R-D8: each condition alone and with others, for heads, whole letters and counts alike.
pub(crate) async fn every_filter_chooses_and_counts(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let queued = |queue: &str, kind: &str| NewJob { queue: queue.to_owned(), ..job(kind) };
    let mine = NewJob { caller_id: Some("x".to_owned()), ..queued("q", "a") };
    let first = letter(&hand, worker, at(0), mine, Cause::Network, "one").await;
    let second = letter(&hand, worker, at(5), queued("q", "b"), Cause::AuthError, "other").await;
    let third = letter(&hand, worker, at(9), queued("r", "a"), Cause::Timeout, "two").await;
    let fourth = letter(&hand, worker, at(9), queued("r", "a"), Cause::Network, "one").await;
    let some = |text: &str| Some(text.to_owned());
    let none = LetterFilter::default;
    let cases = [
        (none(), vec![fourth, third, second, first]),
        (LetterFilter { ids: Some(vec![third, first, third, JobId(9_999)]), ..none() }, vec![third, first]),
        (LetterFilter { ids: Some(vec![]), ..none() }, vec![]),
        (LetterFilter { causes: vec![Cause::AuthError, Cause::Timeout], ..none() }, vec![third, second]),
        (LetterFilter { causes: vec![Cause::Network], cause: Some(Cause::Timeout), ..none() }, vec![]),
        (LetterFilter { cause: Some(Cause::Network), ..none() }, vec![fourth, first]),
        (LetterFilter { transient_only: true, ..none() }, vec![fourth, third, first]),
        (
            LetterFilter { reason: Some(LetterReason::Exhausted), ..none() },
            vec![fourth, third, second, first],
        ),
        (LetterFilter { reason: Some(LetterReason::Crashed), ..none() }, vec![]),
        (LetterFilter { fingerprint: some("print of one"), ..none() }, vec![fourth, first]),
        (LetterFilter { fingerprint_prefix: some("print of o"), ..none() }, vec![fourth, second, first]),
        (LetterFilter { fingerprint_prefix: some("print of %"), ..none() }, vec![]),
        (LetterFilter { fingerprint_prefix: some(""), ..none() }, vec![fourth, third, second, first]),
        (LetterFilter { queue: some("q"), ..none() }, vec![second, first]),
        (LetterFilter { kind: some("a"), ..none() }, vec![fourth, third, first]),
        (LetterFilter { queue: some("r"), kind: some("b"), ..none() }, vec![]),
        (LetterFilter { caller_id: some("x"), ..none() }, vec![first]),
        (LetterFilter { caller_id: some("x\0"), ..none() }, vec![]),
        (LetterFilter { since: Some(at(5)), ..none() }, vec![fourth, third, second]),
        (LetterFilter { since: Some(at(5)), before: Some(at(9)), ..none() }, vec![second]),
        (LetterFilter { kind: some("a"), cause: Some(Cause::Network), ..none() }, vec![fourth, first]),
        (LetterFilter { queue: some("r"), fingerprint_prefix: some("print of o"), ..none() }, vec![fourth]),
        (LetterFilter { caller_id: some("x"), transient_only: true, queue: some("r"), ..none() }, vec![]),
        (only(|head| head.error_message.contains('o')), vec![fourth, third, second, first]),
        (only(|head| head.kind == "b"), vec![second]),
        (LetterFilter { queue: some("r"), ..only(|head| head.cause == Cause::Network) }, vec![fourth]),
    ];
    for (filter, expected) in cases {
        let whole = given.store.letters(filter.clone(), 99).await.unwrap();
        assert_eq!(whole.iter().map(|letter| letter.id).collect::<Vec<_>>(), expected, "{filter:?}");
        assert_eq!(
            given.store.count_letters(filter.clone()).await.unwrap(),
            expected.len() as u64,
            "{filter:?}"
        );
        let oldest_first = LetterFilter { oldest_first: true, ..filter.clone() };
        assert_eq!(ids(&*given.store, filter.clone()).await, expected, "{filter:?}");
        let mut turned = expected;
        turned.reverse();
        assert_eq!(ids(&*given.store, oldest_first).await, turned, "the oldest first: {filter:?}");
    }
    not_by(given, &hand, worker, first).await;
}

/// R-D8: what a run has put back before is left out for it, and for it alone.
async fn not_by(given: &Given, hand: &Hand<'_>, worker: WorkerId, id: JobId) {
    let start = async || {
        let run = NewRun { wanted_by: "test".to_owned(), plan: json!({}), progress: json!({}) };
        given.store.start_run(at(10), run).await.unwrap()
    };
    let (run, other) = (start().await, start().await);
    let version = given.store.run(run).await.unwrap().unwrap().version;
    let step = RunStep {
        run,
        version,
        ids: vec![id],
        judged_in: None,
        progress: json!({}),
        state: RunState::Running,
        why: None,
    };
    let stepped = given.store.advance_run(at(11), step).await.unwrap().unwrap();
    assert_eq!(stepped.redriven, [Redriven::Ready]);
    let leased = hand.take(at(12), worker, &["a"]).await;
    hand.done(at(12), leased.token, dead(Cause::Network, "one")).await;
    let filter = |not_by| LetterFilter { not_by, ids: Some(vec![id]), ..LetterFilter::default() };
    assert_eq!(given.store.count_letters(filter(Some(run))).await.unwrap(), 0);
    assert_eq!(given.store.count_letters(filter(Some(other))).await.unwrap(), 1);
    assert_eq!(ids(&*given.store, filter(None)).await, [id]);
}

/// R-D5: none twice and none left out, though many died at once, by whichever way they are found.
pub(crate) async fn both_orders_page_by_page(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mut all = Vec::new();
    for number in 0..23 {
        let kind = if number % 2 == 0 { "a" } else { "b" };
        all.push(letter(&hand, worker, at(number / 5), job(kind), Cause::Network, "one").await);
    }
    let none = LetterFilter::default;
    for filter in [
        none(),
        LetterFilter { cause: Some(Cause::Network), ..none() },
        LetterFilter { transient_only: true, ..none() },
        LetterFilter { queue: Some("default".to_owned()), ..none() },
        LetterFilter { fingerprint: Some("print of one".to_owned()), ..none() },
        LetterFilter { ids: Some(all.clone()), ..none() },
        only(|_| true),
    ] {
        for oldest_first in [false, true] {
            let mut expected = all.clone();
            if !oldest_first {
                expected.reverse();
            }
            let (mut got, mut after) = (Vec::new(), None);
            loop {
                let page = LetterFilter { after, oldest_first, ..filter.clone() };
                let left = given.store.count_letters(page.clone()).await.unwrap();
                assert_eq!(left, (all.len() - got.len()) as u64, "{page:?}");
                let found = given.store.letter_heads(page, 4, 99).await.unwrap();
                got.extend(found.heads.iter().map(|head| head.id));
                let Some(next) = found.next else { break };
                after = Some(next);
            }
            assert_eq!(got, expected, "{filter:?}");
        }
    }
    assert!(given.store.letter_heads(none(), 0, 9).await.unwrap().heads.is_empty());
}

/// R-D8: a test that few pass ends where it was told to, and says where to look on.
pub(crate) async fn a_test_looks_no_further_than_it_may(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mut all = Vec::new();
    for number in 0..10 {
        all.push(letter(&hand, worker, at(number), job("a"), Cause::Network, "one").await);
    }
    let (third, eighth) = (all[2], all[7]);
    let rare = LetterFilter { oldest_first: true, ..only(move |head| [third, eighth].contains(&head.id)) };
    let found = given.store.letter_heads(rare.clone(), 9, 5).await.unwrap();
    assert_eq!(found.heads.iter().map(|head| head.id).collect::<Vec<_>>(), [third]);
    assert_eq!(found.next, Some((at(4), all[4])));
    let on = LetterFilter { after: found.next, ..rare.clone() };
    let found = given.store.letter_heads(on.clone(), 1, 99).await.unwrap();
    assert_eq!(found.heads.iter().map(|head| head.id).collect::<Vec<_>>(), [eighth]);
    assert_eq!(found.next, Some((at(7), eighth)), "it stops with the last that was wanted");
    assert_eq!(given.store.count_letters(rare).await.unwrap(), 2);
    assert_eq!(given.store.count_letters(on).await.unwrap(), 1);
}

async fn edit(store: &dyn Store, id: JobId, edits: u32, payload: &str) -> Edited {
    store.edit_payload(at(20), id, edits, payload.into(), "me".to_owned()).await.unwrap()
}

/// R-D8: the handler gets the new one, every old one is kept until the job is over, and no event shows any.
pub(crate) async fn a_replaced_payload_is_kept(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = letter(&hand, worker, at(0), job("first secret"), Cause::AuthError, "odd").await;
    assert_eq!(edit(&*given.store, id, 0, "second secret").await, Edited::Done { version: 1 });
    assert_eq!(edit(&*given.store, id, 1, "third secret").await, Edited::Done { version: 2 });
    let versions = given.store.payload_versions(id).await.unwrap();
    let kept: Vec<_> = versions.iter().map(|one| (one.version, one.payload.as_slice())).collect();
    assert_eq!(kept, [(1, &b"first secret"[..]), (2, &b"second secret"[..])]);
    assert!(versions.iter().all(|one| one.at == at(20) && one.edited_by == "me"));
    let story = hand.story(id).await;
    let edits: Vec<_> = story.iter().filter(|event| event.event_type == "payload_edited").collect();
    assert_eq!((edits.len(), edits[1].data["version"].as_u64()), (2, Some(2)));
    assert!(
        edits
            .iter()
            .all(|event| event.data["edited_by"] == "me" && !event.data.to_string().contains("secret"))
    );
    let JobState::Dead(shown) = hand.record(id).await.state else { panic!("it is no letter") };
    assert_eq!(shown.payload, b"third secret");
    given.store.redrive(at(30), vec![id], "redrive").await.unwrap();
    let leased = hand.take(at(31), worker, &["first secret"]).await;
    assert_eq!(leased.job.payload, b"third secret");
    assert_eq!(given.store.payload_versions(id).await.unwrap().len(), 2, "it may die again");
    hand.done(at(32), leased.token, success()).await;
    assert!(given.store.payload_versions(id).await.unwrap().is_empty(), "they go with the job");
}

/// R-D8: of two who edit the same, one hears that the other was first, and nothing is lost.
pub(crate) async fn who_comes_too_late_edits_nothing(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = letter(&hand, worker, at(0), job("a"), Cause::AuthError, "odd").await;
    let another = given.another().await;
    let both = tokio::join!(edit(&*given.store, id, 0, "x"), edit(&*another, id, 0, "y"));
    let (won, lost) = if both.0 == (Edited::Done { version: 1 }) { both } else { (both.1, both.0) };
    assert_eq!((won, lost), (Edited::Done { version: 1 }, Edited::Changed { edits: 1 }));
    assert_eq!(given.store.payload_versions(id).await.unwrap().len(), 1);
    another.close().await.unwrap();
}

/// R-D8: what waits, runs or is over is not edited, and no payload is larger than one that could be enqueued.
pub(crate) async fn only_a_letter_is_edited(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let waits = hand.add(job("a")).await;
    assert_eq!(edit(&*given.store, waits, 0, "x").await, Edited::NotDead);
    let leased = hand.take(at(1), worker, &["a"]).await;
    assert_eq!(edit(&*given.store, waits, 0, "x").await, Edited::NotDead);
    hand.done(at(2), leased.token, success()).await;
    assert_eq!(edit(&*given.store, waits, 0, "x").await, Edited::NotDead);
    let id = letter(&hand, worker, at(3), job("a"), Cause::AuthError, "odd").await;
    let large = vec![b'x'; redrive_store::MAX_PAYLOAD_BYTES + 1];
    let error = given.store.edit_payload(at(4), id, 0, large, "me".to_owned()).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Refused(_)), "{error}");
    assert!(given.store.payload_versions(id).await.unwrap().is_empty());
}

/// R-D8: the job is over, and the event says why.
pub(crate) async fn what_is_discarded_is_gone(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let gone = letter(&hand, worker, at(0), job("a"), Cause::Network, "one").await;
    let stays = letter(&hand, worker, at(0), job("a"), Cause::Network, "one").await;
    let waits = hand.add(job("b")).await;
    edit(&*given.store, gone, 0, "x").await;
    let ids = vec![gone, waits, gone, JobId(9_999)];
    let discarded = given.store.discard(at(1), ids, "letter_discarded", Some("too old".to_owned()));
    assert_eq!(discarded.await.unwrap(), [true, false, false, false]);
    assert_eq!(hand.record(gone).await.state, JobState::Ended);
    assert!(given.store.payload_versions(gone).await.unwrap().is_empty());
    let last =
        hand.story(gone).await.into_iter().rfind(|event| event.event_type == "letter_discarded").unwrap();
    assert_eq!((last.status, last.data["why"].as_str()), (EventStatus::DeadLetter, Some("too old")));
    assert_eq!(ids_of(given).await, [stays]);
    let status = given.store.status(at(2)).await.unwrap();
    assert_eq!((status.dead_letters, status.lanes[0].dead), (1, 1));
    assert_eq!(status.failed_events, 0, "a person decided on it: it is no failure without a letter");
    assert_eq!(given.store.redrive(at(3), vec![gone], "redrive").await.unwrap(), [Redriven::NotDead]);
}

async fn ids_of(given: &Given) -> Vec<JobId> {
    ids(&*given.store, LetterFilter::default()).await
}

fn imported(event_id: &str, unique_key: Option<&str>) -> ImportedLetter {
    let job = NewJob {
        queue: "mail".to_owned(),
        caller_id: Some("theirs".to_owned()),
        unique_key: unique_key.map(str::to_owned),
        policy: Some("api".to_owned()),
        ..NewJob::new("send", "their payload")
    };
    ImportedLetter {
        event_id: event_id.to_owned(),
        job,
        died_at: at(-5_000),
        reason: LetterReason::Exhausted,
        cause: Cause::RateLimit,
        retryable: true,
        rule: "http.429".to_owned(),
        fingerprint: "theirs".to_owned(),
        error_type: "TooMany".to_owned(),
        error_message: "slow down".to_owned(),
        attempts: 4,
        retries: 3,
        max_retries: 3,
        redrives: 1,
        context: json!({ "where": "there" }),
        report: json!({ "report": 2 }),
    }
}

/// R-D8, R-E4: it is found, grouped, shown and put back like one that died here.
pub(crate) async fn a_letter_from_elsewhere_is_one_of_ours(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id =
        given.store.import_letters(at(0), vec![imported("EVT-theirs-1", Some("key"))]).await.unwrap()[0].id;
    let letter = given.store.letters(LetterFilter::default(), 9).await.unwrap().remove(0);
    assert_eq!((letter.id, letter.queue.as_str(), letter.kind.as_str()), (id, "mail", "send"));
    assert_eq!((letter.died_at, letter.enqueued_at), (at(-5_000), at(-5_000)));
    assert_eq!(
        (letter.reason, letter.cause, letter.retryable),
        (LetterReason::Exhausted, Cause::RateLimit, true)
    );
    assert_eq!((letter.attempts, letter.retries, letter.max_retries, letter.redrives), (4, 3, 3, 1));
    assert_eq!((letter.error_type.as_str(), letter.error_message.as_str()), ("TooMany", "slow down"));
    assert_eq!((letter.rule.as_str(), letter.fingerprint.as_str()), ("http.429", "theirs"));
    assert_eq!((&letter.context["where"], &letter.report["report"]), (&"there".into(), &2.into()));
    assert_eq!((letter.caller_id.as_deref(), letter.policy.as_deref()), (Some("theirs"), Some("api")));
    assert_eq!(letter.payload, b"their payload");
    let event = given.store.event("EVT-theirs-1".to_owned()).await.unwrap().unwrap();
    assert_eq!((event.event_type.as_str(), event.timestamp), ("letter_imported", at(-5_000)));
    assert_eq!((event.job, event.status, event.importance), (Some(id), EventStatus::DeadLetter, 5));
    let group = given.store.groups(redrive_store::GroupQuery::default(), 9).await.unwrap().remove(0);
    assert_eq!(
        (group.fingerprint.as_str(), group.counts.letters, group.sample.as_str()),
        ("theirs", 1, "slow down")
    );
    let status = given.store.status(at(0)).await.unwrap();
    assert_eq!((status.dead_letters, status.by_cause[&Cause::RateLimit]), (1, 1));
    // Dead, it does not hold its key; put back, it takes it.
    let holder = hand
        .add(NewJob { queue: "mail".to_owned(), unique_key: Some("key".to_owned()), ..job("send") })
        .await;
    let back = given.store.redrive(at(1), vec![id], "redrive").await.unwrap();
    assert_eq!(back, [Redriven::Duplicate { of: holder }]);
    given.store.cancel(at(2), holder, "out of the way".to_owned()).await.unwrap();
    assert_eq!(given.store.redrive(at(3), vec![id], "redrive").await.unwrap(), [Redriven::Ready]);
    let leased = hand.take(at(4), worker, &["send"]).await;
    assert_eq!(
        (leased.token.job, leased.attempt, leased.job.payload.as_slice()),
        (id, 1, &b"their payload"[..])
    );
    hand.done(at(5), leased.token, success()).await;
    assert_eq!(hand.types(id).await, ["letter_imported", "redrive", "attempt_started", "attempt_succeeded"]);
}

/// R-E4: the same again adds nothing, in one call or in another; a bad one spoils the call.
pub(crate) async fn a_letter_comes_in_once(given: &Given) {
    let three = || vec![imported("one", None), imported("two", None), imported("one", None)];
    let first = given.store.import_letters(at(0), three()).await.unwrap();
    let (one, two) = (first[0].id, first[1].id);
    let here = |id, existing| Enqueued { id, existing };
    assert_eq!(first, [here(one, false), here(two, false), here(one, true)]);
    let again = given.store.import_letters(at(1), three()).await.unwrap();
    assert_eq!(again, [here(one, true), here(two, true), here(one, true)]);
    let mut bad = imported("three", None);
    bad.job.kind = String::new();
    let error = given.store.import_letters(at(2), vec![imported("four", None), bad]).await.unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Refused(_)), "{error}");
    assert_eq!(given.store.count_letters(LetterFilter::default()).await.unwrap(), 2);
    // What was pruned with the letter may come again.
    let later = at(0).after(Duration::from_hours(24));
    assert_eq!(given.store.prune(later, later, later, 99).await.unwrap().letters, 2);
    given.store.prune(later, later, later, 99).await.unwrap();
    let after = given.store.import_letters(later, vec![imported("one", None)]).await.unwrap();
    assert!(!after[0].existing && after[0].id != one, "{after:?}");
}

/// R-D6: a letter that had been dead elsewhere for long is kept as long as any other, from its coming on.
pub(crate) async fn a_letter_from_elsewhere_is_kept_from_its_coming_on(given: &Given) {
    given.store.import_letters(at(1_000), vec![imported("EVT-theirs-1", None)]).await.unwrap();
    let early = given.store.prune(at(1_001), at(-9_000), at(500), 100).await.unwrap();
    assert_eq!((early.letters, ids_of(given).await.len()), (0, 1));
    let later = given.store.prune(at(2_000), at(-9_000), at(1_500), 100).await.unwrap();
    assert_eq!((later.letters, ids_of(given).await.len()), (1, 0));
}
