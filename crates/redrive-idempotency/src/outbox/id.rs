//! The id of an item, as people write it.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// An item of the outbox. Written `outbox-7`.
///
/// ```
/// use redrive_idempotency::outbox::ItemId;
/// assert_eq!("outbox-7".parse(), Ok(ItemId(7)));
/// assert_eq!("7".parse(), Ok(ItemId(7)));
/// assert_eq!(ItemId(7).to_string(), "outbox-7");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub i64);

/// A text that is no such id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id such as outbox-7")]
pub struct BadItemId;

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "outbox-{}", self.0)
    }
}

impl FromStr for ItemId {
    type Err = BadItemId;

    fn from_str(text: &str) -> Result<ItemId, BadItemId> {
        let digits = text.strip_prefix("outbox-").unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadItemId);
        }
        digits.parse().map(ItemId).map_err(|_| BadItemId)
    }
}

impl Serialize for ItemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
