//! `classify --jsonl`: a stream of failures in, a stream of answers out, line for line.
//!
//! One reader, one writer, and buffers that are reused: nothing is allocated per line. Every line gets exactly
//! one answer, so that the two streams can be laid side by side: one that cannot be read, a blank one too, is
//! answered in its place by `{"error":…,"line":N}`, and the run ends with exit code 4.

mod line;

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use redrive_policy::{Classifier, Failure, Lang};

use crate::render::json;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::{Exit, Stage};
pub(super) use line::{BadLine, Line, without_lone_surrogates};

/// A line longer than this is an error, not a reason to run out of memory.
const MAX_LINE: u64 = 64 * 1024 * 1024;
const BUFFER: usize = 256 * 1024;

pub(super) fn run(stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let classifier = config.classifier();
    let mut reader = BufReader::with_capacity(BUFFER, &mut *stage.stdin);
    let mut writer = BufWriter::with_capacity(BUFFER, &mut *stage.stdout);
    let bad = answer_all(&classifier, &mut reader, &mut writer, stage.settings.lang)?;
    writer.flush().map_err(Trouble::Output)?;
    drop(writer);
    if bad == 0 {
        return Ok(Exit::Done);
    }
    let message = text(stage.settings.lang, "jsonl.bad-lines", &[("n", &bad)]);
    stage.talk.error(&message);
    stage.talk.hint(&say(stage.settings.lang, "jsonl.hint"));
    Ok(Exit::Partly)
}

/// Answers every line; gives the number of lines that could not be read.
fn answer_all<R: Read, W: Write>(
    classifier: &Classifier,
    reader: &mut BufReader<R>,
    writer: &mut BufWriter<W>,
    lang: Lang,
) -> Result<u64, Trouble> {
    let mut line = Vec::new();
    let (mut number, mut bad) = (0u64, 0u64);
    loop {
        // Whoever waits for an answer before sending more gets it: flush before the read would block.
        if reader.buffer().is_empty() {
            writer.flush().map_err(Trouble::Output)?;
        }
        line.clear();
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(Trouble::Input)?;
        if read == 0 {
            return Ok(bad);
        }
        number += 1;
        let cut_off = line.last() != Some(&b'\n') && u64::try_from(read).is_ok_and(|read| read == MAX_LINE);
        if cut_off {
            skip_line(reader).map_err(Trouble::Input)?;
        }
        // Valid UTF-8 is checked faster than it is repaired.
        let text = match std::str::from_utf8(&line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(&line),
        };
        let text = text.trim_ascii().trim_start_matches('\u{feff}').trim_ascii_start();
        let repaired;
        let parsed = match Line::parse(text) {
            _ if cut_off => Err(BadLine::TooLong),
            Err(_) if text.is_empty() => Err(BadLine::Blank),
            Err(error) => match without_lone_surrogates(text) {
                Some(text) => {
                    repaired = text;
                    Line::parse(&repaired)
                }
                None => Err(error),
            },
            good => good,
        };
        match parsed {
            Ok(parsed) => write_answer(&classifier.classify(&parsed.report()), writer),
            Err(error) => {
                bad += 1;
                write_error(&error.describe(lang), number, writer)
            }
        }
        .map_err(Trouble::Output)?;
    }
}

/// Reads on to the end of the line without keeping it.
fn skip_line(reader: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let (used, done) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        reader.consume(used);
        if done {
            return Ok(());
        }
    }
}

/// All values are names without anything to escape, except the id of a user's rule.
fn write_answer(failure: &Failure, out: &mut impl Write) -> io::Result<()> {
    let cause = failure.cause;
    for part in [
        r#"{"cause":""#,
        cause.name(),
        r#"","retry":"#,
        if failure.is_retryable() { "true" } else { "false" },
        r#","failure_type":""#,
        cause.failure_type().name(),
        r#"","error_category":""#,
        cause.error_category().name(),
        r#"","class":""#,
        cause.class().name(),
        r#"","rule":"#,
    ] {
        out.write_all(part.as_bytes())?;
    }
    let rule = failure.rule.as_str();
    if rule.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')) {
        out.write_all(b"\"")?;
        out.write_all(rule.as_bytes())?;
        out.write_all(b"\"")?;
    } else {
        json::write(rule, out, false)?;
    }
    out.write_all(b"}\n")
}

fn write_error(error: &str, line: u64, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(br#"{"error":"#)?;
    json::write(error, out, false)?;
    writeln!(out, r#","line":{line}}}"#)
}
