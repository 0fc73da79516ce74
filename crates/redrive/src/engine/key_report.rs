//! Idempotency keys as the command line and the API tell them.

use redrive_store::{EventFilter, JobId, KeyRecord, KeyState, Order, Timestamp};
use serde::Serialize;

use super::{Engine, EngineError};

/// A record's number as it is written: `key-17`.
pub fn key_id(record: i64) -> String {
    format!("key-{record}")
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// Its number.
    pub id: String,
    /// The key.
    pub key: String,
    /// Whose key it is.
    pub principal: String,
    /// Method and route.
    pub endpoint: String,
    /// Where it stands.
    pub state: KeyState,
    /// The status of its answer; the exit code of a command.
    pub response_status: Option<u16>,
    /// How many bytes the body of its answer has; absent when none was kept.
    pub response_bytes: Option<u64>,
    /// The hash of its request.
    pub request_hash: String,
    /// When it was first taken.
    pub created_at: Timestamp,
    /// Until when its holder has been heard of; while it is in progress.
    pub leased_until: Option<Timestamp>,
    /// When it was answered, or when nobody knew any more.
    pub ended_at: Option<Timestamp>,
    /// When it is forgotten.
    pub expires_at: Option<Timestamp>,
    /// The job that does it, where one does.
    pub job_id: Option<JobId>,
}

impl KeyReport {
    /// What a record says.
    pub fn new(record: &KeyRecord) -> KeyReport {
        KeyReport {
            id: key_id(record.id),
            key: record.key.clone(),
            principal: record.principal.clone(),
            endpoint: record.endpoint.clone(),
            state: record.state,
            response_status: record.response_status,
            response_bytes: record.response_bytes,
            request_hash: record.request_hash.clone(),
            created_at: record.created_at,
            leased_until: record.leased_until,
            ended_at: record.ended_at,
            expires_at: record.expires_at,
            job_id: record.job,
        }
    }
}

impl Engine {
    /// Why nobody knows how the request of a key ended: what its last event of that kind says, while that is kept.
    pub async fn why_key_unknown(&self, record: &KeyRecord) -> Result<Option<String>, EngineError> {
        if record.state != KeyState::UnknownOutcome {
            return Ok(None);
        }
        let filter = EventFilter {
            types: vec!["idempotency_unknown".to_owned()],
            caller_id: Some(key_id(record.id)),
            order: Order::NewestFirst,
            ..EventFilter::default()
        };
        let events = self.store().events(filter, 1).await?;
        Ok(events.first().and_then(|event| event.data["why"].as_str()).map(ToOwned::to_owned))
    }
}
