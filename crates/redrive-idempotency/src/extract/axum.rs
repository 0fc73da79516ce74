//! [`Idem`] as an argument of handlers.

use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;

use super::Idem;
use crate::key::IDEMPOTENCY_KEY;
use crate::problem::{Problem, language};

/// Without a key the request is answered with 400; a key that no layer guards is a mistake of the service, and 500.
impl<S: Sync> FromRequestParts<S> for Idem {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Idem, Response> {
        if let Some(idem) = parts.extensions.get::<Idem>() {
            return Ok(idem.clone());
        }
        if parts.headers.contains_key(IDEMPOTENCY_KEY) {
            tracing::error!(
                path = parts.uri.path(),
                "a handler wants the idempotency key of a route that no IdempotencyLayer guards"
            );
            return Err(StatusCode::INTERNAL_SERVER_ERROR.into_response());
        }
        let refused = Problem::KeyMissing.response(language(&parts.headers));
        Err(refused.map(axum_core::body::Body::from))
    }
}

/// Nothing when the request is not guarded.
impl<S: Sync> OptionalFromRequestParts<S> for Idem {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Option<Idem>, Self::Rejection> {
        Ok(parts.extensions.get::<Idem>().cloned())
    }
}
