//! Schedules and alerts over HTTP, and the numbers that Prometheus reads.

use reqwest::Method;
use serde_json::json;

use crate::site::{Site, told};

/// Schedules: one is added, looked at, paused, run, replaced and removed, with who did it; on both stores.
#[tokio::test]
async fn a_schedule_lives_over_http() {
    for site in Site::both().await {
        let body = json!({
            "name": "morning", "cron": "0 6 * * *", "tz": "Asia/Tokyo", "missed": "skip",
            "job": { "kind": "report", "queue": "reports", "payload": { "n": 1 }, "priority": 7 },
        });
        let (status, added) = site.post("/v1/schedules", &body).await;
        assert_eq!(
            (status, &added["missed"], &added["queue"]),
            (201, &json!("skip"), &json!("reports")),
            "{added}"
        );
        assert!(added["next_in_zone"].as_str().unwrap().ends_with("06:00:00 JST"), "{added}");
        assert_eq!(added["upcoming"].as_array().unwrap().len(), 3);
        let (status, taken) = site.post("/v1/schedules", &body).await;
        assert_eq!((status, &taken["code"]), (409, &json!("conflict")), "{taken}");
        let (_, paused) = site.post("/v1/schedules/morning/pause", &json!({})).await;
        assert!(paused["paused_at"].is_string() && paused["next"].is_null(), "{paused}");
        let (_, resumed) = site.post("/v1/schedules/morning/resume", &json!({})).await;
        assert!(resumed["next"].is_string(), "{resumed}");
        let (status, ran) = site.post("/v1/schedules/morning/run", &json!({ "why": "now" })).await;
        assert_eq!(status, 201, "{ran}");
        let (_, job) = site.get(&format!("/v1/jobs/{}", ran["id"].as_str().unwrap())).await;
        assert_eq!((&job["queue"], &job["caller_id"]), (&json!("reports"), &json!("morning@now")), "{job}");
        let put = site.ask(Method::PUT, "/v1/schedules/morning");
        let changed = json!({ "cron": "@daily", "job": { "kind": "report" } });
        let (status, replaced) = told(put.json(&changed).send().await.unwrap()).await;
        assert_eq!(
            (status, &replaced["cron"], &replaced["tz"]),
            (200, &json!("@daily"), &json!("UTC")),
            "{replaced}"
        );
        let (_, all) = site.get("/v1/schedules").await;
        assert_eq!(all["items"].as_array().unwrap().len(), 1);
        let gone = site.ask(Method::DELETE, "/v1/schedules/morning").send().await.unwrap();
        assert_eq!(gone.status(), 204);
        assert_eq!(site.get("/v1/schedules/morning").await.0, 404);
        let (_, acts) = site.get("/v1/events?type=operator_act").await;
        let acts: Vec<&str> =
            acts["items"].as_array().unwrap().iter().filter_map(|one| one["data"]["act"].as_str()).collect();
        for act in ["schedule.add", "schedule.pause", "schedule.resume", "schedule.run", "schedule.remove"] {
            assert!(acts.contains(&act), "{act} is not written down: {acts:?}");
        }
    }
}

/// Schedules: what cannot be obeyed is told with its field.
#[tokio::test]
async fn a_bad_schedule_is_told_where_it_is_bad() {
    let site = Site::sqlite().await;
    let add = |cron: &str, tz: &str, kind: &str| {
        let body = json!({ "cron": cron, "tz": tz, "job": { "kind": kind, "payload": {} } });
        let site = &site;
        async move { site.post("/v1/schedules", &body).await }
    };
    let (status, bad) = add("0 25 * * *", "UTC", "k").await;
    assert_eq!((status, &bad["field"]), (400, &json!("cron")));
    let said = bad["detail"].as_str().unwrap();
    assert!(
        said.contains("character 3, hour: 25 is not between 0 and 23. The fields are minute, hour"),
        "{bad}"
    );
    for (cron, said) in [
        ("@dayly", "Perhaps @daily is meant."),
        (
            "0 6 * * Friday",
            "character 9, day of the week: Friday is neither a number nor a name. Perhaps FRI",
        ),
        ("0 6", "it has 2 fields instead of five"),
        ("0 6 31 2 *", "no day ever fits"),
    ] {
        let (_, bad) = add(cron, "UTC", "k").await;
        assert!(bad["detail"].as_str().unwrap().contains(said), "{cron}: {bad}");
    }
    let (status, bad) = add("0 6 * * *", "Tokyo", "k").await;
    assert_eq!((status, &bad["field"]), (400, &json!("tz")));
    assert!(bad["detail"].as_str().unwrap().contains("Asia/Tokyo"), "{bad}");
    let (_, bad) = add("0 6 * * *", "Asia/Toyko", "k").await;
    assert!(bad["detail"].as_str().unwrap().ends_with("Perhaps one of these is meant: Asia/Tokyo."), "{bad}");
    // The same rules as for jobs that come in over the API.
    assert_eq!(add("0 6 * * *", "UTC", "http").await.0, 400);
    let (_, all) = site.get("/v1/schedules").await;
    assert_eq!(all["items"], json!([]));
}

/// R-C5: rules are looked at, silenced and heard again over HTTP; without receivers a test is refused.
#[tokio::test]
async fn alerts_are_operated_over_http() {
    for site in Site::both().await {
        let (status, alerts) = site.get("/v1/alerts").await;
        assert_eq!(
            (status, &alerts["firing"], &alerts["schema"]),
            (200, &json!(false), &json!("redrive/alerts.v1"))
        );
        assert_eq!(alerts["rules"].as_array().unwrap().len(), 8, "{alerts}");
        assert_eq!(site.get("/v1/alerts/check").await.1["firing"], false);
        let (status, silenced) = site
            .post(
                "/v1/alerts/silences",
                &json!({ "of": "duplicates", "for_ms": 60_000, "why": "a load test" }),
            )
            .await;
        assert_eq!(
            (status, &silenced["rule"], &silenced["by"]),
            (201, &json!("duplicates"), &json!("local")),
            "{silenced}"
        );
        let (_, listed) = site.get("/v1/alerts/silences").await;
        assert_eq!(listed["items"][0]["why"], "a load test");
        let (status, unknown) =
            site.post("/v1/alerts/silences", &json!({ "of": "nothing", "for_ms": 60_000 })).await;
        assert_eq!((status, &unknown["field"]), (404, &json!("of")), "{unknown}");
        let ended = site.ask(Method::DELETE, "/v1/alerts/silences/duplicates").send().await.unwrap();
        assert_eq!(ended.status(), 204);
        let (status, nobody) = site.post("/v1/alerts/test", &json!({})).await;
        assert_eq!((status, &nobody["code"]), (409, &json!("conflict")), "{nobody}");
    }
}

/// Reliability row 61: what an alert sends is taken by no redrive, so that alerts do not go round in circles.
#[tokio::test]
async fn an_alert_that_comes_to_a_server_is_refused() {
    let site = Site::sqlite().await;
    let ask = site.ask(Method::POST, "/v1/jobs").header("redrive-alert-hop", "1");
    let (status, problem) = told(ask.json(&json!({ "kind": "k" })).send().await.unwrap()).await;
    assert_eq!(status, 400, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("alert"), "{problem}");
}

/// R-C4: numbers in the form that was asked for, the server's own among them, with labels that are bounded by the routes.
#[tokio::test]
async fn metrics_are_told_in_both_forms() {
    let site = Site::sqlite().await;
    for n in 0..20 {
        site.get(&format!("/v1/jobs/job_{n}")).await;
        site.get(&format!("/nowhere/{n}")).await;
    }
    let plain = site.ask(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(plain.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let plain = plain.text().await.unwrap();
    assert!(
        plain.contains("# TYPE redrive_http_requests_total counter\n") && !plain.contains("# EOF"),
        "{plain}"
    );
    let counted = "redrive_http_requests_total{method=\"GET\",route=\"/v1/jobs/{id}\",status=\"4xx\"} 20\n";
    assert!(plain.contains(counted), "{plain}");
    assert!(
        plain.contains("redrive_http_requests_total{method=\"any\",route=\"other\",status=\"4xx\"} 20\n"),
        "{plain}"
    );
    assert!(!plain.contains("nowhere"), "paths are no labels");
    let open = site
        .ask(Method::GET, "/metrics")
        .header("accept", "application/openmetrics-text; version=1.0.0, text/plain;q=0.5");
    let open = open.send().await.unwrap();
    assert_eq!(open.headers()["content-type"], "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let open = open.text().await.unwrap();
    assert!(open.ends_with("# EOF\n") && open.matches("# EOF").count() == 1);
    assert!(open.contains("# TYPE redrive_http_requests counter\nredrive_http_requests_total{"), "{open}");
    let families = |text: &str| text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(families(&plain), families(&open), "the same in both forms");
}
