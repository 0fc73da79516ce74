//! `token create`, `token list`, `token revoke`, and the acts that they leave behind (design.md §6, R-D3).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use support::line;
use support::stored::seeded;

/// The text of a token that stands alone on stdout.
fn text_of(stdout: &str) -> String {
    let text = stdout.trim_end_matches('\n').to_owned();
    assert!(text.starts_with("rdv_") && text.len() == 4 + 10 + 1 + 43, "{stdout:?}");
    text
}

/// Design.md §6: the text of a token goes to stdout alone, once; no list, no event and no error repeats it.
#[test]
fn the_text_goes_to_stdout_alone_and_once() {
    let store = seeded();
    let flags = store.flags();
    let mut secrets = Vec::new();
    for form in ["--color always", "--plain", "--plain --lang ja"] {
        let made =
            line(&format!("token create shop --scope produce,read --queue shop-* {form} {flags}")).run();
        assert_eq!(made.code, 0, "{}", made.stderr);
        let text = text_of(&made.stdout);
        assert!(made.stderr.contains(&text[4..14]) && !made.stderr.contains(&text), "{}", made.stderr);
        secrets.push(text);
    }
    let made = line(&format!("token create ops --scope admin --expires 90d --json {flags}")).run();
    let json: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(
        (json["schema"].as_str(), json["holds"].as_bool()),
        (Some("redrive/token_created.v1"), Some(true))
    );
    secrets.push(json["token"].as_str().unwrap().to_owned());
    let id = json["id"].as_str().unwrap();
    for form in ["--color always", "--color always --lang ja", "--plain", "--plain --lang ja", "--json"] {
        for command in ["token list", "token", "events --type operator_act"] {
            let shown = line(&format!("{command} {form} {flags}")).run();
            assert_eq!(shown.code, 0, "{command} {form}: {}", shown.stderr);
            assert!(shown.stdout.contains(id), "{command} {form}: {}", shown.stdout);
            for secret in &secrets {
                assert!(!shown.stdout.contains(&secret[15..]), "{command} {form}: {}", shown.stdout);
            }
        }
    }
    let list = line(&format!("token list --plain {flags}")).run();
    assert!(list.stdout.contains("shop-*") && list.stdout.contains("produce"), "{}", list.stdout);
}

/// Design.md §6, R-D3: a revoked token stays in the list; who did it and why is told; one that nobody knows is said to be unknown.
#[test]
fn a_revoked_token_stays_in_the_list() {
    let store = seeded();
    let flags = store.flags();
    let made = line(&format!("token create laptop --scope work --plain {flags}")).run();
    let id = text_of(&made.stdout)[4..14].to_owned();
    let why = "--why=password=hunter2";
    let revoked = line(&format!("token revoke {id} {why} --plain {flags}")).run();
    assert_eq!(revoked.code, 0, "{}", revoked.stderr);
    let list = line(&format!("token list --json {flags}")).run();
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    assert_eq!(list["items"][0]["holds"], false);
    let acts = line(&format!("events --type operator_act --plain {flags}")).run().stdout;
    assert!(acts.contains("token.create") && acts.contains("token.revoke"), "{acts}");
    assert!(
        acts.contains("cli:") && acts.contains("password=[redacted]") && !acts.contains("hunter2"),
        "{acts}"
    );
    let unknown = line(&format!("token revoke nobody --plain {flags}")).run();
    assert_eq!(unknown.code, 3, "{}", unknown.stderr);
    assert!(unknown.stderr.contains("redrive token list"), "{}", unknown.stderr);
    for bad in ["token create a --scope root", "token create a", "token create a --scope read --queue a/b"] {
        let refused = line(&format!("{bad} --plain {flags}")).run();
        assert_ne!(refused.code, 0, "{bad}");
        assert_eq!(refused.stdout, "", "{bad}");
    }
}

/// R-D3: what an operator does by hand is written down with who, before it is done.
#[test]
fn what_is_done_by_hand_is_written_down() {
    let store = seeded();
    let flags = store.flags();
    for (command, act) in [
        ("queue pause mail --why outage", "queue.pause"),
        ("queue resume mail", "queue.resume"),
        ("redrive job_1", "letter.redrive"),
        ("dlq purge --older-than 1ms --yes", "letter.purge"),
    ] {
        let done = line(&format!("{command} --plain {flags}")).run();
        let acts = line(&format!("events --type operator_act --plain {flags}")).run().stdout;
        assert!(acts.contains(act), "{command} ({}): {}\n{acts}", done.code, done.stderr);
    }
    // What only looks leaves nothing behind.
    let before = line(&format!("events --type operator_act --json {flags}")).run().stdout.lines().count();
    line(&format!("dlq purge --older-than 1ms --dry-run --plain {flags}")).run();
    line(&format!("queue list --plain {flags}")).run();
    let after = line(&format!("events --type operator_act --json {flags}")).run().stdout.lines().count();
    assert_eq!(before, after);
}
