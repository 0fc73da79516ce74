//! What holds for every file: nothing panics, the schema and the checker agree, and what is written can be
//! read again (R-P7).

mod schema_checker;

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use redrive_policy::{
    Backoff, Cause, CauseSet, Config, Curve, Entry, Factor, Format, Jitter, LongRetryAfter, Multiplier,
    Policy, PolicySpec, ProblemKind, TaskRetryOverride, policy_from_json, policy_to_json,
};
use schema_checker::{accepts, make, toml_file};
use serde_json::{Value, json};

/// Reads it in every way there is.
fn parse_everything(source: &str) {
    for format in [Format::Json, Format::Toml] {
        if let Err(error) = Config::parse(source, format, "f") {
            assert!(!error.problems.is_empty());
            assert!(redrive_policy::Lang::ALL.iter().all(|lang| !error.describe(*lang).is_empty()));
        }
        let _ = TaskRetryOverride::parse(source, format, "f");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0i64..10).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word(), inner), 0..6).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
            )),
        ]
    })
}

/// Words that mean something somewhere in a file, so that random files go deep.
fn word() -> impl Strategy<Value = &'static str> {
    select(vec![
        "retry",
        "policies",
        "rules",
        "recovery",
        "escalate",
        "store",
        "lang",
        "policy",
        "extends",
        "max_retries",
        "default_max_retries",
        "max_attempts",
        "backoff",
        "default_backoff",
        "type",
        "initial_delay_ms",
        "initial_delay",
        "max_delay_ms",
        "max_delay",
        "multiplier",
        "increment_ms",
        "increment",
        "jitter",
        "mode",
        "factor",
        "delays_ms",
        "delays",
        "retryable_failures",
        "retry_on",
        "never",
        "any",
        "cause_specific",
        "failure_type",
        "cause",
        "codes",
        "modification_hint",
        "RATE_LIMIT",
        "TIMEOUT",
        "network",
        "timeout",
        "id",
        "status",
        "exit_code",
        "code",
        "regex",
        "fixed",
        "linear",
        "list",
        "full",
        "none",
        "standard",
        "api",
        "en",
        "task_id",
        "overrides",
        "crash_budget",
        "max_retry_after",
        "idempotency",
        "keep_for",
        "wait_for",
        "outcomes",
        "headers",
        "set-cookie",
        "route",
        "methods",
        "path",
        "/v1/**",
        "5xx",
        "release",
        "principal",
        "everybody",
        "max_response",
        "mismatch_status",
        "proxy",
        "upstream",
        "1.5s",
        "(",
        "sqlite:x",
        "server",
        "listen",
        "allow",
        "10.0.0.0/8",
        "tls",
        "targets",
        "host:x",
        "10/s",
        "alerts",
        "receivers",
        "push",
        "secret_env",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// R-P7: no text makes the parser panic.
    #[test]
    fn any_text_is_answered(text in "\\PC{0,64}", bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        parse_everything(&text);
        parse_everything(&String::from_utf8_lossy(&bytes));
    }

    /// R-P7: neither does a text that nearly is a file.
    #[test]
    fn any_near_miss_is_answered(words in prop::collection::vec(word(), 1..12), glue in "[\\[\\]{}=:,\"'.\n 0-9-]{1,12}") {
        for format in ["", "[", "{"] {
            let text = words.iter().zip(glue.chars().cycle()).fold(format.to_owned(), |text, (word, c)| {
                text + word + &c.to_string()
            });
            parse_everything(&text);
        }
    }

    /// R-P7: no JSON value makes it panic, and what is accepted is accepted by the schema too.
    #[test]
    fn any_json_is_answered_and_the_schema_agrees(value in any_json()) {
        let source = value.to_string();
        parse_everything(&source);
        if Config::parse(&source, Format::Json, "f").is_ok() {
            prop_assert_eq!(accepts(&Config::schema(), &value), Ok(()));
        }
        if TaskRetryOverride::from_json(&value, "f").is_ok() {
            prop_assert_eq!(accepts(&TaskRetryOverride::schema(), &value), Ok(()));
        }
        if let Ok(policy) = policy_from_json("p", &value) {
            prop_assert_eq!(policy_from_json("p", &policy_to_json(&policy)), Ok(policy));
        }
    }

    /// R-P7: what the schema accepts is accepted, but for what no schema can say; TOML is read the same way;
    /// and every policy of an accepted file can be written down.
    #[test]
    fn whatever_the_schema_makes_is_a_configuration(seed in any::<u64>()) {
        let schema = Config::schema();
        let file = make(&schema, seed);
        prop_assert_eq!(accepts(&schema, &file), Ok(()), "{:#}", file);
        let from_json = Config::parse(&file.to_string(), Format::Json, "f");
        let from_toml = toml_file(&file).map(|toml| Config::parse(&toml, Format::Toml, "f"));
        match &from_json {
            Ok(config) => {
                let Some(Ok(twin)) = &from_toml else { return Err(TestCaseError::fail(format!("{from_toml:?}"))) };
                prop_assert_eq!(&twin.policies, &config.policies);
                prop_assert_eq!(&twin.warnings, &config.warnings);
                for (name, policy) in &config.policies {
                    let json = policy_to_json(policy);
                    prop_assert_eq!(accepts(&schema, &json!({"policies": {name.as_str(): json.clone()}})), Ok(()));
                    prop_assert_eq!(&policy_from_json(name, &json).unwrap(), policy, "{:#}", json);
                }
            }
            Err(error) => {
                let beyond_schema = |kind: &ProblemKind| matches!(
                    kind,
                    ProblemKind::UnknownName { .. } | ProblemKind::Cycle { .. } | ProblemKind::RetryIsStandard
                        | ProblemKind::GivenTwice { .. } | ProblemKind::TooShort { .. }
                );
                prop_assert!(error.problems.iter().all(|problem| beyond_schema(&problem.kind)), "{error}\n{file:#}");
                if let Some(from_toml) = from_toml {
                    prop_assert_eq!(from_toml.map(|_| ()), Err(error.clone()));
                }
            }
        }
    }

    /// R-P7: any policy that redrive can hold survives being written down.
    #[test]
    fn any_policy_survives_being_written_down(policy in any_policy()) {
        let json = policy_to_json(&policy);
        prop_assert_eq!(policy_from_json(&policy.name, &json).unwrap(), policy, "{:#}", json);
    }
}

/// Up to the longest delay that a file can say, to the nanosecond.
fn any_delay() -> impl Strategy<Value = Duration> {
    const MAX_SECS: u64 = 366 * 24 * 3600;
    prop_oneof![
        (0..=MAX_SECS * 1000).prop_map(Duration::from_millis),
        (0u64..10_000).prop_map(Duration::from_millis),
        (0..=MAX_SECS * 1_000_000_000).prop_map(Duration::from_nanos),
    ]
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    let multiplier = prop_oneof![Just(2.0), 1.0..3.0, 1.0..=1_000_000.0];
    let curve = prop_oneof![
        (any_delay(), multiplier).prop_filter_map("a multiplier", |(initial, multiplier)| {
            Some(Curve::Exponential { initial, multiplier: Multiplier::new(multiplier)? })
        }),
        (any_delay(), any_delay()).prop_map(|(initial, increment)| Curve::linear(initial, increment)),
        any_delay().prop_map(Curve::constant),
        any_delay().prop_map(Curve::fibonacci),
        prop::collection::vec(any_delay(), 1..5).prop_map(|delays| Curve::List(delays.into())),
    ];
    let factor = || prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0].prop_filter_map("a factor", Factor::new);
    let jitter = prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Decorrelated),
        factor().prop_map(Jitter::PlusMinus),
        factor().prop_map(Jitter::Additive),
    ];
    (curve, jitter, any_delay()).prop_map(|(curve, jitter, cap)| Backoff { curve, jitter, cap })
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let causes = subsequence(Cause::ALL.to_vec(), 1..=Cause::ALL.len());
    let codes = prop_oneof![Just(Vec::new()), prop::collection::vec("[A-Za-z0-9_.-]{1,20}", 1..4)];
    let hint = prop::option::of("[a-z日本語\"\\\\\n]{1,20}x");
    (causes, codes, prop::option::of(any::<u32>()), prop::option::of(any_backoff()), hint).prop_map(
        |(causes, codes, max_retries, backoff, hint)| Entry {
            causes: CauseSet::of(&causes),
            codes,
            max_retries,
            backoff,
            modification_hint: hint.map(Into::into),
        },
    )
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let causes = (subsequence(Cause::ALL.to_vec(), 0..=17), subsequence(Cause::ALL.to_vec(), 0..=17));
    let limits = (any::<u32>(), any::<u32>(), any_delay(), any::<bool>(), prop::option::of(any::<u32>()));
    let entries = prop::collection::vec(any_entry(), 0..4);
    ("[a-z]{1,12}", any_backoff(), causes, limits, entries).prop_map(
        |(
            name,
            backoff,
            (retried, never),
            (max_retries, crash_budget, max_retry_after, clamp, forced),
            mut entries,
        )| {
            // Two invariants of every policy: no cause is in both lists, and narrowed entries come first.
            let never = CauseSet::of(&never);
            entries.sort_by_key(|entry| entry.codes.is_empty());
            Policy::from(PolicySpec {
                name,
                max_retries,
                backoff,
                retry_on: CauseSet::of(&retried).minus(never),
                never,
                entries,
                crash_budget,
                max_retry_after,
                on_long_retry_after: if clamp { LongRetryAfter::Clamp } else { LongRetryAfter::Escalate },
                forced_max_retries: forced,
            })
        },
    )
}
