//! Keys: where they come from, and the cipher under them.
//!
//! A key never leaves its ring, is wiped when the ring goes, and is never printed. Keys come from a file that only its
//! owner can read, or from the environment; not from an argument, which every process of the machine can see.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{Key as CipherKey, Tag, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::error::{StoreError, Trouble};

/// How long a key is.
pub const KEY_BYTES: usize = 32;
/// The longest name of a key.
const MAX_ID_BYTES: usize = 64;
/// More than any ring needs.
const MAX_FILE_BYTES: u64 = 64 << 10;
const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;

/// The keys that a process has. The first one is the one that a store is to be sealed with; the others open what was
/// sealed before.
///
/// ```
/// use redrive_store::KeyRing;
///
/// let line = KeyRing::generate("2027-01")?;
/// let ring = KeyRing::parse("an example", &line)?;
/// assert_eq!(ring.ids().collect::<Vec<_>>(), ["2027-01"]);
/// assert_eq!(format!("{ring:?}"), "KeyRing { .. }");
/// # Ok::<(), redrive_store::KeyTrouble>(())
/// ```
#[derive(Clone)]
pub struct KeyRing(Arc<Vec<Key>>);

struct Key {
    id: String,
    /// Wipes itself.
    cipher: XChaCha20Poly1305,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").finish_non_exhaustive()
    }
}

/// Why keys cannot be used. Nothing of a key is ever in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTrouble {
    /// The file cannot be read.
    #[error("cannot read the keys in {path}: {why}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Others can read the file.
    #[error("{path} can be read by others (mode {mode:03o}); make it yours alone: chmod 600 {path}")]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// There is no key in it.
    #[error("{from} holds no key; a line is `<key-id> <base64 of 32 bytes>`")]
    Empty {
        /// Where.
        from: String,
    },
    /// A line is not a key.
    #[error("{from}, line {line}: {trouble}")]
    Line {
        /// Where.
        from: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        trouble: LineTrouble,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    NoChance(String),
}

/// What is wrong with a line of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineTrouble {
    /// Not two words.
    #[error("a line is `<key-id> <base64 of 32 bytes>`")]
    NotTwoWords,
    /// Not a name.
    #[error("a key's id has 1 to 64 letters, digits, dots, dashes or underscores")]
    BadId,
    /// Not base64.
    #[error("what follows the id of key `{key}` is not base64")]
    NotBase64 {
        /// The key's id.
        key: String,
    },
    /// Too short or too long.
    #[error("key `{key}` has {bytes} bytes; a key has 32")]
    WrongLength {
        /// The key's id.
        key: String,
        /// How many.
        bytes: usize,
    },
    /// A second key of the same name.
    #[error("there is a key `{key}` already")]
    Twice {
        /// The key's id.
        key: String,
    },
}

impl KeyRing {
    /// Reads a key a line, `<key-id> <base64 of 32 bytes>`; `;` ends a line, too, and `#` begins a comment. `from` says in
    /// messages where they came from.
    pub fn parse(from: &str, text: &str) -> Result<KeyRing, KeyTrouble> {
        let mut keys: Vec<Key> = Vec::new();
        for (at, line) in text.split(['\n', ';']).enumerate() {
            let line_trouble = |trouble| KeyTrouble::Line { from: from.to_owned(), line: at + 1, trouble };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let key = read_key(line).map_err(line_trouble)?;
            if keys.iter().any(|known| known.id == key.id) {
                return Err(line_trouble(LineTrouble::Twice { key: key.id }));
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(KeyTrouble::Empty { from: from.to_owned() });
        }
        Ok(KeyRing(Arc::new(keys)))
    }

    /// Reads a file of keys, which nobody but its owner may be able to read.
    pub fn read_file(path: &Path) -> Result<KeyRing, KeyTrouble> {
        let unreadable = |why: String| KeyTrouble::Unreadable { path: path.to_owned(), why };
        let file = std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?;
        // Of the open file, not of the name: it may be another one by now.
        let found = file.metadata().map_err(|error| unreadable(error.to_string()))?;
        if found.is_dir() {
            return Err(unreadable("it is a directory".to_owned()));
        }
        let mode = found.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyTrouble::OpenToOthers { path: path.to_owned(), mode });
        }
        // Room for all of it at once: a text that grows leaves copies of itself behind.
        let room = usize::try_from(found.len().min(MAX_FILE_BYTES)).unwrap_or_default() + 1;
        let mut text = Zeroizing::new(String::with_capacity(room));
        let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| unreadable(error.to_string()))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(unreadable("it is too large for a file of keys".to_owned()));
        }
        KeyRing::parse(&path.display().to_string(), &text)
    }

    /// A fresh key as a line for a file of keys. It is a secret: whoever has it can read the store.
    pub fn generate(id: &str) -> Result<Zeroizing<String>, KeyTrouble> {
        if !is_id(id) {
            let from = "the name of a key".to_owned();
            return Err(KeyTrouble::Line { from, line: 1, trouble: LineTrouble::BadId });
        }
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *bytes).map_err(|error| KeyTrouble::NoChance(error.to_string()))?;
        let encoded = Zeroizing::new(BASE64.encode(*bytes));
        Ok(Zeroizing::new(format!("{id} {}", *encoded)))
    }

    /// The names of the keys, the first one first.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|key| key.id.as_str())
    }

    pub(super) fn id(&self, at: usize) -> Option<&str> {
        self.0.get(at).map(|key| key.id.as_str())
    }

    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.0.iter().position(|key| key.id == id)
    }

    /// Behind `head`: the nonce, the sealed bytes and the tag.
    pub(super) fn seal(
        &self,
        at: usize,
        bound_to: &[u8],
        head: Vec<u8>,
        plain: &[u8],
    ) -> Result<Vec<u8>, StoreError> {
        let mut nonce = [0; NONCE_BYTES];
        let no_chance = |why: String| StoreError::from(Trouble::NoChance(why));
        getrandom::fill(&mut nonce).map_err(|error| no_chance(error.to_string()))?;
        let mut sealed = head;
        sealed.reserve_exact(NONCE_BYTES + plain.len() + TAG_BYTES);
        sealed.extend_from_slice(&nonce);
        let begins = sealed.len();
        sealed.extend_from_slice(plain);
        let cipher = &self.0[at].cipher;
        let tag = cipher
            .encrypt_inout_detached(&XNonce::from(nonce), bound_to, InOutBuf::from(&mut sealed[begins..]))
            .map_err(|_| {
                Trouble::Refused(crate::error::Refusal::PayloadTooLarge {
                    bytes: plain.len(),
                    most: crate::job::MAX_PAYLOAD_BYTES,
                })
            })?;
        sealed.extend_from_slice(&tag);
        Ok(sealed)
    }

    /// What was sealed; absent when the key is another one, or anything was changed.
    pub(super) fn open(&self, at: usize, bound_to: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_at_checked(NONCE_BYTES)?;
        let (sealed, tag) = rest.split_at_checked(rest.len().checked_sub(TAG_BYTES)?)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        let tag: [u8; TAG_BYTES] = tag.try_into().ok()?;
        let mut plain = sealed.to_vec();
        self.0[at]
            .cipher
            .decrypt_inout_detached(
                &XNonce::from(nonce),
                bound_to,
                InOutBuf::from(&mut plain[..]),
                &Tag::from(tag),
            )
            .ok()?;
        Some(plain)
    }
}

fn read_key(line: &str) -> Result<Key, LineTrouble> {
    let mut words = line.split_whitespace();
    let (Some(id), Some(encoded), None) = (words.next(), words.next(), words.next()) else {
        return Err(LineTrouble::NotTwoWords);
    };
    if !is_id(id) {
        return Err(LineTrouble::BadId);
    }
    let key = id.to_owned();
    let bytes =
        Zeroizing::new(BASE64.decode(encoded).map_err(|_| LineTrouble::NotBase64 { key: key.clone() })?);
    let bytes: &[u8; KEY_BYTES] = bytes
        .as_slice()
        .try_into()
        .map_err(|_| LineTrouble::WrongLength { key: key.clone(), bytes: bytes.len() })?;
    let mut whole = CipherKey::from(*bytes);
    let cipher = XChaCha20Poly1305::new(&whole);
    zeroize::Zeroize::zeroize(whole.as_mut_slice());
    Ok(Key { id: key, cipher })
}

fn is_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
