//! The fine kind of a failure, and the three coarser views that other systems know it by.
//!
//! People are shown a [`Cause`]; `error_category`, `failure_type` and `class` exist for machines and
//! for `explain`. Every match over causes is exhaustive, so that a new one makes the compiler list the work.

use std::fmt;

/// Declares an enum whose variants have one written name each, with parsing, listing and serde.
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// Every value, in the order of the requirements' table.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// Every written name, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name as it is written in JSON, in configuration and on the screen.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::cause::UnknownName;

            fn from_str(text: &str) -> Result<Self, $crate::cause::UnknownName> {
                match text {
                    $($text => Ok($name::$variant),)+
                    _ => Err($crate::cause::UnknownName { given: text.to_owned(), allowed: $name::NAMES }),
                }
            }
        }
    };
}
pub(crate) use named_enum;

/// A written name that stands for nothing we know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// What was written.
    pub given: String,
    /// What may be written.
    pub allowed: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown name {:?}; allowed are {}", self.given, self.allowed.join(", "))
    }
}

impl std::error::Error for UnknownName {}

named_enum! {
    /// The fine kind of a failure.
    ///
    /// ```
    /// use redrive_policy::{Cause, Class, FailureType};
    ///
    /// let cause: Cause = "rate_limit".parse().unwrap();
    /// assert_eq!(cause.failure_type(), FailureType::RateLimit);
    /// assert_eq!(cause.class(), Class::Transient);
    /// ```
    Cause {
        /// The peer could not be reached, or the connection broke.
        Network = "network",
        /// Reached, or being reached, but too slow.
        Timeout = "timeout",
        /// Throttled; later is fine.
        RateLimit = "rate_limit",
        /// The server's own fault.
        ApiError = "api_error",
        /// A lock, a race, an optimistic conflict.
        Contention = "contention",
        /// The worker died or the handler panicked.
        Crashed = "crashed",
        /// The output was cut short.
        Incomplete = "incomplete",
        /// The output did not meet its quality criteria.
        Quality = "quality",
        /// Credentials or permission.
        AuthError = "auth_error",
        /// The request itself is wrong.
        ValidationError = "validation_error",
        /// Data conflict, duplicate, corruption.
        Integrity = "integrity",
        /// A thing does not exist.
        NotFound = "not_found",
        /// Local set-up is missing or wrong.
        Configuration = "configuration",
        /// Disk, memory, quota, token limit.
        ResourceExhausted = "resource_exhausted",
        /// A person has to decide.
        HumanJudgment = "human_judgment",
        /// Stopped by a user or a signal.
        Cancelled = "cancelled",
        /// The failure says nothing about itself.
        Unknown = "unknown",
    }
}

named_enum! {
    /// The coarse kind that task runners know (`failure_type`).
    FailureType {
        /// The output was cut short.
        Incomplete = "INCOMPLETE",
        /// Quality criteria were not met.
        QualityFailure = "QUALITY_FAILURE",
        /// Too slow.
        Timeout = "TIMEOUT",
        /// It may pass by itself.
        TransientError = "TRANSIENT_ERROR",
        /// Throttled.
        RateLimit = "RATE_LIMIT",
        /// It will not pass by itself.
        FatalError = "FATAL_ERROR",
        /// A person has to look.
        EscalateRequired = "ESCALATE_REQUIRED",
    }
}

named_enum! {
    /// The kind that event streams know (`error_category`).
    ErrorCategory {
        /// Connections and time limits.
        Network = "network",
        /// Throttling.
        ApiRateLimit = "api_rate_limit",
        /// The other side failed.
        ApiError = "api_error",
        /// Credentials or permission.
        AuthError = "auth_error",
        /// The request or the output is wrong.
        ValidationError = "validation_error",
        /// Anything else.
        Unknown = "unknown",
    }
}

named_enum! {
    /// Whether time alone can heal it.
    Class {
        /// Time may heal it.
        Transient = "transient",
        /// Somebody must change something.
        Permanent = "permanent",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

impl Cause {
    /// The event-stream view of this cause.
    pub const fn error_category(self) -> ErrorCategory {
        match self {
            Cause::Network | Cause::Timeout => ErrorCategory::Network,
            Cause::RateLimit => ErrorCategory::ApiRateLimit,
            Cause::ApiError | Cause::Contention | Cause::NotFound => ErrorCategory::ApiError,
            Cause::AuthError => ErrorCategory::AuthError,
            Cause::Incomplete | Cause::Quality | Cause::ValidationError | Cause::Integrity => {
                ErrorCategory::ValidationError
            }
            Cause::Crashed
            | Cause::Configuration
            | Cause::ResourceExhausted
            | Cause::HumanJudgment
            | Cause::Cancelled
            | Cause::Unknown => ErrorCategory::Unknown,
        }
    }

    /// The task-runner view of this cause.
    pub const fn failure_type(self) -> FailureType {
        match self {
            Cause::Network | Cause::ApiError | Cause::Contention | Cause::Crashed => {
                FailureType::TransientError
            }
            Cause::Timeout => FailureType::Timeout,
            Cause::RateLimit => FailureType::RateLimit,
            Cause::Incomplete => FailureType::Incomplete,
            Cause::Quality => FailureType::QualityFailure,
            Cause::AuthError
            | Cause::ValidationError
            | Cause::Integrity
            | Cause::NotFound
            | Cause::Configuration => FailureType::FatalError,
            Cause::ResourceExhausted | Cause::HumanJudgment | Cause::Cancelled | Cause::Unknown => {
                FailureType::EscalateRequired
            }
        }
    }

    /// Whether time alone can heal it.
    pub const fn class(self) -> Class {
        match self {
            Cause::Network
            | Cause::Timeout
            | Cause::RateLimit
            | Cause::ApiError
            | Cause::Contention
            | Cause::Crashed
            | Cause::Incomplete
            | Cause::Quality => Class::Transient,
            Cause::AuthError
            | Cause::ValidationError
            | Cause::Integrity
            | Cause::NotFound
            | Cause::Configuration
            | Cause::ResourceExhausted
            | Cause::HumanJudgment
            | Cause::Cancelled => Class::Permanent,
            Cause::Unknown => Class::Unknown,
        }
    }
}

/// A set of causes, small enough to copy.
///
/// ```
/// use redrive_policy::{Cause, CauseSet};
///
/// let set = CauseSet::of(&[Cause::Network, Cause::Timeout]);
/// assert!(set.contains(Cause::Network) && !set.contains(Cause::Unknown));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CauseSet(u32);

impl CauseSet {
    /// No cause at all.
    pub const NONE: CauseSet = CauseSet(0);
    /// Every cause.
    pub const ALL: CauseSet = CauseSet::of(Cause::ALL);

    /// The set of these causes.
    pub const fn of(causes: &[Cause]) -> CauseSet {
        let mut bits = 0;
        let mut i = 0;
        while i < causes.len() {
            bits |= 1 << causes[i] as u32;
            i += 1;
        }
        CauseSet(bits)
    }

    /// Every cause of that class.
    pub fn of_class(class: Class) -> CauseSet {
        Cause::ALL.iter().copied().filter(|cause| cause.class() == class).collect()
    }

    /// Every cause that is seen as this failure type.
    pub fn of_failure_type(failure_type: FailureType) -> CauseSet {
        Cause::ALL.iter().copied().filter(|cause| cause.failure_type() == failure_type).collect()
    }

    /// Whether the cause is in the set.
    pub const fn contains(self, cause: Cause) -> bool {
        self.0 & (1 << cause as u32) != 0
    }

    /// The causes that are in either set.
    pub const fn union(self, other: CauseSet) -> CauseSet {
        CauseSet(self.0 | other.0)
    }

    /// The causes that are here and not in the other set.
    pub const fn minus(self, other: CauseSet) -> CauseSet {
        CauseSet(self.0 & !other.0)
    }

    /// The causes in the set, in the order of the table.
    pub fn iter(self) -> impl Iterator<Item = Cause> {
        Cause::ALL.iter().copied().filter(move |cause| self.contains(*cause))
    }

    /// Whether nothing is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Cause> for CauseSet {
    fn from_iter<I: IntoIterator<Item = Cause>>(causes: I) -> CauseSet {
        causes.into_iter().fold(CauseSet::NONE, |set, cause| set.union(CauseSet::of(&[cause])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-P1, R-P2: the table of the requirements, row by row.
    #[test]
    fn the_three_views_are_those_of_the_table() {
        let table = "
            network network TRANSIENT_ERROR transient
            timeout network TIMEOUT transient
            rate_limit api_rate_limit RATE_LIMIT transient
            api_error api_error TRANSIENT_ERROR transient
            contention api_error TRANSIENT_ERROR transient
            crashed unknown TRANSIENT_ERROR transient
            incomplete validation_error INCOMPLETE transient
            quality validation_error QUALITY_FAILURE transient
            auth_error auth_error FATAL_ERROR permanent
            validation_error validation_error FATAL_ERROR permanent
            integrity validation_error FATAL_ERROR permanent
            not_found api_error FATAL_ERROR permanent
            configuration unknown FATAL_ERROR permanent
            resource_exhausted unknown ESCALATE_REQUIRED permanent
            human_judgment unknown ESCALATE_REQUIRED permanent
            cancelled unknown ESCALATE_REQUIRED permanent
            unknown unknown ESCALATE_REQUIRED unknown";
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .filter(|r: &Vec<_>| !r.is_empty())
            .collect();
        assert_eq!(rows.len(), Cause::ALL.len());
        for (row, cause) in rows.iter().zip(Cause::ALL) {
            let views = [
                cause.name(),
                cause.error_category().name(),
                cause.failure_type().name(),
                cause.class().name(),
            ];
            assert_eq!(row.as_slice(), views);
            assert_eq!(row[0].parse(), Ok(*cause));
        }
    }

    #[test]
    fn an_unknown_cause_is_answered_with_the_known_ones() {
        let error = "netwrok".parse::<Cause>().unwrap_err();
        assert!(error.to_string().contains("\"netwrok\"") && error.to_string().contains("rate_limit"));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let set = CauseSet::of_failure_type(FailureType::EscalateRequired);
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [Cause::ResourceExhausted, Cause::HumanJudgment, Cause::Cancelled, Cause::Unknown]
        );
        assert!(set.minus(CauseSet::ALL).is_empty());
    }
}
