//! What people see of the outbox: rich, plain and as JSON, in both languages (R-C2, R-I7).
//!
//! The store has a past that never changes, the clock stands still, and the width is 80.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, ManualClock};
use redrive_idempotency::client::Key;
use redrive_idempotency::outbox::{Call, Outbox};
use redrive_store::{NextSend, SendEnd, Sqlite, SqliteOptions, Store};
use serde_json::json;
use support::line;
use support::stored::{Seeded, at};

/// The forms that every view has.
const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

/// Nobody listens there.
const API: &str = "http://127.0.0.1:9";

/// One was sent, one has failed, one waits for its time, and one for those before it.
fn seeded() -> Seeded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("redrive.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap());
        let clock = Arc::new(ManualClock::at(at(0)));
        let engine = Engine::builder(Arc::clone(&store)).clock(Arc::clone(&clock) as _).build().unwrap();
        let outbox = Outbox::new(&engine).unwrap();
        let bookmark = |url: &str| Call::post(format!("{API}/v1/bookmarks")).json(&json!({"url": url}));
        let secret = bookmark("https://example.com/ブログ")
            .header("Authorization", "Bearer hunter2")
            .header("X-Note", "赤い");
        outbox.add(bookmark("https://example.com/")).await.unwrap();
        let refused = Call::post(format!("{API}/v1/bookmarks?token=hunter2")).body("not JSON");
        outbox.add(refused.key(Key::given("order-7").unwrap())).await.unwrap();
        clock.advance(Duration::from_mins(1));
        outbox.save("draft-7", secret).await.unwrap();
        outbox.add(bookmark("https://example.com/last")).await.unwrap();
        let lane = API.to_owned();
        assert!(store.hold_lane(at(60), lane.clone(), 1, Duration::from_secs(30)).await.unwrap());
        for (end, said, status) in [
            (SendEnd::Sent, None, 201),
            (SendEnd::Failed, Some("HTTP 422: \u{1b}[2Jno such place: ここではない"), 422),
            (SendEnd::Again(at(600)), Some("HTTP 503: come back later"), 503),
        ] {
            let begun = store.begin_send(at(61), lane.clone(), 1).await.unwrap();
            let NextSend::Item(item) = begun else { panic!("{begun:?}") };
            let said = said.map(ToOwned::to_owned);
            assert!(store.end_send(at(62), item.id, 1, end, said, Some(status)).await.unwrap());
        }
        store.leave_lane(lane, 1).await.unwrap();
        store.close().await.unwrap();
    });
    Seeded { folder, path }
}

/// The ids of the four, in their order.
fn ids(store: &Seeded) -> Vec<String> {
    let ran = line(&format!("outbox list --json {}", store.flags())).run();
    let page: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

/// What a saved item was given by chance, and what the clock of a real send says.
fn steady(text: &str, store: &Seeded) -> String {
    let ran = line(&format!("outbox list --json {}", store.flags())).run();
    let page: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let saved = page["items"].as_array().unwrap().iter().find(|item| item["save"] == "draft-7");
    let text = store.anonymous(text);
    match saved {
        Some(item) => text.replace(item["key"].as_str().unwrap(), "00000000-0000-4000-8000-000000000000"),
        None => text,
    }
}

/// One snapshot with all forms of some commands, each form on a store of its own. `{n}` is the id of the n-th item.
fn check(name: &str, commands: &[&str]) {
    let mut page = String::new();
    for (form, flags) in FORMS {
        let store = seeded();
        let ids = ids(&store);
        for command in commands {
            let mut command = (*command).to_owned();
            for (n, id) in ids.iter().enumerate() {
                command = command.replace(&format!("{{{}}}", n + 1), id);
            }
            let ran = line(&format!("{command} {flags} {}", store.flags())).run();
            let ran = format!("===== {form}: redrive {command} {flags}\n{ran}\n");
            assert!(!ran.contains("hunter2"), "{ran}");
            page.push_str(&steady(&ran, &store));
        }
    }
    insta::assert_snapshot!(name, page);
}

/// R-C2, R-I7: the list, parts of it, and a page of it.
#[test]
fn lists_in_every_form() {
    check(
        "outbox_list",
        &[
            "outbox",
            "outbox list --state failed --absolute",
            "outbox list --limit 1",
            "outbox list --lane no",
        ],
    );
}

/// R-C2, R-D7: items one by one, without what is secret in them.
#[test]
fn items_in_every_form() {
    check("outbox_show", &["outbox show {1}", "outbox show {2} --with-payload", "outbox show {3}"]);
}

/// R-C2, R-I7: putting back, taking out, adding what is there, and a flush that reaches nobody.
#[test]
fn changes_in_every_form() {
    check(
        "outbox_change",
        &[
            "outbox retry {2} {1}",
            "outbox retry --all",
            "outbox discard {3} {4} --yes",
            "outbox add --key order-7 --data other http://127.0.0.1:9/v1/bookmarks",
            "outbox flush",
            "outbox discard {2}",
            "outbox discard {2} --yes",
            "outbox flush",
            "outbox show {2}",
        ],
    );
}

/// R-C1, R-I7: the one screen says that calls have failed and which command lists them, and JSON counts them.
#[test]
fn failed_calls_are_on_the_one_screen() {
    check("status_with_outbox", &["status"]);
    let store = seeded();
    let run = |command: &str| line(&format!("{command} {}", store.flags())).run();
    assert_eq!(run("outbox retry --all").code, 0);
    let after = run("status --plain");
    assert!(after.stdout.contains("All is well") && !after.stdout.contains("outbox"), "{after}");
    assert!(run("status --json").stdout.contains("\"outbox_failed\":0"));
}

/// R-C1: what could not be put back or taken out is an error, on stderr, in every form; JSON names it as well.
#[test]
fn what_is_not_there_is_an_error() {
    let store = seeded();
    for verb in ["retry", "discard --yes"] {
        for (flags, out) in [("--plain", ""), ("--color always", ""), ("--json", "outbox-999")] {
            for (lang, said) in [("en", "outbox-999"), ("ja", "存在しません")] {
                let ran = line(&format!("outbox {verb} 999 {flags} --lang {lang} {}", store.flags())).run();
                assert_eq!(ran.code, 3, "{ran}");
                assert!(ran.stderr.contains("error") && ran.stderr.contains(said), "{ran}");
                assert!(ran.stdout.contains(out) && ran.stdout.is_empty() == out.is_empty(), "{ran}");
            }
        }
    }
}
