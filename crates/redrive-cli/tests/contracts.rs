//! What other programs rely on (design.md §5): shapes of JSON, exact numbers, exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use serde_json::Value;
use support::{line, redrive};

fn json(command: &str) -> Value {
    let ran = line(command).run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}");
    serde_json::from_str(&ran.stdout).expect("one JSON document")
}

fn delays(flags: &str) -> Vec<u64> {
    let document = json(&format!("policy delays {flags} --json"));
    assert_eq!(document.as_object().unwrap().keys().collect::<Vec<_>>(), ["delays_ms"], "{flags}");
    document["delays_ms"].as_array().unwrap().iter().map(|ms| ms.as_u64().unwrap()).collect()
}

/// R-P5: the curves, exactly, and the cap last.
#[test]
fn delays_are_exact() {
    let seconds = |list: &[u64]| list.iter().map(|s| s * 1000).collect::<Vec<_>>();
    assert_eq!(
        delays("--backoff fibonacci --initial-delay 1s --max-delay 300s --jitter none --count 10"),
        seconds(&[1, 1, 2, 3, 5, 8, 13, 21, 34, 55])
    );
    assert_eq!(delays("--backoff exponential"), seconds(&[1, 2, 4, 8, 16, 32, 64, 128, 256, 300]));
    assert_eq!(delays("--backoff linear --increment 2s --count 3"), seconds(&[1, 3, 5]));
    assert_eq!(delays("--backoff linear --initial-delay 2s --count 3"), seconds(&[2, 4, 6]));
    assert_eq!(delays("--backoff constant --initial-delay 7s --count 2"), seconds(&[7, 7]));
    assert_eq!(delays("--backoff fixed --count 1"), seconds(&[1]));
    assert_eq!(delays("--backoff exponential --multiplier 1.5 --count 4"), [1000, 1500, 2250, 3375]);
    assert_eq!(delays("--policy consumer --count 3"), seconds(&[120, 240, 480]));
    assert_eq!(delays("--policy standard --cause timeout --count 3"), seconds(&[5, 5, 5]));
}

/// R-P9: without a cause, a policy is credited with the most retries that it makes.
#[test]
fn a_policy_of_causes_is_not_said_to_make_no_retries() {
    let ran = line("policy delays --policy api --plain").run();
    assert!(ran.stdout.contains("Policy api makes 5 retries at most"), "{ran}");
    let ran = line("policy show api --plain").run();
    assert!(ran.stdout.contains("retries: 3-5\n"), "{ran}");
    let ran = line("policy delays --policy api --max-retries 0 --plain").run();
    assert!(ran.stdout.contains("Policy api makes 0 retries at most"), "{ran}");
}

/// R-P6: jitter never exceeds the cap, and a seed repeats it.
#[test]
fn jitter_stays_below_the_cap() {
    for jitter in ["0.5", "full", "decorrelated", "1"] {
        let flags = format!("--backoff exponential --jitter {jitter} --count 200 --max-delay 30s --seed 9");
        let drawn = delays(&flags);
        assert!(drawn.iter().all(|ms| *ms <= 30_000), "{jitter}: {drawn:?}");
        assert_eq!(drawn, delays(&flags));
    }
}

/// R-P10: the decision record of 002 §2.2.
#[test]
fn explain_answers_with_the_decision_record() {
    let retry = json("policy explain --policy standard --cause rate_limit --retry-count 2 --json");
    assert_eq!(retry["decision"], "RETRY");
    assert_eq!((&retry["max_retries"], &retry["current_retry_count"]), (&5.into(), &2.into()));
    assert!((16_000..=24_000).contains(&retry["delay_ms"].as_u64().unwrap()), "{retry}");
    assert_eq!(retry["failure_type"], "RATE_LIMIT");

    let over = json("policy explain --policy standard --cause rate_limit --retry-count 5 --json");
    assert_eq!(over["decision"], "ESCALATE");
    assert!(over["escalate_reason"].as_str().unwrap().contains('5') && over.get("delay_ms").is_none());

    let timeout = json("policy explain --cause timeout --retry-count 0 --json");
    assert_eq!((&timeout["max_retries"], &timeout["delay_ms"]), (&2.into(), &5_000.into()));
}

/// R-P10: a person sees which rule found the cause, or that the cause was given.
#[test]
fn a_person_sees_where_the_cause_comes_from() {
    for (command, words) in [
        ("policy explain --cause network", "cause: network (given by you)\n"),
        ("policy explain --cause network --lang ja", "原因: network（指定された原因）\n"),
        ("policy explain --http-status 503", "cause: api_error (http."),
    ] {
        let ran = line(command).run();
        assert!(ran.stdout.contains(words), "{ran}");
    }
}

/// R-P8: an override of `max_retries: 0` escalates at once for every cause.
#[test]
fn no_retries_means_none_for_any_cause() {
    for cause in redrive_policy::Cause::NAMES {
        let record = json(&format!("policy explain --cause {cause} --max-retries 0 --json"));
        assert_eq!((&record["decision"], &record["max_retries"]), (&"ESCALATE".into(), &0.into()), "{cause}");
    }
}

/// R-D2: crashes are counted by their own budget.
#[test]
fn crashes_have_a_budget_of_their_own() {
    assert_eq!(json("policy explain --cause crashed --retry-count 2 --json")["decision"], "RETRY");
    assert_eq!(json("policy explain --cause crashed --retry-count 3 --json")["decision"], "ESCALATE");
}

/// R-P11: seconds and dates are obeyed, garbage is ignored with a note, ten years are escalated.
#[test]
fn retry_after_is_obeyed_or_ignored_aloud() {
    let explain = |value: &str| {
        redrive(["policy", "explain", "--cause", "rate_limit", "--retry-after", value, "--json"]).run()
    };
    let field = |ran: &support::Ran, name: &str| {
        serde_json::from_str::<Value>(&ran.stdout).unwrap().get(name).cloned().unwrap_or_default()
    };
    assert_eq!(field(&explain("30"), "delay_ms"), 30_000);
    assert_eq!(field(&explain("Wed, 21 Oct 2015 07:29:00 GMT"), "delay_ms"), 60_000);
    // A time that has passed names no wait: the curve keeps the retries apart.
    for now in ["Wed, 21 Oct 2015 07:00:00 GMT", "0"] {
        assert!((4_000..=6_000).contains(&field(&explain(now), "delay_ms").as_u64().unwrap()), "{now}");
    }
    assert_eq!(field(&explain("315360000"), "decision"), "ESCALATE");
    for garbage in ["soon", "-5", "", "\x1b[2J", "NaN"] {
        let ran = explain(garbage);
        assert_eq!(ran.code, 0, "{garbage:?}");
        assert!((4_000..=6_000).contains(&field(&ran, "delay_ms").as_u64().unwrap()), "{garbage:?}");
        assert!(ran.stderr.starts_with("note: ") && !ran.stderr.contains('\x1b'), "{}", ran.stderr);
    }
}

/// R-P3: one answer per line, in order, with exactly the agreed fields.
#[test]
fn jsonl_answers_line_for_line() {
    let input = concat!(
        "{\"text\":\"connection refused\",\"http_status\":null,\"exit_code\":null,\"code\":null}\n",
        "{\"http_status\":503.0,\"extra\":{\"deep\":[1,2]}}\n",
        "{}\r\n",
        "{\"text\":\"\\u0000\\ud83d\\ude00\",\"exit_code\":3221225477}",
    );
    let ran = line("classify --jsonl").stdin(input).run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 4);
    for answer in answers {
        let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["cause", "class", "error_category", "failure_type", "retry", "rule"]);
        assert!(answer["retry"].is_boolean());
    }
    assert!(ran.stdout.starts_with("{\"cause\":\""));
}

/// R-P3: two streams can be laid side by side: a blank line is answered too, nothing after the last line break
/// is not.
#[test]
fn a_blank_line_is_answered_in_its_place() {
    for (lang, words) in [("en", "the line is blank"), ("ja", "空行です")] {
        let ran = line("classify --jsonl").env("REDRIVE_LANG", lang).stdin("{}\n\n \r\n\u{feff}\n{}\n").run();
        let answers: Vec<Value> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lines: Vec<Option<u64>> = answers.iter().map(|answer| answer["line"].as_u64()).collect();
        assert_eq!((ran.code, lines), (4, vec![None, Some(2), Some(3), Some(4), None]));
        assert!(answers[1]["error"].as_str().unwrap().starts_with(words), "{ran}");
        assert!(ran.stderr.lines().nth(1).unwrap().starts_with("hint: "), "{ran}");
    }
    assert_eq!(line("classify --jsonl").stdin("").run().stdout, "");
}

/// R-P3: half a surrogate pair is read as U+FFFD, in a stream and in a corpus.
#[test]
fn half_a_surrogate_pair_is_read() {
    let ran = line("classify --jsonl").stdin(r#"{"text":"connection refused \ud83d"}"#).run();
    assert!(ran.code == 0 && ran.stdout.contains("\"network\""), "{ran}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let entry = r#"{"id":"e3","text":"connection refused \ud83d","cause":"network","retry":true}"#;
    std::fs::write(file.path(), entry).unwrap();
    let ran = redrive(["classify".as_ref(), "--corpus".as_ref(), file.path().as_os_str()]).run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

/// Bad input: a line that is no JSON is answered in its place, and the run ends with 4.
#[test]
fn a_bad_line_is_answered_in_its_place() {
    let mut input = b"{\"text\":\"a\"}\nnot json\n[1]\n{\"text\":5}\n{\"text\":\"\xff\xfe\"}\n".to_vec();
    input.extend_from_slice(b"{\"text\":\"");
    input.extend(std::iter::repeat_n(b'x', 10 * 1024 * 1024));
    input.extend_from_slice(b"\"}\n");
    let ran = line("classify --jsonl").stdin(input).run();
    assert_eq!(ran.code, 4);
    assert!(ran.stderr.starts_with("error: lines that could not be read: 3"), "{}", ran.stderr);
    let answers: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<Option<u64>> = answers.iter().map(|answer| answer["line"].as_u64()).collect();
    assert_eq!(lines, [None, Some(2), Some(3), Some(4), None, None]);
    assert!(answers[1]["error"].is_string() && answers[4]["cause"].is_string());
}

/// R-P3: the document for one failure carries the agreed fields and the decision.
#[test]
fn one_classification_is_one_document() {
    let document = json("classify --http-status 503 --json unavailable");
    assert_eq!(document["schema"], "redrive/classification.v1");
    for field in ["cause", "retry", "failure_type", "error_category", "class", "rule", "reason", "decision"] {
        assert!(!document[field].is_null(), "{field}");
    }
    assert_eq!(document["decision"]["policy"], "standard");
}

/// R-C1: documents say their schema.
#[test]
fn documents_are_versioned() {
    for (command, schema) in [
        ("policy list --json", "redrive/policies.v1"),
        ("policy show api --json", "redrive/policy.v1"),
        ("config show --json", "redrive/config.v1"),
    ] {
        assert_eq!(json(command)["schema"], schema);
    }
}

/// R-C1: global flags stand before or after the command.
#[test]
fn global_flags_stand_anywhere() {
    let after = line("policy delays --backoff exponential --json").run();
    assert_eq!(line("--json policy delays --backoff exponential").run(), after);
    assert_eq!(line("policy --json delays --backoff exponential").run(), after);
    assert_eq!(line("--plain policy list").run(), line("policy list --plain").on_a_terminal().run());
}

/// The corpus figures come from one command; labels decide what is right.
#[test]
fn a_corpus_is_measured() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let entries = concat!(
        "{\"id\":\"e1\",\"text\":\"?\",\"cause\":\"unknown\",\"retry\":false,\"tricky\":true}\n",
        "{\"id\":\"e3\",\"text\":\"??\",\"cause\":\"network\",\"retry\":true}\n",
    );
    std::fs::write(file.path(), entries).unwrap();
    let ran =
        redrive(["classify".into(), "--corpus".into(), file.path().as_os_str().to_owned(), "--json".into()])
            .run();
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["schema"]), (0, &"redrive/accuracy.v1".into()));
    assert_eq!(document["all"]["entries"], 2);
    assert_eq!(document["held_out"]["entries"], 1);
    assert_eq!(document["all"]["retry_right_percent"], 50.0);
    assert_eq!(document["misses"][0]["id"], "e3");
}

/// R-P3, R-P12: typed signals speak for themselves, alone or in a stream.
#[test]
fn typed_signals_need_no_text() {
    for (flags, line_in, cause, retry) in [
        ("--http-status 503", "{\"http_status\":503}", "api_error", true),
        ("--http-status 429", "{\"http_status\":429}", "rate_limit", true),
        ("--http-status 401", "{\"http_status\":401}", "auth_error", false),
        ("--code 40P01", "{\"code\":\"40P01\"}", "contention", true),
        ("--exit-code 127", "{\"exit_code\":127}", "configuration", false),
    ] {
        let one = json(&format!("classify {flags} --json"));
        assert_eq!((&one["cause"], &one["retry"]), (&cause.into(), &retry.into()), "{flags}");
        let streamed = line("classify --jsonl").stdin(line_in).run();
        let streamed: Value = serde_json::from_str(&streamed.stdout).unwrap();
        for field in ["cause", "retry", "failure_type", "error_category", "class", "rule"] {
            assert_eq!(streamed[field], one[field], "{flags}: {field}");
        }
        let explained = json(&format!("policy explain {flags} --json"));
        assert_eq!(explained["cause"], cause, "{flags}");
    }
}
