//! From text to a filter. What is wrong is answered with its place; nothing panics, and nothing recurses deeper than a
//! fixed bound.

use std::ops::Range;

use redrive_policy::{nearest, parse_duration};
use regex::RegexBuilder;

use super::error::{Expected, FilterError, FilterProblem};
use super::expr::{Comparison, Expr, KEYWORDS, Moment, Pattern, Precision, Test, Value};
use super::field::{Field, ValueKind};
use crate::time::Timestamp;

/// The longest filter, in bytes.
pub(super) const LONGEST: usize = 8 * 1024;
/// The longest that we have written ourselves: somebody's filter, and the queues that a token reaches.
pub(super) const LONGEST_OWN: usize = 64 * 1024;
/// How deep parentheses and `not` may nest.
pub(super) const DEEPEST: usize = 64;
/// How large a compiled regular expression may become, in bytes.
const PATTERN_BYTES: usize = 1 << 20;

pub(super) fn parse<F: Field>(text: &str, most: usize) -> Result<Expr<F>, FilterError> {
    if text.len() > most {
        let end = text.len();
        return Err(FilterError { span: end..end, problem: FilterProblem::TooLong { most } });
    }
    let mut parser = Parser { text, at: 0, depth: 0, fields: std::marker::PhantomData };
    let expr = parser.any()?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.expected(Expected::Joint)),
    }
}

struct Parser<'a, F> {
    text: &'a str,
    at: usize,
    depth: usize,
    fields: std::marker::PhantomData<F>,
}

/// A word or a quoted text, and where it stands.
struct Written {
    text: String,
    span: Range<usize>,
}

/// What may stand without quotes.
#[derive(Clone, Copy)]
enum Bare {
    /// Ends with a blank, a comma, a quote or a parenthesis.
    Word,
    /// Has commas and parentheses of its own; it ends with a blank, or with a parenthesis that it has not opened.
    Pattern,
}

impl Bare {
    /// Where it ends that begins here.
    fn end(self, rest: &str) -> usize {
        let mut open = 0_usize;
        let ends = |c: char| match (self, c) {
            (_, c) if c.is_whitespace() => true,
            (Bare::Word, '(' | ')' | ',' | '"' | '\'') => true,
            (Bare::Pattern, '(') => {
                open += 1;
                false
            }
            (Bare::Pattern, ')') if open == 0 => true,
            (Bare::Pattern, ')') => {
                open -= 1;
                false
            }
            _ => false,
        };
        rest.find(ends).unwrap_or(rest.len())
    }
}

impl<'a, F: Field> Parser<'a, F> {
    /// `term or term or …`
    fn any(&mut self) -> Result<Expr<F>, FilterError> {
        let first = self.all()?;
        let mut parts = vec![first];
        while self.keyword("or") {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Expr::Any))
    }

    /// `factor and factor and …`
    fn all(&mut self) -> Result<Expr<F>, FilterError> {
        let first = self.factor()?;
        let mut parts = vec![first];
        while self.keyword("and") {
            parts.push(self.factor()?);
        }
        Ok(one_or(parts, Expr::All))
    }

    fn factor(&mut self) -> Result<Expr<F>, FilterError> {
        let begun_at = self.skip_blanks();
        if self.keyword("not") {
            self.deeper(begun_at)?;
            let inner = self.factor()?;
            self.depth -= 1;
            return Ok(Expr::Not(Box::new(inner)));
        }
        if self.sign("(") {
            self.deeper(begun_at)?;
            let inner = self.any()?;
            if !self.sign(")") {
                return Err(self.expected(Expected::Closing { opened_at: begun_at }));
            }
            self.depth -= 1;
            return Ok(inner);
        }
        self.condition()
    }

    fn deeper(&mut self, at: usize) -> Result<(), FilterError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FilterError { span: at..self.at, problem: FilterProblem::TooDeep { most: DEEPEST } });
        }
        Ok(())
    }

    /// `field = value`, `field in (value, …)`.
    fn condition(&mut self) -> Result<Expr<F>, FilterError> {
        let field = self.field()?;
        self.skip_blanks();
        let begun_at = self.at;
        let negated = self.keyword("not");
        if self.keyword("in") {
            self.allowed(field, "in", begun_at)?;
            let test = Expr::Is(field, Test::In(self.list(field)?));
            return Ok(if negated { Expr::Not(Box::new(test)) } else { test });
        }
        if negated {
            self.at = begun_at;
            return Err(self.expected(Expected::Operator));
        }
        let signs = ["!=", "!~", "<=", ">=", "=", "~", "<", ">"];
        let Some(sign) = signs.into_iter().find(|sign| self.sign(sign)) else {
            return Err(self.expected(Expected::Operator));
        };
        self.allowed(field, sign, begun_at)?;
        let comparison = match sign {
            "=" => Comparison::Equal,
            "!=" => Comparison::Unequal,
            "<" => Comparison::Less,
            "<=" => Comparison::AtMost,
            ">" => Comparison::More,
            ">=" => Comparison::AtLeast,
            sign => {
                let pattern = pattern(self.value(Bare::Pattern)?)?;
                let test = if sign == "~" { Test::Matches(pattern) } else { Test::Differs(pattern) };
                return Ok(Expr::Is(field, test));
            }
        };
        let written = self.value(Bare::Word)?;
        Ok(Expr::Is(field, Test::Compare(comparison, value_of(field, &written)?)))
    }

    fn field(&mut self) -> Result<F, FilterError> {
        let begun_at = self.skip_blanks();
        let name = self.rest().split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-')).next();
        let name = name.unwrap_or_default();
        let is_keyword = KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(name));
        if name.is_empty() || is_keyword {
            return Err(self.expected(Expected::Field));
        }
        let plain = name.to_ascii_lowercase().replace('-', "_");
        let Some(field) = F::ALL.iter().find(|field| field.name() == plain) else {
            let known: Vec<&'static str> = F::ALL.iter().map(|field| field.name()).collect();
            let meant = nearest(name, known.iter().copied());
            let span = begun_at..begun_at + name.len();
            let problem = FilterProblem::UnknownField { written: name.to_owned(), meant, known };
            return Err(FilterError { span, problem });
        };
        self.at += name.len();
        Ok(*field)
    }

    /// Whether the field knows this comparison, which stands between there and here.
    fn allowed(&self, field: F, written: &'static str, begun_at: usize) -> Result<(), FilterError> {
        let allowed = comparisons(field.kind());
        if allowed.contains(&written) {
            return Ok(());
        }
        let problem = FilterProblem::BadOperator { field: field.name(), written, allowed };
        Err(FilterError { span: begun_at..self.at, problem })
    }

    fn list(&mut self, field: F) -> Result<Vec<Value>, FilterError> {
        if !self.sign("(") {
            return Err(self.expected(Expected::Opening));
        }
        let mut values = Vec::new();
        loop {
            let written = self.value(Bare::Word)?;
            values.push(value_of(field, &written)?);
            if self.sign(")") {
                return Ok(values);
            }
            if !self.sign(",") {
                return Err(self.expected(Expected::Comma));
            }
        }
    }

    /// A value: in quotes, or bare up to where such a thing ends.
    fn value(&mut self, bare: Bare) -> Result<Written, FilterError> {
        let begun_at = self.skip_blanks();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Err(self.expected(Expected::Value)) };
        if matches!(first, '"' | '\'') {
            return self.quoted(first);
        }
        let bare = &rest[..bare.end(rest)];
        let is_keyword = KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(bare));
        if bare.is_empty() || is_keyword || bare.starts_with(['=', '!', '~', '<', '>']) {
            return Err(self.expected(Expected::Value));
        }
        self.at += bare.len();
        Ok(Written { text: bare.to_owned(), span: begun_at..self.at })
    }

    /// A backslash makes a quote or another backslash an ordinary character. Before anything else it is one itself, so that
    /// regular expressions need no second one.
    fn quoted(&mut self, quote: char) -> Result<Written, FilterError> {
        let begun_at = self.at;
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((offset, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.at = begun_at + offset + c.len_utf8();
                    return Ok(Written { text, span: begun_at..self.at });
                }
                '\\' => match chars.next_if(|(_, next)| *next == quote || *next == '\\') {
                    Some((_, next)) => text.push(next),
                    None => text.push('\\'),
                },
                c => text.push(c),
            }
        }
        Err(FilterError { span: begun_at..begun_at + quote.len_utf8(), problem: FilterProblem::OpenQuote })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Passes over blanks; answers where what is next stands.
    fn skip_blanks(&mut self) -> usize {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.at
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.rest().chars().next()
    }

    /// Takes this sign if it is next.
    fn sign(&mut self, sign: &str) -> bool {
        self.skip_blanks();
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.at += sign.len();
        }
        is_next
    }

    /// Takes this word if it is next, in capitals or not.
    fn keyword(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let rest = self.rest();
        let Some(head) = rest.get(..word.len()).filter(|head| head.eq_ignore_ascii_case(word)) else {
            return false;
        };
        let ends = !rest[head.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '-');
        if ends {
            self.at += head.len();
        }
        ends
    }

    /// Something else should stand here.
    fn expected(&mut self, expected: Expected) -> FilterError {
        let begun_at = self.skip_blanks();
        let rest = self.rest();
        let part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let word = rest.find(|c| !part(c)).unwrap_or(rest.len());
        let len = if word > 0 { word } else { rest.chars().next().map_or(0, char::len_utf8) };
        let found = (len > 0).then(|| rest[..len].to_owned());
        FilterError { span: begun_at..begun_at + len, problem: FilterProblem::Expected { expected, found } }
    }
}

/// One part alone needs nothing around it.
fn one_or<F>(mut parts: Vec<Expr<F>>, join: impl Fn(Vec<Expr<F>>) -> Expr<F>) -> Expr<F> {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}

/// The comparisons that a kind of value knows.
fn comparisons(kind: ValueKind) -> &'static [&'static str] {
    match kind {
        ValueKind::Text | ValueKind::Prefix | ValueKind::OneOf(_) => &["=", "!=", "~", "!~", "in"],
        ValueKind::Id | ValueKind::Number => &["=", "!=", "<", "<=", ">", ">=", "in"],
        ValueKind::Flag => &["=", "!="],
        ValueKind::Length | ValueKind::Moment => &["=", "!=", "<", "<=", ">", ">="],
    }
}

fn pattern(written: Written) -> Result<Pattern, FilterError> {
    let Written { text, span } = written;
    let built =
        RegexBuilder::new(&text).case_insensitive(true).size_limit(PATTERN_BYTES).nest_limit(100).build();
    match built {
        Ok(regex) => Ok(Pattern { text, regex }),
        Err(error) => {
            // The last line of a syntax error says what is wrong; those before it draw the place.
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Err(FilterError { span, problem: FilterProblem::BadPattern { why } })
        }
    }
}

fn value_of<F: Field>(field: F, written: &Written) -> Result<Value, FilterError> {
    let kind = field.kind();
    let text = written.text.as_str();
    let value = match kind {
        ValueKind::Text => Some(Value::Text(text.to_owned())),
        ValueKind::Prefix => Some(Value::Prefix(text.to_owned())),
        ValueKind::OneOf(names) => {
            let plain = text.to_ascii_lowercase().replace('-', "_");
            names.iter().find(|name| **name == plain).map(|name| Value::Text((*name).to_owned()))
        }
        ValueKind::Id => text.parse().ok().map(Value::Id),
        ValueKind::Number => text.parse().ok().map(Value::Number),
        ValueKind::Flag => text.to_ascii_lowercase().parse().ok().map(Value::Flag),
        ValueKind::Length => length(text).map(Value::Length),
        ValueKind::Moment => moment(text).map(Value::Moment),
    };
    value.ok_or_else(|| {
        let meant = match kind {
            ValueKind::OneOf(names) => nearest(text, names.iter().copied()),
            _ => None,
        };
        let problem = FilterProblem::BadValue { field: field.name(), written: text.to_owned(), kind, meant };
        FilterError { span: written.span.clone(), problem }
    })
}

fn length(text: &str) -> Option<u64> {
    u64::try_from(parse_duration(text).ok()?.as_millis()).ok()
}

/// A time, and from how it is written how precisely it is meant.
fn moment(text: &str) -> Option<Moment> {
    let from: Timestamp = text.parse().ok()?;
    let precision = match text.trim().get(10..).unwrap_or_default() {
        "" => Precision::Day,
        clock if clock.contains(['.', ',']) => Precision::Millisecond,
        clock => {
            let zone = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
            if clock[..zone].matches(':').count() == 1 { Precision::Minute } else { Precision::Second }
        }
    };
    // Beyond the calendar a time has no text of its own, and could not be written down again.
    (from.to_string().parse() == Ok(from)).then_some(Moment { from, precision })
}
