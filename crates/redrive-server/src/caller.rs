//! Who asks, and how far that reaches.

use axum::extract::FromRequestParts;
use http::request::Parts;
use redrive::engine::queue_fits;

use crate::problem::{Code, Problem};

pub use redrive::engine::Scope;

/// Who somebody on this machine is, while no token exists.
const LOCAL: &str = "local";

/// Who asks. It stands in the extensions of every request that passed the front.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What acts are recorded under: `local`, or `token:<id>`.
    pub who: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// The queues it may do it in, as patterns in which `*` stands for anything; none: all of them.
    pub queues: Vec<String>,
    /// Why it asks, if the request says so in `Redrive-Reason`.
    pub why: Option<String>,
}

impl Caller {
    /// Somebody on this machine, while no token exists.
    pub fn local() -> Caller {
        Caller { who: LOCAL.to_owned(), scopes: Scope::ALL.to_vec(), queues: Vec::new(), why: None }
    }

    /// Whether it is somebody on this machine, while no token exists.
    pub(crate) fn is_local(&self) -> bool {
        self.who == LOCAL
    }

    /// Somebody who asks for what everybody may know.
    pub(crate) fn nobody() -> Caller {
        Caller { who: "nobody".to_owned(), scopes: Vec::new(), queues: Vec::new(), why: None }
    }

    /// Whether it has this scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether it may touch this queue.
    pub fn reaches(&self, queue: &str) -> bool {
        self.queues.is_empty() || self.queues.iter().any(|pattern| queue_fits(pattern, queue))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        // Taken out, not copied: the front has put it there for one handler.
        parts.extensions.remove::<Caller>().ok_or(Problem::of(Code::Unauthorized))
    }
}
