//! The language of a request, by its Accept-Language.

use axum::extract::FromRequestParts;
use http::request::Parts;
use redrive_policy::Lang;

/// The language that the caller wants to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Language(pub(crate) Lang);

impl<S: Send + Sync> FromRequestParts<S> for Language {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Language, Self::Rejection> {
        Ok(Language(redrive_idempotency::language(&parts.headers)))
    }
}
