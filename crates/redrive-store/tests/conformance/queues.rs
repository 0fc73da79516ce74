//! A paused queue hands out nothing, and goes on as if it had never been (R-D2).

use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_store::{LeaseRequest, NewJob, Queue, Settled, Store, Trouble, WorkerId};

use crate::back_end::Given;
use crate::given::{Hand, at, job, retry_after, success, wants};

const LONG: Duration = Duration::from_secs(20);

fn mail(kind: &str) -> NewJob {
    NewJob { queue: "mail".to_owned(), ..job(kind) }
}

async fn pause(store: &dyn Store) {
    assert!(store.pause_queue(at(1), "mail".to_owned(), Some("the server moves".to_owned())).await.unwrap());
}

async fn resume(store: &dyn Store) {
    assert_eq!(store.resume_queue(at(2), "mail".to_owned()).await.unwrap(), Some(true));
}

/// R-D2: neither to this process nor to another; other queues go on.
pub(crate) async fn nothing_is_handed_out_while_paused(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let waits = hand.add(mail("a")).await;
    let other = hand.add(job("a")).await;
    let another = given.another().await;
    pause(&*another).await;
    let leased = given.store.lease(at(3), wants(worker, &["a"], 9)).await.unwrap();
    assert_eq!(leased.iter().map(|one| one.token.job).collect::<Vec<_>>(), [other]);
    hand.done(at(3), leased[0].token, success()).await;
    assert!(another.lease(at(3), wants(worker, &["a"], 9)).await.unwrap().is_empty());
    assert!(
        !given.store.unfinished(vec!["mail".to_owned()], Vec::new()).await.unwrap(),
        "nobody can finish it now, and whoever waits for the end would wait for ever"
    );
    let queues = given.store.queues().await.unwrap();
    let paused = Queue {
        name: "mail".to_owned(),
        paused_at: Some(at(1)),
        paused_why: Some("the server moves".to_owned()),
    };
    assert_eq!(queues.len(), 2);
    assert!(queues.contains(&paused), "{queues:?}");
    let status = given.store.status(at(3)).await.unwrap();
    let since: Vec<_> = status.lanes.iter().map(|lane| (lane.queue.as_str(), lane.paused_at)).collect();
    assert_eq!(since, [("default", None), ("mail", Some(at(1)))]);
    resume(&*given.store).await;
    let leased = another.lease(at(4), wants(worker, &["a"], 9)).await.unwrap();
    assert_eq!(leased.iter().map(|one| one.token.job).collect::<Vec<_>>(), [waits]);
    assert!(given.store.queues().await.unwrap().iter().all(|queue| queue.paused_at.is_none()));
    another.close().await.unwrap();
}

/// R-D2: what is under a lease is begun, renewed and settled; a retry waits.
pub(crate) async fn what_runs_goes_on(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    hand.add(mail("a")).await;
    hand.add(mail("a")).await;
    let leased =
        given.store.lease(at(0), LeaseRequest { begin: false, ..wants(worker, &["a"], 2) }).await.unwrap();
    pause(&*given.store).await;
    let tokens: Vec<_> = leased.iter().map(|one| one.token).collect();
    assert_eq!(given.store.begin(at(2), tokens.clone()).await.unwrap(), [true, true]);
    hand.done(at(3), tokens[0], success()).await;
    let again = retry_after(redrive_policy::Cause::Network, at(4), None);
    assert!(matches!(hand.settle(at(3), tokens[1], again).await, Settled::Done { .. }));
    assert!(given.store.lease(at(9), wants(worker, &["a"], 9)).await.unwrap().is_empty());
    resume(&*given.store).await;
    assert_eq!(hand.take(at(9), worker, &["a"]).await.token.job, tokens[1].job);
}

/// R-D2: also what is reserved for one worker, of whichever queue.
pub(crate) async fn reserved_work_waits_too(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let held = hand.add(NewJob { held_for: Some(worker), ..mail("a") }).await;
    let other = hand.add(NewJob { held_for: Some(worker), ..job("a") }).await;
    pause(&*given.store).await;
    let reserved = || LeaseRequest { reserved_only: true, ..wants(worker, &["a"], 9) };
    let leased = given.store.lease(at(2), reserved()).await.unwrap();
    assert_eq!(leased.iter().map(|one| one.token.job).collect::<Vec<_>>(), [other]);
    resume(&*given.store).await;
    let leased = given.store.lease(at(3), reserved()).await.unwrap();
    assert_eq!(leased.iter().map(|one| one.token.job).collect::<Vec<_>>(), [held]);
}

/// Asks in the background, and gives the wish time to reach the store.
async fn asks(
    store: &Arc<dyn Store>,
    worker: WorkerId,
) -> tokio::task::JoinHandle<Vec<redrive_store::LeasedJob>> {
    let its_store = Arc::clone(store);
    let request = LeaseRequest { wait: LONG, ..wants(worker, &["a"], 1) };
    let asked = tokio::spawn(async move { its_store.lease(at(0), request).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(50)).await;
    asked
}

/// R-D2: a worker that waits gets new work of other queues only.
pub(crate) async fn new_work_is_not_handed_over(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    pause(&*given.store).await;
    let asked = asks(&given.store, worker).await;
    let kept = hand.add(mail("a")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!asked.is_finished(), "it was handed over");
    let given_out = hand.add(job("a")).await;
    assert_eq!(asked.await.unwrap()[0].token.job, given_out);
    resume(&*given.store).await;
    assert_eq!(hand.take(at(3), worker, &["a"]).await.token.job, kept);
}

/// R-D2: whoever waits is answered as if the work were new.
pub(crate) async fn resuming_wakes_who_waits(given: &Given) {
    woken(given, &given.store).await;
}

/// R-D2: also by another process, within 100 ms. The best of several tries counts: the machine may be busy.
pub(crate) async fn resuming_elsewhere_wakes_who_waits(given: &Given) {
    let another = given.another().await;
    woken(given, &another).await;
    another.close().await.unwrap();
}

async fn woken(given: &Given, resumer: &Arc<dyn Store>) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let mut best = LONG;
    for _ in 0..8 {
        pause(&**resumer).await;
        let id = hand.add(mail("a")).await;
        let asked = asks(&given.store, worker).await;
        let began = Instant::now();
        resume(&**resumer).await;
        let leased = asked.await.unwrap();
        best = best.min(began.elapsed());
        assert_eq!(leased[0].token.job, id);
        hand.done(at(5), leased[0].token, success()).await;
    }
    assert!(best < Duration::from_millis(100), "{best:?}");
}

/// R-D2, R-E2: each change has its event, and what changes nothing has none.
pub(crate) async fn pausing_twice_is_once(given: &Given) {
    let store = &given.store;
    assert_eq!(store.resume_queue(at(0), "mail".to_owned()).await.unwrap(), None);
    pause(&**store).await;
    assert!(!store.pause_queue(at(2), "mail".to_owned(), Some("again".to_owned())).await.unwrap());
    let why = store.queues().await.unwrap()[0].paused_why.clone();
    assert_eq!(why.as_deref(), Some("the server moves"), "who paused it has said why");
    resume(&**store).await;
    assert_eq!(store.resume_queue(at(4), "mail".to_owned()).await.unwrap(), Some(false));
    let filter = redrive_store::EventFilter {
        order: redrive_store::Order::OldestFirst,
        ..redrive_store::EventFilter::default()
    };
    let events = store.events(filter, 9).await.unwrap();
    let told: Vec<_> = events.iter().map(|event| (event.event_type.as_str(), event.timestamp)).collect();
    assert_eq!(told, [("queue_paused", at(1)), ("queue_resumed", at(2))]);
    assert_eq!(events[0].data, serde_json::json!({ "queue": "mail", "why": "the server moves" }));
    assert_eq!((events[0].source.as_str(), events[1].data["queue"].as_str()), ("redrive", Some("mail")));
}

/// R-D2: no queue is made that no job could be in.
pub(crate) async fn a_bad_name_is_refused(given: &Given) {
    for name in ["", "a\nb", "a\0b"] {
        let error = given.store.pause_queue(at(0), name.to_owned(), None).await.unwrap_err();
        assert!(matches!(error.trouble(), Trouble::Refused(_)), "{name:?}: {error}");
        assert_eq!(given.store.resume_queue(at(0), name.to_owned()).await.unwrap(), None);
    }
    assert!(given.store.queues().await.unwrap().is_empty());
}
