//! `decide`, seen as a whole: the golden table and the rules that every decision keeps.

use std::fmt::Write;
use std::time::Duration;

use proptest::prelude::*;
use redrive_policy::{
    Action, Cause, Class, Code, DecisionKind, Details, Failure, History, Lang, LongRetryAfter, Override,
    PRESETS, Policy, PolicySpec, Rng, Verdict, decide, describe_jitter, human_duration,
};

fn failure(cause: Cause) -> Failure {
    Failure::of(cause)
}

fn history(cause: Cause, count: u32) -> History {
    match cause {
        Cause::Crashed => History { crash_count: count, ..History::default() },
        _ => History::retries(count),
    }
}

/// R-P9, R-P10: every cause × retry 0…5 × every preset, reviewed as one table.
#[test]
fn the_golden_decision_table() {
    let mut table = String::new();
    for name in PRESETS {
        let policy = Policy::preset(name).unwrap();
        let _ = writeln!(table, "{name}");
        for cause in Cause::ALL {
            let failure = failure(*cause);
            let backoff = policy.backoff_for(&failure);
            let _ = write!(table, "  {cause:<19}");
            let mut max_retries = 0;
            for count in 0..=5 {
                let decision = decide(&policy, &failure, &history(*cause, count), &mut Rng::seeded(1));
                let cell = match decision.action {
                    Action::Pass => unreachable!("a failure never passes"),
                    Action::Retry { .. } => human_duration(backoff.nominal(count)),
                    Action::Escalate => "-".to_owned(),
                };
                max_retries = decision.max_retries;
                let _ = write!(table, "{cell:>7}");
            }
            let jitter =
                if max_retries > 0 { describe_jitter(Lang::En, backoff.jitter) } else { String::new() };
            let _ = writeln!(table, "   max {max_retries}  {jitter}");
        }
        table.push('\n');
    }
    let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("decision_table", trimmed.join("\n"));
}

/// R-P9: the collector's throttling codes have an entry of their own.
#[test]
fn an_entry_may_be_narrowed_by_code() {
    let policy = Policy::preset("collector").unwrap();
    let throttled = Failure { code: Code::new("ThrottlingException"), ..failure(Cause::RateLimit) };
    assert_eq!(policy.backoff_for(&throttled).nominal(0), Duration::from_secs(1));
    assert_eq!(policy.backoff_for(&failure(Cause::RateLimit)).nominal(0), Duration::from_secs(5));
}

/// R-P8: an override of `max_retries: 0` escalates at once for every cause, under every preset.
#[test]
fn no_retries_means_none_for_every_cause() {
    for name in PRESETS {
        let policy = Policy::preset(name).unwrap().with_max_retries(0);
        for cause in Cause::ALL {
            let decision = decide(&policy, &failure(*cause), &History::default(), &mut Rng::seeded(1));
            assert_eq!((decision.action, decision.max_retries), (Action::Escalate, 0), "{name} {cause}");
            assert!(decision.escalate_reason(Lang::En).is_some());
        }
    }
}

/// R-D2: a worker that died is charged to the crash budget, also where no retries are allowed.
#[test]
fn a_dead_worker_has_its_own_budget() {
    let policy = Policy::standard().with_max_retries(0);
    for crash_count in 0..5 {
        let history = History { retry_count: 99, crash_count, previous_delay: None };
        let decision = decide(&policy, &Failure::worker_died(), &history, &mut Rng::seeded(1));
        assert_eq!(decision.is_retry(), crash_count < 3, "{crash_count}");
        assert_eq!(decision.max_retries, 3);
    }
}

/// R-P8: overrides beat the values of single causes, field by field.
#[test]
fn overrides_beat_cause_specific_values_field_by_field() {
    let wish = Override { max_retries: Some(7), cap: Some(Duration::from_secs(8)), ..Override::default() };
    let policy = Policy::standard().with_override(&wish);
    let limited = failure(Cause::RateLimit);
    assert_eq!(policy.max_retries_for(&limited), 7);
    // The first delay stays that of the cause; only the cap was wished for.
    assert_eq!(policy.backoff_for(&limited).nominal(0), Duration::from_secs(5));
    assert_eq!(policy.backoff_for(&limited).nominal(5), Duration::from_secs(8));
    let patient = Override { retry_on: [Cause::AuthError].into_iter().collect(), ..Override::default() };
    let policy = Policy::standard().with_override(&patient);
    assert!(decide(&policy, &failure(Cause::AuthError), &History::default(), &mut Rng::seeded(1)).is_retry());
}

/// R-P4: listed and not forbidden, or asked for and not excluded; everything else fails closed.
#[test]
fn what_is_not_known_to_be_retryable_is_escalated() {
    let retried = |policy: &str, cause: Cause, verdict: Verdict| {
        let failure = Failure { verdict, ..failure(cause) };
        decide(&Policy::preset(policy).unwrap(), &failure, &History::default(), &mut Rng::seeded(1))
            .is_retry()
    };
    assert!(retried("standard", Cause::Network, Verdict::Unsaid));
    assert!(!retried("standard", Cause::Network, Verdict::No));
    assert!(retried("standard", Cause::ResourceExhausted, Verdict::Yes));
    assert!(!retried("standard", Cause::ResourceExhausted, Verdict::Unsaid));
    assert!(!retried("standard", Cause::Cancelled, Verdict::Yes));
    assert!(!retried("api", Cause::ResourceExhausted, Verdict::Yes));
    assert!(!retried("standard", Cause::Unknown, Verdict::Unsaid));
    assert!(retried("command", Cause::Unknown, Verdict::Unsaid));
    assert!(!retried("command", Cause::AuthError, Verdict::Unsaid));
    for cause in Cause::ALL.iter().filter(|cause| cause.class() == Class::Permanent) {
        assert!(!retried("consumer", *cause, Verdict::Unsaid), "{cause}");
    }
}

/// R-P10, R-C2: a cause that was said was found by no rule, and no sentence speaks of one.
#[test]
fn what_was_said_is_told_without_a_rule() {
    for (cause, verdict, en, ja) in [
        (
            Cause::Configuration,
            Verdict::No,
            "It was reported as configuration",
            "configuration として報告された失敗です",
        ),
        (
            Cause::Cancelled,
            Verdict::Yes,
            "It was reported as worth another try",
            "再試行すべき失敗として報告されました",
        ),
        (
            Cause::ResourceExhausted,
            Verdict::Yes,
            "It was reported as resource_exhausted",
            "時間が経てば直る resource_exhausted",
        ),
    ] {
        let failure = Failure { verdict, ..failure(cause) };
        let decision = decide(&Policy::standard(), &failure, &History::default(), &mut Rng::seeded(1));
        let told = [Lang::En, Lang::Ja].map(|lang| decision.reasoning(lang));
        assert!(told[0].starts_with(en) && told[1].starts_with(ja), "{told:?}");
    }
}

/// R-P11: Retry-After wins over the curve, is never undercut, and has a limit.
#[test]
fn retry_after_is_obeyed_up_to_a_limit() {
    let ask = |policy: &Policy, wait: u64| {
        let failure = Failure { retry_after: Some(Duration::from_secs(wait)), ..failure(Cause::RateLimit) };
        decide(policy, &failure, &History::default(), &mut Rng::seeded(1))
    };
    let policy = Policy::standard();
    for wait in [1, 7, 600, 3_600] {
        assert_eq!(ask(&policy, wait).delay(), Some(Duration::from_secs(wait)));
    }
    // "Now" names no wait; the curve keeps the retries apart.
    assert!(ask(&policy, 0).delay().unwrap() >= Duration::from_secs(4));
    for wait in [3_601, 315_360_000, u64::MAX] {
        let decision = ask(&policy, wait);
        assert_eq!(decision.action, Action::Escalate);
        assert!(decision.reasoning(Lang::En).contains("Retry-After"));
    }
    let clamping = PolicySpec { on_long_retry_after: LongRetryAfter::Clamp, ..(*policy).clone() };
    assert_eq!(ask(&clamping.into(), 315_360_000).delay(), Some(Duration::from_hours(1)));
}

/// R-P10: the record has every field of 002 §2.2, and PASS is one of its answers.
#[test]
fn the_record_has_every_field() {
    let policy = Policy::standard();
    let details = Details { timeout_ms: Some(10), elapsed_ms: Some(12), ..Details::default() };
    let timeout = Failure { details: Some(details.into()), ..failure(Cause::Timeout) };
    let retry = decide(&policy, &timeout, &History::default(), &mut Rng::seeded(1)).record(Lang::En);
    let json = serde_json::to_value(&retry).unwrap();
    assert_eq!(json["decision"], "RETRY");
    assert_eq!(json["failure_type"], "TIMEOUT");
    assert_eq!(json["current_retry_count"], 0);
    assert_eq!(json["max_retries"], 2);
    assert_eq!(json["delay_ms"], 5_000);
    assert!(json["modification_hint"].as_str().unwrap().contains("12ms"));
    assert!(json["reasoning"].as_str().unwrap().contains("retry 1 of 2"));
    let escalate = decide(&policy, &failure(Cause::AuthError), &History::default(), &mut Rng::seeded(1));
    let json = serde_json::to_value(escalate.record(Lang::En)).unwrap();
    assert_eq!(json["escalate_reason"], "Non-retryable failure: FATAL_ERROR");
    assert_eq!((json["max_retries"].as_u64(), json.get("delay_ms")), (Some(0), None));
    let pass = redrive_policy::Decision::pass(&policy, &History::retries(2)).record(Lang::Ja);
    assert_eq!((pass.decision, pass.failure_type, pass.current_retry_count), (DecisionKind::Pass, None, 2));
}

proptest! {
    /// R-P10: any history, any cause, any preset: an answer with its reason, and never above the cap.
    #[test]
    fn every_decision_holds_its_promises(
        preset in 0..PRESETS.len(),
        cause in 0..Cause::ALL.len(),
        retry_count in any::<u32>(),
        crash_count in any::<u32>(),
        previous in proptest::option::of(any::<u64>()),
        retry_after in proptest::option::of(any::<u64>()),
        seed in any::<u64>(),
    ) {
        let policy = Policy::preset(PRESETS[preset]).unwrap();
        let failure = Failure {
            retry_after: retry_after.map(Duration::from_secs),
            ..Failure::of(Cause::ALL[cause])
        };
        let history = History { retry_count, crash_count, previous_delay: previous.map(Duration::from_millis) };
        let decision = decide(&policy, &failure, &history, &mut Rng::seeded(seed));
        if let Some(delay) = decision.delay() {
            prop_assert!(decision.current_retry_count < decision.max_retries);
            match failure.retry_after {
                Some(asked) if !asked.is_zero() => prop_assert_eq!(delay, asked),
                _ => prop_assert!(delay <= policy.backoff_for(&failure).cap),
            }
        }
        for lang in Lang::ALL {
            let record = decision.record(lang);
            let unfilled = record.reasoning.is_empty() || record.reasoning.contains('{');
            prop_assert!(!unfilled, "words are missing");
            prop_assert_eq!(record.escalate_reason.is_some(), record.decision == DecisionKind::Escalate);
        }
    }
}
