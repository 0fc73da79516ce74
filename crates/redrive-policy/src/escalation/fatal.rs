//! The catalogue of fatal errors (002 §8.2): failures whose remedy is known well enough to be named.
//!
//! An entry is found by the cause and the rule that recognised it, so a 403, `EACCES` and "permission denied" all
//! lead to the same words.

use crate::cause::{Cause, named_enum};

named_enum! {
    /// An entry of the catalogue.
    ///
    /// ```
    /// use redrive_policy::{Cause, FatalError};
    ///
    /// assert_eq!(FatalError::of(Cause::AuthError, "http.forbidden"), Some(FatalError::PermissionDenied));
    /// assert_eq!(FatalError::of(Cause::Timeout, "timeout.word"), None);
    /// ```
    FatalError {
        /// Nobody knows us there, or no more.
        AuthenticationFailed = "AUTHENTICATION_FAILED",
        /// They know us, and do not let us.
        PermissionDenied = "PERMISSION_DENIED",
        /// What is asked for is not there.
        ResourceNotFound = "RESOURCE_NOT_FOUND",
    }
}

/// The rules that find a missing permission; every other way to fail with `auth_error` is about who we are.
const PERMISSION_RULES: &[&str] =
    &["auth.permission", "auth.word", "http.forbidden", "exit.not-permitted", "mail.refused"];

impl FatalError {
    /// The entry for a failure of this cause that this rule has found.
    pub fn of(cause: Cause, rule: &str) -> Option<FatalError> {
        match cause {
            Cause::AuthError if PERMISSION_RULES.contains(&rule) => Some(FatalError::PermissionDenied),
            Cause::AuthError => Some(FatalError::AuthenticationFailed),
            Cause::NotFound => Some(FatalError::ResourceNotFound),
            Cause::Network
            | Cause::Timeout
            | Cause::RateLimit
            | Cause::ApiError
            | Cause::Contention
            | Cause::Crashed
            | Cause::Incomplete
            | Cause::Quality
            | Cause::ValidationError
            | Cause::Integrity
            | Cause::Configuration
            | Cause::ResourceExhausted
            | Cause::HumanJudgment
            | Cause::Cancelled
            | Cause::Unknown => None,
        }
    }

    /// Where its words stand.
    pub(super) const fn key(self) -> &'static str {
        match self {
            FatalError::AuthenticationFailed => "authentication-failed",
            FatalError::PermissionDenied => "permission-denied",
            FatalError::ResourceNotFound => "resource-not-found",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-T7: the rules that lead to an entry are rules that exist, and speak of rights.
    #[test]
    fn the_rules_of_the_catalogue_exist() {
        let rules = [include_str!("../../rules/auth_error.toml"), include_str!("../../rules/signals.toml")];
        for id in PERMISSION_RULES {
            let rule = format!("id = \"{id}\"\ncause = \"auth_error\"");
            assert!(rules.iter().any(|rules| rules.contains(&rule)), "{id}");
        }
    }
}
