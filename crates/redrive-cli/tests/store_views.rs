//! What people see of a store: status, dead letters, stories and events, rich, plain and as JSON, in both languages.
//!
//! The store has a past that never changes, the clock stands still, and the width is 80.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use support::stored::{Seeded, seeded};
use support::{line, timeless};

/// The forms that every view has.
const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// One snapshot with all forms of a command.
fn check(name: &str, command: &str, store: &Seeded) {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let ran = line(&format!("{command} {flags} {}", store.flags())).run();
        page.push_str(&format!("===== {form}: redrive {command} {flags}\n{ran}\n"));
    }
    insta::assert_snapshot!(name, timeless(&store.anonymous(&page)));
}

/// R-C2, R-D5: how things stand, and the letters.
#[test]
fn status_and_letters_in_every_form() {
    let store = seeded();
    check("status", "status", &store);
    check("dlq_list", "dlq", &store);
    check("dlq_list_verbose", "dlq list -v --limit 1", &store);
    check("dlq_list_none", "dlq list --cause timeout", &store);
    check("dlq_show_exhausted", "dlq show job_1", &store);
    check("dlq_show_refused", "dlq show 2 --with-payload -v", &store);
}

/// R-C2, R-E2: the whole story, whatever became of the job.
#[test]
fn stories_in_every_form() {
    let store = seeded();
    check("explain_dead", "explain job_1", &store);
    check("explain_done", "explain job_3", &store);
    check("explain_scheduled", "explain job_4", &store);
    check("explain_retrying", "explain 5", &store);
}

/// R-C2, R-E3: events, the newest last, and those that were asked for.
#[test]
fn events_in_every_form() {
    let store = seeded();
    check("events", "events", &store);
    check("events_filtered", "events --status failed --status dead_letter --since 5m", &store);
}

/// R-C2: what was put back, and what was not.
#[test]
fn redriving_in_every_form() {
    let mut page = String::new();
    for (form, flags) in FORMS {
        for command in
            ["redrive job_1 3 99", "redrive --all --yes", "retry job_5", "retry job_1 --yes", "store check"]
        {
            let store = seeded();
            let ran = line(&format!("{command} {flags} {}", store.flags())).run();
            page.push_str(&store.anonymous(&format!("===== {form}: redrive {command} {flags}\n{ran}\n")));
        }
    }
    insta::assert_snapshot!("redriving", page);
}

/// R-C2: a store that is not there yet is no trouble for those who only look around.
#[test]
fn a_store_that_is_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    let mut page = String::new();
    for command in [
        "status",
        "dlq",
        "events",
        "explain job_1",
        "dlq show 1",
        "retry 1",
        "redrive --all --yes",
        "store check",
    ] {
        for lang in ["en", "ja"] {
            let command = format!("{command} --lang {lang}");
            let ran = line(&format!("{command} --store sqlite:none.db")).in_directory(folder.path()).run();
            page.push_str(&format!("===== redrive {command}\n{ran}\n"));
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "looking makes nothing");
    insta::assert_snapshot!("no_store", page.replace(&folder.path().display().to_string(), "[DIR]"));
}

/// R-C2: whoever types `redrive` for the first time is told in three lines where to begin, and nothing is made.
#[test]
fn the_first_time_three_lines_say_where_to_begin() {
    let folder = tempfile::tempdir().unwrap();
    for lang in ["en", "ja"] {
        let ran = line(&format!("--lang {lang} --store sqlite:none.db")).in_directory(folder.path()).run();
        assert_eq!((ran.code, ran.stdout.lines().count(), ran.stderr.as_str()), (0, 3, ""), "{ran}");
        assert!(ran.stdout.contains("redrive run -- "), "{ran}");
    }
    let ran = line("--json --store sqlite:none.db").in_directory(folder.path()).run();
    let status: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &status["schema"]), (0, &"redrive/status.v1".into()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "looking makes nothing");
}

/// R-C2: with a store, `redrive` alone is the status.
#[test]
fn redrive_alone_is_the_status() {
    let store = seeded();
    for (_, flags) in FORMS {
        let alone = line(&format!("{flags} {}", store.flags())).run();
        assert_eq!(alone, line(&format!("status {flags} {}", store.flags())).run());
    }
}

/// R-C2: times are said as such when that is asked for, in every form.
#[test]
fn absolute_times_are_in_utc() {
    let store = seeded();
    for command in ["status", "dlq", "dlq show 1"] {
        for form in ["--plain", "--color never"] {
            let ran = line(&format!("{command} {form} --absolute {}", store.flags())).on_a_terminal().run();
            assert!(ran.stdout.contains("2015-10-21 07:2") && !ran.stdout.contains(" ago"), "{ran}");
        }
    }
}

/// R-C2: any width is drawn on, and kept to.
#[test]
fn any_width_is_kept_to() {
    let store = seeded();
    for width in [40, 64, 80, 120, 160] {
        for command in
            ["status", "dlq", "dlq -v", "dlq show 1", "explain 1", "explain 5", "events", "store check"]
        {
            for lang in ["en", "ja"] {
                let ran = line(&format!("{command} --color never --lang {lang} {}", store.flags()))
                    .on_a_terminal()
                    .env("REDRIVE_WIDTH", &width.to_string())
                    .run();
                assert_eq!(ran.code, 0, "{ran}");
                let widest = ran.stdout.lines().map(unicode_width::UnicodeWidthStr::width).max().unwrap();
                // An event keeps at least 16 columns for what it says, however narrow the terminal.
                let limit = if command == "events" { width.max(64) } else { width };
                assert!(widest <= limit, "{command}, {lang}: {widest} > {limit}\n{}", ran.stdout);
            }
        }
    }
}

/// R-C2: what came from outside cannot act on the terminal.
#[test]
fn control_characters_are_written_out() {
    let store = seeded();
    for command in ["dlq", "dlq show 1", "explain 1", "events", "status"] {
        for form in ["--plain", "--json", "--color never"] {
            for verbose in ["", "-v"] {
                let ran =
                    line(&format!("{command} {form} {verbose} {}", store.flags())).on_a_terminal().run();
                assert!(!ran.stdout.contains(['\u{1b}', '\u{202e}']), "{command} {form}: {:?}", ran.stdout);
            }
        }
    }
}
