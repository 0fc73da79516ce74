//! Bad input at the command line: a clear error with what is allowed, or a bounded answer; never a panic.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::ffi::OsString;

use proptest::prelude::*;
use support::{line, redrive};

/// Each wrong command line, its exit code, and words its error must contain.
#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    for (command, code, words) in [
        ("polcy list", 2, "unknown command \"polcy\""),
        ("polcy list", 2, "hint: did you mean policy?"),
        ("policy lst", 2, "did you mean list?"),
        ("help polcy", 2, "did you mean policy?"),
        ("policy list --josn", 2, "did you mean --json?"),
        ("policy list extra", 2, "unexpected argument \"extra\""),
        ("policy show", 2, "missing argument: <NAME>"),
        ("policy show standrad", 3, "did you mean standard?"),
        ("policy show nothing-like-it", 3, "redrive policy list"),
        ("policy explain", 2, "--cause"),
        ("policy explain --cause netwrok", 2, "did you mean network?"),
        ("policy explain --cause netwrok", 2, "rate_limit"),
        ("policy explain --cause network --policy nope", 2, "standard, command, api"),
        ("policy explain --cause network --retry-count -1", 2, "from 0 to 4294967295"),
        ("policy explain --cause network --retry-count 4294967296", 2, "from 0 to 4294967295"),
        ("policy explain --cause network --retry-on nothing", 2, "any"),
        ("policy explain --http-status 1000", 2, "100 to 999"),
        ("policy delays --multiplier NaN", 2, "from 1 to 1000000"),
        ("policy delays --multiplier inf", 2, "from 1 to 1000000"),
        ("policy delays --multiplier -2", 2, "from 1 to 1000000"),
        ("policy delays --multiplier 0.5", 2, "from 1 to 1000000"),
        ("policy delays --jitter 1.5", 2, "from 0 to 1"),
        ("policy delays --jitter -0.1", 2, "from 0 to 1"),
        ("policy delays --initial-delay -1s", 2, "250ms"),
        ("policy delays --initial-delay 5", 2, "250ms"),
        ("policy delays --max-delay 99999999999999999999h", 2, "the longest possible is 213503d"),
        ("policy delays --count 0", 2, "from 1 to 10000"),
        ("policy delays --count 10001", 2, "from 1 to 10000"),
        ("policy delays --count", 2, "--count needs a value"),
        ("policy delays --backoff exponental", 2, "did you mean exponential?"),
        ("policy delays --seed 1 --seed 2", 2, "given twice"),
        ("classify --jsonl --http-status 500", 2, "cannot be used together"),
        ("classify --corpus /nonexistent/corpus.jsonl", 1, "/nonexistent/corpus.jsonl"),
        ("--lang fr policy list", 2, "allowed are en, ja"),
        ("--color blue policy list", 2, "allowed are auto, always, never"),
        ("--config /nonexistent/redrive.toml policy list", 1, "/nonexistent/redrive.toml"),
        ("config check /nonexistent/redrive.toml", 1, "/nonexistent/redrive.toml"),
        ("config check", 3, "redrive.toml"),
        ("demo --for soon", 2, "250ms"),
        ("demo --for 0s", 2, "at least 2s is expected"),
        ("demo --for 1.999s", 2, "at least 2s is expected"),
    ] {
        let ran = line(command).run();
        assert_eq!(ran.code, code, "{command}: {ran}");
        assert!(ran.stderr.starts_with("error: "), "{command}: {ran}");
        assert!(ran.stderr.contains(words), "{command}: {ran}");
        assert_eq!(ran.stdout, "", "{command}");
        let japanese = line(&format!("{command} --lang ja")).run();
        if !command.contains("--lang") {
            assert_eq!(japanese.code, code, "{command}");
            let first = japanese.stderr.lines().next().unwrap_or_default();
            assert!(first.starts_with("error: ") && !first.is_ascii(), "{command}: {japanese}");
        }
    }
}

/// Bad input: the far ends are answered, not refused.
#[test]
fn the_far_ends_are_answered() {
    for command in [
        "policy explain --http-status 999",
        "policy delays --max-delay 213503d",
        "policy explain --cause network --retry-count 4294967295",
        "policy explain --cause network --max-retries 4294967295 --retry-count 4294967294",
        "policy delays --backoff exponential --multiplier 1000000 --max-delay 5000000h --count 10000",
        "policy delays --backoff fibonacci --initial-delay 0 --count 100",
        "policy delays --backoff linear --initial-delay 5000000h --increment 5000000h --max-delay 5000000h",
        "policy delays --max-delay 0 --count 3",
    ] {
        for form in ["--json", "--plain", "--color always"] {
            let ran = line(&format!("{command} {form}")).run();
            assert_eq!(ran.code, 0, "{command}: {}", ran.stderr);
        }
    }
}

/// R-C2: any width is drawn on, and a sane one is kept to.
#[test]
fn any_width_is_drawn_on() {
    for width in [0, 1, 39, 40, 41, 57, 80, 133, 100_000] {
        for command in
            ["policy list", "policy show collector", "policy delays --jitter full", "config show", "-h"]
        {
            for lang in ["en", "ja"] {
                let ran = line(&format!("{command} --color always --lang {lang}"))
                    .env("REDRIVE_WIDTH", &width.to_string())
                    .run();
                assert_eq!(ran.code, 0, "{command} at {width}: {ran}");
                let widest = ran.stdout.lines().map(columns).max().unwrap();
                let limit = width.clamp(40, 160);
                assert!(command == "-h" || widest <= limit, "{command}: {widest} > {limit}");
            }
        }
    }
}

/// How many columns a coloured line takes.
fn columns(line: &str) -> usize {
    let mut plain = String::new();
    let mut parts = line.split('\x1b');
    plain.push_str(parts.next().unwrap());
    parts.for_each(|part| plain.push_str(part.split_once('m').unwrap().1));
    unicode_width::UnicodeWidthStr::width(plain.as_str())
}

/// R-P5: an initial delay above the cap is a warning; the cap wins.
#[test]
fn a_first_delay_above_the_cap_is_warned_of() {
    let ran =
        line("policy delays --backoff constant --initial-delay 10m --max-delay 1m --count 1 --json").run();
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"delays_ms\":[60000]}\n"));
    assert!(ran.stderr.starts_with("warning: ") && ran.stderr.contains("1m"), "{}", ran.stderr);
    assert_eq!(line("policy delays --initial-delay 10m --max-delay 1m --count 1 -q").run().stderr, "");
}

/// Bad input: an empty message, and bytes that are no UTF-8, are classified all the same.
#[test]
fn any_bytes_can_be_classified() {
    for input in [b"".to_vec(), b"\xff\xfe\x00".to_vec(), vec![b'x'; 10 * 1024 * 1024]] {
        let ran = line("classify --json").stdin(input.clone()).run();
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(line("classify - --json --seed 1").stdin(input.clone()).run().code, 0);
        assert!(line("classify --jsonl").stdin(input).run().stdout.lines().count() < 2);
    }
}

/// R-C2: what came from outside cannot act on the terminal.
#[test]
fn terminal_escapes_in_arguments_are_written_out() {
    for form in ["--plain", "--json", "--color=always"] {
        let ran =
            redrive(["policy", "explain", "--policy", "\x1b[2Jx\u{9b}", "--cause", "network", form]).run();
        assert_eq!(ran.code, 2);
        assert!(!ran.stderr.contains("\x1b[2J") && !ran.stderr.contains('\u{9b}'), "{:?}", ran.stderr);
        assert!(ran.stderr.contains("\\x1b[2J"), "{:?}", ran.stderr);
    }
}

/// R-T8: the password of a store is not shown, wherever its URL was written.
#[test]
fn no_output_shows_the_password_of_a_store() {
    const URL: &str = "postgres://u:hun/t@er2@h/db";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("redrive.toml"), format!("store = '{URL}'\n")).unwrap();
    for form in ["--plain", "--json", "--color=always"] {
        for ran in [
            redrive(["--store", URL, "config", "show", "--origin", form]).run(),
            redrive(["config", "show", form]).env("REDRIVE_STORE", URL).run(),
            redrive(["config", "show", form]).in_directory(directory.path()).run(),
        ] {
            assert_eq!(ran.code, 0, "{ran}");
            assert!(ran.stdout.contains("postgres://u:[redacted]@h/db"), "{ran}");
            assert!(!ran.to_string().contains("er2"), "{ran}");
        }
    }
    for words in [
        vec![URL],
        vec!["help", URL],
        vec!["policy", "list", URL],
        vec!["--lang", URL, "policy", "list"],
        vec!["--color", URL, "policy", "list"],
        vec!["policy", "delays", "--initial-delay", URL],
        vec!["policy", "explain", "--cause", URL],
        vec!["--store", URL, "--store", URL, "config", "show"],
    ] {
        let ran = redrive(words.clone()).run();
        assert!(ran.code == 2 && !ran.to_string().contains("er2"), "{words:?}: {ran}");
    }
}

/// R-C2: a line break in user data does not begin a second line that looks like ours.
#[test]
fn user_data_cannot_forge_a_line() {
    const EVIL: &str = "x\nerror: fake\r\u{2028}hint: fake";
    let directory = tempfile::tempdir().unwrap();
    for words in [
        vec![EVIL],
        vec!["help", EVIL],
        vec!["--x\nhint: fake"],
        vec!["policy", "list", EVIL],
        vec!["policy", "show", EVIL],
        vec!["policy", "explain", "--cause", EVIL],
        vec!["policy", "explain", "--cause", "network", "--policy", EVIL],
        vec!["policy", "delays", "--initial-delay", EVIL],
        vec!["--lang", EVIL, "policy", "list"],
        vec!["--config", EVIL, "policy", "list"],
        vec!["config", "check", EVIL],
        vec!["classify", "--corpus", EVIL],
    ] {
        let ran = redrive(words.clone()).in_directory(directory.path()).run();
        assert_ne!(ran.code, 0, "{words:?}");
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert!(lines.len() <= 2 && lines[0].contains(" fake"), "{words:?}: {ran}");
        assert!(
            lines.iter().skip(1).all(|line| line.starts_with("hint: ") && !line.contains("fake")),
            "{ran}"
        );
        assert!(!ran.stderr.contains('\r') && !ran.stderr.contains('\u{2028}'), "{words:?}: {ran}");
    }
    // A broken file has a line for each of its problems, and no more.
    std::fs::write(directory.path().join(EVIL), "lang = 'fr'\npolicy = \"x\\nhint: fake\"\n").unwrap();
    let ran = redrive(["--config", EVIL, "policy", "list"]).in_directory(directory.path()).run();
    let starts = ["error: x error: fake", "error: x error: fake", "hint: redrive config schema"];
    assert_eq!(ran.stderr.lines().count(), starts.len(), "{ran}");
    assert!(ran.stderr.lines().zip(starts).all(|(line, start)| line.starts_with(start)), "{ran}");
}

/// R-C2: after an error stands what to do about it, and Japanese is Japanese down to what the system said.
#[test]
fn every_error_has_its_hint_and_speaks_the_users_language() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("broken.toml"), "lang = 'fr'\n").unwrap();
    std::fs::write(directory.path().join("large.toml"), vec![b'#'; 4 * 1024 * 1024 + 1]).unwrap();
    for (command, code, en, ja) in [
        ("config check missing", 1, "there is no such file", "ファイルがありません"),
        ("config check broken.toml/x", 1, "there is no such file", "ファイルがありません"),
        ("--config missing policy list", 1, "there is no such file", "ファイルがありません"),
        ("classify --corpus missing", 1, "there is no such file", "ファイルがありません"),
        ("config check .", 1, "it is a directory", "ディレクトリです"),
        ("--config . policy list", 1, "it is a directory", "ディレクトリです"),
        ("classify --corpus .", 1, "it is a directory", "ディレクトリです"),
        ("config check large.toml", 1, "larger than 4 MiB", "4 MiB を超えています"),
        ("config check broken.toml", 1, "problems: 1", "1 件の問題"),
        ("policy check broken.toml", 1, "problems: 1", "1 件の問題"),
        ("--config broken.toml policy list", 1, "en or ja", "en"),
        ("classify --jsonl", 4, "could not be read: 1", "1 行を読めませんでした"),
    ] {
        for (lang, words) in [("en", en), ("ja", ja)] {
            let ran = line(command).env("REDRIVE_LANG", lang).in_directory(directory.path()).stdin("x").run();
            assert_eq!(ran.code, code, "{command}: {ran}");
            let lines: Vec<&str> = ran.stderr.lines().collect();
            assert!(lines.len() == 2 && lines[0].starts_with("error: "), "{command}: {ran}");
            assert!(lines[0].contains(words) && !lines[0].contains("os error"), "{command}: {ran}");
            assert!(lines[1].starts_with("hint: "), "{command}: {ran}");
            assert_eq!(lang == "ja", !lines[1].is_ascii(), "{command}: {ran}");
        }
    }
}

/// R-P7: a file that says nothing is no error, and the person is told that it says nothing.
#[test]
fn an_empty_file_is_told_of() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["x.json", "x.toml"] {
        std::fs::write(directory.path().join(name), " \n").unwrap();
        let ran = line(&format!("config check {name}")).in_directory(directory.path()).run();
        assert_eq!(ran.code, 0, "{ran}");
        assert_eq!(ran.stderr, format!("note: {name} is empty; the built-in values hold\n"));
    }
}

/// R-P9: delays of a cause that is never retried are shown with a note.
#[test]
fn delays_that_will_not_happen_are_told_of() {
    let ran = line("policy delays --cause auth_error --count 2 --jitter none --json").run();
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\"delays_ms\":[1000,2000]}\n"));
    assert!(ran.stderr.starts_with("note: policy standard does not retry auth_error"), "{ran}");
    let ran = line("policy delays --cause auth_error --count 2").run();
    assert!(ran.stderr.starts_with("note: ") && !ran.stdout.contains("retries at most"), "{ran}");
    assert_eq!(line("policy delays --cause auth_error --retry-on auth_error").run().stderr, "");
    assert_eq!(line("policy delays --cause network").run().stderr, "");
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "classify", "policy", "config", "demo", "help", "list", "show", "check", "explain", "delays",
            "schema", "--json", "--plain", "--jsonl", "--cause", "--policy", "--retry-count", "--count",
            "--backoff", "--jitter", "--max-delay", "--initial-delay", "--multiplier", "--retry-after",
            "--http-status", "--exit-code", "--code", "--text", "--seed", "--retry-on", "--lang", "ja", "-v",
            "-q", "--color", "always", "network", "unknown", "standard", "1s", "0", "3", "full", "--", "-",
            "--origin", "--corpus", "--max-retries", "fibonacci", "--help", "--for", "0s", "enqueue", "status",
            "dlq", "retry", "redrive", "events", "store", "migrate", "backup", "import", "export", "job_1",
            "--payload", "{}", "--kind", "--exec", "--http", "--limit", "--since", "--all", "--yes", "--job",
        ])
        .prop_map(ToOwned::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Bad input: whatever is typed and piped in, there is an exit code that is documented, and no panic.
    #[test]
    fn no_command_line_panics(words in prop::collection::vec(word(), 0..8), stdin in any::<Vec<u8>>()) {
        // A demo of any length would make the test sleep.
        prop_assume!(!words.iter().any(|word| word == "demo"));
        // Nor does it run commands, or follow events for ever, or find a store.
        prop_assume!(!words.iter().any(|word| ["run", "work", "--follow", "-f"].contains(&word.as_str())));
        let ran = redrive(words).env("REDRIVE_STORE", "sqlite:/dev/null/none.db").stdin(stdin).run();
        prop_assert!(ran.code <= 4, "{ran}");
    }

    /// Bad input: no line makes the stream end early; every line gets an answer.
    #[test]
    fn every_line_is_answered(lines in prop::collection::vec("[^\n]{0,60}", 0..20)) {
        let mut asked = lines.join("\n");
        if !lines.is_empty() {
            asked.push('\n');
        }
        let ran = line("classify --jsonl").stdin(asked).run();
        prop_assert_eq!(ran.stdout.lines().count(), lines.len());
    }
}

/// Bad input: an argument that is no UTF-8 is an error or read lossily, never a panic.
#[cfg(unix)]
#[test]
fn arguments_need_not_be_utf8() {
    use std::os::unix::ffi::OsStringExt;
    let bytes = || OsString::from_vec(vec![b'a', 0xff, b'b']);
    assert_eq!(redrive(["classify".into(), bytes()]).run().code, 0);
    assert_eq!(redrive(["policy".into(), "show".into(), bytes()]).run().code, 2);
    assert_eq!(redrive([bytes()]).run().code, 2);
}
