//! Output as a reviewer reads it: prose with fenced blocks in it, or one file of a language.
//!
//! Streams: a line is shown with its parts and is then forgotten. What is left open at the end is told by the end.

use super::language::Language;
use super::lexer::{Ended, Kind, Lexer, Piece};

/// A line and what it is.
pub(super) struct Line<'a> {
    /// Counted from 1.
    pub(super) number: u32,
    pub(super) text: &'a str,
    pub(super) place: Place<'a>,
    pub(super) pieces: &'a [Piece],
}

/// Where a line stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// Between fences.
    Prose,
    /// The line that opens a block; what follows the ticks.
    Opening(&'a str),
    /// The line that closes one.
    Closing,
    /// In a block or a file of this language; the whole of it, to look around in.
    Code(&'static Language, &'a str),
}

/// A block that has ended.
pub(super) struct Block {
    pub(super) first_line: u32,
    pub(super) ended: Ended,
    /// Nothing closed it before the output ended.
    pub(super) unclosed: bool,
    /// Something stands in it.
    pub(super) has_content: bool,
}

/// Who looks at a document.
pub(super) trait Reader {
    fn line(&mut self, line: &Line<'_>);
    fn block(&mut self, block: Block);
}

/// Reads a file of a language.
pub(super) fn read_file(text: &str, language: &'static Language, reader: &mut dyn Reader) {
    let mut lexer = Lexer::new(language);
    let mut pieces = Vec::new();
    let mut has_content = false;
    for (number, line) in numbered(text) {
        lexer.line(line, number, &mut pieces);
        has_content |= !line.trim().is_empty();
        reader.line(&Line { number, text: line, place: Place::Code(language, text), pieces: &pieces });
    }
    reader.block(Block { first_line: 1, ended: lexer.end(), unclosed: true, has_content });
}

/// A fence that is open.
struct Fence<'a> {
    tick: u8,
    length: usize,
    first_line: u32,
    lexer: Lexer,
    body: &'a str,
    has_content: bool,
    /// Fences of the document that this one quotes.
    inner: u32,
}

/// Reads prose with fenced blocks in it.
pub(super) fn read_document(text: &str, reader: &mut dyn Reader) {
    let mut open: Option<Fence<'_>> = None;
    let mut pieces = Vec::new();
    for (number, line) in numbered(text) {
        let mark = fence_mark(line);
        let Some(fence) = &mut open else {
            match mark {
                Some((tick, length, info)) if !info.contains('`') => {
                    let start = line.as_ptr() as usize - text.as_ptr() as usize + line.len();
                    let language = Language::of_tag(tag(info));
                    open = Some(Fence {
                        tick,
                        length,
                        first_line: number,
                        lexer: Lexer::new(language),
                        body: body(&text[start..], tick),
                        has_content: false,
                        inner: 0,
                    });
                    reader.line(&Line { number, text: line, place: Place::Opening(info), pieces: &[] });
                }
                _ => {
                    prose_pieces(line, &mut pieces);
                    reader.line(&Line { number, text: line, place: Place::Prose, pieces: &pieces });
                }
            }
            continue;
        };
        if let Some((tick, length, info)) = mark
            && tick == fence.tick
            && length >= fence.length
        {
            let quotes_documents = fence.lexer.language().is_prose();
            if info.is_empty() && fence.inner > 0 {
                fence.inner -= 1;
            } else if info.is_empty() {
                reader.line(&Line { number, text: line, place: Place::Closing, pieces: &[] });
                if let Some(fence) = open.take() {
                    reader.block(fence.end(false));
                }
                continue;
            } else if quotes_documents {
                fence.inner += 1;
            }
        }
        fence.lexer.line(line, number, &mut pieces);
        fence.has_content |= !line.trim().is_empty();
        let place = Place::Code(fence.lexer.language(), fence.body);
        reader.line(&Line { number, text: line, place, pieces: &pieces });
    }
    // Ticks without a name at the very end close a block that somebody quoted, rather than open one.
    if let Some(fence) = open
        && (fence.has_content || !fence.lexer.language().name.is_empty())
    {
        reader.block(fence.end(true));
    }
}

impl Fence<'_> {
    fn end(self, unclosed: bool) -> Block {
        Block {
            first_line: self.first_line,
            ended: self.lexer.end(),
            unclosed,
            has_content: self.has_content,
        }
    }
}

/// The lines without their ends, counted from 1.
pub(super) fn numbered(text: &str) -> impl Iterator<Item = (u32, &str)> {
    (1..).zip(text.lines())
}

/// The word of a fence's first line that names the language.
pub(super) fn tag(info: &str) -> &str {
    let info = info.trim_start_matches('{').trim_start_matches('.');
    info.split(|c: char| c.is_whitespace() || c == '{' || c == '}' || c == ':' || c == ',')
        .next()
        .unwrap_or_default()
}

/// Three ticks or tildes at the beginning of a line: which, how many, and what follows.
fn fence_mark(line: &str) -> Option<(u8, usize, &str)> {
    let line = line.trim();
    let tick = *line.as_bytes().first().filter(|tick| matches!(tick, b'`' | b'~'))?;
    let length = line.bytes().take_while(|byte| *byte == tick).count();
    (length >= 3).then(|| (tick, length, line[length..].trim()))
}

/// What stands in the fence that has just been opened, as far as can be told from its first end.
fn body(rest: &str, tick: u8) -> &str {
    let close = if tick == b'`' { "\n```" } else { "\n~~~" };
    &rest[..rest.find(close).unwrap_or(rest.len())]
}

/// The parts of a line outside of any fence. Code that was written without one is recognised by its comments.
fn prose_pieces(line: &str, pieces: &mut Vec<Piece>) {
    pieces.clear();
    let indent = line.len() - line.trim_start().len();
    let trimmed = &line[indent..];
    let is_comment = trimmed.starts_with("//")
        || trimmed.starts_with("/*")
        || trimmed.starts_with("<!--")
        || trimmed.starts_with("-- ")
        || trimmed.starts_with(";;")
        || trimmed.starts_with("% ")
        || (trimmed.starts_with('#') && !trimmed.starts_with("##"));
    if is_comment {
        pieces.push(Piece { kind: Kind::Comment, from: 0, to: line.len(), first: true });
        return;
    }
    let trailing = [" //", "\t//", " /*", " # ", "<!--"].iter().filter_map(|leader| line.find(leader)).min();
    let code = trailing.unwrap_or(line.len());
    pieces.push(Piece { kind: Kind::Prose, from: 0, to: code, first: true });
    if code < line.len() {
        let first = line[..code].trim().is_empty();
        pieces.push(Piece { kind: Kind::Comment, from: code, to: line.len(), first });
    }
}

/// What is quoted in a line: mentioned and not used. Inline code, quotation marks of both languages, and single quotes where
/// they cannot be apostrophes.
pub(super) fn quoted(line: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = line[at..].chars().next() {
        let before = line[..at].chars().next_back();
        let rest = &line[at + c.len_utf8()..];
        let close = match c {
            '`' => {
                let ticks = line[at..].bytes().take_while(|byte| *byte == b'`').count();
                let end = line[at + ticks..].find(&line[at..at + ticks]);
                if let Some(end) = end {
                    found.push((at, at + ticks + end + ticks));
                    at += 2 * ticks + end;
                } else {
                    at += ticks;
                }
                continue;
            }
            '"' => Some('"'),
            '“' => Some('”'),
            '‘' => Some('’'),
            '「' => Some('」'),
            '『' => Some('』'),
            '\'' if before.is_none_or(|before| !before.is_alphanumeric()) => Some('\''),
            _ => None,
        };
        let end = close.and_then(|close| {
            let mut ends = rest.match_indices(close).map(|(end, _)| end);
            if close == '\'' {
                let is_end = |end: &usize| !rest[end + 1..].starts_with(char::is_alphanumeric);
                ends.by_ref().take(MAX_APOSTROPHES).find(is_end)
            } else {
                ends.next()
            }
            .map(|end| at + c.len_utf8() + end + close.len_utf8())
        });
        match end {
            Some(end) => {
                found.push((at, end));
                at = end;
            }
            None => at += c.len_utf8(),
        }
        if found.len() > MAX_QUOTED {
            break;
        }
    }
    found
}

/// More than this in one line is data, and is not looked through for more.
const MAX_QUOTED: usize = 1_000;
const MAX_APOSTROPHES: usize = 16;

/// Whether the place is in one of the ranges.
pub(super) fn within(ranges: &[(usize, usize)], at: usize) -> bool {
    ranges.iter().any(|(from, to)| *from < at && at < *to)
}
