//! Secrets that belong to the store and to nobody else: made once, by whoever needs one first, and the same for every process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_store::{NoticeChange, Posted, StoreError, Trouble};
use serde::{Deserialize, Serialize};

use super::{Engine, EngineError};

/// The space of the board in which they are kept.
const SPACE: &str = "secret";

#[derive(Serialize, Deserialize)]
struct Kept {
    key: String,
}

impl Engine {
    /// The secret of this name: 32 bytes that nobody can guess, the same for every process on the store.
    pub async fn store_secret(&self, name: &str) -> Result<[u8; 32], EngineError> {
        loop {
            if let Some(notice) = self.store().notice(SPACE.to_owned(), name.to_owned()).await? {
                return read(&notice.value).ok_or_else(|| corrupt(name).into());
            }
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|error| EngineError::Io(std::io::Error::other(error)))?;
            let value =
                serde_json::to_string(&Kept { key: STANDARD.encode(key) }).map_err(EngineError::Payload)?;
            let change = NoticeChange {
                space: SPACE.to_owned(),
                name: name.to_owned(),
                seen: None,
                value: Some(value),
                due_at: None,
            };
            // Whoever was faster has made it: the next look finds theirs.
            if let Posted::Done { .. } =
                self.store().post(self.now(), vec![change], Vec::new(), Vec::new()).await?
            {
                return Ok(key);
            }
        }
    }
}

fn read(value: &str) -> Option<[u8; 32]> {
    let kept: Kept = serde_json::from_str(value).ok()?;
    STANDARD.decode(kept.key).ok()?.try_into().ok()
}

fn corrupt(name: &str) -> StoreError {
    Trouble::Corrupt(format!("the secret {name:?} of the store cannot be read")).into()
}
