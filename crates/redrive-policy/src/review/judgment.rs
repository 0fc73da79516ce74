//! What a review came to: passed, or findings that become a failure and a hint (R-T5, R-T6).

use crate::cause::Cause;
use crate::failure::Details;
use crate::lang::{Lang, text};
use crate::review::{CheckRun, Criterion, Finding};

/// How many findings the next attempt is told; the rest is counted.
pub const TOLD: usize = 10;
/// How much of the output it is reminded of.
const SUMMARY_BOUND: usize = 1_200;

/// What a review came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judgment {
    /// What was found, by criterion and then by line.
    pub findings: Vec<Finding>,
    /// How many more were found than are kept.
    pub more: usize,
    /// What was claimed, and what stood behind it.
    pub claimed: usize,
    pub(super) summary: String,
    pub(super) outside: Option<Cause>,
}

impl Judgment {
    /// Whether nothing was found.
    pub fn passed(&self) -> bool {
        self.findings.is_empty()
    }

    /// What failed: the output is not all there, or it is not good (R-T5); what kept it from being made, where it consists
    /// of nothing but a tool's error. Nothing when it passed.
    pub fn cause(&self) -> Option<Cause> {
        if self.passed() {
            return None;
        }
        if self.outside.is_some() {
            return self.outside;
        }
        let incomplete = self.findings.iter().all(|finding| finding.what.is_incomplete());
        Some(if incomplete { Cause::Incomplete } else { Cause::Quality })
    }

    /// The criteria that were not met, in their order.
    pub fn failed_criteria(&self) -> Vec<Criterion> {
        let mut failed: Vec<Criterion> = self.findings.iter().map(|finding| finding.criterion).collect();
        failed.sort_unstable();
        failed.dedup();
        failed
    }

    /// One line on it: what an attempt failed with.
    pub fn message(&self, lang: Lang) -> String {
        let Some(first) = self.findings.first() else { return text(lang, "review.passed", &[]) };
        let failed: Vec<&str> = self.failed_criteria().iter().map(|criterion| criterion.name()).collect();
        let more = self.findings.len() - 1 + self.more;
        let key = if more == 0 { "review.rejected" } else { "review.rejected-more" };
        let values = [
            ("criteria", &failed.join(", ") as &dyn std::fmt::Display),
            ("first", &first.describe(lang)),
            ("more", &more),
        ];
        text(lang, key, &values)
    }

    /// What the next attempt is told (R-T6): the place and an excerpt of each finding, bounded.
    pub fn details(&self, lang: Lang) -> Details {
        if self.passed() {
            return Details::default();
        }
        let mut issues: Vec<String> =
            self.findings.iter().take(TOLD).map(|finding| finding.describe(lang)).collect();
        let untold = self.findings.len().saturating_sub(TOLD) + self.more;
        if untold > 0 {
            issues.push(text(lang, "review.untold", &[("count", &untold)]));
        }
        let failed = self.failed_criteria();
        let say = |part: &str, criterion: &Criterion| {
            text(lang, &format!("review.{part}.{}", criterion.name()), &[])
        };
        let names: Vec<&str> = failed.iter().map(|criterion| criterion.name()).collect();
        Details {
            message: Some(self.message(lang)),
            detected_issues: issues.clone(),
            previous_output_summary: Some(self.summary.clone()).filter(|summary| !summary.is_empty()),
            failed_criteria: failed
                .iter()
                .map(|criterion| format!("{criterion}: {}", say("criterion", criterion)))
                .collect(),
            specific_issues: issues,
            modification_requirements: failed.iter().map(|criterion| say("require", criterion)).collect(),
            previous_judgment: Some(format!("REJECT ({})", names.join(", "))),
            ..Details::default()
        }
    }

    /// What failed commands alone come to.
    pub fn of_checks(checks: &[CheckRun]) -> Judgment {
        let findings = checks.iter().filter(|run| !run.ok).map(CheckRun::finding).collect();
        Judgment { findings, ..Judgment::default() }
    }

    pub(super) fn of(findings: Vec<Finding>, more: usize, claimed: usize, output: &str) -> Judgment {
        let summary = super::finding::summary(output, SUMMARY_BOUND);
        Judgment { findings, more, claimed, summary, outside: None }
    }
}
