//! What is wrong in a configuration file, what is odd, and what it defines.

use redrive_policy::{Lang, Problem};
use serde::Serialize;

use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::text::{say, text};

#[derive(Debug, Serialize)]
pub(crate) struct ConfigCheckView {
    pub(crate) schema: &'static str,
    pub(crate) file: String,
    pub(crate) ok: bool,
    pub(crate) problems: Vec<ProblemView>,
    pub(crate) warnings: Vec<ProblemView>,
    pub(crate) policies: Vec<String>,
    pub(crate) rules: Vec<String>,
    /// Rules of automatic recovery.
    pub(crate) recovery_rules: Vec<String>,
    /// Requests that are guarded by idempotency keys.
    pub(crate) routes: Vec<String>,
    /// Targets that are protected otherwise than by default.
    pub(crate) targets: Vec<String>,
    /// Who is told of alerts.
    pub(crate) receivers: Vec<String>,
    /// Services that are called for jobs.
    pub(crate) push: Vec<String>,
}

/// One thing that is wrong or odd.
#[derive(Debug, Serialize)]
pub(crate) struct ProblemView {
    pub(crate) path: String,
    /// The line of the file, counted from 1, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
    pub(crate) what: String,
    pub(crate) allowed: String,
}

impl ProblemView {
    /// Where it is: the path, and the line in front of it.
    fn place(&self) -> String {
        match self.line {
            // What cannot be parsed at all has no path but its line.
            Some(line) if !self.path.ends_with(&format!(" {line}")) => format!("{line}: {}", self.path),
            _ => self.path.clone(),
        }
    }

    /// These problems in words of that language.
    pub(crate) fn all(problems: &[Problem], lang: Lang) -> Vec<ProblemView> {
        let view = |problem: &Problem| ProblemView {
            path: problem.path.clone(),
            line: problem.place.map(|place| place.line),
            what: problem.what(lang),
            allowed: problem.allowed(lang),
        };
        problems.iter().map(view).collect()
    }
}

impl ConfigCheckView {
    /// What there is of each sort; what there is none of is not named.
    fn counts(&self, lang: Lang) -> String {
        let all = [
            ("policies", &self.policies),
            ("rules", &self.rules),
            ("recovery", &self.recovery_rules),
            ("routes", &self.routes),
            ("targets", &self.targets),
            ("receivers", &self.receivers),
            ("push", &self.push),
        ];
        let there = all.iter().filter(|(_, names)| !names.is_empty());
        let counts: Vec<String> = there
            .map(|(key, names)| text(lang, &format!("config-check.count.{key}"), &[("n", &names.len())]))
            .collect();
        counts.join(&say(lang, "config-check.and"))
    }
}

impl Page for ConfigCheckView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let verdict = if self.ok {
            let counts = self.counts(lang);
            let key = if counts.is_empty() { "config-check.ok-empty" } else { "config-check.ok" };
            let values: [(&str, &dyn std::fmt::Display); 2] = [("file", &self.file), ("counts", &counts)];
            Span::new(text(lang, key, &values), Tone::Good)
        } else {
            Span::new(text(lang, "config-check.not-ok", &[("file", &self.file)]), Tone::Bad)
        };
        let mut blocks = vec![Block::Text(vec![verdict])];
        let found = [(&self.problems, "problem", Tone::Bad), (&self.warnings, "warning", Tone::Warn)];
        let rows: Vec<Vec<Span>> = found
            .iter()
            .flat_map(|(list, kind, tone)| {
                list.iter().map(move |problem| {
                    vec![
                        Span::new(say(lang, &format!("config-check.{kind}")), *tone),
                        Span::new(problem.place(), Tone::Strong),
                        Span::plain(problem.what.clone()),
                        Span::plain(problem.allowed.clone()),
                    ]
                })
            })
            .collect();
        if !rows.is_empty() {
            let columns = ["kind", "path", "what", "allowed"];
            blocks.push(Block::Table(Table {
                columns: columns.map(|key| (say(lang, &format!("config-check.{key}")), Align::Left)).to_vec(),
                rows,
            }));
        }
        blocks
    }
}
