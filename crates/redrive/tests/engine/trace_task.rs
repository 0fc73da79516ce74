//! The trace of a task: the events of 002 §6 with exactly their fields, told once for all subtasks (R-T9).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{Context, TaskRequest, TraceEntry, TraceEvent, latest_iteration};
use redrive::{Cause, Lang, fail};
use redrive_policy::plan::Plan;
use redrive_store::{Origin, TaskId, TaskState};
use serde_json::{Value, json};

use crate::support::{World, run};

/// The events of 002 §6 as the seed writes them, without the values.
const SEED: &[(&str, &str)] = &[
    (
        "RETRY_DECISION",
        "decision failure_type current_retry_count max_retries delay_ms modification_hint reasoning",
    ),
    ("RETRY_START", "retry_count previous_failure_type modification_hint"),
    ("RETRY_SUCCESS", "retry_count total_attempts final_status"),
    ("ESCALATE_DECISION", "reason failure_summary"),
    ("ESCALATE_EXECUTED", "user_message recommended_actions"),
    ("RECOVERY_START", "strategy failed_subtasks succeeded_subtasks"),
    ("SNAPSHOT_RESTORE", "snapshot_id restored_files deleted_files"),
    ("RECOVERY_COMPLETE", "strategy recovered_subtasks final_status"),
];

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

/// Each line has exactly the fields of the seed, and the session beside.
fn is_as_the_seed_says(entry: &TraceEntry) {
    let line = serde_json::to_value(entry).unwrap();
    let event = line["event"].as_str().unwrap();
    let (_, fields) = SEED.iter().find(|(name, _)| *name == event).expect("an event of the seed");
    assert_eq!(keys(&line["data"]), fields.split(' ').collect(), "{line}");
    let mut top = keys(&line);
    for (optional, there) in
        [("subtask_id", entry.subtask_id.is_some()), ("iteration_index", entry.iteration_index.is_some())]
    {
        assert_eq!(top.remove(optional), there, "{line}");
    }
    assert_eq!(top, BTreeSet::from(["timestamp", "event", "session_id", "task_id", "data"]), "{line}");
    if event == "ESCALATE_DECISION" {
        assert_eq!(keys(&line["data"]["reason"]), BTreeSet::from(["type", "description"]));
        let summary = &line["data"]["failure_summary"];
        assert_eq!(keys(summary), BTreeSet::from(["total_attempts", "failure_types", "last_failure"]));
        assert_eq!(keys(&summary["last_failure"]), BTreeSet::from(["type", "message", "timestamp"]));
    }
}

/// A task of handlers, as many failures before each succeeds, worked off with its dependencies.
async fn worked_off(world: &World, rounds: u32, parts: &[(&str, &[u32], u32, Cause)]) -> TaskId {
    let subtask = |(id, depends_on, ..): &(&str, &[u32], u32, Cause)| json!({ "id": id, "depends_on": depends_on, "work": { "handler": { "kind": id, "payload": null } } });
    let plan: Plan = serde_json::from_value(json!({
        "name": "release",
        "parallel": 2,
        "recovery": { "rounds": rounds, "on_escalate": "keep" },
        "subtasks": parts.iter().map(subtask).collect::<Vec<_>>(),
    }))
    .unwrap();
    let request = TaskRequest { plan, place: None, base: "/".into(), umask: None, origin: Origin::Local };
    let id = world.engine.start_task(request).await.unwrap();
    let mut worker = world.worker();
    for (kind, _, failures, cause) in parts {
        let (calls, failures, cause) = (Arc::new(AtomicU32::new(0)), *failures, *cause);
        worker = worker.handle(*kind, move |(): (), _cx: Context| {
            let fails = calls.fetch_add(1, Ordering::SeqCst) < failures;
            async move { if fails { Err(fail(cause, "connection reset")) } else { Ok(()) } }
        });
    }
    let shutdown = redrive::engine::Shutdown::new();
    let (worker, stop) = (worker.register().await.unwrap(), shutdown.clone());
    let working = tokio::spawn(async move { worker.run(&stop).await });
    let over = async {
        while world.engine.store().task(id).await.unwrap().unwrap().state == TaskState::Running {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    world.while_time_passes(Duration::from_secs(5), over).await;
    shutdown.signal();
    working.await.unwrap().unwrap();
    id
}

async fn trace(world: &World, id: TaskId, lang: Lang) -> Vec<TraceEntry> {
    let entries = world.engine.trace_task(id, lang).await.unwrap().expect("a task");
    for entry in &entries {
        assert_eq!(entry.task_id, id.to_string());
        is_as_the_seed_says(entry);
    }
    let times: Vec<_> = entries.iter().map(|entry| entry.timestamp).collect();
    assert!(times.is_sorted(), "{times:?}");
    entries
}

fn shape(entries: &[TraceEntry]) -> Vec<(TraceEvent, Option<&str>, Option<u32>)> {
    entries.iter().map(|entry| (entry.event, entry.subtask_id.as_deref(), entry.iteration_index)).collect()
}

/// R-T9: retries of subtasks, an escalation that is told once, in either language.
#[test]
fn a_task_that_cannot_go_on_is_told_once() {
    run(async {
        use TraceEvent::{EscalateDecision, EscalateExecuted, RetryDecision, RetryStart, RetrySuccess};
        let world = World::new();
        let id = worked_off(
            &world,
            0,
            &[
                ("outline", &[], 1, Cause::Network),
                ("write", &[0], 9, Cause::Quality),
                ("test", &[1], 0, Cause::Network),
            ],
        )
        .await;
        let entries = trace(&world, id, Lang::En).await;
        let write = |event, n| (event, Some("write"), Some(n));
        let mut expected = vec![
            (RetryDecision, Some("outline"), Some(1)),
            (RetryStart, Some("outline"), Some(2)),
            (RetrySuccess, Some("outline"), Some(2)),
        ];
        for n in 1..=3 {
            expected.extend([write(RetryDecision, n), write(RetryStart, n + 1)]);
        }
        expected.push(write(EscalateDecision, 4));
        let told: Vec<_> = shape(&entries)
            .into_iter()
            .filter(|(event, ..)| !matches!(event, TraceEvent::RecoveryStart | TraceEvent::RecoveryComplete))
            .collect();
        assert_eq!(told[..expected.len()], expected);
        assert_eq!(told[expected.len()..], [(EscalateExecuted, None, None)], "once, for the task");
        let decision = entries.iter().find(|entry| entry.event == EscalateDecision).unwrap();
        assert_eq!(decision.data["failure_summary"]["total_attempts"], 4);
        let executed = entries.iter().find(|entry| entry.event == EscalateExecuted).unwrap();
        let actions = executed.data["recommended_actions"].as_array().unwrap();
        assert!((2..=3).contains(&actions.len()), "{actions:?}");
        let message = executed.data["user_message"].as_str().unwrap();
        assert!(message.ends_with(&format!("redrive trace {id}")), "{message}");
        let japanese = trace(&world, id, Lang::Ja).await;
        let executed = japanese.iter().find(|entry| entry.event == EscalateExecuted).unwrap();
        assert!(executed.data["user_message"].as_str().unwrap().contains("4 回試行"), "{executed:?}");

        // A subtask's own trace names its task, and tells what its letter says.
        let job = world.engine.store().subtasks(id).await.unwrap()[1].job.unwrap();
        let own = world.engine.trace(job, Lang::En).await.unwrap().expect("a job");
        for entry in &own {
            assert_eq!(entry.task_id, id.to_string());
            is_as_the_seed_says(entry);
        }
        assert_eq!(own[0].subtask_id.as_deref(), Some("write"));
        assert_eq!(own.last().map(|entry| entry.event), Some(EscalateExecuted));
        let last = latest_iteration(entries);
        let last = shape(&last);
        assert!(last.contains(&(RetrySuccess, Some("outline"), Some(2))), "of each subtask: {last:?}");
        assert!(last.contains(&write(EscalateDecision, 4)) && !last.contains(&write(RetryStart, 3)));
        assert!(world.engine.trace_task(TaskId(999), Lang::En).await.unwrap().is_none());
    });
}

/// R-T9, R-T2: a recovery is told from its beginning to its end, with who failed and who is kept.
#[test]
fn a_recovery_is_told_from_its_beginning_to_its_end() {
    run(async {
        let world = World::new();
        let id =
            worked_off(&world, 0, &[("outline", &[], 0, Cause::Network), ("write", &[0], 4, Cause::Network)])
                .await;
        assert!(world.engine.resume_task(id).await.unwrap());
        let worker =
            world.worker().handle("write", |(): (), _cx: Context| async { Ok::<(), redrive::Fail>(()) });
        let shutdown = redrive::engine::Shutdown::new();
        let (worker, stop) = (worker.register().await.unwrap(), shutdown.clone());
        let working = tokio::spawn(async move { worker.run(&stop).await });
        let over = async {
            while world.engine.store().task(id).await.unwrap().unwrap().state == TaskState::Running {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        world.while_time_passes(Duration::from_secs(5), over).await;
        shutdown.signal();
        working.await.unwrap().unwrap();
        let entries = trace(&world, id, Lang::En).await;
        let start = entries.iter().rfind(|entry| entry.event == TraceEvent::RecoveryStart).expect("a start");
        assert_eq!(start.data["strategy"], "RETRY_FAILED_ONLY");
        assert_eq!(start.data["failed_subtasks"], json!(["write"]));
        assert_eq!(start.data["succeeded_subtasks"], json!(["outline"]));
        let end = entries.last().unwrap();
        assert_eq!(end.event, TraceEvent::RecoveryComplete);
        assert_eq!(
            (&end.data["recovered_subtasks"], &end.data["final_status"]),
            (&json!(["write"]), &json!("PASS"))
        );
    });
}
