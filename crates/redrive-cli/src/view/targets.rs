//! Protected targets: where their breakers stand, what waits for them, and when they are tried again.

use redrive::engine::{TargetReport, TargetView};
use redrive_policy::Lang;
use redrive_store::Timestamp;
use serde::Serialize;

use super::block::{Column, Listing};
use super::moment::coming;
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// JSON: `redrive/targets.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TargetsView {
    schema: &'static str,
    items: Vec<TargetReport>,
    #[serde(skip)]
    now: Timestamp,
}

impl TargetsView {
    pub(crate) fn new(targets: &[TargetView], lang: Lang, now: Timestamp) -> TargetsView {
        let items = targets.iter().map(|target| target.report(lang)).collect();
        TargetsView { schema: "redrive/targets.v1", items, now }
    }
}

fn state(target: &TargetReport, lang: Lang) -> Span {
    let tone = match target.state {
        "closed" => Tone::Good,
        "open" => Tone::Bad,
        _ => Tone::Warn,
    };
    Span::new(say(lang, &format!("targets.state.{}", target.state)), tone)
}

fn limits(target: &TargetReport) -> String {
    let mut parts: Vec<String> = target.rate.iter().map(ToString::to_string).collect();
    parts.extend(target.concurrency.map(|limit| format!("×{limit}")));
    if parts.is_empty() { "-".to_owned() } else { parts.join(" ") }
}

/// A target that is in trouble, in a sentence.
pub(crate) fn trouble(target: &TargetReport, now: Timestamp, reader: Reader) -> Option<String> {
    let why = target.why.as_ref()?;
    let at = target.tried_again_at.map(|at| coming(at, now, reader));
    Some(match at {
        Some(at) => text(reader.lang, "targets.tried-again", &[("why", why), ("at", &at)]),
        None => text(reader.lang, "targets.trouble", &[("why", why)]),
    })
}

impl Page for TargetsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(say(lang, "targets.none"))])];
        }
        let word = |key: &str| say(lang, &format!("targets.{key}"));
        let columns = vec![
            Column::left(word("target")),
            Column::left(word("stands")),
            Column::right(word("failed")),
            Column::right(word("parked")),
            Column::right(word("running")).rank(2),
            Column::left(word("limits")).rank(1),
        ];
        let row = |target: &TargetReport| {
            vec![
                Span::new(target.name.clone(), Tone::Strong),
                state(target, lang),
                Span::plain(format!("{}/{}", target.failed + target.refused, target.calls)),
                Span::new(target.parked.to_string(), if target.parked > 0 { Tone::Warn } else { Tone::Dim }),
                Span::plain(target.running.map_or_else(|| "-".to_owned(), |running| running.to_string())),
                Span::plain(limits(target)),
            ]
        };
        let rows = self.items.iter().map(row).collect();
        let mut blocks = vec![Block::Listing(Listing { columns, rows })];
        for line in self.items.iter().filter_map(|target| trouble(target, self.now, reader)) {
            blocks.push(Block::Text(vec![Span::new(line, Tone::Warn)]));
        }
        blocks
    }
}

/// One target. JSON: `redrive/target.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TargetDetailView {
    schema: &'static str,
    #[serde(flatten)]
    target: TargetReport,
    #[serde(skip)]
    now: Timestamp,
}

impl TargetDetailView {
    pub(crate) fn new(target: &TargetView, lang: Lang, now: Timestamp) -> TargetDetailView {
        TargetDetailView { schema: "redrive/target.v1", target: target.report(lang), now }
    }
}

impl Page for TargetDetailView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, target) = (reader.lang, &self.target);
        let stands = state(target, lang);
        let head = vec![Span::new(format!("{}: ", target.name), Tone::Strong), stands];
        let mut blocks = vec![Block::Text(head)];
        if let Some(line) = trouble(target, self.now, reader) {
            blocks.push(Block::Text(vec![Span::new(line, Tone::Warn)]));
        }
        let none = || "-".to_owned();
        let values: [(&str, &dyn std::fmt::Display); 9] = [
            ("calls", &target.calls),
            ("failed", &target.failed),
            ("refused", &target.refused),
            ("parked", &target.parked),
            ("total", &target.parked_total),
            ("opened", &target.opened_total),
            ("budget", &target.retry_budget.map_or_else(none, |budget| budget.to_string())),
            ("running", &target.running.map_or_else(none, |running| running.to_string())),
            ("limits", &limits(target)),
        ];
        for key in ["late-calls", "waiting", "bounds"] {
            let line = text(lang, &format!("targets.{key}"), &values);
            blocks.push(Block::Text(vec![Span::plain(line)]));
        }
        blocks
    }
}

/// What was done to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TargetChange {
    Limited,
    Unlimited,
    Reset,
}

/// JSON: `redrive/target_changed.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TargetChangedView {
    schema: &'static str,
    target: String,
    change: TargetChange,
}

impl TargetChangedView {
    pub(crate) fn new(target: String, change: TargetChange) -> TargetChangedView {
        TargetChangedView { schema: "redrive/target_changed.v1", target, change }
    }
}

impl Page for TargetChangedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let key = match self.change {
            TargetChange::Limited => "targets.now-limited",
            TargetChange::Unlimited => "targets.now-unlimited",
            TargetChange::Reset => "targets.now-reset",
        };
        let line = text(reader.lang, key, &[("target", &self.target)]);
        vec![Block::Text(vec![Span::new(line, Tone::Good)])]
    }
}
