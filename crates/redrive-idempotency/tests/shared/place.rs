//! Where a test's store is: a file of its own, or a schema of its own. Shared by the suites of this crate.

use std::sync::Arc;

use redrive_store::{Postgres, PostgresOptions, Sqlite, SqliteOptions, Store};

/// Where a store is; more than one may open it.
#[derive(Debug)]
pub(crate) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres { url: String, schema: String },
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        Place::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(crate) fn postgres() -> Option<Place> {
        let shared = redrive_testing::shared()?;
        Some(Place::Postgres { url: shared.url().to_owned(), schema: shared.schema() })
    }

    pub(crate) async fn open(&self) -> Arc<dyn Store> {
        match self {
            Place::Sqlite(folder) => {
                Arc::new(Sqlite::open(&folder.path().join("redrive.db"), SqliteOptions::default()).unwrap())
            }
            Place::Postgres { url, schema } => {
                let schema = Some(schema.clone());
                // Time passes when a test says so.
                let options =
                    PostgresOptions { create: true, schema, caller_clock: true, ..Default::default() };
                Arc::new(Postgres::open(url, options).await.unwrap())
            }
        }
    }
}
