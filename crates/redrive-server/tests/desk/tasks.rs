//! Tasks: plans over HTTP, and what they may not do.

use redrive::{Cause, fail};
use redrive_store::Origin;
use serde_json::json;

use crate::site::{Site, on_each, until};

/// R-T1: a plan that came over HTTP runs in its order, and its story tells where each part stands.
#[tokio::test]
async fn a_plan_runs_and_tells_where_it_stands() {
    on_each(|site: Site| async move {
        let part = |id: &str, after: &[&str]| {
            json!({ "id": id, "depends_on": after, "handler": "call", "payload": { "n": id },
                "overrides": { "max_retries": 0 } })
        };
        let plan = json!({ "name": "greet", "subtasks": [part("one", &[]), part("two", &["one"])] });
        let (status, task) = site.post("/v1/tasks", &json!({ "plan": plan })).await;
        assert_eq!(status, 201, "{task}");
        assert_eq!((&task["state"], &task["subtasks"][1]["state"]), (&json!("running"), &json!("waiting")));
        let path = format!("/v1/tasks/{}", task["id"].as_str().unwrap());
        let (ends, running) = site.working(|payload| match payload["n"].as_str() {
            Some("two") => Err(fail(Cause::ValidationError, "two is no number")),
            _ => Ok(()),
        });
        until("the task is over", || async { site.get_ok(&path).await["state"] != "running" }).await;
        ends.signal();
        running.await.unwrap();
        let over = site.get_ok(&path).await;
        assert_eq!(
            (&over["subtasks"][0]["state"], &over["subtasks"][1]["state"]),
            (&json!("succeeded"), &json!("failed"))
        );
        assert_eq!(over["subtasks"][1]["cause"], "validation_error");
        let job = over["subtasks"][1]["job_id"].as_str().unwrap().parse().unwrap();
        let record = site.engine.store().job(job).await.unwrap().unwrap();
        assert_eq!(
            record.job.map(|job| job.origin),
            Some(Origin::Api),
            "it may do no more than a job of the API"
        );
        let trace = site.get_ok(&format!("{path}/trace")).await;
        assert_eq!(trace["summary"]["final_status"], "ESCALATE", "{trace}");
        let escalations = site.get_ok("/v1/escalations").await;
        assert_eq!(escalations["items"][0]["id"], task["id"]);
        let listed = site.get_ok("/v1/tasks").await;
        assert_eq!(listed["items"][0]["counts"]["failed"], 1);
        let again = site.post_ok(&format!("{path}/resume"), &json!({ "why": "two is mended" })).await;
        assert_eq!(again["state"], "running");
        site.post_ok(&format!("{path}/cancel"), &json!({})).await;
        let (ends, running) = site.working(|_| Ok(()));
        until("the task is ended", || async { site.get_ok(&path).await["state"] == "cancelled" }).await;
        ends.signal();
        running.await.unwrap();
        assert_eq!(site.post(&format!("{path}/cancel"), &json!({})).await.0, 409);
    })
    .await;
}

/// Issue 8, safety: a plan is no way to run commands on the server, whichever way it says so; and a bad one is told with places.
#[tokio::test]
async fn a_plan_from_afar_runs_no_command() {
    let site = Site::sqlite().await;
    for subtask in [
        json!({ "command": ["touch", "/tmp/owned"] }),
        json!({ "command": "touch /tmp/owned" }),
        json!({ "handler": "exec", "payload": { "argv": ["touch", "/tmp/owned"] } }),
    ] {
        let plan = json!({ "name": "x", "subtasks": [subtask] });
        let (status, problem) = site.post("/v1/tasks", &json!({ "plan": plan })).await;
        assert_eq!(status, 403, "{plan}: {problem}");
        assert!(problem["field"].as_str().unwrap().starts_with("plan.subtasks[0]"), "{problem}");
    }
    let circle = json!({ "name": "x", "subtasks": [
        { "id": "a", "depends_on": ["b"], "handler": "call" }, { "id": "b", "depends_on": ["a"], "handler": "call" },
    ] });
    let (status, problem) = site.post("/v1/tasks", &json!({ "plan": circle })).await;
    assert_eq!((status, &problem["field"]), (400, &json!("plan")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("depends_on"), "{problem}");
    assert_eq!(site.get_ok("/v1/tasks").await["items"], json!([]));
    assert_eq!(site.get("/v1/tasks/task-9").await.0, 404);
}
