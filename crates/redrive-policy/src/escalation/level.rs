//! How far up a failure has to go (R-T10; the escalation flow of 001): the machine alone, the machine and an alert, or
//! a person who looks, mends code, or mends data.
//!
//! The level follows from the cause and from whether the failure may pass by itself; both are kept with a letter, so
//! a letter from before there were levels has one, too.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cause::Cause;
use crate::decide::{Action, Decision, Why};
use crate::lang::{Lang, text};

/// One of the five levels. In JSON it is its number.
///
/// ```
/// use redrive_policy::{Cause, EscalationLevel, Lang};
///
/// let level = EscalationLevel::of(Cause::Network, true);
/// assert_eq!((level.number(), level.is_manual()), (2, false));
/// assert_eq!(EscalationLevel::of(Cause::ValidationError, false).title(Lang::Ja), "データ修正・手動再処理");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EscalationLevel {
    /// It is tried again, and nobody has to know.
    AutomaticRetry,
    /// It is set aside and somebody is told; time may still heal it.
    DeadLetter,
    /// Somebody finds out what it is and changes a setting, a key, a plan or an order.
    Analysis,
    /// Somebody mends the program.
    CodeFix,
    /// Somebody mends the data and puts it back by hand.
    DataFix,
}

impl EscalationLevel {
    /// Every level, from the lowest.
    pub const ALL: [EscalationLevel; 5] = [
        EscalationLevel::AutomaticRetry,
        EscalationLevel::DeadLetter,
        EscalationLevel::Analysis,
        EscalationLevel::CodeFix,
        EscalationLevel::DataFix,
    ];

    /// The level of what was set aside: from its cause, and whether it may pass by itself.
    pub const fn of(cause: Cause, retryable: bool) -> EscalationLevel {
        match cause {
            // Somebody's rule says that time does not heal this one.
            Cause::Network | Cause::Timeout | Cause::RateLimit | Cause::ApiError | Cause::Contention
                if !retryable =>
            {
                EscalationLevel::Analysis
            }
            Cause::Network | Cause::Timeout | Cause::RateLimit | Cause::ApiError | Cause::Contention => {
                EscalationLevel::DeadLetter
            }
            // Whatever kills its worker again and again is not healed by a setting.
            Cause::Crashed => EscalationLevel::CodeFix,
            // Output that stays poor was asked for in the wrong way: the order is changed, neither code nor data.
            Cause::Incomplete
            | Cause::Quality
            | Cause::AuthError
            | Cause::NotFound
            | Cause::Configuration
            | Cause::ResourceExhausted
            | Cause::HumanJudgment
            | Cause::Cancelled
            | Cause::Unknown => EscalationLevel::Analysis,
            Cause::ValidationError | Cause::Integrity => EscalationLevel::DataFix,
        }
    }

    /// The level of a decision; none for a success.
    pub const fn of_decision(decision: &Decision) -> Option<EscalationLevel> {
        match (decision.action, decision.cause) {
            (Action::Pass, _) => None,
            (Action::Retry { .. }, _) => Some(EscalationLevel::AutomaticRetry),
            (Action::Escalate, Some(cause)) => {
                Some(EscalationLevel::of(cause, !matches!(decision.why, Why::RuleForbids { .. })))
            }
            (Action::Escalate, None) => Some(EscalationLevel::Analysis),
        }
    }

    /// From 1 to 5.
    pub const fn number(self) -> u8 {
        match self {
            EscalationLevel::AutomaticRetry => 1,
            EscalationLevel::DeadLetter => 2,
            EscalationLevel::Analysis => 3,
            EscalationLevel::CodeFix => 4,
            EscalationLevel::DataFix => 5,
        }
    }

    /// The level of that number.
    pub fn from_number(number: u64) -> Option<EscalationLevel> {
        EscalationLevel::ALL.into_iter().find(|level| u64::from(level.number()) == number)
    }

    /// Whether it takes a person.
    pub const fn is_manual(self) -> bool {
        match self {
            EscalationLevel::AutomaticRetry | EscalationLevel::DeadLetter => false,
            EscalationLevel::Analysis | EscalationLevel::CodeFix | EscalationLevel::DataFix => true,
        }
    }

    /// What happens on it, in a few words.
    pub fn title(self, lang: Lang) -> String {
        text(lang, &format!("level.{}", self.number()), &[])
    }
}

impl Serialize for EscalationLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.number())
    }
}

impl<'de> Deserialize<'de> for EscalationLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EscalationLevel, D::Error> {
        let number = u64::deserialize(deserializer)?;
        EscalationLevel::from_number(number)
            .ok_or_else(|| serde::de::Error::custom(format!("{number} is no level; they go from 1 to 5")))
    }
}
