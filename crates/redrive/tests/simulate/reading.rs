//! What is read: the period, the lanes, the causes and the jobs that were asked for, and nothing is dropped silently.

use std::time::Duration;

use redrive::engine::{EngineBuilder, EngineError, Simulate};
use redrive::{Cause, Fail, fail};
use redrive_store::JobId;

use crate::world::{World, beside, candidate, on_both, second, whole};

/// Three jobs of two kinds fail for some seconds each, from 0, 1000 and 2000 s on, and die.
async fn record(world: &World) -> Vec<JobId> {
    let worker = world
        .worker()
        .handle("mail", |(): (), _cx| async { Err::<(), Fail>(fail(Cause::Network, "refused")) })
        .handle("sms", |(): (), _cx| async { Err::<(), Fail>(fail(Cause::Timeout, "timed out")) });
    beside(worker, async {
        let mut jobs = Vec::new();
        for (at, kind) in [(0, "mail"), (1_000, "sms"), (2_000, "mail")] {
            world.until(second(at), &jobs).await;
            jobs.push(world.engine.job(kind, &()).enqueue().await.unwrap().id);
        }
        world.until(second(9_000), &jobs).await;
        jobs
    })
    .await
}

/// Issue 5, item 5: queue, kind, cause, period and limit choose; a story that began before the period is taken whole.
#[test]
fn it_reads_what_was_asked_for() {
    on_both(&|builder: EngineBuilder| builder, |world| async move {
        record(&world).await;
        let all = whole(world.engine.now(), vec![candidate("standard")]);
        let jobs = async |wanted: Simulate| {
            let simulation = world.engine.simulate(&wanted).await.unwrap();
            assert_eq!(simulation.simulated[0].departing, 0);
            (simulation.recorded.jobs, simulation.recorded.attempts.most, simulation.beyond_limit)
        };
        // The standard policy retries the network three times, and what timed out twice: 4 + 3 + 4 attempts.
        assert_eq!(jobs(all.clone()).await, (3, 11, 0));
        assert_eq!(jobs(Simulate { kind: Some("mail".into()), ..all.clone() }).await, (2, 8, 0));
        assert_eq!(jobs(Simulate { cause: Some(Cause::Timeout), ..all.clone() }).await, (1, 3, 0));
        assert_eq!(jobs(Simulate { queue: Some("elsewhere".into()), ..all.clone() }).await, (0, 0, 0));
        assert_eq!(jobs(Simulate { limit: 2, ..all.clone() }).await, (2, 7, 1));
        let until = second(999);
        assert_eq!(jobs(Simulate { until, ..all.clone() }).await, (1, 4, 0));
        // It began at 2000: its first failure is not in the period, its others are.
        let since = second(2_000).after(Duration::from_millis(1));
        assert_eq!(jobs(Simulate { since, ..all.clone() }).await, (1, 4, 0));

        let unknown = Simulate { candidates: vec![candidate("gremlin")], ..all };
        let error = world.engine.simulate(&unknown).await.unwrap_err();
        assert!(matches!(error, EngineError::UnknownPolicy { .. }), "{error}");
    });
}
