//! A table of effects in the store's own database, and a handler that completes its request in the transaction of its effect.

use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use redrive_idempotency::{CompleteError, Idem};
use redrive_store::rusqlite::{self, TransactionBehavior};
use redrive_store::tokio_postgres::{self, NoTls};

use crate::place::Place;

/// Where effects are.
#[derive(Debug, Clone)]
pub(crate) enum Effects {
    Sqlite(PathBuf),
    Postgres { url: String, schema: String },
}

impl Effects {
    /// In the database of that store, which is there already.
    pub(crate) async fn of(place: &Place) -> Effects {
        let effects = match place {
            Place::Sqlite(folder) => Effects::Sqlite(folder.path().join("redrive.db")),
            Place::Postgres { url, schema } => Effects::Postgres { url: url.clone(), schema: schema.clone() },
        };
        match &effects {
            Effects::Sqlite(path) => {
                connect(path).execute_batch("CREATE TABLE effects (key TEXT NOT NULL)").unwrap();
            }
            Effects::Postgres { url, schema } => {
                let client = session(url).await;
                client
                    .batch_execute(&format!("CREATE TABLE {schema}.effects (key text NOT NULL)"))
                    .await
                    .unwrap();
            }
        }
        effects
    }

    pub(crate) async fn count(&self) -> i64 {
        match self {
            Effects::Sqlite(path) => {
                connect(path).query_row("SELECT count(*) FROM effects", [], |row| row.get(0)).unwrap()
            }
            Effects::Postgres { url, schema } => {
                let select = format!("SELECT count(*) FROM {schema}.effects");
                session(url).await.query_one(&select, &[]).await.unwrap().get(0)
            }
        }
    }

    /// One effect and its record in one transaction. `before` is awaited while it is open.
    pub(crate) async fn save(
        &self,
        idem: &Idem,
        answer: Response,
        commit: bool,
        before: impl FnOnce() + Send + 'static,
    ) -> Result<Response, CompleteError> {
        let key = idem.key().to_string();
        match self {
            Effects::Sqlite(path) => {
                let (path, idem) = (path.clone(), idem.clone());
                let saving = move || {
                    let mut connection = connect(&path);
                    let transaction =
                        connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                    transaction.execute("INSERT INTO effects VALUES (?1)", [key]).unwrap();
                    let answer = idem.complete_in(&transaction, answer)?;
                    before();
                    if commit {
                        transaction.commit().unwrap();
                    } else {
                        transaction.rollback().unwrap();
                    }
                    Ok(answer)
                };
                tokio::task::spawn_blocking(saving).await.unwrap()
            }
            Effects::Postgres { url, schema } => {
                let mut client = session(url).await;
                let transaction = client.transaction().await.unwrap();
                let insert = format!("INSERT INTO {schema}.effects VALUES ($1)");
                transaction.execute(&insert, &[&key]).await.unwrap();
                let answer = idem.complete_in_postgres(&transaction, answer).await?;
                tokio::task::spawn_blocking(before).await.unwrap();
                if commit {
                    transaction.commit().await.unwrap();
                } else {
                    transaction.rollback().await.unwrap();
                }
                Ok(answer)
            }
        }
    }
}

fn connect(path: &PathBuf) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(20)).unwrap();
    connection
}

async fn session(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Does an effect as the words in `x-test` tell it: commits or not, and then answers, or waits for ever, or panics.
pub(crate) fn app(effects: Effects) -> Router {
    Router::new().route("/v1/bookmarks", post(handle)).with_state(effects)
}

fn created(idem: &Idem) -> Response {
    let headers = [("location", "/v1/bookmarks/1"), ("set-cookie", "session=1")];
    (StatusCode::CREATED, headers, format!("saved {}", idem.key())).into_response()
}

async fn handle(State(effects): State<Effects>, idem: Idem, headers: HeaderMap) -> Response {
    let told = headers.get("x-test").map_or("", |words| words.to_str().unwrap()).to_owned();
    let told = |word: &str| told.split(' ').any(|told| told == word);
    let marker = headers.get("x-marker").map(|path| PathBuf::from(path.to_str().unwrap()));
    let mark = {
        let (marker, holds) = (marker.clone(), told("hold-open"));
        move || {
            if holds {
                std::fs::write(marker.unwrap(), "open").unwrap();
                std::thread::sleep(Duration::from_mins(10));
            }
        }
    };
    let saved = effects.save(&idem, created(&idem), !told("roll-back"), mark).await;
    let Ok(answer) = saved else {
        return (StatusCode::CONFLICT, format!("{}", saved.unwrap_err())).into_response();
    };
    if told("hold-committed") {
        std::fs::write(marker.unwrap(), "committed").unwrap();
        std::future::pending::<()>().await;
    }
    assert!(!told("panic"), "as told");
    if told("then-409") {
        return (StatusCode::CONFLICT, "sold out").into_response();
    }
    if told("then-503") {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    answer
}
