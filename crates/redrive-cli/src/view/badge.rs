//! Words for a state, each with the colour of what it asks of a person: red wants somebody, yellow has somebody,
//! green is over.

use redrive_policy::Lang;
use redrive_store::GroupState;

use super::{Span, Tone};
use crate::text::say;

/// The state of a group, a run or a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Badge {
    Open,
    Regressed,
    Acknowledged,
    Resolved,
    Running,
    Paused,
    Stopped,
    Done,
    Cancelled,
}

impl Badge {
    /// The badge of a group.
    pub(crate) const fn of_group(state: GroupState) -> Badge {
        match state {
            GroupState::Open => Badge::Open,
            GroupState::Acknowledged => Badge::Acknowledged,
            GroupState::Resolved => Badge::Resolved,
            GroupState::Regressed => Badge::Regressed,
        }
    }

    /// The badge of a state that the store calls by this name.
    pub(crate) fn named(name: &str) -> Option<Badge> {
        Some(match name {
            "open" => Badge::Open,
            "regressed" => Badge::Regressed,
            "acknowledged" => Badge::Acknowledged,
            "resolved" => Badge::Resolved,
            "running" => Badge::Running,
            "paused" => Badge::Paused,
            "stopped" => Badge::Stopped,
            "done" => Badge::Done,
            "cancelled" => Badge::Cancelled,
            _ => return None,
        })
    }

    /// The name that JSON and filters use.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Badge::Open => "open",
            Badge::Regressed => "regressed",
            Badge::Acknowledged => "acknowledged",
            Badge::Resolved => "resolved",
            Badge::Running => "running",
            Badge::Paused => "paused",
            Badge::Stopped => "stopped",
            Badge::Done => "done",
            Badge::Cancelled => "cancelled",
        }
    }

    const fn tone(self) -> Tone {
        match self {
            Badge::Open | Badge::Stopped => Tone::Bad,
            Badge::Regressed => Tone::Alarm,
            Badge::Acknowledged | Badge::Paused => Tone::Warn,
            Badge::Resolved | Badge::Done => Tone::Good,
            Badge::Running => Tone::Heading,
            Badge::Cancelled => Tone::Dim,
        }
    }

    /// The word in that language, in its colour.
    pub(crate) fn span(self, lang: Lang) -> Span {
        Span::new(say(lang, &format!("badge.{}", self.name())), self.tone())
    }
}
