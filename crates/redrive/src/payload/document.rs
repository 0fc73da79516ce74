//! JSON as it was written: the order of keys, every digit of a number and every escape stay what they are, since a payload
//! belongs to whoever will read it. What is not touched by an edit comes out unchanged but for blanks.

use serde_json::Value;

use super::path::{PathTrouble, Step};

/// A value and how it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// Keys with their quotation marks, in their order.
    Object(Vec<(String, Document)>),
    /// Items in their order.
    Array(Vec<Document>),
    /// Anything else, as it stands.
    Scalar(String),
}

impl Document {
    /// Reads JSON.
    pub fn parse(text: &str) -> Result<Document, serde_json::Error> {
        // It decides what is JSON, and how deep it may nest; what follows only takes it apart.
        serde_json::from_str::<Value>(text)?;
        let mut rest = text.trim();
        Ok(read(&mut rest))
    }

    /// A value from the command line: JSON if it is, else a text.
    pub fn of_value(written: &str) -> Document {
        Document::parse(written)
            .unwrap_or_else(|_| Document::Scalar(Value::String(written.to_owned()).to_string()))
    }

    /// A value that was read, written again.
    pub fn of_json(value: &Value) -> Document {
        let text = value.to_string();
        read(&mut text.as_str())
    }

    /// What it says.
    pub fn value(&self) -> Option<Value> {
        serde_json::from_str(&self.compact()).ok()
    }

    /// How many bytes it has on one line, and how deep it nests: nothing is built to know that.
    pub fn extent(&self) -> (usize, usize) {
        let of = |parts: &mut dyn Iterator<Item = (usize, &Document)>| {
            let (mut bytes, mut depth, mut count) = (2, 0, 0_usize);
            for (key, value) in parts {
                let (more, deeper) = value.extent();
                (bytes, depth, count) = (bytes + key + more, depth.max(deeper), count + 1);
            }
            (bytes + count.saturating_sub(1), depth + 1)
        };
        match self {
            Document::Scalar(text) => (text.len(), 0),
            Document::Object(members) => of(&mut members.iter().map(|(key, value)| (key.len() + 1, value))),
            Document::Array(items) => of(&mut items.iter().map(|item| (0, item))),
        }
    }

    /// On one line, without blanks.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// Indented, for people; ends with a line break.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, depth: Option<usize>) {
        let deeper = depth.map(|depth| depth + 1);
        let line = |out: &mut String, depth: Option<usize>| {
            if let Some(depth) = depth {
                out.push('\n');
                out.push_str(&"  ".repeat(depth));
            }
        };
        match self {
            Document::Scalar(text) => out.push_str(text),
            Document::Object(members) if members.is_empty() => out.push_str("{}"),
            Document::Array(items) if items.is_empty() => out.push_str("[]"),
            Document::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    line(out, deeper);
                    out.push_str(key);
                    out.push_str(if depth.is_some() { ": " } else { ":" });
                    value.write(out, deeper);
                }
                line(out, depth);
                out.push('}');
            }
            Document::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    line(out, deeper);
                    item.write(out, deeper);
                }
                line(out, depth);
                out.push(']');
            }
        }
    }

    /// Puts a value there. Objects on the way that are missing are made; a list grows by one at its end.
    pub fn set(&mut self, path: &[Step], value: Document) -> Result<(), PathTrouble> {
        let mut here = self;
        for (i, step) in path.iter().enumerate() {
            here = match (step, here) {
                (Step::Key(key), Document::Object(members)) => {
                    let place = members.iter().rposition(|(written, _)| is_key(written, key));
                    let place = place.unwrap_or_else(|| {
                        let written = Value::String(key.clone()).to_string();
                        members.push((written, Document::Object(Vec::new())));
                        members.len() - 1
                    });
                    &mut members[place].1
                }
                (Step::Index(index), Document::Array(items)) => {
                    if *index == items.len() {
                        items.push(Document::Object(Vec::new()));
                    }
                    let len = items.len();
                    items.get_mut(*index).ok_or(PathTrouble::NoIndex { step: i, len })?
                }
                (Step::Key(_), _) => return Err(PathTrouble::NoObject { step: i }),
                (Step::Index(_), _) => return Err(PathTrouble::NoList { step: i }),
            };
        }
        *here = value;
        Ok(())
    }

    /// Takes a value away.
    pub fn unset(&mut self, path: &[Step]) -> Result<(), PathTrouble> {
        let Some((last, way)) = path.split_last() else { return Err(PathTrouble::Syntax) };
        let mut here = self;
        for (i, step) in way.iter().enumerate() {
            here = match (step, here) {
                (Step::Key(key), Document::Object(members)) => members
                    .iter_mut()
                    .rfind(|(written, _)| is_key(written, key))
                    .map(|(_, value)| value)
                    .ok_or(PathTrouble::Missing { step: i })?,
                (Step::Index(index), Document::Array(items)) => {
                    items.get_mut(*index).ok_or(PathTrouble::Missing { step: i })?
                }
                _ => return Err(PathTrouble::Missing { step: i }),
            };
        }
        let step = way.len();
        match (last, here) {
            (Step::Key(key), Document::Object(members)) => {
                let before = members.len();
                members.retain(|(written, _)| !is_key(written, key));
                if members.len() == before { Err(PathTrouble::Missing { step }) } else { Ok(()) }
            }
            (Step::Index(index), Document::Array(items)) if *index < items.len() => {
                items.remove(*index);
                Ok(())
            }
            _ => Err(PathTrouble::Missing { step }),
        }
    }
}

/// Whether a key that was written with quotation marks and escapes is this one.
pub(super) fn is_key(written: &str, key: &str) -> bool {
    if written.contains('\\') { key_of(written) == key } else { unquoted(written) == key }
}

/// What a key says that was written with quotation marks and escapes.
pub(super) fn key_of(written: &str) -> String {
    let plain = !written.contains('\\');
    let read = if plain { None } else { serde_json::from_str(written).ok() };
    read.unwrap_or_else(|| unquoted(written).to_owned())
}

fn unquoted(written: &str) -> &str {
    written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(written)
}

/// Takes one value off the beginning of JSON that was found to be such.
fn read(rest: &mut &str) -> Document {
    skip_blanks(rest);
    match rest.as_bytes().first() {
        Some(b'{') => {
            let mut members = Vec::new();
            step(rest);
            while !ends(rest, '}') {
                let key = scalar(rest);
                skip_blanks(rest);
                // The colon.
                step(rest);
                members.push((key, read(rest)));
                comma(rest);
            }
            Document::Object(members)
        }
        Some(b'[') => {
            let mut items = Vec::new();
            step(rest);
            while !ends(rest, ']') {
                items.push(read(rest));
                comma(rest);
            }
            Document::Array(items)
        }
        _ => Document::Scalar(scalar(rest)),
    }
}

fn skip_blanks(rest: &mut &str) {
    *rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
}

fn step(rest: &mut &str) {
    *rest = rest.get(1..).unwrap_or_default();
}

fn comma(rest: &mut &str) {
    skip_blanks(rest);
    *rest = rest.strip_prefix(',').unwrap_or(rest);
}

/// Whether the object or the list is over here; then its end is taken, too.
fn ends(rest: &mut &str, end: char) -> bool {
    skip_blanks(rest);
    match rest.strip_prefix(end) {
        Some(after) => {
            *rest = after;
            true
        }
        None => rest.is_empty(),
    }
}

/// A text with its quotation marks, a number or a word, as it stands.
fn scalar(rest: &mut &str) -> String {
    let bytes = rest.as_bytes();
    let end = if bytes.first() == Some(&b'"') {
        let mut end = 1;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        (end + 1).min(bytes.len())
    } else {
        let stops = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | b':');
        bytes.iter().position(stops).unwrap_or(bytes.len()).max(1).min(bytes.len())
    };
    let (taken, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
    *rest = after;
    taken.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::path;
    use super::*;
    use proptest::prelude::*;

    const ODD: &str =
        r#" { "b" : 12345678901234567890123, "a":[1.0,{"x":[]},{}], "\u0062\"c": "e\u00e9 , ] }" } "#;

    /// R-D7: what an edit does not touch stays as it was written: order, digits, escapes.
    #[test]
    fn everything_else_stays_as_it_was_written() {
        let document = Document::parse(ODD).unwrap();
        assert_eq!(
            document.compact(),
            r#"{"b":12345678901234567890123,"a":[1.0,{"x":[]},{}],"\u0062\"c":"e\u00e9 , ] }"}"#
        );
        assert_eq!(Document::parse(&document.pretty()).unwrap(), document);
        assert!(
            document.pretty().starts_with("{\n  \"b\": 12345678901234567890123,\n  \"a\": [\n    1.0,\n")
        );
        assert_eq!(document.extent(), (document.compact().len(), 4));
        for bad in ["", "{", "{\"a\":1,}", "[1 2]", "nul", "\"a", "1 2"] {
            assert!(Document::parse(bad).is_err(), "{bad}");
        }
        assert!(Document::parse(&"[".repeat(100_000)).is_err());
    }

    fn edited(text: &str, set: &str, value: &str) -> Result<String, PathTrouble> {
        let mut document = Document::parse(text).unwrap();
        document.set(&path::parse(set)?, Document::of_value(value))?;
        Ok(document.compact())
    }

    /// R-D8: `--set path=value` changes what it names and nothing else.
    #[test]
    fn a_value_is_set_where_the_path_leads() {
        assert_eq!(edited(r#"{"a":1,"b":2}"#, "b", "3").unwrap(), r#"{"a":1,"b":3}"#);
        assert_eq!(edited(r#"{"a":{"b":[1,2]}}"#, "a.b[1]", "x y").unwrap(), r#"{"a":{"b":[1,"x y"]}}"#);
        assert_eq!(
            edited(r#"{"a":{"b":[1,2]}}"#, ".a.b[2]", "[true]").unwrap(),
            r#"{"a":{"b":[1,2,[true]]}}"#
        );
        assert_eq!(edited("{}", "a.b.c", "null").unwrap(), r#"{"a":{"b":{"c":null}}}"#);
        assert_eq!(edited(r#"{"x.y":1}"#, r#""x.y""#, "2").unwrap(), r#"{"x.y":2}"#);
        assert_eq!(edited(r#"{"x.y":1}"#, r#"["x.y"]"#, "2").unwrap(), r#"{"x.y":2}"#);
        assert_eq!(edited("[1]", "[0]", "\"1\"").unwrap(), r#"["1"]"#);
        assert_eq!(edited("[1]", "[3]", "1"), Err(PathTrouble::NoIndex { step: 0, len: 1 }));
        assert_eq!(edited(r#"{"a":1}"#, "a.b", "1"), Err(PathTrouble::NoObject { step: 1 }));
        assert_eq!(edited(r#"{"a":1}"#, "a[0]", "1"), Err(PathTrouble::NoList { step: 1 }));
    }

    /// R-D8: `--unset path` takes away what is there, and says when it is not.
    #[test]
    fn a_value_is_taken_away() {
        let mut document = Document::parse(r#"{"a":[1,2,3],"b":{"c":1}}"#).unwrap();
        document.unset(&path::parse("a[1]").unwrap()).unwrap();
        document.unset(&path::parse("b.c").unwrap()).unwrap();
        assert_eq!(document.compact(), r#"{"a":[1,3],"b":{}}"#);
        for missing in ["b.c", "x", "a[2]", "a.x", "a[0].x"] {
            let trouble = document.unset(&path::parse(missing).unwrap());
            assert!(matches!(trouble, Err(PathTrouble::Missing { .. })), "{missing}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// R-D7: taking JSON apart and writing it again never changes what it says.
        #[test]
        fn what_is_written_says_the_same(value in values()) {
            let document = Document::parse(&value.to_string()).unwrap();
            prop_assert_eq!(document.compact(), value.to_string());
            prop_assert_eq!(document.extent().0, document.compact().len());
            prop_assert_eq!(serde_json::from_str::<Value>(&document.pretty()).unwrap(), value);
        }
    }
}
