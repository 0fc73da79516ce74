//! What a check of the store found: every invariant, and what breaks it.

use redrive_store::{CheckReport, Violation};
use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::{find, say, text};

#[derive(Debug, Serialize)]
pub(crate) struct CheckView {
    schema: &'static str,
    store: String,
    pub(crate) ok: bool,
    checked: Vec<String>,
    violations: Vec<Violation>,
}

impl CheckView {
    pub(crate) fn new(report: CheckReport, store: String) -> CheckView {
        CheckView {
            schema: "redrive/store_check.v1",
            store,
            ok: report.is_clean(),
            checked: report.checked,
            violations: report.violations,
        }
    }
}

impl Page for CheckView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks = Vec::new();
        for invariant in &self.checked {
            let broken: Vec<&Violation> =
                self.violations.iter().filter(|violation| violation.invariant == *invariant).collect();
            let (mark, tone) = if broken.is_empty() { ("ok", Tone::Good) } else { ("broken", Tone::Bad) };
            let key = format!("check.invariant.{invariant}");
            let words = find(lang, &key).unwrap_or(invariant).to_owned();
            blocks.push(Block::Text(vec![
                Span::new(format!("{}  ", say(lang, &format!("check.{mark}"))), tone),
                Span::plain(words),
            ]));
            let what =
                |violation: &&Violation| Block::Text(vec![Span::plain(format!("    {}", violation.what))]);
            blocks.extend(broken.iter().map(what));
        }
        let elsewhere = self.violations.iter().filter(|found| !self.checked.contains(&found.invariant));
        blocks.extend(elsewhere.map(|found| {
            Block::Text(vec![Span::new(format!("{}: {}", found.invariant, found.what), Tone::Bad)])
        }));
        let (key, tone) = if self.ok { ("check.clean", Tone::Good) } else { ("check.not-clean", Tone::Bad) };
        let verdict = text(
            lang,
            key,
            &[("store", &self.store), ("n", &self.checked.len()), ("broken", &self.violations.len())],
        );
        blocks.push(Block::Text(vec![Span::new(verdict, tone)]));
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_policy::Lang;

    /// R-C1: what breaks an invariant stands below it, in both languages, and the whole is not sound.
    #[test]
    fn what_breaks_an_invariant_stands_below_it() {
        let report = CheckReport {
            checked: vec!["the file is whole".to_owned(), "counters are right".to_owned()],
            violations: vec![Violation {
                invariant: "counters are right".to_owned(),
                what: "lane 1 counts 2 ready and has 3".to_owned(),
            }],
        };
        let view = CheckView::new(report, "sqlite:x.db".to_owned());
        assert!(!view.ok);
        for (lang, broken) in [(Lang::En, "BROKEN"), (Lang::Ja, "異常")] {
            let lines: Vec<String> = view
                .blocks(Reader { lang, verbose: false, absolute: false })
                .iter()
                .map(|block| match block {
                    Block::Text(spans) => spans.iter().map(|span| span.text.as_str()).collect(),
                    _ => String::new(),
                })
                .collect();
            assert_eq!(lines.len(), 4, "{lines:?}");
            assert!(lines[1].starts_with(broken) && lines[2].contains("lane 1 counts 2"), "{lines:?}");
        }
    }
}
