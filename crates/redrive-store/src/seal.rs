//! Encryption at rest (R-D7): what goes in and out of a cell of the store.
//!
//! A cell is sealed where its value is bound and opened where its column is read; nothing in between knows of keys. A
//! sealed cell names its key and is bound to its store, its table, its column and its row: moved anywhere else it does not
//! open. Without a key a value is stored as it is, and costs nothing.
//!
//! No value can be mistaken for a sealed one: a plain value that begins like one is written with a mark before it.

mod keeper;
mod key;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;

pub(crate) use keeper::{Keeper, KeyRow};
pub use key::{KEY_BYTES, KeyRing, KeyTrouble, LineTrouble};

use crate::error::{StoreError, Trouble};

/// Before the bytes of a sealed cell, and before plain ones that begin with the same four. No UTF-8 text has an `ff`.
const MAGIC: [u8; 4] = [0xff, b'r', b'd', b'v'];
const SEALED_BYTES: u8 = 1;
const PLAIN_BYTES: u8 = 0;
/// Before the text of a sealed cell.
const SEALED_TEXT: &str = "sealed:rdv1:";
/// Before a plain text that begins with either of these two.
const PLAIN_TEXT: &str = "plain:rdv1:";

/// Every column that is sealed. What is not here can be read by whoever can read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// By the job's id.
    JobPayload,
    /// By the job's id.
    JobOverrides,
    /// By the job's id.
    ProgressHint,
    /// By the job's id.
    LeaseCancelWhy,
    /// By the job's id.
    LetterMessage,
    /// By the job's id.
    LetterContext,
    /// By the job's id.
    LetterReport,
    /// By the fingerprint: see `effects::sample_row`.
    GroupSample,
    /// By the number of the replaced payload's row.
    VersionPayload,
    /// By the event's place in the stream.
    EventDetail,
    /// By the line's number in the store.
    AsideWhy,
    /// By the line's number in the store.
    AsideText,
    /// By the task's id.
    TaskPlan,
    /// By the task's id.
    TaskProgress,
    /// By the task's id.
    TaskWhy,
    /// By the task's id.
    TaskReport,
    /// By the subject: see `effects::sample_row`.
    AckNote,
    /// By the record's number.
    KeyHeaders,
    /// By the record's number.
    KeyBody,
    /// By the item's number.
    OutboxCall,
    /// By the item's number.
    OutboxLast,
    /// By space and name: see `board::bound_row`.
    NoticeValue,
    /// What shows that a key is the right one; the row is 0.
    KeyProof,
}

impl Cell {
    /// Table and column. Part of what is authenticated: a name never changes.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Cell::JobPayload => "job.payload",
            Cell::JobOverrides => "job.overrides",
            Cell::ProgressHint => "progress.hint",
            Cell::LeaseCancelWhy => "lease.cancel_why",
            Cell::LetterMessage => "dead_letter.error_message",
            Cell::LetterContext => "dead_letter.context",
            Cell::LetterReport => "dead_letter.report",
            Cell::GroupSample => "letter_group.sample",
            Cell::VersionPayload => "payload_version.payload",
            Cell::EventDetail => "event.detail",
            Cell::AsideWhy => "aside.why",
            Cell::AsideText => "aside.text",
            Cell::TaskPlan => "task_plan.plan",
            Cell::TaskProgress => "task.progress",
            Cell::TaskWhy => "task.why",
            Cell::TaskReport => "task.report",
            Cell::AckNote => "escalation_ack.note",
            Cell::KeyHeaders => "idempotency_keys.response_headers",
            Cell::KeyBody => "idempotency_keys.response_body",
            Cell::OutboxCall => "outbox.call",
            Cell::OutboxLast => "outbox.last",
            Cell::NoticeValue => "notice.value",
            Cell::KeyProof => "seal_key.proof",
        }
    }
}

/// The keys of one store as they hold during one transaction.
#[derive(Debug)]
pub(crate) struct Seals {
    ring: Option<KeyRing>,
    store_id: u64,
    /// The place in the ring of the key that seals; absent: nothing is sealed.
    current: Option<usize>,
    /// Whether every cell is sealed, so that a plain one must have been put there by somebody else.
    whole: bool,
}

impl Seals {
    /// Nothing is sealed.
    pub(crate) fn none(store_id: u64) -> Seals {
        Seals { ring: None, store_id, current: None, whole: false }
    }

    /// The id of the key that seals.
    pub(crate) fn current(&self) -> Option<&str> {
        self.current.and_then(|at| self.ring.as_ref()?.id(at))
    }

    /// Whether every cell is sealed.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// The bytes to be stored.
    pub(crate) fn seal_bytes<'a>(
        &self,
        cell: Cell,
        row: i64,
        plain: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, StoreError> {
        let Some((ring, at)) = self.ring.as_ref().zip(self.current) else {
            if !plain.starts_with(&MAGIC) {
                return Ok(Cow::Borrowed(plain));
            }
            return Ok([&MAGIC, &[PLAIN_BYTES][..], plain].concat().into());
        };
        let id = ring.id(at).unwrap_or_default();
        let mut head = Vec::with_capacity(MAGIC.len() + 2 + id.len());
        head.extend_from_slice(&MAGIC);
        head.push(SEALED_BYTES);
        // Ids are at most 64 bytes.
        head.push(u8::try_from(id.len()).unwrap_or(u8::MAX));
        head.extend_from_slice(id.as_bytes());
        Ok(ring.seal(at, &self.bound_to(cell, row, id), head, plain)?.into())
    }

    /// The text to be stored.
    pub(crate) fn seal_text<'a>(
        &self,
        cell: Cell,
        row: i64,
        plain: &'a str,
    ) -> Result<Cow<'a, str>, StoreError> {
        let Some((ring, at)) = self.ring.as_ref().zip(self.current) else {
            if !plain.starts_with(SEALED_TEXT) && !plain.starts_with(PLAIN_TEXT) {
                return Ok(Cow::Borrowed(plain));
            }
            return Ok([PLAIN_TEXT, plain].concat().into());
        };
        let id = ring.id(at).unwrap_or_default();
        let sealed = ring.seal(at, &self.bound_to(cell, row, id), Vec::new(), plain.as_bytes())?;
        Ok(format!("{SEALED_TEXT}{id}:{}", BASE64.encode(sealed)).into())
    }

    /// The same for a text that may be absent.
    pub(crate) fn seal_some<'a>(
        &self,
        cell: Cell,
        row: i64,
        plain: Option<&'a str>,
    ) -> Result<Option<Cow<'a, str>>, StoreError> {
        plain.map(|plain| self.seal_text(cell, row, plain)).transpose()
    }

    /// The bytes that were sealed.
    pub(crate) fn open_bytes(
        &self,
        cell: Cell,
        row: i64,
        mut stored: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        let damaged = || damaged(cell, row);
        match bytes_form(&stored).ok_or_else(damaged)? {
            Form::Plain | Form::Marked if self.whole => Err(damaged()),
            Form::Plain => Ok(stored),
            Form::Marked => {
                stored.drain(..=MAGIC.len());
                Ok(stored)
            }
            Form::Sealed { key, sealed } => self.open(cell, row, key, sealed),
        }
    }

    /// The text that was sealed.
    pub(crate) fn open_text(&self, cell: Cell, row: i64, mut stored: String) -> Result<String, StoreError> {
        let damaged = || damaged(cell, row);
        match text_form(&stored).ok_or_else(damaged)? {
            Form::Plain | Form::Marked if self.whole => Err(damaged()),
            Form::Plain => Ok(stored),
            Form::Marked => {
                stored.drain(..PLAIN_TEXT.len());
                Ok(stored)
            }
            Form::Sealed { key, sealed } => {
                let sealed = BASE64.decode(sealed).map_err(|_| damaged())?;
                String::from_utf8(self.open(cell, row, key, &sealed)?).map_err(|_| damaged())
            }
        }
    }

    /// The same for a text that may be absent.
    pub(crate) fn open_some(
        &self,
        cell: Cell,
        row: i64,
        stored: Option<String>,
    ) -> Result<Option<String>, StoreError> {
        stored.map(|stored| self.open_text(cell, row, stored)).transpose()
    }

    /// Whether these bytes are not under the key that seals now.
    pub(crate) fn is_stale_bytes(&self, stored: &[u8]) -> bool {
        self.is_stale(bytes_form(stored).as_ref())
    }

    /// Whether this text is not under the key that seals now.
    pub(crate) fn is_stale_text(&self, stored: &str) -> bool {
        self.is_stale(text_form(stored).as_ref())
    }

    fn is_stale(&self, form: Option<&Form<'_>>) -> bool {
        let under = match form {
            Some(Form::Sealed { key, .. }) => Some(*key),
            Some(Form::Plain | Form::Marked) | None => None,
        };
        under != self.current()
    }

    fn open(&self, cell: Cell, row: i64, key: &str, sealed: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (ring, at) = self
            .ring
            .as_ref()
            .and_then(|ring| Some((ring, ring.find(key)?)))
            .ok_or_else(|| missing(key, self.ring.as_ref()))?;
        ring.open(at, &self.bound_to(cell, row, key), sealed).ok_or_else(|| damaged(cell, row))
    }

    /// What a sealed cell is bound to. Each part has one length or says its own, so no two cells are bound to the same.
    fn bound_to(&self, cell: Cell, row: i64, key: &str) -> Vec<u8> {
        let name = cell.name();
        let mut bound = Vec::with_capacity(26 + name.len() + key.len());
        bound.extend_from_slice(b"redrive\x01");
        bound.extend_from_slice(&self.store_id.to_le_bytes());
        bound.extend_from_slice(&row.to_le_bytes());
        bound.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        bound.extend_from_slice(name.as_bytes());
        bound.extend_from_slice(key.as_bytes());
        bound
    }
}

/// What a stored value is.
enum Form<'a> {
    /// A value as it was given.
    Plain,
    /// The same behind a mark.
    Marked,
    /// Under this key.
    Sealed { key: &'a str, sealed: &'a [u8] },
}

/// Absent: it begins like a sealed cell and goes on like none.
fn bytes_form(stored: &[u8]) -> Option<Form<'_>> {
    let Some(rest) = stored.strip_prefix(&MAGIC) else { return Some(Form::Plain) };
    match rest.split_first()? {
        (&PLAIN_BYTES, _) => Some(Form::Marked),
        (&SEALED_BYTES, rest) => {
            let (length, rest) = rest.split_first()?;
            let (key, sealed) = rest.split_at_checked(usize::from(*length))?;
            Some(Form::Sealed { key: std::str::from_utf8(key).ok()?, sealed })
        }
        _ => None,
    }
}

/// Absent: it begins like a sealed cell and goes on like none.
fn text_form(stored: &str) -> Option<Form<'_>> {
    if stored.starts_with(PLAIN_TEXT) {
        return Some(Form::Marked);
    }
    let Some(rest) = stored.strip_prefix(SEALED_TEXT) else { return Some(Form::Plain) };
    let (key, sealed) = rest.split_once(':')?;
    Some(Form::Sealed { key, sealed: sealed.as_bytes() })
}

fn damaged(cell: Cell, row: i64) -> StoreError {
    Trouble::Unsealable { cell: cell.name(), row }.into()
}

fn missing(key: &str, ring: Option<&KeyRing>) -> StoreError {
    let given = ring.map(|ring| ring.ids().map(str::to_owned).collect()).unwrap_or_default();
    Trouble::KeyMissing { key: key.to_owned(), given }.into()
}
