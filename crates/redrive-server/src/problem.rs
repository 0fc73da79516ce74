//! What a client is told when its request is not done: application/problem+json with a code that never changes, and no insides.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use redrive::engine::EngineError;
use redrive_store::StoreError;
use serde::Serialize;

/// The kinds of problems. Programs tell them apart by [`Code::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The body or a parameter is not what it must be.
    Invalid,
    /// There is no such thing.
    NotFound,
    /// There is no such method on this path.
    MethodNotAllowed,
    /// The body is longer than is allowed.
    TooLarge,
    /// The body is not JSON by its own account.
    UnsupportedMediaType,
    /// No token, or one that does not hold.
    Unauthorized,
    /// The token does not reach so far.
    Forbidden,
    /// The thing is in another state than the request needs.
    Conflict,
    /// Too many requests.
    TooMany,
    /// The store cannot be asked, or is full.
    Unavailable,
    /// Something broke here.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Code; 11] = [
        Code::Invalid,
        Code::NotFound,
        Code::MethodNotAllowed,
        Code::TooLarge,
        Code::UnsupportedMediaType,
        Code::Unauthorized,
        Code::Forbidden,
        Code::Conflict,
        Code::TooMany,
        Code::Unavailable,
        Code::Internal,
    ];

    /// Its name, which never changes.
    pub const fn name(self) -> &'static str {
        match self {
            Code::Invalid => "invalid",
            Code::NotFound => "not-found",
            Code::MethodNotAllowed => "method-not-allowed",
            Code::TooLarge => "too-large",
            Code::UnsupportedMediaType => "unsupported-media-type",
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::Conflict => "conflict",
            Code::TooMany => "too-many-requests",
            Code::Unavailable => "unavailable",
            Code::Internal => "internal",
        }
    }

    /// Its status.
    pub const fn status(self) -> StatusCode {
        match self {
            Code::Invalid => StatusCode::BAD_REQUEST,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::Conflict => StatusCode::CONFLICT,
            Code::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

/// A problem, as it is told.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// What to do about it, in one or two sentences.
    pub detail: String,
}

impl Problem {
    /// A problem with these words.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into() }
    }
}

#[derive(Serialize)]
struct Told<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let told = Told {
            kind: format!("urn:redrive:problem:{}", self.code.name()),
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: &self.detail,
            code: self.code.name(),
        };
        // Texts and numbers always become JSON.
        let body = serde_json::to_vec(&told).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        tracing::warn!(%error, "the store could not do what was asked");
        if error.may_pass() {
            return Problem::new(Code::Unavailable, "the store cannot do this now; try again shortly");
        }
        Problem::new(Code::Internal, "the store could not do this; the server's log says why")
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        match error {
            EngineError::Store(error) => error.into(),
            error => Problem::new(Code::Invalid, error.to_string()),
        }
    }
}
