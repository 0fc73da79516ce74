//! The kinds of problems. A code never changes; programs tell problems apart by it.

use std::time::Duration;

use http::StatusCode;

macro_rules! codes {
    ($($(#[$about:meta])* $code:ident = $name:literal, $status:ident;)*) => {
        /// The kinds of problems. Programs tell them apart by [`Code::name`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Code { $($(#[$about])* $code,)* }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$code,)*];

            /// Its name, which never changes.
            pub const fn name(self) -> &'static str {
                match self { $(Code::$code => $name,)* }
            }

            /// Its status.
            pub const fn status(self) -> StatusCode {
                match self { $(Code::$code => StatusCode::$status,)* }
            }
        }
    };
}

codes! {
    /// The body or a parameter is not what it must be.
    Invalid = "invalid", BAD_REQUEST;
    /// A filter that cannot be read.
    InvalidFilter = "invalid-filter", BAD_REQUEST;
    /// A policy that nobody has defined.
    UnknownPolicy = "unknown-policy", BAD_REQUEST;
    /// There is no such thing.
    NotFound = "not-found", NOT_FOUND;
    /// There is no such method on this path.
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED;
    /// The body, or a payload in it, is longer than is allowed.
    TooLarge = "too-large", PAYLOAD_TOO_LARGE;
    /// The body is not JSON by its own account.
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE;
    /// No token, or one that does not hold.
    Unauthorized = "unauthorized", UNAUTHORIZED;
    /// It is not allowed: the token, the setup of the server, or the name that it was called by does not reach so far.
    Forbidden = "forbidden", FORBIDDEN;
    /// The thing is in another state than the request needs.
    Conflict = "conflict", CONFLICT;
    /// A dead letter of a cause that time does not heal: only for somebody who means it.
    Permanent = "permanent", CONFLICT;
    /// Too many requests.
    TooMany = "too-many-requests", TOO_MANY_REQUESTS;
    /// The store cannot be asked now.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE;
    /// The server is about to end.
    Draining = "draining", SERVICE_UNAVAILABLE;
    /// The connection to the store broke off while it committed: whether it was done is not known.
    OutcomeUnknown = "outcome-unknown", SERVICE_UNAVAILABLE;
    /// The store's disk is full.
    StoreFull = "store-full", INSUFFICIENT_STORAGE;
    /// Something broke here.
    Internal = "internal", INTERNAL_SERVER_ERROR;
}

impl Code {
    /// When it is worth asking again, if ever.
    pub(super) const fn retry_after(self) -> Option<Duration> {
        match self {
            Code::Unavailable | Code::OutcomeUnknown | Code::TooMany => Some(Duration::from_secs(1)),
            Code::Draining => Some(Duration::from_secs(5)),
            Code::StoreFull => Some(Duration::from_secs(30)),
            Code::Invalid
            | Code::InvalidFilter
            | Code::UnknownPolicy
            | Code::NotFound
            | Code::MethodNotAllowed
            | Code::TooLarge
            | Code::UnsupportedMediaType
            | Code::Unauthorized
            | Code::Forbidden
            | Code::Conflict
            | Code::Permanent
            | Code::Internal => None,
        }
    }
}
