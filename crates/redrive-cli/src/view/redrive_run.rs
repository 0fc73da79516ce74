//! Redrives: one as it stands, and the list of them.

use redrive::engine::{RedriveRun, Tally};
use redrive_policy::Lang;
pub(crate) use redrive_server::shape::redrive::Redrive as RunLine;
use redrive_server::shape::redrive::{Ended, Takes};
use redrive_store::Timestamp;
use serde::Serialize;

use super::badge::Badge;
use super::block::{Column, Listing, Progress};
use super::group::short;
use super::story::wanted_by;
use super::{Block, Page, Reader, Span, Table, Tone, moment};
use crate::text::{say, text};

/// One redrive, with how its first attempts went.
pub(crate) fn run_line(run: &RedriveRun, tally: Option<Tally>) -> RunLine {
    RunLine::new(run, tally, usize::MAX)
}

/// What rows and pages say of a redrive.
pub(crate) trait InWords {
    /// What it takes, in a few words.
    fn takes(&self, lang: Lang) -> String;
    /// Who wanted it.
    fn by(&self, lang: Lang) -> String;
    /// How the first attempts went, if somebody looks at them.
    fn tally(&self, lang: Lang) -> Option<String>;
    /// How far it is, on one line.
    fn how_far(&self, bar: Option<&str>, per_second: f64, lang: Lang) -> String;
    /// What came of it, in a sentence or two.
    fn ending(&self, lang: Lang) -> String;
    fn tone(&self) -> Tone;
}

impl InWords for RunLine {
    fn takes(&self, lang: Lang) -> String {
        match &self.which {
            Takes::All => say(lang, "redrive.takes-all"),
            Takes::Group(fingerprint) => text(lang, "redrive.takes-group", &[("group", &short(fingerprint))]),
            Takes::Where(filter) => filter.clone(),
            Takes::Ids(ids) => text(lang, "redrive.takes-ids", &[("n", &ids.len())]),
        }
    }

    fn by(&self, lang: Lang) -> String {
        wanted_by(&self.wanted_by, lang)
    }

    fn tally(&self, lang: Lang) -> Option<String> {
        let canary = self.canary.as_ref()?;
        let values: &[(&str, &dyn std::fmt::Display)] = &[
            ("step", &canary.step),
            ("ok", &canary.succeeded),
            ("failed", &canary.failed),
            ("open", &canary.unknown),
        ];
        Some(text(lang, "redrive.step", values))
    }

    fn how_far(&self, bar: Option<&str>, per_second: f64, lang: Lang) -> String {
        let speed = text(lang, "redrive.per-second", &[("n", &format_args!("{per_second:.0}"))]);
        let bar = bar.map(|bar| format!("{bar} ")).unwrap_or_default();
        let mut parts = vec![format!("{} {bar}{}/{}", self.id, self.moved, self.total), speed];
        parts.extend(self.tally(lang));
        parts.join(" · ")
    }

    fn ending(&self, lang: Lang) -> String {
        let left = self.total.saturating_sub(self.moved + self.skipped);
        let values: &[(&str, &dyn std::fmt::Display)] =
            &[("id", &self.id), ("n", &self.moved), ("left", &left), ("total", &self.total)];
        let mut said = text(lang, &format!("redrive.{}", self.state), values);
        let between = match lang {
            Lang::En => " ",
            Lang::Ja => "",
        };
        if self.skipped > 0 {
            said.push_str(between);
            said.push_str(&text(lang, "redrive.skipped", &[("n", &self.skipped)]));
        }
        if let Some(why) = &self.why {
            let more = match why {
                Ended::Failures { failed, of } => {
                    text(lang, "redrive.why-failures", &[("failed", failed), ("of", of)])
                }
                Ended::NewKind { fingerprint, failed } => {
                    text(lang, "redrive.why-new-kind", &[("group", &short(fingerprint)), ("failed", failed)])
                }
                Ended::Cancelled { said: Some(said) } => text(lang, "redrive.why-said", &[("said", said)]),
                Ended::Cancelled { said: None } => String::new(),
            };
            if !more.is_empty() {
                said.push_str(between);
                said.push_str(&more);
            }
        }
        said
    }

    fn tone(&self) -> Tone {
        match self.state {
            "done" if self.skipped == 0 => Tone::Good,
            "running" | "done" | "cancelled" => Tone::Warn,
            _ => Tone::Bad,
        }
    }
}

/// One redrive. JSON: `redrive/redriven.v1` with the run beside the counts.
#[derive(Debug, Serialize)]
pub(crate) struct RedriveRunView {
    schema: &'static str,
    redriven: u64,
    failed: u64,
    items: [(); 0],
    pub(crate) run: RunLine,
}

impl RedriveRunView {
    pub(crate) fn new(run: RunLine) -> RedriveRunView {
        let (redriven, failed) = (run.moved, run.skipped);
        RedriveRunView { schema: "redrive/redriven.v1", redriven, failed, items: [], run }
    }
}

impl Page for RedriveRunView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (run, lang) = (&self.run, reader.lang);
        let took = if run.state == "running" { "redrive.takes" } else { "redrive.took" };
        let mut blocks = vec![
            Block::Progress(Progress {
                label: run.id.clone(),
                done: run.moved,
                total: run.total,
                tone: run.tone(),
                note: run.tally(lang).unwrap_or_default(),
            }),
            Block::Text(vec![Span::new(run.ending(lang), run.tone())]),
            Block::Text(vec![Span::new(text(lang, took, &[("takes", &run.takes(lang))]), Tone::Dim)]),
        ];
        let next = match (run.state, &run.why) {
            ("running", _) => Some(text(lang, "redrive.next-running", &[("id", &run.id)])),
            ("stopped", Some(Ended::NewKind { fingerprint, .. })) => {
                Some(text(lang, "redrive.next-new-kind", &[("group", &short(fingerprint))]))
            }
            ("stopped", _) => Some(say(lang, "redrive.next-stopped")),
            ("done", _) if run.canary.is_none() => Some(say(lang, "redrive.next-done")),
            _ => None,
        };
        if let Some(next) = next {
            blocks.push(Block::Text(vec![Span::new(next, Tone::Dim)]));
        }
        blocks
    }
}

/// Redrives, the newest first. JSON: `redrive/redrives.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct RedriveRunsView {
    schema: &'static str,
    items: Vec<RunLine>,
    #[serde(skip)]
    now: Timestamp,
}

impl RedriveRunsView {
    pub(crate) fn new(items: Vec<RunLine>, now: Timestamp) -> RedriveRunsView {
        RedriveRunsView { schema: "redrive/redrives.v1", items, now }
    }
}

impl Page for RedriveRunsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::new(say(lang, "redrive.none"), Tone::Good)])];
        }
        let name = |key: &str| say(lang, &format!("redrive.columns.{key}"));
        let columns = vec![
            Column::left(name("id")),
            Column::left(name("state")),
            Column::right(name("moved")),
            Column::right(name("skipped")).rank(3),
            Column::right(name("began")).rank(2),
            Column::left(name("by")).rank(4),
            Column::left(name("takes")).cut_to(20),
        ];
        let row = |run: &RunLine| {
            let state = Badge::named(run.state).map(|badge| badge.span(lang));
            vec![
                Span::new(run.id.clone(), Tone::Strong),
                state.unwrap_or_else(|| Span::plain(run.state)),
                Span::plain(format!("{}/{}", run.moved, run.total)),
                Span::plain(run.skipped.to_string()),
                Span::new(moment::when(run.created_at, self.now, reader), Tone::Dim),
                Span::plain(run.by(lang)),
                Span::plain(run.takes(lang)),
            ]
        };
        let rows = self.items.iter().map(row).collect();
        // Whoever wants more sees whole filters, on as many lines as they take.
        vec![if reader.verbose {
            let columns = columns.into_iter().map(|column| (column.name, column.align)).collect();
            Block::Table(Table { columns, rows })
        } else {
            Block::Listing(Listing { columns, rows })
        }]
    }
}
