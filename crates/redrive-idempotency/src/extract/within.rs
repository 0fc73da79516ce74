//! Completing a request in the transaction that has its effect: exactly once, when the effect is in that database.
//!
//! The record and the effect are committed together, or neither is. Killed before the commit, nothing was done, and the key's outcome is
//! unknown until somebody looks; killed after it, a retry gets the answer. What was committed is the truth: whatever the handler returns
//! afterwards, and even if it panics, its caller gets what every replay will be.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::BodyExt;
use redrive_policy::idempotency::Rules;
use redrive_store::{
    Enqueued, Finish, KeyedRequest, MAX_RESPONSE_BYTES, NewJob, Sqlite, StoreError, StoredResponse,
    Timestamp, rusqlite,
};
#[cfg(feature = "postgres")]
use redrive_store::{Postgres, tokio_postgres};

use super::Idem;
use crate::replay::{dated, kept};

/// Why a request could not be completed in a transaction. Roll it back: its effect must not be there without its record.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// The engine keeps its keys in another kind of store than this transaction is of.
    #[error("the keys are not kept in the database of this transaction")]
    OtherStore,
    /// Another holder has the key by now, or somebody reset it.
    #[error("the key was lost to another holder, or reset")]
    Lost,
    /// The answer's body is not in memory.
    #[error("the answer's body is not in memory, so it cannot be recorded before the commit")]
    NotReady,
    /// The answer's body broke off.
    #[error("the answer's body broke off")]
    Broken,
    /// The store has trouble.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Idem {
    /// Completes the request in this transaction on the store's SQLite file, so that its record is there if and only if the rest of the
    /// transaction is. On an error, roll back. Once it is committed, this answer is the one that the caller and every replay gets.
    ///
    /// The answer comes back to be returned; its body has to be in memory, as that of `Json` or of a text is.
    ///
    /// ```
    /// # #[cfg(feature = "axum")] {
    /// use axum::Json;
    /// use axum::response::{IntoResponse, Response};
    /// use redrive_idempotency::Idem;
    /// use rusqlite::{Connection, TransactionBehavior};
    /// # use redrive_store::rusqlite;
    ///
    /// fn save(connection: &mut Connection, idem: &Idem, url: &str) -> Result<Response, Box<dyn std::error::Error>> {
    ///     let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    ///     transaction.execute("INSERT INTO bookmarks (url) VALUES (?1)", [url])?;
    ///     let answer = Json(transaction.last_insert_rowid()).into_response();
    ///     let answer = idem.complete_in(&transaction, answer)?;
    ///     transaction.commit()?;
    ///     Ok(answer)
    /// }
    /// # }
    /// ```
    pub fn complete_in<B>(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        answer: Response<B>,
    ) -> Result<Response<B>, CompleteError>
    where
        B: Body + From<Bytes>,
    {
        let store: &dyn Any = self.0.guard.engine().store();
        let store = store.downcast_ref::<Sqlite>().ok_or(CompleteError::OtherStore)?;
        let (answer, kept) = self.written(answer)?;
        let (now, keep_for) = (self.0.guard.engine().now(), self.0.asked.rules().keep_for);
        let finish = store.complete_key_in(transaction, now, self.0.hold, &kept, keep_for)?;
        self.recorded(finish, answer, kept)
    }

    /// The same in a transaction on the store's PostgreSQL database. The transaction must be of the database in which the store's schema is,
    /// and may write there.
    #[cfg(feature = "postgres")]
    pub async fn complete_in_postgres<B>(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        answer: Response<B>,
    ) -> Result<Response<B>, CompleteError>
    where
        B: Body + From<Bytes>,
    {
        // What is generic is done before anything is awaited, so that any body will do.
        let (answer, kept) = self.written(answer)?;
        self.complete_postgres(transaction, &kept)
            .await
            .and_then(|finish| self.recorded(finish, answer, kept))
    }

    #[cfg(feature = "postgres")]
    async fn complete_postgres(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        kept: &StoredResponse,
    ) -> Result<Finish, CompleteError> {
        let store: &dyn Any = self.0.guard.engine().store();
        let store = store.downcast_ref::<Postgres>().ok_or(CompleteError::OtherStore)?;
        let (now, keep_for) = (self.0.guard.engine().now(), self.0.asked.rules().keep_for);
        Ok(store.complete_key_in(transaction, now, self.0.hold, kept, keep_for).await?)
    }

    /// Adds jobs to the engine's own store and completes the request, in one transaction. `answer` makes the answer of what was added;
    /// it may be called more than once, and has nothing to wait for. Once it is committed, this answer is the one that the caller and
    /// every replay gets.
    pub async fn enqueue(
        &self,
        now: Timestamp,
        jobs: Vec<NewJob>,
        answer: impl Fn(&[Enqueued]) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Result<Response<Bytes>, CompleteError> {
        let rules = self.0.asked.rules();
        let (asked, answer) = (self.0.asked.clone(), Arc::new(answer));
        let making = Arc::clone(&answer);
        let request = KeyedRequest {
            hold: self.0.hold,
            keep_for: rules.keep_for,
            answer: Box::new(move |added| written(asked.rules(), now, making(added)).1),
        };
        let added = self.0.guard.engine().store().enqueue_for_key(now, jobs, request).await?;
        let added = added.ok_or(CompleteError::Lost)?;
        let (answer, kept) = written(rules, now, answer(&added));
        self.recorded(Finish::Done, answer, kept)
    }

    /// The answer with its body in memory, and what is kept of it.
    fn written<B: Body>(
        &self,
        answer: Response<B>,
    ) -> Result<(Response<Bytes>, StoredResponse), CompleteError> {
        let (parts, body) = answer.into_parts();
        let answer = Response::from_parts(parts, in_memory(body)?);
        Ok(written(self.0.asked.rules(), self.0.guard.engine().now(), answer))
    }

    fn recorded<B: From<Bytes>>(
        &self,
        finish: Finish,
        answer: Response<Bytes>,
        kept: StoredResponse,
    ) -> Result<Response<B>, CompleteError> {
        match finish {
            Finish::Lost => Err(CompleteError::Lost),
            Finish::Done => {
                self.said().recorded = Some((answer.clone(), kept));
                Ok(answer.map(B::from))
            }
        }
    }
}

/// An answer of this moment, and what is kept of it.
fn written(rules: &Rules, now: Timestamp, answer: Response<Bytes>) -> (Response<Bytes>, StoredResponse) {
    let (mut parts, body) = answer.into_parts();
    dated(&mut parts.headers, now);
    let fits = body.len() <= rules.max_response.min(MAX_RESPONSE_BYTES);
    let kept = kept(rules, parts.status, &parts.headers, fits.then(|| body.to_vec()));
    (Response::from_parts(parts, body), kept)
}

/// A body that is there already. Nothing is waited for: a transaction is open meanwhile.
fn in_memory<B: Body>(body: B) -> Result<Bytes, CompleteError> {
    let collecting = pin!(body.collect());
    match collecting.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(collected)) => Ok(collected.to_bytes()),
        Poll::Ready(Err(_)) => Err(CompleteError::Broken),
        Poll::Pending => Err(CompleteError::NotReady),
    }
}
