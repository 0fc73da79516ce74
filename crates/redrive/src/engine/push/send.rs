//! One push: the signed call, and what its answer means for the job or the batch.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use redrive_policy::{Cause, KnownSecrets, Report, Verdict as Again};
use redrive_store::{JobId, Origin};
use reqwest::Url;
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

use super::answer::{self, Verdict};
use super::{PushClients, PushEndpoint, sign};
use crate::bounded::{OUTPUT_BOUND, both_ends};
use crate::engine::batch::{Answers, Batch, ItemAnswer};
use crate::engine::executor::{Boxed, Running, Work, Worked};
use crate::engine::settle::set_aside;
use crate::engine::{Engine, Shutdown};
use crate::http_call::{Answer, heard, not_answered, out_of_time, refusal};
use crate::outcome::{Evidence, Executed, Outcome};
use crate::secrets::redact_knowing;

/// How long the body of an answer is listened to; the status is known already.
const BODY_WITHIN: Duration = Duration::from_secs(5);
/// When a job comes again whose endpoint said that it is gone: until then every server has heard of it.
const AFTER_GONE: Duration = Duration::from_secs(5);

/// Calls one endpoint.
pub(super) struct Pusher {
    pub(super) engine: Engine,
    pub(super) endpoint: PushEndpoint,
    pub(super) url: Url,
    /// What an answer may repeat of how it was asked: the address and the secrets.
    pub(super) known: KnownSecrets,
    pub(super) clients: PushClients,
    /// By which its worker is asked to leave.
    pub(super) shutdown: Shutdown,
}

/// What one call came to.
enum Called {
    Answered(Answer),
    Failed(Evidence),
    /// The endpoint is gone for good.
    Gone,
}

impl Pusher {
    /// One call, signed anew: the id stays the same over all attempts, the time does not.
    async fn call(&self, id: &str, mut headers: HeaderMap, body: Vec<u8>, limit: Duration) -> Called {
        let began = Instant::now();
        let seconds = self.engine.now().millis().div_euclid(1_000);
        let signature = sign::signature(&self.endpoint.secrets, id, seconds, &body);
        for (name, value) in [
            ("webhook-id", id),
            ("webhook-timestamp", &seconds.to_string()),
            ("webhook-signature", &signature),
        ] {
            put(&mut headers, name, value);
        }
        put(&mut headers, "user-agent", concat!("redrive/", env!("CARGO_PKG_VERSION")));
        let client = match self.endpoint.origin {
            Origin::Local => self.clients.local.clone(),
            // Every time anew: what is allowed is the guard's business, and so is where the name leads.
            Origin::Api => match self.clients.guarded.client(&self.endpoint.url) {
                Ok(client) => client,
                Err(refused) => return Called::Failed(refusal(&refused)),
            },
        };
        let request = client.post(self.url.clone()).headers(headers).body(body);
        let answer = match timeout(limit, request.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Called::Failed(not_answered(error)),
            Err(_) => return Called::Failed(out_of_time(limit, began.elapsed())),
        };
        let until = tokio::time::Instant::now() + BODY_WITHIN.min(limit.saturating_sub(began.elapsed()));
        let answer = heard(answer, until).await;
        if answer.status == StatusCode::GONE && self.verdict(&answer).is_none() {
            self.gone().await;
            return Called::Gone;
        }
        Called::Answered(answer)
    }

    /// The verdict of an answer, if it came whole and holds one. Its reason may repeat how it was asked.
    fn verdict(&self, answer: &Answer) -> Option<Verdict> {
        let verdict = if answer.is_whole { answer::verdict(&answer.body) } else { None };
        let masked = |text: String| self.known.mask(&text).into_owned();
        Some(match verdict? {
            Verdict::Retry { reason, after } => Verdict::Retry { reason: masked(reason), after },
            Verdict::Dead { reason } => Verdict::Dead { reason: masked(reason) },
            Verdict::Unknown(text) => Verdict::Unknown(masked(text)),
            verdict @ (Verdict::Ok | Verdict::Snooze(_)) => verdict,
        })
    }

    /// What an answer without a verdict means. A yes that broke off where a verdict could have stood is none.
    fn outcome(&self, answer: &Answer) -> Outcome {
        let begun = answer.body.trim_start();
        if answer.status.is_success() && answer.broke_off() && (begun.is_empty() || begun.starts_with('{')) {
            let words = "the answer broke off, and what it was about to say is not known";
            let report = Report::said(Cause::Network, Again::Yes, words).with_status(answer.status.as_u16());
            return Outcome::failed(Evidence::from_report("BrokenAnswer", &report));
        }
        match answer.outcome(&self.url) {
            Outcome::Failed(evidence) => Outcome::failed(evidence.redacted_knowing(&self.known)),
            other => other,
        }
    }

    async fn gone(&self) {
        let why = "it answered 410 Gone";
        tracing::warn!(endpoint = self.endpoint.name, "a push endpoint is disabled: {why}");
        if let Err(error) = self.engine.disable_push(&self.endpoint, why).await {
            // It will say so again.
            tracing::warn!(endpoint = self.endpoint.name, %error, "a push endpoint cannot be disabled");
            return;
        }
        self.shutdown.signal();
    }

    async fn one(&self, running: &Running) -> Worked {
        let began = Instant::now();
        let is_json = serde_json::from_slice::<&RawValue>(&running.job.payload).is_ok();
        let mut headers = HeaderMap::new();
        let kind = if is_json { "application/json" } else { "application/octet-stream" };
        put(&mut headers, header::CONTENT_TYPE.as_str(), kind);
        let id = running.idempotency_key();
        for (name, value) in [
            ("idempotency-key", id.as_str()),
            ("redrive-job-id", &running.job_id().to_string()),
            ("redrive-attempt", &running.attempt.to_string()),
            ("redrive-fence", &running.token.fence.to_string()),
            ("redrive-queue", &running.job.queue),
            ("redrive-kind", &running.job.kind),
        ] {
            put(&mut headers, name, value);
        }
        let limit = running.limit().map_or(self.endpoint.timeout, |limit| limit.min(self.endpoint.timeout));
        let called = tokio::select! {
            biased;
            () = running.cancel().cancelled() => {
                let outcome = Outcome::Cancelled("the attempt was cancelled".to_owned());
                return Worked::Executed(Executed::silent(outcome, began.elapsed()));
            }
            called = self.call(&id, headers, running.job.payload.clone(), limit) => called,
        };
        let silent = |outcome| Worked::Executed(Executed::silent(outcome, began.elapsed()));
        let answer = match called {
            Called::Answered(answer) => answer,
            Called::Failed(evidence) => return silent(Outcome::failed(evidence)),
            Called::Gone => return silent(Outcome::Snoozed(AFTER_GONE)),
        };
        let outcome = match self.verdict(&answer) {
            None => self.outcome(&answer),
            Some(Verdict::Ok) => Outcome::Succeeded,
            Some(Verdict::Snooze(delay)) => Outcome::Snoozed(delay),
            Some(Verdict::Dead { reason }) => {
                return Worked::Failing(Box::new(set_aside(&self.engine, &reason)));
            }
            Some(verdict @ (Verdict::Retry { .. } | Verdict::Unknown(_))) => {
                Outcome::failed(failing(verdict, answer.status))
            }
        };
        let shown = both_ends(&redact_knowing(&self.known, &answer.body), OUTPUT_BOUND).into_owned();
        Worked::Executed(Executed {
            http_status: Some(answer.status.as_u16()),
            stdout_tail: Some(shown).filter(|shown| !shown.is_empty()),
            ..Executed::silent(outcome, began.elapsed())
        })
    }

    async fn many(&self, running: &[Running]) -> Answers {
        let ids: Vec<JobId> = running.iter().map(Running::job_id).collect();
        let items: Vec<serde_json::Value> = running.iter().map(item).collect();
        let body = serde_json::to_vec(&json!({ "items": items })).unwrap_or_default();
        let mut headers = HeaderMap::new();
        put(&mut headers, header::CONTENT_TYPE.as_str(), "application/json");
        let Some(first) = running.iter().min_by_key(|one| one.job_id()) else { return Ok(Vec::new()) };
        let id = batch_id(&first.idempotency_key(), &ids);
        let limit = running.iter().filter_map(Running::limit).min();
        let limit = limit.map_or(self.endpoint.timeout, |limit| limit.min(self.endpoint.timeout));
        let each = |answer: ItemAnswer| Ok(ids.iter().map(|id| (*id, answer.clone())).collect());
        let answer = match self.call(&id, headers, body, limit).await {
            Called::Answered(answer) => answer,
            Called::Failed(evidence) => return Err(evidence),
            Called::Gone => return each(ItemAnswer::Snooze(AFTER_GONE)),
        };
        match self.verdict(&answer) {
            Some(Verdict::Ok) => return each(ItemAnswer::Ack),
            Some(Verdict::Snooze(delay)) => return each(ItemAnswer::Snooze(delay)),
            Some(Verdict::Dead { reason }) => return each(ItemAnswer::DeadLetter(reason)),
            Some(verdict @ (Verdict::Retry { .. } | Verdict::Unknown(_))) => {
                return Err(failing(verdict, answer.status));
            }
            None => {}
        }
        if let Outcome::Failed(evidence) = self.outcome(&answer) {
            return Err(*evidence);
        }
        let broken = || "the answer broke off".to_owned();
        let failures = if answer.is_whole { answer::failures(&answer.body, &ids) } else { Err(broken()) };
        let failed = failures.map_err(|why| {
            let words = format!("{why}; the whole batch counts as failed");
            Evidence::from_report("BatchAnswer", &Report::said(Cause::Incomplete, Again::Unsaid, words))
        })?;
        let judged = |id: &JobId| {
            let words = "the service lists the item among batchItemFailures";
            let report = Report::said(Cause::ApiError, Again::Yes, words);
            let evidence = Evidence::from_report("BatchItemFailure", &report);
            let answer =
                if failed.contains(id) { ItemAnswer::Failed(Box::new(evidence)) } else { ItemAnswer::Ack };
            (*id, answer)
        };
        Ok(ids.iter().map(judged).collect())
    }
}

/// A job as an item of a batch.
/// The same jobs together again are the same message, others are another: who drops what it has seen must drop nothing else. Each
/// job has its own key besides.
fn batch_id(first_key: &str, ids: &[JobId]) -> String {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let digest = ids.iter().fold(Sha256::new(), |digest, id| digest.chain_update(id.0.to_be_bytes()));
    format!("{first_key}-{}", URL_SAFE_NO_PAD.encode(&digest.finalize()[..16]))
}

fn item(running: &Running) -> serde_json::Value {
    let payload: serde_json::Value = serde_json::from_slice(&running.job.payload)
        .unwrap_or_else(|_| String::from_utf8_lossy(&running.job.payload).into());
    json!({
        "itemIdentifier": running.job_id().to_string(),
        "queue": running.job.queue,
        "kind": running.job.kind,
        "payload": payload,
        "attempt": running.attempt,
        "idempotency_key": running.idempotency_key(),
        "fence": running.token.fence,
    })
}

/// A verdict that is a failure.
fn failing(verdict: Verdict, status: StatusCode) -> Evidence {
    let (words, again, retry_after) = match verdict {
        Verdict::Retry { reason, after } => (reason, Again::Yes, after),
        Verdict::Unknown(verdict) => {
            let words = format!("the verdict {verdict} is not known; there are ok, retry, dead and snooze");
            (words, Again::Unsaid, None)
        }
        Verdict::Ok | Verdict::Dead { .. } | Verdict::Snooze(_) => (String::new(), Again::Unsaid, None),
    };
    let report = Report::said(Cause::ApiError, again, words).with_status(status.as_u16());
    Evidence { retry_after, ..Evidence::from_report("PushVerdict", &report) }
}

/// Sets a header. What cannot be one, such as a queue's name in Japanese, is written as percent signs and digits.
fn put(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value = HeaderValue::from_str(value).unwrap_or_else(|_| {
        let plain: String = value
            .bytes()
            .map(|byte| match byte {
                b'!'..=b'$' | b'&'..=b'~' => char::from(byte).to_string(),
                _ => format!("%{byte:02X}"),
            })
            .collect();
        HeaderValue::from_str(&plain).unwrap_or_else(|_| HeaderValue::from_static(""))
    });
    headers.insert(HeaderName::from_static(name), value);
}

/// Pushes jobs one by one.
pub(super) struct One(pub(super) Arc<Pusher>);

impl Work for One {
    fn begin(&self, running: Running) -> Boxed<'static, Worked> {
        let pusher = Arc::clone(&self.0);
        Box::pin(async move { pusher.one(&running).await })
    }

    fn leeway(&self) -> Duration {
        // It keeps to the limit itself, and tells what the call had come to.
        BODY_WITHIN
    }
}

/// Pushes many jobs in one call.
pub(super) struct Many(pub(super) Arc<Pusher>);

impl Batch for Many {
    fn begin(&self, running: &[Running]) -> (Vec<(usize, Evidence)>, Boxed<'static, Answers>) {
        let (pusher, running) = (Arc::clone(&self.0), running.to_vec());
        (Vec::new(), Box::pin(async move { pusher.many(&running).await }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D2: two batches have one id only if they hold the same jobs.
    #[test]
    fn a_batch_of_other_jobs_has_another_id() {
        let id = |ids: &[i64]| batch_id("key", &ids.iter().map(|id| JobId(*id)).collect::<Vec<_>>());
        assert_eq!(id(&[1, 2, 4]), id(&[4, 1, 2]));
        assert_ne!(id(&[1, 2, 4]), id(&[1, 3, 4]));
        assert_ne!(id(&[1, 2, 4]), id(&[1, 4]));
    }
}
