//! What a command answers, before anyone decides how it looks.
//!
//! A view is a serialisable struct; `--json` writes it as it stands. For people it lays itself out as
//! [`Block`]s, which the rich and the plain renderer draw each in their way. Texts in blocks are unescaped:
//! renderers escape all of them.

pub(crate) mod accuracy;
pub(crate) mod alerts;
pub(crate) mod backoff;
pub(crate) mod badge;
pub(crate) mod block;
pub(crate) mod check;
pub(crate) mod classification;
pub(crate) mod config;
pub(crate) mod config_check;
pub(crate) mod copied;
pub(crate) mod dead_letter;
pub(crate) mod decision;
pub(crate) mod delays;
pub(crate) mod detail;
pub(crate) mod discarded;
pub(crate) mod doctor;
pub(crate) mod edited;
pub(crate) mod enqueued;
pub(crate) mod escalation;
pub(crate) mod event;
pub(crate) mod failed;
pub(crate) mod group;
mod header;
pub(crate) mod idempotency;
pub(crate) mod imported;
pub(crate) mod key_reason;
pub(crate) mod letters_imported;
mod level;
pub(crate) mod metrics;
pub(crate) mod moment;
pub(crate) mod outbox;
pub(crate) mod policy;
pub(crate) mod purged;
pub(crate) mod push;
pub(crate) mod queue;
pub(crate) mod redrive_preview;
pub(crate) mod redrive_run;
pub(crate) mod redriven;
pub(crate) mod restored;
pub(crate) mod review;
pub(crate) mod rotated;
mod sample;
pub(crate) mod schedule;
pub(crate) mod simulation;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod story;
pub(crate) mod targets;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod trace;
pub(crate) mod welcome;

use std::time::Duration;

pub(crate) use block::{Column, Graph, GraphNode, Listing, Panel, Progress, Share, Spark};
use redrive_policy::Lang;
use serde::Serialize;

/// What a text means, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    Warn,
    Dim,
    Strong,
    Heading,
    /// Bad, and it was thought to be over.
    Alarm,
}

/// A text and what it means.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Span {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Span {
        Span { text: text.into(), tone }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Span {
        Span::new(text, Tone::Plain)
    }
}

/// On which side the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Rows under named columns.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    pub(crate) columns: Vec<(String, Align)>,
    pub(crate) rows: Vec<Vec<Span>>,
}

/// One delay of a curve, to be drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    /// Number of the retry, from 1.
    pub(crate) number: u32,
    pub(crate) delay: Duration,
    /// The least and the most that jitter could have made of it.
    pub(crate) low: Duration,
    pub(crate) high: Duration,
    /// All delays up to this one.
    pub(crate) total: Duration,
}

/// A curve of delays.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    /// The words above number, delay and sum.
    pub(crate) labels: [String; 3],
    pub(crate) rows: Vec<Bar>,
    pub(crate) cap: Duration,
    /// Retries beyond this number are not made.
    pub(crate) last: Option<u32>,
}

/// A piece of a page.
#[derive(Debug, Clone)]
pub(crate) enum Block {
    /// A line that says what follows.
    Heading(String),
    /// Prose; wrapped on a terminal.
    Text(Vec<Span>),
    /// Names and values.
    Fields(Vec<(String, Span)>),
    /// Cells of prose: what does not fit is wrapped.
    Table(Table),
    /// Rows of a list: each stays on its line, and what does not fit is left out by rank.
    Listing(Listing),
    /// A box with a title around other blocks.
    Panel(Panel),
    /// Numbers that matter, side by side, each above its name.
    Tally(Vec<(Span, String)>),
    /// Parts of a whole as bars, one below the other.
    Shares(Vec<Share>),
    /// How far something has come.
    Progress(Progress),
    /// Things that depend on one another.
    Graph(Graph),
    /// What happened over time, a line each.
    // Drawn by the metrics.
    #[allow(dead_code)]
    Sparks(Vec<Spark>),
    /// Two halves side by side where there is room, else one below the other.
    Beside(Vec<Block>, Vec<Block>),
    Bars(Bars),
    /// A text in Markdown.
    Markdown(String),
    /// An empty line.
    Gap,
}

/// How much a person wants to see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader {
    pub(crate) lang: Lang,
    pub(crate) verbose: bool,
    /// Points in time as such, not as how long ago they were.
    pub(crate) absolute: bool,
}

/// Something that can be shown to a person.
pub(crate) trait Page {
    fn blocks(&self, reader: Reader) -> Vec<Block>;
}

/// Something that can be shown to a person or to a machine.
pub(crate) trait View: Page {
    fn write_json(&self, out: &mut dyn std::io::Write, pretty: bool) -> serde_json::Result<()>;
}

impl<T: Page + Serialize> View for T {
    fn write_json(&self, out: &mut dyn std::io::Write, pretty: bool) -> serde_json::Result<()> {
        crate::render::json::write(self, out, pretty)
    }
}
