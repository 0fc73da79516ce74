//! The configuration of 002 §7.1, as it stands there, in both formats and in both forms.

use std::time::Duration;

use redrive_policy::{
    Backoff, Cause, CauseSet, Class, Config, Curve, Factor, Failure, Format, Jitter, Policy,
    RecoverySettings, TaskRetryOverride,
};

/// Verbatim.
const SEED: &str = r#"{
  "retry": {
    "default_max_retries": 3,
    "default_backoff": {
      "type": "exponential",
      "initial_delay_ms": 1000,
      "max_delay_ms": 30000,
      "multiplier": 2,
      "jitter": 0.1
    },
    "retryable_failures": [
      "INCOMPLETE",
      "QUALITY_FAILURE",
      "TIMEOUT",
      "TRANSIENT_ERROR",
      "RATE_LIMIT"
    ],
    "cause_specific": {
      "RATE_LIMIT": {
        "max_retries": 5,
        "backoff": {
          "type": "exponential",
          "initial_delay_ms": 5000,
          "max_delay_ms": 60000
        }
      },
      "TIMEOUT": {
        "max_retries": 2,
        "backoff": {
          "type": "fixed",
          "initial_delay_ms": 5000
        }
      }
    }
  },
  "recovery": {
    "enable_snapshots": true,
    "snapshot_retention_hours": 24,
    "partial_commit_enabled": true
  },
  "escalate": {
    "notify_immediately": true,
    "include_trace_link": true,
    "max_message_length": 500
  }
}"#;

const SEED_TOML: &str = r#"
[retry]
default_max_retries = 3
retryable_failures = ["INCOMPLETE", "QUALITY_FAILURE", "TIMEOUT", "TRANSIENT_ERROR", "RATE_LIMIT"]

[retry.default_backoff]
type = "exponential"
initial_delay = "1s"
max_delay_ms = 30_000
multiplier = 2.0
jitter = 0.1

[retry.cause_specific.RATE_LIMIT]
max_retries = 5
backoff = { type = "exponential", initial_delay_ms = 5000, max_delay = "1m" }

[retry.cause_specific.TIMEOUT]
max_attempts = 3
backoff = { type = "fixed", initial_delay_ms = 5000 }

[recovery]
enable_snapshots = true
snapshot_retention_hours = 24
partial_commit_enabled = true

[escalate]
notify_immediately = true
include_trace_link = true
max_message_length = 500
"#;

/// `RetryConfig` of 002 §1.2, whose `cause_specific` is a list.
const SEED_LIST: &str = r#"{"retry": {
    "max_retries": 3,
    "backoff": {"type": "exponential", "initial_delay_ms": 1000, "max_delay_ms": 30000, "multiplier": 2, "jitter": 0.1},
    "retryable_failures": ["INCOMPLETE", "QUALITY_FAILURE", "TIMEOUT", "TRANSIENT_ERROR", "RATE_LIMIT"],
    "cause_specific": [
        {"failure_type": "RATE_LIMIT", "max_retries": 5,
         "backoff": {"type": "exponential", "initial_delay_ms": 5000, "max_delay_ms": 60000}},
        {"failure_type": "TIMEOUT", "max_retries": 2, "backoff": {"type": "fixed", "initial_delay_ms": 5000}}
    ]
}}"#;

fn parse(source: &str, format: Format) -> Config {
    Config::parse(source, format, "redrive.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn standard(source: &str, format: Format) -> Policy {
    parse(source, format).policies.remove("standard").unwrap_or_else(|| panic!("no standard"))
}

fn failure(cause: Cause) -> Failure {
    Failure::of(cause)
}

/// R-P7: each key of `recovery` and `escalate` is read: turned around in the file, it is turned around in what is read.
#[test]
fn every_key_of_recovery_and_escalate_is_read() {
    let config = parse(SEED, Format::Json);
    let (recovery, escalate) = (config.recovery, config.escalate);
    for (key, from, to) in [
        ("enable_snapshots", "true", "false"),
        ("snapshot_retention_hours", "24", "48"),
        ("partial_commit_enabled", "true", "false"),
        ("notify_immediately", "true", "false"),
        ("include_trace_link", "true", "false"),
        ("max_message_length", "500", "80"),
    ] {
        let turned = SEED.replace(&format!("\"{key}\": {from}"), &format!("\"{key}\": {to}"));
        assert_ne!(turned, SEED, "{key}");
        let config = parse(&turned, Format::Json);
        let mut wanted = (recovery, escalate);
        match key {
            "enable_snapshots" => wanted.0.enable_snapshots = false,
            "snapshot_retention_hours" => wanted.0.snapshot_retention_hours = 48,
            "partial_commit_enabled" => wanted.0.partial_commit_enabled = false,
            "notify_immediately" => wanted.1.notify_immediately = false,
            "include_trace_link" => wanted.1.include_trace_link = false,
            _ => wanted.1.max_message_length = 80,
        }
        assert_eq!((config.recovery, config.escalate), wanted, "{key}");
    }
}

/// R-P7: the file loads unchanged, and gives the numbers that it says.
#[test]
fn the_seed_loads_as_it_stands() {
    let config = parse(SEED, Format::Json);
    assert_eq!(config.warnings, []);
    assert_eq!(config.recovery, RecoverySettings::default());
    assert_eq!(config.escalate.max_message_length, 500);
    let policy = &config.policies["standard"];
    let seconds = Duration::from_secs;
    assert_eq!(policy.name, "standard");
    assert_eq!(policy.max_retries, 3);
    assert_eq!(
        policy.backoff,
        Backoff::new(Curve::exponential(seconds(1)))
            .with_jitter(Jitter::PlusMinus(Factor::percent(10)))
            .with_cap(seconds(30))
    );
    assert_eq!(policy.retry_on, CauseSet::of_class(Class::Transient));

    let rate_limit = failure(Cause::RateLimit);
    assert_eq!(policy.max_retries_for(&rate_limit), 5);
    assert_eq!(
        *policy.backoff_for(&rate_limit),
        Backoff::new(Curve::exponential(seconds(5))).with_cap(seconds(60))
    );
    let timeout = failure(Cause::Timeout);
    assert_eq!(policy.max_retries_for(&timeout), 2);
    assert_eq!(
        *policy.backoff_for(&timeout),
        Backoff::new(Curve::constant(seconds(5))).with_cap(seconds(30))
    );
    assert_eq!(policy.max_retries_for(&failure(Cause::Network)), 3);
}

/// R-P7, R-P12: TOML says the same, durations with units and attempts included.
#[test]
fn toml_says_the_same_as_json() {
    assert_eq!(standard(SEED_TOML, Format::Toml), standard(SEED, Format::Json));
}

/// R-P7: `cause_specific` as a list or as a table.
#[test]
fn the_list_and_the_table_of_causes_are_equal() {
    assert_eq!(standard(SEED_LIST, Format::Json), standard(SEED, Format::Json));
}

/// R-P7: 002 §1.3 is what a section that says nothing has.
#[test]
fn an_empty_section_has_the_defaults_of_the_seed() {
    assert_eq!(standard("[retry]", Format::Toml), Policy::standard());
    let config = parse(" \n", Format::Json);
    assert!(config.policies.is_empty() && config.rules.is_empty());
    assert_eq!(parse("", Format::Toml).policy("standard"), Some(Policy::standard()));
}

/// R-P8: the override of 002 §7.2 escalates at once, for every cause.
#[test]
fn a_task_can_switch_retries_off() {
    let source = r#"{"task_id": "critical-task-001", "overrides": {"max_retries": 0}}"#;
    let task = TaskRetryOverride::parse(source, Format::Json, "task.json").unwrap();
    assert_eq!(task.task_id, "critical-task-001");
    let policy = task.apply_to(&Policy::standard());
    for cause in Cause::ALL {
        assert_eq!(policy.max_retries_for(&failure(*cause)), 0, "{cause}");
    }
}

/// R-P8: fields of an override beat those of single causes one by one, and leave the others alone.
#[test]
fn a_task_overrides_field_by_field() {
    let source =
        "task_id = 't'\n[overrides]\nmax_attempts = 8\nbackoff = { initial_delay = '10s', jitter = 'full' }";
    let task = TaskRetryOverride::parse(source, Format::Toml, "task.toml").unwrap();
    let policy = task.apply_to(&Policy::standard());
    assert_eq!(policy.max_retries_for(&failure(Cause::RateLimit)), 7);
    let backoff = policy.backoff_for(&failure(Cause::RateLimit));
    assert_eq!(backoff.nominal(1), Duration::from_secs(20));
    assert_eq!((backoff.jitter, backoff.cap), (Jitter::Full, Duration::from_mins(1)));
}

/// R-P8: a partial `RetryConfig` may name causes, which are then the most particular of all.
#[test]
fn a_task_overrides_single_causes() {
    let source = r#"{"task_id": "t", "overrides": {
        "max_retries": 1,
        "retryable_failures": ["RATE_LIMIT", "unknown"],
        "cause_specific": {"RATE_LIMIT": {"max_retries": 9, "backoff": {"type": "fixed", "initial_delay_ms": 1}}}
    }}"#;
    let task = TaskRetryOverride::parse(source, Format::Json, "task.json").unwrap();
    let policy = task.apply_to(&Policy::standard());
    assert_eq!(policy.max_retries_for(&failure(Cause::RateLimit)), 9);
    assert_eq!(policy.max_retries_for(&failure(Cause::Unknown)), 1);
    assert_eq!(policy.retry_on, CauseSet::of(&[Cause::RateLimit, Cause::Unknown]));
    assert_eq!(policy.backoff_for(&failure(Cause::RateLimit)).cap, Duration::from_secs(30));
}
