//! The shortest way through the store: a job is enqueued, leased, settled, and leaves its story (R-D1, R-D2, R-E2).

use std::time::Duration;

use redrive_store::{
    Ending, EventFilter, Events, Housekeeping, Jobs, LeaseRequest, Leases, NewJob, Order, Settled,
    Settlement, Sqlite, SqliteOptions, Timestamp, Workers,
};

/// R-E2: a job that simply succeeds leaves pending, running and success.
#[tokio::test]
async fn a_job_that_simply_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap();
    let now = Timestamp::from_millis(1_700_000_000_000);
    let worker = store.register(now, "test".into(), Duration::from_secs(30)).await.unwrap();
    let enqueued = store.enqueue(now, vec![NewJob::new("greet", "{\"who\":\"you\"}")]).await.unwrap();
    let request = LeaseRequest {
        worker,
        queues: vec![],
        kinds: vec!["greet".into()],
        reserved_only: false,
        max: 10,
        lease_for: Duration::from_secs(30),
        begin: true,
        wait: Duration::ZERO,
    };
    let leased = store.lease(now, request).await.unwrap();
    assert_eq!(leased.len(), 1);
    assert_eq!((leased[0].token.job, leased[0].attempt, leased[0].begun), (enqueued[0].id, 1, true));
    let ending = Ending::Succeeded {
        latency: Duration::from_millis(3),
        exit_code: None,
        max_retries: 3,
        output: None,
    };
    let settlement = Settlement { token: leased[0].token, ending };
    let settled = store.settle(now, vec![settlement.clone()]).await.unwrap();
    assert!(matches!(settled[..], [Settled::Done { .. }]));
    assert_eq!(store.settle(now, vec![settlement]).await.unwrap(), [Settled::Stale]);
    let filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
    let events = store.events(filter, 10).await.unwrap();
    let said: Vec<_> = events.iter().map(|event| event.status.name()).collect();
    // The last one tells of who came too late.
    assert_eq!(said, ["pending", "running", "success", "pending"]);
    assert_eq!(events[3].event_type, "stale_settle");
    for pair in events.windows(2) {
        assert_eq!(pair[1].parent_event_id.as_ref(), Some(&pair[0].event_id));
    }
    let report = store.check().await.unwrap();
    assert!(report.is_clean(), "{report:#?}");
    let of_job = EventFilter { job: Some(enqueued[0].id), ..EventFilter::default() };
    assert_eq!(store.events(of_job, 10).await.unwrap().len(), 4);
}
