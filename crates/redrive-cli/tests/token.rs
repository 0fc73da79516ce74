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

/// Design.md §6: whoever makes the first token is told that it shuts the door, in both languages and beside JSON; nobody after it is.
#[test]
fn the_first_token_says_what_it_changes() {
    for (form, once, shut) in [
        (
            "--plain",
            "is not shown again",
            "from now on every request to a server on this store needs a token",
        ),
        ("--json", "is not shown again", "from now on every request to a server on this store needs a token"),
        ("--plain --lang ja", "再表示できません", "このマシンからのものも含めてトークンが必要です"),
    ] {
        let store = seeded();
        let flags = store.flags();
        let first = line(&format!("token create one --scope admin {form} {flags}")).run();
        assert!(first.stderr.contains(once) && first.stderr.contains(shut), "{form}: {first}");
        let second = line(&format!("token create two --scope read {form} {flags}")).run();
        assert!(second.stderr.contains(once) && !second.stderr.contains(shut), "{form}: {second}");
        let quiet = line(&format!("token create three --scope read -q {form} {flags}")).run();
        assert!(quiet.code == 0 && quiet.stderr.is_empty(), "{form}: {quiet}");
    }
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

/// R-D3, reliability (Security): what an operator does by hand is written down with who and why, before it is done.
#[test]
fn what_is_done_by_hand_is_written_down() {
    let store = seeded();
    let flags = store.flags();
    let letters = line(&format!("dlq export --with-payload {flags}")).run().stdout;
    std::fs::write(store.folder.path().join("letters.jsonl"), letters).unwrap();
    let groups = line(&format!("dlq groups --json {flags}")).run();
    let groups: serde_json::Value = serde_json::from_str(&groups.stdout).unwrap();
    let group = groups["items"][0]["fingerprint"].as_str().unwrap();
    for (number, (command, act)) in [
        ("queue pause mail", "queue.pause"),
        ("queue resume mail", "queue.resume"),
        ("targets limit queue:mail --concurrency 2", "queue.limit"),
        ("targets reset queue:mail", "target.reset"),
        (&format!("dlq ack {group}"), "group.acknowledged"),
        (&format!("dlq resolve {group}"), "group.resolved"),
        (&format!("dlq reopen {group}"), "group.open"),
        ("escalations ack job_1", "escalation.acknowledge"),
        ("dlq edit job_1 --payload {\"argv\":[\"true\"]} --yes", "letter.edit"),
        ("dlq edit job_1 --payload {\"argv\":[\"ls\"]} --yes --redrive", "letter.redrive"),
        ("redrive job_2", "letter.redrive"),
        ("retry job_3 --yes", "job.retry"),
        ("dlq import letters.jsonl", "letter.import"),
        ("schedule add @daily --name nightly --kind k --payload 1", "schedule.add"),
        ("schedule pause nightly", "schedule.pause"),
        ("schedule resume nightly", "schedule.resume"),
        ("schedule run nightly", "schedule.run"),
        ("schedule remove nightly", "schedule.remove"),
        ("push set crm --queue q --url http://localhost:9", "push.add"),
        ("push remove crm", "push.remove"),
        ("token create ops --scope read", "token.create"),
        ("alerts silence dlq_size", "alert.silence"),
    ]
    .into_iter()
    .enumerate()
    {
        let why = format!("reason-{number}.");
        let done = line(&format!("{command} --why {why} --plain {flags}"))
            .in_directory(store.folder.path())
            .env("USER", "ada")
            .run();
        // What is not there any more is told so, and written down as refused.
        assert!([0, 3].contains(&done.code), "{command}: {done}");
        let acts =
            line(&format!("events --type operator_act --type operator_refused --json {flags}")).run().stdout;
        let told = acts.lines().any(|event| {
            let event: serde_json::Value = serde_json::from_str(event).unwrap();
            let data = &event["data"];
            data["act"] == act && data["why"] == why.as_str() && data["who"] == "cli:ada"
        });
        assert!(told, "{command}: {done}\n{acts}");
    }
    for (command, act) in [
        ("purge --older-than 1ms", "letter.purge"),
        ("dlq purge --older-than 1ms", "letter.purge"),
        ("dlq discard job_1", "letter.discard"),
    ] {
        let store = seeded();
        let flags = store.flags();
        let done = line(&format!("{command} --yes --why spring --plain {flags}")).run();
        let acts = line(&format!("events --type operator_act --plain {flags}")).run().stdout;
        assert!(acts.contains(act) && acts.contains("spring"), "{command}: {done}\n{acts}");
    }
    // What only looks leaves nothing behind.
    let before = line(&format!("events --type operator_act --json {flags}")).run().stdout.lines().count();
    line(&format!("dlq purge --older-than 1ms --dry-run --plain {flags}")).run();
    line(&format!("queue list --plain {flags}")).run();
    let after = line(&format!("events --type operator_act --json {flags}")).run().stdout.lines().count();
    assert_eq!(before, after);
}
