//! A lease is exclusive, fenced, and counted only once it has begun (R-D2).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use redrive_store::{JobState, LeaseRequest, NewJob, Seized};

use crate::back_end::Given;
use crate::given::{Hand, LEASE, at, job, released, retry, success, wants};

/// R-D2, invariant I2: two workers on two handles drain one queue, and nobody sees a job that the other has.
pub(crate) async fn two_workers_never_share_a_job(given: &Given) {
    const JOBS: usize = 400;
    given.store.enqueue(at(0), vec![job("a"); JOBS]).await.unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for store in [Arc::clone(&given.store), given.another().await] {
        workers.spawn(async move {
            let worker = Hand(&*store).worker().await;
            let mut mine = Vec::new();
            loop {
                let leased = store.lease(at(0), wants(worker, &["a"], 7)).await.unwrap();
                if leased.is_empty() {
                    break mine;
                }
                mine.extend(leased.into_iter().map(|leased| leased.token.job));
            }
        });
    }
    let all = workers.join_all().await.concat();
    assert_eq!(all.len(), JOBS);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), JOBS);
}

/// R-D1, reliability 58: nobody gets more at once than a few megabytes, however many were asked for; what is left is there for the next
/// look, and for who waits.
pub(crate) async fn large_jobs_are_handed_out_a_few_at_a_time(given: &Given) {
    let large = || NewJob { payload: vec![7; 1 << 20], ..job("a") };
    given.store.enqueue(at(0), vec![large(); 20]).await.unwrap();
    let worker = Hand(&*given.store).worker().await;
    let request = |wait| LeaseRequest { wait, ..wants(worker, &["a"], 1_000) };
    let mut got = Vec::new();
    for wait in [Duration::ZERO, Duration::from_secs(30), Duration::from_secs(30)] {
        got.push(given.store.lease(at(0), request(wait)).await.unwrap().len());
    }
    assert_eq!(got, [8, 8, 4]);
    given.store.enqueue(at(0), vec![job("a"); 300]).await.unwrap();
    assert_eq!(given.store.lease(at(0), request(Duration::ZERO)).await.unwrap().len(), 300);
    // Two who wait together share what comes.
    let waiting = [0, 1].map(|_| {
        let (store, request) = (Arc::clone(&given.store), request(Duration::from_secs(30)));
        tokio::spawn(async move { store.lease(at(0), request).await.unwrap().len() })
    });
    given.store.enqueue(at(0), vec![large(); 14]).await.unwrap();
    let mut shared = 0;
    for one in waiting {
        let many = one.await.unwrap();
        assert!((1..=8).contains(&many), "{many}");
        shared += many;
    }
    let rest = given.store.lease(at(0), request(Duration::ZERO)).await.unwrap().len();
    assert_eq!(shared + rest, 14);
}

/// R-D1: higher first; among equals what is due first; among those what came first.
pub(crate) async fn priority_comes_first_then_time(given: &Given) {
    let hand = Hand(&*given.store);
    let prior = |priority, run_at| NewJob { priority, run_at: Some(at(run_at)), ..job("a") };
    let jobs = vec![
        prior(-100, 0),
        prior(0, 5),
        prior(0, 3),
        prior(100, 9),
        prior(0, 3),
        NewJob { queue: "other".to_owned(), ..prior(50, 0) },
        NewJob { kind: "b".to_owned(), ..prior(1, 0) },
    ];
    let ids: Vec<_> = given.store.enqueue(at(0), jobs).await.unwrap().iter().map(|one| one.id).collect();
    let worker = hand.worker().await;
    let order = [3, 5, 6, 2, 4, 1, 0].map(|index: usize| ids[index]);
    let mut got = Vec::new();
    for max in [1, 3, 10] {
        let leased = given.store.lease(at(10), wants(worker, &["a", "b"], max)).await.unwrap();
        got.extend(leased.iter().map(|leased| leased.token.job));
    }
    assert_eq!(got, order);
}

/// R-D4: work of a higher priority whose time has not come hides nothing.
pub(crate) async fn later_work_hides_nothing(given: &Given) {
    let hand = Hand(&*given.store);
    let later = NewJob { priority: 100, run_at: Some(at(60_000)), ..job("a") };
    given.store.enqueue(at(0), vec![later; 300]).await.unwrap();
    let between = NewJob { priority: 7, run_at: Some(at(50_000)), ..job("a") };
    let due = NewJob { priority: -5, ..job("a") };
    let soon = NewJob { priority: -5, run_at: Some(at(10)), ..job("a") };
    let ids = given.store.enqueue(at(0), vec![between, due, soon]).await.unwrap();
    let worker = hand.worker().await;
    let leased = given.store.lease(at(0), wants(worker, &["a"], 10)).await.unwrap();
    assert_eq!(leased.iter().map(|leased| leased.token.job).collect::<Vec<_>>(), [ids[1].id]);
    assert_eq!(hand.take(at(10), worker, &["a"]).await.token.job, ids[2].id);
    let later = given.store.lease(at(50_000), wants(worker, &["a"], 10)).await.unwrap();
    assert_eq!(later.iter().map(|leased| leased.token.job).collect::<Vec<_>>(), [ids[0].id]);
    assert_eq!(given.store.lease(at(60_000), wants(worker, &["a"], 1_000)).await.unwrap().len(), 300);
}

/// R-D2
pub(crate) async fn only_what_was_asked_for(given: &Given) {
    let hand = Hand(&*given.store);
    let new = |queue: &str, kind| NewJob { queue: queue.to_owned(), ..job(kind) };
    let jobs = vec![new("p", "a"), new("p", "b"), new("q", "a"), new("q", "b")];
    let ids = given.store.enqueue(at(0), jobs).await.unwrap();
    let worker = hand.worker().await;
    let asked = |queues: &[&str], kinds: &[&str]| LeaseRequest {
        queues: queues.iter().map(|&queue| queue.to_owned()).collect(),
        ..wants(worker, kinds, 10)
    };
    let lease = async |request| -> Vec<_> {
        let leased = given.store.lease(at(0), request).await.unwrap();
        leased.iter().map(|leased| leased.token.job).collect()
    };
    assert!(lease(asked(&["p"], &["c"])).await.is_empty());
    assert!(lease(asked(&["nowhere"], &["a", "b"])).await.is_empty());
    assert!(lease(LeaseRequest { reserved_only: true, ..asked(&[], &["a", "b"]) }).await.is_empty());
    assert_eq!(lease(asked(&["q"], &["b"])).await, [ids[3].id]);
    assert_eq!(lease(asked(&[], &["a"])).await, [ids[0].id, ids[2].id]);
    assert_eq!(lease(asked(&["p", "q", "nowhere"], &["b", "a"])).await, [ids[1].id]);
    // A lane that is made later, elsewhere, is found as well.
    let another = given.another().await;
    let late = another.enqueue(at(0), vec![new("late", "a")]).await.unwrap();
    assert_eq!(lease(asked(&[], &["a"])).await, [late[0].id]);
    another.close().await.unwrap();
}

/// R-D2: a claim takes no more than it may, and any number may be said.
pub(crate) async fn max_is_kept(given: &Given) {
    let hand = Hand(&*given.store);
    given.store.enqueue(at(0), vec![job("a"); 10]).await.unwrap();
    given.store.enqueue(at(0), vec![job("b"); 10]).await.unwrap();
    let worker = hand.worker().await;
    for (max, got) in [(0, 0), (1, 1), (12, 12), (usize::MAX, 7), (3, 0)] {
        let leased = given.store.lease(at(0), wants(worker, &["a", "b"], max)).await.unwrap();
        assert_eq!(leased.len(), got, "{max}");
    }
    assert!(given.store.seize_expired(at(90_000), worker, LEASE, 0).await.unwrap().is_empty());
    assert_eq!(given.store.seize_expired(at(90_000), worker, LEASE, usize::MAX).await.unwrap().len(), 20);
}

/// R-D2: a lease never begun is not counted.
pub(crate) async fn not_begun_is_not_counted(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let request = LeaseRequest { begin: false, ..wants(worker, &["a"], 1) };
    for fence in 1..=3 {
        let leased = given.store.lease(at(fence), request.clone()).await.unwrap();
        assert_eq!((leased[0].token.fence, leased[0].attempt, leased[0].begun), (fence, 1, false));
        assert_eq!(hand.record(id).await.attempts, 0);
        hand.done(at(fence), leased[0].token, released()).await;
    }
    let leased = given.store.lease(at(9), request).await.unwrap();
    let seized = given.store.seize_expired(at(90_000), worker, LEASE, 10).await.unwrap();
    let [Seized { leased: again, begun: false, .. }] = &seized[..] else { panic!("{seized:?}") };
    assert_eq!((again.token.fence, again.attempt), (leased[0].token.fence + 1, 1));
    hand.done(at(90_000), again.token, released()).await;
    assert_eq!(hand.record(id).await.attempts, 0);
}

/// R-D2: past its deadline a job is handed out, but does not begin.
pub(crate) async fn past_its_deadline_nothing_begins(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(NewJob { deadline_at: Some(at(1_000)), ..job("a") }).await;
    let worker = hand.worker().await;
    let early = hand.take(at(999), worker, &["a"]).await;
    assert!(early.begun);
    hand.done(at(999), early.token, released()).await;
    let late = hand.take(at(1_000), worker, &["a"]).await;
    assert_eq!((late.begun, late.attempt), (false, 1));
    assert_eq!(hand.record(id).await.attempts, 0);
    hand.done(at(1_000), late.token, crate::given::dead(redrive_policy::Cause::Timeout, "late")).await;
    let JobState::Dead(letter) = hand.record(id).await.state else { panic!("no letter") };
    assert_eq!(letter.attempts, 0);
}

/// R-D2, invariant I2: each lease of a job has a higher fence than all before it.
pub(crate) async fn the_fence_grows(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(job("a")).await;
    let worker = hand.worker().await;
    let mut last = 0;
    let mut now = 0;
    for round in 0..4 {
        let leased = hand.take(at(now), worker, &["a"]).await;
        assert!(leased.token.fence > last, "{round}");
        last = leased.token.fence;
        now += 40_000;
        let seized = given.store.seize_expired(at(now), worker, LEASE, 10).await.unwrap();
        assert!(seized[0].leased.token.fence > last, "{round}");
        last = seized[0].leased.token.fence;
        let ending =
            if round == 3 { crate::given::dead(redrive_policy::Cause::Network, "x") } else { retry(at(now)) };
        hand.done(at(now), seized[0].leased.token, ending).await;
    }
    given.store.redrive(at(now), vec![id], "redriven").await.unwrap();
    assert!(hand.take(at(now), worker, &["a"]).await.token.fence > last);
}

/// R-D2: the longest length that can be said is as good as any.
pub(crate) async fn a_lease_may_last_for_ever(given: &Given) {
    let hand = Hand(&*given.store);
    let id = hand.add(NewJob { timeout: Some(Duration::MAX), ..job("a") }).await;
    let worker = given.store.register(at(0), "for ever".to_owned(), Duration::MAX).await.unwrap();
    let request = LeaseRequest { lease_for: Duration::MAX, ..wants(worker, &["a"], 1) };
    let leased = given.store.lease(at(0), request).await.unwrap();
    given.store.renew(at(5), worker, Duration::MAX, vec![leased[0].token]).await.unwrap();
    assert!(given.store.seize_expired(at(1_000_000), worker, Duration::MAX, 9).await.unwrap().is_empty());
    assert!(matches!(hand.record(id).await.state, JobState::Leased { .. }));
    assert_eq!(given.store.workers(at(1_000_000)).await.unwrap().len(), 1);
    hand.done(at(6), leased[0].token, success()).await;
}

/// R-D2: whoever goes away before it has its answer gives everything back, and nothing is counted.
pub(crate) async fn a_dropped_answer_gives_back_uncounted(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let ids: Vec<_> =
        given.store.enqueue(at(0), vec![job("a"); 50]).await.unwrap().iter().map(|one| one.id).collect();
    for round in 0..50 {
        let mut asked = given.store.lease(at(round), wants(worker, &["a"], 50));
        // Polled once: the wish is on its way; dropped: nobody waits for it.
        let poll = std::future::poll_fn(|context| std::task::Poll::Ready(asked.as_mut().poll(context)));
        let early = poll.await;
        drop(asked);
        if let std::task::Poll::Ready(leased) = early {
            for leased in leased.unwrap() {
                hand.done(at(round), leased.token, released()).await;
            }
        }
    }
    // What is given back is there again by the time that the next wish is served.
    let mut back = Vec::new();
    for _ in 0..100 {
        let request = LeaseRequest { wait: Duration::from_millis(50), ..wants(worker, &["a"], 100) };
        back.extend(given.store.lease(at(100), request).await.unwrap());
        if back.len() >= ids.len() {
            break;
        }
    }
    assert_eq!(back.len(), ids.len());
    assert!(back.iter().all(|leased| (leased.attempt, leased.retries, leased.crashes) == (1, 0, 0)));
}

/// R-D2, reliability row 27: a worker may go away at any moment, also between the sending of its leases and its taking
/// them; nothing is lost with it, and nothing is counted.
pub(crate) async fn an_answer_dropped_at_any_moment_gives_back_uncounted(given: &Given) {
    let hand = Hand(&*given.store);
    let worker = hand.worker().await;
    let id = hand.add(job("a")).await;
    let mut given_back = 0;
    for moment in 0..150 {
        let mut answer = given.store.lease(at(0), wants(worker, &["a"], 1));
        // Sent, and then dropped sooner or later without being looked at again.
        let answered = std::future::poll_fn(|cx| std::task::Poll::Ready(answer.as_mut().poll(cx))).await;
        if let std::task::Poll::Ready(leased) = answered {
            // The writer was faster than this thread.
            hand.done(at(0), leased.unwrap()[0].token, released()).await;
            continue;
        }
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_micros(moment * 20) {
            std::thread::yield_now();
        }
        drop(answer);
        // Whatever has to be given back is given back with one of the next writes: several may be under way at once.
        let mut record = hand.record(id).await;
        for _ in 0..1_000 {
            given.store.renew(at(0), worker, LEASE, Vec::new()).await.unwrap();
            record = hand.record(id).await;
            if matches!(record.state, JobState::Ready { .. }) {
                break;
            }
        }
        assert!(
            matches!(record.state, JobState::Ready { .. }),
            "lost at moment {moment}: {:?}",
            record.state
        );
        assert_eq!(record.attempts, 0);
        given_back = hand.types(id).await.iter().filter(|name| *name == "job_released").count();
    }
    assert!(given_back > 0, "no moment was late enough");
}
