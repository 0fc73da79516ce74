//! R-C2: help topics in every form: drawn on a terminal, words in a pipe, Markdown in JSON.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod support;

use support::line;
use unicode_width::UnicodeWidthStr;

const TOPICS: [&str; 12] = [
    "runbook",
    "redrive",
    "canary",
    "groups",
    "tasks",
    "snapshots",
    "server",
    "filter",
    "policies",
    "store",
    "output",
    "exit-codes",
];

/// R-C2: every topic is there in both languages and every form, and fits the terminal.
#[test]
fn every_topic_is_there_in_every_form() {
    for topic in TOPICS {
        for lang in ["en", "ja"] {
            for width in [64, 80, 160] {
                let ran = line(&format!("help {topic} --lang {lang} --color never"))
                    .on_a_terminal()
                    .env("REDRIVE_WIDTH", &width.to_string())
                    .run();
                assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran}");
                // What can be copied is not broken.
                let prose = ran.stdout.lines().filter(|line| !line.starts_with("    "));
                let widest = prose.clone().map(UnicodeWidthStr::width).max().unwrap();
                assert!(widest <= width, "{topic} {lang} {width}: {widest}\n{}", ran.stdout);
                assert!(!ran.stdout.contains("**"), "{topic} {lang}");
            }
            let plain = line(&format!("help {topic} --lang {lang} --plain")).run();
            assert!(plain.code == 0 && !plain.stdout.contains(['\u{1b}', '╭']), "{plain}");
            let ran = line(&format!("help {topic} --lang {lang} --json")).run();
            let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!((&json["schema"], &json["topic"]), (&"redrive/help.v1".into(), &topic.into()));
            assert!(json["markdown"].as_str().unwrap().starts_with("# "));
        }
    }
}

/// R-C2: a topic that is a command's name too comes after the command's usage, and `help` lists all of them.
#[test]
fn commands_come_before_their_topics() {
    let ran = line("help redrive").run();
    let usage = ran.stdout.find("Usage: redrive redrive").unwrap();
    assert!(usage < ran.stdout.find("Redriving dead letters").unwrap(), "{ran}");
    let list = line("help").run().stdout;
    for topic in TOPICS {
        assert!(list.contains(&format!("\n  {topic} ")), "{list}");
    }
    let wrong = line("help canari").run();
    assert!(wrong.code == 2 && wrong.stderr.contains("canary"), "{wrong}");
}

/// R-C2: one topic in all forms, as it is seen.
#[test]
fn a_topic_as_it_is_seen() {
    let mut page = String::new();
    for flags in ["--color always", "--color always --lang ja", "--plain", "--plain --lang ja"] {
        page.push_str(&format!("===== {flags}\n{}\n", line(&format!("help canary {flags}")).run()));
    }
    insta::assert_snapshot!("topic_canary", page);
}
