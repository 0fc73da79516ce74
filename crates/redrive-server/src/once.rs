//! An answer with something in it that is shown once: who sends the same key again gets the rest of it.

use axum::Json;
use axum::response::{IntoResponse, Response};
use redrive_idempotency::KeptInstead;
use serde::Serialize;

/// What is shown now, and what is kept for who asks again.
pub(crate) struct Once<T> {
    pub(crate) shown: T,
    pub(crate) kept: T,
}

impl<T: Serialize> IntoResponse for Once<T> {
    fn into_response(self) -> Response {
        // Plain structures are always JSON; and nothing is the safe thing to keep.
        let kept = serde_json::to_vec(&self.kept).unwrap_or_default();
        let mut answer = Json(self.shown).into_response();
        answer.extensions_mut().insert(KeptInstead(kept.into()));
        answer
    }
}
