//! Files that are wrong: each is answered with where, what, and what is allowed (R-P7).

use redrive_policy::{Config, ConfigError, Format, Lang, TaskRetryOverride, policy_from_json};
use serde_json::json;

fn refused(source: &str, format: Format) -> ConfigError {
    match Config::parse(source, format, "redrive.toml") {
        Err(error) => error,
        Ok(config) => panic!("accepted: {source}\n{config:?}"),
    }
}

/// The one line that this TOML is answered with.
fn check(source: &str, expected: &str) {
    assert_eq!(refused(source, Format::Toml).to_string(), format!("redrive.toml: {expected}"), "{source}");
}

fn check_json(source: &str, expected: &str) {
    assert_eq!(refused(source, Format::Json).to_string(), format!("redrive.toml: {expected}"), "{source}");
}

const COUNT: &str = "allowed: a whole number from 0 to 4294967295";
const MILLIS: &str = "allowed: a whole number from 0 to 31622400000";

/// R-P7: impossible numbers.
#[test]
fn impossible_numbers_are_refused() {
    check(
        "retry.default_backoff.multiplier = 0.5",
        "retry.default_backoff.multiplier: 0.5 is too small; allowed: a number from 1 to 1000000",
    );
    check(
        "retry.backoff.jitter = 1.5",
        "retry.backoff.jitter: 1.5 is too large; allowed: a number from 0 to 1",
    );
    check(
        "retry.backoff.jitter = -0.1",
        "retry.backoff.jitter: -0.1 is too small; allowed: a number from 0 to 1",
    );
    for number in ["nan", "inf", "-inf", "1e400"] {
        let shown = number.replace("nan", "NaN").replace("1e400", "inf");
        check(
            &format!("retry.backoff.multiplier = {number}"),
            &format!(
                "retry.backoff.multiplier: {shown} is not a number that can be counted with; \
                 allowed: a number from 1 to 1000000"
            ),
        );
    }
    check(
        "retry.backoff.initial_delay_ms = -5",
        &format!("retry.backoff.initial_delay_ms: -5 is too small; {MILLIS}"),
    );
    check("retry.max_retries = 2.5", &format!("retry.max_retries: 2.5 is not a whole number; {COUNT}"));
    check("retry.max_retries = -1", &format!("retry.max_retries: -1 is too small; {COUNT}"));
    check(
        "retry.max_attempts = 0",
        "retry.max_attempts: 0 is too small; allowed: a whole number from 1 to 4294967296",
    );
    check_json(
        r#"{"retry": {"max_retries": 18446744073709551616}}"#,
        &format!("retry.max_retries: 1.8446744073709552e19 is too large; {COUNT}"),
    );
    check(
        "retry.backoff.max_delay_ms = 9223372036854775807",
        &format!("retry.backoff.max_delay_ms: 9223372036854775807 is too large; {MILLIS}"),
    );
    check(
        "retry.backoff.max_delay = '400d'",
        "retry.backoff.max_delay: \"400d\" is too large; \
         allowed: a number and a unit, such as 250ms, 1.5s, 2m or 1h, up to 366d",
    );
    check(
        "retry.backoff.initial_delay = '-1s'",
        "retry.backoff.initial_delay: \"-1s\" is not a duration; \
         allowed: a number and a unit, such as 250ms, 1.5s, 2m or 1h, up to 366d",
    );
}

/// R-P7: names and fields that nobody knows, with the one that was meant.
#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let error = refused("retry.max_retrys = 3", Format::Toml).to_string();
    assert!(
        error.starts_with(
            "redrive.toml: retry.max_retrys: unknown field (did you mean max_retries?); allowed: "
        )
    );
    assert!(error.contains("cause_specific"), "{error}");
    let error = refused("retry.retryable_failures = ['netwrok']", Format::Toml).to_string();
    assert!(
        error.contains("retry.retryable_failures[0]: \"netwrok\" is not known (did you mean network?)"),
        "{error}"
    );
    let error = refused("retry.cause_specific.RATELIMIT.max_retries = 1", Format::Toml).to_string();
    assert!(
        error.contains(
            "retry.cause_specific.RATELIMIT: \"RATELIMIT\" is not known (did you mean RATE_LIMIT?)"
        ),
        "{error}"
    );
    check("lang = 'fr'", "lang: \"fr\" is not known; allowed: en or ja");
    check(
        "policy = 'standart'",
        "policy: \"standart\" is not known (did you mean standard?); \
         allowed: standard, command, api, stream, collector, client or consumer",
    );
    check(
        "[policies.a]\nextends = 'ap'",
        "policies.a.extends: \"ap\" is not known (did you mean api?); \
         allowed: standard, command, api, stream, collector, client, consumer, a or none",
    );
    check("[policies.none]", "policies.none: none is a reserved word; allowed: any other name than none");
    check(
        "store = 'mysql://user:hunter2@host/db'",
        "store: \"mysql://user:[redacted]@host/db\" is not recognised; \
         allowed: a text that begins with sqlite:, postgres:// or postgresql://",
    );
}

/// R-P7: values of the wrong type, dates among them.
#[test]
fn wrong_types_are_refused() {
    check("retry.max_retries = '3'", &format!("retry.max_retries: \"3\" is a text; {COUNT}"));
    check("retry.max_retries = true", &format!("retry.max_retries: true is a boolean; {COUNT}"));
    check("retry.max_retries = [3]", &format!("retry.max_retries: this is a list; {COUNT}"));
    check("retry.max_retries = 2024-01-01", &format!("retry.max_retries: 2024-01-01 is a date; {COUNT}"));
    check_json(
        r#"{"retry": {"max_retries": null}}"#,
        &format!("retry.max_retries: null says nothing (leave the field out instead); {COUNT}"),
    );
    check(
        "recovery.enable_snapshots = 1",
        "recovery.enable_snapshots: 1 is a number; allowed: true or false",
    );
    check(
        "retry.backoff.jitter = true",
        "retry.backoff.jitter: true is a boolean; allowed: a number from 0 to 1; \
         or none, full or decorrelated; or a table with the fields mode and factor",
    );
    assert!(
        refused("[1, 2]", Format::Json)
            .to_string()
            .starts_with("redrive.toml: (top): this is a list; allowed: ")
    );
}

/// R-P7, R-P12: what is missing, and what is said twice.
#[test]
fn missing_and_repeated_fields_are_refused() {
    check(
        "retry = { max_retries = 3, max_attempts = 4 }",
        "retry: max_retries and max_attempts say the same thing in different ways; \
         allowed: only one of max_retries, default_max_retries or max_attempts",
    );
    check(
        "retry.cause_specific.timeout.backoff = { type = 'fixed' }",
        "retry.cause_specific.timeout.backoff: initial_delay_ms or initial_delay is missing; \
         allowed: at least one of initial_delay_ms or initial_delay",
    );
    check(
        "retry.cause_specific.timeout.backoff = { initial_delay_ms = 1 }",
        "retry.cause_specific.timeout.backoff: type is missing; \
         allowed: exponential, linear, constant, fixed, fibonacci or list",
    );
    check(
        "retry.backoff.type = 'list'",
        "retry.backoff: delays_ms or delays is missing; allowed: at least one of delays_ms or delays",
    );
    check(
        "retry.cause_specific = [{ max_retries = 1 }]",
        "retry.cause_specific[0]: failure_type or cause is missing; allowed: at least one of failure_type or cause",
    );
    check_json(
        r#"{"retry": {"max_retries": 1, "max_retries": 2}}"#,
        "retry.max_retries: max_retries is given twice; allowed: each only once",
    );
    check(
        "[retry]\n[policies.standard]",
        "policies.standard: the retry section is the policy standard already; \
         allowed: only one of retry or policies.standard",
    );
}

/// R-P7: policies that extend each other in a circle.
#[test]
fn circles_are_refused() {
    let end = "allowed: a chain of policies that ends at a preset or at none";
    check(
        "[policies.a]\nextends = 'b'\n[policies.b]\nextends = 'c'\n[policies.c]\nextends = 'a'",
        &format!("policies.c.extends: policies extend each other in a circle: a → b → c → a; {end}"),
    );
    check(
        "[policies.me]\nextends = 'me'",
        &format!("policies.me.extends: policies extend each other in a circle: me → me; {end}"),
    );
}

/// R-P3: a rule that does not load is an error at load, with its path.
#[test]
fn bad_rules_are_refused() {
    let rule = |body: &str| format!("[[rules]]\nid = 'a'\ncause = 'network'\n{body}");
    check(
        &rule(""),
        "rules[0]: status, exit_code, code or regex is missing; \
         allowed: at least one of status, exit_code, code or regex",
    );
    check(
        &rule("regex = ['ok', '(']"),
        "rules[0].regex[1]: the regular expression does not compile: unclosed group; allowed: a regular expression",
    );
    check(
        &rule("status = []"),
        "rules[0].status: nothing is given; allowed: a list of: a whole number from 100 to 999",
    );
    check(
        &rule("status = 1000"),
        "rules[0].status: 1000 is too large; allowed: a whole number from 100 to 999",
    );
    let two = rule("status = 500\n[[rules]]\nid = 'a'\ncause = 'timeout'\nstatus = 501");
    check(&two, "rules[1].id: a is given twice; allowed: each only once");
    let error = refused(&rule("regex = 'a{1000}{1000}{1000}'"), Format::Toml).to_string();
    assert!(error.contains("rules[0].regex: the regular expression does not compile: "), "{error}");
}

/// R-P7: a file that is no JSON or TOML is answered with line and column.
#[test]
fn syntax_errors_name_line_and_column() {
    check_json("{\n  \"retry\": }", "line 2, column 12: cannot be read: expected value; allowed: valid JSON");
    check_json(
        "{\"a\": 1e400}",
        "line 1, column 11: cannot be read: number out of range; allowed: valid JSON",
    );
    let error = refused("a = 1\n受 = 2", Format::Toml);
    assert_eq!(error.problems[0].path, "line 2, column 1");
    assert_eq!(refused("[retry]\nmax_retries = = 3", Format::Toml).problems[0].path, "line 2, column 15");
    for (deep, format) in [
        ("[".repeat(100_000), Format::Json),
        ("{\"a\":".repeat(100_000), Format::Json),
        (format!("a = {}", "[".repeat(100_000)), Format::Toml),
        (format!("a{} = 1", ".a".repeat(100_000)), Format::Toml),
    ] {
        let error = refused(&deep, format);
        assert!(error.problems[0].path.starts_with("line 1, column "), "{error}");
    }
}

/// R-P7: all problems at once, in the order of the file, whoever finds them.
#[test]
fn every_problem_is_told_in_file_order() {
    let paths = |source: &str, format| -> Vec<String> {
        refused(source, format).problems.into_iter().map(|problem| problem.path).collect()
    };
    let expected =
        ["policy", "policies.z.extends", "policies.z.never[0]", "lang", "policies.a.extends", "escalate"];
    let toml = "
        policy = 'nobody'
        policies.z.extends = 'nobody'
        policies.z.never = ['any']
        lang = 'xx'
        [policies.a]
        extends = 'a'
        [[escalate]]
        x = 1
    ";
    assert_eq!(paths(toml, Format::Toml), expected);
    let json = r#"{"policy": "nobody", "policies": {"z": {"extends": "nobody", "never": ["any"]}, "a": {"extends": "a"}},
        "lang": "xx", "escalate": [{"x": 1}]}"#;
    let mut expected = expected;
    expected.swap(3, 4);
    assert_eq!(paths(json, Format::Json), expected);
}

/// R-C2: every problem can be told in Japanese.
#[test]
fn problems_are_told_in_japanese() {
    let error = refused("retry.default_backoff.multiplier = 0.5\nretry.max_retrys = 1", Format::Toml);
    let japanese = error.describe(Lang::Ja);
    assert!(japanese.starts_with(
        "redrive.toml: retry.default_backoff.multiplier: 0.5 は小さすぎます（指定できる値: 1 から 1000000 までの数値）\n"
    ));
    assert!(
        japanese.contains("retry.max_retrys: 不明な項目です（max_retries の間違いではありませんか）"),
        "{japanese}"
    );
    let problem = &refused("lang = 1", Format::Toml).problems[0];
    assert_eq!(
        (problem.what(Lang::Ja).as_str(), problem.allowed(Lang::Ja).as_str()),
        ("1 は数値です", "en、ja")
    );
}

/// R-P8: overrides are checked like everything else.
#[test]
fn bad_overrides_are_refused() {
    let check = |json: serde_json::Value, expected: &str| {
        let error = TaskRetryOverride::from_json(&json, "task.json").unwrap_err();
        assert_eq!(error.to_string(), format!("task.json: {expected}"));
    };
    check(
        json!({"task_id": "t"}),
        "(top): overrides is missing; allowed: a table with the fields max_retries, \
        default_max_retries, max_attempts, backoff, default_backoff, retryable_failures and cause_specific",
    );
    check(
        json!({"task_id": "t", "overrides": {"backoff": {"type": "list"}}}),
        "overrides.backoff.type: \"list\" is not known; allowed: exponential, linear, constant, fixed or fibonacci",
    );
    assert_eq!(TaskRetryOverride::parse("", Format::Toml, "t").unwrap_err().problems.len(), 2);
    let error = policy_from_json("p", &json!({"extends": "other"})).unwrap_err();
    assert!(
        error.to_string().starts_with("p: extends: \"other\" is not known; allowed: standard, "),
        "{error}"
    );
}

/// R-P7, limits: a file of nothing but mistakes is told of some of them, in no time.
#[test]
fn a_file_of_nothing_but_mistakes_is_told_of_some() {
    let source: String = (0..50_000).fold(String::new(), |mut text, n| {
        use std::fmt::Write;
        writeln!(text, "retri_{n} = 1").unwrap();
        text
    });
    assert_eq!(refused(&source, Format::Toml).problems.len(), 200);
}
