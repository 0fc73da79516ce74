//! Typed signals (issue 2, end of Deliver 3): errors made for real, classified by the signal alone.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod support;

use std::error::Error;
use std::net::TcpStream;

use redrive::{AnyError, Cause, Classifier, IntoFailure, Report, Words, fail, report_chain};

/// What a report is found to be when nobody reads its words.
fn by_signal(report: Report<'_>) -> Cause {
    Classifier::built_in().classify(&Report { words: Words::None, ..report }).cause
}

#[derive(Debug, thiserror::Error)]
enum Ours {
    #[error("could not store the invoice")]
    Store(#[source] Box<dyn Error + Send + Sync>),
}

impl IntoFailure for Ours {
    fn report(&self) -> Report<'_> {
        report_chain(self)
    }
}

/// R-P3: a refused connection, bare, boxed, and deep inside an error of one's own.
#[test]
fn a_refused_connection_is_network_however_deep() {
    let refused = || TcpStream::connect(support::refusing()).unwrap_err();
    assert_eq!(by_signal(refused().report()), Cause::Network);
    assert!(refused().never_sent());
    let boxed: Box<dyn Error + Send + Sync> = Box::new(refused());
    assert_eq!(by_signal(boxed.report()), Cause::Network);
    assert!(boxed.never_sent());
    let deep = Ours::Store(Box::new(std::io::Error::other(std::io::Error::other(refused()))));
    assert_eq!(by_signal(deep.report()), Cause::Network);
    assert_eq!(by_signal(AnyError(deep).report()), Cause::Network);
}

#[test]
fn io_kinds_are_what_they_are_called() {
    for (kind, cause) in [
        (std::io::ErrorKind::TimedOut, Cause::Timeout),
        (std::io::ErrorKind::ConnectionReset, Cause::Network),
        (std::io::ErrorKind::BrokenPipe, Cause::Network),
        (std::io::ErrorKind::NotFound, Cause::NotFound),
        (std::io::ErrorKind::PermissionDenied, Cause::AuthError),
        (std::io::ErrorKind::StorageFull, Cause::ResourceExhausted),
        (std::io::ErrorKind::AlreadyExists, Cause::Integrity),
    ] {
        assert_eq!(by_signal(std::io::Error::from(kind).report()), cause, "{kind:?}");
    }
}

/// R-P13: a timeout of tokio's is a timeout.
#[tokio::test(start_paused = true)]
async fn tokios_timeout_is_a_timeout() {
    let waited = tokio::time::timeout(std::time::Duration::from_secs(1), std::future::pending::<()>());
    let elapsed = waited.await.unwrap_err();
    assert_eq!(by_signal(elapsed.report()), Cause::Timeout);
    assert_eq!(by_signal(report_chain(&std::io::Error::other(elapsed))), Cause::Timeout);
}

/// R-P3: the handler's own word beats every rule, through any wrapper.
#[test]
fn a_handlers_word_is_final() {
    let said = fail(Cause::HumanJudgment, "connection refused, says the minister");
    let wrapped = Ours::Store(Box::new(said));
    assert_eq!(Classifier::built_in().classify(&wrapped.report()).cause, Cause::HumanJudgment);
}

#[test]
fn plain_words_are_words() {
    assert_eq!(Classifier::built_in().classify(&"connection refused".report()).cause, Cause::Network);
    assert_eq!(
        Classifier::built_in().classify(&String::from("deadlock detected").report()).cause,
        Cause::Contention
    );
}

/// A line that breaks while it is read.
#[cfg(feature = "serde_json")]
struct Broken;
#[cfg(feature = "serde_json")]
impl std::io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::ConnectionReset.into())
    }
}

#[cfg(feature = "serde_json")]
#[test]
fn json_that_does_not_parse_is_a_validation_error() {
    for text in ["{", "[1,]", "\"text\""] {
        let error = serde_json::from_str::<u32>(text).unwrap_err();
        assert_eq!(by_signal(error.report()), Cause::ValidationError, "{text}");
    }
    let error = serde_json::from_reader::<_, u32>(Broken).unwrap_err();
    assert_eq!(by_signal(error.report()), Cause::Network, "the line broke, not the text");
}

#[cfg(feature = "toml")]
#[test]
fn toml_that_does_not_parse_is_a_validation_error() {
    let error = toml::from_str::<toml::Table>("a = ").unwrap_err();
    assert_eq!(by_signal(error.report()), Cause::ValidationError);
}

#[cfg(feature = "anyhow")]
#[test]
fn anyhow_is_read_through_its_context() {
    let error = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
    let error = error.context("could not reach the bank").context("payment failed");
    assert_eq!(by_signal(error.report()), Cause::Network);
    assert!(error.never_sent());
}

/// R-P3: a handler's word that was given as context is heard.
#[cfg(feature = "anyhow")]
#[test]
fn a_handlers_word_is_heard_as_context() {
    let error = anyhow::Error::from(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
    let error = error.context(fail(Cause::RateLimit, "the quota is used up")).context("payment failed");
    assert_eq!(by_signal(error.report()), Cause::RateLimit);
}

#[cfg(feature = "rusqlite")]
mod sqlite {
    use super::*;
    use rusqlite::Connection;

    /// R-P12: a unique violation is integrity, a locked database contention; both made for real.
    #[test]
    fn violations_and_locks_are_told_apart() {
        let file = std::env::temp_dir().join(format!("redrive-signals-{}.db", std::process::id()));
        let _ = std::fs::remove_file(&file);
        let open = || {
            let connection = Connection::open(&file).unwrap();
            connection.busy_timeout(std::time::Duration::ZERO).unwrap();
            connection
        };
        let (first, second) = (open(), open());
        first
            .execute_batch("create table t (id integer primary key, name text unique, n int not null)")
            .unwrap();
        first.execute("insert into t values (1, 'a', 1)", ()).unwrap();

        let unique = first.execute("insert into t values (2, 'a', 1)", ()).unwrap_err();
        assert_eq!(unique.report().code.as_deref(), Some("SQLITE_CONSTRAINT_UNIQUE"));
        assert_eq!(by_signal(unique.report()), Cause::Integrity);
        let null = first.execute("insert into t values (3, 'c', null)", ()).unwrap_err();
        assert_eq!(by_signal(null.report()), Cause::Integrity);
        let syntax = first.execute("selec 1", ()).unwrap_err();
        assert_eq!(by_signal(syntax.report()), Cause::ValidationError);

        first.execute_batch("begin immediate").unwrap();
        let busy = second.execute("insert into t values (4, 'd', 1)", ()).unwrap_err();
        assert_eq!(busy.report().code.as_deref(), Some("SQLITE_BUSY"));
        assert_eq!(by_signal(Ours::Store(Box::new(busy)).report()), Cause::Contention);
        drop((first, second));
        std::fs::remove_file(&file).unwrap();
    }
}

#[cfg(feature = "http")]
mod http {
    use super::*;
    use ::http::{HeaderMap, HeaderValue, Response, StatusCode, header::RETRY_AFTER};
    use redrive::HttpFailure;
    use std::time::Duration;

    /// R-P11, R-P12: status and Retry-After of an answer, bare, captured, and inside an error of one's own.
    #[test]
    fn an_answer_is_its_status_and_its_retry_after() {
        let mut answer = Response::builder().status(429).header(RETRY_AFTER, "30").body("slow down").unwrap();
        let report = answer.report();
        assert_eq!(report.retry_after, Some(Duration::from_secs(30)));
        assert_eq!(by_signal(report), Cause::RateLimit);
        let deep = Ours::Store(Box::new(HttpFailure::check(answer).unwrap_err()));
        assert_eq!(deep.report().retry_after, Some(Duration::from_secs(30)));
        assert_eq!(by_signal(deep.report()), Cause::RateLimit);
        assert_eq!(by_signal(StatusCode::UNAUTHORIZED.report()), Cause::AuthError);
        assert_eq!(by_signal(StatusCode::CONFLICT.report()), Cause::Integrity);

        answer = Response::builder().status(409).header(RETRY_AFTER, "1").body("").unwrap();
        assert_eq!(by_signal(answer.report()), Cause::Contention);
    }

    #[test]
    fn a_body_is_bounded_and_garbage_in_it_is_harmless() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
        let failure = HttpFailure::new(StatusCode::BAD_GATEWAY, &headers, vec![0xff; 10 << 20]);
        assert!(failure.body().len() <= 3 * 16 * 1024);
        assert_eq!(failure.retry_after(), None);
        assert_eq!(by_signal(failure.report()), Cause::ApiError);
    }
}

#[cfg(feature = "reqwest")]
mod reqwest {
    use super::*;
    use redrive::ResponseExt;
    use std::time::Duration;

    fn client() -> ::reqwest::Client {
        ::reqwest::Client::builder().no_proxy().build().unwrap()
    }

    /// R-P11: a real server answers 503 with Retry-After and a body.
    #[tokio::test]
    async fn a_real_answer_is_captured_whole() {
        let (address, _requests) = support::serve(&[support::BUSY]);
        let answer = client().get(format!("http://{address}/")).send().await.unwrap();
        let failure = answer.or_failure().await.unwrap_err();
        assert_eq!((failure.retry_after(), failure.body()), (Some(Duration::from_secs(7)), "busy"));
        assert_eq!(by_signal(failure.report()), Cause::ApiError);
    }

    #[tokio::test]
    async fn error_for_status_keeps_the_status() {
        let (address, _requests) = support::serve(&["HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"]);
        let answer = client().get(format!("http://{address}/")).send().await.unwrap();
        assert_eq!(by_signal(answer.error_for_status().unwrap_err().report()), Cause::AuthError);
    }

    /// R-P3: what reqwest, hyper and the system say between them is found in the chain.
    #[tokio::test]
    async fn a_refused_and_a_broken_connection_are_network() {
        let refused = client().get(format!("http://{}/", support::refusing())).send().await.unwrap_err();
        assert_eq!(by_signal(refused.report()), Cause::Network);
        assert!(refused.never_sent());

        let (address, _requests) = support::serve(&["HTTP/1.1 200 OK\r\ncontent-le"]);
        let broken = client().get(format!("http://{address}/")).send().await.unwrap_err();
        assert!(!broken.never_sent());
        assert_eq!(by_signal(broken.report()), Cause::Network);
    }

    /// R-P12: what came whole and does not parse is a validation error, what broke off is the network.
    #[tokio::test]
    async fn a_body_that_does_not_parse_is_told_from_one_that_broke_off() {
        for (answer, cause) in [
            (
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\n<html",
                Cause::ValidationError,
            ),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", Cause::ValidationError),
            ("HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{", Cause::Network),
        ] {
            let (address, _requests) = support::serve(vec![answer].leak());
            let answered = client().get(format!("http://{address}/")).send().await.unwrap();
            let error = answered.json::<u32>().await.unwrap_err();
            assert_eq!(by_signal(error.report()), cause, "{answer}");
        }
    }

    /// R-P12: whoever answers without HTTP is not asked again.
    #[tokio::test]
    async fn an_answer_that_is_no_http_is_a_matter_of_configuration() {
        let (address, _requests) = support::serve(&["SSH-2.0-OpenSSH_9.6\r\n"]);
        let error = client().get(format!("http://{address}/")).send().await.unwrap_err();
        assert_eq!(by_signal(error.report()), Cause::Configuration);
    }

    /// R-P11: the body of a failure that does not end is listened to for a while, and what came is kept.
    #[tokio::test(start_paused = true)]
    async fn a_body_without_an_end_is_kept_as_far_as_it_came() {
        struct Half(bool);
        impl hyper::body::Body for Half {
            type Data = hyper::body::Bytes;
            type Error = std::io::Error;
            fn poll_frame(
                mut self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
                if std::mem::replace(&mut self.0, true) {
                    return std::task::Poll::Pending;
                }
                std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data("too busy".into()))))
            }
        }
        let body = ::reqwest::Body::wrap(Half(false));
        let answer: ::reqwest::Response = ::http::Response::builder().status(503).body(body).unwrap().into();
        let began = tokio::time::Instant::now();
        let failure = answer.or_failure().await.unwrap_err();
        assert_eq!((failure.status().as_u16(), failure.body()), (503, "too busy"));
        assert_eq!(began.elapsed(), Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_slow_answer_is_a_timeout_and_a_bad_url_a_validation_error() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let slow = client().get(url).timeout(Duration::from_millis(1)).send().await.unwrap_err();
        assert_eq!(by_signal(slow.report()), Cause::Timeout);
        let bad = client().get("no url").send().await.unwrap_err();
        assert_eq!(by_signal(bad.report()), Cause::ValidationError);
    }
}

#[cfg(feature = "hyper-util")]
mod hyper_util {
    use super::*;
    use ::hyper_util::client::legacy::Client;
    use ::hyper_util::rt::TokioExecutor;
    use http_body_util::Empty;
    use hyper::body::Bytes;

    /// R-P3: the pooled client knows whether it ever had a connection.
    #[tokio::test]
    async fn a_connection_that_never_was_is_known() {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let refused =
            client.get(format!("http://{}/", support::refusing()).parse().unwrap()).await.unwrap_err();
        assert_eq!(by_signal(refused.report()), Cause::Network);
        assert!(refused.never_sent());

        let (address, _requests) = support::serve(&["HTTP/1.1 2"]);
        let broken = client.get(format!("http://{address}/").parse().unwrap()).await.unwrap_err();
        assert!(!broken.never_sent());
        assert_eq!(by_signal(broken.report()), Cause::Network);
    }
}

#[cfg(feature = "hyper")]
mod hyper_alone {
    use super::*;
    use http_body_util::Empty;
    use hyper::body::Bytes;

    /// R-P3: a connection that went away before the request was sent is the network, and nothing was sent.
    #[tokio::test]
    async fn a_request_without_a_connection_left_was_not_cancelled_by_anybody() {
        let (ours, _theirs) = tokio::io::duplex(64);
        let ours = ::hyper_util::rt::TokioIo::new(ours);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(ours).await.unwrap();
        drop(connection);
        let request = hyper::Request::get("/").body(Empty::new()).unwrap();
        let error = sender.send_request(request).await.unwrap_err();
        assert!(error.is_canceled());
        assert_eq!(by_signal(error.report()), Cause::Network);
        assert!(error.never_sent());
    }
}

#[cfg(feature = "tokio-postgres")]
mod postgres {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_postgres::{Config, NoTls};

    /// What a client makes of a server that answers its first message with this SQLSTATE, or hangs up.
    async fn refused_with(state: Option<&str>) -> tokio_postgres::Error {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let server = async {
            let length = theirs.read_i32().await.unwrap();
            let mut startup = vec![0; usize::try_from(length).unwrap() - 4];
            theirs.read_exact(&mut startup).await.unwrap();
            if let Some(state) = state {
                let fields = format!("SFATAL\0VFATAL\0C{state}\0Mno\0\0");
                theirs.write_all(b"E").await.unwrap();
                theirs.write_i32(i32::try_from(fields.len()).unwrap() + 4).await.unwrap();
                theirs.write_all(fields.as_bytes()).await.unwrap();
            }
            drop(theirs);
        };
        let mut config = Config::new();
        config.user("redrive");
        let (outcome, ()) = tokio::join!(config.connect_raw(ours, NoTls), server);
        outcome.err().unwrap()
    }

    /// R-P12: the SQLSTATE decides, whatever the words say.
    #[tokio::test]
    async fn an_sqlstate_is_known() {
        for (state, cause) in [
            ("28P01", Cause::AuthError),
            ("40001", Cause::Contention),
            ("40P01", Cause::Contention),
            ("23505", Cause::Integrity),
            ("55P03", Cause::Contention),
            ("42601", Cause::ValidationError),
        ] {
            let error = refused_with(Some(state)).await;
            assert_eq!(error.report().code.as_deref(), Some(state));
            assert_eq!(by_signal(Ours::Store(Box::new(error)).report()), cause, "{state}");
        }
        assert_eq!(by_signal(refused_with(None).await.report()), Cause::Network);
    }
}
