//! Where in a text something stands, in lines and columns. Only asked for once something is wrong there.
//!
//! A node of a TOML file remembers its byte. A node of a JSON file remembers which value of the file it is, counted in the
//! order in which values begin; a scan of the text, which is known to be JSON, finds that beginning again.

use super::Format;
use super::problem::Place;

/// The places of these nodes, given by what they remember, in ascending order.
pub(super) fn places(source: &str, format: Format, ats: &[usize]) -> Vec<Place> {
    let skipped = source.len() - source.strip_prefix('\u{feff}').unwrap_or(source).len();
    let source = &source[skipped..];
    let begins = match format {
        Format::Toml => None,
        Format::Json => Some(value_begins(source)),
    };
    let mut place = Place { line: 1, column: 1 };
    let mut reached = 0;
    let mut places = Vec::with_capacity(ats.len());
    for at in ats {
        let byte = match &begins {
            None => *at,
            Some(begins) => begins.get(*at).copied().unwrap_or_default(),
        };
        // Ascending, so that a text is walked through once however much is wrong in it.
        let passed = source.get(reached..byte).unwrap_or_default();
        for c in passed.chars() {
            if c == '\n' {
                place = Place { line: place.line + 1, column: 1 };
            } else {
                place.column += 1;
            }
        }
        reached += passed.len();
        places.push(place);
    }
    places
}

/// Where each value of a JSON text begins. Keys are no values: they are the texts before a colon.
fn value_begins(source: &str) -> Vec<usize> {
    let bytes = source.as_bytes();
    let mut begins = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => {
                let end = end_of_text(bytes, i);
                let next = bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace());
                if next != Some(&b':') {
                    begins.push(i);
                }
                i = end;
            }
            b'{' | b'[' => {
                begins.push(i);
                i += 1;
            }
            b'}' | b']' | b',' | b':' => i += 1,
            byte if byte.is_ascii_whitespace() => i += 1,
            _ => {
                begins.push(i);
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace();
                i += bytes[i..].iter().position(ends).unwrap_or(bytes.len() - i);
            }
        }
    }
    begins
}

/// The byte after the quote that ends the text which begins here.
fn end_of_text(bytes: &[u8], begin: usize) -> usize {
    let mut i = begin + 1;
    while i < bytes.len() && bytes[i] != b'"' {
        i += if bytes[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::node::{Node, Value};

    /// R-T1: errors name the place: each value of a JSON text is found again, whatever its texts hold.
    #[test]
    fn every_value_of_a_json_text_is_found() {
        let source =
            "{\"a\\\": [\": [1, -2.5e3,\n  \"x: \\\\\", null], \"b\" : {}, \"ü\": true\n, \"c\":\"\"}";
        let node = Node::parse(source, Format::Json).unwrap().unwrap();
        let mut ats = Vec::new();
        collect(&node, &mut ats);
        let found: Vec<String> = places(source, Format::Json, &ats)
            .iter()
            .map(|place| {
                let line = source.lines().nth(place.line as usize - 1).unwrap();
                line.chars().skip(place.column as usize - 1).take(4).collect()
            })
            .collect();
        assert_eq!(found, ["{\"a\\", "[1, ", "1, -", "-2.5", "\"x: ", "null", "{}, ", "true", "\"\"}"]);
    }

    fn collect(node: &Node, ats: &mut Vec<usize>) {
        ats.push(node.at);
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| collect(item, ats)),
            Value::Table(fields) => fields.iter().for_each(|(_, field)| collect(field, ats)),
            _ => {}
        }
    }
}
