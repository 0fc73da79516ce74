//! What a move does with keys and the outbox (R-I4, R-I7).

use std::time::Duration;

use redrive_store::{
    Added, Claimed, CopyOptions, CopyOutcome, CopyStep, Finish, ItemQuery, JobId, KeyClaim, KeyCounts,
    KeyHold, KeyQuery, NewItem, NextSend, SendEnd, Store, StoredResponse, Timestamp, Trouble, copy_store,
};

use crate::given::{SECOND, at};
use crate::{Places, now, open, without_nul};

fn a_claim(key: &str) -> KeyClaim {
    KeyClaim {
        principal: "somebody".to_owned(),
        key: key.to_owned(),
        endpoint: "POST /v1".to_owned(),
        request_hash: "hash".to_owned(),
        hold_for: SECOND * 30,
        keep_for: SECOND * 600,
        rerun: false,
        job: Some(JobId(1)),
    }
}

async fn taken(store: &dyn Store, now: Timestamp, key: &str) -> KeyHold {
    match store.claim_key(now, a_claim(key)).await.unwrap() {
        Claimed::Taken { hold, .. } => hold,
        other => panic!("{key}: {other:?}"),
    }
}

fn an_answer(body: Option<&[u8]>) -> StoredResponse {
    let headers = vec![("x-latin".to_owned(), b"caf\xe9".to_vec())];
    StoredResponse { status: 201, headers, body: body.map(<[u8]>::to_vec) }
}

/// Keys with answers of every sort, one whose outcome is unknown, one whose holder fell silent long ago, and what was counted.
pub(crate) async fn guard(store: &dyn Store) {
    for (key, body) in [("bytes", Some(&[0, 1, 255][..])), ("empty", Some(&[])), ("none", None)] {
        let hold = taken(store, at(12), key).await;
        store.complete_key(at(12), hold, an_answer(body), SECOND * 600).await.unwrap();
    }
    let hold = taken(store, at(12), "unknown").await;
    store.give_up_key(at(12), hold, "cut\0off".to_owned(), SECOND * 600).await.unwrap();
    taken(store, LONG_AGO, "silent").await;
    store.count_keys(at(12), KeyCounts { guarded: 5, taken: 5, ..KeyCounts::default() }).await.unwrap();
}

/// Long before any clock that looks at it.
const LONG_AGO: Timestamp = Timestamp::from_millis(1_600_000_000_000);

/// An item in each state, and the key of a save.
pub(crate) async fn send(store: &dyn Store) {
    for key in ["sent", "failed", "waits"] {
        let (lane, call) = ("far".to_owned(), serde_json::json!({ "body": "a\0b" }));
        let item = NewItem { lane, key: key.to_owned(), call, call_hash: "hash".to_owned() };
        store.add_item(at(13), item).await.unwrap();
    }
    assert!(store.hold_lane(at(13), "far".to_owned(), 7, SECOND).await.unwrap());
    for (end, last) in [(SendEnd::Sent, None), (SendEnd::Failed, Some("no".to_owned()))] {
        let next = store.begin_send(at(13), "far".to_owned(), 7).await.unwrap();
        let NextSend::Item(item) = next else { panic!("{next:?}") };
        assert!(store.end_send(at(13), item.id, 7, end, last, Some(418)).await.unwrap());
    }
    store.saved_key(at(13), "a save".to_owned(), "its key".to_owned()).await.unwrap();
}

/// Everything about them that can be seen.
pub(crate) async fn seen(store: &dyn Store) -> Vec<String> {
    let mut seen = Vec::new();
    for record in store.keys(KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap() {
        seen.push(format!("{:#?}", store.key(record.id).await.unwrap().expect("it was listed")));
    }
    assert!(seen.len() > 4, "next to nothing was kept");
    let items = store.items(ItemQuery { limit: 100, ..ItemQuery::default() }).await.unwrap();
    seen.push(without_nul(&format!("{items:#?}")));
    seen
}

/// Whoever writes to the store that was moved hears so, also when it is only about keys or the outbox.
pub(crate) async fn are_refused(store: &dyn Store) {
    let claimed = store.claim_key(at(9), a_claim("new")).await.map(drop);
    let counted = store.count_keys(at(9), KeyCounts { taken: 1, ..KeyCounts::default() }).await;
    let held = store.hold_lane(at(99_999), "far".to_owned(), 8, SECOND).await.map(drop);
    let saved = store.saved_key(at(9), "new".to_owned(), "key".to_owned()).await.map(drop);
    for refused in [claimed, counted, held, saved] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Moved(_)), "{refused}");
    }
}

/// Over there everything goes on.
pub(crate) async fn go_on(copy: &dyn Store) {
    // Answers are answered, what is unknown stays so, the silent holder is found; new keys and items come behind the old ones.
    for (key, body) in [("bytes", Some(&[0, 1, 255][..])), ("empty", Some(&[])), ("none", None)] {
        let found = copy.claim_key(at(14), a_claim(key)).await.unwrap();
        let replayed = matches!(&found, Claimed::Completed { response, .. } if *response == an_answer(body));
        assert!(replayed, "{key}: {found:?}");
    }
    for key in ["unknown", "silent"] {
        let found = copy.claim_key(at(14), a_claim(key)).await.unwrap();
        assert!(matches!(found, Claimed::Unknown { .. }), "{key}: {found:?}");
    }
    let known = copy.keys(KeyQuery { limit: 100, ..KeyQuery::default() }).await.unwrap();
    let fresh_key = taken(copy, at(14), "fresh").await;
    assert!(known.iter().all(|record| record.id < fresh_key.record));
    copy.complete_key(at(14), fresh_key, an_answer(None), SECOND).await.unwrap();
    assert_eq!(copy.saved_key(at(14), "a save".to_owned(), "another".to_owned()).await.unwrap(), "its key");
    assert!(
        !copy.hold_lane(at(14), "far".to_owned(), 8, SECOND).await.unwrap(),
        "the lane is held over there, too"
    );
    let items = copy.items(ItemQuery { limit: 100, ..ItemQuery::default() }).await.unwrap();
    let (lane, call) = ("far".to_owned(), serde_json::json!({}));
    let item = NewItem { lane, key: "fresh".to_owned(), call, call_hash: "hash".to_owned() };
    let added = copy.add_item(at(14), item).await.unwrap();
    assert!(matches!(added, Added::New(id) if items.iter().all(|item| item.id < id)), "{added:?}");
}

/// R-I4: requests that hold a key are waited for, and no more are taken meanwhile, so that a move leaves no outcome unknown; when
/// they do not end, nothing has changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_way_are_waited_for() {
    let Some(places) = Places::new() else { return };
    for (from, to) in [(places.file("k.db"), places.database()), (places.database(), places.file("l.db"))] {
        let original = open(&from, None).await;
        let hold = taken(&*original, now(), "running").await;
        let (one, other) = (from.clone(), to.clone());
        let short = CopyOptions { wait: Duration::from_millis(300), dry_run: false };
        let refused = tokio::task::spawn_blocking(move || copy_store(&one, &other, short, &mut |_| {}));
        let refused = refused.await.unwrap().unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::StillRunning { leases: 1, .. }), "{refused}");
        let more = taken(&*original, now(), "more").await;

        let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
        let (one, other) = (from.clone(), to.clone());
        let long = CopyOptions { wait: Duration::from_secs(20), dry_run: false };
        let moving = tokio::task::spawn_blocking(move || {
            copy_store(&one, &other, long, &mut |step| told.send(step).unwrap())
        });
        assert_eq!(heard.recv().await, Some(CopyStep::Draining { leases: 2 }));
        let refused = original.claim_key(now(), a_claim("new")).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Moving) && refused.may_pass(), "{refused}");
        let in_flight = original.claim_key(now(), a_claim("more")).await.unwrap();
        assert!(matches!(in_flight, Claimed::InFlight { .. }), "what is known is told: {in_flight:?}");
        for hold in [hold, more] {
            let done = original.complete_key(now(), hold, an_answer(Some(b"x")), SECOND * 600).await.unwrap();
            assert_eq!(done, Finish::Done);
        }
        assert_eq!(moving.await.unwrap().unwrap().outcome, CopyOutcome::Moved);
        let copy = open(&to, None).await;
        for key in ["running", "more"] {
            let found = copy.claim_key(now(), a_claim(key)).await.unwrap();
            assert!(matches!(found, Claimed::Completed { .. }), "{key}: {found:?}");
        }
        taken(&*copy, now(), "new").await;
        copy.close().await.unwrap();
        original.close().await.unwrap();
    }
}
