//! `classify [TEXT]`: what is this failure, and why?
//!
//! The text is the argument, or stdin when there is none (or `-`). Bytes that are not UTF-8 are read lossily.

use std::borrow::Cow;
use std::io::{self, Read};

use redrive_policy::{History, Report, Rng, decide};

use super::retry_after;
use crate::Stage;
use crate::args::ClassifyArgs;
use crate::text::say;
use crate::trouble::Trouble;
use crate::view::classification::ClassificationView;

/// More input than this is not held at once; its beginning and its end are, and only they are looked at.
const MAX_HELD: usize = 64 * 1024 * 1024;
const KEPT_AT_EACH_END: usize = 1024 * 1024;

pub(super) fn run(args: &ClassifyArgs, stage: &mut Stage<'_>) -> Result<ClassificationView, Trouble> {
    let config = stage.settings.config()?;
    let policy = stage.settings.policy(&config, args.policy.as_deref())?;
    let wait = retry_after(args.evidence.retry_after.as_deref(), stage);
    let words = words(args, stage)?;
    let mut report = Report::text(words);
    report.http_status = args.evidence.http_status;
    report.exit_code = args.evidence.exit_code;
    report.code = args.evidence.code.as_deref().map(Into::into);
    report.retry_after = wait;
    let found = config.classifier().explain(&report);
    let mut rng = Rng::seeded(args.seed.unwrap_or_else(|| stage.entropy()));
    let decision = decide(&policy, &found.failure, &History::default(), &mut rng);
    Ok(ClassificationView::new(&found, &decision, stage.settings.lang))
}

fn words<'a>(args: &'a ClassifyArgs, stage: &mut Stage<'_>) -> Result<Cow<'a, str>, Trouble> {
    match args.text.as_slice() {
        [one] if one != "-" => Ok(one.to_string_lossy()),
        [_] => read_stdin(stage).map(Cow::Owned),
        // A person who gave a status and types nothing has said all there is.
        [] if stage.stdin_is_terminal && !args.evidence.is_empty() => Ok(Cow::Borrowed("")),
        [] => {
            if stage.stdin_is_terminal {
                let note = say(stage.settings.lang, "note.reading-stdin");
                stage.talk.note(&note);
            }
            read_stdin(stage).map(Cow::Owned)
        }
        // Words that were not quoted are one message all the same.
        many => Ok(Cow::Owned(many.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))),
    }
}

fn read_stdin(stage: &mut Stage<'_>) -> Result<String, Trouble> {
    let bytes = read_both_ends(stage.stdin).map_err(Trouble::Input)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Everything, or the two ends of what is more than [`MAX_HELD`].
fn read_both_ends(input: &mut dyn Read) -> io::Result<Vec<u8>> {
    let mut held = Vec::new();
    loop {
        let room = u64::try_from(MAX_HELD - held.len().min(MAX_HELD)).unwrap_or(u64::MAX).max(1);
        if (&mut *input).take(room).read_to_end(&mut held)? == 0 {
            return Ok(held);
        }
        if held.len() >= MAX_HELD {
            held.drain(KEPT_AT_EACH_END..held.len() - KEPT_AT_EACH_END);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bad input: any amount of text is held in bounded space.
    #[test]
    fn of_endless_input_both_ends_are_kept() {
        let mut input = b"first".chain(io::repeat(b'.').take(70 * 1024 * 1024)).chain(&b"last"[..]);
        let held = read_both_ends(&mut input).unwrap();
        assert!(held.starts_with(b"first") && held.ends_with(b"last"));
        assert!(held.len() < MAX_HELD);
    }
}
