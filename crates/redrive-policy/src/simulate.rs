//! `simulate`: what another policy would have made of failures that were recorded.
//!
//! A job's record is a list of attempts that really happened. Replaying it asks [`decide`](crate::decide) again at each
//! failure. While the answer is the recorded one, the next attempt is the recorded one, too. Where it differs, the next
//! attempt was never made: what it would have met is estimated from what was seen of the same target ([`Targets`]), or
//! it is unknown and counted as such. Nothing here reads a clock or a store.
//!
//! The same policy gives the record back, to the millisecond: its decisions keep their recorded delays, chance included.

mod record;
mod replay;
mod tally;
mod target;

pub use record::{
    CameTo, Decided, Did, Fact, Moment, RecordedAttempt, RecordedFailure, RecordedJob, TargetId,
};
pub use replay::{Basis, Ending, MAX_ATTEMPTS, Replayed, ReplayedAttempt, Ruling, World, recorded, replay};
pub use tally::{Between, CauseTally, Tally};
pub use target::{Outlook, Targets};
