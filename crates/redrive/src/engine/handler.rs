//! Typed handlers: a payload that is parsed, a context, and an answer that says what becomes of the job.

use std::future::{Future, ready};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, Verdict};
use serde::de::DeserializeOwned;

use super::Context;
use super::executor::{Boxed, Running, Work, Worked};
use crate::into_failure::IntoFailure;
use crate::outcome::{Evidence, Executed, Outcome};

/// What a handler that has not failed says about its job.
///
/// ```
/// use redrive::engine::Reply;
/// use redrive::Fail;
/// use std::time::Duration;
///
/// async fn poll(order: u64) -> Result<Reply, Fail> {
///     if order % 2 == 0 { Ok(Reply::Done) } else { Ok(Reply::Snooze(Duration::from_secs(60))) }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is done. `()` says the same.
    Done,
    /// Not now: again after so long, and no attempt is used up.
    Snooze(Duration),
    /// It is not wanted any more, for this reason: no retry, no letter.
    Cancel(String),
}

impl From<()> for Reply {
    fn from((): ()) -> Reply {
        Reply::Done
    }
}

impl From<Reply> for Outcome {
    fn from(reply: Reply) -> Outcome {
        match reply {
            Reply::Done => Outcome::Succeeded,
            Reply::Snooze(delay) => Outcome::Snoozed(delay),
            Reply::Cancel(why) => Outcome::Cancelled(why),
        }
    }
}

/// A handler whose types are known.
pub(super) struct Typed<T, S, F> {
    state: Arc<S>,
    handler: F,
    payload: PhantomData<fn(T)>,
}

impl<T, S, F> Typed<T, S, F> {
    pub(super) fn new(state: Arc<S>, handler: F) -> Typed<T, S, F> {
        Typed { state, handler, payload: PhantomData }
    }
}

impl<T, S, F, Fut, R, E> Work for Typed<T, S, F>
where
    T: DeserializeOwned + Send + 'static,
    S: Send + Sync + 'static,
    F: Fn(T, Context<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    R: Into<Reply>,
    E: IntoFailure,
{
    fn begin(&self, running: Running) -> Boxed<'static, Worked> {
        let payload = match parse(&running.job.payload) {
            Ok(payload) => payload,
            Err(evidence) => return Box::pin(ready(silent(Outcome::failed(evidence)))),
        };
        let attempt = (self.handler)(payload, Context::new(running, Arc::clone(&self.state)));
        Box::pin(async move {
            silent(match attempt.await {
                Ok(reply) => reply.into().into(),
                Err(error) => Outcome::failed(Evidence::of(&error)),
            })
        })
    }
}

/// How long it took is measured outside, where a panic cannot hide it.
pub(super) fn silent(outcome: Outcome) -> Worked {
    Worked::Executed(Executed::silent(outcome, Duration::ZERO))
}

/// The payload as the handler wants it, or a failure that names the field. It is a validation error: the same bytes
/// will not parse another time.
pub(super) fn parse<T: DeserializeOwned>(payload: &[u8]) -> Result<T, Evidence> {
    let error = match serde_json::from_slice(payload) {
        Ok(payload) => return Ok(payload),
        Err(error) => error,
    };
    // Parsed a second time only when it fails, so that the way of a success stays short.
    let path = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(payload))
        .err()
        .map(|error| error.path().to_string())
        .filter(|path| path != ".");
    Err(unreadable(&match path {
        Some(path) => format!("{path}: {}", without_values(&error)),
        None => without_values(&error),
    }))
}

/// An error's words without what it found: that is the caller's, and shown only to who asks for the payload.
fn without_values(error: &serde_json::Error) -> String {
    let words = error.to_string();
    for (begin, end) in [("invalid type: ", ""), ("invalid value: ", ""), ("unknown variant `", "`")] {
        let Some(rest) = words.strip_prefix(begin) else { continue };
        // What was expected comes last, whatever was found.
        let Some((found, expected)) = rest.rsplit_once(&format!("{end}, expected ")) else { continue };
        // Of what was found only its kind is told.
        let kind = if end.is_empty() { found.split(['"', '`']).next().unwrap_or_default() } else { "" };
        let said = format!("{begin}{kind}");
        return format!("{}, expected {expected}", said.trim_end_matches(['`', ' ']));
    }
    words
}

/// What is known of a payload that cannot be read.
pub(super) fn unreadable(why: &str) -> Evidence {
    Evidence {
        said: Some((Cause::ValidationError, Verdict::Unsaid)),
        error_type: "PayloadError".to_owned(),
        message: format!("the payload does not fit the handler: {why}"),
        ..Evidence::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Mail {
        to: Address,
    }
    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Address {
        port: u16,
    }

    /// R-D1: a payload that does not parse names the field.
    #[test]
    fn a_payload_that_does_not_fit_names_the_field() {
        for (payload, named) in [
            (r#"{"to":{"port":"x"}}"#, "to.port: invalid type"),
            (r#"{"to":{}}"#, "missing field `port`"),
            ("{", "EOF"),
        ] {
            let message = parse::<Mail>(payload.as_bytes()).unwrap_err().message;
            assert!(message.contains(named), "{message}");
        }
        assert_eq!(parse::<u8>(b"7").unwrap(), 7);
    }

    #[derive(Debug, serde::Deserialize)]
    enum Colour {
        Red,
        Green,
    }

    /// R-D7: what a job carries is shown only to who asks for it; an error about it says what was expected.
    #[test]
    fn a_payload_that_does_not_fit_is_not_told() {
        let said = |evidence: Evidence| evidence.message;
        let secret = r#"{"to":{"port":"hunter2, expected \"x\""}}"#;
        for (message, expected) in [
            (
                said(parse::<Mail>(secret.as_bytes()).unwrap_err()),
                "to.port: invalid type: string, expected u16 at line 1",
            ),
            (
                said(parse::<Colour>(b"\"hunter2\"").unwrap_err()),
                "unknown variant, expected `Red` or `Green`",
            ),
            (said(parse::<u8>(b"4242").unwrap_err()), "invalid value: integer, expected u8"),
        ] {
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("hunter2") && !message.contains("4242"), "{message}");
        }
    }
}
