//! What is wrong with a value that does not fit its shape, in words of ours and in both languages.
//!
//! The reader tells it in English and in words of Rust; only the few things that can be wrong are taken out of that, never the
//! values, which may be secrets.

use redrive_policy::nearest;

use crate::problem::{Code, Problem};

/// What a reader may have wanted, and our word for it in the catalogue.
const WANTED: &[(&str, &str)] = &[
    ("a string", "json.wants.text"),
    ("string", "json.wants.text"),
    ("a borrowed string", "json.wants.text"),
    ("a boolean", "json.wants.flag"),
    ("a sequence", "json.wants.list"),
    ("a map", "json.wants.object"),
    ("struct", "json.wants.object"),
    ("u8", "json.wants.whole"),
    ("u16", "json.wants.whole"),
    ("u32", "json.wants.whole"),
    ("u64", "json.wants.whole"),
    ("usize", "json.wants.whole"),
    ("i32", "json.wants.integer"),
    ("i64", "json.wants.integer"),
    ("f64", "json.wants.number"),
];

/// The problem that a reader's words tell of, at this place of the body or the parameters.
pub(crate) fn fault(place: &str, words: &str) -> Problem {
    let place = if place == "." || place == "?" { "" } else { place };
    if let Some(rest) = words.strip_prefix("unknown field ") {
        let mut names = rest.split('`').skip(1).step_by(2);
        let written = names.next().unwrap_or_default();
        let known: Vec<&str> = names.collect();
        let known_text = known.join(", ");
        let problem = match nearest(written, known.iter().copied()) {
            Some(meant) => Problem::new(Code::Invalid, "json.unknown_field_meant").with("meant", meant),
            None => Problem::new(Code::Invalid, "json.unknown_field"),
        };
        return problem.with("name", written).with("names", known_text).at(within(place, written));
    }
    for (beginning, key) in
        [("missing field ", "json.missing_field"), ("duplicate field ", "json.duplicate_field")]
    {
        if let Some(rest) = words.strip_prefix(beginning) {
            let name = rest.split('`').nth(1).unwrap_or_default();
            return Problem::new(Code::Invalid, key).with("name", name).at(within(place, name));
        }
    }
    if let Some(rest) = words.strip_prefix("unknown variant ") {
        let known = rest.split('`').skip(3).step_by(2).collect::<Vec<_>>().join(", ");
        return at(Problem::new(Code::Invalid, "json.one_of").with("names", known), place);
    }
    let wanted = words.split_once("expected ").map(|(_, wanted)| wanted);
    let wanted = wanted.map(|wanted| wanted.split(" at line ").next().unwrap_or(wanted));
    let is = |wanted: &str, name: &str| {
        wanted == name || wanted.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '))
    };
    let known = wanted.and_then(|wanted| WANTED.iter().find(|(name, _)| is(wanted, name)));
    let problem = match known {
        Some((_, key)) => Problem::new(Code::Invalid, key),
        None if words.starts_with("invalid digit") || words.starts_with("number too") => {
            Problem::new(Code::Invalid, "json.wants.whole")
        }
        None if words.starts_with("provided string was not") => {
            Problem::new(Code::Invalid, "json.wants.flag")
        }
        None if words.starts_with("not a time") => Problem::new(Code::Invalid, "json.wants.time"),
        None if words.starts_with("not an id") => Problem::new(Code::Invalid, "json.wants.id"),
        None => Problem::new(Code::Invalid, "json.wants.other"),
    };
    at(problem, place)
}

fn at(problem: Problem, place: &str) -> Problem {
    if place.is_empty() { problem } else { problem.at(place) }
}

/// The place of a field: inside of what holds it, unless the reader has said so already.
fn within(place: &str, name: &str) -> String {
    let named = place == name || place.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    match place {
        "" => name.to_owned(),
        _ if named => place.to_owned(),
        _ => format!("{place}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use redrive_policy::Lang;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        items: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        queue: String,
        tries: Option<u32>,
        at: Option<redrive_store::Timestamp>,
    }

    /// Issue 8, API: a body that does not fit is told which field, what is wanted there and what was probably meant; never a value
    /// and never a word of the reader.
    #[test]
    fn a_fault_says_where_and_what() {
        let check = |body: &str, field: &str, says: &str| {
            let mut read = serde_json::Deserializer::from_str(body);
            let error = serde_path_to_error::deserialize::<_, Outer>(&mut read).unwrap_err();
            let problem = fault(&error.path().to_string(), &error.inner().to_string());
            let told = problem.told(Lang::En);
            assert_eq!(problem.field(), Some(field), "{body}: {error}");
            assert!(told.detail.contains(says), "{body}: {}", told.detail);
            for inside in ["hunter2", "line 1", "u32", "struct", "Inner"] {
                assert!(!told.detail.contains(inside), "{}", told.detail);
            }
            assert!(!problem.told(Lang::Ja).detail.is_ascii());
        };
        check(r#"{"items":[{"queue":"a"},{"qeue":"a"}]}"#, "items[1].qeue", "did you mean queue?");
        check(r#"{"items":[{"zzzzz":"a"}]}"#, "items[0].zzzzz", "queue, tries, at");
        check(r#"{"items":[{}]}"#, "items[0].queue", "is missing");
        check(r#"{"items":[{"queue":"a","queue":"b"}]}"#, "items[0].queue", "twice");
        check(r#"{"items":[{"queue":"a","tries":"hunter2"}]}"#, "items[0].tries", "whole number");
        check(r#"{"items":[{"queue":"a","tries":-1}]}"#, "items[0].tries", "whole number");
        check(r#"{"items":[{"queue":7}]}"#, "items[0].queue", "a text");
        check(r#"{"items":[7]}"#, "items[0]", "an object");
        check(r#"{"items":{"a":1}}"#, "items", "a list");
        check(r#"{"items":[{"queue":"a","at":"hunter2"}]}"#, "items[0].at", "RFC 3339");
    }
}
