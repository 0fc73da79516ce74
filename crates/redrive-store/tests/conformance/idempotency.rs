//! Idempotency keys: one request runs, everybody else gets its answer, and what nobody knows is never run again by itself
//! (R-I2, R-I4).

use std::time::Duration;

use redrive_store::{
    Claimed, Event, EventFilter, EventStatus, Finish, JobId, KeyClaim, KeyHold, KeyQuery, KeyRecord,
    KeyState, KeysSwept, MAX_HEADER_BYTES, MAX_RESPONSE_BYTES, Order, Refusal, StoredResponse, Trouble,
};

use crate::back_end::Given;
use crate::given::at;

const HOLD: Duration = Duration::from_secs(30);
const KEEP: Duration = Duration::from_hours(24);
const DAY: i64 = 24 * 60 * 60 * 1_000;

pub(crate) fn claim(key: &str) -> KeyClaim {
    KeyClaim {
        principal: "alice".to_owned(),
        key: key.to_owned(),
        endpoint: "POST /v1/orders".to_owned(),
        request_hash: "hash of a".to_owned(),
        hold_for: HOLD,
        keep_for: KEEP,
        rerun: false,
        job: None,
    }
}

pub(crate) fn answer(body: &[u8]) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), b"text/plain".to_vec())];
    StoredResponse { status: 201, headers, body: Some(body.to_vec()) }
}

async fn claimed(given: &Given, now: i64, claim: KeyClaim) -> Claimed {
    given.store.claim_key(at(now), claim).await.unwrap()
}

/// Claims, and it must be ours.
pub(crate) async fn taken(given: &Given, now: i64, claim: KeyClaim) -> KeyHold {
    match claimed(given, now, claim).await {
        Claimed::Taken { hold, .. } => hold,
        other => panic!("not taken: {other:?}"),
    }
}

async fn complete(given: &Given, now: i64, hold: KeyHold, body: &[u8]) -> Finish {
    given.store.complete_key(at(now), hold, answer(body), KEEP).await.unwrap()
}

/// The events of a record, the oldest first.
async fn told(given: &Given, record: i64) -> Vec<Event> {
    let caller_id = Some(format!("key-{record}"));
    let filter = EventFilter { caller_id, order: Order::OldestFirst, ..EventFilter::default() };
    given.store.events(filter, 100).await.unwrap()
}

async fn types(given: &Given, record: i64) -> Vec<String> {
    told(given, record).await.into_iter().map(|event| event.event_type).collect()
}

async fn read(given: &Given, record: i64) -> KeyRecord {
    given.store.key(record).await.unwrap().expect("there is such a record").0
}

/// R-I2: the first takes the key, and later ones get its answer as it was given, however often.
pub(crate) async fn an_answer_is_replayed(given: &Given) {
    let with_job = KeyClaim { job: Some(JobId(7)), ..claim("k") };
    let Claimed::Taken { hold, again } = claimed(given, 0, with_job).await else { panic!("not taken") };
    assert!(!again);
    assert_eq!(complete(given, 5, hold, b"made").await, Finish::Done);
    let replay = Claimed::Completed { response: answer(b"made"), completed_at: at(5), job: Some(JobId(7)) };
    for now in [6, 7, DAY] {
        assert_eq!(claimed(given, now, claim("k")).await, replay);
    }
    // The ordinary life of a key leaves no event.
    assert_eq!(types(given, hold.record).await, [""; 0]);
    let elsewhere = given.another().await;
    assert_eq!(elsewhere.claim_key(at(8), claim("k")).await.unwrap(), replay);
    elsewhere.close().await.unwrap();
}

/// R-I4: a key that comes with another request is refused, whatever became of the first, and names what it was for.
pub(crate) async fn another_request_is_a_mismatch(given: &Given) {
    let other =
        || KeyClaim { request_hash: "hash of b".to_owned(), endpoint: "GET /x".to_owned(), ..claim("k") };
    let hold = taken(given, 0, claim("k")).await;
    let mismatch = Claimed::Mismatch { endpoint: "POST /v1/orders".to_owned() };
    assert_eq!(claimed(given, 1, other()).await, mismatch);
    assert_eq!(claimed(given, 60_000, other()).await, mismatch, "also when the holder fell silent");
    assert_eq!(complete(given, 60_001, hold, b"").await, Finish::Done);
    assert_eq!(claimed(given, 60_002, KeyClaim { rerun: true, ..other() }).await, mismatch);
    assert_eq!(types(given, hold.record).await, [""; 0]);
}

/// R-I4: while the first runs, nobody else does.
pub(crate) async fn in_flight_nobody_else_runs_it(given: &Given) {
    let hold = taken(given, 0, KeyClaim { job: Some(JobId(3)), ..claim("k") }).await;
    let in_flight = |until| Claimed::InFlight { since: at(0), until: at(until), job: Some(JobId(3)) };
    assert_eq!(claimed(given, 1, claim("k")).await, in_flight(30_000));
    assert_eq!(claimed(given, 29_999, KeyClaim { rerun: true, ..claim("k") }).await, in_flight(30_000));
    assert_eq!(given.store.renew_key(at(29_999), hold, HOLD).await.unwrap(), Finish::Done);
    assert_eq!(claimed(given, 30_000, claim("k")).await, in_flight(59_999));
    assert_eq!(given.store.key_standing().await.unwrap(), (1, 0));
    assert_eq!(given.store.status(at(30_000)).await.unwrap().unknown_outcomes, 0);
}

/// R-I4: a holder that falls silent leaves an unknown outcome, with an event, and nobody runs it again.
pub(crate) async fn a_silent_holder_leaves_an_unknown_outcome(given: &Given) {
    let hold = taken(given, 0, claim("k")).await;
    let unknown = Claimed::Unknown { since: at(30_000), job: None };
    for now in [30_000, 30_001, 50_000] {
        assert_eq!(claimed(given, now, claim("k")).await, unknown);
    }
    let events = told(given, hold.record).await;
    assert_eq!(events.len(), 1, "{events:#?}");
    let event = &events[0];
    assert_eq!(
        (&*event.event_type, event.status, event.importance),
        ("idempotency_unknown", EventStatus::DeadLetter, 4)
    );
    for (name, value) in [("endpoint", "POST /v1/orders"), ("key", "k"), ("principal", "alice")] {
        assert_eq!(event.data[name], value);
    }
    assert_eq!(event.data["record"], hold.record);
    assert_eq!(event.timestamp, at(30_000));
    let record = read(given, hold.record).await;
    assert_eq!((record.state, record.ended_at), (KeyState::UnknownOutcome, Some(at(30_000))));
    assert_eq!((record.leased_until, record.expires_at), (None, Some(at(30_000 + DAY))));
    assert_eq!(given.store.key_standing().await.unwrap(), (0, 1));
    let status = given.store.status(at(50_000)).await.unwrap();
    assert_eq!((status.unknown_outcomes, status.outbox_failed), (1, 0));
}

/// R-I4: a route that can bear it runs an unknown outcome again; the stale holder loses from then on.
pub(crate) async fn a_rerun_takes_over(given: &Given) {
    let rerun = || KeyClaim { rerun: true, ..claim("k") };
    let stale = taken(given, 0, claim("k")).await;
    let Claimed::Taken { hold, again } = claimed(given, 30_000, rerun()).await else { panic!("not taken") };
    assert!(again);
    assert_eq!(hold.record, stale.record);
    assert_ne!(hold.incarnation, stale.incarnation);
    assert_eq!(types(given, hold.record).await, ["idempotency_unknown"]);
    let lost = [
        complete(given, 30_001, stale, b"stale").await,
        given.store.renew_key(at(30_001), stale, HOLD).await.unwrap(),
        given.store.release_key(at(30_001), stale, Some("why".to_owned())).await.unwrap(),
        given.store.give_up_key(at(30_001), stale, "why".to_owned(), KEEP).await.unwrap(),
    ];
    assert_eq!(lost, [Finish::Lost; 4]);
    assert_eq!(complete(given, 30_002, hold, b"second").await, Finish::Done);
    assert_eq!(complete(given, 30_003, stale, b"stale").await, Finish::Lost);
    let replay = Claimed::Completed { response: answer(b"second"), completed_at: at(30_002), job: None };
    assert_eq!(claimed(given, 30_004, claim("k")).await, replay);
    // And one whose outcome was unknown already.
    let given_up = taken(given, 0, claim("k2")).await;
    given.store.give_up_key(at(1), given_up, "panicked".to_owned(), KEEP).await.unwrap();
    let again = claimed(given, 2, KeyClaim { rerun: true, ..claim("k2") }).await;
    assert!(
        matches!(again, Claimed::Taken { again: true, hold } if hold.record == given_up.record),
        "{again:?}"
    );
    assert_eq!(types(given, given_up.record).await, ["idempotency_unknown"]);
}

/// R-I2: an answer is known until its time is over, and not a millisecond longer.
pub(crate) async fn an_answer_is_forgotten_in_time(given: &Given) {
    let hold = taken(given, 0, claim("k")).await;
    complete(given, 10, hold, b"first").await;
    assert!(matches!(claimed(given, 10 + DAY - 1, claim("k")).await, Claimed::Completed { .. }));
    let other = KeyClaim { request_hash: "hash of b".to_owned(), ..claim("k") };
    let Claimed::Taken { hold: new, again } = claimed(given, 10 + DAY, other).await else {
        panic!("not taken")
    };
    assert!(!again);
    assert_ne!(new.record, hold.record);
    assert_eq!(complete(given, 10 + DAY, hold, b"late").await, Finish::Lost);
    assert!(given.store.key(hold.record).await.unwrap().is_none());
    // One that is long over, too.
    let hold = taken(given, 0, claim("k2")).await;
    complete(given, 10, hold, b"first").await;
    assert!(matches!(claimed(given, 11 + DAY, claim("k2")).await, Claimed::Taken { again: false, .. }));
}

/// R-I2: what is in flight is never forgotten, and an unknown outcome is, in its time.
pub(crate) async fn in_flight_never_expires_and_unknown_does(given: &Given) {
    let forever = KeyClaim { hold_for: Duration::from_hours(24 * 365), keep_for: HOLD, ..claim("held") };
    let held = taken(given, 0, forever.clone()).await;
    let silent = taken(given, 0, KeyClaim { keep_for: HOLD, ..claim("silent") }).await;
    let swept = given.store.sweep_keys(at(30_000), HOLD, 100).await.unwrap();
    assert_eq!(swept, KeysSwept { lapsed: 1, expired: 0, more: false });
    assert_eq!(types(given, silent.record).await, ["idempotency_unknown"]);
    let swept = given.store.sweep_keys(at(59_999), HOLD, 100).await.unwrap();
    assert_eq!(swept, KeysSwept::default());
    let unknown = claimed(given, 59_999, claim("silent")).await;
    assert_eq!(unknown, Claimed::Unknown { since: at(30_000), job: None });
    let swept = given.store.sweep_keys(at(100 * DAY), HOLD, 100).await.unwrap();
    assert_eq!(swept, KeysSwept { lapsed: 0, expired: 1, more: false });
    assert!(matches!(claimed(given, 100 * DAY, forever).await, Claimed::InFlight { .. }));
    assert_eq!(complete(given, 100 * DAY, held, b"at last").await, Finish::Done);
    assert!(matches!(claimed(given, 100 * DAY, claim("silent")).await, Claimed::Taken { again: false, .. }));
}

/// R-I4: a holder whose clock was ahead, and who is gone, does not hold its key until that time comes.
pub(crate) async fn a_clock_that_was_ahead_holds_no_key(given: &Given) {
    let ahead = taken(given, DAY, claim("ahead")).await;
    assert!(matches!(claimed(given, 0, claim("ahead")).await, Claimed::Unknown { .. }));
    assert_eq!(types(given, ahead.record).await, ["idempotency_unknown"]);
    assert_eq!(complete(given, 1_000, ahead, b"alive after all").await, Finish::Done);
    assert!(matches!(claimed(given, 2_000, claim("ahead")).await, Claimed::Completed { .. }));
}

/// R-I4: a holder that was given up may still say how it ended, as long as nobody else took the key.
pub(crate) async fn a_late_completion_counts(given: &Given) {
    let silent = taken(given, 0, claim("silent")).await;
    assert!(matches!(claimed(given, 30_000, claim("silent")).await, Claimed::Unknown { .. }));
    assert_eq!(complete(given, 40_000, silent, b"late").await, Finish::Done);
    let replay = Claimed::Completed { response: answer(b"late"), completed_at: at(40_000), job: None };
    assert_eq!(claimed(given, 40_001, claim("silent")).await, replay);
    // Said twice it is said once.
    assert_eq!(complete(given, 50_000, silent, b"other").await, Finish::Done);
    assert_eq!(claimed(given, 50_001, claim("silent")).await, replay);
    assert_eq!(given.store.renew_key(at(50_002), silent, HOLD).await.unwrap(), Finish::Done);
    assert_eq!(
        given.store.give_up_key(at(50_002), silent, "x".to_owned(), KEEP).await.unwrap(),
        Finish::Done
    );
    assert_eq!(given.store.release_key(at(50_002), silent, None).await.unwrap(), Finish::Lost);
    assert_eq!(claimed(given, 50_003, claim("silent")).await, replay);
    assert_eq!(types(given, silent.record).await, ["idempotency_unknown"]);
}

/// R-I4: a holder that was only taken for silent holds its key again with its next word.
pub(crate) async fn a_late_heartbeat_holds_on(given: &Given) {
    let hold = taken(given, 0, claim("k")).await;
    assert!(matches!(claimed(given, 30_000, claim("k")).await, Claimed::Unknown { .. }));
    assert_eq!(given.store.renew_key(at(31_000), hold, HOLD).await.unwrap(), Finish::Done);
    let rerun = KeyClaim { rerun: true, ..claim("k") };
    let in_flight = Claimed::InFlight { since: at(0), until: at(61_000), job: None };
    assert_eq!(claimed(given, 31_001, rerun).await, in_flight);
    let record = read(given, hold.record).await;
    assert_eq!((record.state, record.ended_at, record.expires_at), (KeyState::InProgress, None, None));
}

/// R-I4: a holder that does not know how it ended says so, once.
pub(crate) async fn what_is_given_up_is_unknown(given: &Given) {
    let hold = taken(given, 0, KeyClaim { job: Some(JobId(9)), ..claim("k") }).await;
    for _ in 0..2 {
        let done =
            given.store.give_up_key(at(5), hold, "the handler panicked".to_owned(), HOLD).await.unwrap();
        assert_eq!(done, Finish::Done);
    }
    let unknown = Claimed::Unknown { since: at(5), job: Some(JobId(9)) };
    assert_eq!(claimed(given, 6, claim("k")).await, unknown);
    let events = told(given, hold.record).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["why"], "the handler panicked");
    assert_eq!(read(given, hold.record).await.expires_at, Some(at(30_005)));
    assert!(matches!(claimed(given, 30_005, claim("k")).await, Claimed::Taken { again: false, .. }));
}

/// R-I5: an answer that is not kept makes the key free again, and is told only when there is a reason.
pub(crate) async fn what_is_released_is_free(given: &Given) {
    let quiet = taken(given, 0, claim("quiet")).await;
    assert_eq!(given.store.release_key(at(1), quiet, None).await.unwrap(), Finish::Done);
    let why = Some("the service answered 503".to_owned());
    let loud = taken(given, 1, claim("loud")).await;
    assert_eq!(given.store.release_key(at(2), loud, why).await.unwrap(), Finish::Done);
    assert_eq!(given.store.release_key(at(2), loud, None).await.unwrap(), Finish::Lost);
    assert_eq!(types(given, quiet.record).await, [""; 0]);
    let events = told(given, loud.record).await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&*events[0].event_type, &events[0].data["why"]),
        ("idempotency_released", &"the service answered 503".into())
    );
    assert_eq!((&events[0].data["key"], &events[0].data["principal"]), (&"loud".into(), &"alice".into()));
    for key in ["quiet", "loud"] {
        // Any request may have it now.
        let other = KeyClaim { request_hash: "hash of b".to_owned(), ..claim(key) };
        let again = claimed(given, 3, other).await;
        assert!(matches!(again, Claimed::Taken { again: false, .. }), "{again:?}");
    }
}

/// R-I8: a person forgets a key that stands as they saw it, and that is told.
pub(crate) async fn a_person_resets_a_key(given: &Given) {
    let hold = taken(given, 0, claim("k")).await;
    let store = &given.store;
    let why = || Some("checked by hand".to_owned());
    assert_eq!(store.reset_key(at(1), hold.record, KeyState::UnknownOutcome, why()).await.unwrap(), None);
    assert_eq!(store.reset_key(at(1), hold.record + 1_000, KeyState::InProgress, why()).await.unwrap(), None);
    assert_eq!(types(given, hold.record).await, [""; 0]);
    store.give_up_key(at(2), hold, "cut off".to_owned(), KEEP).await.unwrap();
    let seen = read(given, hold.record).await;
    let reset = store.reset_key(at(3), hold.record, KeyState::UnknownOutcome, why()).await.unwrap();
    assert_eq!(reset, Some(seen));
    let events = told(given, hold.record).await;
    let last = events.last().expect("it was told");
    assert_eq!((&*last.event_type, events.len()), ("idempotency_reset", 2));
    assert_eq!(
        (&last.data["why"], &last.data["from"]),
        (&"checked by hand".into(), &"unknown_outcome".into())
    );
    assert_eq!(complete(given, 4, hold, b"late").await, Finish::Lost, "a person said that it is nothing");
    assert_eq!(store.reset_key(at(4), hold.record, KeyState::UnknownOutcome, None).await.unwrap(), None);
    let new = taken(given, 5, claim("k")).await;
    assert_ne!(new.record, hold.record, "a number that people saw is not given again");
    complete(given, 6, new, b"x").await;
    let reset =
        store.reset_key(at(7), new.record, KeyState::Completed, None).await.unwrap().expect("a record");
    assert_eq!((reset.response_status, reset.response_bytes), (Some(201), Some(1)));
    taken(given, 8, claim("k")).await;
}

/// R-I4: a key belongs to whoever sends it; the same one of somebody else is another.
pub(crate) async fn principals_are_independent(given: &Given) {
    let bobs =
        || KeyClaim { principal: "bob".to_owned(), request_hash: "hash of b".to_owned(), ..claim("k") };
    let alice = taken(given, 0, claim("k")).await;
    let bob = taken(given, 0, bobs()).await;
    assert_ne!(alice.record, bob.record);
    complete(given, 1, alice, b"alice's").await;
    assert!(matches!(claimed(given, 2, bobs()).await, Claimed::InFlight { .. }));
    complete(given, 2, bob, b"bob's").await;
    for (who, body) in [(claim("k"), &b"alice's"[..]), (bobs(), b"bob's")] {
        let Claimed::Completed { response, .. } = claimed(given, 3, who).await else {
            panic!("not answered")
        };
        assert_eq!(response.body.as_deref(), Some(body));
    }
    let both = KeyQuery { key: Some("k".to_owned()), limit: 10, ..KeyQuery::default() };
    assert_eq!(given.store.keys(both.clone()).await.unwrap().len(), 2);
    let one = KeyQuery { principal: Some("bob".to_owned()), ..both };
    let found = given.store.keys(one).await.unwrap();
    assert_eq!(found.iter().map(|record| record.id).collect::<Vec<_>>(), [bob.record]);
}

/// R-I4: of a thousand who come at once, exactly one runs the request; also when the last holder has fallen silent.
pub(crate) async fn of_a_thousand_one_runs_it(given: &Given) {
    let elsewhere = given.another().await;
    for (now, rerun) in [(0, false), (30_000, true)] {
        let mut all = tokio::task::JoinSet::new();
        for number in 0..1_000 {
            let store = if number % 2 == 0 { given.store.clone() } else { elsewhere.clone() };
            all.spawn(
                async move { store.claim_key(at(now), KeyClaim { rerun, ..claim("k") }).await.unwrap() },
            );
        }
        let all = all.join_all().await;
        let taken = all.iter().filter(|one| matches!(one, Claimed::Taken { .. })).count();
        let in_flight = all.iter().filter(|one| matches!(one, Claimed::InFlight { .. })).count();
        assert_eq!((taken, in_flight), (1, 999));
    }
    elsewhere.close().await.unwrap();
    let keys = given.store.keys(KeyQuery { limit: 10, ..KeyQuery::default() }).await.unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(types(given, keys[0].id).await, ["idempotency_unknown"], "it lapsed once");
}

/// R-I2: however many come at once, everybody gets the answer; nobody is sent away for coming with many others.
pub(crate) async fn a_crowd_gets_the_answer(given: &Given) {
    let hold = taken(given, 0, claim("k")).await;
    complete(given, 1, hold, b"made").await;
    let replay = Claimed::Completed { response: answer(b"made"), completed_at: at(1), job: None };
    let all = (0..5_000).map(|_| given.store.claim_key(at(2), claim("k")));
    for claimed in futures_util::future::join_all(all).await {
        assert_eq!(claimed.unwrap(), replay);
    }
}

/// R-I4: whoever goes away before hearing that a key is theirs runs nothing: the key is free again, at whatever moment that is.
pub(crate) async fn a_claim_dropped_before_its_answer_frees_the_key(given: &Given) {
    let mut unheard = 0;
    for moment in 0..100 {
        let key = format!("k{moment}");
        let mut claiming = given.store.claim_key(at(0), claim(&key));
        // Looked at for a while, and then dropped.
        let began = std::time::Instant::now();
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut heard = claiming.as_mut().poll(&mut context).is_ready();
        while !heard && began.elapsed() < Duration::from_micros(moment * 30) {
            tokio::task::yield_now().await;
            heard = claiming.as_mut().poll(&mut context).is_ready();
        }
        drop(claiming);
        if heard {
            continue;
        }
        unheard += 1;
        // Soon; another request may have it.
        let began = std::time::Instant::now();
        let other = || KeyClaim { request_hash: "hash of b".to_owned(), ..claim(&key) };
        while !matches!(claimed(given, 0, other()).await, Claimed::Taken { again: false, .. }) {
            assert!(began.elapsed() < Duration::from_secs(10), "{key} is held by nobody");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert!(unheard > 0, "everybody heard");
}

/// R-I2: a round of sweeping takes no more than it may, in rows and in bytes, and says whether there is more.
pub(crate) async fn a_sweep_is_bounded(given: &Given) {
    let store = &given.store;
    for number in 0..7 {
        taken(given, 0, claim(&format!("silent {number}"))).await;
        let hold = taken(given, 0, claim(&format!("small {number}"))).await;
        store.complete_key(at(1), hold, answer(b"x"), HOLD).await.unwrap();
    }
    let swept = store.sweep_keys(at(30_001), KEEP, 3).await.unwrap();
    assert_eq!(swept, KeysSwept { lapsed: 3, expired: 3, more: true });
    assert_eq!(store.key_standing().await.unwrap(), (4, 3));
    store.sweep_keys(at(30_001), KEEP, 3).await.unwrap();
    let swept = store.sweep_keys(at(30_001), KEEP, 3).await.unwrap();
    assert_eq!(swept, KeysSwept { lapsed: 1, expired: 1, more: false });
    assert_eq!(store.sweep_keys(at(30_001), KEEP, 3).await.unwrap(), KeysSwept::default());
    assert_eq!(store.key_standing().await.unwrap(), (0, 7));
    for number in 0..4 {
        let hold = taken(given, 30_001, claim(&format!("large {number}"))).await;
        store.complete_key(at(30_001), hold, answer(&vec![7; 3 << 20]), HOLD).await.unwrap();
    }
    let swept = store.sweep_keys(at(60_001), KEEP, 100).await.unwrap();
    assert!((1..4).contains(&swept.expired) && swept.more, "{swept:?}");
    let (mut rounds, mut gone) = (0, swept.expired);
    while store
        .sweep_keys(at(60_001), KEEP, 100)
        .await
        .map(|swept| {
            gone += swept.expired;
            swept.more
        })
        .unwrap()
    {
        rounds += 1;
        assert!(rounds < 10);
    }
    assert_eq!(gone, 4);
}

/// R-I2: an answer comes back byte by byte: any body, none at all, and headers that are no text.
pub(crate) async fn answers_are_kept_byte_by_byte(given: &Given) {
    let all: Vec<u8> = (0..=255).collect();
    let bodies = [
        Some(Vec::new()),
        None,
        Some(vec![0]),
        Some(b"a\0b".to_vec()),
        Some(all.clone()),
        Some(all.iter().copied().cycle().take(1 << 20).collect()),
        // They begin like a sealed value, and like a marked one.
        Some(b"\xffrdv\x01\x03keyabc".to_vec()),
        Some(b"\xffrdv\x00abc".to_vec()),
        Some(b"sealed:rdv1:key:AAAA".to_vec()),
    ];
    let headers = vec![
        ("date".to_owned(), b"Tue, 15 Nov 1994 08:12:31 GMT".to_vec()),
        ("x-latin".to_owned(), b"caf\xe9 \xff\x80".to_vec()),
        ("x-empty".to_owned(), Vec::new()),
        ("set-twice".to_owned(), b"one".to_vec()),
        ("set-twice".to_owned(), b"two \"quoted\" \\ \xe3\x81\x82".to_vec()),
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let key = format!("k{number}");
        let hold = taken(given, 0, claim(&key)).await;
        let response = StoredResponse { status: 599, headers: headers.clone(), body };
        assert_eq!(
            given.store.complete_key(at(1), hold, response.clone(), KEEP).await.unwrap(),
            Finish::Done
        );
        let (record, kept) = given.store.key(hold.record).await.unwrap().expect("a record");
        assert_eq!(record.response_bytes, response.body.as_ref().map(|body| body.len() as u64));
        assert_eq!(record.response_status, Some(599));
        assert_eq!(kept.as_ref(), Some(&response));
        let replay = Claimed::Completed { response, completed_at: at(1), job: None };
        assert_eq!(claimed(given, 2, claim(&key)).await, replay);
    }
}

/// R-I2: what cannot be kept is refused, and hurts nobody.
pub(crate) async fn too_much_is_refused(given: &Given) {
    let hold = taken(given, 0, claim("k")).await;
    let large = StoredResponse { body: Some(vec![0; MAX_RESPONSE_BYTES + 1]), ..answer(b"") };
    let long = ("x".to_owned(), vec![b'x'; MAX_HEADER_BYTES]);
    let heady = StoredResponse { headers: vec![long], ..answer(b"") };
    for response in [large, heady] {
        let refused = given.store.complete_key(at(1), hold, response, KEEP).await.unwrap_err();
        let too_large = matches!(refused.trouble(), Trouble::Refused(Refusal::TooLarge { .. }));
        assert!(too_large, "{refused}");
    }
    let no_names = [
        KeyClaim { key: String::new(), ..claim("") },
        KeyClaim { key: "a\0b".to_owned(), ..claim("") },
        KeyClaim { principal: "x".repeat(256), ..claim("k") },
        KeyClaim { request_hash: String::new(), ..claim("k") },
        KeyClaim { endpoint: "a\nb".to_owned(), ..claim("k") },
    ];
    for bad in no_names {
        let refused = given.store.claim_key(at(1), bad).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Refused(Refusal::BadName { .. })), "{refused}");
    }
    assert_eq!(complete(given, 2, hold, b"fits").await, Finish::Done);
}

/// R-I8: records are listed the newest first, page by page, by state, and without their answers.
pub(crate) async fn records_are_listed_in_pages(given: &Given) {
    let mut ids = Vec::new();
    for number in 0..12 {
        let hold = taken(given, number, claim(&format!("k{number}"))).await;
        match number % 3 {
            0 => drop(complete(given, 20, hold, b"12345").await),
            1 => drop(given.store.give_up_key(at(20), hold, "x".to_owned(), KEEP).await.unwrap()),
            _ => {}
        }
        ids.push(hold.record);
    }
    ids.reverse();
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let page = given.store.keys(KeyQuery { before, limit: 5, ..KeyQuery::default() }).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        assert!(page.len() <= 5);
        seen.extend(page);
    }
    assert_eq!(seen.iter().map(|record| record.id).collect::<Vec<_>>(), ids);
    for state in KeyState::ALL {
        let some =
            given.store.keys(KeyQuery { state: Some(state), limit: 3, ..KeyQuery::default() }).await.unwrap();
        let all: Vec<_> = seen.iter().filter(|record| record.state == state).take(3).cloned().collect();
        assert_eq!(some, all);
        let behind =
            KeyQuery { state: Some(state), before: Some(some[1].id), limit: 9, ..KeyQuery::default() };
        assert_eq!(given.store.keys(behind).await.unwrap().len(), 2);
    }
    let completed = seen.iter().find(|record| record.state == KeyState::Completed).expect("one");
    assert_eq!((completed.response_status, completed.response_bytes), (Some(201), Some(5)));
    assert_eq!((completed.ended_at, completed.expires_at), (Some(at(20)), Some(at(20 + DAY))));
    assert_eq!((&*completed.endpoint, &*completed.request_hash), ("POST /v1/orders", "hash of a"));
    assert_eq!(given.store.key_standing().await.unwrap(), (4, 4));
    assert_eq!(given.store.key(i64::MAX).await.unwrap(), None);
}
