//! What the pages show is what happens: every `$ redrive …` runs and prints what stands below it (R-C1), every
//! configuration loads (R-P7). Rust examples are doc tests of the crate `redrive`.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod repository;

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use repository::transcript::{alike, line_matches, lines, matches, transcripts, without_colour};
use repository::{RUNBOOKS, blocks, pages, read, root};

/// Runs a line of shell as the pages do: at the root, 80 columns wide, with the built binary in front, and with the
/// data of this folder. The exit code, and what a person would see without its colours.
fn run(line: &str, data: &TempDir) -> (Option<i32>, String) {
    let binary = Path::new(env!("CARGO_BIN_EXE_redrive"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().expect("a folder").display());
    // A command that does not end by itself is shown as text.
    let output = Command::new("timeout")
        .args(["120", "sh", "-c", &format!("{{ {line}\n}} 2>&1")])
        .current_dir(root())
        .env_clear()
        .envs([("PATH", path.as_str()), ("HOME", "/home/ada"), ("LANG", "C")])
        .envs([("CLICOLOR_FORCE", "1"), ("REDRIVE_WIDTH", "80")])
        .env("XDG_DATA_HOME", data.path())
        .output()
        .expect("a shell");
    let printed = without_colour(&String::from_utf8_lossy(&output.stdout));
    (output.status.code(), printed.replace(&data.path().display().to_string(), "~/.local/share"))
}

#[test]
fn a_line_is_compared_around_what_differs() {
    for (shown, printed, same) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("a … c", "a 12ms c", true),
        ("a … c", "a 12ms d", false),
        ("…", "anything", true),
        ("x…y…z", "x1y2z", true),
        ("x…", "y", false),
    ] {
        assert_eq!(line_matches(shown, printed), same, "{shown} {printed}");
    }
}

/// Whether a line is for us to type: it has one of our commands in it, or makes what the next one finds.
fn is_ours(line: &str) -> bool {
    line == "redrive"
        || ["redrive ", "touch "].iter().any(|begins| line.starts_with(begins))
        || ["| redrive ", "do redrive "].iter().any(|part| line.contains(part))
}

fn has_times(path: &str) -> bool {
    ["README.md", "README.ja.md", "docs/cli.md", "docs/dead-letters.md"].contains(&path)
}

/// R-C1: every command in a page runs, ends with 0 (or prints its code), and prints what is shown.
#[test]
fn every_command_prints_what_the_page_shows() {
    let mut ran = 0;
    // The runbooks need a night that something happens in: `runbook.rs` gives them one.
    for (path, page) in pages().into_iter().filter(|(path, _)| !RUNBOOKS.contains(&path.as_str())) {
        // What one command of a page leaves behind the next one finds.
        let data = tempfile::tempdir().unwrap();
        for (command, shown) in transcripts(&page) {
            if !is_ours(&command) {
                continue;
            }
            let (code, printed) = run(&command, &data);
            assert_eq!(code, Some(0), "{path}: $ {command}\n{printed}");
            let printed_lines = lines(&printed);
            // Where tables have times in them their widths differ, too.
            let same = matches(&shown, &printed_lines) || (has_times(&path) && alike(&shown, &printed_lines));
            assert!(same, "{path}: $ {command}\nshows\n{}\nbut prints\n{printed}", shown.join("\n"));
            ran += 1;
        }
    }
    assert!(ran >= 20, "only {ran} commands were found");
}

/// R-C1: the picture in the README is the demo's own: its acts, and what it says about them, in their order. How many orders did what
/// differs from show to show.
#[test]
fn the_picture_is_what_the_demo_shows() {
    for (path, flag) in [("README.md", ""), ("README.ja.md", " --lang ja")] {
        let transcripts = transcripts(&read(path));
        let picture =
            transcripts.iter().find(|(command, shown)| command.contains("demo") && !shown.is_empty());
        let (_, shown) = picture.unwrap_or_else(|| panic!("{path} has no picture"));
        let data = tempfile::tempdir().unwrap();
        let (code, printed) = run(&format!("redrive demo --for 2s{flag}"), &data);
        assert_eq!(code, Some(0), "{printed}");
        // An act stands two places behind its time; what happened has a sign between them.
        let act = |line: &String| {
            let (time, words) = line.trim_start().split_once("s  ")?;
            let is_act = time.parse::<f64>().is_ok() && words.chars().nth(1) != Some(' ');
            is_act.then(|| words.to_owned())
        };
        let told: Vec<String> = lines(&printed).iter().filter_map(act).collect();
        let shown: Vec<String> = shown.iter().filter_map(act).collect();
        assert!(shown.len() >= 2, "{path} shows too little");
        let found = told.windows(shown.len()).any(|window| window == shown);
        assert!(found, "{path} shows\n{}\nbut the demo prints\n{}", shown.join("\n"), told.join("\n"));
    }
}

/// R-P7: every configuration that a guide shows loads without a word of complaint, but for files and secrets that are not on this machine.
#[test]
fn every_configuration_in_the_guides_loads() {
    let folder = tempfile::tempdir().unwrap();
    let mut loaded = 0;
    for (path, page) in pages().iter().filter(|(path, _)| path.starts_with("docs/")) {
        for word in ["toml", "json"] {
            for block in blocks(page, word) {
                let file = folder.path().join(format!("redrive.{word}"));
                std::fs::write(&file, &block).unwrap();
                let (code, printed) =
                    run(&format!("redrive config check {} --json", file.display()), &folder);
                let told: serde_json::Value = serde_json::from_str(&printed).unwrap();
                let elsewhere = |warning: &serde_json::Value| {
                    let place = warning["path"].as_str().unwrap();
                    ["server.tls", ".secret_env", ".template"].iter().any(|end| place.ends_with(end))
                };
                let elsewhere_alone = told["warnings"].as_array().unwrap().iter().all(elsewhere);
                assert!(code == Some(0) && elsewhere_alone, "{path}:\n{block}\n{printed}");
                loaded += 1;
            }
        }
    }
    assert!(loaded >= 3, "only {loaded} configurations were found");
}

/// The example that the guide prints is the file that lies beside it.
#[test]
fn the_example_file_is_the_one_in_the_guide() {
    let file = read("docs/examples/redrive.toml");
    assert!(blocks(&read("docs/policies.md"), "toml").contains(&file), "docs/policies.md shows another file");
}
