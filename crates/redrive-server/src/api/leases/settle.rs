//! From what a worker says about its attempts to what became of them.

use std::time::Duration;

use redrive::Evidence;
use redrive::engine::{Decided, HeldLease, Remote, RemoteEnd, RemoteOutcome, RemoteSettled};
use redrive_policy::{Cause, Lang, Verdict, round_to_millis};
use serde_json::Value;
use serde_json::value::RawValue;

use super::held;
use super::shapes::{
    DecisionBody, ErrorBody, ItemProblem, OutcomeName, SettleItem, SettledItem, SettledItems, read,
};
use crate::caller::Caller;
use crate::problem::{Code, Problem};

/// The longest wait that a worker may ask for.
const LONGEST_DELAY: Duration = Duration::from_hours(24 * 366);

pub(super) async fn settle(
    remote: &Remote,
    caller: &Caller,
    items: &[Box<RawValue>],
    lang: Lang,
) -> Result<SettledItems, Problem> {
    let mut ends = Vec::with_capacity(items.len());
    let mut refused = Vec::with_capacity(items.len());
    for item in items {
        match end(remote, caller, item, lang) {
            Ok(end) => {
                ends.push(end);
                refused.push(None);
            }
            Err(problem) => refused.push(Some(problem)),
        }
    }
    let settled = if ends.is_empty() { Vec::new() } else { remote.settle(ends).await? };
    let mut settled = settled.into_iter();
    let answered = refused.into_iter().map(|refused| match refused {
        Some(problem) => SettledItem::refused(problem),
        None => told(settled.next().unwrap_or(RemoteSettled::Stale)),
    });
    Ok(SettledItems { items: answered.collect() })
}

fn end(remote: &Remote, caller: &Caller, item: &RawValue, lang: Lang) -> Result<RemoteEnd, ItemProblem> {
    let told = |problem: Problem| ItemProblem::told(&problem, lang);
    let item: SettleItem = read(item).map_err(told)?;
    let held = held(remote.read(&item.lease), caller, lang)?;
    fits(&item).map_err(told)?;
    ended(held, item).map_err(told)
}

/// Whether what is said goes with how it ended. Who says what went wrong with a success, or when a failure comes again, means something
/// that would not be done. Words that nobody keeps, a reason or an output, take no end away from a job.
fn fits(item: &SettleItem) -> Result<(), Problem> {
    use OutcomeName::{Dead, Failed, Snoozed};
    let outcome = item.outcome;
    let given = [
        ("error", item.error.is_some(), matches!(outcome, Failed | Dead)),
        ("delay_ms", item.delay_ms.is_some(), matches!(outcome, Snoozed)),
    ];
    match given.into_iter().find(|(_, is_said, goes)| *is_said && !goes) {
        Some((field, ..)) => Err(Problem::new(Code::Invalid, "leases.not_with")
            .with("field", field)
            .with("outcome", outcome.name())
            .at(field)),
        None => Ok(()),
    }
}

fn ended(held: HeldLease, item: SettleItem) -> Result<RemoteEnd, Problem> {
    let SettleItem { error, delay_ms, output, latency_ms, reason, .. } = item;
    let said = |otherwise: &str| reason.clone().unwrap_or_else(|| otherwise.to_owned());
    let outcome = match item.outcome {
        OutcomeName::Succeeded => RemoteOutcome::Succeeded,
        OutcomeName::Failed => failed(error.unwrap_or_default(), reason)?,
        OutcomeName::Snoozed => {
            let delay = delay_ms.ok_or_else(|| Problem::new(Code::Invalid, "leases.delay").at("delay_ms"))?;
            RemoteOutcome::Snoozed(within(delay, "delay_ms")?)
        }
        OutcomeName::Cancelled => RemoteOutcome::Cancelled(said("its worker cancelled it")),
        OutcomeName::Dead => {
            let words = error.and_then(|error| error.message);
            RemoteOutcome::Dead(reason.or(words).unwrap_or_else(|| "its worker set it aside".to_owned()))
        }
        OutcomeName::Released => RemoteOutcome::Released(said("its worker gave it back")),
    };
    let output = output.map(|output| match output {
        Value::String(text) => text,
        json => json.to_string(),
    });
    Ok(RemoteEnd { held, outcome, latency: latency_ms.map(Duration::from_millis), output })
}

fn failed(error: ErrorBody, reason: Option<String>) -> Result<RemoteOutcome, Problem> {
    let cause: Option<Cause> = match error.cause.as_deref() {
        None => None,
        Some(name) => {
            let unknown =
                |_| Problem::new(Code::Invalid, "leases.cause").with("name", name).at("error.cause");
            Some(name.parse().map_err(unknown)?)
        }
    };
    let verdict = match error.retryable {
        None => Verdict::Unsaid,
        Some(true) => Verdict::Yes,
        Some(false) => Verdict::No,
    };
    let mut evidence = Evidence {
        said: cause.map(|cause| (cause, verdict)),
        http_status: error.http_status,
        exit_code: error.exit_code,
        code: error.code.filter(|code| !code.is_empty()).map(|code| bounded(code, 256)),
        // What some service far away has said: the policy knows how much of it to believe.
        retry_after: error.retry_after_ms.map(|ms| Duration::from_millis(ms).min(LONGEST_DELAY)),
        error_type: bounded(error.error_type.unwrap_or_else(|| "Error".to_owned()), 256),
        message: bounded(error.message.or(reason).unwrap_or_default(), 16 * 1024),
        ..Evidence::default()
    };
    // Where the worker itself has said what it is, nothing has to be found out.
    if cause.is_none() {
        evidence.message = words(&evidence.error_type, evidence.message);
    }
    Ok(RemoteOutcome::Failed { evidence: Box::new(evidence), again: error.retryable, stack: error.stack })
}

/// An error's words as people read them, with its type in front: `TimeoutError: no answer`. Often the type says more than what
/// follows it.
fn words(error_type: &str, message: String) -> String {
    if matches!(error_type, "" | "Error" | "Exception") || message.contains(error_type) {
        message
    } else if message.is_empty() {
        error_type.to_owned()
    } else {
        format!("{error_type}: {message}")
    }
}

/// No more than so many bytes of a text.
fn bounded(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

fn within(delay_ms: u64, field: &'static str) -> Result<Duration, Problem> {
    let delay = Duration::from_millis(delay_ms);
    if delay > LONGEST_DELAY {
        return Err(Problem::new(Code::Invalid, "leases.too_far").at(field));
    }
    Ok(delay)
}

fn told(settled: RemoteSettled) -> SettledItem {
    match settled {
        RemoteSettled::Done { decided, .. } => SettledItem::decided(decision(decided)),
        RemoteSettled::Cancelled { .. } => SettledItem::plain("cancelled"),
        RemoteSettled::Stale => SettledItem::plain("stale"),
    }
}

fn decision(decided: Decided) -> DecisionBody {
    let plain = |decision| DecisionBody { decision, ..DecisionBody::default() };
    match decided {
        Decided::Succeeded => plain("succeeded"),
        Decided::Cancelled => plain("cancelled"),
        Decided::Released => plain("released"),
        Decided::Snoozed { run_at } => DecisionBody { run_at: Some(run_at.to_string()), ..plain("snoozed") },
        Decided::Retry { run_at, delay, why } => DecisionBody {
            run_at: Some(run_at.to_string()),
            delay_ms: Some(round_to_millis(delay)),
            why: Some(why),
            ..plain("retry")
        },
        Decided::Dead { letter, reason, why } => DecisionBody {
            letter: Some(letter.to_string()),
            reason: Some(reason.name()),
            why: Some(why),
            ..plain("dead")
        },
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    /// R-P3: the type of an error is evidence, once, if it says anything.
    #[test]
    fn the_type_stands_in_front_of_the_words() {
        let check = |error_type, message: &str, expected: &str| {
            assert_eq!(words(error_type, message.to_owned()), expected);
        };
        check("TimeoutError", "no answer", "TimeoutError: no answer");
        check("TimeoutError", "", "TimeoutError");
        check("TimeoutError", "TimeoutError: no answer", "TimeoutError: no answer");
        check("Error", "no answer", "no answer");
    }
}
