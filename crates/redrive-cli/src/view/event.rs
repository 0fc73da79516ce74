//! Events, one line each, so that a stream that is followed looks like a list that has ended.

use redrive_store::Event;

use super::moment::{clock, precise};
use super::story::{in_short, tone};
use super::{Block, Reader, Span, Tone};
use crate::escape::{escape, pad, width};

/// How wide the columns are, at the least; what is longer pushes the rest aside.
const STATUS: usize = 11;
const JOB: usize = 7;
const SOURCE: usize = 8;
/// How wide they become where something in them is longer.
const WIDEST_JOB: usize = 12;
const WIDEST_SOURCE: usize = 16;

/// Writes events as lines. On a terminal the day stands above the first event of it.
pub(crate) struct EventLines {
    reader: Reader,
    /// The width of the terminal, if there is one; nothing is cut without.
    columns: Option<usize>,
    day: String,
    /// How wide the columns of jobs and of sources are by now.
    job: usize,
    source: usize,
}

impl EventLines {
    pub(crate) fn new(reader: Reader, columns: Option<usize>) -> EventLines {
        EventLines { reader, columns, day: String::new(), job: JOB, source: SOURCE }
    }

    /// Makes room for these, so that the words of all begin below each other.
    pub(crate) fn make_room(&mut self, events: &[Event]) {
        let widest = |cells: &dyn Fn(&Event) -> usize| events.iter().map(cells).max().unwrap_or(0);
        self.job = self.job.max(widest(&|event| width(&escape(&about(event)))).min(WIDEST_JOB));
        self.source = self.source.max(widest(&|event| width(&escape(&event.source))).min(WIDEST_SOURCE));
    }

    /// The lines of the next event.
    pub(crate) fn of(&mut self, event: &Event) -> Vec<Block> {
        let mut blocks = Vec::new();
        let whole = precise(event.timestamp);
        let day = whole.split(' ').next().unwrap_or_default();
        if self.columns.is_some() && day != self.day {
            blocks.push(Block::Text(vec![Span::new(format!("{day} (UTC)"), Tone::Dim)]));
            day.clone_into(&mut self.day);
        }
        let at = if self.columns.is_some() { clock(event.timestamp) } else { whole };
        blocks.push(self.line(event, &at));
        blocks
    }

    fn line(&self, event: &Event, at: &str) -> Block {
        let lang = self.reader.lang;
        let cell = |text: &str, columns: usize| format!("{}  ", pad(&escape(text), columns));
        let at = format!("{at}  ");
        let status = cell(event.status.name(), STATUS);
        let job = cell(&about(event), self.job);
        let source = cell(&event.source, self.source);
        let words = in_short(event, lang);
        let used: usize = [&at, &status, &job, &source].iter().map(|cell| width(cell)).sum();
        let words = escape(&words);
        let words = match self.columns {
            Some(columns) => cut(&words, columns.saturating_sub(used).max(16)),
            None => words.into_owned(),
        };
        Block::Text(vec![
            Span::new(at, Tone::Dim),
            Span::new(status, tone(event.status)),
            Span::new(job, Tone::Strong),
            Span::new(source, Tone::Dim),
            Span::plain(words),
        ])
    }
}

/// The job that an event is about; for keys and calls of the outbox, which need none, the id by which their commands know them.
fn about(event: &Event) -> String {
    let ours = ["idempotency_", "outbox_"].iter().any(|begins| event.event_type.starts_with(begins));
    let named = event.data.get("caller_id").and_then(serde_json::Value::as_str).filter(|_| ours);
    match (event.job, named) {
        (Some(job), _) => job.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "-".to_owned(),
    }
}

/// The beginning of a text in so many columns, with `…` where it was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > columns {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}
