//! Everything on stderr: notes, warnings, errors and hints. Data never passes here.
//!
//! Nothing that goes wrong while talking is reported: there is nobody left to tell.

use std::io::Write;

use redrive_policy::Lang;

use crate::escape::{escape, width};
use crate::render::style;
use crate::render::wrap::wrap;
use crate::settings::Settings;
use crate::text::say;
use crate::trouble::Trouble;
use crate::view::Tone;
use crate::view::event::cut;

/// What stands before something that is pointed at.
const DRAWING_INDENT: &str = "  ";
/// What stands before somebody's words.
const QUOTE: &str = "         │ ";

pub(crate) struct Talk<'a> {
    stderr: &'a mut dyn Write,
    lang: Lang,
    colour: bool,
    quiet: bool,
    /// The width of the terminal that stderr is, if it is one.
    columns: Option<usize>,
}

impl<'a> Talk<'a> {
    pub(crate) fn new(stderr: &'a mut dyn Write, settings: &Settings, quiet: bool) -> Talk<'a> {
        let columns = settings.stderr_is_terminal.then_some(settings.width);
        Talk { stderr, lang: settings.lang, colour: settings.colour_talk, quiet, columns }
    }

    /// Something worth knowing; `-q` silences it.
    pub(crate) fn note(&mut self, message: &str) {
        if !self.quiet {
            self.line("note", Tone::Dim, message);
        }
    }

    /// What redrive does while somebody else's output passes through; `-q` silences it.
    pub(crate) fn narrate(&mut self, message: &str) {
        if self.quiet {
            return;
        }
        let message = escape(message);
        let indent = "redrive: ".len();
        let lines = match self.columns {
            Some(columns) => wrap(&message, columns.saturating_sub(indent)),
            None => vec![message.into_owned()],
        };
        let label = if self.colour { style::paint("redrive", Tone::Dim) } else { "redrive".to_owned() };
        for (i, line) in lines.iter().enumerate() {
            let label = if i == 0 { format!("{label}: ") } else { " ".repeat(indent) };
            let _ = writeln!(self.stderr, "{label}{line}");
        }
    }

    /// Somebody's words below a line of ours, at most so many lines of them; `-q` silences it.
    pub(crate) fn quoted(&mut self, words: &str, most: usize) {
        if self.quiet {
            return;
        }
        let mut lines = words.lines().filter(|line| !line.trim().is_empty());
        for line in lines.by_ref().take(most) {
            let line = escape(line);
            let rows = match self.columns {
                Some(columns) => wrap(&line, columns.saturating_sub(QUOTE.chars().count())),
                None => vec![line.into_owned()],
            };
            for row in rows {
                let _ = writeln!(self.stderr, "{QUOTE}{row}");
            }
        }
        if lines.next().is_some() {
            let _ = writeln!(self.stderr, "{QUOTE}…");
        }
    }

    /// Whether nothing but errors is said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Behind the `^C` that a terminal shows, what we say begins on a line of its own.
    pub(crate) fn after_a_key(&mut self) {
        if !self.quiet && self.columns.is_some() {
            let _ = writeln!(self.stderr);
        }
    }

    /// How many cells a line has that is written over and over; nothing where nobody sees one.
    pub(crate) fn cells(&self) -> Option<usize> {
        self.columns.filter(|_| !self.quiet).map(|columns| columns.saturating_sub(1))
    }

    /// How far something has come, on one line that is written over and over. Answers whether somebody can see that; `-q`
    /// silences it.
    pub(crate) fn progress(&mut self, message: &str) -> bool {
        let Some(columns) = self.columns.filter(|_| !self.quiet) else { return self.quiet };
        // By cells, not by characters: a line that is too wide is broken in two, and only the second is written over.
        let shown = cut(&escape(message), columns.saturating_sub(1));
        let _ = write!(self.stderr, "\r{shown}\x1b[K");
        let _ = self.stderr.flush();
        true
    }

    /// Takes that line away again.
    pub(crate) fn progress_ends(&mut self) {
        if self.columns.is_some() && !self.quiet {
            let _ = write!(self.stderr, "\r\x1b[K");
            let _ = self.stderr.flush();
        }
    }

    /// What somebody else wrote to its stderr, byte for byte.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.stderr.write_all(bytes);
    }

    /// A page that a renderer has made, before a question about it.
    pub(crate) fn page(&mut self, page: &str) {
        let _ = write!(self.stderr, "{page}");
    }

    /// A question, to be answered on the same line.
    pub(crate) fn ask(&mut self, question: &str) {
        let _ = write!(self.stderr, "{} ", escape(question));
        let _ = self.stderr.flush();
    }

    /// Something odd that was not stopped for; `-q` silences it.
    pub(crate) fn warning(&mut self, message: &str) {
        if !self.quiet {
            self.line("warning", Tone::Warn, message);
        }
    }

    /// Something that went wrong; always said.
    pub(crate) fn error(&mut self, message: &str) {
        self.line("error", Tone::Bad, message);
    }

    /// An error and its hint.
    pub(crate) fn trouble(&mut self, trouble: &Trouble) {
        for message in trouble.messages(self.lang) {
            self.error(&message);
        }
        // Longer lines are cut on a terminal alone: elsewhere nobody knows how wide it will be.
        let columns = self.columns.unwrap_or(usize::MAX / 2).saturating_sub(DRAWING_INDENT.len());
        for line in trouble.drawing(columns).into_iter().flatten() {
            let _ = writeln!(self.stderr, "{DRAWING_INDENT}{line}");
        }
        if let Some(hint) = trouble.hint(self.lang) {
            self.hint(&hint);
        }
    }

    /// What to do about the error before it; always said.
    pub(crate) fn hint(&mut self, message: &str) {
        self.line("hint", Tone::Strong, message);
    }

    /// One line, whatever the message holds: a line break in somebody's data must not begin a second one that
    /// looks like ours. On a terminal it goes on below its own words; a hint does not, since it is copied and typed.
    fn line(&mut self, kind: &str, tone: Tone, message: &str) {
        // For people in their language; where no terminal is, it is the same in both, so that scripts can look for it.
        let label = match self.columns {
            Some(_) => say(self.lang, &format!("talk.{kind}")),
            None => kind.to_owned(),
        };
        let message = escape(message);
        let indent = width(&label) + 2;
        let label = if self.colour { style::paint(&label, tone) } else { label };
        let lines = match self.columns {
            Some(columns) if kind != "hint" => wrap(&message, columns.saturating_sub(indent)),
            _ => vec![message.into_owned()],
        };
        for (i, line) in lines.iter().enumerate() {
            let label = if i == 0 { format!("{label}: ") } else { " ".repeat(indent) };
            let _ = writeln!(self.stderr, "{label}{line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escape::width;

    /// R-C2: a line that is written over fits into one row, whatever its characters are; else every repaint would leave one behind.
    #[test]
    fn a_line_of_progress_is_one_row() {
        for (message, columns) in [
            (
                "redrive_8 1/16 · 毎秒 0 件 · 第 1 段階（全 4）: 成功 0、失敗 0、実行中 1、結果待ち 16 件です",
                80,
            ),
            (
                "redrive_8 ━━━━━───── 1/16 · 0 per second · step 1 of 4: 0 succeeded, 0 failed, 1 under way",
                40,
            ),
            ("進", 3),
        ] {
            let mut said = Vec::new();
            let (lang, colour, quiet) = (Lang::Ja, false, false);
            let mut talk = Talk { stderr: &mut said, lang, colour, quiet, columns: Some(columns) };
            assert!(talk.progress(message));
            let said = String::from_utf8(said).unwrap();
            let shown = said.trim_start_matches('\r').trim_end_matches("\u{1b}[K");
            assert!(width(shown) < columns, "{} of {columns}: {shown}", width(shown));
        }
    }
}
