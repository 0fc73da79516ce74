//! The eight rules, and what they find in the numbers. Nothing here reads a clock or a store.

use redrive_policy::{AlertSettings, Severity};

use super::facts::Facts;

/// A rule of R-C5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AlertRule {
    /// There are dead letters that nobody has acknowledged (001).
    DeadLetters,
    /// One of them is old (001).
    OldestLetter,
    /// Too few redriven jobs succeed (001).
    RecoverySuccess,
    /// Redriven jobs take long (001).
    RecoveryDuration,
    /// Many jobs died within an hour (004).
    LettersPerHour,
    /// Too many retried jobs died (004).
    RetryFailure,
    /// Too many requests came again (004).
    Duplicates,
    /// Attempts take long (004).
    ProcessingDelay,
}

/// What a rule's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlertUnit {
    /// How many.
    Count,
    /// In percent.
    Percent,
    /// In milliseconds.
    Millis,
}

impl AlertRule {
    /// Every rule.
    pub const ALL: [AlertRule; 8] = [
        AlertRule::DeadLetters,
        AlertRule::OldestLetter,
        AlertRule::RecoverySuccess,
        AlertRule::RecoveryDuration,
        AlertRule::LettersPerHour,
        AlertRule::RetryFailure,
        AlertRule::Duplicates,
        AlertRule::ProcessingDelay,
    ];

    /// Its name, as a configuration writes it.
    pub const fn name(self) -> &'static str {
        match self {
            AlertRule::DeadLetters => "dead_letters",
            AlertRule::OldestLetter => "oldest_letter",
            AlertRule::RecoverySuccess => "recovery_success",
            AlertRule::RecoveryDuration => "recovery_duration",
            AlertRule::LettersPerHour => "letters_per_hour",
            AlertRule::RetryFailure => "retry_failure",
            AlertRule::Duplicates => "duplicates",
            AlertRule::ProcessingDelay => "processing_delay",
        }
    }

    /// The rule of that name.
    pub fn from_name(name: &str) -> Option<AlertRule> {
        AlertRule::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// How bad it is.
    pub const fn severity(self) -> Severity {
        match self {
            AlertRule::DeadLetters => Severity::Critical,
            _ => Severity::Warning,
        }
    }

    /// What its numbers are.
    pub const fn unit(self) -> AlertUnit {
        match self {
            AlertRule::DeadLetters | AlertRule::LettersPerHour => AlertUnit::Count,
            AlertRule::RecoverySuccess | AlertRule::RetryFailure | AlertRule::Duplicates => {
                AlertUnit::Percent
            }
            AlertRule::OldestLetter | AlertRule::RecoveryDuration | AlertRule::ProcessingDelay => {
                AlertUnit::Millis
            }
        }
    }
}

/// What a rule finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule.
    pub rule: AlertRule,
    /// Whether something is wrong.
    pub firing: bool,
    /// The number; absent where there is nothing to tell, or too little.
    pub value: Option<f64>,
    /// The number that it must not reach or pass.
    pub threshold: f64,
    /// Of how many, where it is a rate or an average.
    pub samples: Option<u64>,
}

/// What the rules that are on find, in their order.
pub(super) fn findings(settings: &AlertSettings, facts: &Facts) -> Vec<Finding> {
    let millis = |length: std::time::Duration| length.as_secs_f64() * 1_000.0;
    let hour = &facts.last_hour;
    let enough = settings.min_samples;
    #[allow(clippy::cast_precision_loss)]
    let count = |n: u64| n as f64;
    let rule = |rule, threshold: Option<f64>, value: Option<f64>, is_wrong: fn(f64, f64) -> bool, samples| {
        threshold.map(|threshold| {
            let firing = value.is_some_and(|value| is_wrong(value, threshold));
            Finding { rule, firing, value, threshold, samples }
        })
    };
    let above: fn(f64, f64) -> bool = |value, threshold| value > threshold;
    let below: fn(f64, f64) -> bool = |value, threshold| value < threshold;
    let rate =
        |part: f64, whole: f64, least: u64| (whole >= count(least).max(1.0)).then(|| 100.0 * part / whole);
    let average = |sum: f64, n: f64, least: u64| (n >= count(least).max(1.0)).then(|| sum / n);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let samples = |n: f64| Some(n.round().max(0.0) as u64);
    let recovered = hour.recovered + hour.died_again;
    let retried = hour.succeeded_after_retry + hour.died_after_retry;
    [
        rule(
            AlertRule::DeadLetters,
            settings.dead_letters.map(count),
            Some(count(facts.letters)),
            |value, threshold| value >= threshold,
            None,
        ),
        rule(
            AlertRule::OldestLetter,
            settings.oldest_letter.map(millis),
            facts.oldest.map(millis),
            above,
            None,
        ),
        rule(
            AlertRule::RecoverySuccess,
            settings.recovery_success,
            rate(hour.recovered, recovered, enough),
            below,
            samples(recovered),
        ),
        rule(
            AlertRule::RecoveryDuration,
            settings.recovery_duration.map(millis),
            // One recovery that takes long is worth knowing.
            average(hour.recovery_ms, hour.recoveries, 1),
            above,
            samples(hour.recoveries),
        ),
        rule(AlertRule::LettersPerHour, settings.letters_per_hour.map(count), Some(hour.died), above, None),
        rule(
            AlertRule::RetryFailure,
            settings.retry_failure,
            rate(hour.died_after_retry, retried, enough),
            above,
            samples(retried),
        ),
        rule(
            AlertRule::Duplicates,
            settings.duplicates,
            rate(hour.keys_again, hour.keys_used, enough),
            above,
            samples(hour.keys_used),
        ),
        rule(
            AlertRule::ProcessingDelay,
            settings.processing_delay.map(millis),
            average(hour.attempt_ms, hour.attempts, enough),
            above,
            samples(hour.attempts),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::LastHour;
    use super::*;
    use std::time::Duration;

    fn firing(facts: &Facts) -> Vec<&'static str> {
        let found = findings(&AlertSettings::default(), facts);
        found.iter().filter(|one| one.firing).map(|one| one.rule.name()).collect()
    }

    fn hour(last_hour: LastHour) -> Facts {
        Facts { last_hour, ..Facts::default() }
    }

    /// R-C5: each rule fires at the seeds' threshold and not before it.
    #[test]
    fn each_rule_fires_at_its_threshold() {
        assert_eq!(firing(&Facts::default()), [] as [&str; 0]);
        assert_eq!(firing(&Facts { letters: 1, ..Facts::default() }), ["dead_letters"]);
        let day = Duration::from_hours(24);
        assert!(firing(&Facts { oldest: Some(day), ..Facts::default() }).is_empty());
        let older = Some(day + Duration::from_secs(1));
        assert_eq!(firing(&Facts { oldest: older, ..Facts::default() }), ["oldest_letter"]);
        let recovery =
            |recovered, died_again| hour(LastHour { recovered, died_again, ..LastHour::default() });
        assert!(firing(&recovery(16.0, 4.0)).is_empty(), "80 % is enough");
        assert_eq!(firing(&recovery(15.0, 5.0)), ["recovery_success"]);
        let took = |recovery_ms| hour(LastHour { recovery_ms, recoveries: 1.0, ..LastHour::default() });
        assert!(firing(&took(300_000.0)).is_empty());
        assert_eq!(firing(&took(300_001.0)), ["recovery_duration"]);
        assert!(firing(&hour(LastHour { died: 10.0, ..LastHour::default() })).is_empty());
        assert_eq!(firing(&hour(LastHour { died: 10.5, ..LastHour::default() })), ["letters_per_hour"]);
        let retries = |died_after_retry, succeeded_after_retry| {
            hour(LastHour { succeeded_after_retry, died_after_retry, ..LastHour::default() })
        };
        assert!(firing(&retries(1.0, 19.0)).is_empty(), "5 % is not more than 5 %");
        assert_eq!(firing(&retries(2.0, 18.0)), ["retry_failure"]);
        let keys = |keys_again, keys_used| hour(LastHour { keys_used, keys_again, ..LastHour::default() });
        assert!(firing(&keys(10.0, 20.0)).is_empty());
        assert_eq!(firing(&keys(11.0, 20.0)), ["duplicates"]);
        let slow = |attempt_ms| hour(LastHour { attempt_ms, attempts: 20.0, ..LastHour::default() });
        assert!(firing(&slow(20.0 * 300_000.0)).is_empty());
        assert_eq!(firing(&slow(20.0 * 300_001.0)), ["processing_delay"]);
    }

    /// R-C5: a rate of fewer than twenty says nothing, and a rule that is off is not asked.
    #[test]
    fn too_little_says_nothing_and_off_is_off() {
        let few = LastHour {
            died_after_retry: 19.0,
            died_again: 19.0,
            keys_again: 19.0,
            keys_used: 19.0,
            attempt_ms: 1e9,
            attempts: 19.0,
            ..LastHour::default()
        };
        assert!(firing(&hour(few)).is_empty());
        let settings = AlertSettings { dead_letters: None, ..AlertSettings::default() };
        let found = findings(&settings, &Facts { letters: 5, ..Facts::default() });
        assert_eq!(found.len(), 7);
        assert!(found.iter().all(|one| !one.firing && one.rule != AlertRule::DeadLetters));
    }
}
