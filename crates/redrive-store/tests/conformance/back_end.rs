//! The back ends that the suite runs on. Nothing else here knows which one it is.

use std::pin::Pin;
use std::sync::Arc;

use redrive_store::{Sqlite, SqliteOptions, Store};

type Opening = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send>>;

/// A fresh store, and the means to open it once more, as another process would.
pub(crate) struct Given {
    pub(crate) store: Arc<dyn Store>,
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    // Deleted at the end, after the store is closed.
    _home: Option<tempfile::TempDir>,
}

impl Given {
    async fn with(
        home: Option<tempfile::TempDir>,
        open: impl Fn() -> Opening + Send + Sync + 'static,
    ) -> Given {
        Given { store: open().await, open: Box::new(open), _home: home }
    }

    /// A second handle to the same store.
    pub(crate) async fn another(&self) -> Arc<dyn Store> {
        (self.open)().await
    }
}

/// The embedded store; never absent.
pub(crate) async fn sqlite() -> Option<Given> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let open = move || {
        let store = Arc::new(Sqlite::open(&path, SqliteOptions::default()).unwrap()) as Arc<dyn Store>;
        Box::pin(async { store }) as Opening
    };
    Some(Given::with(Some(home), open).await)
}
