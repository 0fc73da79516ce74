//! The three outcomes of a lost connection around COMMIT (reliability row 36): not committed and done again, once; committed and
//! answered, not doubled; committed only after somebody has asked.

use std::time::Duration;

use redrive_policy::Cause;
use redrive_store::{
    Board, DeadLetters, EventFilter, Events, Housekeeping, Jobs, Leases, NewEvent, NewJob, NoticeChange,
    Posted, Postgres, Redriven, Renewal, Settled, Settlement, Workers,
};
use redrive_testing::{Fault, Moment, Side, Wire, shared};

use crate::given::{Hand, SECOND, at, dead, job, retry, success, wants};
use crate::ground::{bounded, open, psql};

/// When the connection is cut.
pub(crate) const CUTS: [(&str, Side, Fault); 4] = [
    ("before COMMIT is sent", Side::Client, Fault::CutBefore),
    ("in the middle of COMMIT", Side::Client, Fault::CutWithin),
    ("behind COMMIT, without waiting for its answer", Side::Client, Fault::CutAfter),
    ("before the answer to COMMIT", Side::Server, Fault::CutBefore),
];

/// Lays a cut at the next COMMIT, does something, and shows that the cut was there.
pub(crate) async fn cut_in<T>(
    wire: &Wire,
    (when, side, fault): (&str, Side, Fault),
    work: impl Future<Output = T>,
) -> T {
    wire.lay(Moment::Says(side, "COMMIT\0", 0), fault);
    let answer = bounded(when, work).await;
    assert!(wire.has_struck(), "nothing was cut {when}");
    answer
}

/// Row 36: each verb, cut at each of the places, is done exactly once and answered as if nothing had been.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_commit_is_done_once_and_answered() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let wire = Wire::before(shared.url()).await;
    let direct = open(shared.url(), &schema).await;
    let hand = Hand(&direct);
    for cut in CUTS {
        let store = open(wire.url(), &schema).await;
        verbs(&wire, cut, &store, &direct).await;
        store.close().await.unwrap();
        hand.clean().await;
    }
    direct.close().await.unwrap();
}

async fn verbs(wire: &Wire, cut: (&str, Side, Fault), store: &Postgres, direct: &Postgres) {
    let (when, hand) = (cut.0, Hand(direct));
    let before = direct.status(at(0)).await.unwrap();
    let worker = cut_in(wire, cut, store.register(at(0), "w".to_owned(), SECOND * 600)).await.unwrap();
    assert_eq!(direct.workers(at(0)).await.unwrap().len(), 1, "{when}");
    let added = cut_in(wire, cut, store.enqueue(at(0), vec![job("a"); 3])).await.unwrap();
    let ready = |status: &redrive_store::StoreStatus| status.lanes.iter().map(|lane| lane.ready).sum::<u64>();
    assert_eq!(ready(&direct.status(at(0)).await.unwrap()), ready(&before) + 3, "{when}");
    for one in &added {
        assert!(!one.existing);
        assert_eq!(hand.types(one.id).await, ["job_enqueued"], "{when}");
    }
    let leased = cut_in(wire, cut, store.lease(at(0), wants(worker, &["a"], 3))).await.unwrap();
    assert_eq!(leased.len(), 3, "{when}");
    for one in &leased {
        let started = hand.types(one.job.id).await.iter().filter(|name| *name == "attempt_started").count();
        assert_eq!(started, 1, "{when}: {:?}", hand.types(one.job.id).await);
    }
    let tokens: Vec<_> = leased.iter().map(|one| one.token).collect();
    let renewed = cut_in(wire, cut, store.renew(at(1), worker, SECOND * 600, tokens.clone())).await.unwrap();
    assert_eq!(renewed, [Renewal::Extended; 3], "{when}");
    let endings = [success(), retry(at(0)), dead(Cause::Network, "x")];
    let all =
        tokens.iter().zip(endings).map(|(token, ending)| Settlement { token: *token, ending }).collect();
    let settled = cut_in(wire, cut, store.settle(at(1), all)).await.unwrap();
    assert!(settled.iter().all(|one| matches!(one, Settled::Done { .. })), "{when}: {settled:?}");
    for (token, last) in tokens.iter().zip(["attempt_succeeded", "attempt_failed", "job_dead"]) {
        let types = hand.types(token.job).await;
        assert_eq!(types.iter().filter(|name| *name == last).count(), 1, "{when}: {types:?}");
        assert!(!types.iter().any(|name| name == "stale_settle"), "{when}: it met itself: {types:?}");
    }
    let back = cut_in(wire, cut, store.redrive(at(1), vec![tokens[2].job], "redriven")).await.unwrap();
    assert_eq!(back, [Redriven::Ready], "{when}");
    let note = NewEvent { event_type: "note".into(), source: "cut".into(), ..NewEvent::default() };
    // Groups of letters are told of a second later, whatever else is: only these are counted.
    let notes = async || {
        let filter = EventFilter { types: vec!["note".to_owned()], ..EventFilter::default() };
        direct.events(filter, 1_000).await.unwrap().len()
    };
    let before = notes().await;
    let told = cut_in(wire, cut, store.append(at(1), vec![note])).await.unwrap();
    assert_eq!(notes().await, before + 1, "{when}");
    assert!(direct.event(told[0].1.clone()).await.unwrap().is_some(), "{when}");
    let change = NoticeChange {
        space: "schedule".into(),
        name: when.to_owned(),
        seen: None,
        value: Some("1".to_owned()),
        due_at: None,
    };
    let again = NewJob { unique_key: Some(when.to_owned()), ..job("tick") };
    let posted = cut_in(wire, cut, store.post(at(1), vec![change], vec![again], Vec::new())).await.unwrap();
    let Posted::Done { versions, jobs } = posted else { panic!("{when}: it met itself") };
    let found = direct.notice("schedule".to_owned(), when.to_owned()).await.unwrap();
    assert_eq!(found.map(|found| found.version), versions[0], "{when}");
    assert_eq!((jobs[0].existing, hand.types(jobs[0].id).await.len()), (false, 1), "{when}");
    let cancelled = cut_in(wire, cut, store.cancel(at(1), tokens[1].job, "enough".to_owned())).await.unwrap();
    assert!(cancelled.is_some(), "{when}");
    let types = hand.types(tokens[1].job).await;
    assert_eq!(types.iter().filter(|name| *name == "job_cancelled").count(), 1, "{when}: {types:?}");
    // What is left is taken away, so that the next round begins with nothing.
    let rest = hand.take(at(1), worker, &["a"]).await;
    hand.done(at(1), rest.token, success()).await;
    cut_in(wire, cut, store.unregister(at(1), worker)).await.unwrap();
    assert!(direct.workers(at(1)).await.unwrap().is_empty(), "{when}");
}

/// Row 36, the worst of it: the connection is cut behind COMMIT, the server takes its time with it, and whoever asks meanwhile finds
/// nothing. It must not be done a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_ends_after_somebody_has_asked_is_not_doubled() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let wire = Wire::before(shared.url()).await;
    let direct = open(shared.url(), &schema).await;
    let store = open(wire.url(), &schema).await;
    let worker = store.register(at(0), "w".to_owned(), SECOND * 600).await.unwrap();
    store.enqueue(at(0), vec![job("a")]).await.unwrap();
    // The first commit after this takes a second and a half; those behind it none.
    psql(
        shared.url(),
        &format!(
            "CREATE SEQUENCE {schema}.slow; \
             CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF nextval('{schema}.slow') % 2 = 1 THEN PERFORM pg_sleep(1.5); END IF; RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {schema}.operation DEFERRABLE INITIALLY DEFERRED \
                 FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
        ),
    );
    let cut = CUTS[2];
    let reset = || psql(shared.url(), &format!("SELECT setval('{schema}.slow', 2)"));
    let added = cut_in(&wire, cut, store.enqueue(at(0), vec![NewJob::new("b", "x")])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let lanes = direct.status(at(0)).await.unwrap().lanes;
    assert_eq!(lanes.iter().map(|lane| lane.ready).sum::<u64>(), 2, "{lanes:?}");
    assert_eq!(Hand(&direct).types(added[0].id).await, ["job_enqueued"]);
    reset();
    let leased = cut_in(&wire, cut, store.lease(at(0), wants(worker, &["a", "b"], 2))).await.unwrap();
    assert_eq!(leased.len(), 2);
    reset();
    let all = leased.iter().map(|one| Settlement { token: one.token, ending: success() }).collect();
    let settled = cut_in(&wire, cut, store.settle(at(0), all)).await.unwrap();
    assert!(settled.iter().all(|one| matches!(one, Settled::Done { .. })), "{settled:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    for one in &leased {
        let told = ["job_enqueued", "attempt_started", "attempt_succeeded"];
        assert_eq!(Hand(&direct).types(one.job.id).await, told);
    }
    Hand(&direct).clean().await;
    for store in [store, direct] {
        store.close().await.unwrap();
    }
}
