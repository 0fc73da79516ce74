//! An HTTP call as a job: it is sent once, and what became of it is told as an [`Outcome`].
//!
//! 2xx is success; everything else is a failure with its status, its `Retry-After`, its code and its words. No
//! redirect is followed, whatever the method: it leads where nobody has allowed to go, with a key and a body
//! that were meant for somebody else. The address is the job's, so a person puts the new one in.
//!
//! Every attempt carries the same `Idempotency-Key` (R-I8), and by its other headers the far side can tell the
//! attempts apart and turn away one whose lease is over.

mod guard;
mod spec;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::LOCATION, header::USER_AGENT};
use redrive_policy::{Cause, Report, TEXT_BOUND, Verdict};
use reqwest::{Client, ClientBuilder, Request, Response, Url, redirect};
use tokio::time::{Instant, timeout, timeout_at};

#[cfg(feature = "push")]
pub(crate) use guard::evidence as refusal;
pub use guard::{Guard, GuardedCalls, Inside, Looked, Lookup, Refused, inside as inside_of_network};
pub use spec::{BadCall, HttpSpec, shown_webhook};

use crate::bounded::{OUTPUT_BOUND, both_ends};
use crate::outcome::{Evidence, Executed, Outcome, time_details};
use crate::signals::http::retry_after;
use crate::surroundings::Surroundings;
use spec::place;

/// How long a call may take when nobody says otherwise.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const ATTEMPT: &str = "redrive-attempt";
const JOB_ID: &str = "redrive-job-id";
const FENCE: &str = "redrive-fence";

/// How much of an answer's body is read. What follows is not waited for.
const BODY_BOUND: usize = 64 * 1024;
/// How long a body is listened to; the status is known already.
const BODY_WITHIN: Duration = Duration::from_secs(5);

/// How a client must be built so that no redirect is followed; what else it needs is the caller's.
///
/// ```
/// let client = redrive::http_client().build().unwrap();
/// ```
pub fn http_client() -> ClientBuilder {
    Client::builder().redirect(redirect::Policy::none())
}

/// Makes a call once and tells what became of it. The client should come from [`http_client`].
///
/// ```
/// use redrive::{HttpSpec, Surroundings, call_http, http_client};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let nobody_listens = HttpSpec::new("POST", "http://127.0.0.1:9/orders");
/// let client = http_client().no_proxy().build().unwrap();
/// let executed = call_http(&client, &nobody_listens, &Surroundings::new("job_01", 1)).await;
/// assert!(matches!(executed.outcome, redrive::Outcome::Failed(evidence) if evidence.never_sent));
/// # });
/// ```
///
/// It sends the job's `Idempotency-Key`, or the job's id in its place, unless the spec has one of its own; and
/// `redrive-attempt`, `redrive-job-id` and `redrive-fence`.
pub async fn call_http(client: &Client, spec: &HttpSpec, around: &Surroundings) -> Executed {
    let began = Instant::now();
    let request = match request(client, spec, around) {
        Ok(request) => request,
        Err(evidence) => return Executed::silent(Outcome::failed(evidence), began.elapsed()),
    };
    let known = spec.secrets();
    let limit = around.timeout.unwrap_or(DEFAULT_CALL_TIMEOUT);
    let url = request.url().clone();
    let exchange = async {
        let answer = match timeout(limit, client.execute(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(not_answered(error)),
            Err(_) => return Err(out_of_time(limit, began.elapsed())),
        };
        let body_until = Instant::now() + BODY_WITHIN.min(limit.saturating_sub(began.elapsed()));
        let mut answer = heard(answer, body_until).await;
        // An answer may repeat what it was asked with.
        answer.body = known.mask(&answer.body).into_owned();
        Ok(answer)
    };
    let told = tokio::select! {
        biased;
        () = around.cancelled() => {
            let outcome = Outcome::Cancelled("the attempt was cancelled".to_owned());
            return Executed::silent(outcome, began.elapsed());
        }
        told = exchange => told,
    };
    let http_status = told.as_ref().ok().map(|answer| answer.status.as_u16());
    let (outcome, stdout_tail) = match told {
        Ok(answer) => {
            let shown = crate::secrets::redact(&answer.body);
            let shown = both_ends(&shown, OUTPUT_BOUND).into_owned();
            (answer.outcome(&url), Some(shown).filter(|shown| !shown.is_empty()))
        }
        Err(mut evidence) => {
            evidence.message = known.mask(&evidence.message).into_owned();
            (Outcome::failed(evidence), None)
        }
    };
    Executed { http_status, stdout_tail, ..Executed::silent(outcome, began.elapsed()) }
}

fn request(client: &Client, spec: &HttpSpec, around: &Surroundings) -> Result<Request, Evidence> {
    let checked = spec.check().map_err(|error| unsendable(error.to_string()))?;
    let mut headers = checked.headers;
    // A blank key is none: nobody can be known again by it.
    let has_key = headers.get_all(KEY).iter().any(|key| !key.as_bytes().trim_ascii().is_empty());
    let key = around.idempotency_key.as_deref().unwrap_or(&around.job_id);
    for (name, value) in [
        (KEY, Some(key).filter(|key| !has_key && !key.is_empty())),
        (HeaderName::from_static(ATTEMPT), Some(around.attempt.to_string().as_str())),
        (HeaderName::from_static(JOB_ID), Some(around.job_id.as_str()).filter(|id| !id.is_empty())),
        (HeaderName::from_static(FENCE), around.fence.as_deref()),
    ] {
        if let Some(value) = value {
            let value = HeaderValue::from_bytes(value.as_bytes());
            let value = value.map_err(|_| unsendable(format!("the {name} cannot be sent as a header")))?;
            headers.insert(name, value);
        }
    }
    let ours = HeaderValue::from_static(concat!("redrive/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(ours);
    // The client makes `Authorization: Basic` of a name and password in the address; a header of the spec wins.
    let request = client.request(checked.method, checked.url).headers(headers);
    let request = spec.body.iter().fold(request, |request, body| request.body(body.clone()));
    request.build().map_err(|error| unsendable(error.without_url().to_string()))
}

/// What cannot be sent now cannot be sent later.
fn unsendable(message: String) -> Evidence {
    let report = Report::said(Cause::ValidationError, Verdict::No, message);
    Evidence { never_sent: true, ..Evidence::from_report("BadCall", &report) }
}

/// The line failed. Its error would repeat the address with everything in it.
pub(crate) fn not_answered(error: reqwest::Error) -> Evidence {
    if let Some(refused) = guard::refusal_in(&error) {
        return guard::evidence(&refused);
    }
    Evidence::of(&error.without_url())
}

pub(crate) fn out_of_time(limit: Duration, elapsed: Duration) -> Evidence {
    let message = format!("no answer within {}", redrive_policy::human_duration(limit));
    let report = Report::text(message).with_code("ETIMEDOUT");
    Evidence { details: Some(time_details(limit, elapsed)), ..Evidence::from_report("Timeout", &report) }
}

/// As much of an answer as is needed.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) is_whole: bool,
}

/// Listens to an answer for as long as it is worth it. A body that breaks off changes nothing about the status.
pub(crate) async fn heard(mut answer: Response, until: Instant) -> Answer {
    let mut body = Vec::new();
    let mut is_whole = false;
    while body.len() < BODY_BOUND
        && let Ok(Ok(chunk)) = timeout_at(until, answer.chunk()).await
    {
        let Some(chunk) = chunk else {
            is_whole = true;
            break;
        };
        body.extend_from_slice(&chunk[..chunk.len().min(BODY_BOUND - body.len())]);
    }
    let body = String::from_utf8_lossy(&body).into_owned();
    Answer { status: answer.status(), headers: answer.headers().clone(), body, is_whole }
}

impl Answer {
    /// Whether it broke off, so that nobody knows what it was about to say. One that is longer than we listen to did not.
    pub(crate) fn broke_off(&self) -> bool {
        !self.is_whole && self.body.len() < BODY_BOUND
    }

    pub(crate) fn outcome(&self, asked: &Url) -> Outcome {
        if self.status.is_success() {
            return Outcome::Succeeded;
        }
        let moved = self.moved_to(asked);
        let words = moved.as_deref().unwrap_or(&self.body);
        let report = Report::text(both_ends(words.trim(), TEXT_BOUND)).with_status(self.status.as_u16());
        let mut evidence = Evidence::from_report("HttpStatus", &report);
        evidence.retry_after = retry_after(&self.headers);
        evidence.code = if self.is_whole { code_in(&self.body) } else { None };
        Outcome::failed(evidence)
    }

    /// What a person should know about a redirect.
    fn moved_to(&self, asked: &Url) -> Option<String> {
        if !self.status.is_redirection() {
            return None;
        }
        let to = asked.join(self.headers.get(LOCATION)?.to_str().ok()?).ok()?;
        Some(format!(
            "redirected to {}, and redirects are not followed; change the job's address",
            place(&to)
        ))
    }
}

/// The machine-readable code that a body holds in one of the usual places.
fn code_in(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let error = &body["error"];
    let code = [&error["code"], &error["status"], error, &body["code"], &body["__type"]];
    let code = code.into_iter().find_map(serde_json::Value::as_str)?;
    // A namespace before it is not part of it, and a sentence is not a code.
    let code = code.rsplit('#').next().unwrap_or(code).trim();
    (!code.is_empty() && code.len() <= 128 && !code.contains(char::is_whitespace)).then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-P3: the code of an SDK or an API is read where it usually stands, and a sentence is none.
    #[test]
    fn a_code_is_read_from_the_usual_places() {
        for (body, code) in [
            (r#"{"code":"rate_limited"}"#, Some("rate_limited")),
            (r#"{"error":{"code":"invalid_api_key","message":"x"}}"#, Some("invalid_api_key")),
            (r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#, Some("RESOURCE_EXHAUSTED")),
            (r#"{"error":"invalid_grant"}"#, Some("invalid_grant")),
            (r#"{"__type":"com.amazonaws.sqs#ThrottlingException"}"#, Some("ThrottlingException")),
            (r#"{"error":"this is a sentence"}"#, None),
            (r#"{"code":42}"#, None),
            ("[1]", None),
            ("<html>", None),
        ] {
            assert_eq!(code_in(body).as_deref(), code, "{body}");
        }
    }
}
