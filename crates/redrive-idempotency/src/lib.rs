//! Never twice: idempotency keys as a tower layer, as a proxy, and from the client's side (R-I1 to R-I8).
//!
//! A request's key is taken in the store before its handler runs, and completed with the answer. Whoever sends the same again gets
//! that answer; nobody runs it a second time.

mod extract;
mod guard;
#[cfg(doctest)]
mod guides;
mod key;
mod layer;
mod problem;
#[cfg(feature = "proxy")]
pub mod proxy;
mod replay;

pub use extract::{CompleteError, Idem};
pub use guard::{Asked, Entered, Guard, Held, Looked};
pub use key::{BadKey, IDEMPOTENCY_KEY, Key};
pub use layer::{AnswerBody, Answering, BadRoute, IdempotencyLayer, Idempotent, REDRIVE_IDEMPOTENCY};
pub use problem::{Doubt, Problem, Refusal};
pub use replay::{IDEMPOTENCY_REPLAYED, kept};

/// The rules by which requests are guarded.
pub use redrive_policy::idempotency as rules;
pub mod client;
#[cfg(feature = "outbox")]
pub mod outbox;
