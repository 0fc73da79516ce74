//! The back ends that the suite runs on. Nothing else here knows which one it is.

use std::sync::Arc;

use redrive_store::{KeyRing, Sqlite, SqliteOptions, Store};

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
    sqlite_with(SqliteOptions::default())
}

/// R-D7: encrypted, a store does all the same.
pub(crate) fn sqlite_sealed() -> Given {
    let key = KeyRing::generate("conformance").unwrap();
    let keys = Some(KeyRing::parse("conformance", &key).unwrap());
    sqlite_with(SqliteOptions { keys, ..SqliteOptions::default() })
}

fn sqlite_with(options: SqliteOptions) -> Given {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let open = move || Arc::new(Sqlite::open(&path, options.clone()).unwrap()) as Arc<dyn Store>;
    Given { store: open(), open: Box::new(open), _home: home }
}
