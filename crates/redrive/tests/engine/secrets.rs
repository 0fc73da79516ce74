//! Reliability row 62, invariant I8, in the library: a secret in an error, its source, a panic, a hint, a batch, a reason or
//! an event's data stands in nothing that is kept but the job's payload.

use redrive::engine::{BatchContext, Context, ImportOptions, Item, ItemAnswer};
use redrive::{Cause, Details, fail};
use redrive_store::{ErrorInfo, EventFilter, JobId, LetterFilter, NewJob, RecoveryAction, RetryInfo};
use serde_json::json;

use crate::support::{World, run, start};

const SECRET: &str = "canary5shape";

/// All that the store tells, payloads apart.
async fn told(world: &World) -> String {
    let events = world.engine.query(EventFilter::default(), 1_000).await.unwrap();
    let letters = world.engine.store().letters(LetterFilter::default(), 100).await.unwrap();
    let mut exported = Vec::new();
    world.engine.export_events(EventFilter::default(), &mut exported).await.unwrap();
    let mut text = String::from_utf8(exported).unwrap();
    for event in &events {
        text += &serde_json::to_string(event).unwrap();
    }
    for letter in &letters {
        text += &serde_json::to_string(letter).unwrap();
    }
    text
}

/// R-D7, I8: whatever a handler ends with.
#[test]
fn what_a_handler_ends_with_is_blanked() {
    run(async {
        let world = World::new();
        let error = world
            .engine
            .enqueue(NewJob::new("error", json!({ "password": SECRET }).to_string()))
            .await
            .unwrap()
            .id;
        let panics = world.engine.enqueue(NewJob::new("panics", json!({}).to_string())).await.unwrap().id;
        let hinted = world.engine.enqueue(NewJob::new("hinted", json!({}).to_string())).await.unwrap().id;
        let worker = world
            .worker()
            .handle("error", async |input: serde_json::Value, _: Context| -> Result<(), std::io::Error> {
                let said =
                    format!("login failed: password={}", input["password"].as_str().unwrap_or_default());
                Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, said))
            })
            .handle("panics", async |_: serde_json::Value, _: Context| -> Result<(), std::io::Error> {
                panic!("no session for token={SECRET}");
            })
            .handle("hinted", async |_: serde_json::Value, _: Context| {
                let details = Details {
                    specific_issues: vec![format!("api_key={SECRET}")],
                    previous_output_summary: Some(format!("Authorization: Bearer {SECRET}99")),
                    ..Details::default()
                };
                Err::<(), _>(
                    fail(Cause::Incomplete, format!("https://u:{SECRET}@h/ answered half")).details(details),
                )
            });
        world.while_time_passes(std::time::Duration::from_mins(1), worker.run_until_empty()).await.unwrap();
        for job in [error, panics, hinted] {
            world.letter(job).await;
        }
        let told = told(&world).await;
        assert!(told.contains("[redacted]") && told.contains("login failed"), "{told}");
        assert!(!told.contains(SECRET), "{told}");
        // Inputs are kept verbatim.
        let payload = String::from_utf8(world.letter(error).await.payload).unwrap();
        assert!(payload.contains(SECRET), "{payload}");
    });
}

/// R-D7, I8: whatever somebody reports, and why somebody ends a job.
#[test]
fn what_is_reported_is_blanked() {
    run(async {
        let world = World::new();
        let secret = |name: &str| format!("{name}={SECRET}");
        let error = ErrorInfo {
            error_type: "E".to_owned(),
            error_message: secret("password"),
            error_category: redrive_policy::ErrorCategory::Network,
            stack_trace: Some(secret("token")),
            more: json!({ "note": secret("pwd") }).as_object().cloned().unwrap(),
        };
        let retry = RetryInfo {
            retry_count: 1,
            max_retries: 3,
            retryable: true,
            next_retry_at: None,
            more: json!({ "secret": SECRET }).as_object().cloned().unwrap(),
        };
        let action = RecoveryAction {
            timestamp: start(),
            action: secret("api_key"),
            more: json!({ "cookie": SECRET }).as_object().cloned().unwrap(),
        };
        let data = json!({ "password": SECRET, "list": [secret("token")], "count": 3, "key": "orders/17" });
        world
            .engine
            .emit("note", "test")
            .data(&data)
            .tags([secret("sig")])
            .error_info(error)
            .retry_info(retry)
            .recovery_actions(vec![action])
            .await
            .unwrap();
        let job = world.engine.enqueue(NewJob::new("mail", json!({}).to_string())).await.unwrap().id;
        world.engine.cancel(job, secret("passphrase")).await.unwrap();
        let told = told(&world).await;
        assert!(told.contains("orders/17") && told.contains("\"count\":3"), "{told}");
        assert!(!told.contains(SECRET), "{told}");
        // What is kept aside says why without repeating it.
        let line = format!("{{\"event_id\":\"x\",\"timestamp\":\"token={SECRET}\"}}\n");
        world.engine.import_events(&mut line.as_bytes(), &ImportOptions::default()).await.unwrap();
        let why = &world.engine.store().asides(0, 10).await.unwrap()[0].scrap.why;
        assert!(why.contains("timestamp") && !why.contains(SECRET), "{why}");
    });
}

/// What no rule would recognise: only whoever knows what the job was given can.
const GIVEN: &str = "Marten-Rook";

/// What the handlers below repeat of what they were given.
fn said(input: &serde_json::Value) -> String {
    let user = input["user"].as_str().unwrap();
    let password = input["card"]["password"].as_str().unwrap();
    format!("marker: {user} with {password}")
}

/// R-D7, I8, reliability row 62: what a job was given under a name that speaks of a secret is blanked wherever its attempt repeats it
/// bare: in an error, a panic, a hint, a batch, a reason, the end of a retry in process. What stands beside it is told.
#[test]
fn what_a_job_was_given_is_blanked() {
    run(async {
        let world = World::new();
        let payload = json!({ "user": "ada-lovelace", "card": { "password": GIVEN } });
        let mut jobs = Vec::new();
        for kind in ["error", "panics", "hinted", "aside", "batched", "panicking-batch"] {
            jobs.push(world.engine.enqueue(NewJob::new(kind, payload.to_string())).await.unwrap().id);
        }
        let worker = world
            .worker()
            .handle("error", async |input: serde_json::Value, _: Context| -> Result<(), std::io::Error> {
                Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, said(&input)))
            })
            .handle("panics", async |input: serde_json::Value, _: Context| -> Result<(), std::io::Error> {
                panic!("{}", said(&input));
            })
            .handle("hinted", async |input: serde_json::Value, _: Context| {
                let details = Details { specific_issues: vec![said(&input)], ..Details::default() };
                Err::<(), _>(fail(Cause::Incomplete, said(&input)).details(details))
            })
            .handle("aside", async |input: serde_json::Value, _: Context| {
                Err::<(), _>(fail(Cause::ValidationError, said(&input)))
            })
            .handle_batch("batched", 10, async |items: Vec<Item<serde_json::Value>>, _: BatchContext| {
                let words = said(&items[0].payload);
                Err::<Vec<(JobId, ItemAnswer)>, _>(fail(Cause::ValidationError, words))
            })
            .handle_batch(
                "panicking-batch",
                10,
                async |items: Vec<Item<serde_json::Value>>, _: BatchContext| {
                    let words = said(&items[0].payload);
                    assert!(words.is_empty(), "{words}");
                    Ok::<Vec<(JobId, ItemAnswer)>, redrive::Fail>(Vec::new())
                },
            );
        world.while_time_passes(std::time::Duration::from_mins(1), worker.run_until_empty()).await.unwrap();
        for job in jobs {
            let letter = world.letter(job).await;
            assert!(letter.error_message.contains("marker: ada-lovelace with [redacted]"), "{letter:?}");
        }
        let told = told(&world).await;
        assert!(!told.contains(GIVEN), "{told}");
    });
}
