//! What a person is told when the machine gives up.

use redrive_policy::{
    Cause, EscalateSettings, Escalation, Failure, FailureType, History, Lang, Policy, ReasonType,
    RetryAttempt, Rng, decide,
};

fn attempt(number: u32, cause: Cause, message: &str) -> RetryAttempt {
    RetryAttempt {
        attempt_number: number,
        timestamp: format!("2026-01-23T10:1{number}:00Z"),
        failure_type: cause.failure_type(),
        cause,
        error_message: message.to_owned(),
        duration_ms: 12,
    }
}

fn report(
    cause: Cause,
    retries: u32,
    message: &str,
    settings: &EscalateSettings,
    lang: Lang,
) -> redrive_policy::EscalationReport {
    let decision =
        decide(&Policy::standard(), &Failure::of(cause), &History::retries(retries), &mut Rng::seeded(1));
    let attempts: Vec<RetryAttempt> = (0..=retries).map(|n| attempt(n + 1, cause, message)).collect();
    Escalation {
        task_id: "task-001",
        subtask_id: None,
        task_summary: "ユーザー認証機能の実装",
        decision: &decision,
        attempts: &attempts,
        escalated_at: "2026-01-23T10:20:00Z",
        trace_file: None,
        relevant_logs: &(0..50).map(|n| format!("line {n}")).collect::<Vec<_>>(),
    }
    .report(settings, lang)
}

/// R-T7: four reason types, the attempts in short, and a bounded tail of the output.
#[test]
fn the_report_tells_reason_attempts_and_logs() {
    let settings = EscalateSettings::default();
    for (cause, retries, expected) in [
        (Cause::Quality, 3, ReasonType::MaxRetries),
        (Cause::AuthError, 0, ReasonType::FatalError),
        (Cause::NotFound, 0, ReasonType::FatalError),
        (Cause::HumanJudgment, 0, ReasonType::HumanJudgment),
        (Cause::Unknown, 0, ReasonType::HumanJudgment),
        (Cause::ResourceExhausted, 0, ReasonType::ResourceExhausted),
    ] {
        let report = report(cause, retries, "Q2 failed: TODO marker detected", &settings, Lang::Ja);
        assert_eq!(report.reason.reason_type, expected, "{cause}");
        assert_eq!(report.failure_summary.total_attempts, retries + 1);
        assert_eq!(report.failure_summary.failure_types.len(), retries as usize + 1);
        assert_eq!(report.failure_summary.last_failure.failure_type, cause.failure_type());
        assert_eq!(report.debug_info.trace_file, "redrive:trace/task-001");
        assert_eq!(report.debug_info.relevant_logs.len(), 20);
        assert_eq!(report.debug_info.relevant_logs.last().unwrap(), "line 49");
        assert!(!report.recommended_actions.is_empty());
    }
    let json = serde_json::to_value(report(Cause::Quality, 3, "x", &settings, Lang::En)).unwrap();
    assert_eq!(json["reason"]["type"], "MAX_RETRIES");
    assert_eq!(json["failure_summary"]["last_failure"]["type"], FailureType::QualityFailure.name());
}

/// R-T8: minimal, with the trace link, in both languages.
#[test]
fn the_message_is_short_and_leads_to_the_trace() {
    let settings = EscalateSettings::default();
    let japanese = report(Cause::Quality, 3, "Q2 failed", &settings, Lang::Ja).user_message;
    assert!(
        japanese.starts_with("タスク「ユーザー認証機能の実装」は 4 回試行しましたが完了できませんでした。"),
        "{japanese}"
    );
    assert!(japanese.ends_with("詳細: redrive trace task-001"));
    let english = report(Cause::AuthError, 0, "401", &settings, Lang::En).user_message;
    assert!(
        english.contains("refused the credentials") && english.contains("redrive trace task-001"),
        "{english}"
    );
    let without = EscalateSettings { include_trace_link: false, ..settings };
    assert!(!report(Cause::AuthError, 0, "401", &without, Lang::En).user_message.contains("Details:"));
}

/// R-T8: never above its length, no stack trace, no secret, no control character.
#[test]
fn the_message_is_bounded_and_clean() {
    let message = "\u{1b}[31mlogin with password=hunter2 failed\nTraceback (most recent call last):\n  File \"x.py\", line 1";
    let long = format!("{message}{}", "x".repeat(5_000));
    for lang in Lang::ALL {
        for cause in Cause::ALL {
            for max_message_length in [500, 120, 40, 5, 0] {
                let settings = EscalateSettings { max_message_length, ..EscalateSettings::default() };
                let told = report(*cause, 0, &long, &settings, lang);
                assert!(
                    told.user_message.chars().count() <= max_message_length,
                    "{cause} {max_message_length}"
                );
                assert!(!told.user_message.contains("hunter2") && !told.user_message.contains("Traceback"));
                assert!(!told.user_message.contains('\u{1b}'));
                assert!(!serde_json::to_string(&told).unwrap().contains("hunter2"));
            }
        }
    }
}
