//! The back ends that the suite runs on. Nothing else here knows which one it is.

use std::sync::Arc;

use redrive_store::{Sqlite, SqliteOptions, Store};

/// A fresh store, and the means to open it once more, as another process would.
pub(crate) struct Given {
    pub(crate) store: Arc<dyn Store>,
    open: Box<dyn Fn() -> Arc<dyn Store> + Send + Sync>,
    // Deleted at the end, after the store is closed.
    _home: tempfile::TempDir,
}

impl Given {
    /// A second handle to the same store.
    pub(crate) fn another(&self) -> Arc<dyn Store> {
        (self.open)()
    }
}

pub(crate) fn sqlite() -> Given {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let open = move || Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap()) as Arc<dyn Store>;
    Given { store: open(), open: Box::new(open), _home: home }
}
