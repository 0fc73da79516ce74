//! Events as pages and as a stream.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::site::{Site, told};

/// R-E3: pages follow each other without a gap, both ways; filters are those of the command line.
#[tokio::test]
async fn events_come_in_pages() {
    for site in Site::both().await {
        let jobs: Vec<Value> = (0..5).map(|n| json!({ "kind": "k", "caller_id": format!("c{n}") })).collect();
        site.post("/v1/jobs", &json!({ "jobs": jobs })).await;
        for order in ["newest", "oldest"] {
            let mut seen = Vec::new();
            let mut path = format!("/v1/events?limit=2&order={order}");
            loop {
                let (status, page) = site.get(&path).await;
                assert_eq!(status, 200, "{page}");
                let items = page["items"].as_array().unwrap();
                seen.extend(items.iter().map(|event| event["seq"].as_i64().unwrap()));
                let Some(next) = page.get("next") else { break };
                path = format!("/v1/events?limit=2&order={order}&cursor={}", next.as_str().unwrap());
            }
            assert_eq!(seen.len(), 5, "{order}: {seen:?}");
            assert!(seen.windows(2).all(|two| (two[0] > two[1]) == (order == "newest")), "{seen:?}");
        }
        let (_, one) = site.get("/v1/events?caller_id=c3").await;
        assert_eq!(one["items"].as_array().unwrap().len(), 1, "{one}");
        let job = one["items"][0]["job_id"].as_str().unwrap();
        let (_, of_job) = site.get(&format!("/v1/events?job={job}&status=pending&since=1h")).await;
        assert_eq!(of_job["items"], one["items"]);
        let (_, none) = site.get("/v1/events?where=status%3Dfailed").await;
        assert_eq!(none["items"], json!([]));
        let id = one["items"][0]["event_id"].as_str().unwrap();
        let (status, detail) = site.get(&format!("/v1/events/{id}")).await;
        assert_eq!(
            (status, &detail["schema"], &detail["job_id"]),
            (200, &json!("redrive/detail.v1"), &json!(job))
        );
        assert_eq!(site.get("/v1/events/EVT-0").await.0, 404);
        let (status, problem) = site.get("/v1/events?where=staus%3Dfailed").await;
        assert_eq!(
            (status, &problem["code"], &problem["field"]),
            (400, &json!("invalid-filter"), &json!("where"))
        );
        for bad in ["status=x", "since=x", "cursor=x", "limit=0", "limit=1001", "order=up"] {
            assert_eq!(site.get(&format!("/v1/events?{bad}")).await.0, 400, "{bad}");
        }
    }
}

/// A stream that is read.
struct Stream {
    answer: Response,
    text: String,
}

impl Stream {
    async fn open(site: &Site, query: &str, last: Option<&str>) -> Stream {
        let mut request =
            site.ask(Method::GET, &format!("/v1/events{query}")).header("accept", "text/event-stream");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Stream { answer, text: String::new() }
    }

    /// The next event, or nothing when the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field =
                    |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                if let (Some(id), Some(data)) = (field("id"), field("data")) {
                    return Some((id.to_owned(), serde_json::from_str(data).unwrap()));
                }
            }
            let piece = tokio::time::timeout(Duration::from_secs(30), self.answer.chunk()).await;
            match piece.expect("the stream says something in time").unwrap() {
                Some(piece) => self.text.push_str(std::str::from_utf8(&piece).unwrap()),
                None => return None,
            }
        }
    }
}

/// R-E3, issue 8: the stream tells what comes, goes on behind Last-Event-ID without a gap, and ends when the server drains; on
/// both stores.
#[tokio::test]
async fn a_stream_goes_on_where_it_was_cut() {
    for site in Site::both().await {
        site.post("/v1/jobs", &json!({ "kind": "before" })).await;
        let mut stream = Stream::open(&site, "", None).await;
        for kind in ["one", "two", "three"] {
            site.post("/v1/jobs", &json!({ "kind": kind })).await;
        }
        let (first, event) = stream.next().await.unwrap();
        assert_eq!(event["source"], "one");
        assert_eq!(event["seq"].to_string(), first);
        drop(stream);
        site.post("/v1/jobs", &json!({ "kind": "four" })).await;
        for (query, header) in
            [(String::new(), Some(first.as_str())), (format!("?last_event_id={first}"), None)]
        {
            let mut stream = Stream::open(&site, &query, header).await;
            for kind in ["two", "three", "four"] {
                assert_eq!(stream.next().await.unwrap().1["source"], kind);
            }
        }
        let mut all = Stream::open(&site, "?source=three", Some("0")).await;
        assert_eq!(all.next().await.unwrap().1["source"], "three");
        site.server.shutdown().signal();
        assert_eq!(all.next().await, None);
    }
}

/// Issue 8: a place that is none is refused, and so is a stream of a server that drains.
#[tokio::test]
async fn a_bad_place_is_refused() {
    let site = Site::sqlite().await;
    for bad in ["-1", "x", "99999999999999999999"] {
        let request = site.ask(Method::GET, "/v1/events").header("accept", "text/event-stream");
        let (status, problem) = told(request.header("last-event-id", bad).send().await.unwrap()).await;
        assert_eq!((status, &problem["field"]), (400, &json!("Last-Event-ID")), "{bad}");
    }
}
