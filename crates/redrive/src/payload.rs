//! A payload as a person mends it: JSON that is changed in places and otherwise stays as it was written, and what differs
//! between two of them (R-D8). `dlq edit` and the API go this way.

mod diff;
mod document;
mod patch;
mod path;

pub use diff::{Change, Hunk, changes};
pub use document::Document;
pub use patch::{MAX_OPERATIONS, Operation, PatchError};
pub use path::{PathTrouble, Step, parse as parse_path, up_to};

/// A payload as lines: JSON indented, text as it is, other bytes only by their number.
///
/// ```
/// assert_eq!(redrive::payload::readable(br#"{"a":1}"#), "{\n  \"a\": 1\n}\n");
/// assert_eq!(redrive::payload::readable(b"\xff\xfe"), "(2 bytes that are no text)\n");
/// ```
pub fn readable(payload: &[u8]) -> String {
    match std::str::from_utf8(payload) {
        Ok(text) => Document::parse(text).map_or_else(|_| text.to_owned(), |document| document.pretty()),
        Err(_) => format!("({} bytes that are no text)\n", payload.len()),
    }
}
