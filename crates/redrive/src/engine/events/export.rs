//! The stream as JSON Lines: one event per line, with the fields of R-E2 (R-E4).

use std::io::Write;

use redrive_store::{EventFilter, EventSeq, Order};

use crate::engine::{Engine, EngineError};

/// How many events are read at a time.
const AT_A_TIME: u32 = 1_000;

impl Engine {
    /// Writes the events that match, the oldest first, one per line; answers how many. What is appended meanwhile is
    /// written too.
    pub async fn export_events(
        &self,
        filter: EventFilter,
        to: &mut (dyn Write + Send),
    ) -> Result<u64, EngineError> {
        let mut filter = EventFilter { order: Order::OldestFirst, ..filter };
        let mut written = 0;
        loop {
            let events = self.store().events(filter.clone(), AT_A_TIME).await?;
            for event in &events {
                serde_json::to_writer(&mut *to, event).map_err(std::io::Error::from)?;
                to.write_all(b"\n")?;
                written += 1;
            }
            let last: Option<EventSeq> = events.last().map(|event| event.seq);
            match last {
                Some(last) if events.len() == AT_A_TIME as usize => filter.after = Some(last),
                _ => break,
            }
        }
        to.flush()?;
        Ok(written)
    }
}
