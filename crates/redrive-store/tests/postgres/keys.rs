//! Idempotency keys when the database, the way to it or others are in the way (reliability rows 33, 36 and 40): whoever takes a key
//! hears of it once, nobody waits for a record that somebody else has taken hold of, and nobody stands in anybody's way for ever.

use std::sync::Arc;
use std::time::Duration;

use redrive_store::{
    Claimed, EventFilter, Events, Finish, Housekeeping, Idempotency, KeyClaim, KeyHold, KeyQuery, KeyState,
    KeysSwept, Postgres, PostgresOptions, StoredResponse, Timestamp,
};
use redrive_testing::{Session, Wire, shared};

use crate::commit::{CUTS, cut_in};
use crate::given::{Hand, at};
use crate::ground::{bounded, open, psql};

const HOLD: Duration = Duration::from_secs(30);
const KEEP: Duration = Duration::from_hours(24);

fn claim(key: &str) -> KeyClaim {
    KeyClaim {
        principal: "alice".to_owned(),
        key: key.to_owned(),
        endpoint: "POST /v1/orders".to_owned(),
        request_hash: "hash".to_owned(),
        hold_for: HOLD,
        keep_for: KEEP,
        rerun: false,
        job: None,
    }
}

fn answer() -> StoredResponse {
    StoredResponse { status: 201, body: Some(b"made".to_vec()), ..StoredResponse::default() }
}

fn held(claimed: &Claimed) -> KeyHold {
    match claimed {
        Claimed::Taken { hold, .. } => *hold,
        other => panic!("not taken: {other:?}"),
    }
}

async fn state(store: &Postgres, hold: KeyHold) -> Option<KeyState> {
    store.key(hold.record).await.unwrap().map(|(record, _)| record.state)
}

async fn told(store: &Postgres, hold: KeyHold) -> Vec<String> {
    let filter = EventFilter { caller_id: Some(format!("key-{}", hold.record)), ..EventFilter::default() };
    store.events(filter, 100).await.unwrap().into_iter().map(|event| event.event_type).collect()
}

/// Row 36, R-I4: whoever takes a key whose commit was not heard of does not meet itself, and so it is for all that a holder says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_commit_of_a_key_is_its_own_callers() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let wire = Wire::before(shared.url()).await;
    let direct = open(shared.url(), &schema).await;
    for cut in CUTS {
        let (store, when) = (open(wire.url(), &schema).await, cut.0);
        let key = |name: &str| claim(&format!("{name} {when}"));
        let first = held(&cut_in(&wire, cut, store.claim_key(at(0), key("a"))).await.unwrap());
        assert_eq!(state(&direct, first).await, Some(KeyState::InProgress), "{when}");
        assert_eq!(
            cut_in(&wire, cut, store.renew_key(at(1), first, HOLD)).await.unwrap(),
            Finish::Done,
            "{when}"
        );
        let done = cut_in(&wire, cut, store.complete_key(at(2), first, answer(), KEEP)).await.unwrap();
        assert_eq!(done, Finish::Done, "{when}");
        let replay = Claimed::Completed { response: answer(), completed_at: at(2), job: None };
        assert_eq!(direct.claim_key(at(3), key("a")).await.unwrap(), replay, "{when}");
        let second = held(&store.claim_key(at(0), key("b")).await.unwrap());
        let unknown = cut_in(&wire, cut, store.give_up_key(at(1), second, "it broke".to_owned(), KEEP)).await;
        assert_eq!(unknown.unwrap(), Finish::Done, "{when}");
        assert_eq!(told(&direct, second).await, ["idempotency_unknown"], "{when}");
        let third = held(&store.claim_key(at(0), key("c")).await.unwrap());
        let freed =
            cut_in(&wire, cut, store.release_key(at(1), third, Some("503".to_owned()))).await.unwrap();
        assert_eq!(freed, Finish::Done, "{when}");
        assert_eq!((state(&direct, third).await, told(&direct, third).await.len()), (None, 1), "{when}");
        // One whose holder fell silent is taken over, and told of once.
        let fourth = held(&store.claim_key(at(0), key("d")).await.unwrap());
        let again = KeyClaim { rerun: true, ..key("d") };
        let taken = cut_in(&wire, cut, store.claim_key(at(30_000), again)).await.unwrap();
        assert!(matches!(taken, Claimed::Taken { again: true, .. }), "{when}: {taken:?}");
        assert_eq!(told(&direct, fourth).await, ["idempotency_unknown"], "{when}");
        let swept = cut_in(&wire, cut, store.sweep_keys(at(60_000), KEEP, 10)).await.unwrap();
        assert_eq!(swept, KeysSwept { lapsed: 1, expired: 0, more: false }, "{when}");
        store.close().await.unwrap();
    }
    Hand(&direct).clean().await;
    direct.close().await.unwrap();
}

/// R-I4, R-I5: four processes want the same keys, each in an order of its own. Every key has one taker, and the database never has to
/// undo one for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_in_any_order_have_one_taker_each() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(open(shared.url(), &schema).await));
    }
    let deadlocks =
        || psql(shared.url(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()");
    let before = deadlocks();
    let mut all = tokio::task::JoinSet::new();
    for (place, store) in stores.iter().enumerate() {
        for number in 0..250_usize {
            let store = Arc::clone(store);
            // Primes to 250: every process goes through all of them, each its own way.
            let key = format!("key {}", (number * [1, 249, 77, 123][place]) % 250);
            all.spawn(async move {
                let claimed = store.claim_key(at(0), claim(&key)).await.unwrap();
                if let Claimed::Taken { hold, .. } = &claimed {
                    assert_eq!(store.complete_key(at(1), *hold, answer(), KEEP).await.unwrap(), Finish::Done);
                }
                (key, claimed)
            });
        }
    }
    let all = bounded("claiming", all.join_all()).await;
    let mut taken: Vec<&String> =
        all.iter().filter(|(_, one)| matches!(one, Claimed::Taken { .. })).map(|(key, _)| key).collect();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), 250);
    let others =
        all.iter().filter(|(_, one)| matches!(one, Claimed::InFlight { .. } | Claimed::Completed { .. }));
    assert_eq!(others.count(), 750);
    assert_eq!(deadlocks(), before);
    Hand(&*stores[0]).clean().await;
    for store in stores {
        store.close().await.unwrap();
    }
}

/// Row 40, R-I4: while a transaction of somebody else has taken hold of a record, nobody but those who want the same one waits, a sweep
/// included; and those go on when it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_wants_the_same_record_waits_for_it() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = Arc::new(open(shared.url(), &schema).await);
    let hold = held(&store.claim_key(at(0), claim("k")).await.unwrap());
    let silent = held(&store.claim_key(at(0), claim("silent")).await.unwrap());
    let words =
        format!("BEGIN; SELECT 1 FROM {schema}.idempotency_keys WHERE id = {} FOR UPDATE", hold.record);
    let session = Session::holding(shared.url(), &words);
    let mut waiting = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.complete_key(at(1), hold, answer(), KEEP).await.unwrap() }
    });
    // Only read, so told at once; what others do goes on beside it.
    let seen = bounded("a look", store.claim_key(at(1), claim("k"))).await.unwrap();
    assert!(matches!(seen, Claimed::InFlight { .. }), "{seen:?}");
    let other = held(&bounded("another key", store.claim_key(at(1), claim("other"))).await.unwrap());
    let done = bounded("its end", store.complete_key(at(1), other, answer(), KEEP)).await.unwrap();
    assert_eq!(done, Finish::Done);
    let swept = bounded("a sweep", store.sweep_keys(at(30_000), KEEP, 10)).await.unwrap();
    assert_eq!(swept, KeysSwept { lapsed: 1, expired: 0, more: false }, "the other one is left");
    assert_eq!(state(&store, silent).await, Some(KeyState::UnknownOutcome));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err(), "it waits");
    // Long after its lease: whoever has taken hold of it is about to say how it ended, so it is not taken, and not waited for.
    let seen = bounded("a late look", store.claim_key(at(30_001), claim("k"))).await.unwrap();
    assert_eq!(seen, Claimed::InFlight { since: at(0), until: at(31_001), job: None });
    drop(session);
    assert_eq!(bounded("who waited", waiting).await.unwrap(), Finish::Done);
    assert_eq!(state(&store, hold).await, Some(KeyState::Completed));
    Hand(&*store).clean().await;
    store.close().await.unwrap();
}

/// R-I4: sweepers of several machines share the work, and each record is told of once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweepers_share_the_work() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(Arc::new(open(shared.url(), &schema).await));
    }
    let mut all = tokio::task::JoinSet::new();
    for number in 0..300 {
        let store = Arc::clone(&stores[0]);
        all.spawn(async move { store.claim_key(at(0), claim(&number.to_string())).await.unwrap() });
    }
    all.join_all().await;
    let sweep = async |now: Timestamp| {
        let mut all = tokio::task::JoinSet::new();
        for store in &stores {
            let store = Arc::clone(store);
            all.spawn(async move {
                let (mut swept, mut more) = ((0, 0), true);
                while more {
                    let round = store.sweep_keys(now, KEEP, 20).await.unwrap();
                    swept = (swept.0 + round.lapsed, swept.1 + round.expired);
                    more = round.more;
                }
                swept
            });
        }
        let all = bounded("sweeping", all.join_all()).await;
        all.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    assert_eq!(sweep(at(30_000)).await, (300, 0));
    let filter = EventFilter { types: vec!["idempotency_unknown".to_owned()], ..EventFilter::default() };
    assert_eq!(stores[0].events(filter, 1_000).await.unwrap().len(), 300);
    assert_eq!(sweep(at(30_000).after(KEEP)).await, (0, 300));
    assert_eq!(stores[0].keys(KeyQuery { limit: 10, ..KeyQuery::default() }).await.unwrap(), []);
    Hand(&*stores[0]).clean().await;
    for store in stores {
        store.close().await.unwrap();
    }
}

/// R-I4: whoever goes away before it hears that the key is its own has not run anything, so the key is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_nobody_waits_for_frees_the_key() {
    let Some(shared) = shared() else { return };
    let store = open(shared.url(), &shared.schema()).await;
    for patience in (0..40).map(|step| Duration::from_micros(step * 250)) {
        let key = format!("{patience:?}");
        // Also when it was answered in time: what it holds then is released by who holds it.
        if let Ok(claimed) = tokio::time::timeout(patience, store.claim_key(at(0), claim(&key))).await {
            store.release_key(at(0), held(&claimed.unwrap()), None).await.unwrap();
        }
    }
    let left = async {
        while !store.keys(KeyQuery { limit: 10, ..KeyQuery::default() }).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    bounded("freeing", left).await;
    Hand(&store).clean().await;
    store.close().await.unwrap();
}

/// R-I4: the database's clock decides, however wrong a caller's is, and what a caller is told of its own clock is by that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_databases_clock_decides() {
    let Some(shared) = shared() else { return };
    let options = PostgresOptions { schema: Some(shared.schema()), ..PostgresOptions::default() };
    let store = Postgres::open(shared.url(), options).await.unwrap();
    let hour = Duration::from_hours(1);
    let now = Timestamp::from_system(std::time::SystemTime::now());
    let hold = held(&store.claim_key(now.before(hour), claim("k")).await.unwrap());
    // A clock that is an hour ahead would find the holder silent long since.
    let Claimed::InFlight { until, .. } = store.claim_key(now.after(hour), claim("k")).await.unwrap() else {
        panic!("it is held");
    };
    let left = until.since(now.after(hour));
    assert!(left > HOLD / 2 && left <= HOLD, "{left:?}");
    assert_eq!(store.sweep_keys(now.after(hour), KEEP, 10).await.unwrap(), KeysSwept::default());
    assert_eq!(store.complete_key(now.after(KEEP), hold, answer(), hour).await.unwrap(), Finish::Done);
    let replayed = store.claim_key(now.after(KEEP), claim("k")).await.unwrap();
    assert!(matches!(replayed, Claimed::Completed { .. }), "{replayed:?}");
    Hand(&store).clean().await;
    store.close().await.unwrap();
}

/// R-I5: answers of any size are replayed, long ones beside short ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answers_are_replayed_beside_short_ones() {
    let Some(shared) = shared() else { return };
    let store = Arc::new(open(shared.url(), &shared.schema()).await);
    let sizes = [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 5 << 20];
    for size in sizes {
        let hold = held(&store.claim_key(at(0), claim(&size.to_string())).await.unwrap());
        let response = StoredResponse { body: Some(vec![7; size]), ..answer() };
        assert_eq!(store.complete_key(at(0), hold, response, KEEP).await.unwrap(), Finish::Done);
    }
    let mut all = tokio::task::JoinSet::new();
    for size in sizes.repeat(5) {
        let store = Arc::clone(&store);
        all.spawn(async move {
            let claimed = store.claim_key(at(1), claim(&size.to_string())).await.unwrap();
            let Claimed::Completed { response, .. } = claimed else { panic!("{claimed:?}") };
            assert_eq!(response.body.map(|body| body.len()), Some(size));
        });
    }
    bounded("replaying", all.join_all()).await;
    store.close().await.unwrap();
}
