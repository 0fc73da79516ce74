//! From a line to tokens: what stays, and what differs from one occurrence to the next.
//!
//! One pass from left to right. Every look ahead is bounded, so that a line of any length takes time in proportion.

use super::telling;
use super::url;
use super::word::{self, Word};
use super::words::{
    BEFORE_A_CODE, BEFORE_A_HOST, BEFORE_A_STATUS, EXTENSIONS, METHODS, TELLING_KEYS, VOLATILE_ELEMENTS,
    is_one_of,
};

/// A piece of the pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A word that stays.
    Word(String),
    /// A number, an id, a time: `#`.
    Number,
    /// A name or address of a machine, with its port.
    Host,
    /// A file, with the end of its name if that is a known one.
    Path(Option<String>),
    Mail,
    /// The beginning of an address; the words of its route follow.
    Url,
    /// What was quoted.
    Value,
    Mark(char),
    Space,
}

/// How far any recogniser looks ahead, in bytes.
const AHEAD: usize = 512;
/// More tokens than this never reach the pattern.
const TOKENS: usize = 4_000;
/// Quoted texts inside quoted texts.
const DEPTH: usize = 3;

/// The tokens of a line.
pub(super) fn scan(line: &str) -> Vec<Token> {
    let mut scanner = Scanner::new(line, 0);
    scanner.markup = line.contains("</") && (line.starts_with('<') || telling::document_at(line).is_some());
    scanner.run();
    scanner.tokens
}

/// What the words so far say about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Anything,
    /// A number that says which error it is.
    Code,
    /// The status of an answer.
    Status,
    /// A machine, whatever its name looks like.
    Host,
    /// The path of a request, not of a file.
    Route,
}

struct Scanner<'a> {
    rest: &'a str,
    tokens: Vec<Token>,
    /// The character before `rest`.
    before: char,
    expected: Expected,
    /// Whether the key that was just read tells errors apart, and nothing when there was none.
    key: Option<bool>,
    /// How many braces are open.
    braces: usize,
    markup: bool,
    depth: usize,
    /// Marks that are not closed any more further on: none is looked for twice.
    unclosed: Vec<char>,
}

impl<'a> Scanner<'a> {
    fn new(rest: &'a str, depth: usize) -> Scanner<'a> {
        Scanner {
            rest,
            tokens: Vec::new(),
            before: ' ',
            expected: Expected::Anything,
            key: None,
            braces: 0,
            markup: false,
            depth,
            unclosed: Vec::new(),
        }
    }

    fn run(&mut self) {
        if self.depth == 0
            && let Some(bytes) = url::syslog(self.ahead())
        {
            self.take(bytes, Token::Number);
        }
        while let Some(c) = self.rest.chars().next() {
            if self.tokens.len() >= TOKENS {
                return;
            }
            let done = match c {
                c if c.is_whitespace() => {
                    self.blank(c);
                    true
                }
                '<' => self.placeholder() || (self.markup && self.element()),
                '#' => {
                    self.take(1, Token::Number);
                    true
                }
                '/' | '~' | '.' | '\\' => self.path(),
                '*' => self.any_host(),
                '[' | ':' => self.address(),
                '=' => self.parenthesised_value(),
                c if c.is_ascii_alphanumeric() || c == '_' => {
                    self.ascii();
                    true
                }
                c if !c.is_ascii() && c.is_alphanumeric() => {
                    self.letters(c);
                    true
                }
                c => self.quotation(c),
            };
            if !done {
                self.mark(c);
            }
        }
    }

    /// Goes on by so many bytes.
    fn go(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.before = gone.chars().next_back().unwrap_or(self.before);
        self.rest = rest;
    }

    /// Goes on, with one token for what is gone.
    fn take(&mut self, bytes: usize, token: Token) {
        self.go(bytes);
        self.tokens.push(token);
        self.expected = Expected::Anything;
        self.key = None;
    }

    fn blank(&mut self, c: char) {
        self.go(c.len_utf8());
        if self.tokens.last() != Some(&Token::Space) {
            self.tokens.push(Token::Space);
        }
    }

    fn mark(&mut self, c: char) {
        self.go(c.len_utf8());
        self.tokens.push(Token::Mark(c));
        match c {
            '{' => self.braces += 1,
            '}' => self.braces = self.braces.saturating_sub(1),
            _ => {}
        }
        // `status: 503`, `code=7`, `error (110)`, `[Errno 111]`, `HTTP/1.1 503`
        let stays = match self.expected {
            Expected::Code => matches!(c, ':' | '=' | '(' | '[' | '/' | '#' | '-'),
            Expected::Host | Expected::Status => c == ':',
            Expected::Anything | Expected::Route => false,
        };
        if !stays {
            self.expected = Expected::Anything;
        }
        if !matches!(c, ':' | '=' | '>' | '[' | '{') {
            self.key = None;
        }
    }

    fn ahead(&self) -> &'a str {
        &self.rest[..self.rest.floor_char_boundary(AHEAD)]
    }

    /// What stands in a pattern already stays what it is.
    fn placeholder(&mut self) -> bool {
        let known = [
            ("<host>", Token::Host),
            ("<mail>", Token::Mail),
            ("<…>", Token::Value),
            ("<url>", Token::Url),
            ("<path>", Token::Path(None)),
        ];
        let Some((text, token)) = known.into_iter().find(|(text, _)| self.rest.starts_with(text)) else {
            return false;
        };
        let is_url = token == Token::Url;
        if let Token::Path(_) = token {
            let after = &self.rest[text.len()..];
            let end =
                after.strip_prefix('.').map(|end| &end[..word::run(end, |c| c.is_ascii_alphanumeric())]);
            let end = end.filter(|end| EXTENSIONS.contains(end));
            let bytes = text.len() + end.map_or(0, |end| end.len() + 1);
            self.take(bytes, Token::Path(end.map(ToOwned::to_owned)));
            return true;
        }
        self.take(text.len(), token);
        if is_url {
            self.route();
            self.expected = Expected::Status;
        }
        true
    }

    /// A tag of HTML or XML is no word; what some elements hold is taken out.
    fn element(&mut self) -> bool {
        let Some(end) = self.ahead().find('>') else { return false };
        let tag = self.rest[1..end].trim_start_matches('/');
        let name = &tag[..word::run(tag, |c| c.is_ascii_alphanumeric())];
        let opens = !self.rest.starts_with("</");
        self.go(end + 1);
        self.tokens.push(Token::Space);
        let skipped = opens && matches!(name, "style" | "script");
        if skipped || (opens && is_one_of(VOLATILE_ELEMENTS, name)) {
            let Some(close) = self.rest.find("</") else { return true };
            self.go(close);
            if !skipped {
                self.tokens.push(Token::Value);
            }
        }
        self.key = Some(is_one_of(TELLING_KEYS, name));
        self.expected =
            if opens && is_one_of(BEFORE_A_CODE, name) { Expected::Code } else { Expected::Anything };
        true
    }

    /// Letters of other scripts, up to the first digit; digits of other scripts are numbers.
    fn letters(&mut self, first: char) {
        let numeric = first.is_numeric();
        let same = |c: char| !c.is_ascii() && c.is_alphanumeric() && c.is_numeric() == numeric;
        let end = word::run(self.rest, same);
        let token = if numeric { Token::Number } else { Token::Word(self.rest[..end].to_owned()) };
        let says_code =
            ["コード", "ステータス", "番号", "エラー"].iter().any(|word| self.rest[..end].ends_with(word));
        self.take(end, token);
        if says_code {
            self.expected = Expected::Code;
        }
    }

    /// A quotation: taken out as a whole, unless it is the name of a key, or the value of one that tells.
    fn quotation(&mut self, open: char) -> bool {
        // `b'…'`, as Python shows bytes.
        let prefixed =
            matches!(self.tokens.last(), Some(Token::Word(word)) if matches!(word.as_str(), "b" | "u" | "r"));
        let Some(close) = closing(open, if prefixed { ' ' } else { self.before }) else { return false };
        if self.unclosed.contains(&close) {
            return false;
        }
        let inner_from = open.len_utf8();
        let Some(length) = closed_at(&self.rest[inner_from..], close) else {
            self.unclosed.push(close);
            return false;
        };
        let inner = &self.rest[inner_from..inner_from + length];
        let whole = inner_from + length + close.len_utf8();
        let after = self.rest[whole..].trim_start();
        let is_key = matches!(open, '"' | '\'')
            && (after.starts_with("=>") || (after.starts_with(':') && !after.starts_with("::")))
            && word::is_identifier(inner)
            && matches!(self.last_mark(), Some('{' | ',' | '[') | None);
        if is_key {
            let telling = word::is_telling_key(inner);
            self.take(whole, Token::Word(inner.to_owned()));
            self.key = Some(telling);
            self.expect_code_of(inner);
        } else if self.key == Some(true) && self.depth < DEPTH {
            let mut scanner = Scanner::new(inner, self.depth + 1);
            scanner.expected = self.expected;
            scanner.run();
            let tokens = scanner.tokens;
            self.go(whole);
            self.tokens.extend(tokens);
            self.key = None;
            self.expected = Expected::Anything;
        } else {
            self.take(whole, Token::Value);
        }
        true
    }

    fn last_mark(&self) -> Option<char> {
        match self.tokens.iter().rev().find(|token| **token != Token::Space) {
            Some(Token::Mark(mark)) => Some(*mark),
            Some(_) => Some('x'),
            None => None,
        }
    }

    /// `Key (id)=(5)`: what stands in the second pair of brackets is a value.
    fn parenthesised_value(&mut self) -> bool {
        if self.before == ')'
            && self.rest.starts_with("=(")
            && let Some(end) = self.ahead().find(')')
        {
            self.go(end + 1);
            self.tokens.extend([Token::Mark('='), Token::Mark('('), Token::Number, Token::Mark(')')]);
            return true;
        }
        false
    }

    /// `*.example.com`
    fn any_host(&mut self) -> bool {
        let Some(name) = self.ahead().strip_prefix("*.") else { return false };
        let length = word::run(name, |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        let name = name[..length].trim_end_matches(['.', '-']);
        if name.is_empty() {
            return false;
        }
        self.take(name.len() + 2, Token::Host);
        true
    }

    /// `[2001:db8::1]:443`, `::1`
    fn address(&mut self) -> bool {
        if self.before.is_alphanumeric() {
            return false;
        }
        match url::ipv6(self.ahead()) {
            Some(bytes) => {
                self.take(bytes, Token::Host);
                true
            }
            None => false,
        }
    }

    /// A path that begins with a mark: `/var/x`, `~/x`, `./x`, `\\server\share`.
    fn path(&mut self) -> bool {
        if self.before.is_alphanumeric() || matches!(self.before, '>' | '<' | '#' | '/') {
            return false;
        }
        if let Some(address) = self.rest.strip_prefix('/').and_then(url::host_and_port) {
            // `/10.0.0.3:5432`, as Java writes it.
            self.take(address + 1, Token::Host);
            return true;
        }
        if self.expected == Expected::Route && self.rest.starts_with('/') {
            self.route();
            return true;
        }
        let ends = self.rest[1..].chars().next().is_none_or(|c| c.is_whitespace() || c == ')');
        if self.rest.starts_with('/') && self.before.is_whitespace() && ends {
            self.take(1, Token::Path(None));
            return true;
        }
        match url::path(self.ahead()) {
            Some((bytes, end)) => {
                self.take(bytes, Token::Path(end));
                if self.rest.starts_with('?') {
                    self.go(url::route_length(self.ahead()));
                }
                true
            }
            None => false,
        }
    }

    /// The words of a route: `/orders/17/items?x=1` is `/orders/#/items`.
    fn route(&mut self) {
        let bytes = url::route_length(self.ahead());
        let route = &self.rest[..bytes];
        let segments = &route[..route.find(['?', '#']).unwrap_or(route.len())];
        // A pattern's own `#` is a segment, not the begin of a fragment.
        let segments =
            if segments.ends_with('/') { route.split('?').next().unwrap_or(route) } else { segments };
        for segment in segments.split('/').filter(|segment| !segment.is_empty()) {
            self.tokens.push(Token::Mark('/'));
            let is_version = segment.strip_prefix('v').is_some_and(|number| {
                matches!(number.len(), 1..=2) && number.bytes().all(|byte| byte.is_ascii_digit())
            });
            let has_words =
                segment.chars().all(|c| c.is_alphabetic() || matches!(c, '-' | '_' | '.' | ':' | '@'));
            let stays = is_version || (has_words && !word::differs(segment));
            self.tokens.push(if stays { Token::Word(segment.to_owned()) } else { Token::Number });
        }
        self.go(bytes);
        self.expected = Expected::Anything;
        self.key = None;
    }

    /// Everything that begins with an ASCII letter, digit or underscore.
    fn ascii(&mut self) {
        let ahead = self.ahead();
        if let Some(bytes) = word::moment(ahead) {
            return self.take(bytes, Token::Number);
        }
        if let Some(bytes) = url::scheme_and_host(ahead) {
            let is_file = ahead.starts_with("file:") || ahead.starts_with("unix:");
            self.take(bytes, Token::Url);
            if is_file {
                self.go(url::route_length(self.ahead()));
            } else {
                self.route();
            }
            // `https://example.com/: 503`
            self.expected = Expected::Status;
            return;
        }
        if let Some((bytes, end)) = url::windows_path(ahead, self.tokens.last()) {
            return self.take(bytes, Token::Path(end));
        }
        if let Some(bytes) = url::ipv6(ahead) {
            return self.take(bytes, Token::Host);
        }
        if let Some(bytes) = url::mail(ahead) {
            return self.take(bytes, Token::Mail);
        }
        if let Some(bytes) = word::blob(ahead) {
            return self.take(bytes, Token::Number);
        }
        if let Some((bytes, end)) = url::relative_path(ahead) {
            return self.take(bytes, Token::Path(end));
        }
        if let Some(bytes) =
            url::host_and_port(ahead).filter(|_| self.expected != Expected::Code && self.key != Some(true))
        {
            self.take(bytes, Token::Host);
            // `registry.example.com/team/app`, and `db/10.0.0.3:5432` as Java writes it.
            if let Some(again) = self.rest.strip_prefix('/').and_then(url::host_and_port) {
                self.go(again + 1);
            } else if self.rest.starts_with('/') {
                self.route();
            }
            return;
        }
        self.word();
    }

    fn word(&mut self) {
        let (bytes, word) = word::read(self.ahead());
        let text = &self.rest[..bytes];
        let may_be_code = self.expected == Expected::Code && word::may_be_code(text);
        // `503 Service Unavailable`
        let named =
            self.rest[bytes..].strip_prefix(' ').is_some_and(|next| next.starts_with(char::is_uppercase));
        let may_be_status = (self.expected == Expected::Status || named) && word::may_be_status(text);
        let host_follows = self.expected == Expected::Host;
        let after = &self.rest[bytes..];
        let is_key = after.starts_with('=') && !after[1..].starts_with(['=', ' ', '(']) && after.len() > 1;
        if may_be_code || may_be_status {
            self.take(bytes, Token::Word(text.to_owned()));
        } else if host_follows && word::may_be_host(text) && !is_key {
            return self.take(bytes, Token::Host);
        } else {
            match word {
                Word::Stays => self.take(bytes, Token::Word(text.to_owned())),
                Word::Differs => self.take(bytes, Token::Number),
                Word::Begins(stem) => {
                    self.take(bytes, Token::Word(text[..stem].to_owned()));
                    self.tokens.push(Token::Number);
                }
            }
        }
        if is_key {
            return self.value(text);
        }
        if text.eq_ignore_ascii_case("http")
            && let Some(version) = self.rest.strip_prefix('/')
        {
            // `HTTP/1.1 503`
            self.go(1 + word::run(version, |c| c.is_ascii_digit() || c == '.'));
        }
        self.expect(text);
    }

    fn expect_code_of(&mut self, key: &str) {
        self.expected = if word::is_code_key(key) { Expected::Code } else { Expected::Anything };
    }

    /// What the word lets one expect of the next.
    fn expect(&mut self, text: &str) {
        let joined = !self.rest.starts_with(": ");
        let before = |i: usize| match self.tokens.iter().rev().nth(i) {
            Some(Token::Word(word)) => word.as_str(),
            _ => "",
        };
        let lower = text.to_ascii_lowercase();
        self.expected = if METHODS.contains(&text) {
            Expected::Route
        } else if (is_one_of(BEFORE_A_CODE, text) && joined) || word::is_code_key(text) {
            Expected::Code
        } else if is_one_of(BEFORE_A_STATUS, text) || text == "error" {
            // `The requested URL returned error: 404`
            Expected::Status
        } else if text == "with" && is_one_of(BEFORE_A_STATUS, before(2)) {
            Expected::Status
        } else if matches!(lower.as_str(), "host" | "hostname") {
            let named = self.rest.starts_with(':') || matches!(before(2), "to" | "from");
            if named { Expected::Host } else { Expected::Anything }
        } else if is_one_of(BEFORE_A_HOST, text) {
            Expected::Host
        } else {
            Expected::Anything
        };
        // `{ code: 'ECONNREFUSED' }`, as JavaScript shows it.
        self.key = (self.braces > 0 && self.rest.starts_with(':')).then(|| word::is_telling_key(text));
    }

    /// The value behind `key=`.
    fn value(&mut self, key: &str) {
        self.mark('=');
        let telling = word::is_telling_key(key);
        if telling || self.rest.starts_with(['"', '\'', '`', '<', '#']) {
            self.key = Some(telling);
            self.expect_code_of(key);
            return;
        }
        let ends = |c: char| c.is_whitespace() || ",;)]}&|\"'<>".contains(c);
        let bytes = self.rest.find(ends).unwrap_or(self.rest.len());
        // A full stop behind it ends the sentence.
        let bytes = bytes - usize::from(self.rest[..bytes].ends_with(['.', ':']));
        if bytes > 0 {
            self.take(bytes, Token::Number);
        }
    }
}

/// The mark that ends a quotation which begins here. An apostrophe inside a word begins none.
fn closing(open: char, before: char) -> Option<char> {
    match open {
        '"' | '`' => Some(open),
        '\'' if !before.is_alphanumeric() => Some('\''),
        '“' | '„' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        '「' => Some('」'),
        '『' => Some('』'),
        '《' => Some('》'),
        '〈' => Some('〉'),
        _ => None,
    }
}

/// Where a quotation ends: not at a mark behind a backslash, nor at an apostrophe inside a word.
fn closed_at(text: &str, close: char) -> Option<usize> {
    let mut escaped = false;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if escaped {
            escaped = false;
        } else if c == '\\' && close == '"' {
            escaped = true;
        } else if c == close {
            let inside = close == '\'' && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric());
            if !inside {
                return Some(at);
            }
        }
    }
    None
}
