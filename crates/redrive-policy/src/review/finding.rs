//! One thing that a review found, with its place and what stood there.

use crate::cause::named_enum;
use crate::lang::{Lang, text};
use crate::redact::{is_direction_mark, redact};
use crate::review::Criterion;

/// The most characters of a line that a finding shows.
pub const EXCERPT_CHARS: usize = 120;
/// The most characters of a path that are told.
const PATH_CHARS: usize = 100;
/// How much of a long line is looked at for secrets around what is shown.
const AROUND: usize = 2_000;

named_enum! {
    /// What a review can find.
    What {
        /// A file that is claimed or expected does not exist.
        MissingFile = "missing_file",
        /// A file that is claimed or expected lies outside of where the work runs, and is not looked at.
        OutsideFile = "outside_file",
        /// A word marks what is left to do.
        TodoLeft = "todo_left",
        /// Something is left out.
        Omission = "omission",
        /// Only a part of a file is there.
        Fragment = "fragment",
        /// A bracket in a fenced block has no partner.
        Unbalanced = "unbalanced",
        /// A fenced block is not closed.
        OpenFence = "open_fence",
        /// A bracket, string or comment is still open at the end.
        OpenAtEnd = "open_at_end",
        /// The last line cannot be the last.
        Dangling = "dangling",
        /// The last character is broken off.
        BrokenCharacter = "broken_character",
        /// It says itself that it was cut.
        SaysCut = "says_cut",
        /// Nothing was written.
        Empty = "empty",
        /// A file that was expected is empty.
        EmptyFile = "empty_file",
        /// There was more than is kept.
        TooLong = "too_long",
        /// It is not text.
        NotText = "not_text",
        /// There is nothing to show.
        NoEvidence = "no_evidence",
        /// It is nothing but the error of a tool.
        ToolError = "tool_error",
        /// It is called done with nothing to show.
        EarlyTermination = "early_termination",
        /// A command did not succeed.
        CheckFailed = "check_failed",
    }
}

impl What {
    /// Whether it means that the output is not all there, rather than not good (R-T5).
    pub const fn is_incomplete(self) -> bool {
        match self {
            What::Omission
            | What::Fragment
            | What::OpenFence
            | What::OpenAtEnd
            | What::Dangling
            | What::BrokenCharacter
            | What::SaysCut
            | What::Empty => true,
            What::MissingFile
            | What::OutsideFile
            | What::TodoLeft
            | What::Unbalanced
            | What::EmptyFile
            | What::TooLong
            | What::NotText
            | What::NoEvidence
            | What::ToolError
            | What::EarlyTermination
            | What::CheckFailed => false,
        }
    }
}

/// One thing that a review found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it fails.
    pub criterion: Criterion,
    /// What it is.
    pub what: What,
    /// The file it is in, or is about; the output itself when there is none.
    pub file: Option<String>,
    /// The line, counted from 1.
    pub line: Option<u32>,
    /// What stands there: bounded, blanked, without control characters. Empty when there is nothing to show.
    pub excerpt: String,
    /// Which characters of the excerpt it is about, first and behind the last.
    pub mark: Option<(usize, usize)>,
}

impl Finding {
    pub(super) fn new(criterion: Criterion, what: What) -> Finding {
        Finding { criterion, what, file: None, line: None, excerpt: String::new(), mark: None }
    }

    pub(super) fn at(mut self, number: u32, line: &str, from: usize, to: usize) -> Finding {
        self.line = Some(number);
        (self.excerpt, self.mark) = excerpt(line, from, to);
        self
    }

    /// What is wrong, in a few words and without the place.
    pub fn message(&self, lang: Lang) -> String {
        let file = self.file.as_deref().unwrap_or_default();
        let key = match (self.what, self.criterion) {
            (What::CheckFailed, Criterion::Q7) => "test_failed",
            (What::CheckFailed, Criterion::Q8) => "lint_failed",
            (What::CheckFailed, _) => "types_failed",
            (what, _) => what.name(),
        };
        text(lang, &format!("review.what.{key}"), &[("file", &shortened(file))])
    }

    /// The place, what is wrong, and what stands there: one line.
    pub fn describe(&self, lang: Lang) -> String {
        let place = match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                text(lang, "review.place.both", &[("file", &shortened(file)), ("line", &line)])
            }
            (None, Some(line)) => text(lang, "review.place.line", &[("line", &line)]),
            _ => String::new(),
        };
        let said = if self.excerpt.is_empty() {
            String::new()
        } else {
            text(lang, "review.place.excerpt", &[("excerpt", &self.excerpt)])
        };
        format!("{place}{}{said}", self.message(lang))
    }
}

/// A path as it is told.
fn shortened(path: &str) -> String {
    let clean: String = redact(path).chars().filter(|c| is_shown(*c)).collect();
    let length = clean.chars().count();
    if length <= PATH_CHARS {
        return clean;
    }
    let tail: String = clean.chars().skip(length - PATH_CHARS + 1).collect();
    format!("…{tail}")
}

fn is_shown(c: char) -> bool {
    !c.is_control() && !is_direction_mark(c)
}

/// What a line shows around a place: blanked before it is cut, since a secret whose name is gone cannot be recognised.
fn excerpt(line: &str, from: usize, to: usize) -> (String, Option<(usize, usize)>) {
    let (from, to) = (line.floor_char_boundary(from), line.ceil_char_boundary(to.min(line.len())));
    let begin = line.ceil_char_boundary(from.saturating_sub(AROUND));
    let end = line.floor_char_boundary((to + AROUND).min(line.len())).max(to.min(from + AROUND));
    let end = line.floor_char_boundary(end);
    let clean = |text: &str| {
        text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| is_shown(*c)).collect::<String>()
    };
    let (head, marked) =
        (clean(&line[begin..from.max(begin)]), clean(&line[from..end.max(from).min(to.max(from))]));
    let tail = clean(&line[to.min(end).max(from)..end.max(from)]);
    let whole = format!("{head}{marked}{tail}");
    let blanked = redact(&whole);
    if blanked != whole {
        // The mark is found again where it stood, or not at all.
        let at = blanked.find(&marked).filter(|_| !marked.is_empty());
        let mark = at.map(|at| (blanked[..at].chars().count(), marked.chars().count()));
        return windowed(&blanked, mark);
    }
    windowed(&whole, Some((head.chars().count(), marked.chars().count())))
}

/// As many characters as are shown, around the mark.
fn windowed(text: &str, mark: Option<(usize, usize)>) -> (String, Option<(usize, usize)>) {
    let indent = text.chars().take_while(|c| c.is_whitespace()).count();
    let text = text.trim();
    let length = text.chars().count();
    let (at, marked) = mark.map_or((0, 0), |(at, marked)| (at.saturating_sub(indent), marked));
    if length <= EXCERPT_CHARS {
        return (text.to_owned(), mark.map(|_| (at.min(length), (at + marked).min(length))));
    }
    let room = EXCERPT_CHARS - 2;
    let lead = room.saturating_sub(marked.min(room)) / 2;
    let first = at.saturating_sub(lead).min(length - room);
    let shown: String = text.chars().skip(first).take(room).collect();
    let (before, after) = (if first > 0 { "…" } else { "" }, if first + room < length { "…" } else { "" });
    let offset = before.chars().count();
    let mark = mark.map(|_| {
        let from = (at - first + offset).min(room + offset);
        (from, (from + marked).min(room + offset))
    });
    (format!("{before}{shown}{after}"), mark)
}

/// The beginning and the end of an output, blanked and bounded: what the next attempt is reminded of.
pub(super) fn summary(text: &str, bound: usize) -> String {
    let clean =
        |text: &str| text.chars().filter(|c| *c == '\n' || *c == '\t' || is_shown(*c)).collect::<String>();
    let margin = 8 * 1024;
    if text.len() <= 2 * (bound + margin) {
        let blanked = redact(&clean(text.trim()));
        if blanked.len() <= bound {
            return blanked;
        }
        let head = &blanked[..blanked.floor_char_boundary(bound / 2)];
        let tail = &blanked[blanked.ceil_char_boundary(blanked.len() - bound / 2)..];
        return format!("{}\n[…]\n{}", head.trim_end(), tail.trim_start());
    }
    let head = redact(&clean(&text[..text.floor_char_boundary(bound + margin)]));
    let tail = redact(&clean(&text[text.ceil_char_boundary(text.len() - bound - margin)..]));
    let head = &head[..head.floor_char_boundary(bound / 2)];
    let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(bound / 2))..];
    format!("{}\n[…]\n{}", head.trim(), tail.trim())
}
