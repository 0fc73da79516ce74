//! docs/conformance.md lists every behaviour and the back ends that it is proved on. It is made from the suite itself.

use std::fmt::Write;
use std::path::Path;

const SUITE: &str = include_str!("main.rs");

/// The nouns of the suite with their tests, as they stand in the macro.
fn behaviours() -> Vec<(&'static str, Vec<&'static str>)> {
    let lists = SUITE.split("suite!(@ $back_end ").skip(1).filter_map(|rest| {
        let (noun, rest) = rest.split_once(" [")?;
        let tests = rest.split_once("])")?.0;
        Some((noun, tests.split(',').map(str::trim).filter(|test| !test.is_empty()).collect()))
    });
    lists.collect()
}

/// The back ends that the suite is called for.
fn back_ends() -> Vec<&'static str> {
    let calls = SUITE.lines().filter_map(|line| line.strip_prefix("suite!(")?.strip_suffix(");"));
    calls.collect()
}

/// What the comment above a test says that it proves, up to the first colon or end of a line.
fn proves(noun: &str, test: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/conformance/{noun}.rs"));
    let source = std::fs::read_to_string(file).unwrap();
    let head = source.split(&format!("pub(crate) async fn {test}(")).next().unwrap();
    let comment: Vec<&str> = head.lines().rev().take_while(|line| line.starts_with("///")).collect();
    let first = comment.last().map_or("", |line| line.trim_start_matches("///").trim());
    let known = ["R-", "Reliability", "Invariant", "Design"].iter().any(|start| first.starts_with(start));
    if !known {
        return String::new();
    }
    first.split_once(':').map_or(first, |(proves, _)| proves).trim_end_matches('.').to_owned()
}

fn page() -> String {
    let back_ends = back_ends();
    let behaviours = behaviours();
    let count: usize = behaviours.iter().map(|(_, tests)| tests.len()).sum();
    let mut page = format!(
        "# Conformance\n\n\
         {count} behaviours, each a plain function over the traits of the store, each run on every back end by `./test.sh` under the same name:\n\
         `{}::lease::two_workers_never_share_a_job`. Every one ends with a clean `store check`. `pgbouncer` is PostgreSQL through a pooler in\n\
         transaction mode.\n\n\
         This page is written by the suite (`REDRIVE_WRITE_PAGES=1 cargo test --workspace --all-features --test conformance page`), and the suite fails\n\
         when it is out of date.\n\n\
         | behaviour | proves | {} |\n|---|---|{}\n",
        back_ends[0],
        back_ends.join(" | "),
        "---|".repeat(back_ends.len()),
    );
    for (noun, tests) in behaviours {
        for test in tests {
            let ticks = " ✓ |".repeat(back_ends.len());
            writeln!(page, "| `{noun}::{test}` | {} |{ticks}", proves(noun, test)).unwrap();
        }
    }
    page
}

/// Issue 4, R-D8: at least 60 behaviours, the same on each back end, and the page says which.
#[test]
fn the_page_lists_every_behaviour() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    let page = page();
    assert!(page.matches("✓").count() >= 60 * back_ends().len());
    if std::env::var_os("REDRIVE_WRITE_PAGES").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/conformance.md is out of date: run with REDRIVE_WRITE_PAGES=1");
}
