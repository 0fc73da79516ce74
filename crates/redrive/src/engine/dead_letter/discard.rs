//! Letting letters go for good, by hand or by age (R-D6). What goes leaves its events, the last of which says why.

use std::time::Duration;

use redrive_store::LetterFilter;

use crate::engine::settle::bounded_why;
use crate::engine::{Engine, EngineError};

/// How many letters go in one transaction, and how many are looked at for them.
const AT_A_TIME: u32 = 1_000;
const LOOKED_AT: u32 = 20_000;

/// Why letters go, which their events say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// A person says so: `letter_discarded`.
    ByHand,
    /// They are old enough, and a person says so: `letter_purged`.
    ByAge,
}

impl Discard {
    const fn event_type(self) -> &'static str {
        match self {
            Discard::ByHand => "letter_discarded",
            Discard::ByAge => "letter_purged",
        }
    }
}

impl Engine {
    /// Lets go of every letter that matches and is dead when this begins; answers how many went. `progress` is told how many
    /// are gone so far. What is done is done: called again after an end half-way, it goes on.
    pub async fn discard_letters(
        &self,
        filter: LetterFilter,
        how: Discard,
        why: Option<&str>,
        mut progress: impl FnMut(u64),
    ) -> Result<u64, EngineError> {
        let why = why.map(bounded_why);
        // What dies meanwhile nobody has seen in a preview.
        let begun = self.now().after(Duration::from_millis(1));
        let before = Some(filter.before.map_or(begun, |before| before.min(begun)));
        let mut filter = LetterFilter { before, oldest_first: true, ..filter };
        let mut gone = 0;
        loop {
            let page = self.store().letter_heads(filter.clone(), AT_A_TIME, LOOKED_AT).await?;
            let ids: Vec<_> = page.heads.iter().map(|head| head.id).collect();
            if !ids.is_empty() {
                let went = self.store().discard(self.now(), ids, how.event_type(), why.clone()).await?;
                gone += went.into_iter().filter(|went| *went).count() as u64;
                progress(gone);
            }
            let Some(next) = page.next else { return Ok(gone) };
            filter.after = Some(next);
        }
    }
}
