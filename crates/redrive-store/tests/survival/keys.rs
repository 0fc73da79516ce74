//! Keys and the outbox: what was damaged from outside is told of, nothing looks at what grows, a key is completed with what its
//! request did, and a kill leaves no doubt that is not told (R-I2, R-I4, R-I7).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_store::{
    Added, Claimed, Finish, Housekeeping, Idempotency, KeyClaim, KeyHold, KeyRing, KeyState, NewItem,
    NextSend, Outbox, SendEnd, Sqlite, SqliteOptions, StoredResponse, Trouble,
};
use rusqlite::TransactionBehavior;
use serde_json::json;

use crate::given::{Hand, at};
use crate::process::{Process, child, was_killed};

const KEEP: Duration = Duration::from_hours(24);

fn claim(key: &str) -> KeyClaim {
    KeyClaim {
        principal: "alice".to_owned(),
        key: key.to_owned(),
        endpoint: "POST /v1/orders".to_owned(),
        request_hash: "hash".to_owned(),
        hold_for: Duration::from_secs(30),
        keep_for: KEEP,
        rerun: false,
        job: None,
    }
}

fn answer(body: &str) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), b"text/plain".to_vec())];
    StoredResponse { status: 201, headers, body: Some(body.as_bytes().to_vec()) }
}

async fn taken(store: &Sqlite, key: &str) -> KeyHold {
    match store.claim_key(at(0), claim(key)).await.unwrap() {
        Claimed::Taken { hold, .. } => hold,
        other => panic!("not taken: {other:?}"),
    }
}

fn item(key: &str) -> NewItem {
    NewItem {
        lane: "far".to_owned(),
        key: key.to_owned(),
        call: json!({ "a": 1 }),
        call_hash: "hash".to_owned(),
    }
}

fn open(path: &Path) -> Sqlite {
    Sqlite::open(path, SqliteOptions::default()).unwrap()
}

/// A key in each state, with the number of its record; and an item in each state, with its own.
async fn fill(store: &Sqlite) -> ([i64; 3], [i64; 3]) {
    let (held, answered, unknown) =
        (taken(store, "held").await, taken(store, "answered").await, taken(store, "unknown").await);
    store.complete_key(at(1), answered, answer("made"), KEEP).await.unwrap();
    store.give_up_key(at(1), unknown, "cut off".to_owned(), KEEP).await.unwrap();
    let mut items = [0; 3];
    for (place, key) in ["sent", "failed", "waits"].into_iter().enumerate() {
        let Added::New(item) = store.add_item(at(1), item(key)).await.unwrap() else { panic!("it is new") };
        items[place] = item;
    }
    assert!(store.hold_lane(at(1), "far".to_owned(), 1, Duration::from_secs(30)).await.unwrap());
    for end in [SendEnd::Sent, SendEnd::Failed] {
        let NextSend::Item(next) = store.begin_send(at(1), "far".to_owned(), 1).await.unwrap() else {
            panic!("there is one")
        };
        assert!(store.end_send(at(1), next.id, 1, end, None, None).await.unwrap());
    }
    ([held.record, answered.record, unknown.record], items)
}

/// R-I2, R-I7: whatever does not fit a key's state or an item's is found, and named.
#[tokio::test]
async fn what_was_damaged_is_found() {
    let keys = "a key is held, answered or unknown";
    let items = "an item of the outbox waits, was sent or failed";
    for (damage, at_place, invariant, said) in [
        ("UPDATE idempotency_keys SET state = 7 WHERE id = ?1", 0, keys, "is in state 7, which there is not"),
        (
            "UPDATE idempotency_keys SET leased_until = NULL WHERE id = ?1",
            0,
            keys,
            "is in progress and held by nobody",
        ),
        (
            "UPDATE idempotency_keys SET leased_until = 5 WHERE id = ?1",
            2,
            keys,
            "is held by somebody and not in progress",
        ),
        ("UPDATE idempotency_keys SET ended_at = 5 WHERE id = ?1", 0, keys, "is in state 0 and over"),
        ("UPDATE idempotency_keys SET ended_at = NULL WHERE id = ?1", 1, keys, "is in state 1 and not over"),
        ("UPDATE idempotency_keys SET expires_at = 5 WHERE id = ?1", 0, keys, "is in state 0 and forgotten"),
        (
            "UPDATE idempotency_keys SET expires_at = NULL WHERE id = ?1",
            2,
            keys,
            "is in state 2 and never forgotten",
        ),
        (
            "UPDATE idempotency_keys SET response_status = NULL WHERE id = ?1",
            1,
            keys,
            "is in state 1 and has no whole answer",
        ),
        (
            "UPDATE idempotency_keys SET response_headers = NULL WHERE id = ?1",
            1,
            keys,
            "is in state 1 and has no whole answer",
        ),
        (
            "UPDATE idempotency_keys SET response_body = 'x' WHERE id = ?1",
            2,
            keys,
            "is in state 2 and has an answer",
        ),
        (
            "UPDATE idempotency_keys SET incarnation = 9999 WHERE id = ?1",
            0,
            keys,
            "is ahead of the next number",
        ),
        ("UPDATE outbox SET state = 3 WHERE id = ?1", 0, items, "is in state 3, which there is not"),
        ("UPDATE outbox SET ended_at = NULL WHERE id = ?1", 0, items, "is in state 1 and not over"),
        ("UPDATE outbox SET ended_at = 5 WHERE id = ?1", 2, items, "is in state 0 and over"),
        ("UPDATE outbox SET sends = -1 WHERE id = ?1", 2, items, "counts -1 sends and was never sent"),
        ("UPDATE outbox SET sent_at = NULL WHERE id = ?1", 1, items, "counts 1 sends and was never sent"),
        ("UPDATE outbox SET sends = 0 WHERE id = ?1", 0, items, "counts 0 sends"),
        ("UPDATE outbox SET id = 9999 WHERE id = ?1", 2, items, "is ahead of the next number"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("redrive.db");
        let store = open(&path);
        let (key_ids, item_ids) = fill(&store).await;
        Hand(&store).clean().await;
        let id = if invariant == keys { key_ids[at_place] } else { item_ids[at_place] };
        assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(damage, [id]).unwrap(), 1);
        let found = store.check().await.unwrap().violations;
        assert_eq!(found.len(), 1, "{damage}: {found:?}");
        assert_eq!(found[0].invariant, invariant);
        assert!(found[0].what.contains(said), "{damage}: {}", found[0].what);
    }
}

/// R-I2, R-I8: an answer that cannot be read is told of to whoever asks for it, keeps nobody else from working, and a person
/// can forget it.
#[tokio::test]
async fn an_answer_that_cannot_be_read_hurts_nobody_else() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = open(&path);
    let ([_, answered, _], _) = fill(&store).await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute(
        "UPDATE idempotency_keys SET response_headers = CAST('no JSON' AS BLOB) WHERE id = ?1",
        [answered],
    )
    .unwrap();
    for _ in 0..2 {
        let refused = store.claim_key(at(2), claim("answered")).await.unwrap_err();
        assert!(
            matches!(refused.trouble(), Trouble::Unsealable { row, .. } if *row == answered),
            "{refused}"
        );
    }
    taken(&store, "another").await;
    let reset =
        store.reset_key(at(3), answered, KeyState::Completed, None).await.unwrap().expect("it is there");
    assert_eq!((reset.response_status, reset.response_bytes), (Some(201), None));
    taken(&store, "answered").await;
}

/// R-I2, R-I7: a claim, a sweep and a send look at no more than they are about, however much there is.
#[test]
fn nothing_looks_at_what_grows() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    drop(open(&path));
    let raw = rusqlite::Connection::open(&path).unwrap();
    let list = include_str!("../../src/sqlite/sql/idempotency_list.sql").trim_end();
    let items = include_str!("../../src/sqlite/sql/outbox_list.sql").trim_end();
    let of = |list: &str, conditions: &str, order: &str| {
        format!("{list} WHERE {conditions} ORDER BY id {order} LIMIT 9")
    };
    for (text, index) in [
        (
            include_str!("../../src/sqlite/sql/idempotency_find.sql").to_owned(),
            "idempotency_keys_whose (principal=? AND key=?)",
        ),
        (
            include_str!("../../src/sqlite/sql/idempotency_lapsed.sql").to_owned(),
            "idempotency_keys_lapse (leased_until<?)",
        ),
        (
            include_str!("../../src/sqlite/sql/idempotency_expired.sql").to_owned(),
            "idempotency_keys_expiry (expires_at<?)",
        ),
        (of(list, "key = ?", "DESC"), "idempotency_keys_key (key=?)"),
        (of(list, "key = ? AND id < ?", "DESC"), "idempotency_keys_key (key=? AND id<?)"),
        (of(list, "state = 2 AND id < ?", "DESC"), "idempotency_keys_unknown (id<?)"),
        (include_str!("../../src/sqlite/sql/outbox_find.sql").to_owned(), "outbox_key (lane=? AND key=?)"),
        (include_str!("../../src/sqlite/sql/outbox_next.sql").to_owned(), "outbox_pending (lane=?)"),
        (include_str!("../../src/sqlite/sql/outbox_failed.sql").to_owned(), "outbox_failed (id>?)"),
        (include_str!("../../src/sqlite/sql/outbox_old.sql").to_owned(), "outbox_over (ended_at<?)"),
        (include_str!("../../src/sqlite/sql/outbox_lanes.sql").to_owned(), "outbox_pending (lane>?)"),
        (of(items, "state = 2 AND id > ?", ""), "outbox_failed (id>?)"),
        (include_str!("../../src/sqlite/sql/saved_key_old.sql").to_owned(), "saved_key_age (created_at<?)"),
        (include_str!("../../src/sqlite/sql/saved_key_old.sql").to_owned(), "outbox_saved (key=?)"),
    ] {
        let mut statement = raw.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let values = vec![1; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step.contains(index)), "{text}: {steps:#?}");
        // The store's own row, and the few lanes that were found.
        let scans = |step: &&String| {
            step.starts_with("SCAN") && !["SCAN s", "SCAN p", "SCAN pending"].contains(&&***step)
        };
        assert_eq!(steps.iter().find(scans), None, "{text}: {steps:#?}");
        assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{text}: {steps:#?}");
    }
}

/// R-I2: an answer is known if and only if what the request did is there, also in an encrypted store.
#[tokio::test]
async fn a_key_is_completed_with_what_the_request_did() {
    for sealed in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("app.db");
        let keys = sealed.then(|| KeyRing::parse("keys", &KeyRing::generate("keys").unwrap()).unwrap());
        let store = Sqlite::open(&path, SqliteOptions { keys, ..SqliteOptions::default() }).unwrap();
        let mut mine = rusqlite::Connection::open(&path).unwrap();
        mine.execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
        let order = |mine: &mut rusqlite::Connection, hold: KeyHold, commits: bool| {
            let transaction = mine.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            transaction.execute("INSERT INTO orders VALUES (7)", []).unwrap();
            let finish = store.complete_key_in(&transaction, at(1), hold, &answer("order 7"), KEEP).unwrap();
            if commits && finish == Finish::Done {
                transaction.commit().unwrap();
            }
            finish
        };
        let orders = |mine: &rusqlite::Connection| -> i64 {
            mine.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
        };
        let hold = taken(&store, "k").await;
        assert_eq!(order(&mut mine, hold, false), Finish::Done);
        let in_flight = store.claim_key(at(2), claim("k")).await.unwrap();
        assert!(
            matches!(in_flight, Claimed::InFlight { .. }),
            "what was rolled back is not there: {in_flight:?}"
        );
        assert_eq!((order(&mut mine, hold, true), orders(&mine)), (Finish::Done, 1));
        let Claimed::Completed { response, .. } = store.claim_key(at(2), claim("k")).await.unwrap() else {
            panic!("it was committed")
        };
        assert_eq!(response, answer("order 7"));
        // Whoever tries it a second time hears that it is done, and does it not again.
        assert_eq!((order(&mut mine, hold, true), orders(&mine)), (Finish::Lost, 1));
        assert_eq!(store.complete_key(at(3), hold, answer("x"), KEEP).await.unwrap(), Finish::Done);
        let gone = taken(&store, "gone").await;
        store.release_key(at(3), gone, None).await.unwrap();
        assert_eq!((order(&mut mine, gone, true), orders(&mine)), (Finish::Lost, 1));
        let large = StoredResponse { headers: vec![("x".to_owned(), vec![0; 1 << 20])], ..answer("") };
        let transaction = mine.transaction().unwrap();
        assert!(store.complete_key_in(&transaction, at(3), hold, &large, KEEP).is_err());
        drop(transaction);
        Hand(&store).clean().await;
    }
}

/// What the child does: takes keys and completes every second one, from several callers, and writes down what was acknowledged.
pub(crate) async fn take_and_complete(store: &Arc<Sqlite>, journal: &Path) {
    use std::io::Write;
    let journal = std::fs::OpenOptions::new().append(true).create(true).open(journal).unwrap();
    let journal = Arc::new(journal);
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..4 {
        let (store, journal) = (Arc::clone(store), Arc::clone(&journal));
        callers.spawn(async move {
            for number in 0_u64.. {
                let key = format!("{caller}-{number}");
                let say = |what: &str| (&*journal).write_all(format!("{what} {key}\n").as_bytes()).unwrap();
                let hold = taken(&store, &key).await;
                say("taken");
                if number % 2 == 0 {
                    let done = store.complete_key(at(1), hold, answer(&key), KEEP).await.unwrap();
                    assert_eq!(done, Finish::Done);
                    say("completed");
                }
            }
        });
    }
    callers.join_all().await;
}

/// R-I2, R-I4, reliability row 1: killed at any moment, a process loses no answer that it was told is kept, nothing that it took is
/// free, and what it had begun becomes unknown when its time is over, with an event each.
#[test]
fn a_kill_leaves_answers_and_unknown_outcomes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (mut completed, mut unknown) = (0, 0);
    for round in 0..6_u32 {
        let home = tempfile::tempdir().unwrap();
        let (path, journal) = (home.path().join("redrive.db"), home.path().join("journal"));
        runtime.block_on(async { open(&path).close().await.unwrap() });
        let mut process = Process::spawn(&mut child("keys", &path, &journal));
        let began = Instant::now();
        let lines = || std::fs::read_to_string(&journal).unwrap_or_default().lines().count();
        while lines() < 20 + 30 * round as usize {
            assert!(
                began.elapsed() < Duration::from_mins(1) && process.is_running(),
                "the child does nothing"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        process.signal("-KILL");
        assert!(was_killed(process.end()));
        let mut told: BTreeMap<String, bool> = BTreeMap::new();
        for line in std::fs::read_to_string(&journal).unwrap().lines() {
            let (what, key) = line.split_once(' ').unwrap();
            told.insert(key.to_owned(), what == "completed");
        }
        runtime.block_on(async {
            let store = open(&path);
            for (key, is_completed) in &told {
                let found = store.claim_key(at(2), claim(key)).await.unwrap();
                match found {
                    Claimed::Completed { response, .. } => assert_eq!(response, answer(key)),
                    // It may have been killed between the commit and the line about it, but not the other way round.
                    Claimed::InFlight { .. } => {
                        assert!(!is_completed, "{key}: an acknowledged answer is lost");
                    }
                    other => panic!("{key}: {other:?}"),
                }
            }
            let mut swept = 0;
            loop {
                let round = store.sweep_keys(at(30_000), KEEP, 100).await.unwrap();
                swept += round.lapsed;
                if !round.more {
                    break;
                }
            }
            let (held, of_nobody) = store.key_standing().await.unwrap();
            assert_eq!((held, of_nobody), (0, swept));
            for (key, is_completed) in &told {
                match store.claim_key(at(40_000), claim(key)).await.unwrap() {
                    Claimed::Completed { .. } => completed += 1,
                    Claimed::Unknown { since, .. } => {
                        assert!(!is_completed && since == at(30_000), "{key}");
                        unknown += 1;
                    }
                    other => panic!("{key}: {other:?}"),
                }
            }
            let filter = redrive_store::EventFilter {
                types: vec!["idempotency_unknown".to_owned()],
                ..redrive_store::EventFilter::default()
            };
            let events = redrive_store::Events::events(&store, filter, 100_000).await.unwrap();
            assert_eq!(events.len() as u64, swept, "each is told once");
            Hand(&store).clean().await;
        });
    }
    println!("{completed} answers kept, {unknown} outcomes unknown");
    assert!(completed > 50 && unknown > 50, "next to nothing was proved");
}
