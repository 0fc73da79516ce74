//! What people see of groups, edits, discards, queues and numbers: rich, plain and as JSON, in both languages.
//!
//! The store has a past that never changes, the clock stands still, and the width is 80.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use support::line;
use support::stored::{Seeded, seeded};

/// The forms that every view has.
const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// One snapshot with all forms of a command, and the rich one as wide as it gets.
fn check(name: &str, command: &str, store: &Seeded) {
    let mut page = String::new();
    let forms = FORMS.map(|(form, flags)| (form, flags, "80"));
    for (form, flags, width) in forms.into_iter().chain([("rich_wide", "--color always", "160")]) {
        let ran = line(&format!("{command} {flags} {}", store.flags())).env("REDRIVE_WIDTH", width).run();
        page.push_str(&format!("===== {form}: redrive {command} {flags}\n{ran}\n"));
    }
    insta::assert_snapshot!(name, support::timeless(&store.anonymous(&page)));
}

/// One snapshot with all forms of a command that changes something, each on a store of its own.
fn check_change(name: &str, commands: &[&str]) {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let store = seeded();
        for command in commands {
            let ran = line(&format!("{command} {flags} {}", store.flags())).env("USER", "ada").run();
            let ran = format!("===== {form}: redrive {command} {flags}\n{ran}\n");
            page.push_str(&unmoved(&store.anonymous(&ran)));
        }
    }
    insta::assert_snapshot!(name, support::timeless(&page));
}

/// What is written now by the real clock stands so long ago that the test's clock calls it nought.
fn unmoved(text: &str) -> String {
    let year = |line: &str| line.contains("\"replaced_at\"") || line.contains("\"state_since\":\"20");
    text.lines().map(|line| if year(line) { masked(line) } else { line.to_owned() } + "\n").collect()
}

/// The line with every time of this century's third decade or later blanked.
fn masked(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("\"20") {
        let value = &rest[at + 1..];
        let end = value.find('"').unwrap_or(value.len());
        let is_now = value[..end].ends_with('Z') && !value.starts_with("2015");
        out.push_str(&rest[..=at]);
        out.push_str(if is_now { "[NOW]" } else { &value[..end] });
        rest = &value[end..];
    }
    out + rest
}

/// R-C2, R-D10: groups, all of them and one with its letters.
#[test]
fn groups_in_every_form() {
    let store = seeded();
    check("groups", "dlq groups", &store);
    check("groups_verbose", "dlq groups -v --absolute --limit 1", &store);
    check("groups_none", "dlq groups --state acknowledged", &store);
    let groups = line(&format!("dlq groups --json {}", store.flags())).run();
    let groups: serde_json::Value = serde_json::from_str(&groups.stdout).unwrap();
    let network =
        groups["items"].as_array().unwrap().iter().find(|item| item["cause"] == "auth_error").unwrap();
    let fingerprint = network["fingerprint"].as_str().unwrap();
    check("group_show", &format!("dlq show --group {}", &fingerprint[..6]), &store);
}

/// R-C2, R-D8: an edit shows what it changes before it changes it, and what it has changed.
#[test]
fn edits_in_every_form() {
    check_change(
        "edit",
        &[
            "dlq edit job_1 --set argv[1]=日本 --set umask=0077 --dry-run",
            "dlq edit job_1 --set argv[1]=--quick --yes",
            "dlq edit job_1 --set argv[1]=--quick --yes",
            "dlq show job_1 --versions",
            "dlq show job_1 --versions --with-payload",
            "dlq show job_2 --versions",
            "dlq edit job_1 --set argv[2]=now --yes --redrive",
        ],
    );
}

/// R-C2, R-D6: what would go for good, and what went.
#[test]
fn discards_in_every_form() {
    check_change(
        "discard",
        &[
            "dlq discard job_2 job_99 --dry-run",
            "dlq discard job_2 job_99 --yes",
            "dlq purge --older-than 1m --dry-run",
            "dlq purge --older-than 1m --yes",
            "dlq purge --older-than 1m --yes",
        ],
    );
}

/// R-C2: queues, and stopping one.
#[test]
fn queues_in_every_form() {
    let store = seeded();
    check("queue_list", "queue list", &store);
    check_change(
        "queue_pause",
        &[
            "queue pause billing --why outage",
            "queue pause billing",
            "queue resume billing",
            "queue resume billing",
        ],
    );
}

/// R-C4: numbers of a past that never changes, and of nothing.
#[test]
fn numbers_in_every_form() {
    let store = seeded();
    check("metrics", "metrics --since 2h", &store);
    check("metrics_queue", "metrics --since 1h --queue billing", &store);
    check("metrics_nothing", "metrics --since 1h --queue nowhere", &store);
    let ran = line(&format!("prometheus {}", store.flags())).run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    insta::assert_snapshot!("prometheus", ran.stdout);
}

/// R-C2, bad input: what is wrong, in both languages, with the exit code that says so.
#[test]
fn what_goes_wrong_in_both_languages() {
    let store = seeded();
    let mut page = String::new();
    for command in [
        "dlq ack ffff",
        "dlq resolve zz",
        "dlq show --group ffff",
        "dlq groups --state opne",
        "dlq edit job_99 --set a=1 --yes",
        "dlq edit job_3 --set a=1 --yes",
        "dlq edit job_1 --set a",
        "dlq edit job_1 --set a..b=1 --yes",
        "dlq edit job_1 --set argv[7]=1 --yes",
        "dlq edit job_1 --set argv.x=1 --yes",
        "dlq edit job_1 --unset nothing --yes",
        "dlq edit job_1 --set argv=1 --yes",
        "dlq edit job_2 --set url=ftp://x --yes",
        "dlq edit job_1 --payload { --yes",
        "dlq edit job_1 --payload-file nowhere.json --yes",
        "dlq edit job_1 --set a=1",
        "dlq edit job_1 --set a=1 --json",
        "dlq discard job_1 --json",
        "dlq discard job_99 --yes",
        "dlq discard --where cause=timeout --yes",
        "dlq discard",
        "dlq purge",
        "dlq import nowhere.jsonl",
        "queue resume nowhere",
        "metrics --since yesterday",
    ] {
        for lang in ["en", "ja"] {
            let ran = line(&format!("{command} --lang {lang} {}", store.flags())).run();
            page.push_str(&format!("===== redrive {command} --lang {lang}\n{ran}\n"));
        }
    }
    insta::assert_snapshot!("operate_trouble", store.anonymous(&page));
}

/// R-C2: a store that is not there yet is no trouble for those who only look around.
#[test]
fn a_store_that_is_not_there_yet() {
    let folder = tempfile::tempdir().unwrap();
    for (command, code) in [
        ("dlq groups", 0),
        ("queue", 0),
        ("metrics", 0),
        ("prometheus", 3),
        ("dlq ack abcdef", 3),
        ("dlq edit job_1 --set a=1 --yes", 3),
        ("dlq discard job_1 --yes", 3),
        ("dlq export", 3),
    ] {
        let ran = line(&format!("{command} --store sqlite:{}/none.db", folder.path().display())).run();
        assert_eq!(ran.code, code, "{command}: {ran}");
        assert!(ran.stderr.contains("none.db"), "{command}: {ran}");
    }
    assert!(!folder.path().join("none.db").exists());
}

/// R-D6, R-D8: a person is shown what would happen and asked; anything but yes changes nothing.
#[test]
fn a_person_is_asked_first() {
    for (command, shows) in [
        ("dlq discard job_1", "temporarily unavailable"),
        ("dlq purge --older-than 1m", "temporarily unavailable"),
        ("dlq edit job_1 --set argv[1]=--quick", "+    \"--quick\""),
    ] {
        let store = seeded();
        let before = line(&format!("dlq --json --with-payload {}", store.flags())).run().stdout;
        for answer in ["n\n", "", "\n", "yess\n"] {
            let ran = line(&format!("{command} {}", store.flags())).on_a_terminal().stdin(answer).run();
            assert_eq!(ran.code, 0, "{command} {answer:?}: {ran}");
            assert!(ran.stderr.contains(shows) && ran.stderr.contains("nothing was changed"), "{ran}");
            assert_eq!(ran.stdout, "", "{command} {answer:?}");
        }
        assert_eq!(line(&format!("dlq --json --with-payload {}", store.flags())).run().stdout, before);
        let ran = line(&format!("{command} {}", store.flags())).on_a_terminal().stdin("y\n").run();
        assert_eq!(ran.code, 0, "{command}: {ran}");
        assert_ne!(
            line(&format!("dlq --json --with-payload {}", store.flags())).run().stdout,
            before,
            "{command}"
        );
    }
}

/// R-D8: at a terminal, what cannot be read is edited again, and what was typed before is still there.
#[test]
fn a_person_may_edit_again() {
    let store = seeded();
    let folder = store.folder.path();
    // The first time it breaks the JSON, the second time it mends what it finds.
    let script = "if grep -q broken \"$1\"; then echo '{\"argv\":[\"mended\"]}' > \"$1\"; else echo '{broken' > \"$1\"; fi\n";
    std::fs::write(folder.join("editor.sh"), script).unwrap();
    let edit = |answers: &str| {
        line(&format!("dlq edit job_1 {}", store.flags()))
            .env("EDITOR", &format!("sh '{}'", folder.join("editor.sh").display()))
            .env("TMPDIR", &folder.display().to_string())
            .on_a_terminal()
            .stdin(answers)
            .run()
    };
    let kept = || {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_string_lossy().starts_with("redrive-edit-")).count()
    };
    let ran = edit("n\n");
    assert!(ran.code == 1 && ran.stderr.contains("job_1.json") && kept() == 1, "{ran}");
    let ran = edit("y\ny\n");
    assert!(ran.code == 0 && ran.stderr.contains("Edit again?") && kept() == 1, "{ran}");
    assert_eq!(support::stored::payload(&store.path, 1), "{\"argv\":[\"mended\"]}");
    assert!(support::stored::is_sound(&store.path));
}
