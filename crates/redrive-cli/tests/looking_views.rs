//! What the looking commands show: rich at 80 and 160 columns, plain and JSON, in both languages; and what they say about
//! filters that cannot be read (R-C1, R-C2, R-T9).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use support::stored::{Seeded, seeded};
use support::{line, redrive, timeless};

/// The forms that every view has, and the width of the terminal.
const FORMS: [(&str, &str, &str); 7] = [
    ("rich_en", "80", "--color always"),
    ("rich_ja", "80", "--color always --lang ja"),
    ("wide_en", "160", "--color always"),
    ("wide_ja", "160", "--color always --lang ja"),
    ("plain_en", "80", "--plain"),
    ("plain_ja", "80", "--plain --lang ja"),
    ("json", "80", "--json"),
];

/// One snapshot with all forms of a command.
fn check(name: &str, command: &str, store: &Seeded) {
    let mut page = String::new();
    for (form, width, flags) in FORMS {
        let ran = line(&format!("{command} {flags} {}", store.flags())).env("REDRIVE_WIDTH", width).run();
        page.push_str(&format!("===== {form}: redrive {command} {flags}\n{ran}\n"));
    }
    insta::assert_snapshot!(name, timeless(&store.anonymous(&page)));
}

/// R-C1, R-C2: what failed, what may heal, and everything about one thing.
#[test]
fn failures_and_details_in_every_form() {
    let store = seeded();
    check("failed", "failed", &store);
    check("failed_none", "failed --where source=nobody", &store);
    check("retry_candidates", "retry-candidates", &store);
    check("retry_candidates_none", "retry-candidates --where queue=nobody", &store);
    check("detail_event", "detail EVT-20151021-072755", &store);
    check("detail_letter", "detail job_2", &store);
    check("detail_retrying", "detail 5", &store);
    check("ambiguous", "detail EVT-20151021-0727", &store);
    check("purge_dry_run", "purge --older-than 5m --dry-run", &store);
}

/// R-T9: a trace, whole, its last iteration, and raw.
#[test]
fn traces_in_every_form() {
    let store = seeded();
    check("trace", "trace job_1", &store);
    check("trace_latest", "trace 1 --latest", &store);
    check("trace_raw", "trace job_1 --raw", &store);
    check("trace_empty", "trace job_3", &store);
}

/// Bad input: each filter that cannot be read, with a mark under the place, in both languages.
#[test]
fn filters_that_cannot_be_read_are_pointed_at() {
    let store = seeded();
    let mut page = String::new();
    for (command, filter) in [
        ("dlq", "cuase=network"),
        ("dlq", "queue=mail kind=x"),
        ("dlq", "(queue=mail or error~timeout"),
        ("dlq", "error~\"接続\" and 原因=network"),
        ("dlq", "cause=netwrok"),
        ("dlq", "age>soon"),
        ("dlq", "died>yesterday"),
        ("dlq", "queue>mail"),
        ("dlq", "error~\"(\""),
        ("dlq", "error=\"never closed"),
        ("dlq", ""),
        ("dlq list", "id=seventeen"),
        ("retry-candidates", "retries=many"),
        ("failed", "retryable=true"),
        ("events", "status=dead"),
        ("events", "tag in batch"),
        ("export", "source in (a b)"),
        ("redrive", "queue=="),
    ] {
        for lang in ["en", "ja"] {
            let words = command.split(' ').chain(["--where", filter, "--lang", lang, "--store"]);
            let ran = redrive(words.chain([store.path.to_str().unwrap()])).run();
            assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{command} --where {filter}: {ran}");
            page.push_str(&format!("===== redrive {command} --where '{filter}'\n{}\n", ran.stderr));
        }
    }
    insta::assert_snapshot!("bad_filters", page);
}

/// Bad input: a long filter is shown where it is wrong, within the terminal; a password in it is not.
#[test]
fn a_long_filter_fits_and_a_secret_stays_one() {
    let store = seeded();
    let flags = store.path.to_str().unwrap();
    let long = format!(
        "{} and qeue=x and {}",
        vec!["queue=mail"; 40].join(" and "),
        vec!["kind=x"; 40].join(" and ")
    );
    let ran = redrive(["dlq", "--where", &long, "--store", flags]).on_a_terminal().run();
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines.len() == 4 && lines[1].len() <= 90 && lines[1].contains("qeue"), "{ran}");
    let place = lines[1].chars().take_while(|c| *c != 'q' || !lines[1].contains("qeue")).count();
    assert!(lines[2].trim_start().starts_with("^^^^") && place > 0, "{ran}");
    let at = lines[1].chars().collect::<Vec<_>>().windows(4).position(|part| part == ['q', 'e', 'u', 'e']);
    assert_eq!(lines[2].chars().position(|c| c == '^'), at, "{ran}");
    let ran = redrive(["dlq", "--where", "postgres://ada:hunter2@db/x", "--store", flags]).run();
    assert!(ran.code == 2 && !ran.stderr.contains("hunter2"), "{ran}");
}

/// R-C1: missing, newer and damaged stores, and commands that must ask a program that reads JSON.
#[test]
fn stores_that_cannot_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("garbage.db"), vec![b'x'; 4096]).unwrap();
    let newer = seeded();
    let mut bytes = std::fs::read(&newer.path).unwrap();
    bytes[60..64].copy_from_slice(&9_999_u32.to_be_bytes());
    std::fs::write(&newer.path, bytes).unwrap();
    let garbage = folder.path().join("garbage.db").display().to_string();
    let newer = newer.path.display().to_string();
    for command in
        ["failed", "retry-candidates", "detail 1", "trace 1", "purge --yes", "export --report -", "export"]
    {
        for lang in ["en", "ja"] {
            for (store, words) in [(&garbage, "garbage.db"), (&newer, "redrive")] {
                let ran = line(&format!("{command} --lang {lang} --store sqlite:{store}")).run();
                assert_eq!((ran.code, ran.stdout.as_str()), (1, ""), "{command}: {ran}");
                assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("\nhint: "), "{ran}");
                assert!(ran.stderr.contains(words), "{command}: {ran}");
            }
            let ran = line(&format!("{command} --lang {lang} --store sqlite:none.db"))
                .in_directory(folder.path())
                .run();
            // Those that list things say that there is no store yet; the others have nothing to show.
            let code = if ["failed", "retry-candidates"].contains(&command) { 0 } else { 3 };
            assert_eq!(ran.code, code, "{command}: {ran}");
            assert!(ran.stderr.contains("none.db"), "{command}: {ran}");
        }
    }
    assert!(!folder.path().join("none.db").exists(), "looking makes nothing");
    let store = seeded();
    for command in ["purge --older-than 1s", "retry 2", "redrive --all"] {
        let ran = line(&format!("{command} --json {}", store.flags())).on_a_terminal().run();
        assert!(ran.code == 2 && ran.stderr.contains("--yes"), "{command}: {ran}");
        assert_eq!(ran.stdout, "", "{command}");
    }
    assert!(support::stored::is_sound(&store.path));
}
