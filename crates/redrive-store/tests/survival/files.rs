//! What may lie where a store should be, and what opening says to it: the exact cause, and never a new empty store over
//! something (reliability rows 9, 10 and 11).

use std::path::{Path, PathBuf};

use redrive_store::{
    DeadLetters, Events, Housekeeping, JobId, Jobs, Leases, LetterFilter, NewJob, Sqlite, SqliteOptions,
    StoreError, Trouble, Workers,
};

use crate::given::{Hand, at, job};

const FOUND: SqliteOptions =
    SqliteOptions { create: false, durability: redrive_store::Durability::Full, keys: None, encrypt: false };

fn open(path: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, SqliteOptions::default())
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    (home, path)
}

/// A store with some jobs in it, closed.
async fn filled(path: &Path, jobs: usize) -> Vec<JobId> {
    let store = open(path).unwrap();
    let new = vec![NewJob::new("a", vec![b'x'; 700]); jobs];
    let ids = store.enqueue(at(0), new).await.unwrap().iter().map(|one| one.id).collect();
    store.close().await.unwrap();
    ids
}

fn files(home: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(home.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Row 11
#[tokio::test]
async fn nothing_is_made_unless_it_may_be() {
    let (home, path) = place();
    let error = Sqlite::open(&path, FOUND).unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Missing(_)), "{error}");
    let error = open(&home.path().join("no/such/folder/redrive.db")).unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Open { .. }), "{error}");
    assert!(files(&home).is_empty(), "{:?}", files(&home));
}

/// Row 11
#[tokio::test]
async fn a_directory_is_no_store() {
    let (_home, path) = place();
    std::fs::create_dir(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Open { why, .. } if why.contains("directory")), "{error}");
}

/// Row 10
#[tokio::test]
async fn a_file_that_is_no_database_is_left_as_it_is() {
    for text in ["hello, this is a letter to my grandmother\n".repeat(300), "x".to_owned()] {
        let (_home, path) = place();
        std::fs::write(&path, &text).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error.trouble(), Trouble::Corrupt(_)), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

/// Row 11
#[tokio::test]
async fn another_programs_database_is_left_as_it_is() {
    let (_home, path) = place();
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE job (mine TEXT); INSERT INTO job VALUES ('dear')").unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error.trouble(), Trouble::Foreign(_)), "{error}");
    let kept: String = theirs.query_row("SELECT mine FROM job", [], |row| row.get(0)).unwrap();
    let tables: i64 = theirs.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
    assert_eq!((kept.as_str(), tables), ("dear", 1));
    // One that says what it is, with nothing in it yet.
    let (_home, path) = place();
    rusqlite::Connection::open(&path).unwrap().execute_batch("PRAGMA application_id = 77").unwrap();
    assert!(matches!(open(&path).unwrap_err().trouble(), Trouble::Foreign(_)));
}

/// Row 42: a newer store is told, and untouched.
#[tokio::test]
async fn a_newer_schema_is_refused() {
    let (_home, path) = place();
    filled(&path, 3).await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(connection);
    let before = std::fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(
        matches!(error.trouble(), Trouble::NewerSchema { found: 99, known, .. } if *known == Sqlite::schema()),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// Row 11: the journal holds acknowledged work; without its database it is not thrown away.
#[tokio::test]
async fn a_journal_without_its_database_is_kept() {
    for remains in [None, Some(0)] {
        let (_home, path) = place();
        let store = open(&path).unwrap();
        Hand(&store).add(job("a")).await;
        let wal = path.with_extension("db-wal");
        let journal = std::fs::read(&wal).unwrap();
        store.close().await.unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&wal, &journal).unwrap();
        if remains.is_some() {
            std::fs::write(&path, "").unwrap();
        }
        let error = open(&path).unwrap_err();
        assert!(matches!(error.trouble(), Trouble::OrphanedJournal(_)), "{remains:?}: {error}");
        assert_eq!(std::fs::read(&wal).unwrap(), journal, "{remains:?}");
    }
}

/// Row 11: an empty file is what a kill in the very first moment leaves.
#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let (_home, path) = place();
    std::fs::write(&path, "").unwrap();
    assert_eq!(filled(&path, 2).await.len(), 2);
}

/// Row 10: cut short anywhere, it is told, and never served as if it were whole.
#[tokio::test]
async fn a_truncated_file_is_told() {
    let (_home, path) = place();
    filled(&path, 300).await;
    let whole = std::fs::read(&path).unwrap();
    let mut told = 0;
    for part in 1..20 {
        let (_home, path) = place();
        // At a page, and in the middle of one.
        let length = whole.len() * part / 20 / 4_096 * 4_096 + if part % 2 == 0 { 1_000 } else { 0 };
        std::fs::write(&path, &whole[..length.min(whole.len() - 4_096)]).unwrap();
        match poke(&path).await {
            Err(error) => {
                assert!(matches!(error.trouble(), Trouble::Corrupt(_)), "{error}");
                told += 1;
            }
            Ok(clean) => assert!(!clean, "{length} of {} bytes pass for whole", whole.len()),
        }
    }
    assert!(told > 0);
}

/// Opens and does a little of everything. Answers whether the check was clean, or the first trouble.
async fn poke(path: &Path) -> Result<bool, StoreError> {
    let store = open(path)?;
    let work = async {
        let worker = store.register(at(0), "poke".to_owned(), crate::given::SECOND).await?;
        store.enqueue(at(0), vec![job("a")]).await?;
        store.lease(at(0), crate::given::wants(worker, &["a"], 50)).await?;
        store.status(at(0)).await?;
        store.events(redrive_store::EventFilter::default(), 1_000).await?;
        store.letters(LetterFilter::default(), 100).await?;
        for id in 1..200 {
            store.job(JobId(id)).await?;
        }
        Ok::<(), StoreError>(())
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(20), work).await.expect("it hangs");
    let checked = tokio::time::timeout(std::time::Duration::from_secs(20), store.check()).await;
    // Whatever was found, both threads that read and the one that writes are still there to say so.
    for outcome in
        [done.as_ref().err(), checked.as_ref().expect("it hangs").as_ref().err()].into_iter().flatten()
    {
        assert!(!matches!(outcome.trouble(), Trouble::Closed), "a thread died");
    }
    done?;
    Ok(checked.expect("it hangs")?.is_clean())
}

/// Row 10: bytes flipped anywhere, in the file or in its journal: never a panic, never a hang, and damage is called so.
#[test]
fn flipped_bytes_never_panic_or_hang() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (_home, path) = place();
        filled(&path, 150).await;
        let store = open(&path).unwrap();
        let worker = Hand(&store).worker().await;
        for _ in 0..20 {
            let leased = Hand(&store).take(at(0), worker, &["a"]).await;
            Hand(&store)
                .done(at(0), leased.token, crate::given::dead(redrive_policy::Cause::Network, "x"))
                .await;
        }
        let files = [path.clone(), path.with_extension("db-wal")].map(|file| std::fs::read(file).unwrap());
        store.close().await.unwrap();
        // Any scattered numbers will do, as long as they are the same each time.
        let mut number = 7_u64;
        let mut random = |below: usize| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(number >> 33).unwrap() % below
        };
        let (mut corrupt, mut unclean, mut unhurt) = (0, 0, 0);
        for seed in 0..120_usize {
            let (_home, path) = place();
            let mut files = files.clone();
            let hurt = &mut files[usize::from(seed % 4 == 3)];
            for _ in 0..=(seed % 5) * 8 {
                // A random place, or the beginning of a page, where its structure is.
                let place = random(hurt.len());
                let place = if seed % 2 == 0 { place / 4_096 * 4_096 + place % 100 } else { place };
                hurt[place] ^= 1 << (seed % 8);
            }
            std::fs::write(&path, &files[0]).unwrap();
            std::fs::write(path.with_extension("db-wal"), &files[1]).unwrap();
            match poke(&path).await {
                Ok(true) => unhurt += 1,
                Ok(false) => unclean += 1,
                Err(error) => match error.trouble() {
                    // The header is where it says what it is, and the schema is text.
                    Trouble::Corrupt(_)
                    | Trouble::Database(_)
                    | Trouble::Foreign(_)
                    | Trouble::NewerSchema { .. }
                    | Trouble::Open { .. } => corrupt += 1,
                    other => panic!("seed {seed}: {other:?}"),
                },
            }
        }
        println!(
            "of 120 damaged stores {corrupt} were refused, {unclean} failed the check, {unhurt} were not hurt"
        );
        assert!(corrupt + unclean > 40, "the damage was not where it hurts");
    });
}

/// Rows 10 and 11: the file is replaced or removed under a running store. What is written from then on would be lost with
/// the old file, so nothing is acknowledged any more.
#[tokio::test]
async fn a_store_whose_file_was_replaced_acknowledges_nothing() {
    for replaced in [true, false] {
        let (_home, path) = place();
        let store = open(&path).unwrap();
        let id = Hand(&store).add(job("a")).await;
        let aside = path.with_extension("old");
        std::fs::rename(&path, &aside).unwrap();
        if replaced {
            std::fs::copy(&aside, &path).unwrap();
        }
        let error = store.enqueue(at(0), vec![job("a")]).await.unwrap_err();
        assert!(matches!(error.trouble(), Trouble::Broken(_)), "{error}");
        assert!(!error.may_pass());
        // Looking at what was there goes on.
        assert!(store.job(id).await.unwrap().is_some());
        assert!(store.enqueue(at(0), vec![job("a")]).await.is_err());
        store.close().await.unwrap();
    }
}

/// Row 74: a copy taken while others write is whole, for its owner's eyes only, and a store of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_a_whole_store() {
    use std::os::unix::fs::PermissionsExt;
    let (home, path) = place();
    let ids = filled(&path, 200).await;
    let store = std::sync::Arc::new(open(&path).unwrap());
    let busy = {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..100 {
                Hand(&*store).add(job("b")).await;
            }
        })
    };
    let copy = home.path().join("copy.db");
    store.backup(&copy).await.unwrap();
    busy.await.unwrap();
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "payloads are nobody else's business: {mode:o}");
    assert!(matches!(store.backup(&copy).await.unwrap_err().trouble(), Trouble::Open { .. }));
    let nowhere = home.path().join("no/folder/copy.db");
    assert!(store.backup(&nowhere).await.is_err());
    let restored = Sqlite::open(&copy, FOUND).unwrap();
    Hand(&restored).clean().await;
    for id in ids {
        assert!(restored.job(id).await.unwrap().is_some());
    }
    assert_eq!(restored.store_id(), store.store_id());
}
