//! The classifier on messages of our own: a floor under its figures, so that a new rule cannot quietly cost old ones.

#![allow(clippy::unwrap_used)]

use redrive_policy::{Cause, Classifier, Report};
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    id: String,
    text: String,
    http_status: Option<u16>,
    exit_code: Option<i32>,
    code: Option<String>,
    cause: Cause,
    retry: bool,
}

struct Figures {
    cause_right: f64,
    retry_right: f64,
    wrongly_retried: f64,
}

fn measure(corpus: &str) -> Figures {
    let entries: Vec<Entry> = corpus.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(entries.len() > 100, "a corpus is more than {} entries", entries.len());
    let (mut cause, mut retry, mut never, mut retried) = (0u32, 0u32, 0u32, 0u32);
    for entry in &entries {
        let report = Report {
            http_status: entry.http_status,
            exit_code: entry.exit_code,
            code: entry.code.as_deref().map(Into::into),
            ..Report::text(&entry.text)
        };
        let failure = Classifier::built_in().classify(&report);
        assert!(!failure.rule.as_str().is_empty(), "{}", entry.id);
        cause += u32::from(failure.cause == entry.cause);
        retry += u32::from(failure.is_retryable() == entry.retry);
        if !entry.retry {
            never += 1;
            retried += u32::from(failure.is_retryable());
        }
    }
    let all = f64::from(u32::try_from(entries.len()).unwrap());
    Figures {
        cause_right: f64::from(cause) / all,
        retry_right: f64::from(retry) / all,
        wrongly_retried: f64::from(retried) / f64::from(never),
    }
}

fn check(corpus: &str) {
    let figures = measure(corpus);
    assert!(figures.retry_right >= 0.97, "retry right: {:.3}", figures.retry_right);
    assert!(figures.cause_right >= 0.92, "cause right: {:.3}", figures.cause_right);
    assert!(figures.wrongly_retried <= 0.02, "wrongly retried: {:.3}", figures.wrongly_retried);
}

/// R-P3, R-P4: by system family.
#[test]
fn messages_of_the_field_are_recognised() {
    check(include_str!("../corpus/field.jsonl"));
}

/// R-P3, R-P4: written without sight of the rules.
#[test]
fn messages_written_without_the_rules_are_recognised() {
    check(include_str!("../corpus/blind.jsonl"));
}

/// R-P3, R-P4: from systems that few people run.
#[test]
fn messages_of_rare_systems_are_recognised() {
    check(include_str!("../corpus/rare.jsonl"));
}
