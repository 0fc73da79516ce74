//! The classifier's promise on a corpus of labelled messages (R-P3), which is not part of this repository.
//!
//! `REDRIVE_CORPUS` names the file, or it lies where `./test.sh` looks for it. Without one the figures cannot be
//! measured, and the test says so.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn corpus() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/errors-dev.jsonl");
    let file = std::env::var_os("REDRIVE_CORPUS").map_or_else(beside, PathBuf::from);
    file.is_file().then_some(file)
}

fn classify(corpus: &Path, form: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    command.env_clear().current_dir("/").args(["classify", form, "--corpus"]).arg(corpus);
    command.output().expect("the binary runs")
}

/// R-P3: retry right for 97 % and cause right for 92 %, and of what must not be retried at most 2 % is.
#[test]
fn the_classifier_keeps_its_promise_on_the_corpus() {
    let Some(corpus) = corpus() else {
        println!("SKIPPED: no corpus here; name one with REDRIVE_CORPUS");
        return;
    };
    let table = classify(&corpus, "--plain");
    println!("{}", String::from_utf8_lossy(&table.stdout));

    let measured = classify(&corpus, "--json");
    assert_eq!(measured.status.code(), Some(0), "{}", String::from_utf8_lossy(&measured.stderr));
    let figures: Value = serde_json::from_slice(&measured.stdout).expect("one JSON document");
    let percent = |name: &str| figures["all"][name].as_f64().expect("a number");
    assert!(percent("retry_right_percent") >= 97.0, "{figures:#}");
    assert!(percent("cause_right_percent") >= 92.0, "{figures:#}");
    assert!(percent("wrongly_retried_percent") <= 2.0, "{figures:#}");
}
