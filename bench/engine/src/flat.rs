//! Whether the cost of a job grows with what waits beside it and what lies behind it.

use std::time::{Duration, Instant};

use redrive_store::{
    DeadLetters, EventFilter, EventStatus, Events, Housekeeping, Jobs, LeaseRequest, Leases, NewEvent,
    NewJob, Settlement, Workers,
};

use crate::letters;
use crate::load::payload;
use crate::measure::{Bench, now, rss_mb};

/// Jobs through enqueue, lease and settle, in batches of 64: microseconds per job.
async fn cost(bench: &Bench, kind: &str) -> f64 {
    let worker =
        bench.store.register(now(), "flat".into(), Duration::from_secs(600)).await.expect("a worker");
    let rounds = 200;
    let began = Instant::now();
    for _ in 0..rounds {
        bench.store.enqueue(now(), vec![NewJob::new(kind, payload()); 64]).await.expect("enqueued");
        let request = LeaseRequest {
            worker,
            queues: vec!["default".into()],
            kinds: vec![kind.to_owned()],
            reserved_only: false,
            max: 64,
            lease_for: Duration::from_secs(30),
            begin: true,
            wait: Duration::ZERO,
        };
        let leased = bench.store.lease(now(), request).await.expect("leased");
        assert_eq!(leased.len(), 64);
        let settlements = leased.iter().map(|leased| Settlement {
            token: leased.token,
            ending: redrive_store::Ending::Succeeded {
                latency: Duration::ZERO,
                exit_code: None,
                max_retries: 3,
                output: None,
            },
        });
        bench.store.settle(now(), settlements.collect()).await.expect("settled");
    }
    began.elapsed().as_secs_f64() * 1e6 / f64::from(rounds * 64)
}

pub async fn run() {
    let bench = Bench::new();
    println!("{:<52} {:>12} {:>12} {:>9}", "", "us per job", "status ms", "RSS MB");
    let show = async |what: String, kind: &str| {
        let per_job = cost(&bench, kind).await;
        let asked = Instant::now();
        bench.store.status(now()).await.expect("a status");
        bench.store.letters(redrive_store::LetterFilter::default(), 20).await.expect("letters");
        let filter = EventFilter { statuses: vec![EventStatus::Failed], ..EventFilter::default() };
        bench.store.events(filter, 20).await.expect("events");
        let status = asked.elapsed().as_secs_f64() * 1e3;
        println!("{what:<52} {per_job:>12.1} {status:>12.2} {:>9.0}", rss_mb());
    };
    show("nothing waiting".to_owned(), "bench").await;
    let mut waiting = 0;
    for target in [1_000, 10_000, 100_000, 1_000_000] {
        while waiting < target {
            let some = (target - waiting).min(5_000);
            // Half of them due, behind the measured ones in priority; half of them later.
            let later = now().after(Duration::from_secs(86_400));
            let jobs = (0..some).map(|n| NewJob {
                priority: -1,
                run_at: (n % 2 == 0).then_some(later),
                ..NewJob::new("bench", payload())
            });
            bench.store.enqueue(now(), jobs.collect()).await.expect("enqueued");
            waiting += some;
        }
        show(format!("{waiting} waiting in the same lane"), "bench").await;
    }
    let mut dead = 0;
    for target in [10_000, 100_000, 1_000_000] {
        letters::make(&bench, target - dead).await;
        dead = target;
        show(format!("and {dead} dead letters"), "bench").await;
    }
    let mut emitted = 0_u64;
    for target in [1_000_000_u64, 10_000_000] {
        while emitted < target {
            let event =
                NewEvent { event_type: "observation".into(), source: "flat".into(), ..NewEvent::default() };
            bench.store.append(now(), vec![event; 10_000]).await.expect("appended");
            emitted += 10_000;
        }
        let events = bench.store.status(now()).await.expect("a status").events;
        show(format!("and {events} events"), "bench").await;
    }
    let size = std::fs::metadata(bench.folder.path().join("bench.db")).expect("the file").len();
    println!("the file has {} MB", size >> 20);
}
