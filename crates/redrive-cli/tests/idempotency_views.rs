//! What people see of idempotency keys: rich, plain and as JSON, in both languages; and what a reset does (R-I2, R-I4, R-C4).
//!
//! The store has a past that never changes, the clock stands still, and the width is 80.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::format_push_string)]

mod support;

use std::time::Duration;

use redrive_store::{
    Claimed, EventFilter, Events, Housekeeping, Idempotency, KeyClaim, KeyCounts, KeyHold, Sqlite,
    SqliteOptions, StoredResponse,
};
use support::line;
use support::stored::{Seeded, at};

const KEPT: Duration = Duration::from_hours(72);
const BOOKMARK: &str = "4f7d8a10-5e0f-4d2a-9d0b-6f1f8b2c3d4e";

/// The forms that every view has.
const FORMS: [(&str, &str); 5] = [
    ("rich_en", "--color always"),
    ("rich_ja", "--color always --lang ja"),
    ("plain_en", "--plain"),
    ("plain_ja", "--plain --lang ja"),
    ("json", "--json"),
];

fn waiting<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

async fn taken(store: &Sqlite, seconds: u64, key: &str, endpoint: &str) -> KeyHold {
    let claim = KeyClaim {
        principal: "b0b1".into(),
        key: key.into(),
        endpoint: endpoint.into(),
        request_hash: "9f86d081".into(),
        hold_for: Duration::from_hours(1),
        keep_for: KEPT,
        rerun: false,
        job: None,
    };
    match store.claim_key(at(seconds), claim).await.expect("a claim") {
        Claimed::Taken { hold, .. } => hold,
        other => panic!("not taken: {other:?}"),
    }
}

/// key-1 answered, key-2 of unknown outcome, key-3 in progress, key-4 answered with bytes that are no text.
fn keys() -> Seeded {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("redrive.db");
    waiting(async {
        let store = Sqlite::open(&path, SqliteOptions::default()).expect("a store");
        let first = taken(&store, 60, BOOKMARK, "POST /v1/bookmarks").await;
        let answer = StoredResponse {
            status: 201,
            headers: vec![
                ("content-type".into(), b"application/json".to_vec()),
                ("location".into(), b"/v1/bookmarks/7".to_vec()),
            ],
            body: Some(b"{\"id\":7,\n\"title\":\"\x1b[31mred\"}".to_vec()),
        };
        store.complete_key(at(61), first, answer, KEPT).await.expect("completed");
        let second = taken(&store, 120, "4f7d9999-5e0f-4d2a-9d0b-6f1f8b2c3d4e", "POST /v1/payments").await;
        taken(&store, 470, "nightly", "PATCH /v1/bookmarks/{id}").await;
        let fourth = taken(&store, 475, "image", "POST /v1/images").await;
        let answer = StoredResponse { status: 200, headers: Vec::new(), body: Some(vec![0xff, 0xfe]) };
        store.complete_key(at(476), fourth, answer, KEPT).await.expect("completed");
        // Last, since what nobody knows is an event, and events and records are counted together.
        let why = "the service did not answer in time".to_owned();
        store.give_up_key(at(150), second, why, KEPT).await.expect("given up");
        let counts = KeyCounts {
            guarded: 8,
            keyed: 6,
            taken: 4,
            replayed: 1,
            mismatched: 1,
            in_flight: 1,
            unknown: 2,
            released: 1,
        };
        store.count_keys(at(476), counts).await.expect("counted");
        store.close().await.expect("closed");
    });
    Seeded { folder, path }
}

fn check(name: &str, command: &str, store: &Seeded) {
    let mut page = String::new();
    let forms = FORMS.map(|(form, flags)| (form, flags, "80"));
    for (form, flags, width) in forms.into_iter().chain([("rich_wide", "--color always", "160")]) {
        let ran = line(&format!("{command} {flags} {}", store.flags())).env("REDRIVE_WIDTH", width).run();
        page.push_str(&format!("===== {form}: redrive {command} {flags}\n{ran}\n"));
    }
    insta::assert_snapshot!(name, store.anonymous(&page));
}

/// R-I2: the list, its pages, and one key in each state.
#[test]
fn keys_in_every_form() {
    let store = keys();
    check("keys", "idempotency", &store);
    check("keys_page", "idempotency list --limit 2", &store);
    check("key_completed", &format!("idempotency show {BOOKMARK}"), &store);
    check("key_unknown", "idempotency show key-2", &store);
    check("key_in_progress", "idempotency show night", &store);
    let run = |command: &str| line(&format!("{command} {}", store.flags())).run();
    let next = run("idempotency list --limit 2 --after key-3 --plain");
    assert!(next.stdout.contains("key-2") && next.stdout.contains("key-1"), "{next}");
    assert!(!next.stdout.contains("key-3") && !next.stdout.contains("--after"), "{next}");
    let only = run("idempotency --state unknown_outcome --plain");
    assert!(only.stdout.contains("key-2") && !only.stdout.contains("key-1"), "{only}");
    let by_key = run("idempotency list --key image --plain");
    assert!(by_key.stdout.contains("key-4") && !by_key.stdout.contains("key-1"), "{by_key}");
}

/// R-C1, R-I4: the one screen says that outcomes are unknown and which command tells more, and JSON counts them.
#[test]
fn unknown_outcomes_are_on_the_one_screen() {
    let store = keys();
    check("status_with_keys", "status", &store);
    let run = |command: &str| line(&format!("{command} {}", store.flags())).run();
    assert_eq!(run("idempotency reset key-2 --yes").code, 0);
    let after = run("status --plain");
    assert!(after.stdout.contains("All is well") && !after.stdout.contains("idempotency"), "{after}");
    assert!(run("status --json").stdout.contains("\"unknown_outcomes\":0"));
}

/// R-I4: a key whose event is no longer kept says so instead of why.
#[test]
fn a_reason_that_is_no_longer_kept() {
    let store = keys();
    waiting(async {
        let open = Sqlite::open(&store.path, SqliteOptions::default()).unwrap();
        open.prune(at(480), at(470), at(0), 1_000).await.unwrap();
        open.close().await.unwrap();
    });
    for (lang, said) in [("en", "its event is no longer kept"), ("ja", "イベントはすでに削除されています")]
    {
        let shown = line(&format!("idempotency show key-2 --lang {lang} {}", store.flags())).run();
        assert!(shown.stdout.contains(said), "{shown}");
    }
    let json = line(&format!("idempotency show key-2 --json {}", store.flags())).run();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(json["why"].is_null() && json["ended_at"].is_string(), "{json}");
}

/// R-I4: with `--yes` nobody sees what a beginning means, so it frees no key; without, the question names it.
#[test]
fn a_beginning_frees_no_key_unasked() {
    let store = keys();
    let run = |command: &str| line(&format!("{command} {}", store.flags())).run();
    let mut page = String::new();
    for lang in ["en", "ja"] {
        let refused = run(&format!("idempotency reset night --yes --lang {lang}"));
        assert_eq!(refused.code, 3, "{refused}");
        page.push_str(&format!("===== redrive idempotency reset night --yes --lang {lang}\n{refused}\n"));
    }
    insta::assert_snapshot!("key_reset_beginning", store.anonymous(&page));
    assert_eq!(run("idempotency show nightly").code, 0, "nothing was freed");
    let asked =
        line(&format!("idempotency reset night {}", store.flags())).on_a_terminal().stdin("y\n").run();
    assert_eq!(asked.code, 0, "{asked}");
    assert!(asked.stderr.contains("key-3") && asked.stderr.contains("nightly"), "{asked}");
    assert_eq!(run("idempotency show nightly").code, 3);
}

/// R-C1: an empty word names no key, and what would is said.
#[test]
fn an_empty_word_is_no_key() {
    for (lang, said) in [
        ("en", "a key, its beginning or an id such as key-12 is expected"),
        ("ja", "キー、キーの先頭の一部、または key-12 のような ID を指定してください"),
    ] {
        let ran = support::redrive(["idempotency", "show", "", "--lang", lang]).run();
        assert_eq!(ran.code, 2, "{ran}");
        assert!(ran.stderr.contains(said), "{ran}");
    }
}

/// R-I2: a body is shown only to who asks for it, and cannot act on a terminal.
#[test]
fn a_body_is_shown_when_asked_for() {
    let store = keys();
    let run = |command: &str| line(&format!("{command} {}", store.flags())).run();
    for flags in ["", "--json", "--plain"] {
        let quiet = run(&format!("idempotency show key-1 {flags}"));
        assert!(!quiet.stdout.contains("title"), "{quiet}");
    }
    let shown = run("idempotency show key-1 --body --plain");
    assert!(shown.stdout.contains("title") && !shown.stdout.contains('\u{1b}'), "{shown}");
    let json = run("idempotency show key-1 --body --json");
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["response_body"], "{\"id\":7,\n\"title\":\"\u{1b}[31mred\"}");
    let bytes = run("idempotency show image --body --json");
    let bytes: serde_json::Value = serde_json::from_str(&bytes.stdout).unwrap();
    assert_eq!(
        (&bytes["response_body_base64"], &bytes["response_body"]),
        (&"//4=".into(), &serde_json::Value::Null)
    );
    let said = run("idempotency show image --body --plain");
    assert!(said.stdout.contains("2 bytes that are no text"), "{said}");
}

/// R-I4: a reset asks and says what follows, is refused without a terminal, forgets the key, and is recorded with its reason.
#[test]
fn a_reset_asks_and_is_recorded() {
    let store = keys();
    let run = |command: &str| line(&format!("{command} {}", store.flags())).run();
    let refused = run("idempotency reset key-2");
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.stderr.contains("a second time") && refused.stderr.contains("reset key-2 --yes"),
        "{refused}"
    );
    let asked = |answer: &str| {
        line(&format!("idempotency reset key-2 {}", store.flags())).on_a_terminal().stdin(answer).run()
    };
    let declined = asked("n\n");
    assert_eq!(declined.code, 0, "{declined}");
    assert_eq!(run("idempotency show key-2").code, 0);
    let done = asked("y\n");
    assert_eq!(done.code, 0, "{done}");
    assert_eq!(run("idempotency show key-2").code, 3);
    assert_eq!(run("idempotency reset key-2 --yes").code, 3);
    let mut page = String::new();
    for (command, lang) in [("key-1 --why looked,token=hunter2secret", "en"), ("key-3", "ja")] {
        let ran = run(&format!("idempotency reset {command} --yes --lang {lang}"));
        page.push_str(&format!("===== redrive idempotency reset {command} --yes --lang {lang}\n{ran}\n"));
    }
    let json = run("idempotency reset image --yes --json");
    page.push_str(&format!("===== redrive idempotency reset image --yes --json\n{json}\n"));
    insta::assert_snapshot!("key_reset", page);
    let events = waiting(async {
        let open = Sqlite::open(&store.path, SqliteOptions::default()).unwrap();
        let filter = EventFilter { types: vec!["idempotency_reset".into()], ..EventFilter::default() };
        open.events(filter, 10).await.unwrap()
    });
    assert_eq!(events.len(), 4);
    let told = format!("{events:?}");
    assert!(told.contains("looked") && !told.contains("hunter2secret"), "{told}");
    assert!(!told.contains("title"), "{told}");
}

/// R-C2: what names no key or several, in both languages, with the exit code that says so.
#[test]
fn a_key_that_is_not_there_or_not_alone() {
    let store = keys();
    let mut page = String::new();
    for command in [
        "idempotency show key-99",
        "idempotency show nothing",
        "idempotency show 4f7d",
        "idempotency reset 4f7d --yes",
        "idempotency list --state unknown",
        "idempotency list --after 7",
        "idempotency reset",
    ] {
        for lang in ["en", "ja"] {
            let ran = line(&format!("{command} --lang {lang} {}", store.flags())).run();
            page.push_str(&format!("===== redrive {command} --lang {lang}\n{ran}\n"));
        }
    }
    insta::assert_snapshot!("key_trouble", store.anonymous(&page));
    let none = line(&format!("idempotency --store sqlite:{}/none.db", store.folder.path().display())).run();
    assert_eq!(none.code, 0, "{none}");
}

/// R-C4, 004 §6: the numbers of keys stand beside the others, and only where there are keys.
#[test]
fn numbers_of_keys() {
    let store = keys();
    check("key_metrics", "metrics --since 2h", &store);
    let of_queue = line(&format!("metrics --since 2h --queue mail --json {}", store.flags())).run();
    assert!(of_queue.stdout.contains("\"idempotency\":null"), "{of_queue}");
    let page = line(&format!("prometheus {}", store.flags())).run().stdout;
    for sample in [
        "redrive_idempotency_guarded_total 8\n",
        "redrive_idempotency_used_total 6\n",
        "redrive_idempotency_replayed_total 1\n",
        "redrive_idempotency_in_progress 1\n",
        "redrive_idempotency_unknown_outcomes 1\n",
    ] {
        assert!(page.contains(sample), "{page}");
    }
    let bare = line(&format!("prometheus {}", support::stored::seeded().flags())).run().stdout;
    assert!(!bare.contains("idempotency"), "{bare}");
}

/// R-C2: a shell offers the keys that are there.
#[test]
fn keys_are_completed() {
    let store = keys();
    let asked = |words: &str| {
        let ran = line(&format!("__complete -- redrive {words}"))
            .env("REDRIVE_STORE", &format!("sqlite:{}", store.path.display()))
            .run();
        ran.stdout
            .lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(asked("idempotency show 4f7d8"), [BOOKMARK]);
    assert_eq!(asked("idempotency reset im"), ["image"]);
    assert_eq!(asked("idempotency list --key ni"), ["nightly"]);
    assert_eq!(asked("idempotency list --state un"), ["unknown_outcome"]);
}
