//! The board: what was damaged from outside is told of, nothing looks at what grows, and a backup is worth something.

use std::path::Path;

use redrive_store::{
    Board, Housekeeping, KeyRing, NoticeChange, Posted, Sqlite, SqliteOptions, Store, Timestamp, Trouble,
};

use crate::given::{Hand, at};

fn put(name: &str, due_at: Option<Timestamp>) -> NoticeChange {
    NoticeChange {
        space: "target".to_owned(),
        name: name.to_owned(),
        seen: None,
        value: Some(format!("{{\"of\":\"{name}\"}}")),
        due_at,
    }
}

async fn filled(path: &Path, options: SqliteOptions) -> Sqlite {
    let store = Sqlite::open(path, options).unwrap();
    let changes = vec![put("a", None), put("b", Some(at(9))), put("c", None)];
    assert_ne!(store.post(at(1), changes, Vec::new(), Vec::new()).await.unwrap(), Posted::Outrun);
    store
}

/// R-D1: whatever does not fit the versions of notices is found, and named.
#[tokio::test]
async fn what_was_damaged_is_found() {
    for (damage, found_times, said) in [
        (
            "UPDATE notice SET version = 9999 WHERE name = 'a'",
            1,
            "notice target/a is ahead of the next number",
        ),
        ("UPDATE notice SET version = 3 WHERE name = 'b'", 2, "has version 3, as another one has"),
        ("UPDATE notice SET id = 3 + id WHERE name = 'b'", 1, "target/b has version 2 and was put up with 5"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("redrive.db");
        let store = filled(&path, SqliteOptions::default()).await;
        Hand(&store).clean().await;
        assert_eq!(rusqlite::Connection::open(&path).unwrap().execute(damage, []).unwrap(), 1);
        let found = store.check().await.unwrap().violations;
        assert_eq!(found.len(), found_times, "{damage}: {found:?}");
        assert_eq!(found[0].invariant, "a version of a notice is one of its own");
        assert!(found[0].what.contains(said), "{damage}: {}", found[0].what);
    }
}

/// R-D7: what a notice says opens under its own name only, and whoever asks for it is told.
#[tokio::test]
async fn what_is_moved_to_another_name_does_not_open() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let line = KeyRing::generate("k").unwrap();
    let keys = Some(KeyRing::parse("k", &line).unwrap());
    let store = filled(&path, SqliteOptions { keys, ..SqliteOptions::default() }).await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("UPDATE notice SET name = 'z' WHERE name = 'a'", []).unwrap();
    let refused = store.notice("target".to_owned(), "z".to_owned()).await.unwrap_err();
    assert!(matches!(refused.trouble(), Trouble::Unsealable { cell: "notice.value", .. }), "{refused}");
    assert!(store.notice("target".to_owned(), "b".to_owned()).await.unwrap().is_some());
    let found = store.check().await.unwrap().violations;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].invariant, "every sealed value opens");
}

/// R-P15: reading and changing a notice looks at no more than it is about, however many there are.
#[test]
fn nothing_looks_at_what_grows() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    drop(Sqlite::open(&path, SqliteOptions::default()).unwrap());
    let raw = rusqlite::Connection::open(&path).unwrap();
    for (text, index) in [
        (include_str!("../../src/sqlite/sql/notice_version.sql"), "notice_name (space=? AND name=?)"),
        (include_str!("../../src/sqlite/sql/notice_read.sql"), "notice_name (space=? AND name=?)"),
        (include_str!("../../src/sqlite/sql/notice_list.sql"), "notice_name (space=? AND name>?)"),
        (
            include_str!("../../src/sqlite/sql/notice_due.sql"),
            "notice_due (space=? AND due_at>? AND due_at<?)",
        ),
        (include_str!("../../src/sqlite/sql/notice_delete.sql"), "INTEGER PRIMARY KEY (rowid=?)"),
    ] {
        let mut statement = raw.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let values = vec![1; statement.parameter_count()];
        let steps = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(steps.iter().any(|step| step.contains(index)), "{text}: {steps:#?}");
        assert!(!steps.iter().any(|step| step.starts_with("SCAN") || step.contains("TEMP")), "{steps:#?}");
    }
}

/// Reliability row 74: a backup holds the board, and the store made of it gives out no version a second time.
#[tokio::test]
async fn a_backup_holds_the_board() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("redrive.db"), home.path().join("copy.db"));
    let store = filled(&path, SqliteOptions::default()).await;
    store.backup(&copy).await.unwrap();
    let restored: Box<dyn Store> = Box::new(Sqlite::open(&copy, SqliteOptions::default()).unwrap());
    let all = async |store: &dyn Store| store.notices("target".to_owned(), None, 9).await.unwrap();
    let before = all(&store).await;
    assert_eq!((all(&*restored).await, before.len()), (before.clone(), 3));
    let posted = restored.post(at(2), vec![put("d", None)], Vec::new(), Vec::new()).await.unwrap();
    let Posted::Done { versions, .. } = posted else { panic!("it is new") };
    assert!(before.iter().all(|notice| Some(notice.version) < versions[0]));
}
