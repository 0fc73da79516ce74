//! What a service says to a push, beside its status: a verdict, or which items of a batch have failed.

use std::collections::HashSet;
use std::time::Duration;

use redrive_store::JobId;
use serde_json::Value;

/// How long a snooze is when the service does not say.
const SNOOZE: Duration = Duration::from_mins(1);
/// The longest wait that a service may ask for.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// A verdict in the body of an answer. It beats the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    Retry {
        reason: String,
        after: Option<Duration>,
    },
    Dead {
        reason: String,
    },
    Snooze(Duration),
    /// There is one, and nobody knows what it means.
    Unknown(String),
}

/// The verdict that a body holds, if it holds one.
pub(super) fn verdict(body: &str) -> Option<Verdict> {
    let body: Value = serde_json::from_str(body).ok()?;
    let verdict = body.as_object()?.get("verdict")?;
    let reason = |otherwise: &str| body["reason"].as_str().unwrap_or(otherwise).to_owned();
    let delay = body["delay_ms"].as_u64().map(|delay| Duration::from_millis(delay).min(LONGEST));
    Some(match verdict.as_str() {
        Some("ok") => Verdict::Ok,
        Some("retry") => {
            Verdict::Retry { reason: reason("the service asks for another attempt"), after: delay }
        }
        Some("dead") => Verdict::Dead { reason: reason("the service set it aside") },
        Some("snooze") => Verdict::Snooze(delay.unwrap_or(SNOOZE)),
        _ => Verdict::Unknown(verdict.to_string()),
    })
}

/// Which items of a batch have failed, by the answer of a service that took the batch. It fails closed, as AWS Lambda does: an
/// answer that cannot be read means that all of them have.
pub(super) fn failures(body: &str, sent: &[JobId]) -> Result<HashSet<JobId>, String> {
    if body.trim().is_empty() {
        return Ok(HashSet::new());
    }
    let body: Value =
        serde_json::from_str(body).map_err(|error| format!("the answer is no JSON: {error}"))?;
    let listed = match &body {
        Value::Null => return Ok(HashSet::new()),
        Value::Object(body) => body.get("batchItemFailures").unwrap_or(&Value::Null),
        _ => return Err("the answer is no JSON object".to_owned()),
    };
    let listed = match listed {
        Value::Null => return Ok(HashSet::new()),
        Value::Array(listed) => listed,
        _ => return Err("batchItemFailures is no list".to_owned()),
    };
    let mut failed = HashSet::new();
    for item in listed {
        let id = item.get("itemIdentifier").and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = id.ok_or("an item of batchItemFailures has no itemIdentifier")?;
        let known = id.parse().ok().filter(|id| sent.contains(id));
        failed.insert(known.ok_or_else(|| format!("batchItemFailures names {id:?}, which was not sent"))?);
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D3: each verdict is read with its reason and delay, and one that nobody knows is not taken for a yes.
    #[test]
    fn verdicts_are_read() {
        let retry = |reason: &str, after| Verdict::Retry { reason: reason.to_owned(), after };
        for (body, expected) in [
            (r#"{"verdict":"ok"}"#, Some(Verdict::Ok)),
            (
                r#"{"verdict":"retry","reason":"busy","delay_ms":1500}"#,
                Some(retry("busy", Some(Duration::from_millis(1_500)))),
            ),
            (r#"{"verdict":"retry"}"#, Some(retry("the service asks for another attempt", None))),
            (r#"{"verdict":"dead","reason":"no"}"#, Some(Verdict::Dead { reason: "no".to_owned() })),
            (r#"{"verdict":"snooze","delay_ms":10}"#, Some(Verdict::Snooze(Duration::from_millis(10)))),
            (r#"{"verdict":"snooze"}"#, Some(Verdict::Snooze(SNOOZE))),
            (r#"{"verdict":"maybe"}"#, Some(Verdict::Unknown("\"maybe\"".to_owned()))),
            (r#"{"verdict":7}"#, Some(Verdict::Unknown("7".to_owned()))),
            (r#"{"result":"ok"}"#, None),
            (r#"["verdict"]"#, None),
            ("verdict: ok", None),
            ("", None),
        ] {
            assert_eq!(verdict(body), expected, "{body}");
        }
    }

    /// R-D3: the rules of AWS Lambda's partial batch responses, row by row.
    #[test]
    fn failures_of_a_batch_are_read_and_fail_closed() {
        let sent = [JobId(1), JobId(2), JobId(3)];
        let two = HashSet::from([JobId(1), JobId(3)]);
        for (body, expected) in [
            ("", Some(HashSet::new())),
            ("null", Some(HashSet::new())),
            ("{}", Some(HashSet::new())),
            (r#"{"batchItemFailures":[]}"#, Some(HashSet::new())),
            (r#"{"batchItemFailures":null}"#, Some(HashSet::new())),
            (r#"{"batchItemFailures":[{"itemIdentifier":"job_1"},{"itemIdentifier":"job_3"}]}"#, Some(two)),
            (r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#, None),
            (r#"{"batchItemFailures":[{"id":"job_1"}]}"#, None),
            (r#"{"batchItemFailures":[{"itemIdentifier":"job_9"}]}"#, None),
            (r#"{"batchItemFailures":["job_1"]}"#, None),
            (r#"{"batchItemFailures":"job_1"}"#, None),
            ("[]", None),
            ("OK", None),
        ] {
            assert_eq!(failures(body, &sent).ok(), expected, "{body}");
        }
    }
}
