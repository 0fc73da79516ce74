use super::rules::RuleBook;
use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn classify(text: &str) -> Failure {
    Classifier::built_in().classify(&Report::text(text))
}

fn check(text: &str, cause: Cause) {
    let failure = classify(text);
    assert_eq!(failure.cause, cause, "{text:?} was recognised by {}", failure.rule);
}

fn check_report(report: &Report<'_>, cause: Cause) {
    let failure = Classifier::built_in().classify(report);
    assert_eq!(failure.cause, cause, "{report:?} was recognised by {}", failure.rule);
}

/// R-P3: a rule that does not load is an error at load; the built-in book loads.
#[test]
fn the_book_loads() {
    if let Err(error) = RuleBook::built_in() {
        panic!("{error}");
    }
}

/// R-P3: every rule recognises its own examples and leaves alone what only looks alike.
#[test]
fn every_rule_keeps_its_word() {
    let mut wrong = Vec::new();
    for rule in Classifier::built_in_rules() {
        for example in &rule.examples {
            let failure = classify(example);
            if failure.rule.as_str() != rule.id {
                wrong.push(format!("{} should recognise {example:?}, but {} did", rule.id, failure.rule));
            }
        }
        for other in &rule.not {
            if classify(other).rule.as_str() == rule.id {
                wrong.push(format!("{} should leave {other:?} alone", rule.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// R-P3: every cause that text can show has rules, and every rule gives its reason in both languages.
#[test]
fn every_textual_cause_has_rules_with_reasons() {
    let rules = Classifier::built_in_rules();
    for cause in Cause::ALL {
        let by_text =
            !matches!(cause, Cause::Crashed | Cause::Incomplete | Cause::Quality | Cause::HumanJudgment);
        assert_eq!(rules.iter().any(|rule| rule.cause == *cause), by_text, "{cause}");
    }
    for rule in rules {
        assert!(!rule.reason.0.is_empty() && !rule.reason.1.is_ascii(), "{}", rule.id);
    }
}

/// R-P3: numbers that are no statuses, settings that report nothing, names of things.
#[test]
fn surfaces_do_not_fool_it() {
    check("listening on port 5000", Cause::Unknown);
    check("Invalid API key", Cause::AuthError);
    check("ValueError: timeout must be positive", Cause::ValidationError);
    check("processed 503 records in 429 batches", Cause::Unknown);
    check("error in line 404 of import.csv: missing value for column 'price'", Cause::ValidationError);
    check("relation \"rate_limits\" does not exist\nLINE 1: SELECT * FROM rate_limits", Cause::NotFound);
    check("Queue 'timeout-events' does not exist", Cause::NotFound);
    check("could not write /var/log/deadlock/500.log: No space left on device", Cause::ResourceExhausted);
    check("dial tcp 10.0.0.5:5000: connect: connection refused", Cause::Network);
    check("HTTP 403: API rate limit exceeded for user", Cause::RateLimit);
    check("429 Too Many Requests, retry in 500 ms", Cause::RateLimit);
    check("could not read timeout_ms from app.conf", Cause::Unknown);
    check("\u{1b}[31mfatal:\u{1b}[0m \u{1b}[1mPermission denied\u{1b}[0m", Cause::AuthError);
}

/// R-P3: a number is a status only where the words around it say so.
#[test]
fn numbers_of_things_are_not_statuses() {
    for text in [
        "got 500 rows, expected 10",
        "returned 503 results, expected 1",
        "response 429 bytes, expected JSON",
        "Item 503 not found in cart",
        "Ticket 502 bad input",
        "invoice 504 server-side validation failed: amount negative",
        "error 1205 unknown product",
        "make: *** [Makefile:503: test-network] Error 2",
        "make: *** [timeout] Error 1",
    ] {
        let failure = classify(text);
        assert!(!failure.is_retryable(), "{text:?} was recognised by {}", failure.rule);
    }
    check("429", Cause::RateLimit);
    check("upstream returned 502", Cause::ApiError);
}

/// R-P12: a status or an exit code that forbids a retry is not talked out of it by words.
#[test]
fn permanent_signals_are_not_talked_into_a_retry() {
    for status in [400, 401, 403, 404, 405, 410, 413, 415, 422, 425] {
        for text in [
            "connection refused",
            "Service unavailable, try again later",
            "deadlock detected",
            "read timed out",
        ] {
            let failure = Classifier::built_in().classify(&Report::text(text).with_status(status));
            assert!(!failure.is_retryable(), "{status} {text:?}: {}", failure.rule);
        }
    }
    for exit_code in [64, 65, 66, 77, 78, 126, 127, 130, 137, 143] {
        for text in ["rate limit exceeded", "connection refused", "database is locked"] {
            let failure = Classifier::built_in().classify(&Report::text(text).with_exit_code(exit_code));
            assert!(!failure.is_retryable(), "{exit_code} {text:?}: {}", failure.rule);
        }
    }
    check_report(&Report::text("API rate limit exceeded").with_status(403), Cause::RateLimit);
}

/// R-P3: everyday sentences that only sound like a passing trouble.
#[test]
fn everyday_sentences_are_not_retried() {
    for text in [
        "Too many login attempts with wrong password; account locked",
        "unknown host key",
        "network interface eth0 does not exist",
        "failed to lookup user \"bob\": no such user",
        "bash: -c: line 1: unexpected EOF while looking for matching",
        "Not connected to any account; run login",
        "タイムアウト値が不正です",
        "ユーザー「タイムアウト太郎」は存在しません",
        "オフライン版はサポートされていません",
        "メンテナンス契約が無効です",
    ] {
        let failure = classify(text);
        assert!(
            !failure.is_retryable() || failure.rule.as_str() == "network.generic",
            "{text:?}: {}",
            failure.rule
        );
    }
}

/// R-P3: linear in any text: what nests or repeats costs no more per byte than what does not.
#[test]
fn no_text_is_read_twice_over() {
    for piece in ["a:", "a.", "a::", "<style>", "<a ", "<!", "\"", "at at ", "1 ", "'", "x=", "「", "a-", "/"]
    {
        let _ = classify(&piece.repeat(TEXT_BOUND));
    }
}

/// R-P3: the floor is the keyword lists of seed 000.
#[test]
fn the_keywords_of_the_seed_are_known() {
    for (text, cause) in [
        ("Connection timeout", Cause::Timeout),
        ("network unreachable", Cause::Network),
        ("connection lost", Cause::Network),
        ("rate limit", Cause::RateLimit),
        ("HTTP 429", Cause::RateLimit),
        ("too many requests", Cause::RateLimit),
        ("401 Unauthorized", Cause::AuthError),
        ("403 Forbidden", Cause::AuthError),
        ("authentication failed", Cause::AuthError),
        ("500 Internal Server Error", Cause::ApiError),
        ("502 Bad Gateway", Cause::ApiError),
        ("503 Service Unavailable", Cause::ApiError),
        ("504 Gateway Timeout", Cause::Timeout),
        ("validation failed", Cause::ValidationError),
        ("400 Bad Request", Cause::ValidationError),
    ] {
        check(text, cause);
    }
}

/// R-P3: the root of a trace decides, not its wrapping.
#[test]
fn the_last_cause_of_a_trace_decides() {
    check(
        "Traceback (most recent call last):\n  File \"net.py\", line 8, in get\n    sock.connect()\nConnectionRefusedError: [Errno 111] Connection refused\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"job.py\", line 3, in run\n    user = find(1)\napp.errors.ValidationError: validation failed: email is required",
        Cause::ValidationError,
    );
    check(
        "com.acme.ServiceException: request timed out while saving\n\tat com.acme.Api.save(Api.java:40)\nCaused by: org.postgresql.util.PSQLException: ERROR: duplicate key value violates unique constraint \"users_pkey\"\n\tat org.postgresql.core.v3.QueryExecutorImpl.receive(QueryExecutorImpl.java:2725)",
        Cause::Integrity,
    );
}

/// R-P3: Japanese, in all widths.
#[test]
fn japanese_is_understood() {
    for (text, cause) in [
        ("接続がタイムアウトしました", Cause::Timeout),
        ("ｻｰﾊﾞｰに接続できません", Cause::Network),
        ("アクセスが拒否されました。", Cause::AuthError),
        ("リクエストが多すぎます", Cause::RateLimit),
        ("必須項目が入力されていません", Cause::ValidationError),
        ("ファイルが見つかりません", Cause::NotFound),
        ("ただいまメンテナンス中です", Cause::ApiError),
        ("ディスクの空き容量が不足しています", Cause::ResourceExhausted),
        ("デッドロックが検出されました", Cause::Contention),
        ("一意制約に違反しました", Cause::Integrity),
        ("環境変数 API_KEY が設定されていません", Cause::Configuration),
        ("処理はユーザーによってキャンセルされました", Cause::Cancelled),
    ] {
        check(text, cause);
    }
}

/// R-P12: statuses as the requirements read them.
#[test]
fn statuses_are_read_as_agreed() {
    for (status, cause, retry) in [
        (400, Cause::ValidationError, false),
        (401, Cause::AuthError, false),
        (403, Cause::AuthError, false),
        (404, Cause::NotFound, false),
        (408, Cause::Timeout, true),
        (409, Cause::Integrity, false),
        (413, Cause::ValidationError, false),
        (422, Cause::ValidationError, false),
        (423, Cause::Contention, true),
        (429, Cause::RateLimit, true),
        (444, Cause::ValidationError, false),
        (500, Cause::ApiError, true),
        (502, Cause::ApiError, true),
        (503, Cause::ApiError, true),
        (504, Cause::Timeout, true),
        (522, Cause::Timeout, true),
        (529, Cause::ApiError, true),
        (577, Cause::ApiError, true),
        (200, Cause::Unknown, false),
        (0, Cause::Unknown, false),
        (u16::MAX, Cause::Unknown, false),
    ] {
        let failure = Classifier::built_in().classify(&Report::default().with_status(status));
        assert_eq!((failure.cause, failure.is_retryable()), (cause, retry), "{status}");
    }
    let conflict = Report::default().with_status(409);
    check_report(&conflict.clone().with_retry_after(Duration::from_secs(1)), Cause::Contention);
    check_report(&conflict.clone().with_code("lock_timeout"), Cause::Contention);
    check_report(&Report::text("the object has been modified").with_status(409), Cause::Contention);
    check_report(&Report::text("email already exists").with_status(409), Cause::Integrity);
}

/// R-P12: exit codes and signals; a code that says nothing leaves it to the text.
#[test]
fn exit_codes_are_read_as_agreed() {
    for (code, cause) in [
        (75, Cause::ApiError),
        (69, Cause::ApiError),
        (64, Cause::ValidationError),
        (65, Cause::ValidationError),
        (66, Cause::NotFound),
        (77, Cause::AuthError),
        (126, Cause::AuthError),
        (78, Cause::Configuration),
        (127, Cause::Configuration),
        (124, Cause::Timeout),
        (130, Cause::Cancelled),
        (143, Cause::Cancelled),
        (137, Cause::ResourceExhausted),
        (1, Cause::Unknown),
        (2, Cause::Unknown),
        (-1, Cause::Unknown),
        (i32::MAX, Cause::Unknown),
    ] {
        check_report(&Report::default().with_exit_code(code), cause);
    }
    check_report(&Report::text("curl: (7) Connection refused").with_exit_code(1), Cause::Network);
    let killed = Report { exit_code: Some(137), killed_by_us: true, ..Report::default() };
    check_report(&killed, Cause::Unknown);
    check_report(&Report { signal: Some(9), ..Report::default() }, Cause::ResourceExhausted);
    check_report(&Report { signal: Some(15), ..Report::default() }, Cause::Cancelled);
}

/// R-P3: codes of many makers, whatever the text says.
#[test]
fn codes_are_known() {
    for (code, cause) in [
        ("ECONNREFUSED", Cause::Network),
        ("econnreset", Cause::Network),
        ("ETIMEDOUT", Cause::Timeout),
        ("40P01", Cause::Contention),
        ("40001", Cause::Contention),
        ("23505", Cause::Integrity),
        ("23999", Cause::Integrity),
        ("08006", Cause::Network),
        ("28P01", Cause::AuthError),
        ("42601", Cause::ValidationError),
        ("ThrottlingException", Cause::RateLimit),
        ("SlowDown", Cause::RateLimit),
        ("NoSuchKey", Cause::NotFound),
        ("DEADLINE_EXCEEDED", Cause::Timeout),
        ("PERMISSION_DENIED", Cause::AuthError),
        ("SQLITE_BUSY", Cause::Contention),
        ("SQLITE_FULL", Cause::ResourceExhausted),
        ("ORA-00060", Cause::Contention),
        ("ENOSPC", Cause::ResourceExhausted),
        ("SomethingTimeoutError", Cause::Timeout),
        ("", Cause::Unknown),
        ("????", Cause::Unknown),
    ] {
        check_report(&Report::default().with_code(code), cause);
    }
}

/// R-P3, R-P4: one cause can be either; the rule's verdict tells.
#[test]
fn a_verdict_overrides_the_habit_of_its_cause() {
    let slots = classify("FATAL: sorry, too many clients already");
    assert_eq!((slots.cause, slots.is_retryable()), (Cause::ResourceExhausted, true));
    let disk = classify("No space left on device");
    assert_eq!((disk.cause, disk.is_retryable()), (Cause::ResourceExhausted, false));
    let invited = classify("Something went wrong. Please try again later.");
    assert_eq!((invited.cause, invited.is_retryable()), (Cause::Unknown, true));
    let nothing = classify("An unknown error occurred.");
    assert_eq!((nothing.cause, nothing.is_retryable()), (Cause::Unknown, false));
}

/// R-P1: a handler's own word beats every rule.
#[test]
fn what_the_handler_says_holds() {
    let report = Report::said(Cause::HumanJudgment, Verdict::Unsaid, "connection refused").with_status(503);
    check_report(&report, Cause::HumanJudgment);
}

/// R-P3: user rules come first, in their order, and all their conditions must hold.
#[test]
fn user_rules_come_before_the_book() {
    let quiet = UserRule::new("quiet-hours", Cause::RateLimit, None, "closed at night")
        .with_status([503])
        .with_regex("(?i)quiet hours")
        .unwrap();
    let vendor =
        UserRule::new("vendor", Cause::Contention, Some(true), "their lock").with_code(["E-77".to_owned()]);
    let classifier = Classifier::with_user_rules(vec![quiet, vendor]);
    let failure = classifier.classify(&Report::text("\u{1b}[1mQuiet\u{1b}[0m hours").with_status(503));
    assert_eq!(failure.rule.as_str(), "quiet-hours");
    let failure = classifier.classify(&Report::text("quiet hours").with_status(500));
    assert_eq!(failure.rule.as_str(), "http.internal-error");
    let failure = classifier.classify(&Report::default().with_code("e-77"));
    assert_eq!((failure.cause, failure.verdict), (Cause::Contention, Verdict::Yes));
    assert!(UserRule::new("x", Cause::Unknown, None, "").with_regex("(").is_err());
}

/// R-P3: beyond the bound only both ends are looked at, and the answer comes all the same.
#[test]
fn a_huge_text_is_looked_at_from_both_ends() {
    let filler = "all is well and nothing happened here \n".repeat(300_000);
    assert!(filler.len() > 10_000_000);
    check(&format!("{filler}connection refused"), Cause::Network);
    check(&format!("connection refused\n{filler}"), Cause::Network);
    check(&format!("{filler}connection refused\n{filler}"), Cause::Unknown);
    check(&"é".repeat(TEXT_BOUND), Cause::Unknown);
}

/// R-P3: an explanation names the rule, its reason, and what it saw.
#[test]
fn an_explanation_says_what_was_seen() {
    let report = Report::text("HTTP 403: API rate limit exceeded");
    let explanation = Classifier::built_in().explain(&report);
    assert_eq!(explanation.failure.cause, Cause::RateLimit);
    assert!(explanation.matched.as_deref().is_some_and(|seen| seen.contains("rate limit")));
    assert!(explanation.others.iter().any(|(id, ..)| id == "http.forbidden"));
    assert!(!explanation.reason(Lang::Ja).is_ascii());
}

proptest! {
    /// R-P3: no text, code, status or exit code makes it panic.
    #[test]
    fn nothing_makes_it_panic(
        text in "\\PC{0,200}",
        noise in proptest::collection::vec(any::<u8>(), 0..200),
        code in proptest::option::of("\\PC{0,80}"),
        status in proptest::option::of(any::<u16>()),
        exit_code in proptest::option::of(any::<i32>()),
    ) {
        let noise = String::from_utf8_lossy(&noise);
        let report = Report {
            http_status: status,
            exit_code,
            code: code.map(Into::into),
            ..Report::text(format!("{text}{noise}"))
        };
        let failure = Classifier::built_in().classify(&report);
        let explained = Classifier::built_in().explain(&report);
        prop_assert_eq!(failure, explained.failure);
    }

    /// R-P3: pieces of real messages in any arrangement do not make it panic either.
    #[test]
    fn arrangements_of_real_pieces_do_not_make_it_panic(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("Caused by: "), Just("\n"), Just("  File \"x\", line 3\n"), Just("<h1>"), Just("</h1>"), Just("\u{1b}[31m"),
                Just("4.7.1 "), Just("\"code\": "), Just("'"), Just("\""), Just("`x`"), Just("SQLSTATE[40001]"), Just("タイムアウト"),
                Just("ﾞ"), Just("&quot;"), Just("http://a/"), Just("a.b.C"), Just("x=1"), Just("HTTP/1.1 503 "), Just("é"), Just("- "),
            ],
            0..40,
        ),
    ) {
        let _ = Classifier::built_in().explain(&Report::text(pieces.concat()));
    }
}
