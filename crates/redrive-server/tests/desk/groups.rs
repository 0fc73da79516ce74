//! Groups: the list, one by the beginning of its fingerprint, and what people say of them.

use redrive::{Cause, fail};
use serde_json::json;

use crate::site::{Site, on_each};

/// R-D10: groups over HTTP are listed with those that are resolved last, found by their beginning, and stand where a person says.
#[tokio::test]
async fn groups_are_listed_found_and_spoken_of() {
    on_each(|site: Site| async move {
        site.enqueue("mail", 0..3).await;
        site.work(|_| Err(fail(Cause::ValidationError, "no such column"))).await;
        site.enqueue("sms", 0..2).await;
        site.work(|_| Err(fail(Cause::AuthError, "who are you"))).await;
        let groups = site.get_ok("/v1/groups").await;
        let counts: Vec<i64> =
            groups["items"].as_array().unwrap().iter().map(|item| item["count"].as_i64().unwrap()).collect();
        assert_eq!((counts, &groups["more"]), (vec![3, 2], &json!(false)));
        let fingerprint = groups["items"][0]["fingerprint"].as_str().unwrap().to_owned();
        let one = site.get_ok(&format!("/v1/groups/{}", &fingerprint[..10])).await;
        assert_eq!(one["fingerprint"], fingerprint.as_str());
        assert_eq!(one["letters"].as_array().unwrap().len(), 3);
        let state = format!("/v1/groups/{fingerprint}/state");
        let changed = site.post_ok(&state, &json!({ "state": "acknowledged", "note": "known" })).await;
        assert_eq!((&changed["state"], &changed["note"]), (&json!("acknowledged"), &json!("known")));
        site.post_ok(&state, &json!({ "state": "resolved" })).await;
        let groups = site.get_ok("/v1/groups").await;
        assert_eq!(groups["items"][1]["fingerprint"], fingerprint.as_str(), "the largest, but resolved");
        let open = site.get_ok("/v1/groups?state=open,regressed&cause=auth_error").await;
        assert_eq!(open["items"].as_array().unwrap().len(), 1);
        site.post_ok(&state, &json!({ "state": "open" })).await;
        let acts: Vec<_> = site.acts().await.into_iter().map(|act| act["act"].clone()).collect();
        assert_eq!(acts, ["group.acknowledge", "group.resolve", "group.reopen"]);
        assert_eq!(site.get("/v1/groups/ffffffff").await.0, 404);
        assert_eq!(site.get("/v1/groups?state=lost").await.0, 400);
        assert_eq!(site.post(&state, &json!({ "state": "regressed" })).await.0, 400, "nobody says that");
    })
    .await;
}

/// R-D10: a beginning that several groups share is answered with these.
#[tokio::test]
async fn an_ambiguous_beginning_names_the_candidates() {
    let site = Site::sqlite().await;
    site.enqueue("mail", 0..40).await;
    site.work(|payload| {
        let words =
            ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"];
        let n = usize::try_from(payload["n"].as_u64().unwrap()).unwrap();
        Err(fail(Cause::ValidationError, format!("{} {} broke", words[n % 10], words[n / 10])))
    })
    .await;
    let groups = site.get_ok("/v1/groups?limit=500").await;
    let all: Vec<&str> = groups["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["fingerprint"].as_str().unwrap())
        .collect();
    assert!(all.len() > 16, "more groups than there are beginnings of one letter: {}", all.len());
    let shared =
        all.iter().find(|one| all.iter().filter(|other| other[..1] == one[..1]).count() > 1).unwrap();
    let (status, problem) = site.get(&format!("/v1/groups/{}", &shared[..1])).await;
    assert_eq!((status, &problem["code"]), (409, &json!("conflict")));
    let detail = problem["detail"].as_str().unwrap();
    assert!(all.iter().filter(|one| detail.contains(**one)).count() > 1, "{detail}");
}
