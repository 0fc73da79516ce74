//! Keys from the client's side (R-I7): the same content gives the same key in every language, and a saved key survives.
#![cfg(feature = "outbox")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod far_side;

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

use far_side::Place;
use redrive_idempotency::client::{Key, SavedKeys};

/// The table of the documentation.
const VECTORS: [(&[&str], &str); 5] = [
    (&[], "e3b0c442-98fc-8c14-9afb-f4c8996fb924"),
    (&["https://example.com/"], "c9ccdaaf-c5f4-8591-bfb5-1aeae19c2a24"),
    (&["ab", "c"], "601d5476-e2cc-8e2c-87a2-bba7a3226597"),
    (&["a", "bc"], "3fafa1cf-2f19-87c1-929b-eb20cf0983f7"),
    (&["ブックマーク", ""], "0a9b5a23-6a43-8689-ad9b-2264f7de8103"),
];

/// The code of that language in the documentation.
fn documented(language: &str) -> String {
    let docs = include_str!("../src/client.rs");
    let block = docs.split(&format!("//! ```{language}\n")).nth(1).unwrap();
    let block = block.split("//! ```\n").next().unwrap();
    block
        .lines()
        .map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or("").to_owned() + "\n")
        .collect()
}

/// What a program says to a script; nothing where there is no such program.
fn said(program: &str, args: &[&str], script: &str) -> Option<String> {
    let started = Command::new(program).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = started else {
        assert!(std::env::var_os("CI").is_none() || program != "python3", "{program} is missing");
        eprintln!("SKIPPED: {program} is missing");
        return None;
    };
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program}: {script}");
    Some(String::from_utf8(output.stdout).unwrap())
}

fn expected() -> String {
    VECTORS.map(|(_, key)| format!("{key}\n")).concat()
}

/// R-I7: a key from content is the one of the documentation, a UUID of version 8, and depends on where a part ends.
#[test]
fn content_gives_the_documented_keys() {
    let docs = include_str!("../src/client.rs");
    for (parts, key) in VECTORS {
        assert_eq!(Key::from_content(parts).as_str(), key, "{parts:?}");
        assert_eq!((&key[14..15], "89ab".contains(&key[19..20])), ("8", true), "{key}");
        assert!(docs.contains(&format!("| `{key}` |")), "{key} is not in the table");
    }
}

/// R-I7: the Python of the documentation makes the same keys.
#[test]
fn python_makes_the_same_keys() {
    let calls = VECTORS.map(|(parts, _)| {
        let parts: Vec<String> = parts.iter().map(|part| format!("\"{part}\".encode()")).collect();
        format!("print(key_from_content({}))\n", parts.join(", "))
    });
    let script = documented("python") + &calls.concat();
    if let Some(said) = said("python3", &["-"], &script) {
        assert_eq!(said, expected());
    }
}

/// R-I7: the TypeScript of the documentation, without its types, makes the same keys in Node.
#[test]
fn node_makes_the_same_keys() {
    let code = documented("typescript").replace(": Uint8Array[]", "").replace("): string", ")");
    let calls = VECTORS.map(|(parts, _)| {
        let parts: Vec<String> = parts.iter().map(|part| format!("Buffer.from(\"{part}\")")).collect();
        format!("console.log(keyFromContent({}));\n", parts.join(", "))
    });
    if let Some(said) = said("node", &["--input-type=module", "-"], &(code + &calls.concat())) {
        assert_eq!(said, expected());
    }
}

/// R-I7: random keys are UUIDs of version 4, and no two are the same.
#[test]
fn random_keys_differ() {
    let keys: HashSet<String> = (0..1_000).map(|_| Key::random().unwrap().to_string()).collect();
    assert_eq!(keys.len(), 1_000);
    for key in keys {
        let dashes: Vec<usize> = key.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [8, 13, 18, 23]);
        assert_eq!((&key[14..15], "89ab".contains(&key[19..20])), ("4", true), "{key}");
    }
}

async fn kept(place: Place) {
    let engine = place.engine().await;
    let keys = SavedKeys::new(&engine);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let keys = keys.clone();
        asking.spawn(async move { keys.key_of("draft-7").await.unwrap() });
    }
    let answers: HashSet<Key> = asking.join_all().await.into_iter().collect();
    assert_eq!(answers.len(), 1, "many who ask at once get one key");
    let first = answers.into_iter().next().unwrap();
    assert_ne!(keys.key_of("draft-8").await.unwrap(), first, "another save has another");

    engine.store().close().await.unwrap();
    drop((keys, engine));
    let keys = SavedKeys::new(&place.engine().await);
    assert_eq!(keys.key_of("draft-7").await.unwrap(), first, "it survives the process");
    assert!(keys.over("draft-7", &first).await.unwrap());
    assert!(!keys.over("draft-7", &first).await.unwrap());
    let second = keys.key_of("draft-7").await.unwrap();
    assert_ne!(second, first, "the next save is another one");
    assert!(!keys.over("draft-7", &first).await.unwrap(), "it was over before");
    assert_eq!(keys.key_of("draft-7").await.unwrap(), second, "who comes late forgets nothing");
}

/// R-I7: the same save reuses one stored key, whoever asks and whenever, until it is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_saved_key_stays_until_the_save_is_over() {
    kept(Place::sqlite()).await;
}

/// R-I7: the same on PostgreSQL.
#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_saved_key_stays_on_postgres() {
    if let Some(place) = Place::postgres() {
        kept(place).await;
    }
}
