//! Never twice: idempotency keys as a tower layer, as a proxy, and from the client's side (R-I1 to R-I8).
//!
//! A request's key is taken in the store before its handler runs, and completed with the answer. Whoever sends the same again gets
//! that answer; nobody runs it a second time.
//!
//! Whoever sends makes the key once and keeps it, or derives it from what is sent (`client`); what cannot be sent now waits in the
//! `outbox` (feature `outbox`).

pub mod client;
mod extract;
mod guard;
#[cfg(doctest)]
mod guides;
mod key;
mod layer;
#[cfg(feature = "outbox")]
pub mod outbox;
mod problem;
#[cfg(feature = "proxy")]
pub mod proxy;
mod replay;
mod word;

pub use extract::{CompleteError, Idem};
pub use guard::{Asked, Entered, Guard, Held, KeyOwner, Looked};
pub use key::{BadKey, IDEMPOTENCY_KEY, Key};
pub use layer::{AnswerBody, Answering, BadRoute, IdempotencyLayer, Idempotent};
pub use problem::{Doubt, FreshProblem, Problem, Refusal, language};
pub use replay::{IDEMPOTENCY_REPLAYED, kept};
pub use word::{KeptInstead, REDRIVE_IDEMPOTENCY};

/// The rules by which requests are guarded.
pub use redrive_policy::idempotency as rules;
