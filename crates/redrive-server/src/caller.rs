//! Who asks, and how far that reaches.

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::problem::{Code, Problem};

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Looking at everything but payloads.
    Read,
    /// Looking at payloads and outputs.
    ReadPayload,
    /// Enqueuing.
    Produce,
    /// Leasing and settling.
    Work,
    /// Redriving, editing, pausing, discarding.
    Operate,
    /// Tokens and settings.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 6] =
        [Scope::Read, Scope::ReadPayload, Scope::Produce, Scope::Work, Scope::Operate, Scope::Admin];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::ReadPayload => "read:payload",
            Scope::Produce => "produce",
            Scope::Work => "work",
            Scope::Operate => "operate",
            Scope::Admin => "admin",
        }
    }
}

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
        Caller { who: "local".to_owned(), scopes: Scope::ALL.to_vec(), queues: Vec::new(), why: None }
    }

    /// Whether it has this scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Whether it may touch this queue.
    pub fn reaches(&self, queue: &str) -> bool {
        self.queues.is_empty() || self.queues.iter().any(|pattern| fits(pattern, queue))
    }
}

/// Whether a text fits a pattern in which `*` stands for any characters, also none.
fn fits(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|left| {
            left.char_indices().map(|(at, _)| at).chain([left.len()]).any(|at| fits(rest, &left[at..]))
        }),
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Problem> {
        // Taken out, not copied: the front has put it there for one handler.
        parts.extensions.remove::<Caller>().ok_or(Problem::of(Code::Unauthorized))
    }
}
