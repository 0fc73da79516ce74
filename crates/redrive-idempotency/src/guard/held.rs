//! A request that was let in, until it is known how it ended.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use redrive_policy::idempotency::{Keep, Rules};
use redrive_store::{Finish, KeyHold, StoreError, StoredResponse, Timestamp};

use super::count::Counted;
use super::{Asked, Guard};

/// How often an ending is tried to be written when the store has trouble that may pass, and how long is waited in between.
const TRIES: u32 = 4;
const FIRST_REST: Duration = Duration::from_millis(100);

/// The right to run a request, and the duty to say how it ended. Dropped without a word, its outcome is unknown.
#[derive(Debug)]
pub struct Held {
    guard: Guard,
    asked: Asked,
    hold: KeyHold,
    again: bool,
    over: bool,
}

/// How a request ended.
#[derive(Debug, Clone)]
enum End {
    Completed(StoredResponse),
    Released(Option<String>),
    GivenUp(String),
}

impl Held {
    pub(super) fn new(guard: Guard, asked: Asked, hold: KeyHold, again: bool) -> Held {
        Held { guard, asked, hold, again, over: false }
    }

    /// What the store knows the holder by.
    pub fn hold(&self) -> KeyHold {
        self.hold
    }

    /// Whether an earlier try ended nobody knows how, and the route can bear another.
    pub fn again(&self) -> bool {
        self.again
    }

    /// What was asked.
    pub fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The rules of its route.
    pub fn rules(&self) -> &Rules {
        self.asked.rules()
    }

    /// What becomes of the key for an answer with this status and these headers. A refusal that says when to come again is none for good,
    /// whatever its status: services answer 409 or 423 so while they are busy.
    pub fn keep(&self, status: StatusCode, headers: &HeaderMap) -> Keep {
        let keep = self.asked.rules.outcomes.of(status.as_u16());
        let passing = status.is_client_error() && headers.contains_key(RETRY_AFTER);
        if keep == Keep::Store && passing { Keep::Release } else { keep }
    }

    /// It was answered: this is what is replayed from now on.
    pub async fn complete(self, response: StoredResponse) -> Result<Finish, StoreError> {
        self.end(End::Completed(response)).await
    }

    /// The key is free again. With a reason, an event tells of it.
    pub async fn release(self, why: Option<String>) -> Result<Finish, StoreError> {
        self.guard.count(Counted::Released);
        self.end(End::Released(why)).await
    }

    /// Nobody knows what was done.
    pub async fn give_up(self, why: impl Into<String>) -> Result<Finish, StoreError> {
        self.end(End::GivenUp(why.into())).await
    }

    /// Its record was completed in a transaction of the handler's, and that was committed: there is nothing more to write.
    pub(crate) fn settled(mut self) {
        self.is_over();
    }

    /// What the engine's clock shows.
    pub(crate) fn now(&self) -> Timestamp {
        self.guard.0.engine.now()
    }

    fn is_over(&mut self) {
        self.over = true;
        self.guard.no_longer_renew(self.hold);
        self.guard.bell(&self.asked.principal, self.asked.key.as_str()).notify_waiters();
    }

    async fn end(mut self, end: End) -> Result<Finish, StoreError> {
        if !matches!(end, End::Completed(_)) {
            self.guard.let_go(self.hold);
        }
        // Not over before it is written: whoever is dropped in between gives up, which changes nothing that was completed.
        let ended = write(&self.guard, &self.asked, self.hold, end).await;
        self.is_over();
        match &ended {
            Ok(Finish::Done) => {}
            Ok(Finish::Lost) => {
                tracing::warn!(
                    endpoint = self.asked.endpoint,
                    "a request ended after its idempotency key was given to another, or reset"
                );
            }
            Err(error) => {
                tracing::error!(%error, endpoint = self.asked.endpoint, "how a request ended could not be recorded; its key will say that nobody knows");
            }
        }
        ended
    }
}

async fn write(guard: &Guard, asked: &Asked, hold: KeyHold, end: End) -> Result<Finish, StoreError> {
    let keep_for = asked.rules.keep_for;
    let mut rest = FIRST_REST;
    for _ in 1..TRIES {
        match once(guard, hold, end.clone(), keep_for).await {
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "how a request ended could not be recorded yet; it is tried again");
                tokio::time::sleep(rest).await;
                rest *= 2;
            }
            ended => return ended,
        }
    }
    once(guard, hold, end, keep_for).await
}

async fn once(guard: &Guard, hold: KeyHold, end: End, keep_for: Duration) -> Result<Finish, StoreError> {
    let engine = &guard.0.engine;
    let (store, now) = (engine.store(), engine.now());
    match end {
        End::Completed(response) => store.complete_key(now, hold, response, keep_for).await,
        End::Released(why) => store.release_key(now, hold, why).await,
        End::GivenUp(why) => store.give_up_key(now, hold, why, keep_for).await,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let (guard, asked, hold) = (self.guard.clone(), self.asked.clone(), self.hold);
        guard.no_longer_renew(hold);
        // Without a runtime the process is ending: the lease runs out, which says the same.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let why = End::GivenUp("whoever ran it went away without a word".to_owned());
            if let Err(error) = write(&guard, &asked, hold, why).await {
                tracing::warn!(%error, "an idempotency key could not be given up; its lease will run out");
            }
            guard.bell(&asked.principal, asked.key.as_str()).notify_waiters();
        });
    }
}
