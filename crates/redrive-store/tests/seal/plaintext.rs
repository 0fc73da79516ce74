//! What somebody with the files but without the key can read: a search through every byte of the database, the journal, its
//! index, the room that is kept, and a backup.

use std::path::Path;

use redrive_store::{Housekeeping, Jobs, Leases, Sqlite};

use crate::filled::{WORDS, fill, told};
use crate::given::{Hand, at, success, wants};
use crate::{NEW, OLD, open, rotate};

/// The words that stand readable in any file of this folder, each with the file that it stands in.
fn readable(folder: &Path) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let stands_in = |word: &&'static str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
        found.extend(WORDS.into_iter().filter(stands_in).map(|word| (word, name.clone())));
    }
    found
}

/// The words of `readable` without the files.
fn words(found: &[(&'static str, String)]) -> Vec<&'static str> {
    WORDS.into_iter().filter(|word| found.iter().any(|(one, _)| one == word)).collect()
}

/// A store that holds everything and is read back whole. It is open still, with its journal beside it.
async fn filled(folder: &Path, lines: &[&str]) -> Sqlite {
    let store = open(&folder.join("redrive.db"), lines).unwrap();
    fill(&store).await;
    let told = told(&store).await;
    // Why it is cancelled and its hint are told to whoever has the job next, and to nobody before.
    for word in WORDS.into_iter().filter(|word| !["canary-cancelled", "canary-hint"].contains(word)) {
        assert!(told.contains(word), "{word} did not go in, or does not come out");
    }
    store
}

/// The control for all that follows: without a key the search finds every word, in the files and in a backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_everything_is_readable() {
    let (home, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = filled(home.path(), &[]).await;
    let names: Vec<String> = readable(home.path()).into_iter().map(|(_, name)| name).collect();
    assert!(names.contains(&"redrive.db-wal".to_owned()), "the journal was not searched: {names:?}");
    assert_eq!(words(&readable(home.path())), WORDS);
    store.backup(&copies.path().join("copy.db")).await.unwrap();
    assert_eq!(words(&readable(copies.path())), WORDS);
    store.close().await.unwrap();
    assert_eq!(words(&readable(home.path())), WORDS);
}

/// R-D7, reliability I8: with a key nothing of it is readable: while the store is open, in a backup, and afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_key_nothing_is_readable() {
    let (home, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = filled(home.path(), &[OLD]).await;
    assert_eq!(readable(home.path()), []);
    let copy = copies.path().join("copy.db");
    store.backup(&copy).await.unwrap();
    assert_eq!(readable(copies.path()), []);
    let before = told(&store).await;
    Hand(&store).clean().await;
    store.close().await.unwrap();
    assert_eq!(readable(home.path()), []);
    // The backup is worth something: with the key it holds all that the store held.
    let restored = open(&copy, &[OLD]).unwrap();
    assert_eq!(told(&restored).await, before);
    assert!(open(&copy, &[]).is_err(), "a backup opens without its key");
}

/// R-D7: a store that was plain holds nothing readable once it is encrypted, neither of what is there nor of what was
/// deleted long before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_it_is_encrypted_nothing_of_before_is_readable() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let plain = filled(home.path(), &[]).await;
    // Much that is gone: its bytes are still in pages that nobody uses.
    let hand = Hand(&plain);
    let worker = hand.worker().await;
    for _ in 0..50 {
        hand.add(redrive_store::NewJob::new("gone", "canary-payload".repeat(900))).await;
    }
    for leased in plain.lease(at(0), wants(worker, &["gone"], 100)).await.unwrap() {
        hand.done(at(0), leased.token, success()).await;
    }
    let before = told(&plain).await;
    plain.close().await.unwrap();
    let store = open(&path, &[OLD]).unwrap();
    assert_eq!(told(&store).await, before, "what was plain is read as it was");
    assert_eq!(words(&readable(home.path())), WORDS, "the control: so far it is all there");
    let last = rotate(&store, 3).await;
    assert_eq!((last.key.as_str(), last.retired.len(), last.left), ("old", 0, 0));
    assert!(last.cells > 15, "only {} cells were sealed", last.cells);
    assert_eq!(readable(home.path()), []);
    assert_eq!(told(&store).await, before);
    Hand(&store).clean().await;
    // From now on a plain value has no place in it.
    store.close().await.unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE dead_letter SET error_message = 'pay them'", []).unwrap();
    let store = open(&path, &[OLD]).unwrap();
    let found = store.check().await.unwrap().violations;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].what.starts_with("dead_letter.error_message of row "), "{found:?}");
}

/// R-D7: after a rotation nothing is left under the old key, not even in pages that nobody uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_rotation_nothing_is_left_under_the_old_key() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let store = filled(home.path(), &[OLD]).await;
    store.enqueue(at(0), vec![redrive_store::NewJob::new("more", vec![7; 40_000])]).await.unwrap();
    store.close().await.unwrap();
    let under_old = |bytes: &[u8]| {
        let text = bytes.windows(16).filter(|part| part == b"sealed:rdv1:old:").count();
        text + bytes.windows(9).filter(|part| part == b"\xffrdv\x01\x03old").count()
    };
    assert!(under_old(&std::fs::read(&path).unwrap()) > 10, "the control");
    // The proof of a key is a text that everybody knows: it may stay until its page is used again.
    let raw = rusqlite::Connection::open(&path).unwrap();
    let proof: String = raw.query_row("SELECT proof FROM seal_key", [], |row| row.get(0)).unwrap();
    drop(raw);
    let proofs = |bytes: &[u8]| bytes.windows(proof.len()).filter(|part| *part == proof.as_bytes()).count();
    let store = open(&path, &[NEW, OLD]).unwrap();
    let before = told(&store).await;
    assert_eq!(rotate(&store, 1_000).await.retired, ["old"]);
    assert_eq!(told(&store).await, before);
    for entry in std::fs::read_dir(home.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(under_old(&bytes), proofs(&bytes), "{}", path.display());
    }
    store.close().await.unwrap();
    let store = open(&path, &[NEW]).unwrap();
    assert_eq!(told(&store).await, before);
    Hand(&store).clean().await;
    // What stands in clear, as the guide says: names, times, states, ids, tags, and the error's type.
    let raw = rusqlite::Connection::open(&path).unwrap();
    let tagged = "SELECT count(*) FROM event WHERE tags = '[\"readable\"]'";
    let tagged: i64 = raw.query_row(tagged, [], |row| row.get(0)).unwrap();
    assert_eq!(tagged, 2);
}
