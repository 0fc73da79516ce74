//! `review FILE…`: is it whole, is it finished, does it claim only what is there?
//!
//! Exit 0 when all of it passes, 1 when something is rejected. `-` is stdin. A file of code is judged as one; anything else is
//! read as what somebody said, with fenced blocks in it, and its claims are looked up from where we stand.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use redrive::Surroundings;
use redrive::review::{REVIEW_BOUND, ReviewTrouble, Reviewed, review_output, run_checks};
use redrive_policy::review::{CheckRun, Judgment, ReviewPlan};
use tokio::runtime::Builder;

use super::signals::Signals;
use crate::args::ReviewArgs;
use crate::settings::Form;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::review::{ReviewItem, ReviewView};
use crate::{Exit, Stage, render};

/// The name of stdin.
const STDIN: &str = "-";

pub(super) fn run(args: ReviewArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let plan = args.wish.over(stage.settings.config()?.review);
    plan.reviewer().map_err(|error| bad_pattern(&error, stage))?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("redrive")
        .enable_all()
        .build()
        .map_err(Trouble::NoRuntime)?;
    let mut items = Vec::new();
    for file in &args.files {
        let (content, total_bytes) = read(file, stage)?;
        let name = file.display().to_string();
        let reviewed = Reviewed {
            output: &content,
            total_bytes,
            name: Some(name.as_str()).filter(|name| *name != STDIN),
            cwd: &stage.cwd,
            changed_files: None,
        };
        // Commands judge what all files have become together, so they come last.
        let words = ReviewPlan { test: None, lint: None, types: None, ..plan.clone() };
        let mut judgment = runtime
            .block_on(review_output(&words, reviewed, &Surroundings::new("", 1)))
            .map_err(no_judgment)?;
        if !items.is_empty() {
            // What is expected is missing once, however many files are looked at.
            judgment
                .findings
                .retain(|finding| finding.file.as_ref().is_none_or(|file| !plan.files.contains(file)));
        }
        items.push(ReviewItem::new(name, judgment, stage.settings.lang));
    }
    let passed = items.iter().all(|item| item.passed);
    let mut checks = Vec::new();
    if passed {
        match checked(&plan, &runtime, stage)? {
            Some(runs) => checks = runs,
            None => return Ok(Exit::Interrupted),
        }
    }
    let failed = checks.iter().any(|run| !run.ok);
    if failed {
        items.push(ReviewItem::of_checks(Judgment::of_checks(&checks), stage.settings.lang));
    }
    let exit = if passed && !failed { Exit::Done } else { Exit::Failed };
    if args.hint && stage.settings.form != Form::Json {
        for hint in items.iter().filter_map(|item| item.hint.as_deref()) {
            writeln!(stage.stdout, "{hint}").map_err(Trouble::Output)?;
        }
        return Ok(exit);
    }
    render::show(&ReviewView::new(items, args.hint), stage)?;
    Ok(exit)
}

/// What the commands say; nothing when a person stopped them.
fn checked(
    plan: &ReviewPlan,
    runtime: &tokio::runtime::Runtime,
    stage: &Stage<'_>,
) -> Result<Option<Vec<CheckRun>>, Trouble> {
    if plan.test.is_none() && plan.lint.is_none() && plan.types.is_none() {
        return Ok(Some(Vec::new()));
    }
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
        let around = Surroundings::new("", 1);
        tokio::select! {
            // Dropping the run ends the command with everybody it started.
            _ = signals.next() => Ok(None),
            runs = run_checks(plan, &stage.cwd, &around) => {
                runs.map(Some).map_err(no_judgment)
            }
        }
    })
}

/// The beginning of a file, or of stdin, and how much there is of it.
fn read(file: &Path, stage: &mut Stage<'_>) -> Result<(Vec<u8>, u64), Trouble> {
    let read = |input: &mut dyn Read| -> io::Result<(Vec<u8>, u64)> {
        let mut content = Vec::new();
        let bound = u64::try_from(REVIEW_BOUND).unwrap_or(u64::MAX);
        input.take(bound).read_to_end(&mut content)?;
        let total = content.len() as u64;
        // One byte more tells that it is longer; how much longer does not matter.
        let more = if total == bound { input.take(1).read(&mut [0])? as u64 } else { 0 };
        Ok((content, total + more))
    };
    if file == Path::new(STDIN) {
        return read(stage.stdin).map_err(Trouble::Input);
    }
    let path = stage.cwd.join(file);
    let opened = File::open(&path).and_then(|mut opened| read(&mut opened));
    opened.map_err(|source| Trouble::Unreadable { path: file.to_owned(), source })
}

fn bad_pattern(error: &redrive_policy::review::ReviewError, stage: &Stage<'_>) -> Trouble {
    let why = error.source.to_string();
    let why = why.lines().next_back().unwrap_or_default().trim_start_matches("error: ");
    let message = text(
        stage.settings.lang,
        "review.bad-pattern",
        &[("field", &error.field), ("pattern", &error.pattern), ("why", &why)],
    );
    Trouble::Usage { message, hint: None }
}

/// A review that came to no judgment. A directory that is gone is one that cannot be read, like any other.
fn no_judgment(trouble: ReviewTrouble) -> Trouble {
    match trouble {
        ReviewTrouble::Directory { path, source } => Trouble::Unreadable { path, source },
        other => Trouble::Review(Box::new(other)),
    }
}
