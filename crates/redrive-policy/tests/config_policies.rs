//! Policies and rules of one's own: what they inherit, what they replace, and how they are written back.

use std::fmt::Write;
use std::time::Duration;

use redrive_policy::{
    Cause, CauseSet, Classifier, Code, Config, Curve, Failure, Format, Jitter, Lang, LongRetryAfter, PRESETS,
    Policy, Report, Verdict, policy_from_json, policy_to_json,
};
use serde_json::json;

fn parse(source: &str) -> Config {
    Config::parse(source, Format::Toml, "redrive.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn policy(source: &str, name: &str) -> Policy {
    parse(source).policy(name).unwrap_or_else(|| panic!("no policy {name}"))
}

fn failure(cause: Cause) -> Failure {
    Failure::of(cause)
}

/// R-P9: every preset can be written down and read again.
#[test]
fn every_preset_survives_being_written_down() {
    for name in PRESETS {
        let preset = Policy::preset(name).unwrap();
        let json = policy_to_json(&preset);
        assert_eq!(policy_from_json(name, &json).unwrap(), preset, "{json:#}");
        let file = json!({"policies": {*name: json}}).to_string();
        let config = Config::parse(&file, Format::Json, "redrive.json").unwrap();
        assert_eq!((&config.policies[*name], config.warnings.len()), (&preset, 0));
    }
}

/// R-P7: what a policy does not say comes from what it extends, before or after it in the file.
#[test]
fn a_policy_extends_a_preset_or_another_policy() {
    let source = "
        [policies.patient]
        extends = 'base'
        max_retries = 10
        [policies.base]
        extends = 'stream'
        backoff = { max_delay = '10m' }
        [policies.plain]
        crash_budget = 0
    ";
    let patient = policy(source, "patient");
    let stream = Policy::preset("stream").unwrap();
    assert_eq!((patient.max_retries, patient.backoff.cap), (10, Duration::from_mins(10)));
    assert_eq!((&patient.backoff.curve, patient.retry_on), (&stream.backoff.curve, stream.retry_on));
    let plain = policy(source, "plain");
    assert_eq!((plain.crash_budget, &plain.entries), (0, &Policy::standard().entries));
}

/// R-P9: a preset's name in a file replaces the preset, and builds on it.
#[test]
fn a_preset_can_be_replaced_by_its_own_name() {
    let source = "[policies.api]\nextends = 'api'\nmax_retries = 1\n[policies.mine]\nextends = 'api'";
    let api = Policy::preset("api").unwrap();
    assert_eq!((policy(source, "api").max_retries, &policy(source, "api").entries), (1, &api.entries));
    assert_eq!(policy(source, "mine").max_retries, 1);
    assert_eq!(parse(source).policy_names().len(), PRESETS.len() + 1);
}

/// R-P9: `command` is as `standard`, also where the file has its own.
#[test]
fn command_follows_the_files_standard() {
    let command = policy("[retry]\nmax_retries = 9", "command");
    assert_eq!((command.max_retries, command.name.as_str()), (9, "command"));
    assert!(command.retry_on.contains(Cause::Unknown));
    let strict = policy("[retry]\nnever = ['unknown']", "command");
    assert!(!strict.retry_on.contains(Cause::Unknown));
    assert_eq!(parse("").policy("command"), Policy::preset("command"));
}

/// R-P7: an entry for a code beats one for a cause, which beats one for a failure type, in any order.
#[test]
fn the_particular_entry_wins() {
    let source = "
        [[policies.p.cause_specific]]
        failure_type = 'TRANSIENT_ERROR'
        max_retries = 1
        [[policies.p.cause_specific]]
        cause = 'network'
        max_retries = 2
        [[policies.p.cause_specific]]
        failure_type = 'TRANSIENT_ERROR'
        codes = ['ECONNRESET']
        max_retries = 3
    ";
    let policy = policy(source, "p");
    let retries = |failure: &Failure| policy.max_retries_for(failure);
    assert_eq!(retries(&failure(Cause::ApiError)), 1);
    assert_eq!(retries(&failure(Cause::Network)), 2);
    let coded = Failure { code: Code::new("econnreset"), ..failure(Cause::Network) };
    assert_eq!(retries(&coded), 3);
    // Causes that the file is silent about keep what 002 gives them.
    assert_eq!(retries(&failure(Cause::RateLimit)), 5);
}

/// R-P7: what the file says about a cause replaces all that was inherited about it, and nothing else.
#[test]
fn an_entry_replaces_what_was_inherited_about_its_causes() {
    let policy = policy("[policies.p]\nextends = 'api'\ncause_specific.timeout.max_retries = 9", "p");
    let api = Policy::preset("api").unwrap();
    assert_eq!(policy.max_retries_for(&failure(Cause::Timeout)), 9);
    assert_eq!(*policy.backoff_for(&failure(Cause::Timeout)), policy.backoff);
    for cause in [Cause::Network, Cause::RateLimit, Cause::ApiError] {
        assert_eq!(
            policy.entry_for(&failure(cause)).unwrap().backoff,
            api.entry_for(&failure(cause)).unwrap().backoff
        );
    }
}

/// R-P4: `never` beats the lists; a cause that is named beats an inherited `never`; `any` does not.
#[test]
fn never_means_never() {
    let retried = |body: &str| {
        let policy = policy(&format!("[policies.p]\n{body}"), "p");
        assert!(policy.retry_on.minus(policy.never) == policy.retry_on, "{body}");
        policy.retry_on
    };
    let persons_word = CauseSet::of(&[Cause::HumanJudgment, Cause::Cancelled]);
    assert_eq!(retried("retry_on = ['any']"), CauseSet::ALL.minus(persons_word));
    assert_eq!(
        retried("retry_on = ['any', 'cancelled']"),
        CauseSet::ALL.minus(CauseSet::of(&[Cause::HumanJudgment]))
    );
    assert_eq!(
        retried("retryable_failures = ['TRANSIENT_ERROR']\nnever = ['contention', 'crashed']"),
        CauseSet::of(&[Cause::Network, Cause::ApiError])
    );
    assert_eq!(retried("retryable_failures = []"), CauseSet::NONE);
    assert!(retried("retry_on = ['auth_error']").contains(Cause::AuthError));
}

/// R-P5, R-P6, R-P11: everything a policy can say.
#[test]
fn every_curve_and_jitter_can_be_said() {
    let backoff = |body: &str| policy(&format!("[policies.p]\nbackoff = {{ {body} }}"), "p").backoff.clone();
    let seconds = Duration::from_secs;
    assert_eq!(backoff("type = 'linear'").curve, Curve::linear(seconds(1), seconds(1)));
    assert_eq!(
        backoff("type = 'linear', initial_delay = '3s', increment_ms = 2000").curve,
        Curve::linear(seconds(3), seconds(2))
    );
    assert_eq!(
        backoff("type = 'fixed', initial_delay = '3s'"),
        backoff("type = 'constant', initial_delay_ms = 3000")
    );
    assert_eq!(backoff("type = 'fibonacci'").curve, Curve::fibonacci(seconds(1)));
    let list = Curve::List([seconds(1), seconds(7)].into());
    assert_eq!(backoff("type = 'list', delays_ms = [1000, 7000]").curve, list);
    assert_eq!(backoff("delays = ['1s', '7s']").curve, list);
    assert_eq!(backoff("jitter = 'decorrelated'").jitter, Jitter::Decorrelated);
    assert_eq!(backoff("jitter = { mode = 'additive', factor = 0.5 }").jitter.mode(), "additive");
    assert_eq!(backoff("jitter = 0").jitter, Jitter::None);
    let policy = policy("[policies.p]\nmax_retry_after = '2h'\non_long_retry_after = 'clamp'", "p");
    assert_eq!((policy.max_retry_after, policy.on_long_retry_after), (seconds(7200), LongRetryAfter::Clamp));
}

/// R-P3: rules load with every condition, and the classifier asks them first.
#[test]
fn rules_are_read() {
    let source = "
        [[rules]]
        id = 'window'
        cause = 'api_error'
        retry = true
        reason = 'the batch window is closed'
        regex = ['(?i)window closed', '受付時間外']
        [[rules]]
        id = 'odd-exit'
        cause = 'configuration'
        exit_code = 42
        [[rules]]
        id = 'odd-status'
        cause = 'rate_limit'
        status = [520, 529]
        code = 'Busy'
    ";
    let classifier: Classifier = parse(source).classifier();
    let window = classifier.classify(&Report::text("Window CLOSED until 06:00"));
    assert_eq!(
        (window.rule.as_str(), window.cause, window.verdict),
        ("window", Cause::ApiError, Verdict::Yes)
    );
    assert_eq!(classifier.classify(&Report::text("受付時間外です")).rule.as_str(), "window");
    assert_eq!(classifier.classify(&Report::default().with_exit_code(42)).rule.as_str(), "odd-exit");
    let odd = classifier.classify(&Report::default().with_status(529).with_code("busy"));
    assert_eq!((odd.rule.as_str(), odd.verdict), ("odd-status", Verdict::Unsaid));
}

/// R-P7: the settings of the command line.
#[test]
fn settings_are_read() {
    let config = parse("store = 'sqlite:jobs.db'\nlang = 'ja'\npolicy = 'mine'\n[policies.mine]\n");
    assert_eq!(config.settings.store.as_deref(), Some("sqlite:jobs.db"));
    assert_eq!((config.settings.lang, config.settings.policy.as_deref()), (Some(Lang::Ja), Some("mine")));
}

/// R-P5: a first delay above the cap, and what has no effect, are warnings and not errors.
#[test]
fn what_is_odd_is_a_warning() {
    let source = "
        [retry.backoff]
        max_delay_ms = 500
        increment = '1s'
        [[retry.cause_specific]]
        cause = 'network'
        [[retry.cause_specific]]
        cause = ['network', 'timeout']
    ";
    let warnings: Vec<String> = parse(source).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "retry.backoff: the first delay of 1s is above the cap of 500ms; the cap wins; allowed: at most 500ms",
            "retry.backoff.increment: has no effect on exponential delays; allowed: to leave it out",
            "retry.cause_specific[1]: network has an entry already; the first one counts; allowed: each only once",
        ]
    );
    assert_eq!(policy(source, "standard").backoff.nominal(0), Duration::from_millis(500));
}

/// R-P9: a chain of many policies is followed without running out of stack.
#[test]
fn a_long_chain_of_policies_is_followed() {
    let mut source = String::new();
    for i in 0..20_000 {
        let _ = writeln!(source, "[policies.p{i}]\nextends = 'p{}'", i + 1);
    }
    source += "[policies.p20000]\nmax_retries = 77\n";
    assert_eq!(policy(&source, "p0").max_retries, 77);
}
