//! What the doctor found: how each thing stands, what that means, and the command that mends it.

use redrive_policy::Lang;
use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Ok,
    Warning,
    Problem,
}

impl Verdict {
    const fn look(self) -> (&'static str, Tone) {
        match self {
            Verdict::Ok => ("doctor.ok", Tone::Good),
            Verdict::Warning => ("doctor.warning", Tone::Warn),
            Verdict::Problem => ("doctor.problem", Tone::Bad),
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// Its name, which programs go by.
    pub(crate) check: &'static str,
    pub(crate) verdict: Verdict,
    /// What was seen, and what it means.
    pub(crate) what: String,
    /// What to type about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

/// JSON: `redrive/doctor.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorView {
    schema: &'static str,
    version: &'static str,
    store: String,
    ok: bool,
    warnings: usize,
    problems: usize,
    findings: Vec<Finding>,
}

impl DoctorView {
    pub(crate) fn new(store: String, findings: Vec<Finding>) -> DoctorView {
        let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
        let (warnings, problems) = (count(Verdict::Warning), count(Verdict::Problem));
        DoctorView {
            schema: "redrive/doctor.v1",
            version: env!("CARGO_PKG_VERSION"),
            store,
            ok: warnings + problems == 0,
            warnings,
            problems,
            findings,
        }
    }

    /// The worst of it.
    pub(crate) fn verdict(&self) -> Verdict {
        match (self.problems, self.warnings) {
            (0, 0) => Verdict::Ok,
            (0, _) => Verdict::Warning,
            _ => Verdict::Problem,
        }
    }

    fn verdict_in_words(&self, lang: Lang) -> String {
        let key = match self.verdict() {
            Verdict::Ok => "doctor.all-well",
            Verdict::Warning => "doctor.only-warnings",
            Verdict::Problem => "doctor.in-trouble",
        };
        let n = self.findings.len();
        text(lang, key, &[("n", &n), ("warnings", &self.warnings), ("problems", &self.problems)])
    }
}

impl Page for DoctorView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let title = text(lang, "doctor.title", &[("version", &self.version), ("store", &self.store)]);
        let mut blocks = vec![Block::Heading(title)];
        let labels =
            [Verdict::Ok, Verdict::Warning, Verdict::Problem].map(|verdict| say(lang, verdict.look().0));
        let widest = labels.iter().map(|label| crate::escape::width(label)).max().unwrap_or(0);
        for finding in &self.findings {
            let (label, tone) = finding.verdict.look();
            blocks.push(Block::Text(vec![
                Span::new(format!("{}  ", crate::escape::pad(&say(lang, label), widest)), tone),
                Span::plain(finding.what.clone()),
            ]));
            if let Some(fix) = &finding.fix {
                blocks.push(Block::Text(vec![
                    Span::plain(" ".repeat(widest + 2)),
                    Span::new(format!("→ {fix}"), Tone::Strong),
                ]));
            }
        }
        let tone = self.verdict().look().1;
        blocks.push(Block::Gap);
        blocks.push(Block::Text(vec![Span::new(self.verdict_in_words(lang), tone)]));
        blocks
    }
}
