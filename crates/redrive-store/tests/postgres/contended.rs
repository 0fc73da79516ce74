//! The database undoes a transaction, or makes it wait, for others' sake (reliability row 40): retried a bounded number of times, then a
//! clear error, and nothing is left of what was refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_store::{
    Board, Events, Housekeeping, Jobs, Leases, NewJob, NoticeChange, Posted, Postgres, Settled, Settlement,
    Store, Workers,
};
use redrive_testing::{Cluster, Session, shared};

use crate::given::{Hand, SECOND, at, job, success, wants};
use crate::ground::{bounded, open, psql};

/// Makes the next so many inserts of events fail in this way; numbers from a sequence are not undone with the transaction.
fn inject(url: &str, schema: &str, code: &str, times: u32) {
    psql(
        url,
        &format!(
            "DROP TRIGGER IF EXISTS fails ON {schema}.event; DROP SEQUENCE IF EXISTS {schema}.fails; \
             CREATE SEQUENCE {schema}.fails; \
             CREATE OR REPLACE FUNCTION {schema}.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF nextval('{schema}.fails') <= {times} THEN RAISE EXCEPTION 'injected' USING ERRCODE = '{code}'; END IF; \
                 RETURN NULL; END $$; \
             CREATE TRIGGER fails AFTER INSERT ON {schema}.event FOR EACH STATEMENT EXECUTE FUNCTION {schema}.fails()"
        ),
    );
}

/// Row 40: a serialization failure, a deadlock, a lock that was not to be had and a cancelled statement are retried, and nobody hears of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_undone_for_others_is_done_again() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let hand = Hand(&store);
    let worker = hand.worker().await;
    for code in ["40001", "40P01", "55P03", "57014"] {
        inject(shared.url(), &schema, code, 3);
        let id = bounded(code, hand.add(job("a"))).await;
        inject(shared.url(), &schema, code, 3);
        let leased = bounded(code, hand.take(at(0), worker, &["a"])).await;
        inject(shared.url(), &schema, code, 3);
        bounded(code, hand.done(at(0), leased.token, success())).await;
        assert_eq!(hand.types(id).await, ["job_enqueued", "attempt_started", "attempt_succeeded"], "{code}");
    }
    hand.clean().await;
    store.close().await.unwrap();
}

/// Row 40: when it does not pass, a bounded number of tries, a clear error that says that it may, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_undone_again_and_again_is_given_up() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let hand = Hand(&store);
    hand.add(job("a")).await;
    let before = hand.everything().await;
    inject(shared.url(), &schema, "40001", 1_000_000);
    let error = bounded("it", store.enqueue(at(0), vec![job("a")])).await.unwrap_err();
    assert!(error.may_pass(), "{error}");
    assert!(error.to_string().contains("40001"), "{error}");
    let tries: u32 = psql(shared.url(), &format!("SELECT last_value FROM {schema}.fails")).parse().unwrap();
    assert!((2..=20).contains(&tries), "{tries} tries");
    inject(shared.url(), &schema, "40001", 0);
    assert_eq!(hand.everything().await, before, "something is left");
    hand.add(job("a")).await;
    hand.clean().await;
    store.close().await.unwrap();
}

/// One caller's refused row is not its neighbours' trouble, and trouble that does not pass is not retried.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_pass_is_told_at_once() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let hand = Hand(&store);
    hand.add(job("a")).await;
    inject(shared.url(), &schema, "23514", 1_000_000);
    let began = Instant::now();
    let error = bounded("it", store.enqueue(at(0), vec![job("a")])).await.unwrap_err();
    assert!(!error.may_pass() && began.elapsed() < SECOND * 5, "{error} after {:?}", began.elapsed());
    inject(shared.url(), &schema, "23514", 0);
    hand.add(job("a")).await;
    hand.clean().await;
    store.close().await.unwrap();
}

/// Row 40: somebody's lock on everything is waited for, and then work goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_somebody_else_is_waited_for() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let hand = Hand(&store);
    let id = hand.add(job("a")).await;
    let held = Session::holding(shared.url(), &format!("BEGIN; LOCK TABLE {schema}.job, {schema}.event"));
    let frees = async {
        tokio::time::sleep(SECOND).await;
        drop(held);
    };
    let worker = hand.worker().await;
    let works = async {
        let leased = hand.take(at(0), worker, &["a"]).await;
        hand.done(at(0), leased.token, success()).await;
    };
    bounded("the lock", async { tokio::join!(works, frees) }).await;
    assert_eq!(hand.types(id).await, ["job_enqueued", "attempt_started", "attempt_succeeded"]);
    hand.clean().await;
    store.close().await.unwrap();
}

/// Row 40: real deadlocks and conflicts, from many who write the same things at once in opposite orders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_want_the_same_at_once_all_get_an_answer() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(Arc::new(open(shared.url(), &schema).await));
    }
    let mut callers = tokio::task::JoinSet::new();
    for (number, store) in stores.iter().cloned().enumerate() {
        callers.spawn(async move { wants_everything(&store, number).await });
    }
    let done: usize = bounded("all of them", callers.join_all()).await.into_iter().sum();
    assert!(done > 100, "{done} were done");
    for store in &stores {
        Hand(&**store).clean().await;
        store.close().await.unwrap();
    }
}

/// New queues, the same keys and the same jobs as everybody else, in an order of one's own.
async fn wants_everything(store: &Postgres, number: usize) -> usize {
    let worker = store.register(at(0), "w".to_owned(), SECOND * 600).await.unwrap();
    let mut done = 0;
    for round in 0..25_usize {
        let mut jobs: Vec<NewJob> = (0..6)
            .map(|key| NewJob {
                queue: format!("q{}", (round + key) % 7),
                unique_key: Some(format!("{key}")),
                ..NewJob::new(format!("k{}", key % 3), "x")
            })
            .collect();
        if number % 2 == 1 {
            jobs.reverse();
        }
        let added = store.enqueue(at(0), jobs).await.unwrap();
        let leased = store.lease(at(0), wants(worker, &["k0", "k1", "k2"], 4)).await.unwrap();
        let all = leased.iter().map(|one| Settlement { token: one.token, ending: success() }).collect();
        let settled = store.settle(at(0), all).await.unwrap();
        assert!(settled.iter().all(|one| matches!(one, Settled::Done { .. })), "{settled:?}");
        done += settled.len();
        for one in added.iter().rev().take(2) {
            store.cancel(at(0), one.id, "enough".to_owned()).await.unwrap();
        }
    }
    done
}

/// Row 40: a server that cancels what takes too long is obeyed: the same again, and it passes when the lock is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_timeout_of_the_server_is_survived() {
    if !Cluster::is_possible() {
        return;
    }
    let cluster = Cluster::start();
    let store: Arc<dyn Store> = Arc::new(open(&cluster.url(), "redrive").await);
    store.close().await.unwrap();
    cluster.psql("postgres", "ALTER ROLE redrive_app SET statement_timeout = '150ms'");
    let store = open(&cluster.url(), "redrive").await;
    let hand = Hand(&store);
    let id = hand.add(job("a")).await;
    let held = Session::holding(&cluster.url(), "BEGIN; LOCK TABLE redrive.job, redrive.event");
    let frees = async {
        tokio::time::sleep(Duration::from_millis(400)).await;
        drop(held);
    };
    let (added, ()) =
        bounded("the timeout", async { tokio::join!(store.enqueue(at(0), vec![job("a")]), frees) }).await;
    // Whether it was patient enough or not, it says so, and nothing is there twice.
    let there = store.status(at(0)).await.unwrap().lanes[0].ready;
    match added {
        Ok(_) => assert_eq!(there, 2),
        Err(error) => {
            assert!(error.may_pass(), "{error}");
            assert_eq!(there, 1);
        }
    }
    assert_eq!(hand.types(id).await, ["job_enqueued"]);
    assert!(store.event("nonsense".to_owned()).await.unwrap().is_none());
    hand.clean().await;
    store.close().await.unwrap();
}

/// R-P15: whoever changes one notice waits for nobody who changes another; who waits for the same one meets what became of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_are_changed_side_by_side() {
    let Some(shared) = shared() else { return };
    let schema = shared.schema();
    let store = open(shared.url(), &schema).await;
    let put = |name: &str, seen| NoticeChange {
        space: "target".to_owned(),
        name: name.to_owned(),
        seen,
        value: Some("1".to_owned()),
        due_at: None,
    };
    let both = vec![put("a", None), put("b", None)];
    let posted = store.post(at(0), both, Vec::new(), Vec::new()).await.unwrap();
    let Posted::Done { versions, .. } = posted else { panic!("they are new") };
    let change = format!("UPDATE {schema}.notice SET version = version + 7 WHERE name = 'a'");
    let held = Session::holding(shared.url(), &format!("BEGIN; {change}"));
    let others = async {
        let other =
            store.post(at(1), vec![put("b", versions[1]), put("c", None)], vec![job("x")], Vec::new());
        assert_ne!(other.await.unwrap(), Posted::Outrun);
    };
    bounded("the others", others).await;
    let same = store.post(at(1), vec![put("a", versions[0])], Vec::new(), Vec::new());
    let commits = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(held);
        psql(shared.url(), &change);
    };
    let (same, ()) = bounded("the same", async { tokio::join!(same, commits) }).await;
    // The session was ended without a commit; whether it or the second change came first, nothing is lost.
    let version = store.notice("target".to_owned(), "a".to_owned()).await.unwrap().map(|found| found.version);
    match same.unwrap() {
        Posted::Outrun => assert_eq!(version, versions[0].map(|version| version + 7)),
        Posted::Done { versions, .. } => assert_eq!(version, versions[0].map(|version| version + 7)),
    }
    store.close().await.unwrap();
}
