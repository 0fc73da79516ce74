//! Payloads as they are told: as JSON where every reader can take it, and in base64 otherwise.
//!
//! A payload that came in as bytes may be JSON by the letter and yet end who reads it: nested without end, or with half a
//! character in it. It would take along what stands beside it in the answer.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::body::nests_deeper;
use crate::settings::MAX_DEPTH;

/// The payload, where it is JSON within the limits that a body has.
pub(crate) fn as_json(payload: &[u8]) -> Option<&RawValue> {
    if nests_deeper(payload, MAX_DEPTH) {
        return None;
    }
    let json = serde_json::from_slice::<&RawValue>(payload).ok()?;
    (!has_half_pair(json.get())).then_some(json)
}

/// Whether JSON holds half of a surrogate pair: that is JSON by the letter, and no reader takes it.
pub(crate) fn has_half_pair(json: &str) -> bool {
    let may_be_half = json.contains("\\ud") || json.contains("\\uD");
    may_be_half && serde_json::from_str::<Value>(json).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Issue 8, limits: what is told as JSON keeps the limits that are kept by what comes in.
    #[test]
    fn only_what_every_reader_takes_is_told_as_json() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for good in ["null", " {\"a\": 1.00} ", r#""\ud83d\ude00""#, r#""\\ud800""#, &deep(64)] {
            assert!(as_json(good.as_bytes()).is_some(), "{good}");
        }
        for bad in ["", "{", r#""\ud800""#, r#"{"\uDFFF":1}"#, &deep(65), &deep(300_000), "\u{feff}1"] {
            assert!(as_json(bad.as_bytes()).is_none(), "{bad:.80}");
        }
        assert!(as_json(b"\"\xff\"").is_none());
    }
}
