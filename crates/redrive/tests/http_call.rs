//! HTTP calls as jobs, against real servers on loopback: what they send (R-I8), and what is told of the answer (R-P3,
//! R-P11, R-P12), without a secret in it (R-D7).
#![cfg(feature = "http-call")]
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::io::Read;
use std::net::TcpListener;
use std::time::Duration;

use redrive::{
    Cancel, Cause, Classifier, Evidence, Executed, Failure, HttpSpec, Outcome, Surroundings, call_http,
    http_client,
};
use support::{BUSY, OK, refusing, serve};

async fn call(spec: &HttpSpec, around: &Surroundings) -> Executed {
    let client = http_client().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    call_http(&client, spec, around).await
}

fn first() -> Surroundings {
    Surroundings::new("job_01", 1)
}

fn evidence(executed: &Executed) -> &Evidence {
    match &executed.outcome {
        Outcome::Failed(evidence) => evidence,
        other => panic!("it did not fail: {other:?}"),
    }
}

fn failure(executed: &Executed) -> Failure {
    Classifier::built_in().classify(&evidence(executed).report())
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// R-I8: the job's key travels with every attempt; its id stands in for one; a key of the caller's own stays.
#[tokio::test]
async fn the_key_travels_with_every_attempt() {
    let (address, requests) = serve(&[OK, OK, OK, OK]);
    let url = format!("http://{address}/orders?x=1");
    let keyed = |attempt| Surroundings {
        idempotency_key: Some("order-17".into()),
        fence: Some("42".into()),
        ..Surroundings::new("job_01", attempt)
    };
    let spec = HttpSpec { body: Some(b"{\"a\":1}".to_vec()), ..HttpSpec::new("POST", &url) };
    for attempt in [1, 2] {
        assert_eq!(call(&spec, &keyed(attempt)).await.outcome, Outcome::Succeeded);
        let request = requests.recv().unwrap();
        assert!(request.starts_with("POST /orders?x=1 HTTP/1.1\r\n") && request.ends_with("{\"a\":1}"));
        assert_eq!(header(&request, "idempotency-key"), Some("order-17"));
        assert_eq!(header(&request, "redrive-attempt"), Some(attempt.to_string().as_str()));
        assert_eq!(header(&request, "redrive-job-id"), Some("job_01"));
        assert_eq!(header(&request, "redrive-fence"), Some("42"));
        assert!(header(&request, "user-agent").unwrap().starts_with("redrive/"));
    }
    call(&spec, &first()).await;
    let request = requests.recv().unwrap();
    assert_eq!(
        (header(&request, "idempotency-key"), header(&request, "redrive-fence")),
        (Some("job_01"), None)
    );
    let own = vec![("Idempotency-Key".to_owned(), "mine".to_owned())];
    call(&HttpSpec { headers: own, ..spec }, &keyed(1)).await;
    assert_eq!(header(&requests.recv().unwrap(), "idempotency-key"), Some("mine"));
}

/// R-P11, R-P12: status, `Retry-After`, code and words of an answer are what it is classified by.
#[tokio::test]
async fn an_answer_is_told_with_all_it_says() {
    let (address, _requests) = serve(&[
        BUSY,
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 120\r\ncontent-length: 28\r\nconnection: close\r\n\r\n{\"error\":{\"code\":\"SlowDown\"}}",
        "HTTP/1.1 422 Unprocessable Entity\r\ncontent-length: 12\r\nconnection: close\r\n\r\nno such unit",
        "HTTP/1.1 401 Unauthorized\r\ncontent-length: 16\r\nconnection: close\r\n\r\npassword=hunter2",
    ]);
    let spec = HttpSpec::new("POST", format!("http://{address}/"));
    let busy = call(&spec, &first()).await;
    assert_eq!(
        (failure(&busy).cause, failure(&busy).retry_after),
        (Cause::ApiError, Some(Duration::from_secs(7)))
    );
    assert_eq!(
        (evidence(&busy).message.as_str(), evidence(&busy).error_type.as_str()),
        ("busy", "HttpStatus")
    );
    assert_eq!((busy.exit_code, busy.process_exit_code()), (None, 1));
    let slow = call(&spec, &first()).await;
    assert_eq!(failure(&slow).cause, Cause::RateLimit);
    assert_eq!(evidence(&slow).retry_after, Some(Duration::from_mins(2)));
    let wrong = call(&spec, &first()).await;
    assert_eq!(
        (failure(&wrong).cause, wrong.stdout_tail.as_deref()),
        (Cause::ValidationError, Some("no such unit"))
    );
    let denied = call(&spec, &first()).await;
    assert_eq!(
        (failure(&denied).cause, denied.stdout_tail.as_deref()),
        (Cause::AuthError, Some("password=[redacted]"))
    );
}

/// A redirect is not followed, not even for a GET, and a person is told where it led, without what was asked.
#[tokio::test]
async fn no_redirect_is_followed() {
    for method in ["GET", "POST"] {
        let (address, requests) = serve(&[
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: /elsewhere?token=hunter2\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            OK,
        ]);
        let executed = call(&HttpSpec::new(method, format!("http://{address}/")), &first()).await;
        assert_eq!((evidence(&executed).http_status, requests.try_iter().count()), (Some(307), 1));
        let message = &evidence(&executed).message;
        assert!(message.contains(&format!("http://{address}/elsewhere?…")) && !message.contains("hunter2"));
        assert!(!failure(&executed).is_retryable());
    }
}

/// R-P3, R-D7: no connection came about, which is certain, and the address is not repeated with its secrets.
#[tokio::test]
async fn a_call_that_was_never_sent_says_so_without_its_secrets() {
    let url = format!("http://ada:hunter2@{}/?sig=hunter2", refusing());
    let executed = call(&HttpSpec::new("POST", url), &first()).await;
    assert_eq!((failure(&executed).cause, evidence(&executed).never_sent), (Cause::Network, true));
    assert!(!format!("{executed:?}").contains("hunter2"), "{executed:?}");
    let (address, _requests) = serve(&[""]);
    let executed = call(&HttpSpec::new("POST", format!("http://{address}/")), &first()).await;
    assert_eq!((failure(&executed).cause, evidence(&executed).never_sent), (Cause::Network, false));
}

/// R-P13: a call ends at its limit and tells it; a body that does not end changes nothing about its status.
#[tokio::test]
async fn a_call_ends_at_its_limit() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let limited = Surroundings { timeout: Some(Duration::from_millis(50)), ..first() };
    let executed = call(&HttpSpec::new("GET", &url), &limited).await;
    let failure = failure(&executed);
    assert_eq!((failure.cause, evidence(&executed).never_sent), (Cause::Timeout, false));
    assert_eq!(failure.details.unwrap().timeout_ms, Some(50));

    for (status, succeeds) in [("200 OK", true), ("503 Service Unavailable", false)] {
        let endless = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", endless.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = endless.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = std::io::Write::write_all(
                &mut stream,
                format!("HTTP/1.1 {status}\r\ncontent-length: 9\r\n\r\nhalf").as_bytes(),
            );
            // Ends when the other side goes away.
            let _ = stream.read(&mut [0; 1]);
        });
        let limited = Surroundings { timeout: Some(Duration::from_secs(2)), ..first() };
        let executed = call(&HttpSpec::new("GET", &url), &limited).await;
        assert_eq!(
            (executed.outcome == Outcome::Succeeded, executed.stdout_tail.as_deref()),
            (succeeds, Some("half"))
        );
        // The line is closed by a task of the runtime, which must not be held up.
        tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap();
    }
}

/// R-D7: however long an answer is, a bounded part of it is read, and less is kept.
#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let endless = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", endless.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = endless.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let mut write = |bytes: &[u8]| std::io::Write::write_all(&mut stream, bytes);
        write(b"HTTP/1.1 500 Internal Server Error\r\nconnection: close\r\n\r\nfirst ").unwrap();
        while write(&[b'x'; 4096]).is_ok() {}
    });
    let executed = call(&HttpSpec::new("GET", &url), &first()).await;
    assert!(
        evidence(&executed).message.len() <= 16 * 1024 && evidence(&executed).message.starts_with("first x")
    );
    assert!(executed.stdout_tail.unwrap().len() <= 8 * 1024);
    tokio::task::spawn_blocking(|| server.join().unwrap()).await.unwrap();
}

/// R-P13: a cancellation ends a call that waits for its answer.
#[tokio::test]
async fn a_cancellation_ends_a_call() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = HttpSpec::new("GET", format!("http://{}/", silent.local_addr().unwrap()));
    let cancel = Cancel::new();
    let around =
        Surroundings { cancel: Some(cancel.clone()), timeout: Some(Duration::from_hours(1)), ..first() };
    let (executed, ()) = tokio::join!(call(&spec, &around), async move {
        tokio::task::spawn_blocking(move || silent.accept().unwrap()).await.unwrap();
        cancel.cancel();
    });
    assert!(matches!(executed.outcome, Outcome::Cancelled(_)));
}

/// R-P14: what cannot be sent is a failure for good, and nothing is sent.
#[tokio::test]
async fn what_cannot_be_sent_is_not_tried_again() {
    let unsendable = Surroundings { idempotency_key: Some("a\nb".into()), ..first() };
    for (spec, around) in [
        (HttpSpec::new("GET", "gopher://x/"), first()),
        (HttpSpec::new("GET", "http://127.0.0.1/"), unsendable),
    ] {
        let executed = call(&spec, &around).await;
        assert_eq!(
            (failure(&executed).cause, failure(&executed).is_retryable()),
            (Cause::ValidationError, false)
        );
        assert!(evidence(&executed).never_sent);
    }
}
