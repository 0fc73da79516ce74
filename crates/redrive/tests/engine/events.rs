//! The stream: reported, asked, exported and imported (R-E3, R-E4).

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redrive::engine::{Engine, ImportOptions};
use redrive::{Cause, Override, Policy, fail};
use redrive_policy::ErrorCategory;
use redrive_store::{ErrorInfo, Event, EventFilter, EventStatus, Order};
use serde_json::{Map, json};

use crate::support::{World, run};

fn real() -> (Engine, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Engine::open(folder.path().join("redrive.db")).unwrap(), folder)
}

async fn all(engine: &Engine) -> Vec<Event> {
    let filter = EventFilter { order: Order::OldestFirst, ..EventFilter::default() };
    engine.query(filter, 1_000).await.unwrap()
}

/// R-E3: the status is found by exit code, else error, else retry, else it is pending; chains and timelines are found.
#[test]
fn an_event_finds_its_own_status_and_its_causes() {
    run(async {
        let world = World::new();
        let engine = &world.engine;
        let error = ErrorInfo {
            error_type: "ValueError".into(),
            error_message: "bad password=hunter2".into(),
            error_category: ErrorCategory::ValidationError,
            stack_trace: None,
            more: Map::new(),
        };
        let (action, action_id) = engine
            .emit("action", "sync")
            .data(&json!({"action": "fetch"}))
            .hypothesis("H1")
            .tags(["a"])
            .await
            .unwrap();
        engine.emit("result", "sync").exit_code(0).parent(action).hypothesis("H1").await.unwrap();
        let failed = engine.emit("result", "sync").error_info(error).parent_id(&action_id).await.unwrap();
        let (_, failed_id) = failed.importance(9).await.unwrap();
        let statuses: Vec<_> = all(engine).await.iter().map(|event| event.status).collect();
        assert_eq!(statuses, [EventStatus::Pending, EventStatus::Success, EventStatus::Failed]);
        let failed = engine.get_failed_events(10).await.unwrap();
        assert_eq!(failed[0].error_info.as_ref().unwrap().error_message, "bad password=[redacted]");
        assert_eq!(failed[0].importance, 5);
        let chain: Vec<_> =
            engine.causality(&failed_id).await.unwrap().iter().map(|event| event.event_id.clone()).collect();
        assert_eq!(chain, [action_id, failed_id]);
        assert_eq!(engine.timeline("H1").await.unwrap().len(), 2);
        assert!(engine.causality("EVT-20200101-000000-000001").await.is_err());
    });
}

/// R-E3: one success event with what was done to recover, or a dead letter.
#[test]
fn an_action_is_told_with_its_retries() {
    run(async {
        let (engine, _folder) = real();
        let (value, id) =
            engine.emit_with_retry("action", "sync", || async { Ok::<_, String>(1) }).await.unwrap();
        assert_eq!(value.unwrap(), 1);
        let events = all(&engine).await;
        assert_eq!((events.len(), events[0].event_id.as_str()), (1, id.as_str()));
        assert_eq!((events[0].status, events[0].exit_code), (EventStatus::Success, Some(0)));

        let wish = Override { initial: Some(Duration::from_millis(1)), ..Override::default() };
        let policy = Policy::standard().with_override(&wish).with_max_retries(2);
        let calls = AtomicU32::new(0);
        let (value, id) = engine
            .emit_with_retry("action", "sync", || {
                let call = calls.fetch_add(1, Ordering::SeqCst);
                async move { if call < 2 { Err(fail(Cause::Network, "reset")) } else { Ok(call) } }
            })
            .policy(&policy)
            .await
            .unwrap();
        assert_eq!(value.unwrap(), 2);
        let told = engine.store().event(id).await.unwrap().unwrap();
        assert_eq!((told.status, told.event_type.as_str()), (EventStatus::Success, "action"));
        assert_eq!(told.recovery_actions.len(), 2);
        let retrying = EventFilter { statuses: vec![EventStatus::Retrying], ..EventFilter::default() };
        let retrying = engine.query(retrying, 10).await.unwrap();
        assert_eq!(retrying.len(), 2);
        assert!(retrying.iter().all(|event| event.retry_info.as_ref().unwrap().next_retry_at.is_some()));

        let (value, id) = engine
            .emit_with_retry("action", "sync", || async { Err::<(), _>(fail(Cause::Network, "reset")) })
            .policy(&policy)
            .await
            .unwrap();
        assert_eq!(value.unwrap_err().attempts_made(), 3);
        let told = engine.store().event(id).await.unwrap().unwrap();
        assert_eq!(told.status, EventStatus::DeadLetter);
        let letters = engine.get_dead_letter_queue(10).await.unwrap();
        assert_eq!((letters.len(), letters[0].attempts, letters[0].retries), (1, 3, 2));
        assert_eq!(letters[0].context["action"], "sync");
    });
}

const MIXED: &str = r#"
{"event_id":"EVT-20251106-085900-xyz789","timestamp":"2025-11-06T08:59:00.5","event_type":"action","source":"notion_sync","data":{"action":"fetch_specs"},"tags":["notion"],"importance":4}
{"event_id":"EVT-20251106-090000-abc123","timestamp":"2025-11-06T09:00:00.123456","event_type":"result","source":"notion_sync","data":{"status":"error"},"parent_event_id":"EVT-20251106-085900-xyz789","related_hypothesis_id":null,"tags":["notion","error"],"latency_ms":5000,"exit_code":1,"importance":3,"status":"failed","error_info":{"error_type":"ConnectionError","error_message":"Connection timeout","error_category":"network","stack_trace":"..."},"retry_info":{"retry_count":3,"max_retries":3,"retryable":true}}
{"event_id":"EVT-20251106-090001-abc124","timestamp":"2025-11-06T09:00:01+09:00","event_type":"action","source":"sync","data":{"attempted_action":"fetch"},"status":"retrying","error_info":{"category":"transient","message":"reset","type":"OSError","stacktrace":"at x","context":{"retry_count":1}},"retry_info":{"count":1,"max_retries":3,"next_retry_at":"2025-11-06T09:00:03","backoff_seconds":2.0},"recovery_actions":[{"timestamp":"2025-11-06T09:00:01","action":"exponential","backoff_seconds":2.0}]}
not json at all
{"event_id":"EVT-20251106-090002-abc125","timestamp":"2025-11-06T09:00:02","error_type":"ValueError","error_message":"Invalid input","error_category":"validation","retry_count":0,"context":{"action":"fetch_specs","database":"specs"}}
{"event_id":"EVT-20251106-090003-abc126","timestamp":"2025-11-06T09:00:03","event_type":"action","source":"sync","data":{},"status":"dead_letter","error_info":{"category":"permanent","message":"gone","type":"KeyError"},"retry_info":{"count":3,"max_retries":3,"exhausted":true},"color":"red"}
{"event_id":"EVT-20251106-090004-abc127","timestamp":"someday","event_type":"action","source":"sync"}
["no","object"]
"#;

/// R-E4: both shapes, mixed in one file; bad lines are counted and kept; what is exported reads back as the same lines.
#[test]
fn mixed_shapes_are_imported_and_survive_the_round_trip() {
    run(async {
        let (engine, _folder) = real();
        let options = ImportOptions { origin: "mixed.jsonl".into(), ..ImportOptions::default() };
        let imported = engine.import_events(&mut MIXED.as_bytes(), &options).await.unwrap();
        assert_eq!((imported.lines, imported.added, imported.known, imported.bad), (8, 5, 0, 3));
        let again = engine.import_events(&mut MIXED.as_bytes(), &options).await.unwrap();
        assert_eq!((again.added, again.known), (0, 5));
        let asides = engine.store().asides(0, 10).await.unwrap();
        assert_eq!(
            (asides[0].scrap.line, asides[0].scrap.text.as_slice()),
            (5, b"not json at all".as_slice())
        );

        let events = all(&engine).await;
        assert_eq!(events[0].timestamp.to_string(), "2025-11-06T08:59:00.500Z");
        assert_eq!(events[1].parent_event_id.as_deref(), Some("EVT-20251106-085900-xyz789"));
        assert_eq!(events[2].timestamp.to_string(), "2025-11-06T00:00:01.000Z");
        let error = events[2].error_info.as_ref().unwrap();
        assert_eq!((error.error_type.as_str(), error.error_message.as_str()), ("OSError", "reset"));
        assert_eq!(
            (error.error_category, &error.more["class"]),
            (ErrorCategory::Unknown, &json!("transient"))
        );
        let retry = events[2].retry_info.as_ref().unwrap();
        assert_eq!((retry.retry_count, retry.retryable), (1, true));
        assert_eq!((events[3].status, events[3].source.as_str()), (EventStatus::DeadLetter, "fetch_specs"));
        assert_eq!(events[3].error_info.as_ref().unwrap().error_category, ErrorCategory::ValidationError);
        assert_eq!(events[4].data["more"]["color"], "red");
        assert_eq!(engine.causality("EVT-20251106-090000-abc123").await.unwrap().len(), 2);

        let (mut first, mut second) = (Vec::new(), Vec::new());
        assert_eq!(engine.export_events(EventFilter::default(), &mut first).await.unwrap(), 5);
        let (copy, _folder) = real();
        copy.import_events(&mut first.as_slice(), &options).await.unwrap();
        copy.export_events(EventFilter::default(), &mut second).await.unwrap();
        assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());
    });
}

/// R-D7: what is imported is redacted as it comes in, and only once.
#[test]
fn an_import_brings_no_secrets() {
    run(async {
        let (engine, _folder) = real();
        let line = r#"{"event_id":"EVT-20251106-090000-abc123","timestamp":"2025-11-06T09:00:00","event_type":"action","status":"failed","error_info":{"type":"E","message":"login: password=hunter2","stacktrace":"at f(token=hunter3)"}}"#;
        engine.import_events(&mut line.as_bytes(), &ImportOptions::default()).await.unwrap();
        let event = all(&engine).await.remove(0);
        let error = event.error_info.unwrap();
        assert_eq!(error.error_message, "login: password=[redacted]");
        assert!(!error.stack_trace.unwrap().contains("hunter3"));
    });
}

/// R-E4: what the engine writes itself survives the round trip, and an offset may be given for times without one.
#[test]
fn our_own_events_survive_the_round_trip() {
    run(async {
        let (engine, _folder) = real();
        let _ = engine.retry("pay", || async { Err::<(), _>(fail(Cause::AuthError, "key revoked")) }).await;
        engine.emit("note", "me").data(&[1, 2]).latency(Duration::from_millis(1_500)).await.unwrap();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        engine.export_events(EventFilter::default(), &mut first).await.unwrap();
        let (copy, _folder) = real();
        let imported = copy.import_events(&mut first.as_slice(), &ImportOptions::default()).await.unwrap();
        assert_eq!(imported.bad, 0);
        copy.export_events(EventFilter::default(), &mut second).await.unwrap();
        assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());

        let (tokyo, _folder) = real();
        let options = ImportOptions { offset_minutes: 9 * 60, ..ImportOptions::default() };
        tokyo.import_events(&mut MIXED.as_bytes(), &options).await.unwrap();
        assert_eq!(all(&tokyo).await[0].timestamp.to_string(), "2025-11-05T23:59:00.500Z");
    });
}
