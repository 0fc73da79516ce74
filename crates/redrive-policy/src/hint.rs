//! What the next attempt is told about the last one (R-T6; templates of 002 §3).
//!
//! Transient and rate-limit failures are resent unchanged and get no hint of ours; words that somebody
//! configured are handed on in any case. A hint that cannot be made becomes a generic one (R-P14).

use std::fmt::{self, Display};
use std::sync::Arc;

use crate::cause::FailureType;
use crate::failure::{Details, Failure};
use crate::lang::{Lang, fill, template, text};

/// A hint that is still to be put into words.
#[derive(Debug, Clone, PartialEq)]
pub struct Hint {
    failure_type: FailureType,
    details: Option<Arc<Details>>,
    configured: Option<Arc<str>>,
}

impl Hint {
    /// The hint for the next attempt after this failure, if there is anything to say.
    pub fn for_failure(failure: &Failure, configured: Option<Arc<str>>) -> Option<Hint> {
        let failure_type = failure.cause.failure_type();
        let own = match failure_type {
            FailureType::Incomplete | FailureType::QualityFailure | FailureType::Timeout => true,
            FailureType::TransientError
            | FailureType::RateLimit
            | FailureType::FatalError
            | FailureType::EscalateRequired => false,
        };
        (own || configured.is_some()).then(|| Hint {
            failure_type,
            details: failure.details.clone(),
            configured,
        })
    }

    /// The hint in words.
    pub fn render(&self, lang: Lang) -> String {
        let own = self.own_words(lang);
        match (&self.configured, own) {
            (Some(configured), Some(own)) => format!("{own}\n\n{configured}"),
            (Some(configured), None) => configured.to_string(),
            (None, Some(own)) => own,
            (None, None) => text(lang, "hint.generic", &[]),
        }
    }

    /// Our part of the hint: the template of the failure type, or the generic words when what the template
    /// speaks of is not known.
    fn own_words(&self, lang: Lang) -> Option<String> {
        let details = self.details.as_deref();
        let made = match self.failure_type {
            FailureType::Incomplete => details.and_then(|details| incomplete(lang, details)),
            FailureType::QualityFailure => details.and_then(|details| quality(lang, details)),
            FailureType::Timeout => details.and_then(|details| timeout(lang, details)),
            FailureType::TransientError
            | FailureType::RateLimit
            | FailureType::FatalError
            | FailureType::EscalateRequired => return None,
        };
        Some(made.unwrap_or_else(|| text(lang, "hint.generic", &[])))
    }
}

/// What a subtask is told whose result made another one fail.
///
/// ```
/// use redrive_policy::{Lang, blamed_hint};
///
/// let hint = blamed_hint(Lang::En, "test", "assertion failed in auth.rs:12");
/// assert!(hint.contains("\"test\"") && hint.contains("auth.rs:12"));
/// ```
pub fn blamed_hint(lang: Lang, subtask: &str, failure: &str) -> String {
    fill(template(lang, "hint.blamed"), &[("subtask", &subtask), ("failure", &failure.trim())])
}

fn incomplete(lang: Lang, details: &Details) -> Option<String> {
    if details.detected_issues.is_empty() && details.previous_output_summary.is_none() {
        return None;
    }
    let summary = details.previous_output_summary.as_deref().unwrap_or("-");
    Some(fill(
        template(lang, "hint.incomplete"),
        &[("detected_issues", &Bullets(&details.detected_issues)), ("previous_output_summary", &summary)],
    ))
}

fn quality(lang: Lang, details: &Details) -> Option<String> {
    if details.failed_criteria.is_empty() && details.specific_issues.is_empty() {
        return None;
    }
    let judgment = details.previous_judgment.as_deref().unwrap_or("-");
    Some(fill(
        template(lang, "hint.quality"),
        &[
            ("failed_criteria", &Bullets(&details.failed_criteria)),
            ("specific_issues", &Bullets(&details.specific_issues)),
            ("modification_requirements", &Bullets(&details.modification_requirements)),
            ("previous_judgment", &judgment),
        ],
    ))
}

fn timeout(lang: Lang, details: &Details) -> Option<String> {
    let (limit, elapsed) = (details.timeout_ms?, details.elapsed_ms?);
    Some(fill(template(lang, "hint.timeout"), &[("timeout_ms", &limit), ("elapsed_ms", &elapsed)]))
}

/// A list as lines with a dash before each; a lone dash when it is empty.
pub(crate) struct Bullets<'a>(pub(crate) &'a [String]);

impl Display for Bullets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("-");
        }
        for (i, line) in self.0.iter().enumerate() {
            write!(f, "{}- {line}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;

    fn hint(cause: Cause, details: Option<Details>, configured: Option<&str>) -> Option<Hint> {
        let failure = Failure { details: details.map(Arc::new), ..Failure::of(cause) };
        Hint::for_failure(&failure, configured.map(Arc::from))
    }

    /// R-T6: every placeholder of 002 §3 is filled, in both languages.
    #[test]
    fn every_placeholder_is_filled() {
        let details = Details {
            detected_issues: vec!["省略マーカー".into(), "ends midway".into()],
            previous_output_summary: Some("fn main".into()),
            failed_criteria: vec!["Q2".into()],
            specific_issues: vec!["TODO in line 3".into()],
            modification_requirements: vec!["finish it".into()],
            previous_judgment: Some("REJECT".into()),
            timeout_ms: Some(30_000),
            elapsed_ms: Some(30_012),
            ..Details::default()
        };
        for lang in Lang::ALL {
            for (cause, words) in [
                (Cause::Incomplete, vec!["- 省略マーカー\n- ends midway", "fn main"]),
                (Cause::Quality, vec!["- Q2", "TODO in line 3", "finish it", "REJECT"]),
                (Cause::Timeout, vec!["30000ms", "30012ms"]),
            ] {
                let rendered = hint(cause, Some(details.clone()), None).unwrap().render(lang);
                assert!(!rendered.contains('{'), "{rendered}");
                for word in words {
                    assert!(rendered.contains(word), "{word:?} in {rendered}");
                }
            }
        }
        let japanese = hint(Cause::Incomplete, Some(details), None).unwrap().render(Lang::Ja);
        assert!(japanese.starts_with("前回の出力は不完全でした。"));
    }

    /// R-T6: transient and rate-limit failures are resent unchanged; configured words are appended.
    #[test]
    fn only_what_can_be_done_differently_gets_a_hint() {
        for cause in [Cause::Network, Cause::RateLimit, Cause::ApiError, Cause::Contention, Cause::Unknown] {
            assert_eq!(hint(cause, None, None), None, "{cause}");
        }
        let own = hint(Cause::Network, None, Some("use the mirror")).unwrap();
        assert_eq!(own.render(Lang::En), "use the mirror");
        let both = hint(Cause::Timeout, None, Some("use the mirror")).unwrap().render(Lang::En);
        assert!(both.ends_with("\n\nuse the mirror") && both.len() > 40);
    }

    /// R-P14: a hint that cannot be made becomes a generic one.
    #[test]
    fn without_details_the_hint_is_generic() {
        let generic = text(Lang::En, "hint.generic", &[]);
        for cause in [Cause::Incomplete, Cause::Quality, Cause::Timeout] {
            assert_eq!(hint(cause, None, None).unwrap().render(Lang::En), generic);
            assert_eq!(hint(cause, Some(Details::default()), None).unwrap().render(Lang::En), generic);
        }
    }
}
