//! The back ends that the suite runs on. Nothing else here knows which one it is.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use redrive_store::{KeyRing, Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};
use redrive_testing::{Pgbouncer, shared};

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
    sqlite_with(SqliteOptions::default()).await
}

/// R-D7: encrypted, a store does all the same.
pub(crate) async fn sqlite_sealed() -> Option<Given> {
    sqlite_with(SqliteOptions { keys: Some(a_key()), ..SqliteOptions::default() }).await
}

fn a_key() -> KeyRing {
    let key = KeyRing::generate("conformance").unwrap();
    KeyRing::parse("conformance", &key).unwrap()
}

async fn sqlite_with(options: SqliteOptions) -> Option<Given> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("redrive.db");
    let open = move || {
        let store = Arc::new(Sqlite::open(&path, options.clone()).unwrap()) as Arc<dyn Store>;
        Box::pin(async { store }) as Opening
    };
    Some(Given::with(Some(home), open).await)
}

/// A schema of its own in the cluster that all tests share.
pub(crate) async fn postgres() -> Option<Given> {
    let shared = shared()?;
    Some(on_postgres(shared.url(), shared.schema(), None).await)
}

/// R-D7: the same, encrypted.
pub(crate) async fn postgres_sealed() -> Option<Given> {
    let shared = shared()?;
    Some(on_postgres(shared.url(), shared.schema(), Some(a_key())).await)
}

/// The same by way of a pooler that hands each transaction to any of a few sessions.
pub(crate) async fn pgbouncer() -> Option<Given> {
    static POOLER: OnceLock<Option<Pgbouncer>> = OnceLock::new();
    let shared = shared()?;
    let pooler = POOLER.get_or_init(|| Pgbouncer::is_possible().then(|| Pgbouncer::start(shared.url(), 6)));
    Some(on_postgres(pooler.as_ref()?.url(), shared.schema(), None).await)
}

async fn on_postgres(url: &str, schema: String, keys: Option<KeyRing>) -> Given {
    let url = url.to_owned();
    let open = move || {
        let url = url.clone();
        // The tests make time pass by themselves.
        let options = PostgresOptions {
            create: true,
            schema: Some(schema.clone()),
            caller_clock: true,
            keys: keys.clone(),
            ..PostgresOptions::default()
        };
        Box::pin(async move { Arc::new(Postgres::open(&url, options).await.unwrap()) as Arc<dyn Store> })
            as Opening
    };
    Given::with(None, open).await
}
