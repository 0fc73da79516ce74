//! What a token of some queues hears of others' things by the way: through the places where pages go on, through groups that both have,
//! through names that both chose.

use redrive::engine::Scope;
use redrive::{Cause, fail};
use serde_json::{Value, json};

use crate::site::{Site, on_each};

const SOME: [Scope; 3] = [Scope::Read, Scope::Operate, Scope::Produce];

fn items(page: &Value) -> Vec<Value> {
    page["items"].as_array().unwrap().clone()
}

/// Issue 8, safety: pages of a token of some queues are as long as they were asked for, behind whatever others have, and neither their items nor
/// their places to go on at name anything of others.
#[tokio::test]
async fn pages_name_nothing_of_others() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..1).await;
        site.work(|_| Err(fail(Cause::ValidationError, "our own mistake"))).await;
        site.enqueue("sms", 0..6).await;
        site.work(|payload| {
            let words = ["alpha", "beta", "gamma"][usize::try_from(payload["n"].as_u64().unwrap()).unwrap() % 3];
            Err(fail(Cause::ValidationError, words))
        })
        .await;
        let all = site.token(&Scope::ALL, &[]).await;
        let mail = site.token(&SOME, &["ma*"]).await;
        let put = |method: &'static str, path: &'static str, body: Value| {
            let (site, token) = (&site, &all);
            async move {
                let (status, told) = site.ask(token, method, path, Some(body)).await;
                assert!((200..300).contains(&status), "{path}: {status} {told}");
                told
            }
        };
        for name in ["a-merger", "b-merger", "zz-own"] {
            let queue = if name == "zz-own" { "mail" } else { "sms" };
            let job = json!({ "queue": queue, "kind": "call" });
            put("POST", "/v1/schedules", json!({ "name": name, "cron": "0 6 * * *", "job": job })).await;
        }
        let limits = || json!({ "rate": "10/s" });
        put("POST", "/v1/targets/host:merger.example/limits", limits()).await;
        put("POST", "/v1/targets/queue:aaa-merger/limits", limits()).await;
        put("POST", "/v1/targets/queue:mail/limits", limits()).await;
        let later = json!({ "delay_ms": 3_600_000, "kind": "call", "queue": "mail" });
        put("POST", "/v1/jobs", later).await;
        for _ in 0..3 {
            let later = json!({ "delay_ms": 3_600_000, "kind": "call", "queue": "sms", "caller_id": "ada" });
            put("POST", "/v1/jobs", later).await;
        }
        let plan = |queue: &str| json!({ "plan": { "name": queue, "queue": queue, "subtasks": [{ "handler": "call" }] } });
        assert_eq!(site.ask(&mail, "POST", "/v1/tasks", Some(plan("mail"))).await.0, 201);
        let own = items(&site.ask(&mail, "GET", "/v1/dead-letters", None).await.1)[0]["id"].clone();
        let run = json!({ "ids": [own], "rate": "1/h" });
        assert_eq!(site.ask(&mail, "POST", "/v1/redrives", Some(run)).await.0, 201);
        for _ in 0..3 {
            put("POST", "/v1/tasks", plan("sms")).await;
            put("POST", "/v1/redrives", json!({ "where": "queue=sms", "rate": "1/h" })).await;
        }
        for (path, what, is) in [
            ("/v1/schedules?limit=1", "name", json!("zz-own")),
            ("/v1/targets?limit=1", "name", json!("queue:mail")),
            ("/v1/jobs?limit=1&state=scheduled", "queue", json!("mail")),
            ("/v1/escalations?limit=1&all=true", "id", own.clone()),
            ("/v1/tasks?limit=1", "name", json!("mail")),
            ("/v1/redrives?limit=1", "total", json!(1)),
            ("/v1/groups?limit=1", "sample", json!("our own mistake")),
        ] {
            let (status, page) = site.ask(&mail, "GET", path, None).await;
            assert_eq!((status, items(&page).len()), (200, 1), "{path}: {page}");
            assert_eq!(items(&page)[0][what], is, "{path}: {page}");
            assert!(!page.to_string().contains("merger") && page["more"] != true, "{path}: {page}");
            // Behind it there is nothing of its own, and the way there names nothing.
            let Some(next) = page["next"].as_str() else { continue };
            let (status, rest) = site.ask(&mail, "GET", &format!("{path}&cursor={next}"), None).await;
            assert_eq!((status, items(&rest).len()), (200, 0), "{path}: {rest}");
        }
        for path in ["/v1/jobs?caller_id=ada&limit=1", "/v1/targets?limit=1&cursor=queue:mail"] {
            let (_, nothing) = site.ask(&mail, "GET", path, None).await;
            assert_eq!(nothing, json!({ "items": [] }), "{path}");
        }
    })
    .await;
}

/// Issue 8, safety: lists without a filter of their own are paged to their end, each item once.
#[tokio::test]
async fn tasks_and_redrives_are_paged() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..1).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no"))).await;
        for _ in 0..7 {
            let plan = json!({ "name": "x", "subtasks": [{ "handler": "call" }] });
            site.post_ok("/v1/tasks", &json!({ "plan": plan })).await;
            site.post_ok("/v1/redrives", &json!({ "where": "queue=mail", "rate": "1/h" })).await;
        }
        for list in ["/v1/tasks?open=true", "/v1/tasks", "/v1/redrives"] {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let joint = if list.contains('?') { '&' } else { '?' };
                let page = site.get_ok(&format!("{list}{joint}limit=3{cursor}")).await;
                seen.extend(items(&page).iter().map(|item| item["id"].as_str().unwrap().to_owned()));
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            let mut unique = seen.clone();
            unique.sort();
            unique.dedup();
            assert_eq!((seen.len(), unique.len()), (7, 7), "{list}: {seen:?}");
        }
        assert_eq!(site.get("/v1/tasks?cursor=yesterday").await.0, 400);
        assert_eq!(site.get("/v1/redrives?cursor=yesterday").await.0, 400);
    })
    .await;
}

/// Issue 8, safety: of a group that others have letters in as well, a token of some queues is told what lies in its own, and not what was said of
/// the others, how many there were and when.
#[tokio::test]
async fn a_shared_group_tells_nothing_of_others() {
    on_each(|site: Site| async move {
        let dies = |_: &Value| Err(fail(Cause::ValidationError, "no such column"));
        site.enqueue("sms", 0..2).await;
        site.work(dies).await;
        site.enqueue("mail", 0..1).await;
        site.work(dies).await;
        site.enqueue("sms", 2..4).await;
        site.work(dies).await;
        let all = site.token(&Scope::ALL, &[]).await;
        let mail = site.token(&SOME, &["ma*"]).await;
        let whole = items(&site.ask(&all, "GET", "/v1/groups", None).await.1)[0].clone();
        assert_eq!((&whole["count"], &whole["failures"]), (&json!(5), &json!(5)), "{whole}");
        let path = format!("/v1/groups/{}", whole["fingerprint"].as_str().unwrap());
        let say = json!({ "state": "acknowledged", "note": "the customer ACME of sms" });
        assert_eq!(site.ask(&all, "POST", &format!("{path}/state"), Some(say)).await.0, 200);
        let letter = items(&site.ask(&mail, "GET", "/v1/dead-letters", None).await.1)[0].clone();
        let listed = items(&site.ask(&mail, "GET", "/v1/groups", None).await.1)[0].clone();
        for seen in [listed, site.ask(&mail, "GET", &path, None).await.1] {
            assert_eq!((&seen["count"], &seen["state"]), (&json!(1), &json!("acknowledged")), "{seen}");
            assert_eq!(
                (&seen["first_seen"], &seen["last_seen"]),
                (&letter["timestamp"], &letter["timestamp"])
            );
            for other in ["failures", "under_way", "recovered", "relapsed", "note"] {
                assert!(seen[other].is_null(), "{other}: {seen}");
            }
        }
        let (_, told) = site.ask(&all, "GET", &path, None).await;
        assert_eq!(told["note"], "the customer ACME of sms");
    })
    .await;
}

/// Issue 8, limits: whoever is limited to queues does not make the server read all events for one answer: it looks at so many, and says where to go
/// on.
#[tokio::test]
async fn events_out_of_reach_are_read_a_few_at_a_time() {
    let site = Site::sqlite().await;
    site.enqueue("mail", 0..1).await;
    for from in 0..7 {
        site.enqueue("sms", from * 1_000..(from + 1) * 1_000).await;
    }
    let mail = site.token(&SOME, &["ma*"]).await;
    let (mut pages, mut found, mut cursor) = (0, Vec::new(), String::new());
    loop {
        let path = format!("/v1/events?limit=1&type=job_enqueued{cursor}");
        let (status, page) = site.ask(&mail, "GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        pages += 1;
        found.extend(items(&page).iter().map(|event| event["data"]["queue"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!((pages, found), (2, vec![json!("mail")]));
}

/// Issue 8, safety: a job of another queue that calls itself a part of a task is not told in the trace of it.
#[tokio::test]
async fn a_name_makes_no_job_a_part_of_anothers_task() {
    on_each(|site: Site| async move {
        let plan = json!({ "name": "mine", "queue": "mail", "subtasks": [{ "id": "x", "handler": "call" }] });
        let task = site.post_ok("/v1/tasks", &json!({ "plan": plan })).await["id"].clone();
        for kind in ["x".to_owned(), format!("{}-x", task.as_str().unwrap())] {
            site.post_ok("/v1/jobs", &json!({ "queue": "sms", "kind": kind, "caller_id": task })).await;
            let leased = site.post_ok("/v1/queues/sms/lease", &json!({})).await;
            let end = json!({ "lease": leased["items"][0]["lease"], "outcome": "failed",
                "error": { "type": "E", "message": "of another queue", "cause": "network" } });
            site.post_ok("/v1/leases/settle", &json!({ "items": [end] })).await;
        }
        let trace = site.get_ok(&format!("/v1/tasks/{}/trace", task.as_str().unwrap())).await;
        assert_eq!(trace["entries"], json!([]), "{trace}");
    })
    .await;
}

/// Issue 8, safety: a token may have as many and as long patterns of queues as are allowed, and sees, counts and redrives by them.
#[tokio::test]
async fn many_long_patterns_reach_as_far_as_few_short_ones() {
    let site = Site::sqlite().await;
    site.enqueue("mail", 0..2).await;
    site.enqueue("sms", 0..1).await;
    site.work(|_| Err(fail(Cause::ValidationError, "no"))).await;
    let long: Vec<String> = (0..63).map(|n| format!("tenant-{n:02}-{}-*", "orders.".repeat(12))).collect();
    let patterns: Vec<&str> = long.iter().map(String::as_str).chain(["ma*"]).collect();
    let mail = site.token(&SOME, &patterns).await;
    assert_eq!(items(&site.ask(&mail, "GET", "/v1/dead-letters", None).await.1).len(), 2);
    let run = json!({ "where": "attempts>0" });
    let (status, run) = site.ask(&mail, "POST", "/v1/redrives", Some(run)).await;
    assert_eq!((status, &run["total"]), (201, &json!(2)), "{run}");
    let (ends, running) = site.working(|_| Ok(()));
    crate::site::until("its own are back, and no other", || async {
        items(&site.ask(&mail, "GET", "/v1/dead-letters", None).await.1).is_empty()
    })
    .await;
    ends.signal();
    running.await.unwrap();
}
