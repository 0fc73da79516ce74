//! `classify --corpus FILE`: how often the classifier is right on labelled messages.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use redrive_policy::{Cause, Classifier};
use serde::Deserialize;

use super::classify_jsonl::{BadLine, Line, without_lone_surrogates};
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::accuracy::{AccuracyView, Judged};
use crate::{Exit, Stage};

/// What is known to be true about one message.
#[derive(Debug, Deserialize)]
struct Label {
    #[serde(default)]
    id: String,
    cause: Cause,
    retry: bool,
    #[serde(default)]
    tricky: bool,
}

pub(super) fn run(files: &[PathBuf], stage: &mut Stage<'_>) -> Result<(AccuracyView, Exit), Trouble> {
    let config = stage.settings.config()?;
    let classifier = config.classifier();
    let mut judged = Vec::new();
    let mut bad = 0usize;
    for file in files {
        bad += judge_file(file, &classifier, &mut judged, stage)?;
    }
    if judged.is_empty() {
        return Err(Trouble::EmptyCorpus);
    }
    if bad > 0 {
        stage.talk.hint(&say(stage.settings.lang, "trouble.hint.empty-corpus"));
    }
    let exit = if bad == 0 { Exit::Done } else { Exit::Partly };
    Ok((AccuracyView::new(judged, bad), exit))
}

/// Judges every line of a file; gives the number of lines that are no labelled message.
fn judge_file(
    path: &Path,
    classifier: &Classifier,
    judged: &mut Vec<Judged>,
    stage: &mut Stage<'_>,
) -> Result<usize, Trouble> {
    let unreadable = |source| Trouble::Unreadable { path: path.to_owned(), source };
    let mut reader = BufReader::new(File::open(stage.cwd.join(path)).map_err(unreadable)?);
    let (mut bad, mut number) = (0, 0u64);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(unreadable)? == 0 {
            return Ok(bad);
        }
        number += 1;
        let line = String::from_utf8_lossy(&bytes);
        if line.trim().is_empty() {
            continue;
        }
        match judge(line.trim(), classifier) {
            Ok(entry) => judged.push(entry),
            Err(error) => {
                bad += 1;
                let place = format!("{}:{number}", path.display());
                let lang = stage.settings.lang;
                let error = error.describe(lang);
                let message = text(lang, "corpus.bad-line", &[("place", &place), ("error", &error)]);
                stage.talk.error(&message);
            }
        }
    }
}

fn judge(line: &str, classifier: &Classifier) -> Result<Judged, BadLine> {
    let repaired;
    let line = match (Line::parse(line), without_lone_surrogates(line)) {
        (Err(_), Some(text)) => {
            repaired = text;
            Line::parse(&repaired).map(|parsed| (&*repaired, parsed))
        }
        (parsed, _) => parsed.map(|parsed| (line, parsed)),
    };
    let (line, parsed) = line?;
    let label: Label = serde_json::from_str(line).map_err(|_| BadLine::NoLabel)?;
    let report = parsed.report();
    let failure = classifier.classify(&report);
    Ok(Judged {
        held_out: is_held_out(&label.id),
        id: label.id,
        tricky: label.tricky,
        cause: (label.cause, failure.cause),
        retry: (label.retry, failure.is_retryable()),
        rule: failure.rule.to_string(),
        text: report.words.render().into_owned(),
    })
}

/// A third of the entries, picked by their ids alone, is never looked at while rules are written: those whose
/// hex digits sum to a multiple of three. The letter that every id begins with is no digit.
fn is_held_out(id: &str) -> bool {
    id.chars().skip(1).filter_map(|c| c.to_digit(16)).sum::<u32>().is_multiple_of(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_held_out_third_is_known_by_its_digits() {
        assert!(is_held_out("e3") && is_held_out("zz") && is_held_out("x12") && is_held_out("ec"));
        assert!(!is_held_out("e1") && !is_held_out("e2"));
    }
}
