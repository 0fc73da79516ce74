//! Keys from the client's side (R-I7): made once for what somebody wants done, and sent with every try of it.
//!
//! A key says "this is the same wish as before". So it must be the same as before, in whatever process and after whatever crash.
//! There are two ways to get there, and one that looks like them:
//!
//! - **kept**: a random key, written down before the first try and forgotten when the wish has come true ([`SavedKeys`]);
//! - **derived**: a hash of what is wished, which everybody who wishes the same works out alike ([`Key::from_content`]);
//! - a hash with the time behind it (`hash(url)` + `Date.now()`) is neither. The key of the second try differs from the first one's
//!   by the milliseconds between them, the service sees two wishes, and does both. The time makes a key unique, which is the one
//!   thing it must not be here.
//!
//! # The same key in other languages
//! The parts are hashed with SHA-256, each behind its length as eight bytes (the highest first), so that `("ab", "c")` and
//! `("a", "bc")` differ. The first sixteen bytes, with the version 8 and the variant of RFC 9562 put in, are the UUID.
//!
//! Python:
//! ```python
//! import hashlib, uuid
//!
//! def key_from_content(*parts: bytes) -> str:
//!     framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
//!     digest = bytearray(hashlib.sha256(framed).digest()[:16])
//!     digest[6] = digest[6] & 0x0F | 0x80
//!     digest[8] = digest[8] & 0x3F | 0x80
//!     return str(uuid.UUID(bytes=bytes(digest)))
//! ```
//!
//! TypeScript (Node; a browser has `crypto.subtle.digest` for the same):
//! ```typescript
//! import { createHash } from "node:crypto";
//!
//! export function keyFromContent(...parts: Uint8Array[]): string {
//!   const hash = createHash("sha256");
//!   for (const part of parts) {
//!     const length = Buffer.alloc(8);
//!     length.writeBigUInt64BE(BigInt(part.length));
//!     hash.update(length).update(part);
//!   }
//!   const digest = hash.digest().subarray(0, 16);
//!   digest[6] = (digest[6] & 0x0f) | 0x80;
//!   digest[8] = (digest[8] & 0x3f) | 0x80;
//!   const hex = digest.toString("hex");
//!   return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
//! }
//! ```
//!
//! | parts (UTF-8) | key |
//! |---|---|
//! | none | `e3b0c442-98fc-8c14-9afb-f4c8996fb924` |
//! | `https://example.com/` | `c9ccdaaf-c5f4-8591-bfb5-1aeae19c2a24` |
//! | `ab`, `c` | `601d5476-e2cc-8e2c-87a2-bba7a3226597` |
//! | `a`, `bc` | `3fafa1cf-2f19-87c1-929b-eb20cf0983f7` |
//! | `ブックマーク`, and an empty one | `0a9b5a23-6a43-8689-ad9b-2264f7de8103` |

use std::fmt;

use redrive::engine::Engine;
use redrive_store::StoreError;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The longest key that is sent.
pub const MAX_KEY_BYTES: usize = 255;

/// A key to send as `Idempotency-Key`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Key(String);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoChance(#[source] getrandom::Error),
    /// A text that cannot be sent as a key.
    #[error(
        "a key has 1 to {MAX_KEY_BYTES} visible ASCII characters, without quotes, commas and backslashes"
    )]
    BadKey,
    /// The store cannot keep it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Key {
    /// A key that nobody else has: a random UUID (version 4). Keep it until what it is for is over.
    ///
    /// ```
    /// use redrive_idempotency::client::Key;
    /// assert_ne!(Key::random().unwrap(), Key::random().unwrap());
    /// ```
    pub fn random() -> Result<Key, KeyError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(KeyError::NoChance)?;
        Ok(Key(uuid(bytes, 4)))
    }

    /// The key of this content, the same on every machine and at any time: a UUID (version 8) from a hash. Whoever wishes the same
    /// a second time on purpose must put something in that differs, such as the number of the order.
    ///
    /// ```
    /// use redrive_idempotency::client::Key;
    /// let key = Key::from_content(["POST", "/v1/bookmarks", "https://example.com/"]);
    /// assert_eq!(key, Key::from_content(["POST", "/v1/bookmarks", "https://example.com/"]));
    /// assert_ne!(key, Key::from_content(["POST", "/v1/bookmarks", "https://example.com/2"]));
    /// ```
    pub fn from_content<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Key {
        let digest = framed(parts);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Key(uuid(bytes, 8))
    }

    /// A key that somebody else has made, if it can be sent.
    ///
    /// ```
    /// use redrive_idempotency::client::Key;
    /// assert_eq!(Key::given("order-7").unwrap().as_str(), "order-7");
    /// assert!(Key::given("two words").is_err());
    /// ```
    pub fn given(text: impl Into<String>) -> Result<Key, KeyError> {
        let text = text.into();
        // What would have to be quoted, or could be read as two values of one header, is left out.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b'\\');
        let fits = (1..=MAX_KEY_BYTES).contains(&text.len());
        if fits && text.bytes().all(is_plain) { Ok(Key(text)) } else { Err(KeyError::BadKey) }
    }

    /// As it is sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        key.0
    }
}

/// The hash of parts, each behind its length.
pub(crate) fn framed<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Sixteen bytes as a UUID of that version.
fn uuid(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = (bytes[6] & 0x0f) | (version << 4);
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = format!("{:032x}", u128::from_be_bytes(bytes));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Keys that are kept: one for each logical save, by its name, the same from every process that works on the store and after every
/// crash, until the save is over. A key that nobody says is over is forgotten when it is as old as events become, unless an item of the
/// outbox has it.
///
/// ```
/// use redrive::engine::Engine;
/// use redrive_idempotency::client::SavedKeys;
///
/// # let dir = tempfile::tempdir().unwrap();
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let engine = Engine::open(dir.path().join("redrive.db")).unwrap();
/// let keys = SavedKeys::new(&engine);
/// let first = keys.key_of("draft-7").await.unwrap();
/// // Sent, lost, the process restarted, sent again:
/// assert_eq!(SavedKeys::new(&engine).key_of("draft-7").await.unwrap(), first);
/// // The service has answered, and the next save of that name is another one.
/// keys.over("draft-7", &first).await.unwrap();
/// assert_ne!(keys.key_of("draft-7").await.unwrap(), first);
/// # });
/// ```
#[derive(Debug, Clone)]
pub struct SavedKeys {
    engine: Engine,
}

impl SavedKeys {
    /// The keys that are kept in this engine's store.
    pub fn new(engine: &Engine) -> SavedKeys {
        SavedKeys { engine: engine.clone() }
    }

    /// The key of a save. It is on disk when this answers; several who ask at once get the same.
    pub async fn key_of(&self, save: &str) -> Result<Key, KeyError> {
        let fresh = Key::random()?;
        let kept = self.engine.store().saved_key(self.engine.now(), save.to_owned(), fresh.into()).await?;
        Ok(Key(kept))
    }

    /// The save with this key is over, well or for good: its key is forgotten, unless somebody has saved something else under the name
    /// since. Whether it was there.
    pub async fn over(&self, save: &str, key: &Key) -> Result<bool, KeyError> {
        Ok(self.engine.store().forget_saved_key(save.to_owned(), key.0.clone()).await?)
    }
}
