//! What a move does with the board.

use redrive_store::{NoticeChange, Posted, Store, Trouble};

use crate::given::at;

fn put(name: &str, seen: Option<i64>) -> NoticeChange {
    NoticeChange {
        space: "schedule".to_owned(),
        name: name.to_owned(),
        seen,
        value: Some(r#"{"note":"a\u0000b"}"#.to_owned()),
        due_at: seen.map(|_| at(15)),
    }
}

/// A notice as it was put up, one that was said anew, and one that was taken down.
pub(crate) async fn post(store: &dyn Store) {
    let all = vec![put("new", None), put("anew", None), put("gone", None)];
    let posted = store.post(at(14), all, Vec::new(), Vec::new()).await.unwrap();
    let Posted::Done { versions, .. } = posted else { panic!("they are new") };
    let gone = NoticeChange { value: None, ..put("gone", versions[2]) };
    let again =
        store.post(at(15), vec![put("anew", versions[1]), gone], Vec::new(), Vec::new()).await.unwrap();
    assert_ne!(again, Posted::Outrun);
}

pub(crate) async fn seen(store: &dyn Store) -> Vec<String> {
    let notices = store.notices("schedule".to_owned(), None, 9).await.unwrap();
    assert_eq!(notices.len(), 2);
    let due = store.due_notices(at(15), "schedule".to_owned(), 9).await.unwrap();
    vec![format!("{notices:#?} {due:#?}")]
}

/// Whoever writes to the store that was moved hears so.
pub(crate) async fn is_refused(store: &dyn Store) {
    let version =
        store.notice("schedule".to_owned(), "new".to_owned()).await.unwrap().map(|found| found.version);
    let gone = NoticeChange { value: None, ..put("new", version) };
    for change in [put("fresh", None), gone] {
        let refused = store.post(at(16), vec![change], Vec::new(), Vec::new()).await.unwrap_err();
        assert!(matches!(refused.trouble(), Trouble::Moved(_)), "{refused}");
    }
}

/// Over there a notice is changed by who saw it here, and new versions come behind all that were given out.
pub(crate) async fn goes_on(copy: &dyn Store) {
    let notices = copy.notices("schedule".to_owned(), None, 9).await.unwrap();
    let latest = notices.iter().map(|notice| notice.version).max().expect("there are some");
    let changes = vec![put("gone", None), put("new", Some(notices[1].version))];
    let posted = copy.post(at(16), changes, Vec::new(), Vec::new()).await.unwrap();
    let Posted::Done { versions, .. } = posted else { panic!("nobody else was there") };
    assert!(versions.iter().all(|version| *version > Some(latest)), "{versions:?} after {latest}");
}
