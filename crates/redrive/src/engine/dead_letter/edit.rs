//! Mending a letter: its payload replaced, the one before it kept (R-D8).

use redrive_store::{Edited, JobId, PayloadVersion};

use crate::engine::{Engine, EngineError};

/// Why nobody could do anything with a payload.
#[cfg(all(feature = "exec", feature = "http-call"))]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPayload(String);

/// Whether those who run this kind could do anything with the payload. Handlers of other kinds are not ours to know.
///
/// ```
/// use redrive::engine::check_payload;
///
/// assert!(check_payload("mail", b"anything").is_ok());
/// assert!(check_payload("http", br#"{"method":"GET"}"#).is_err());
/// ```
#[cfg(all(feature = "exec", feature = "http-call"))]
pub fn check_payload(kind: &str, payload: &[u8]) -> Result<(), BadPayload> {
    match kind {
        "exec" => {
            crate::CommandSpec::from_payload(payload).map(drop).map_err(|error| BadPayload(error.to_string()))
        }
        "http" => {
            crate::HttpSpec::from_payload(payload).map(drop).map_err(|error| BadPayload(error.to_string()))
        }
        _ => Ok(()),
    }
}

impl Engine {
    /// Replaces the payload of a letter that was edited so often before; answers [`Edited::Changed`] and does nothing when it
    /// was edited otherwise meanwhile. The payload before is kept, and the event of it shows neither of them.
    pub async fn edit_letter(
        &self,
        id: JobId,
        edits: u32,
        payload: Vec<u8>,
        edited_by: impl Into<String>,
    ) -> Result<Edited, EngineError> {
        Ok(self.store().edit_payload(self.now(), id, edits, payload, edited_by.into()).await?)
    }

    /// Payloads of a job that were replaced, the oldest first. Their number is how often it was edited.
    pub async fn payload_versions(&self, id: JobId) -> Result<Vec<PayloadVersion>, EngineError> {
        Ok(self.store().payload_versions(id).await?)
    }
}
