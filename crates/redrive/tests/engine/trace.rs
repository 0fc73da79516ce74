//! A job's trace as a view of its story (R-T9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{Context, TraceEntry, TraceEvent, latest_iteration};
use redrive::{Cause, Lang, Override, fail};
use redrive_store::JobId;

use crate::support::{World, run};

/// A job that fails this often before it succeeds, with one retry allowed; worked off once.
async fn failing(world: &World, failures: u32, calls: &Arc<AtomicU32>) {
    let counted = Arc::clone(calls);
    let work = world
        .worker()
        .handle("fetch", move |(): (), _cx: Context| {
            let fails = counted.fetch_add(1, Ordering::SeqCst) < failures;
            async move { if fails { Err(fail(Cause::Network, "connection reset")) } else { Ok(()) } }
        })
        .run_until_empty();
    world.while_time_passes(Duration::from_secs(5), work).await.unwrap();
}

async fn trace(world: &World, job: JobId) -> Vec<TraceEntry> {
    world.engine.trace(job, Lang::En).await.unwrap().expect("a job")
}

fn shape(entries: &[TraceEntry]) -> Vec<(TraceEvent, Option<u32>)> {
    entries.iter().map(|entry| (entry.event, entry.iteration_index)).collect()
}

/// R-T9: decisions, starts, successes, escalations and recoveries, with the attempt as the iteration, from 1.
#[test]
fn a_trace_tells_retries_escalation_and_recovery() {
    run(async {
        use TraceEvent::{
            EscalateDecision, EscalateExecuted, RecoveryComplete, RecoveryStart, RetryDecision, RetryStart,
            RetrySuccess,
        };
        let world = World::new();
        let wish = Override { max_retries: Some(1), ..Override::default() };
        let job = world.engine.job("fetch", &()).overrides(&wish).enqueue().await.unwrap().id;
        assert_eq!(trace(&world, job).await, []);
        let calls = Arc::new(AtomicU32::new(0));
        failing(&world, 3, &calls).await;
        let died = [
            (RetryDecision, Some(1)),
            (RetryStart, Some(2)),
            (EscalateDecision, Some(2)),
            (EscalateExecuted, None),
        ];
        let entries = trace(&world, job).await;
        assert_eq!(shape(&entries), died);
        assert_eq!(entries[0].data["decision"], "RETRY");
        assert_eq!(entries[0].data["failure_type"], "TRANSIENT_ERROR");
        assert_eq!(entries[0].data["current_retry_count"], 0);
        assert_eq!(entries[1].data["retry_count"], 1);
        assert_eq!(entries[1].data["previous_failure_type"], "TRANSIENT_ERROR");
        assert_eq!(entries[2].data["reason"]["type"], "MAX_RETRIES");
        assert_eq!(entries[2].data["failure_summary"]["total_attempts"], 2);
        assert_eq!(entries[2].data["failure_summary"]["last_failure"]["message"], "connection reset");
        let message = entries[3].data["user_message"].as_str().expect("the letter's own message");
        assert!(message.contains("connection reset"), "{message}");
        for entry in &entries {
            let line = serde_json::to_value(entry).unwrap();
            for field in ["timestamp", "event", "session_id", "task_id", "data"] {
                assert!(!line[field].is_null(), "{field} is mandatory: {line}");
            }
            assert_eq!(line["event"], entry.event.name());
        }

        world.engine.redrive(vec![job]).await.unwrap();
        failing(&world, 3, &calls).await;
        let entries = trace(&world, job).await;
        let healed = [
            (RecoveryStart, None),
            (RetryDecision, Some(1)),
            (RetryStart, Some(2)),
            (RetrySuccess, Some(2)),
            (RecoveryComplete, None),
        ];
        assert_eq!(shape(&entries), [died.as_slice(), &healed].concat());
        assert_eq!(entries[8].data["final_status"], "PASS");
        // The letter is gone, and its report with it; what the stream knows is still told.
        assert_eq!(entries[2].data["reason"]["type"], "MAX_RETRIES");
        assert_eq!(entries[2].data["failure_summary"]["failure_types"].as_array().map(Vec::len), Some(2));
        let last = latest_iteration(entries);
        assert_eq!(
            shape(&last),
            [
                (EscalateExecuted, None),
                (RecoveryStart, None),
                (RetryStart, Some(2)),
                (RetrySuccess, Some(2)),
                (RecoveryComplete, None)
            ]
        );
        assert!(world.engine.trace(JobId(999), Lang::En).await.unwrap().is_none());
    });
}
