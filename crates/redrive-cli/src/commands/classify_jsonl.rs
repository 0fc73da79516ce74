//! `classify --jsonl`: a stream of failures in, a stream of answers out, line for line.
//!
//! One reader, one writer, and buffers that are reused: nothing is allocated per line. A line that cannot be
//! read is answered in its place by `{"error":…,"line":N}`, and the run ends with exit code 4.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

use redrive_policy::{Classifier, Failure, Report};
use serde::Deserialize;

use crate::render::json;
use crate::text::text;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// A line longer than this is an error, not a reason to run out of memory.
const MAX_LINE: u64 = 64 * 1024 * 1024;
const BUFFER: usize = 256 * 1024;

/// One line of input. Fields that are not named here are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Line<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) http_status: Option<i64>,
    #[serde(default)]
    pub(super) exit_code: Option<i64>,
    #[serde(borrow, default)]
    pub(super) code: Option<Cow<'a, str>>,
}

impl<'a> Line<'a> {
    /// Reads one line; an error says in what way it is wrong.
    pub(super) fn parse(line: &'a str) -> Result<Line<'a>, String> {
        if !line.starts_with('{') {
            return Err("a JSON object is expected".to_owned());
        }
        serde_json::from_str(line).map_err(|error| error.to_string())
    }

    /// The report it stands for. A number that can be no status says nothing.
    pub(super) fn report(self) -> Report<'a> {
        let mut report = self.text.map(Report::text).unwrap_or_default();
        report.http_status = self.http_status.and_then(|status| u16::try_from(status).ok());
        report.exit_code = self.exit_code.and_then(|code| {
            // Windows reports codes such as 3221225477 as unsigned; they are the same 32 bits.
            i32::try_from(code).ok().or_else(|| u32::try_from(code).ok().map(u32::cast_signed))
        });
        report.code = self.code;
        report
    }
}

pub(super) fn run(stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let classifier = config.classifier();
    let mut reader = BufReader::with_capacity(BUFFER, &mut *stage.stdin);
    let mut writer = BufWriter::with_capacity(BUFFER, &mut *stage.stdout);
    let bad = answer_all(&classifier, &mut reader, &mut writer)?;
    writer.flush().map_err(Trouble::Output)?;
    drop(writer);
    if bad == 0 {
        return Ok(Exit::Done);
    }
    let message = text(stage.settings.lang, "jsonl.bad-lines", &[("n", &bad)]);
    stage.talk.error(&message);
    Ok(Exit::Partly)
}

/// Answers every line; gives the number of lines that could not be read.
fn answer_all<R: Read, W: Write>(
    classifier: &Classifier,
    reader: &mut BufReader<R>,
    writer: &mut BufWriter<W>,
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
        let text = text.trim_ascii().trim_start_matches('\u{feff}');
        if text.is_empty() {
            continue;
        }
        let parsed = if cut_off { Err(format!("longer than {MAX_LINE} bytes")) } else { Line::parse(text) };
        match parsed {
            Ok(parsed) => write_answer(&classifier.classify(&parsed.report()), writer),
            Err(error) => {
                bad += 1;
                write_error(&error, number, writer)
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
