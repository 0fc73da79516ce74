//! The connection is cut at each message of a script, before it, within it and behind it (reliability row 36).
//!
//! One cut is nobody's trouble: every call is answered, and in the end each job has the story that it has in a run without a cut. The
//! stories differ in nothing that counts; what was leased in an answer that never came may have been given back.

use std::collections::BTreeMap;

use redrive_policy::Cause;
use redrive_store::{
    DeadLetters, EventFilter, Events, Housekeeping, Jobs, LeaseRequest, Leases, NewEvent, NewJob, Order,
    Postgres, Settled, Settlement, Workers,
};
use redrive_testing::{Fault, Moment, Side, Wire, shared};

use crate::given::{Hand, SECOND, at, dead, retry, success, wants};
use crate::ground::{bounded, open};

/// By caller: what happened to its job, the oldest first.
type Stories = BTreeMap<String, Vec<String>>;

/// Every verb at least once. `run` keeps the jobs of one run apart from those of others.
async fn script(store: &Postgres, run: usize) {
    let kind = format!("k{run}");
    let kinds = [kind.as_str()];
    let job = |caller: &str| NewJob {
        caller_id: Some(format!("{run}-{caller}")),
        ..NewJob::new(kind.clone(), "x")
    };
    let worker = store.register(at(0), "cut".to_owned(), SECOND * 600).await.unwrap();
    let keyed = NewJob { unique_key: Some(format!("key {run}")), ..job("c") };
    store.enqueue(at(0), vec![job("a"), job("b")]).await.unwrap();
    let added = store.enqueue(at(0), vec![keyed]).await.unwrap();
    assert!(!added[0].existing, "it meets itself");
    let leased = store.lease(at(0), wants(worker, &kinds, 2)).await.unwrap();
    let later = LeaseRequest { begin: false, ..wants(worker, &kinds, 1) };
    let later = store.lease(at(0), later).await.unwrap();
    assert_eq!((leased.len(), later.len()), (2, 1), "what was leased is lost");
    assert_eq!(store.begin(at(0), vec![later[0].token]).await.unwrap(), [true]);
    let tokens = vec![leased[0].token, leased[1].token, later[0].token];
    store.renew(at(0), worker, SECOND * 600, tokens).await.unwrap();
    let endings = [success(), retry(at(0)), dead(Cause::Network, "cut")];
    for (leased, ending) in leased.iter().chain(&later).zip(endings) {
        let settlement = Settlement { token: leased.token, ending };
        let settled = store.settle(at(0), vec![settlement]).await.unwrap();
        assert!(matches!(settled[0], Settled::Done { .. }), "{:?} was stale", leased.token);
    }
    store.redrive(at(0), vec![later[0].token.job], "redriven").await.unwrap();
    let again = store.lease(at(0), wants(worker, &kinds, 9)).await.unwrap();
    assert_eq!(again.len(), 2, "what was put back is lost");
    let all = again.iter().map(|leased| Settlement { token: leased.token, ending: success() });
    let settled = store.settle(at(0), all.collect()).await.unwrap();
    assert!(settled.iter().all(|settled| matches!(settled, Settled::Done { .. })), "{settled:?}");
    let note = NewEvent { event_type: "note".into(), source: kind.clone(), ..NewEvent::default() };
    store.append(at(0), vec![note]).await.unwrap();
    let gone = store.enqueue(at(0), vec![job("d")]).await.unwrap();
    store.cancel(at(0), gone[0].id, "enough".to_owned()).await.unwrap();
    store.unregister(at(0), worker).await.unwrap();
}

async fn stories(store: &Postgres, run: usize) -> Stories {
    let mut stories = Stories::new();
    let filter =
        EventFilter { source: Some(format!("k{run}")), order: Order::OldestFirst, ..EventFilter::default() };
    for event in store.events(filter, 1_000).await.unwrap() {
        let caller = event.data["caller_id"].as_str().unwrap_or("nobody").to_owned();
        let caller = caller.split_once('-').map_or(caller.clone(), |(_, rest)| rest.to_owned());
        stories.entry(caller).or_default().push(event.event_type);
    }
    stories
}

/// How many messages are passed over between two cuts; `REDRIVE_CUTS=1` passes over none.
fn stride() -> usize {
    std::env::var("REDRIVE_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(61)
}

/// Row 36: at each message, in both directions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_at_any_message_is_nobodys_trouble() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let wire = Wire::before(shared.url()).await;
    let direct = open(shared.url(), &schema).await;
    let store = open(wire.url(), &schema).await;
    // A moment that never comes: only counted.
    wire.lay(Moment::Message(Side::Client, usize::MAX), Fault::CutBefore);
    script(&store, 0).await;
    let (asked, answered) = wire.counted();
    let expected = stories(&direct, 0).await;
    assert_eq!(expected.len(), 5, "{expected:?}");
    store.close().await.unwrap();
    let mut run = 0;
    let stride = stride();
    for (number, fault) in [Fault::CutBefore, Fault::CutWithin, Fault::CutAfter].into_iter().enumerate() {
        for (side, messages) in [(Side::Client, asked), (Side::Server, answered)] {
            // Each kind of cut begins elsewhere, so that together they reach more.
            for message in (number * stride / 3..messages).step_by(stride) {
                run += 1;
                let what = format!("run {run}: {fault:?} at message {message} of {side:?}");
                let store = bounded(&what, open(wire.url(), &schema)).await;
                wire.lay(Moment::Message(side, message), fault);
                bounded(&what, script(&store, run)).await;
                store.close().await.unwrap();
                assert_eq!(stories(&direct, run).await, expected, "{what}");
            }
        }
    }
    Hand(&direct).clean().await;
    println!("{asked} messages to the server, {answered} from it, {run} cuts");
    assert!(run > 40, "next to nothing was cut");
    direct.close().await.unwrap();
}

/// Rows 36 and 38: the server is not there for a while, and cuts come again and again; what is asked meanwhile waits, and is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_door_that_stays_closed_for_a_while_is_waited_for() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let wire = Wire::before(shared.url()).await;
    let store = open(wire.url(), &schema).await;
    let direct = open(shared.url(), &schema).await;
    for run in 0..5 {
        wire.close();
        let opens = async {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            wire.open();
            for _ in 0..10 {
                tokio::time::sleep(std::time::Duration::from_millis(7)).await;
                wire.cut_all();
            }
        };
        bounded("the script", async { tokio::join!(script(&store, run), opens) }).await;
        assert_eq!(stories(&direct, run).await, stories(&direct, 0).await);
    }
    Hand(&direct).clean().await;
    for store in [store, direct] {
        store.close().await.unwrap();
    }
}

/// Rows 36 and 38: a server that says nothing any more, without hanging up, is given up after a bounded time. Whether it heard COMMIT and
/// its answer was lost, or it waits for a COMMIT that never comes: what it does is found out, and nothing is done twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_falls_silent_is_given_up() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let direct = open(shared.url(), &schema).await;
    let silenced = async |run: usize, side: Side| {
        let wire = Wire::before(shared.url()).await;
        let store = open(wire.url(), &schema).await;
        wire.lay(Moment::Says(side, "COMMIT\0", 5), Fault::Silence);
        bounded("the script", script(&store, run)).await;
        assert!(wire.has_struck());
        bounded("closing", store.close()).await.unwrap();
    };
    // Both wait at the same time.
    tokio::join!(silenced(0, Side::Client), silenced(1, Side::Server));
    assert_eq!(stories(&direct, 1).await, stories(&direct, 0).await);
    Hand(&direct).clean().await;
    direct.close().await.unwrap();
}
