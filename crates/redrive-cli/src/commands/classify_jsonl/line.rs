//! One line of `classify --jsonl`: what it may say, and in what way it can be wrong.
//!
//! Lenient where a writer's habits differ and the meaning does not (`503.0`, `{"code":1205}`, half a surrogate
//! pair), and strict elsewhere. A good line is parsed once, without copying; only a bad one is looked at again.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use redrive_policy::{Lang, Report};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::error::Category;

use crate::text::{say, text};

/// One line of input. Fields that are not named here are ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct Line<'a> {
    #[serde(borrow, default)]
    text: Words<'a, TextOnly>,
    #[serde(default)]
    http_status: Whole,
    #[serde(default)]
    exit_code: Whole,
    #[serde(borrow, default)]
    code: Words<'a, NumberToo>,
}

/// Why a line could not be read. It quotes nothing: what is wrong may be anything, and anyone's secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadLine {
    Blank,
    TooLong,
    NotAnObject,
    NotJson,
    CutShort,
    /// A field holds something else than it may.
    Field(&'static str),
    /// A field stands twice in the object.
    Twice,
    /// An entry of a corpus does not say what is right about its message.
    NoLabel,
}

impl BadLine {
    pub(crate) fn describe(self, lang: Lang) -> String {
        let key = match self {
            BadLine::Blank => "jsonl.bad.blank",
            BadLine::TooLong => "jsonl.bad.too-long",
            BadLine::NotAnObject => "jsonl.bad.not-an-object",
            BadLine::NotJson => "jsonl.bad.not-json",
            BadLine::CutShort => "jsonl.bad.cut-short",
            BadLine::Twice => "jsonl.bad.twice",
            BadLine::NoLabel => "jsonl.bad.no-label",
            BadLine::Field(field) => {
                return text(lang, &format!("jsonl.bad.{}", kind_of(field)), &[("field", &field)]);
            }
        };
        say(lang, key)
    }
}

/// What a field holds, as the last part of a key.
const fn kind_of(field: &str) -> &'static str {
    match field.as_bytes() {
        b"text" => "no-text",
        b"code" => "no-code",
        _ => "no-whole-number",
    }
}

impl<'a> Line<'a> {
    /// Reads one line; an error says in what way it is wrong.
    pub(crate) fn parse(line: &'a str) -> Result<Line<'a>, BadLine> {
        if !line.starts_with('{') {
            return Err(BadLine::NotAnObject);
        }
        serde_json::from_str(line).map_err(|error| match error.classify() {
            Category::Syntax | Category::Io => BadLine::NotJson,
            Category::Eof => BadLine::CutShort,
            Category::Data => wrong_field(line),
        })
    }

    /// The report it stands for. A number that can be no status says nothing.
    pub(crate) fn report(self) -> Report<'a> {
        let mut report = self.text.words.map(Report::text).unwrap_or_default();
        report.http_status = self.http_status.0.and_then(|status| u16::try_from(status).ok());
        report.exit_code = self.exit_code.0.and_then(|code| {
            // Windows reports codes such as 3221225477 as unsigned; they are the same 32 bits.
            i32::try_from(code).ok().or_else(|| u32::try_from(code).ok().map(u32::cast_signed))
        });
        report.code = self.code.words;
        report
    }
}

/// The first field that holds something else than it may.
fn wrong_field(line: &str) -> BadLine {
    let Ok(Value::Object(fields)) = serde_json::from_str(line) else {
        return BadLine::NotJson;
    };
    let good = |name: &str| match fields.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(_)) => kind_of(name) != "no-whole-number",
        Some(Value::Number(number)) => {
            name != "text" && number.as_f64().is_none_or(|number| number.fract() == 0.0)
        }
        Some(_) => false,
    };
    ["text", "http_status", "exit_code", "code"]
        .into_iter()
        .find(|name| !good(name))
        .map_or(BadLine::Twice, BadLine::Field)
}

/// The line with every half of a surrogate pair that stands alone replaced by U+FFFD, if there is one. JSON
/// may write such a half, and programs that cut strings in the middle do; no text can hold it.
pub(crate) fn without_lone_surrogates(line: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = line.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
    };
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = line[at..].find('\\') {
        at += found;
        match (unit(at), unit(at + 6)) {
            (None, _) => at += 1 + line[at + 1..].chars().next().map_or(0, char::len_utf8),
            (Some(0xd800..0xdc00), Some(0xdc00..)) => at += 12,
            (Some(_), _) => {
                out.push_str(&line[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
        }
    }
    (copied > 0).then(|| {
        out.push_str(&line[copied..]);
        out
    })
}

/// A text or null, and perhaps a number that is read as its digits. Borrowed from the line where it can be.
#[derive(Debug)]
struct Words<'a, Also> {
    words: Option<Cow<'a, str>>,
    also: PhantomData<Also>,
}

/// Nothing but a text.
#[derive(Debug)]
struct TextOnly;

/// A code may be a number: 1205 of `MySQL`.
#[derive(Debug)]
struct NumberToo;

trait Numbers {
    const ALLOWED: bool;
}

impl Numbers for TextOnly {
    const ALLOWED: bool = false;
}

impl Numbers for NumberToo {
    const ALLOWED: bool = true;
}

impl<Also> Words<'_, Also> {
    const NONE: Self = Words { words: None, also: PhantomData };
}

impl<Also> Default for Words<'_, Also> {
    fn default() -> Self {
        Words::NONE
    }
}

impl<'de: 'a, 'a, Also: Numbers> Deserialize<'de> for Words<'a, Also> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor(PhantomData))
    }
}

struct WordsVisitor<Also>(PhantomData<Also>);

impl<Also: Numbers> WordsVisitor<Also> {
    fn digits<'a, E: Error>(number: &dyn fmt::Display) -> Result<Words<'a, Also>, E> {
        if Also::ALLOWED {
            return Ok(Words { words: Some(Cow::Owned(number.to_string())), also: PhantomData });
        }
        Err(E::invalid_type(Unexpected::Other("number"), &"a text"))
    }
}

impl<'de, Also: Numbers> Visitor<'de> for WordsVisitor<Also> {
    type Value = Words<'de, Also>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Words { words: Some(Cow::Borrowed(text)), also: PhantomData })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Words { words: Some(Cow::Owned(text.to_owned())), also: PhantomData })
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Words::NONE)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Self::digits(&number)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Self::digits(&number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        if number.fract() == 0.0 {
            // A whole number shows no point.
            return Self::digits(&number);
        }
        Err(E::invalid_value(Unexpected::Float(number), &"a whole number"))
    }
}

/// A whole number or null. One too large to be anything says nothing.
#[derive(Debug, Default)]
struct Whole(Option<i64>);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WholeVisitor)
    }
}

struct WholeVisitor;

impl Visitor<'_> for WholeVisitor {
    type Value = Whole;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_unit<E: Error>(self) -> Result<Whole, E> {
        Ok(Whole(None))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Whole, E> {
        Ok(Whole(i64::try_from(number).ok()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
        Ok(Whole(Some(number)))
    }

    /// Languages with one kind of number write 503.0.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Whole, E> {
        if number.fract() == 0.0 {
            return Ok(Whole(format!("{number:.0}").parse().ok()));
        }
        Err(E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// R-P3: what means the same is read the same, whoever wrote it.
    #[test]
    fn the_habits_of_other_writers_are_understood() {
        let report = |line| Line::parse(line).unwrap().report();
        assert_eq!(report(r#"{"http_status":503.0}"#).http_status, Some(503));
        assert_eq!(report(r#"{"http_status":5.03e2,"exit_code":-1.0}"#).exit_code, Some(-1));
        assert_eq!(report(r#"{"exit_code":3221225477.0}"#).exit_code, Some(-1_073_741_819));
        assert_eq!(report(r#"{"http_status":1e300,"exit_code":99999999999999999999}"#).http_status, None);
        assert_eq!(report(r#"{"code":1205}"#).code.as_deref(), Some("1205"));
        assert_eq!(report(r#"{"code":-1205.0}"#).code.as_deref(), Some("-1205"));
        let line = r#"{"text":"a","code":"40P01"}"#;
        assert!(matches!(report(line).code, Some(Cow::Borrowed("40P01"))), "nothing is copied");
    }

    /// Bad input: what is wrong is named, and not quoted.
    #[test]
    fn what_is_wrong_is_named() {
        for (line, bad) in [
            ("null", BadLine::NotAnObject),
            ("{nope}", BadLine::NotJson),
            ("{} {}", BadLine::NotJson),
            (r#"{"text":"a""#, BadLine::CutShort),
            (r#"{"text":5}"#, BadLine::Field("text")),
            (r#"{"text":null,"http_status":"hunter2"}"#, BadLine::Field("http_status")),
            (r#"{"http_status":503.5}"#, BadLine::Field("http_status")),
            (r#"{"exit_code":true}"#, BadLine::Field("exit_code")),
            (r#"{"code":1.5}"#, BadLine::Field("code")),
            (r#"{"code":["x"]}"#, BadLine::Field("code")),
            (r#"{"text":"a","text":"b"}"#, BadLine::Twice),
        ] {
            assert_eq!(Line::parse(line).unwrap_err(), bad, "{line}");
            for lang in Lang::ALL {
                let words = bad.describe(lang);
                assert!(!words.contains("line 1") && !words.contains("hunter2"), "{words}");
                assert!(!words.contains('{') && !words.starts_with("jsonl."), "{words}");
            }
        }
    }

    #[test]
    fn half_a_pair_is_replaced_and_a_whole_one_stays() {
        for (line, repaired) in [
            (r"\ud800", Some(r"\ufffd")),
            (r"a\uDC00\ud83d\ude00\uD83D!", Some(r"a\ufffd\ud83d\ude00\ufffd!")),
            (r"\ud83d\ud83d\ude00", Some(r"\ufffd\ud83d\ude00")),
            (r"\\ud800", None),
            (r"\ud83d\ude00", None),
            (r"\ud8", None),
            ("\\", None),
            ("\\あ", None),
        ] {
            assert_eq!(without_lone_surrogates(line).as_deref(), repaired, "{line}");
        }
    }

    proptest! {
        /// Bad input: any string of UTF-16 units that JSON can write can be read.
        #[test]
        fn any_units_can_be_read(units in prop::collection::vec(any::<u16>(), 0..8)) {
            let written: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04X}")).collect();
            let line = format!("{{\"text\":\"{}\"}}", written.concat());
            let line = without_lone_surrogates(&line).unwrap_or(line);
            let words = Line::parse(&line).unwrap().text.words.unwrap();
            prop_assert_eq!(words, String::from_utf16_lossy(&units));
        }

        #[test]
        fn no_line_is_repaired_out_of_bounds(line in any::<String>()) {
            let _ = without_lone_surrogates(&line);
        }
    }
}
