//! Tells code from comments and strings, line by line, and matches brackets on the way.
//!
//! One pass, no going back further than the line: what a language leaves open at the end of a line is kept as state. A
//! quote that does not end where it must is taken for an ordinary character, so that an apostrophe in the text of a page
//! swallows nothing.

use super::language::{Apostrophe, Brackets, Language, Quote, Raw};

/// A part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// Where it begins and ends in its line, in bytes.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Nothing but blanks stands before it.
    pub(super) first: bool,
}

/// What a part of a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Prose,
    Code,
    Comment,
    /// A string in code; what is quoted in prose is found by [`quoted`](super::quoted).
    Text,
}

/// What is open at the end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Code,
    Block {
        depth: u32,
    },
    /// A string that may go over several lines; told as a comment when it stands where a statement would (Python).
    Text {
        close: String,
        escapes: bool,
        template: bool,
        is_comment: bool,
    },
    Heredoc {
        end: String,
        indented: bool,
    },
}

/// A bracket and where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bracket {
    pub(super) shape: u8,
    pub(super) line: u32,
    pub(super) at: usize,
}

/// What is wrong with the brackets of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// It closes what nothing opened.
    Unopened(Bracket),
    /// It is closed by one of another shape.
    Crossed { open: Bracket, close: Bracket },
    /// Nothing closes it.
    Unclosed(Bracket),
}

/// What was still open when a block ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Ended {
    pub(super) mismatch: Option<Mismatch>,
    /// The line on which the comment or string began that was never closed.
    pub(super) open_comment: Option<u32>,
    pub(super) open_text: Option<u32>,
}

/// More open brackets than this are not code.
const MAX_DEPTH: usize = 10_000;
/// Stands on the stack of brackets for the `${` of a template.
const HOLE: u8 = b'$';
/// A line with so many quotes that never end is not looked through for another's end.
const MAX_DEAD_ENDS: u32 = 64;
/// How deep `#if` is followed.
const MAX_BRANCHES: usize = 200;

/// Reads one block of a language.
pub(super) struct Lexer {
    language: &'static Language,
    state: State,
    open: Vec<Bracket>,
    mismatch: Option<Mismatch>,
    since: u32,
    /// A prompt was seen, so it is what a terminal showed.
    is_session: bool,
    looks_like_code: bool,
    /// What was open where each `#if` began: its branches are alternatives, of which the last one counts.
    branches: Vec<Vec<Bracket>>,
}

impl Lexer {
    pub(super) fn new(language: &'static Language) -> Lexer {
        Lexer {
            language,
            state: State::Code,
            open: Vec::new(),
            mismatch: None,
            since: 0,
            is_session: false,
            looks_like_code: false,
            branches: Vec::new(),
        }
    }

    pub(super) fn language(&self) -> &'static Language {
        self.language
    }

    /// Reads a line and says what its parts are.
    pub(super) fn line(&mut self, text: &str, number: u32, pieces: &mut Vec<Piece>) {
        pieces.clear();
        let trimmed = text.trim_start();
        self.is_session |=
            ["$ ", "> ", "% ", ">>> ", "PS ", "C:\\"].iter().any(|prompt| trimmed.starts_with(prompt));
        if self.state == State::Code {
            let end = text.trim_end();
            self.looks_like_code |=
                end.ends_with([';', '{', '}']) || end.contains(" = ") || end.ends_with("):");
        }
        if matches!(self.language.name, "c" | "cpp" | "csharp") && self.state == State::Code {
            self.branch(trimmed);
        }
        let bytes = text.as_bytes();
        let mut line = LineReader { text, bytes, at: 0, began: 0, only_blanks: true, dead_ends: 0, pieces };
        while line.at < line.bytes.len() {
            match self.state.clone() {
                State::Code => self.code(&mut line, number),
                State::Block { depth } => self.block(&mut line, depth),
                State::Text { close, escapes, template, is_comment } => {
                    self.text(&mut line, &close, escapes, template, is_comment, number);
                }
                State::Heredoc { end, indented } => {
                    let candidate = if indented { trimmed } else { text };
                    if candidate.trim_end() == end {
                        self.state = State::Code;
                    }
                    line.skip_to(line.bytes.len());
                    line.end_piece(Kind::Text);
                }
            }
        }
        let kind = match &self.state {
            State::Code => Kind::Code,
            State::Block { .. } | State::Text { is_comment: true, .. } => Kind::Comment,
            State::Text { .. } | State::Heredoc { .. } => Kind::Text,
        };
        line.end_piece(kind);
    }

    /// Whether nothing is open.
    pub(super) fn end(mut self) -> Ended {
        let mut ended = Ended::default();
        let brackets = match self.language.brackets {
            Brackets::IfCode if self.looks_like_code && !self.is_session => Brackets::Matched,
            Brackets::IfCode => Brackets::Ignored,
            Brackets::Open if self.is_session || self.state != State::Code => Brackets::Ignored,
            other => other,
        };
        if brackets == Brackets::Ignored {
            return ended;
        }
        match self.state {
            State::Block { .. } => ended.open_comment = Some(self.since),
            State::Text { .. } if self.language.name != "shell" => ended.open_text = Some(self.since),
            State::Code | State::Text { .. } | State::Heredoc { .. } => {}
        }
        // The brackets inside an open template are the template's trouble.
        self.open.retain(|bracket| bracket.shape != HOLE);
        ended.mismatch = match self.mismatch {
            Some(wrong) if brackets == Brackets::Matched => Some(wrong),
            // The first that stays open is the one whose end is missing.
            _ => self.open.first().copied().map(Mismatch::Unclosed),
        };
        ended
    }

    fn branch(&mut self, line: &str) {
        let Some(directive) = line.strip_prefix('#').map(str::trim_start) else { return };
        if directive.starts_with("if") && self.branches.len() < MAX_BRANCHES {
            self.branches.push(self.open.clone());
        } else if directive.starts_with("el") {
            if let Some(before) = self.branches.last() {
                self.open.clone_from(before);
            }
        } else if directive.starts_with("endif") {
            self.branches.pop();
        }
    }

    fn code(&mut self, line: &mut LineReader<'_>, number: u32) {
        let language = self.language;
        line.skip_words(language.raw);
        if line.at == line.bytes.len() {
            return;
        }
        let rest = &line.text[line.at..];
        if let Some(end) = self.raw_string(line, number) {
            line.start_piece(Kind::Code);
            line.skip_to(end);
            return;
        }
        if let Some((open, _)) = language.block
            && rest.starts_with(open)
        {
            line.start_piece(Kind::Code);
            line.skip_to(line.at + open.len());
            self.state = State::Block { depth: 1 };
            self.since = number;
            return;
        }
        if language
            .line_comments
            .iter()
            .any(|leader| rest.starts_with(leader) && line.may_begin_comment(leader))
        {
            line.start_piece(Kind::Code);
            line.skip_to(line.bytes.len());
            line.end_piece(Kind::Comment);
            return;
        }
        if let Some(quote) = language.quotes.iter().find(|quote| rest.starts_with(quote.open)) {
            return self.open_quote(line, quote, number);
        }
        let byte = line.bytes[line.at];
        match byte {
            b'\'' if language.apostrophe == Apostrophe::Character => {
                let length = character_length(rest);
                line.skip_to(line.at + length);
            }
            b'\\' if language.backslash => line.skip_chars(2),
            b'/' if language.regex && line.dead_ends < MAX_DEAD_ENDS && line.value_may_stand_here() => {
                if let Some(length) = regex_length(rest) {
                    line.start_piece(Kind::Code);
                    line.skip_to(line.at + length);
                    line.end_piece(Kind::Text);
                } else {
                    line.dead_ends += 1;
                    line.skip_to(line.at + 1);
                }
            }
            b'<' if language.heredoc && rest.starts_with("<<") => match heredoc_end(rest) {
                Some((end, indented)) => {
                    line.skip_to(line.bytes.len());
                    line.end_piece(Kind::Code);
                    self.state = State::Heredoc { end, indented };
                }
                None => line.skip_to(line.at + 2),
            },
            // Of a shell only the braces of functions and groups are counted: the rest is quoted in too many ways.
            b'$' if language.name == "shell" && rest.starts_with("${") => {
                let end = rest.bytes().position(|byte| byte == b'}').unwrap_or(1);
                line.skip_to(line.at + end + 1);
            }
            b'(' | b'[' | b')' | b']' if language.name == "shell" => line.skip_to(line.at + 1),
            b'(' | b'[' | b'{' => {
                if self.open.len() < MAX_DEPTH {
                    self.open.push(Bracket { shape: byte, line: number, at: line.at });
                }
                line.skip_to(line.at + 1);
            }
            b')' | b']' | b'}' => {
                let close = Bracket { shape: byte, line: number, at: line.at };
                line.skip_to(line.at + 1);
                self.close(close, line);
            }
            _ => line.skip_chars(1),
        }
    }

    fn close(&mut self, close: Bracket, line: &mut LineReader<'_>) {
        let opener = match close.shape {
            b')' => b'(',
            b']' => b'[',
            _ => b'{',
        };
        match self.open.last().copied() {
            Some(open) if open.shape == HOLE && close.shape == b'}' => {
                self.open.pop();
                line.start_piece(Kind::Code);
                self.state =
                    State::Text { close: "`".to_owned(), escapes: true, template: true, is_comment: false };
            }
            Some(open) if open.shape == opener => drop(self.open.pop()),
            // `case x)` and the like: whatever is open stays open.
            _ if self.language.brackets == Brackets::Open => {}
            Some(open) => {
                self.mismatch.get_or_insert(Mismatch::Crossed { open, close });
                self.open.pop();
            }
            None => drop(self.mismatch.get_or_insert(Mismatch::Unopened(close))),
        }
    }

    fn open_quote(&mut self, line: &mut LineReader<'_>, quote: &Quote, number: u32) {
        let begins = line.at;
        let inside = begins + quote.open.len();
        // A lifetime, or an apostrophe, in a block that does not say what it is.
        if self.language.name.is_empty()
            && quote.open == "'"
            && line.before().ends_with(|c: char| c.is_alphanumeric() || matches!(c, '<' | '&'))
        {
            return line.skip_to(inside);
        }
        if !quote.multiline {
            // It ends on its line, or it is none.
            let rest = if line.dead_ends < MAX_DEAD_ENDS { &line.text[inside..] } else { "" };
            let Stop::End(end) = stop(rest, quote.close, quote.escapes, false) else {
                line.dead_ends += 1;
                return line.skip_to(inside);
            };
            line.start_piece(Kind::Code);
            line.skip_to(inside + end);
            line.end_piece(Kind::Text);
            return;
        }
        line.start_piece(Kind::Code);
        let is_comment = self.language.name == "python" && line.text[..begins].trim().is_empty();
        line.skip_to(inside);
        self.since = number;
        self.state = State::Text {
            close: quote.close.to_owned(),
            escapes: quote.escapes,
            template: quote.template,
            is_comment,
        };
    }

    /// The end of the beginning of a raw string, whose own end is then known.
    fn raw_string(&mut self, line: &LineReader<'_>, number: u32) -> Option<usize> {
        let rest = &line.text[line.at..];
        let (close, length) = match self.language.raw {
            Raw::None => return None,
            _ if line.follows_a_word() => return None,
            Raw::Rust => {
                let after = rest
                    .strip_prefix("br")
                    .or_else(|| rest.strip_prefix("cr"))
                    .or_else(|| rest.strip_prefix('r'))?;
                let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
                after[hashes..].strip_prefix('"')?;
                (format!("\"{}", "#".repeat(hashes)), rest.len() - after.len() + hashes + 1)
            }
            Raw::Cpp => {
                let after = rest.strip_prefix("R\"")?;
                let tag = &after[..after.bytes().take(17).position(|byte| byte == b'(')?];
                (format!("){tag}\""), 3 + tag.len())
            }
        };
        self.since = number;
        self.state = State::Text { close, escapes: false, template: false, is_comment: false };
        Some(line.at + length)
    }

    fn block(&mut self, line: &mut LineReader<'_>, depth: u32) {
        let Some((open, close)) = self.language.block else {
            self.state = State::Code;
            return;
        };
        let rest = &line.text[line.at..];
        let closes = rest.find(close);
        let opens = rest.find(open).filter(|_| self.language.nested);
        match (opens, closes) {
            (Some(opens), Some(closes)) if opens < closes => {
                self.state = State::Block { depth: depth + 1 };
                line.skip_to(line.at + opens + open.len());
            }
            (Some(opens), None) => {
                self.state = State::Block { depth: depth + 1 };
                line.skip_to(line.at + opens + open.len());
            }
            (_, Some(closes)) => {
                line.skip_to(line.at + closes + close.len());
                if depth > 1 {
                    self.state = State::Block { depth: depth - 1 };
                } else {
                    line.end_piece(Kind::Comment);
                    self.state = State::Code;
                }
            }
            (None, None) => line.skip_to(line.bytes.len()),
        }
    }

    fn text(
        &mut self,
        line: &mut LineReader<'_>,
        close: &str,
        escapes: bool,
        template: bool,
        is_comment: bool,
        number: u32,
    ) {
        let kind = if is_comment { Kind::Comment } else { Kind::Text };
        match stop(&line.text[line.at..], close, escapes, template) {
            Stop::Hole(hole) => {
                line.skip_to(line.at + hole + 2);
                line.end_piece(kind);
                if self.open.len() < MAX_DEPTH {
                    self.open.push(Bracket { shape: HOLE, line: number, at: line.at });
                }
                self.state = State::Code;
            }
            Stop::End(end) => {
                line.skip_to(line.at + end);
                line.end_piece(kind);
                self.state = State::Code;
            }
            Stop::Nowhere => line.skip_to(line.bytes.len()),
        }
    }
}

/// The place in a line, and the pieces that were cut from it.
struct LineReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    began: usize,
    only_blanks: bool,
    /// How often a quote or pattern on this line had no end.
    dead_ends: u32,
    pieces: &'a mut Vec<Piece>,
}

impl LineReader<'_> {
    fn skip_to(&mut self, at: usize) {
        self.at = self.text.ceil_char_boundary(at.min(self.bytes.len()));
    }

    fn skip_chars(&mut self, count: usize) {
        let bytes: usize = self.text[self.at..].chars().take(count).map(char::len_utf8).sum();
        self.at += bytes.max(1);
    }

    /// Goes on to what may mean something: neither words nor blanks do, but for the letter before a raw string.
    fn skip_words(&mut self, raw: Raw) {
        while let Some(byte) = self.bytes.get(self.at) {
            let is_word = byte.is_ascii_alphanumeric() || *byte == b'_';
            let may_be_raw =
                raw != Raw::None && matches!(byte, b'r' | b'b' | b'c' | b'R') && !self.follows_a_word();
            if may_be_raw || !(is_word || matches!(byte, b' ' | b'\t')) {
                return;
            }
            self.at += 1;
        }
    }

    /// What came so far was of that kind; something else begins.
    fn start_piece(&mut self, before: Kind) {
        self.end_piece(before);
    }

    fn end_piece(&mut self, kind: Kind) {
        if self.at > self.began {
            self.pieces.push(Piece { kind, from: self.began, to: self.at, first: self.only_blanks });
            self.only_blanks &= self.text[self.began..self.at].trim().is_empty();
        }
        self.began = self.at;
    }

    fn before(&self) -> &str {
        &self.text[..self.at]
    }

    fn follows_a_word(&self) -> bool {
        self.before().ends_with(|c: char| c.is_alphanumeric() || c == '_')
    }

    /// `https://` is no comment, nor are `$#` and `a#b`.
    fn may_begin_comment(&self, leader: &str) -> bool {
        let before = self.before().chars().next_back();
        match (leader, before) {
            ("//", Some(before)) => before != ':',
            ("%", Some(before)) => before != '\\',
            ("#" | "# ", Some(before)) => before.is_whitespace() || ";,)".contains(before),
            _ => true,
        }
    }

    /// Whether a `/` here begins a pattern and does not divide.
    fn value_may_stand_here(&self) -> bool {
        let before = self.before().trim_end();
        let Some(last) = before.chars().next_back() else { return true };
        if "(,=:[!&|?{;~+-*%^".contains(last) || before.ends_with("=>") {
            return true;
        }
        let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        matches!(word, "return" | "typeof" | "case" | "in" | "of" | "when" | "if" | "unless" | "and" | "or")
    }
}

/// Where a string stops.
enum Stop {
    /// After its closing quote.
    End(usize),
    /// Before the `${` of a template.
    Hole(usize),
    /// Not on this line.
    Nowhere,
}

fn stop(inside: &str, close: &str, escapes: bool, template: bool) -> Stop {
    let bytes = inside.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at..].starts_with(close.as_bytes()) {
            return Stop::End(at + close.len());
        } else if template && bytes[at..].starts_with(b"${") {
            return Stop::Hole(at);
        } else {
            at += 1;
        }
    }
    Stop::Nowhere
}

/// How long a character in quotes is; 1 for a quote that begins none.
fn character_length(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => {
            let from = 3.min(rest.len());
            let near = rest.floor_char_boundary(14);
            match rest.get(from..near.max(from)).and_then(|near| near.find('\'')) {
                Some(close) => from + close + 1,
                None => 1,
            }
        }
        Some(_) => match chars.next() {
            Some((close, '\'')) => close + 1,
            _ => 1,
        },
        None => 1,
    }
}

/// How long the pattern is that begins here, if it ends on this line.
fn regex_length(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut in_class = false;
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'/' if !in_class => return (at > 1).then_some(at + 1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The word that ends what begins with `<<WORD`, and whether it may stand indented.
fn heredoc_end(rest: &str) -> Option<(String, bool)> {
    let after = rest.strip_prefix("<<<").or_else(|| rest.strip_prefix("<<"))?;
    let indented = after.starts_with(['-', '~']) || rest.starts_with("<<<");
    let after = after.trim_start_matches(['-', '~']).trim_start().trim_start_matches(['\'', '"', '\\']);
    let word: String = after.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    // A lower-case word after `<<` is more often what is pushed onto a list.
    let is_end = word.len() > 1 && word.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    is_end.then_some((word, indented))
}
