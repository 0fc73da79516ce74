//! What stands in a row of a key, said once for every store.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use super::{
    Claimed, KeyClaim, KeyRecord, KeyState, MAX_HEADER_BYTES, MAX_RESPONSE_BYTES, Meeting, Standing,
    StoredResponse,
};
use crate::error::{Refusal, StoreError, Trouble};
use crate::event::must_be_name;
use crate::id::JobId;
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

/// The most bytes of an endpoint.
const MAX_ENDPOINT_BYTES: usize = 4 << 10;
/// The most bytes of bodies that one round of sweeping takes away, so that nobody waits for it.
pub(crate) const SWEPT_BYTES: u64 = 4 << 20;
/// Keys that are in progress, those whose outcome is unknown, and calls that failed are counted up to here.
pub(crate) const COUNTED: i64 = 100_000;

pub(crate) fn validate_claim(claim: &KeyClaim) -> Result<(), StoreError> {
    must_be_name("principal", &claim.principal)?;
    must_be_name("key", &claim.key)?;
    must_be_name("request hash", &claim.request_hash)?;
    at_most("the endpoint", claim.endpoint.len(), MAX_ENDPOINT_BYTES)?;
    if claim.endpoint.chars().any(char::is_control) {
        let name = claim.endpoint.chars().take(80).collect();
        return Err(Trouble::Refused(Refusal::BadName { what: "endpoint", name }).into());
    }
    Ok(())
}

pub(crate) fn validate_response(response: &StoredResponse) -> Result<(), StoreError> {
    let headers = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    at_most("the answer's headers", headers, MAX_HEADER_BYTES)?;
    at_most("the answer's body", response.body.as_ref().map_or(0, Vec::len), MAX_RESPONSE_BYTES)
}

fn at_most(what: &'static str, bytes: usize, most: usize) -> Result<(), StoreError> {
    if bytes > most {
        return Err(Trouble::Refused(Refusal::TooLarge { what, bytes, most }).into());
    }
    Ok(())
}

/// What is kept in front of a body. Its length is here, too, so that a list needs no body.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    headers: Vec<(String, HeaderValue)>,
}

/// The value of a header, which may be anything.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum HeaderValue {
    Text(String),
    Bytes { base64: String },
}

/// The cell that stands before the body's.
pub(crate) fn write_head(response: &StoredResponse) -> Vec<u8> {
    let value = |value: &Vec<u8>| match std::str::from_utf8(value) {
        Ok(text) => HeaderValue::Text(text.to_owned()),
        Err(_) => HeaderValue::Bytes { base64: BASE64.encode(value) },
    };
    let head = Head {
        bytes: response.body.as_ref().map(|body| body.len() as u64),
        headers: response.headers.iter().map(|(name, of)| (name.clone(), value(of))).collect(),
    };
    serde_json::json!(head).to_string().into_bytes()
}

fn read_head(record: i64, cell: &[u8]) -> Result<Head, StoreError> {
    serde_json::from_slice(cell).map_err(|_| damaged(record))
}

/// One answer that cannot be read is that record's trouble, and not the store's.
fn damaged(record: i64) -> StoreError {
    Trouble::Unsealable { cell: Cell::KeyHeaders.name(), row: record }.into()
}

impl Head {
    fn into_headers(self, record: i64) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let value = |value| match value {
            HeaderValue::Text(text) => Ok(text.into_bytes()),
            HeaderValue::Bytes { base64 } => BASE64.decode(base64).map_err(|_| damaged(record)),
        };
        self.headers.into_iter().map(|(name, of)| Ok((name, value(of)?))).collect()
    }
}

/// The cells of an answer.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    pub(crate) status: Option<i64>,
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) body: Option<Vec<u8>>,
}

impl Cells {
    /// The answer, with what is sealed opened; absent: there is none yet.
    pub(crate) fn into_response(
        self,
        record: i64,
        seals: &Seals,
    ) -> Result<Option<StoredResponse>, StoreError> {
        let Some(status) = self.status else { return Ok(None) };
        let head = self.head.ok_or_else(|| damaged(record))?;
        let head = read_head(record, &seals.open_bytes(Cell::KeyHeaders, record, head)?)?;
        let body = self.body.map(|body| seals.open_bytes(Cell::KeyBody, record, body)).transpose()?;
        if head.bytes != body.as_ref().map(|body| body.len() as u64) {
            return Err(damaged(record));
        }
        let status = u16::try_from(status).map_err(|_| damaged(record))?;
        Ok(Some(StoredResponse { status, headers: head.into_headers(record)?, body }))
    }
}

/// What a claim finds.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) id: i64,
    pub(crate) endpoint: String,
    pub(crate) standing: Standing,
    pub(crate) job: Option<JobId>,
    pub(crate) created_at: Timestamp,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) cells: Cells,
}

impl Found {
    /// What the claim is answered with when nothing is to be written; otherwise nothing.
    pub(crate) fn claimed(self, meeting: Meeting, seals: &Seals) -> Result<Option<Claimed>, StoreError> {
        let ended_at = self.ended_at.unwrap_or(self.created_at);
        Ok(Some(match meeting {
            Meeting::TakesAsNew | Meeting::TakesAgain | Meeting::Lapses { .. } => return Ok(None),
            Meeting::Mismatch => Claimed::Mismatch { endpoint: self.endpoint },
            Meeting::InFlight => Claimed::InFlight {
                since: self.created_at,
                until: self.standing.leased_until.unwrap_or(self.created_at),
                job: self.job,
            },
            Meeting::Unknown => Claimed::Unknown { since: ended_at, job: self.job },
            Meeting::Replays => {
                let response = self.cells.into_response(self.id, seals)?.ok_or_else(|| damaged(self.id))?;
                Claimed::Completed { response, completed_at: ended_at, job: self.job }
            }
        }))
    }
}

/// A record as its columns say it.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) principal: String,
    pub(crate) key: String,
    pub(crate) endpoint: String,
    pub(crate) request_hash: String,
    pub(crate) state: i64,
    pub(crate) created_at: i64,
    pub(crate) leased_until: Option<i64>,
    pub(crate) ended_at: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) status: Option<i64>,
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) job: Option<i64>,
}

impl Stored {
    /// The record, without its answer.
    pub(crate) fn into_record(mut self, seals: &Seals) -> Result<KeyRecord, StoreError> {
        let (id, head) = (self.id, self.head.take());
        let head = head.map(|head| read_head(id, &seals.open_bytes(Cell::KeyHeaders, id, head)?));
        let response_bytes = head.transpose()?.and_then(|head| head.bytes);
        Ok(self.sized(response_bytes))
    }

    /// The record that is to be forgotten. That its answer cannot be read must not keep it there.
    pub(crate) fn into_forgotten(mut self, seals: &Seals) -> KeyRecord {
        let (id, head) = (self.id, self.head.take());
        let open = |head| read_head(id, &seals.open_bytes(Cell::KeyHeaders, id, head)?);
        let head = head.map(open).and_then(|head| {
            head.inspect_err(|error| tracing::warn!(%error, "a key is forgotten whose answer cannot be read"))
                .ok()
        });
        self.sized(head.and_then(|head| head.bytes))
    }

    fn sized(self, response_bytes: Option<u64>) -> KeyRecord {
        KeyRecord {
            id: self.id,
            principal: self.principal,
            key: self.key,
            endpoint: self.endpoint,
            request_hash: self.request_hash,
            state: KeyState::from_number(self.state),
            created_at: Timestamp::from_millis(self.created_at),
            leased_until: self.leased_until.map(Timestamp::from_millis),
            ended_at: self.ended_at.map(Timestamp::from_millis),
            expires_at: self.expires_at.map(Timestamp::from_millis),
            response_status: self.status.and_then(|status| u16::try_from(status).ok()),
            response_bytes,
            job: self.job.map(JobId),
        }
    }
}

/// Of these records, each with the bytes of its body, how many go in one round: one at least.
pub(crate) fn few_of(expired: &[(i64, u64)]) -> usize {
    let mut bytes = 0_u64;
    let fits = |(at, (_, body)): &(usize, &(i64, u64))| {
        bytes = bytes.saturating_add(*body);
        *at == 0 || bytes <= SWEPT_BYTES
    };
    expired.iter().enumerate().take_while(fits).count()
}
