//! Telling a person: what was set aside, and what a person has to decide (R-T7, R-T8).

mod list;
mod telling;

pub use list::{EscalationId, EscalationItem, EscalationPage, EscalationPlace};
pub use telling::Escalated;
pub(super) use telling::{Listener, Telling};
