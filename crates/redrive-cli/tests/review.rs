//! R-T4, R-T5, R-T6: `redrive review`, as people and programs see it.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod support;

use std::fs;
use std::path::Path;

use support::{Ran, line};

const CUT: &str = "Here is the parser:\n\n```rust\nfn parse(text: &str) -> Token {\n    // TODO: errors\n    // ... rest of the code\n}\n```\n\nCreated `src/parse.rs`. Implementation complete.\n";
const WHOLE: &str = "The lease is read once now, and passed on.\n\n```rust\nfn is_over(&self, now: u64) -> bool {\n    self.until <= now\n}\n```\n";

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("cut.md"), CUT).unwrap();
    fs::write(dir.path().join("whole.md"), WHOLE).unwrap();
    fs::write(
        dir.path().join("half.py"),
        "def load(path):\n    with open(path) as file:\n        return json.load(",
    )
    .unwrap();
    dir
}

fn run(command: &str, dir: &Path) -> Ran {
    line(command).in_directory(dir).run()
}

/// R-T4: what passes and what does not, in every form and both languages.
#[test]
fn a_review_in_every_form() {
    let dir = folder();
    let mut page = String::new();
    for command in [
        "review whole.md cut.md half.py",
        "review cut.md --criteria q2 --allow TODO",
        "review cut.md --criteria Q3 --hint",
        "review cut.md --hint",
        "review whole.md --expect gone.txt",
        "review whole.md --test false",
    ] {
        for flags in ["--color never --lang en", "--plain --lang ja", "--json --lang en"] {
            let mut asked = line(&format!("{command} {flags}")).in_directory(dir.path());
            if flags.starts_with("--color") {
                asked = asked.on_a_terminal();
            }
            page.push_str(&format!("===== redrive {command} {flags}\n{}\n", asked.run()));
        }
    }
    insta::assert_snapshot!("review", page);
}

/// R-T4: scripts rely on the code: 0 all pass, 1 something is rejected, 2 the question is wrong.
#[test]
fn the_exit_code_is_the_verdict() {
    let dir = folder();
    for (command, code) in [
        ("review whole.md", 0),
        ("review whole.md cut.md", 1),
        ("review whole.md --test true", 0),
        ("review whole.md --lint false", 1),
        ("review gone.md", 1),
        ("review", 2),
        ("review whole.md --criteria Q7", 2),
        ("review whole.md --omission-pattern (", 2),
        ("review whole.md --omission-pattern lease", 1),
        ("review cut.md --criteria Q4", 0),
    ] {
        let ran = run(command, dir.path());
        assert_eq!(ran.code, code, "{command}\n{ran}");
    }
    let ran = line("review - --json").in_directory(dir.path()).stdin("Done.").run();
    assert_eq!(ran.code, 1, "{ran}");
    assert_eq!(line("review -").in_directory(dir.path()).stdin("The answer is 42.").run().code, 0);
}

/// R-T4: the configuration says what holds when the command line does not.
#[test]
fn the_configuration_is_the_ground() {
    let dir = folder();
    fs::write(dir.path().join("redrive.toml"), "[review]\ncriteria = [\"Q4\"]\ntodo_words = [\"lease\"]\n")
        .unwrap();
    assert_eq!(run("review cut.md", dir.path()).code, 0);
    assert_eq!(run("review cut.md --criteria Q3", dir.path()).code, 1);
    let ran = run("review whole.md --criteria Q2 --json", dir.path());
    assert!(ran.code == 1 && ran.stdout.contains("\"todo_left\""), "{ran}");
    fs::write(dir.path().join("redrive.toml"), "[review]\nallow = [\"(\"]\n").unwrap();
    let ran = run("review cut.md", dir.path());
    assert!(ran.code == 1 && ran.stderr.contains("review.allow[0]"), "{ran}");
}

/// Bad input: bytes, colours, secrets and a flood; the answer is bounded, clean and has no secret in it.
#[test]
fn nothing_bad_comes_out() {
    let dir = folder();
    let evil = b"\x1b[31m// TODO\x1b[0m password=hunter2 \xff\xfe\x07 \xe2\x80\xae".repeat(2_000);
    fs::write(dir.path().join("evil.txt"), evil).unwrap();
    for flags in ["", "--json", "--hint", "--plain --lang ja"] {
        let ran = run(&format!("review evil.txt {flags}"), dir.path());
        assert_eq!(ran.code, 1);
        assert!(!ran.stdout.contains("hunter2") && !ran.stdout.contains('\u{202e}'), "{ran}");
        assert!(
            !ran.stdout.contains('\x1b') && !ran.stdout.contains('\x07') && ran.stdout.len() < 16_384,
            "{ran}"
        );
    }
}
