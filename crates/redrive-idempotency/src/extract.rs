//! What a handler sees of its request's key: [`Idem`], in the request's extensions.
//!
//! A handler may say itself what becomes of the key, and it may complete its request in the transaction that has its effect: then both
//! are there or neither is, whatever is killed when. What was committed is the answer for everybody from then on.

#[cfg(feature = "axum")]
mod axum;
mod within;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Response;
use redrive_policy::idempotency::Keep;
use redrive_store::{KeyHold, KeyState, StoredResponse};

use crate::guard::{Asked, Guard, Held};
use crate::key::Key;
pub use within::CompleteError;

/// The key under which a request is run. Handlers of axum take it as an argument (feature `axum`); others find it in the request's
/// extensions. It is there when the request is guarded.
///
/// ```
/// # #[cfg(feature = "axum")] {
/// use axum::http::StatusCode;
/// use redrive_idempotency::Idem;
///
/// async fn pay(idem: Idem) -> StatusCode {
///     // Whoever is asked to pay gets the key as well, so that it does not do it twice either.
///     let till_is_open = send(idem.key().as_str()).await;
///     if !till_is_open {
///         idem.release("the till is closed");
///     }
///     StatusCode::ACCEPTED
/// }
/// # async fn send(_: &str) -> bool { true }
/// # }
/// ```
#[derive(Clone)]
pub struct Idem(Arc<Inner>);

struct Inner {
    guard: Guard,
    asked: Asked,
    hold: KeyHold,
    again: bool,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    word: Option<Word>,
    /// What was completed in a transaction of the handler's: as its caller gets it, and as it is kept.
    recorded: Option<(Response<Bytes>, StoredResponse)>,
}

/// What a service says itself about its key.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) keep: Keep,
    pub(crate) why: Option<String>,
}

/// What became of an answer that a handler recorded in its own transaction.
pub(crate) enum Standing {
    /// It recorded none.
    Open,
    /// It is there.
    Committed(Response<Bytes>),
    /// It is not there.
    RolledBack(Response<Bytes>),
    /// The store cannot be asked.
    Unclear,
}

impl std::fmt::Debug for Idem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idem").field("key", self.key()).field("again", &self.again()).finish_non_exhaustive()
    }
}

impl Idem {
    pub(crate) fn new(guard: &Guard, held: &Held) -> Idem {
        Idem(Arc::new(Inner {
            guard: guard.clone(),
            asked: held.asked().clone(),
            hold: held.hold(),
            again: held.again(),
            said: Mutex::default(),
        }))
    }

    /// The key, without quotes.
    pub fn key(&self) -> &Key {
        self.0.asked.key()
    }

    /// Whose key it is, as the store knows them: a hash.
    pub fn principal(&self) -> &str {
        self.0.asked.principal()
    }

    /// Whether an earlier try ended nobody knows how, and the route may be run again all the same: look what is there already.
    pub fn again(&self) -> bool {
        self.0.again
    }

    /// The answer is kept and replayed, whatever its status.
    pub fn store(&self) {
        self.say(Keep::Store, None);
    }

    /// The key is free again once the handler has answered, whatever its status: nothing was done. An event tells why.
    pub fn release(&self, why: impl Into<String>) {
        self.say(Keep::Release, Some(why.into()));
    }

    /// Nobody knows what was done, whatever the status of the answer: it is not run again, unless its route may be. An event tells why.
    pub fn unknown(&self, why: impl Into<String>) {
        self.say(Keep::Unknown, Some(why.into()));
    }

    fn say(&self, keep: Keep, why: Option<String>) {
        self.said().word = Some(Word { keep, why });
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn word(&self) -> Option<Word> {
        self.said().word.clone()
    }

    /// Looks whether what was recorded in a transaction is there.
    pub(crate) async fn standing(&self) -> Standing {
        let Some((answer, kept)) = self.said().recorded.clone() else { return Standing::Open };
        let engine = self.0.guard.engine();
        match engine.store().key(self.0.hold.record).await {
            // Completed with these words: by us, since whoever completes it is told so before it commits.
            Ok(Some((record, response)))
                if record.state == KeyState::Completed && response.as_ref() == Some(&kept) =>
            {
                Standing::Committed(answer)
            }
            Ok(_) => Standing::RolledBack(answer),
            Err(error) => {
                tracing::error!(%error, "whether a request was completed in its transaction cannot be looked up");
                Standing::Unclear
            }
        }
    }
}
