//! R-D10 on families of errors as services and tools print them: occurrences of one are one, families stay apart.
//!
//! `families/*.txt`: a family begins with `## name`, and each line under it is one occurrence, with `\n` for a line
//! break and `\\` for a backslash.

#![allow(clippy::unwrap_used, clippy::format_push_string)]

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use redrive_policy::{Cause, Failure, fingerprint, skeleton};

struct Family {
    name: &'static str,
    occurrences: Vec<String>,
}

fn families() -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let files = [include_str!("families/services.txt"), include_str!("families/operations.txt")];
    for line in files.into_iter().flat_map(str::lines) {
        match line.strip_prefix("## ") {
            Some(name) => families.push(Family { name, occurrences: Vec::new() }),
            None => families.last_mut().unwrap().occurrences.push(unescaped(line)),
        }
    }
    families
}

fn unescaped(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
        }
    }
    out
}

fn print_of(words: &str) -> String {
    fingerprint(&Failure::of(Cause::Unknown), words)
}

/// R-D10: what differs from one occurrence to the next does not count.
#[test]
fn occurrences_of_a_family_are_one() {
    let families = families();
    assert!(families.len() >= 60, "{}", families.len());
    let mut wrong = String::new();
    for family in &families {
        assert!(family.occurrences.len() >= 3, "{}", family.name);
        let patterns: Vec<String> = family.occurrences.iter().map(|words| skeleton(words)).collect();
        if family.occurrences.iter().any(|words| print_of(words) != print_of(&family.occurrences[0])) {
            wrong.push_str(&format!("## {}\n{}\n", family.name, patterns.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "these families fall apart:\n{wrong}");
}

/// R-D10: errors that mean something else stay apart.
#[test]
fn families_stay_apart() {
    let mut seen: HashMap<String, &str> = HashMap::new();
    let mut wrong = String::new();
    for family in families() {
        let print = print_of(&family.occurrences[0]);
        if let Some(other) = seen.insert(print, family.name) {
            wrong.push_str(&format!("{other} = {}: {}\n", family.name, skeleton(&family.occurrences[0])));
        }
    }
    assert!(wrong.is_empty(), "these families are one:\n{wrong}");
}

/// R-D10: a pattern is its own pattern, so that a group can be found by its title.
#[test]
fn a_pattern_is_its_own_pattern() {
    for family in families() {
        for words in &family.occurrences {
            let pattern = skeleton(words);
            assert_eq!(skeleton(&pattern), pattern, "{words}");
            assert!(pattern.chars().count() <= 400);
        }
    }
}

/// R-D10: however long and however odd, a fingerprint takes time in proportion.
#[test]
fn a_mebibyte_of_anything_is_no_trouble() {
    let parts = [
        "a/",
        "\"",
        "'",
        "“",
        "「",
        "a.",
        "1 ",
        "#",
        "<",
        "<a",
        "</a>",
        "=(",
        "k=",
        "{",
        "{\"a\":",
        "\\",
        "::",
        "1:",
        "@",
        "a@",
        "a-",
        "/",
        "word ",
        "注文",
        "\n",
        "error\n",
        "eyJ",
        "x://",
        "C:\\",
        "\u{1b}[",
        "+",
        "aB",
        "\"message\":\"",
    ];
    for part in parts {
        let words = part.repeat((1 << 20) / part.len());
        let began = Instant::now();
        assert_eq!(print_of(&words).len(), 16);
        // A quadratic way would take minutes: this is a bound on the shape, not a measurement.
        assert!(began.elapsed() < Duration::from_secs(10), "{part:?}: {:?}", began.elapsed());
    }
}

proptest! {
    /// R-D10: no words panic, and taking out twice changes nothing.
    #[test]
    fn any_words_have_one_pattern(words in "(?s)[a-zA-Z0-9 ./:=\"'<>#\\[\\]{}()@_%+,;\\\\~\n日時分秒年月注文「」-]{0,80}") {
        let pattern = skeleton(&words);
        prop_assert_eq!(skeleton(&pattern), pattern);
    }

    #[test]
    fn ids_never_tell_apart(a in "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}", b in "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}", port in 1024_u16..) {
        let words = |id: &str| format!("job {id} on 10.0.0.{}:{port} was lost", port % 250);
        prop_assert_eq!(print_of(&words(&a)), print_of(&words(&b)));
    }
}
