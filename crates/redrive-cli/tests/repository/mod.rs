//! The repository as a test sees it: its root, its files, and the fenced blocks of its pages.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod transcript;

use std::fs;
use std::path::{Path, PathBuf};

/// The pages for whoever is woken at night. Their commands meet an outage, in `runbook.rs`.
pub const RUNBOOKS: [&str; 2] = ["docs/runbook.md", "docs/runbook.ja.md"];

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root of the repository")
}

pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every text file, with its path from the root. What a build left behind is not the repository's.
pub fn files() -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            // Of a second working tree `.git` is a file.
            if path.ends_with(".git") {
                continue;
            }
            if path.is_dir() {
                let built = path.ends_with("target") || path.join("CACHEDIR.TAG").exists();
                if !built {
                    folders.push(path);
                }
            } else if let Ok(text) = fs::read_to_string(&path) {
                let name = path.strip_prefix(&root).expect("below the root");
                found.push((name.to_string_lossy().replace('\\', "/"), text));
            }
        }
    }
    found.sort();
    found
}

/// The files whose names end like this.
pub fn files_ending(end: &str) -> Vec<(String, String)> {
    files().into_iter().filter(|(path, _)| path.ends_with(end)).collect()
}

/// The pages a person reads: those at the root and the guides.
pub fn pages() -> Vec<(String, String)> {
    let mut pages = files_ending(".md");
    pages.retain(|(path, _)| !path.contains('/') || path.starts_with("docs/") || path == "bench/README.md");
    pages
}

/// The fenced blocks of a page that are marked with this word.
pub fn blocks(page: &str, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Option<(bool, String)> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(mark)) => open = Some((mark.trim() == word, String::new())),
            (Some(_), Some(_)) => {
                let (wanted, block) = open.take().expect("an open block");
                if wanted {
                    found.push(block);
                }
            }
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}
