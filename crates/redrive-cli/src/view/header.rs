//! A header of a request or of an answer, in the one form that JSON has for it.

use serde::Serialize;

/// One header; what is secret in its value is blanked by whoever makes it.
#[derive(Debug, Serialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}
