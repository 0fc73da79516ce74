//! What a person is told when the machine gives up.

use std::collections::BTreeSet;

use redrive_policy::{
    Cause, Classifier, EscalateSettings, Escalation, EscalationLevel, EscalationReport, Failure, FailureType,
    FatalError, History, Lang, Policy, ReasonType, Report, RetryAttempt, Rng, RuleId, Verdict, decide,
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
) -> EscalationReport {
    of_failure(&Failure::of(cause), retries, message, settings, lang)
}

fn of_failure(
    failure: &Failure,
    retries: u32,
    message: &str,
    settings: &EscalateSettings,
    lang: Lang,
) -> EscalationReport {
    let cause = failure.cause;
    // A crash is counted apart.
    let history = History { crash_count: retries, ..History::retries(retries) };
    let decision = decide(&Policy::standard(), failure, &history, &mut Rng::seeded(1));
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
        english.contains("refused the credentials") && english.ends_with("redrive trace task-001"),
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

/// R-T8: what is too long is cut, and the way to the rest is still there, counted in characters and not in bytes.
#[test]
fn a_message_that_is_cut_keeps_its_trace_link() {
    for lang in Lang::ALL {
        let link = report(Cause::Network, 3, "x", &EscalateSettings::default(), lang);
        let link = link.user_message.lines().last().unwrap().to_owned();
        for max_message_length in [500, 200, 120, 80, 60, 40] {
            let settings = EscalateSettings { max_message_length, ..EscalateSettings::default() };
            let told = report(Cause::Network, 3, &"接続できません".repeat(200), &settings, lang).user_message;
            assert!(told.ends_with(&link), "{max_message_length}: {told}");
            assert!(told.chars().count() <= max_message_length, "{max_message_length}: {told}");
        }
        let tight = EscalateSettings { max_message_length: 10, ..EscalateSettings::default() };
        let told = report(Cause::Network, 3, "refused", &tight, lang).user_message;
        assert!(told.chars().count() <= 10 && told.starts_with("ユーザー認証"), "{told}");
    }
}

/// R-T7: every cause leads to two or three things to do, in both languages, without a hole in the text.
#[test]
fn every_cause_has_two_or_three_actions() {
    let settings = EscalateSettings::default();
    for lang in Lang::ALL {
        for cause in Cause::ALL {
            let told = report(*cause, 9, "x", &settings, lang);
            let actions = &told.recommended_actions;
            assert!((2..=3).contains(&actions.len()), "{cause} {lang}: {actions:?}");
            for action in actions {
                assert!(!action.contains('{') && !action.starts_with("actions."), "{cause} {lang}: {action}");
            }
            assert!(!told.user_message.contains('{'), "{}", told.user_message);
        }
    }
}

/// R-T8: the templates of 002 §4.3 are filled, each with what its reason is about.
#[test]
fn every_template_is_filled() {
    let settings = EscalateSettings::default();
    for (cause, retries, opening, about) in [
        (Cause::Quality, 3, "は 4 回試行しましたが完了できませんでした。", "主な問題: why"),
        (Cause::Configuration, 0, "で回復不能なエラーが発生しました。", "エラー: why"),
        (Cause::HumanJudgment, 0, "は人間の判断が必要です。", "理由: why"),
        (Cause::ResourceExhausted, 0, "はリソース制限により中断されました。", "制限: why"),
    ] {
        let told = report(cause, retries, "why", &settings, Lang::Ja);
        let message = &told.user_message;
        assert!(message.starts_with(&format!("タスク「ユーザー認証機能の実装」{opening}")), "{message}");
        assert!(message.contains(about), "{message}");
        for action in &told.recommended_actions {
            assert!(message.contains(&format!("- {action}")), "{message}");
        }
    }
}

/// R-T7: a task goes on by resuming it, a job by putting its letter back; the trace link names the same.
#[test]
fn a_task_is_resumed_and_a_job_is_put_back() {
    let decision =
        decide(&Policy::standard(), &Failure::of(Cause::Network), &History::retries(3), &mut Rng::seeded(1));
    for (task_id, subtask_id, back) in [
        ("task-7", Some("write"), "redrive task resume task-7"),
        ("task-7", None, "redrive task resume task-7"),
        ("job_9", None, "redrive redrive job_9"),
    ] {
        let told = Escalation {
            task_id,
            subtask_id,
            task_summary: "release",
            decision: &decision,
            attempts: &[attempt(1, Cause::Network, "refused")],
            escalated_at: "2026-01-23T10:20:00Z",
            trace_file: None,
            relevant_logs: &[],
        }
        .report(&EscalateSettings::default(), Lang::En);
        assert!(told.recommended_actions.last().unwrap().ends_with(back), "{told:?}");
        assert!(told.user_message.ends_with(&format!("Details: redrive trace {task_id}")), "{told:?}");
        assert_eq!(told.subtask_id.as_deref(), subtask_id);
    }
}

/// R-T10: the level of each cause once it is set aside, and of what is still tried.
#[test]
fn every_cause_has_its_level() {
    let table = "
        network 2|timeout 2|rate_limit 2|api_error 2|contention 2|crashed 4|incomplete 3|quality 3|auth_error 3
        validation_error 5|integrity 5|not_found 3|configuration 3|resource_exhausted 3|human_judgment 3
        cancelled 3|unknown 3";
    let settings = EscalateSettings::default();
    let rows: Vec<(&str, u8)> = table
        .split(['\n', '|'])
        .map(str::trim)
        .filter(|row| !row.is_empty())
        .map(|row| row.split_once(' ').unwrap())
        .map(|(cause, level)| (cause, level.parse().unwrap()))
        .collect();
    assert_eq!(rows.len(), Cause::ALL.len());
    for (cause, level) in rows {
        let cause: Cause = cause.parse().unwrap();
        assert_eq!(report(cause, 9, "x", &settings, Lang::En).level.number(), level, "{cause}");
    }
    let forbidden =
        Failure { verdict: Verdict::No, rule: RuleId::user("gone for good"), ..Failure::of(Cause::Network) };
    assert_eq!(of_failure(&forbidden, 0, "x", &settings, Lang::En).level, EscalationLevel::Analysis);
    let tried =
        decide(&Policy::standard(), &Failure::of(Cause::Network), &History::default(), &mut Rng::seeded(1));
    assert_eq!(EscalationLevel::of_decision(&tried), Some(EscalationLevel::AutomaticRetry));
}

/// R-T10: a level is a number in JSON and has a name in both languages; a report without one can be read.
#[test]
fn a_level_has_a_number_and_two_names() {
    for (level, number) in EscalationLevel::ALL.into_iter().zip(1_u64..) {
        assert_eq!(serde_json::to_value(level).unwrap(), number);
        assert_eq!(serde_json::from_value::<EscalationLevel>(number.into()).unwrap(), level);
        let names: BTreeSet<String> = Lang::ALL.map(|lang| level.title(lang)).into();
        assert!(names.len() == 2 && names.iter().all(|name| !name.contains("level.")), "{names:?}");
    }
    assert!(serde_json::from_value::<EscalationLevel>(6.into()).is_err());
    let told = report(Cause::Integrity, 0, "x", &EscalateSettings::default(), Lang::En);
    let mut json = serde_json::to_value(&told).unwrap();
    assert_eq!(json["level"], 5);
    json.as_object_mut().unwrap().remove("level");
    let read: EscalationReport = serde_json::from_value(json).unwrap();
    assert_eq!(read.level, EscalationLevel::Analysis);
}

/// R-T7: what leads to which entry of the catalogue of 002 §8.2, and what the entry says.
#[test]
fn fatal_errors_lead_to_their_entry() {
    let classifier = Classifier::with_user_rules(Vec::new());
    let settings = EscalateSettings::default();
    for (evidence, entry, message, action) in [
        (
            Report::text("").with_status(401),
            FatalError::AuthenticationFailed,
            "認証に失敗しました。",
            "APIキー、パスワード、トークンを確認してください",
        ),
        (
            Report::text("FATAL:  password authentication failed for user \"app\""),
            FatalError::AuthenticationFailed,
            "認証に失敗しました。",
            "実行する環境（環境変数または設定ファイル）に設定し直してください",
        ),
        (
            Report::text("").with_status(403),
            FatalError::PermissionDenied,
            "権限がありません。",
            "アクセス権限を確認してください",
        ),
        (
            Report::text("/bin/sh: ./run.sh: Permission denied"),
            FatalError::PermissionDenied,
            "権限がありません。",
            "アクセス権限を確認してください",
        ),
        (
            Report::text("cat: a.txt: No such file or directory"),
            FatalError::ResourceNotFound,
            "必要なリソースが見つかりません。",
            "ファイルパスまたは ID を確認してください",
        ),
        (
            Report::text("").with_status(404),
            FatalError::ResourceNotFound,
            "必要なリソースが見つかりません。",
            "リソースが存在することを確認してください",
        ),
    ] {
        let failure = classifier.classify(&evidence);
        let told = of_failure(&failure, 0, "HTTP", &settings, Lang::Ja);
        assert_eq!(told.fatal_error, Some(entry), "{}", failure.rule);
        assert_eq!(told.reason.reason_type, ReasonType::FatalError);
        assert!(told.user_message.contains(&format!("エラー: {message} (HTTP)")), "{}", told.user_message);
        assert!(told.recommended_actions.iter().any(|told| told == action), "{told:?}");
        assert_eq!(serde_json::to_value(&told).unwrap()["fatal_error"], entry.name());
    }
    let other = report(Cause::Network, 3, "x", &settings, Lang::En);
    assert_eq!(other.fatal_error, None);
    assert!(serde_json::to_value(&other).unwrap().get("fatal_error").is_none());
}

/// R-T8: a report that was written in one language is read in the other; in its own it stays as it was sent.
#[test]
fn a_report_is_read_in_either_language() {
    let settings = EscalateSettings::default();
    for cause in Cause::ALL {
        let [english, japanese] = Lang::ALL.map(|lang| report(*cause, 9, "it said no", &settings, lang));
        let read = english.clone().in_lang("ユーザー認証機能の実装", &settings, Lang::Ja);
        assert_eq!(read.user_message, japanese.user_message, "{cause}");
        assert_eq!(read.recommended_actions, japanese.recommended_actions, "{cause}");
        assert_eq!(english.clone().in_lang("another name", &settings, Lang::En), english, "{cause}");
    }
}
