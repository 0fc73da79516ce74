//! Requests with a key through the proxy (R-I6, R-I8): what is sent again and what never is, what a client is told, and what the key
//! says afterwards.
#![cfg(feature = "proxy")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod behind;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use behind::{PATIENCE, Running, Service, Talk, is_problem, line, post};
use redrive_idempotency::proxy::{Ended, Notable};
use redrive_idempotency::rules::{Keep, OnUnknown, Principal};
use redrive_store::KeyState;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

const CREATED: &str = "HTTP/1.1 201 Created\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone";

fn is_replay(answer: &str) -> bool {
    answer.to_lowercase().contains("idempotency-replayed: true")
}

/// A service that treats its first requests as told, and then answers 201. What it told is kept.
async fn after(troubles: Vec<&'static str>) -> (Service, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&told);
    let service = Service::start(move |mut talk: Talk, number| {
        let (hearing, trouble) = (Arc::clone(&hearing), troubles.get(number).copied());
        async move {
            let (head, body) = talk.request().await;
            hearing.lock().unwrap().push(format!("{head}{body}"));
            match trouble {
                Some("") => {}
                Some("silence") => drop(talk.all().await),
                Some(answer) => talk.say(answer).await,
                None => talk.say(CREATED).await,
            }
        }
    })
    .await;
    (service, told)
}

/// R-I8: a service that is down when the request comes and up a little later gets it once, with its key.
#[tokio::test]
async fn a_service_that_comes_back_gets_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let proxy = Running::with(address, |_, options| "standard".clone_into(&mut options.policy)).await;
    let address_of_proxy = proxy.address;
    let asking = tokio::spawn(async move {
        let mut talk = Talk::to(address_of_proxy).await;
        talk.say(post("k", "x")).await;
        talk.all().await
    });
    timeout(PATIENCE, async {
        while !proxy.notable().iter().any(|notable| matches!(notable, Notable::UpstreamDown { .. })) {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let service = Service::at(TcpListener::bind(address).await.unwrap(), |mut talk, _| async move {
        let (head, _) = talk.request().await;
        assert!(head.contains("Idempotency-Key: k\r\n"), "{head}");
        talk.say(CREATED).await;
    });
    let answer = asking.await.unwrap();
    assert_eq!(line(&answer), "HTTP/1.1 201 Created");
    assert_eq!(service.count(), 1);
    assert_eq!(proxy.notable().last(), Some(&Notable::UpstreamUp));
    assert!(is_replay(&proxy.post("k", "x").await));
}

/// R-I5, R-I6: a service that stays away is told of, and the key is free.
#[tokio::test]
async fn a_service_that_stays_away_leaves_the_key_free() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let proxy = Running::before(address).await;
    let answer = proxy.post("k", "x").await;
    is_problem(&answer, 502, "upstream-unreachable");
    assert!(answer.to_lowercase().contains("retry-after: 1"), "{answer}");
    assert!(proxy.records().await.is_empty());
}

/// R-I8: what says that nothing was done is sent again under the policy, the same request with the same key, and no sooner than asked.
#[tokio::test]
async fn what_was_not_done_is_sent_again_and_retry_after_is_honoured() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let too_many = "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (service, told) = after(vec![too_many, busy]).await;
    let proxy = Running::before(service.address).await;
    let began = Instant::now();
    let answer = proxy.post("k", "x").await;
    assert_eq!(line(&answer), "HTTP/1.1 201 Created");
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|request| *request == told[0] && request.contains("Idempotency-Key: k\r\n")));
    assert!(is_replay(&proxy.post("k", "x").await));
}

/// R-I4, R-I8: an answer that leaves open whether something was done passes at once, and the key is free by the rules; the proxy repeats
/// it on its own only where a route can bear that.
#[tokio::test]
async fn an_answer_that_does_not_say_that_nothing_was_done_is_not_sent_again() {
    let saying = |status: &str| -> &'static str {
        format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").leak()
    };
    for (status, by_itself) in
        [("500", false), ("502", false), ("504", false), ("408", true), ("429", true), ("503", true)]
    {
        let (service, _) = after(vec![saying(status)]).await;
        let proxy = Running::before(service.address).await;
        let answer = proxy.post("k", "x").await;
        let expected =
            if by_itself { "HTTP/1.1 201 Created".to_owned() } else { format!("HTTP/1.1 {status} X") };
        assert_eq!((line(&answer), service.count()), (expected.as_str(), 1 + usize::from(by_itself)));
        assert_eq!(proxy.records().await.len(), usize::from(by_itself), "{status}");

        let (service, _) = after(vec![saying(status)]).await;
        let proxy = Running::with(service.address, |rules, _| rules.unknown = OnUnknown::SafeToRerun).await;
        assert_eq!(line(&proxy.post("k", "x").await), "HTTP/1.1 201 Created", "{status}");
        assert_eq!(service.count(), 2);
    }
}

/// R-I6: what stands behind a body reaches the other side under a key, too; a replay says nothing of it.
#[tokio::test]
async fn trailers_pass_under_a_key() {
    let service = Service::start(|mut talk, _| async move {
        let head = talk.hear("\r\n\r\n").await.to_lowercase();
        let body = talk.hear("\r\n\r\n").await;
        let is_whole = head.contains("transfer-encoding: chunked")
            && head.contains("trailer: x-check")
            && !head.contains("content-length")
            && body == "2\r\nab\r\n0\r\nx-check: 7\r\n\r\n";
        let status = if is_whole { "200 OK" } else { "400 No" };
        talk.say(format!(
            "HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close\r\n\r\n"
        ))
        .await;
        talk.say("3\r\nsum\r\n0\r\nX-Sum: 42\r\n\r\n").await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    let request = "POST /do HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTE: trailers\r\nConnection: TE, close\r\n\
                   Transfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n2\r\nab\r\n0\r\nX-Check: 7\r\n\r\n";
    let answer = proxy.ask(request).await;
    assert_eq!(line(&answer), "HTTP/1.1 200 OK");
    assert!(
        answer.contains("Trailer: X-Sum") && answer.ends_with("3\r\nsum\r\n0\r\nx-sum: 42\r\n\r\n"),
        "{answer}"
    );
    let replay = proxy.ask(request).await;
    assert!(is_replay(&replay) && replay.ends_with("\r\n\r\nsum"), "{replay}");
    assert!(!replay.to_lowercase().contains("trailer"), "{replay}");
}

/// R-I3: an answer that the service did not date has one date, the first time and ever after.
#[tokio::test]
async fn an_answer_without_a_date_gets_one_before_it_is_kept() {
    let (service, _) = after(vec![]).await;
    let proxy = Running::before(service.address).await;
    let date = |answer: &str| {
        let dates: Vec<String> =
            answer.lines().map(str::to_lowercase).filter(|line| line.starts_with("date:")).collect();
        assert_eq!(dates.len(), 1, "{answer}");
        dates[0].clone()
    };
    let first = date(&proxy.post("k", "x").await);
    sleep(Duration::from_millis(1_100)).await;
    let again = proxy.post("k", "x").await;
    assert!(is_replay(&again), "{again}");
    assert_eq!(date(&again), first);
}

/// R-I5: when the tries are over, the answer passes as it is, and the key is free.
#[tokio::test]
async fn an_answer_that_stays_bad_passes_and_is_not_kept() {
    let bad = "HTTP/1.1 503 Really Busy\r\nX-Own: 1\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy";
    let (service, _) = after(vec![bad; 4]).await;
    let proxy = Running::before(service.address).await;
    let answer = proxy.post("k", "x").await;
    assert_eq!(line(&answer), "HTTP/1.1 503 Really Busy");
    assert!(answer.contains("X-Own: 1") && answer.ends_with("busy"), "{answer}");
    assert_eq!(service.count(), 4);
    assert!(proxy.records().await.is_empty());
    // What is wrong with who asks is not the service's to mend: it is passed on at once.
    let denied = "HTTP/1.1 401 Who\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let (service, _) = after(vec![denied]).await;
    let proxy = Running::before(service.address).await;
    assert_eq!(line(&proxy.post("k", "x").await), "HTTP/1.1 401 Who");
    assert_eq!((service.count(), proxy.records().await.len()), (1, 0));
}

/// R-I4: what was sent and not answered is never sent again, and says so to everybody who asks.
#[tokio::test]
async fn what_is_in_doubt_is_never_sent_again() {
    let cut = "HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nhalf";
    for (trouble, status, code) in [
        ("", 502, "upstream-lost"),
        (cut, 502, "upstream-lost"),
        ("no HTTP at all\r\n\r\n", 502, "upstream-lost"),
        ("silence", 504, "upstream-timeout"),
    ] {
        let (service, _) = after(vec![trouble]).await;
        let limit = Duration::from_millis(500);
        let proxy = Running::with(service.address, |_, options| options.upstream_timeout = limit).await;
        is_problem(&proxy.post("k", "x").await, status, code);
        is_problem(&proxy.post("k", "x").await, 409, "idempotency-unknown-outcome");
        assert_eq!(service.count(), 1, "{trouble:?}");
        assert_eq!(proxy.records().await[0].state, KeyState::UnknownOutcome);
        assert!(
            matches!(&proxy.notable()[..], [Notable::UnknownOutcome { endpoint, key, .. }]
                if endpoint == "POST /do" && key == "k"),
            "{:?}",
            proxy.notable()
        );
    }
}

/// R-I4: a route that can bear it is tried again even when nobody knows.
#[tokio::test]
async fn a_route_that_can_bear_it_is_tried_again() {
    let (service, _) = after(vec![""]).await;
    let proxy = Running::with(service.address, |rules, _| rules.unknown = OnUnknown::SafeToRerun).await;
    assert_eq!(line(&proxy.post("k", "x").await), "HTTP/1.1 201 Created");
    assert_eq!(service.count(), 2);
    // When it stays so, the doubt is written down, and the next request is run.
    let (service, _) = after(vec![""; 4]).await;
    let proxy = Running::with(service.address, |rules, _| rules.unknown = OnUnknown::SafeToRerun).await;
    is_problem(&proxy.post("k", "x").await, 502, "upstream-lost");
    assert_eq!((service.count(), proxy.records().await[0].state), (4, KeyState::UnknownOutcome));
    assert_eq!(line(&proxy.post("k", "x").await), "HTTP/1.1 201 Created");
}

/// R-I5: the service's own word beats its status and never reaches the client.
#[tokio::test]
async fn the_word_of_the_service_counts() {
    for (word, status, state) in [
        ("store", "500 Oops", Some(KeyState::Completed)),
        ("release", "201 Created", None),
        ("unknown", "201 Created", Some(KeyState::UnknownOutcome)),
        ("nonsense", "201 Created", Some(KeyState::Completed)),
    ] {
        let answer: &'static str = format!(
            "HTTP/1.1 {status}\r\nRedrive-Idempotency: {word}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .leak();
        let (service, _) = after(vec![answer]).await;
        let proxy = Running::before(service.address).await;
        let answer = proxy.post("k", "x").await;
        assert_eq!(line(&answer), format!("HTTP/1.1 {status}"));
        assert!(!answer.to_lowercase().contains("redrive-idempotency"), "{answer}");
        let states: Vec<KeyState> = proxy.records().await.iter().map(|record| record.state).collect();
        assert_eq!((service.count(), states), (1, state.into_iter().collect()), "{word}");
    }
}

/// R-I5: where the rules keep a bad answer, it is kept, and nothing is sent again.
#[tokio::test]
async fn what_the_rules_keep_is_not_sent_again() {
    let (service, _) =
        after(vec!["HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]).await;
    let proxy = Running::with(service.address, |rules, _| rules.outcomes.set(503, Keep::Store)).await;
    assert_eq!(line(&proxy.post("k", "x").await), "HTTP/1.1 503 Busy");
    assert!(is_replay(&proxy.post("k", "x").await));
    assert_eq!(service.count(), 1);
}

/// R-I5: a client that goes away, at any moment, stops nothing and leaves nothing unknown.
#[tokio::test]
async fn a_client_that_goes_away_stops_nothing() {
    let service = Service::start(|mut talk, _| async move {
        talk.request().await;
        sleep(Duration::from_millis(30)).await;
        talk.say(CREATED).await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    for n in 0..40_u64 {
        let mut talk = proxy.talk().await;
        talk.say(post(&format!("k{n}"), "x")).await;
        sleep(Duration::from_millis(n)).await;
    }
    timeout(PATIENCE, async {
        loop {
            let records = proxy.records().await;
            assert!(records.iter().all(|record| record.state != KeyState::UnknownOutcome));
            if records.len() == 40 && records.iter().all(|record| record.state == KeyState::Completed) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("some never ended");
    assert_eq!(service.count(), 40);
    assert!(is_replay(&proxy.post("k0", "x").await));
}

/// R-I5: an answer that never ends reaches its client as it comes, and its key says that it was answered.
#[tokio::test]
async fn a_stream_under_a_key_reaches_its_client_as_it_comes() {
    for head in ["Content-Type: text/event-stream\r\n", ""] {
        let service = Service::start(move |mut talk, _| async move {
            talk.request().await;
            talk.say(format!("HTTP/1.1 200 OK\r\n{head}\r\ndata: 1\n\n")).await;
            talk.all().await;
        })
        .await;
        let limit = Duration::from_millis(500);
        let proxy = Running::with(service.address, |_, options| options.upstream_timeout = limit).await;
        let mut talk = proxy.talk().await;
        talk.say(post("k", "x")).await;
        talk.hear("data: 1\n\n").await;
        is_problem(&proxy.post("k", "x").await, 409, "idempotency-response-not-kept");
        assert_eq!(service.count(), 1);
    }
}

/// R-I6: a guarded request that comes too slowly, or says 100-continue, is read first and leaves no trace until it is whole.
#[tokio::test]
async fn a_guarded_request_is_read_whole_before_it_counts() {
    let (service, told) = after(vec![]).await;
    let proxy =
        Running::with(service.address, |_, options| options.client_timeout = Duration::from_millis(300))
            .await;
    let mut talk = proxy.talk().await;
    talk.say("POST /do HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\nslow").await;
    is_problem(&talk.all().await, 400, "idempotency-request-broken");
    assert!(proxy.records().await.is_empty());
    let mut talk = proxy.talk().await;
    talk.say("POST /do HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n").await;
    talk.hear("100 Continue\r\n\r\n").await;
    talk.say("ok").await;
    assert!(talk.hear("\r\n\r\n").await.starts_with("HTTP/1.1 201 "));
    assert!(!told.lock().unwrap()[0].to_lowercase().contains("expect"));
}

/// Reliability row of idle connections: one that the service closed meanwhile costs no doubt.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_costs_nothing() {
    let service = Service::start(|mut talk, _| async move {
        talk.request().await;
        // Says that it stays, and goes.
        talk.say("HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\ndone").await;
    })
    .await;
    let proxy = Running::before(service.address).await;
    for n in 0..50 {
        let answer = proxy.post(&format!("k{n}"), "x").await;
        assert_eq!(line(&answer), "HTTP/1.1 201 Created", "{n}: {answer}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// R-I6: at the end nobody new is let in, health says so, what runs is finished, and an idle client is not waited for.
#[tokio::test]
async fn a_drain_finishes_what_runs() {
    let service = Service::start(|mut talk, _| async move {
        talk.request().await;
        sleep(Duration::from_millis(700)).await;
        talk.say(CREATED).await;
    })
    .await;
    let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let health = admin.local_addr().unwrap();
    let mut proxy = Running::with_admin(service.address, |_, _| {}, Some(admin)).await;
    let ready = async |path: &str| {
        let mut talk = Talk::to(health).await;
        talk.say(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        talk.all().await
    };
    assert!(ready("/.redrive/readyz").await.starts_with("HTTP/1.1 200 "));
    let _idle = proxy.talk().await;
    let mut running = proxy.talk().await;
    running.say(post("k", "x")).await;
    timeout(PATIENCE, async {
        while proxy.records().await.is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    proxy.shutdown.signal();
    timeout(PATIENCE, async {
        while !ready("/.redrive/readyz").await.starts_with("HTTP/1.1 503 ") {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    assert!(ready("/.redrive/livez").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(line(&running.all().await), "HTTP/1.1 201 Created");
    assert_eq!(timeout(PATIENCE, &mut proxy.serving).await.unwrap().unwrap(), Ended::Whole);
    assert_eq!(proxy.records().await[0].state, KeyState::Completed);
}

/// R-I6: a drain has its time; who says it twice means now.
#[tokio::test]
async fn a_drain_is_bounded() {
    for twice in [false, true] {
        let (service, _) = after(vec!["silence"]).await;
        let mut proxy = Running::with(service.address, |_, options| {
            options.drain_for = if twice { PATIENCE * 5 } else { Duration::from_millis(200) };
        })
        .await;
        let mut talk = proxy.talk().await;
        talk.say(post("k", "x")).await;
        timeout(PATIENCE, async {
            while service.count() == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
        proxy.shutdown.signal();
        if twice {
            proxy.shutdown.signal();
        }
        assert_eq!(timeout(PATIENCE, &mut proxy.serving).await.unwrap().unwrap(), Ended::Cut(1));
    }
}

/// R-I6, R-C4: health and metrics are told below their prefix, which never reaches the service, or at a door of their own alone.
#[tokio::test]
async fn health_and_metrics_have_their_place() {
    let (service, _) = after(vec![]).await;
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let proxy = Running::before(service.address).await;
    let count = || service.count();
    assert!(proxy.ask(get("/.redrive/livez")).await.starts_with("HTTP/1.1 200 "));
    assert!(proxy.ask(get("/.redrive/readyz")).await.starts_with("HTTP/1.1 200 "));
    assert!(proxy.ask(get("/.redrive/other")).await.starts_with("HTTP/1.1 404 "));
    let probes = count();
    proxy.post("k", "x").await;
    proxy.post("k", "x").await;
    let page = proxy.ask(get("/.redrive/metrics")).await;
    for sample in [
        "redrive_proxy_requests_total{kind=\"keyed\"} 2",
        "redrive_proxy_keys_held 0",
        "redrive_proxy_upstream_up 1",
        "redrive_build_info",
    ] {
        assert!(page.contains(sample), "{sample} in {page}");
    }
    assert_eq!(count(), probes + 1);
    let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let door = admin.local_addr().unwrap();
    let proxy = Running::with_admin(service.address, |_, _| {}, Some(admin)).await;
    is_problem(&proxy.ask(get("/.redrive/livez")).await, 404, "proxy-request-refused");
    let mut talk = Talk::to(door).await;
    talk.say(get("/.redrive/metrics")).await;
    assert!(talk.all().await.contains("redrive_proxy_connections"));
    let mut talk = Talk::to(door).await;
    talk.say(get("/anything")).await;
    assert!(talk.all().await.starts_with("HTTP/1.1 404 "));
}

/// R-I4: no client has a header taken off by which callers are told apart.
#[tokio::test]
async fn a_caller_stays_who_it_is_whatever_it_says_of_its_headers() {
    let (service, _) = after(vec![]).await;
    let proxy = Running::with(service.address, |rules, _| {
        rules.principal = Principal::Header("x-account".to_owned());
    })
    .await;
    for account in ["ada", "bob"] {
        let answer = proxy
            .ask(format!(
                "POST /do HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nX-Account: {account}\r\nConnection: close, X-Account\r\nContent-Length: 1\r\n\r\nx"
            ))
            .await;
        assert!(line(&answer).starts_with("HTTP/1.1 201 ") && !is_replay(&answer), "{answer}");
    }
    assert_eq!(service.count(), 2);
}

/// R-I6: a store that cannot be asked is told of, once; what carries a key is refused and not sent, the rest passes, and nobody is told
/// that all is well.
#[tokio::test]
async fn a_store_that_cannot_be_asked_is_told_of() {
    let (service, _) = after(vec![]).await;
    let proxy = Running::before(service.address).await;
    assert_eq!(line(&proxy.post("first", "x").await), "HTTP/1.1 201 Created");
    proxy.engine.store().close().await.unwrap();
    for key in ["second", "third"] {
        is_problem(&proxy.post(key, "x").await, 503, "idempotency-store-unavailable");
    }
    assert_eq!(service.count(), 1, "nothing with a key was sent");
    let down = |notable: &Notable| matches!(notable, Notable::StoreDown { why } if !why.is_empty());
    assert_eq!(proxy.notable().iter().filter(|notable| down(notable)).count(), 1, "{:?}", proxy.notable());
    let ready = "GET /.redrive/readyz HTTP/1.1\r\nHost: p\r\nConnection: close\r\n\r\n";
    assert_eq!(line(&proxy.ask(ready).await), "HTTP/1.1 503 Service Unavailable");
}
