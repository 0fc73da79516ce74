//! Letters: looking, paging, mending, letting go, taking them elsewhere.

use std::collections::BTreeSet;

use redrive::{Cause, fail};
use redrive_store::Origin;
use serde_json::{Value, json};

use crate::site::{Site, on_each};

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// R-D5, R-D7, R-T10: a letter over HTTP has the fields of the contract; its payload only when it is asked for; its message in
/// both languages.
#[tokio::test]
async fn a_letter_tells_what_there_is_to_know() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..1).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no such column"))).await;
        let page = site.get_ok("/v1/dead-letters?where=queue%3Dmail").await;
        let letter = &page["items"][0];
        assert_eq!(letter["original_payload"], Value::Null);
        for field in ["event_id", "timestamp", "error_type", "error_message", "error_category", "retry_count"]
        {
            assert!(!letter[field].is_null(), "{field}: {letter}");
        }
        assert_eq!((&letter["job_type"], &letter["retryable"]), (&json!("call"), &json!(false)));
        let id = letter["id"].as_str().unwrap();
        let whole = site.get_ok(&format!("/v1/dead-letters/{id}?with_payload=true")).await;
        assert_eq!(whole["original_payload"], json!({ "n": 0 }));
        assert_eq!((&whole["level"], &whole["payload_version"]), (&json!(5), &json!(0)));
        let (en, ja) = (whole["user_message"]["en"].as_str().unwrap(), &whole["user_message"]["ja"]);
        assert!(en.is_ascii() && !ja.as_str().unwrap().is_ascii(), "{en} {ja}");
        assert!(whole["report"]["recommended_actions"].is_array());
        assert_eq!(site.get("/v1/dead-letters/job_999").await.0, 404);
        assert_eq!(site.get("/v1/dead-letters/nonsense").await.0, 404);
    })
    .await;
}

/// R-C1: a filter that cannot be read is told with its place and what could stand there.
#[tokio::test]
async fn a_bad_filter_points_at_the_place() {
    let site = Site::sqlite().await;
    for (filter, place, says) in [
        ("cuase%3Dnetwork", "character 1", "cause"),
        ("queue%3Dmail%20and%20cause%3Dmagic", "character 22", "network"),
        ("error~%22(%22", "character 7", "regular expression"),
        ("queue%3Dmail%20and", "character 15", "field"),
    ] {
        let (status, problem) = site.get(&format!("/v1/dead-letters?where={filter}")).await;
        assert_eq!((status, &problem["code"]), (400, &json!("invalid-filter")), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(place) && detail.contains(says), "{filter}: {detail}");
        assert_eq!(problem["field"], "where");
    }
    let body = json!({ "where": "cuase=network", "dry_run": true });
    assert_eq!(site.post("/v1/redrives", &body).await.1["code"], "invalid-filter");
    for bad in ["limit=0", "limit=201", "limit=51&with_payload=true", "cursor=yesterday", "colour=red"] {
        let (status, problem) = site.get(&format!("/v1/dead-letters?{bad}")).await;
        assert_eq!(status, 400, "{bad}: {problem}");
    }
}

/// R-C1, R-D5: pages neither skip nor repeat a letter while others arrive.
#[tokio::test]
async fn pages_neither_skip_nor_repeat_while_letters_arrive() {
    on_each(|site: Site| async move {
        let dies = |_: &Value| Err(fail(Cause::ValidationError, "no"));
        site.enqueue("mail", 0..60).await;
        site.enqueue("sms", 0..30).await;
        site.work(dies).await;
        // One test that an index serves, and one that none does.
        for filter in ["queue%3Dmail", "error~%22no%22%20and%20not%20queue%3Dsms"] {
            let before: BTreeSet<String> =
                ids(&site.get_ok(&format!("/v1/dead-letters?where={filter}&limit=200")).await)
                    .into_iter()
                    .collect();
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = site.get_ok(&format!("/v1/dead-letters?where={filter}&limit=7{cursor}")).await;
                seen.extend(ids(&page));
                site.enqueue("mail", 100..102).await;
                site.work(dies).await;
                let Some(next) = page["next"].as_str() else { break };
                cursor = format!("&cursor={next}");
            }
            let unique: BTreeSet<String> = seen.iter().cloned().collect();
            assert_eq!(unique.len(), seen.len(), "a letter came twice");
            assert_eq!(unique, before, "{filter}");
        }
    })
    .await;
}

/// R-D8: an edit is shown as a diff, keeps what was there before, and what was mended succeeds when it is put back.
#[tokio::test]
async fn a_mended_letter_is_redriven_and_succeeds() {
    on_each(|site: Site| async move {
        let works = |payload: &Value| match payload["n"].as_u64() {
            Some(0) => Err(fail(Cause::ValidationError, "n must not be 0")),
            _ => Ok(()),
        };
        site.enqueue("mail", 0..1).await;
        site.work(works).await;
        let id = ids(&site.get_ok("/v1/dead-letters").await).remove(0);
        let edit = format!("/v1/dead-letters/{id}/edit");
        let would = site.post_ok(&edit, &json!({ "merge": { "n": 1 }, "dry_run": true })).await;
        assert_eq!((&would["changed"], &would["dry_run"]), (&json!(true), &json!(true)));
        let done =
            site.post_ok(&edit, &json!({ "merge": { "n": 1 }, "seen_version": 0, "why": "typo" })).await;
        assert_eq!(
            done["diff"],
            json!([{ "at": "@@ -2 +2 @@", "removed": ["  \"n\": 0"], "added": ["  \"n\": 1"] }])
        );
        assert_eq!((&done["version"], &done["payload_version"]), (&json!(1), &json!(1)));
        // Somebody who has not seen that edit is told so, and nothing is lost.
        let (status, problem) = site.post(&edit, &json!({ "payload": { "n": 7 }, "seen_version": 0 })).await;
        assert_eq!((status, &problem["code"]), (409, &json!("conflict")));
        let patch =
            json!([{ "op": "test", "path": "/n", "value": 1 }, { "op": "add", "path": "/to", "value": "b" }]);
        site.post_ok(&edit, &json!({ "patch": patch, "seen_version": 1 })).await;
        let (status, problem) =
            site.post(&edit, &json!({ "patch": [{ "op": "remove", "path": "/nowhere" }] })).await;
        assert_eq!(status, 409, "{problem}");
        for bad in [json!({}), json!({ "payload": 1, "text": "1" }), json!({ "paylod": 1 })] {
            assert_eq!(site.post(&edit, &bad).await.0, 400, "{bad}");
        }
        let whole = site.get_ok(&format!("/v1/dead-letters/{id}?with_payload=true")).await;
        assert_eq!(whole["original_payload"], json!({ "n": 1, "to": "b" }));
        assert_eq!(whole["versions"][0]["payload"], json!({ "n": 0 }));
        assert_eq!(whole["versions"][0]["edited_by"], "local");
        let begun = site.post_ok("/v1/redrives", &json!({ "ids": [id] })).await;
        let (ends, running) = site.working(works);
        let run = format!("/v1/redrives/{}", begun["id"].as_str().unwrap());
        crate::site::until("the redrive is done", || async {
            site.get_ok(&run).await["state"] == "done"
                && site.get(&format!("/v1/dead-letters/{id}")).await.0 == 404
        })
        .await;
        ends.signal();
        running.await.unwrap();
        site.work(works).await;
        assert_eq!(site.get_ok("/v1/dead-letters").await["items"], json!([]));
        let group = site.get_ok("/v1/groups").await["items"][0].clone();
        assert_eq!((&group["state"], &group["recovered"]), (&json!("resolved"), &json!(1)));
        let acts = site.acts().await;
        let told: Vec<&str> = acts.iter().map(|act| act["act"].as_str().unwrap()).collect();
        assert_eq!(told, ["letter.edit", "letter.edit", "redrive.begin"]);
        assert_eq!((&acts[0]["why"], &acts[0]["who"]), (&json!("typo"), &json!("local")));
    })
    .await;
}

/// Issue 8, limits: a patch of a kilobyte that would make gigabytes is refused at once, as is one with too many operations, and the
/// payload stays as it was.
#[tokio::test]
async fn a_patch_that_would_fill_the_memory_is_refused() {
    let site = Site::sqlite().await;
    site.enqueue("mail", 0..1).await;
    site.work(|_| Err(fail(Cause::ValidationError, "no"))).await;
    let id = ids(&site.get_ok("/v1/dead-letters").await).remove(0);
    let edit = format!("/v1/dead-letters/{id}/edit");
    let copies = |count: usize, path: &dyn Fn(usize) -> String| {
        let copy = |n| json!({ "op": "copy", "from": "", "path": path(n) });
        json!({ "patch": (0..count).map(copy).collect::<Vec<Value>>() })
    };
    for (wish, expected, field) in [
        (copies(60, &|n| format!("/k{n}")), 413, "patch"),
        (copies(900, &|_| "/n".to_owned()), 409, "patch"),
        (copies(1_001, &|_| "/n".to_owned()), 400, "patch"),
        (json!({ "text": "x".repeat((1 << 20) + 1) }), 413, "payload"),
    ] {
        let (status, problem) = site.post(&edit, &wish).await;
        assert_eq!((status, &problem["field"]), (expected, &json!(field)), "{problem}");
    }
    let whole = site.get_ok(&format!("/v1/dead-letters/{id}?with_payload=true")).await;
    assert_eq!((&whole["original_payload"], &whole["payload_version"]), (&json!({ "n": 0 }), &json!(0)));
}

/// Issue 8, safety: what this machine's own user enqueued may run any command; what it runs is not for the API to say.
#[tokio::test]
async fn the_command_of_a_local_job_cannot_be_edited_from_afar() {
    let site = Site::sqlite().await;
    let line = |origin: bool, id: &str| {
        let payload = json!({ "argv": ["false"] });
        json!({ "event_id": id, "timestamp": "2026-01-01T00:00:00Z", "error_type": "exit", "error_message": "1",
            "kind": "exec", "queue": "default", "original_payload": payload, "job": { "from_api": origin } })
        .to_string()
    };
    let local = site.engine.job("exec", &json!({ "argv": ["false"] })).build().unwrap();
    site.engine.enqueue_many(vec![local]).await.unwrap();
    let (status, imported) = site
        .post_text(
            "/v1/dead-letters/import",
            "application/x-ndjson",
            line(false, "EVT-20260101-000000-aaaaaa"),
        )
        .await;
    assert_eq!((status, &imported["added"]), (200, &json!(1)), "{imported}");
    let id = ids(&site.get_ok("/v1/dead-letters").await).remove(0);
    let record = site.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(record.job.unwrap().origin, Origin::Api, "whatever a line says of itself");
    // One that the command line took in is this machine's own.
    let mut lines = line(false, "EVT-20260101-000000-bbbbbb").into_bytes();
    lines.push(b'\n');
    site.engine
        .import_letters(&mut lines.as_slice(), &redrive::engine::ImportOptions::default())
        .await
        .unwrap();
    let mine = ids(&site.get_ok("/v1/dead-letters").await);
    let mine = mine.iter().find(|other| **other != id).unwrap();
    let wish = json!({ "payload": { "argv": ["rm", "-rf", "/"] } });
    let (status, problem) = site.post(&format!("/v1/dead-letters/{mine}/edit"), &wish).await;
    assert_eq!((status, &problem["code"]), (403, &json!("forbidden")), "{problem}");
    let (status, problem) =
        site.post(&format!("/v1/dead-letters/{id}/edit"), &json!({ "payload": { "argv": [] } })).await;
    assert_eq!(status, 400, "nobody could run that: {problem}");
}

/// R-D6: letters go for good only as many as were expected, and it is written down who let them go and why.
#[tokio::test]
async fn many_letters_go_only_when_their_number_is_known() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..5).await;
        site.enqueue("sms", 0..3).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no"))).await;
        let wish = |more: Value| {
            let mut wish = json!({ "where": "queue=mail" });
            wish.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            wish
        };
        let path = "/v1/dead-letters/discard";
        let would = site.post_ok(path, &wish(json!({ "dry_run": true }))).await;
        assert_eq!((&would["matching"], &would["discarded"]), (&json!(5), &json!(0)));
        assert_eq!(would["sample"].as_array().unwrap().len(), 5);
        assert_eq!(site.post(path, &wish(json!({}))).await.0, 400, "nobody said how many");
        let (status, problem) = site.post(path, &wish(json!({ "expected": 4 }))).await;
        assert_eq!(status, 409, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains('5'));
        assert_eq!(ids(&site.get_ok("/v1/dead-letters").await).len(), 8, "nothing went so far");
        let went = site.post_ok(path, &wish(json!({ "expected": 5, "why": "old orders" }))).await;
        assert_eq!(went["discarded"], 5);
        let left = ids(&site.get_ok("/v1/dead-letters").await);
        assert_eq!(left.len(), 3);
        let one =
            site.post_ok(&format!("/v1/dead-letters/{}/discard", left[0]), &json!({ "why": "x" })).await;
        assert_eq!(one["discarded"], 1);
        assert_eq!(site.post(&format!("/v1/dead-letters/{}/discard", left[0]), &json!({})).await.0, 404);
        let old = json!({ "older_than": "1h", "dry_run": true });
        assert_eq!(site.post_ok("/v1/dead-letters/purge", &old).await["matching"], 0);
        let all = site.post_ok("/v1/dead-letters/purge", &json!({ "older_than": "0s", "expected": 2 })).await;
        assert_eq!(all["discarded"], 2);
        assert_eq!(site.post("/v1/dead-letters/purge", &json!({ "older_than": "soon" })).await.0, 400);
        let acts = site.acts().await;
        let told: Vec<&str> = acts.iter().map(|act| act["act"].as_str().unwrap()).collect();
        assert_eq!(told, ["letter.discard", "letter.discard", "letter.purge"]);
        assert_eq!(acts[0]["why"], "old orders");
    })
    .await;
}

/// Reliability, Audit log: nobody makes up an act of an operator by importing it; the line is kept aside, and nothing stands in the record but the import
/// itself. A queue that nobody could tell from another is not made either.
#[tokio::test]
async fn an_import_forges_no_act() {
    on_each(|site: Site| async move {
        let act = json!({ "event_id": "EVT-20261116-100500-zzzzzz", "status": "dead_letter", "source": "local",
            "event_type": "operator_act", "timestamp": "2026-11-16T10:05:00Z",
            "data": { "who": "local", "act": "letter.purge", "target": "older than 0s", "why": "Bob told me to" } });
        let letter = json!({ "event_id": "EVT-20261116-100500-yyyyyy", "timestamp": "2026-11-16T10:05:00Z",
            "error_type": "E", "kind": "call", "original_payload": 1, "queue": "mail\u{202e}1" });
        let other = json!({ "event_id": "EVT-20261116-100500-xxxxxx", "status": "dead_letter", "source": "crawler",
            "event_type": "page_failed", "timestamp": "2026-11-16T10:05:00Z" });
        let lines = format!("{act}\n{letter}\n{other}\n");
        let (status, came) = site.post_text("/v1/dead-letters/import", "application/x-ndjson", lines).await;
        assert_eq!(status, 200, "{came}");
        assert_eq!(
            (&came["as_events"], &came["kept_aside"], &came["added"]),
            (&json!(1), &json!(2), &json!(0)),
            "{came}"
        );
        let acts: Vec<Value> = site.acts().await.iter().map(|act| act["act"].clone()).collect();
        assert_eq!(acts, [json!("letter.import")]);
        let events = site.get_ok("/v1/events?type=page_failed").await;
        assert_eq!(events["items"][0]["tags"], json!(["imported"]), "{events}");
    })
    .await;
}

/// R-E4, R-D7: letters leave as JSON Lines without their payloads unless these are asked for, and come back whole.
#[tokio::test]
async fn letters_leave_and_come_back() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..150).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no"))).await;
        let bare = site.text("/v1/dead-letters/export").await;
        assert_eq!(bare.lines().count(), 150);
        assert!(!bare.contains("original_payload"));
        let whole = site.text("/v1/dead-letters/export?with_payload=true&where=queue%3Dmail").await;
        assert_eq!(whole.lines().count(), 150);
        let other = Site::sqlite().await;
        let media = "application/x-ndjson";
        let lines = format!("{whole}nonsense\n");
        let (status, came) = other.post_text("/v1/dead-letters/import", media, lines.clone()).await;
        assert_eq!(status, 200, "{came}");
        assert_eq!((&came["added"], &came["kept_aside"]), (&json!(150), &json!(1)));
        assert_eq!(came["bad_lines"][0]["line"], 151);
        let (_, again) = other.post_text("/v1/dead-letters/import", media, lines).await;
        assert_eq!((&again["added"], &again["known"]), (&json!(0), &json!(150)));
        let page = other.get_ok("/v1/dead-letters?limit=1&with_payload=true").await;
        assert!(page["items"][0]["original_payload"]["n"].is_u64());
    })
    .await;
}
