//! The parts that pages are built from, beyond prose and tables.
//!
//! Each is data without a look: the rich form draws boxes, bars and spark lines, the plain form writes the same as
//! stable columns and numbers.

use super::{Align, Block, Span, Tone};

/// A column of a [`Listing`] and what becomes of it when the terminal is narrow.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) align: Align,
    /// 0 stays whatever happens; of the others, the highest is left out first.
    pub(crate) rank: u8,
    /// The width down to which its cells may be cut; without one they are never cut.
    pub(crate) cut_to: Option<usize>,
}

impl Column {
    /// A column of words that is always there and never cut.
    pub(crate) fn left(name: impl Into<String>) -> Column {
        Column { name: name.into(), align: Align::Left, rank: 0, cut_to: None }
    }

    /// A column of numbers that is always there and never cut.
    pub(crate) fn right(name: impl Into<String>) -> Column {
        Column { align: Align::Right, ..Column::left(name) }
    }

    /// It may be left out; the highest rank goes first.
    pub(crate) fn rank(self, rank: u8) -> Column {
        Column { rank, ..self }
    }

    /// Its cells may be cut to this width, with `…`, before any column is left out.
    pub(crate) fn cut_to(self, columns: usize) -> Column {
        Column { cut_to: Some(columns), ..self }
    }
}

/// A list with one line per row. Where the terminal is too narrow, cells that may be cut are cut, then the columns
/// that matter least are left out. Plain and JSON keep everything.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Span>>,
}

/// A rounded box with its title in the upper border.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) title: Span,
    /// What stands at the right end of the upper border.
    pub(crate) note: Option<Span>,
    /// The colour of the border.
    pub(crate) border: Tone,
    pub(crate) body: Vec<Block>,
}

impl Panel {
    /// A panel with a quiet border.
    pub(crate) fn new(title: impl Into<String>, body: Vec<Block>) -> Panel {
        Panel { title: Span::new(title, Tone::Heading), note: None, border: Tone::Dim, body }
    }

    /// With a word at the right end of the upper border.
    pub(crate) fn note(self, note: Span) -> Panel {
        Panel { note: Some(note), ..self }
    }

    /// With a border of this colour.
    pub(crate) fn border(self, border: Tone) -> Panel {
        Panel { border, ..self }
    }
}

/// One part of a whole, drawn as a bar. The whole fills the room; without one, the largest part does.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) label: String,
    pub(crate) value: u64,
    /// The whole that it is a part of; 0 when a percentage says nothing.
    pub(crate) of: u64,
    pub(crate) tone: Tone,
}

/// Things that depend on one another.
#[derive(Debug, Clone)]
pub(crate) struct Graph {
    /// The words above name, state, what is waited for, and note, where it is a table.
    pub(crate) labels: [String; 4],
    pub(crate) nodes: Vec<GraphNode>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct GraphNode {
    pub(crate) name: String,
    /// A sign for its state, in the colour of it.
    pub(crate) mark: char,
    pub(crate) state: Span,
    /// What else there is to say.
    pub(crate) note: String,
    /// What it waits for, by place.
    pub(crate) after: Vec<usize>,
}

/// How far something has come.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    pub(crate) label: String,
    pub(crate) done: u64,
    pub(crate) total: u64,
    pub(crate) tone: Tone,
    /// Said behind it: what failed, how fast, what comes next.
    pub(crate) note: String,
}

/// A number per hour (or any other step), the oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Spark {
    pub(crate) label: String,
    pub(crate) values: Vec<u64>,
    pub(crate) tone: Tone,
    /// Said behind it: the sum, the highest, the period.
    pub(crate) note: String,
}
