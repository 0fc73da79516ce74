//! `store copy`: a store moves between a file and a database, in both languages, and no password is ever shown.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

use redrive_testing::Shared;

fn run(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_redrive"))
        .args(line.split(' '))
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", "/usr/bin:/bin"), ("LANG", "C"), ("REDRIVE_WIDTH", "200")])
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn database(shared: &Shared) -> String {
    let mark = if shared.url().contains('?') { '&' } else { '?' };
    format!("{}{mark}schema={}", shared.url(), shared.schema())
}

/// R-C1, R-D1: there and back, a dry run first; the old place says where the store went, in both languages.
#[test]
fn a_store_moves_there_and_back() {
    let Some(shared) = redrive_testing::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let there = database(shared);
    let secret = there.split_once("://").unwrap().1.split_once('@').unwrap().0.split_once(':').unwrap().1;
    let done = |line: &str| {
        let output = run(folder.path(), line);
        let words = said(&output);
        assert!(output.status.success(), "{line}: {words}");
        assert!(!words.contains(secret), "{words}");
        words
    };
    for kind in ["a", "b", "c"] {
        done(&format!("enqueue --store sqlite:a.db --kind {kind} --payload {{}}"));
    }
    let words = done(&format!("store copy --from sqlite:a.db --to {there} --dry-run"));
    assert!(
        words.contains("could be moved to postgres://") && words.contains("3 unfinished jobs"),
        "{words}"
    );
    done("enqueue --store sqlite:a.db --kind a --payload {}");
    let words = done(&format!("store copy --store sqlite:a.db --to {there}"));
    assert!(words.contains("Moved sqlite:") && words.contains("4 unfinished jobs"), "{words}");

    for (flag, words) in [("", "this store was moved to postgres://"), (" --lang ja", "へ移されました")]
    {
        let refused =
            run(folder.path(), &format!("enqueue --store sqlite:a.db --kind a --payload {{}}{flag}"));
        assert_eq!(refused.status.code(), Some(1));
        assert!(said(&refused).contains(words) && !said(&refused).contains(secret), "{}", said(&refused));
    }
    let words = done(&format!("store copy --from sqlite:a.db --to {there} --json"));
    assert!(words.contains("\"redrive/copied.v1\"") && words.contains("\"before\""), "{words}");

    done(&format!("enqueue --store {there} --kind a --payload {{}}"));
    let words = done(&format!("store copy --from {there} --to sqlite:b.db --lang ja"));
    assert!(words.contains("移しました") && words.contains("5 件"), "{words}");
    assert!(done("store check --store sqlite:b.db").contains("sound"));
    let refused = run(folder.path(), &format!("enqueue --store {there} --kind a --payload {{}}"));
    assert!(said(&refused).contains("this store was moved to sqlite:"), "{}", said(&refused));
}

/// R-C1: what cannot be moved is left as it is, and the message says what to do.
#[test]
fn what_cannot_be_moved_is_left_as_it_is() {
    let Some(shared) = redrive_testing::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let there = database(shared);
    let nothing = run(folder.path(), &format!("store copy --from sqlite:none.db --to {there}"));
    assert_eq!(nothing.status.code(), Some(3), "{}", said(&nothing));
    for store in ["sqlite:a.db", &there] {
        assert!(
            run(folder.path(), &format!("enqueue --store {store} --kind a --payload {{}}")).status.success()
        );
    }
    let mixed = run(folder.path(), &format!("store copy --from sqlite:a.db --to {there}"));
    assert_eq!(mixed.status.code(), Some(1));
    assert!(said(&mixed).contains("is not empty") && said(&mixed).contains("--to"), "{}", said(&mixed));
    let usage = run(folder.path(), "store copy --from sqlite:a.db --to mysql://h");
    assert_eq!(usage.status.code(), Some(2), "{}", said(&usage));
    assert!(run(folder.path(), "enqueue --store sqlite:a.db --kind a --payload {}").status.success());
}
