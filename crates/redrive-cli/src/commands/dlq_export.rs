//! `dlq export [FILE]`: dead letters as JSON Lines or CSV, the oldest first. Few are held at once, however many there are.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;

use redrive::engine::{Engine, EngineError, LetterLine};
use redrive_store::LetterFilter;

use super::opened::{self, Opened};
use crate::args::DlqExportArgs;
use crate::escape::escape;
use crate::render::json;
use crate::text::text;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// The columns of a table.
const COLUMNS: [&str; 18] = [
    "id",
    "timestamp",
    "queue",
    "kind",
    "cause",
    "class",
    "reason",
    "error_type",
    "error_message",
    "retry_count",
    "max_retries",
    "redrives",
    "retryable",
    "fingerprint",
    "caller_id",
    "policy",
    "enqueued_at",
    "payload",
];

pub(super) fn run(args: &DlqExportArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    let which = match (&args.group, &args.filter) {
        (Some(group), _) => {
            let fingerprint = Some(opened.group(group, &engine)?.fingerprint);
            LetterFilter { fingerprint, ..LetterFilter::default() }
        }
        (None, Some(filter)) => filter.letters(opened.now),
        (None, None) => LetterFilter::default(),
    };
    let Some(file) = args.file.as_ref().filter(|file| file.as_os_str() != "-") else {
        write(&opened, &engine, which, args, &mut *stage.stdout, &Trouble::Output)?;
        return Ok(Exit::Done);
    };
    let unwritable = |source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => Trouble::Exists { path: file.clone() },
        _ => Trouble::Unwritable { path: file.clone(), source },
    };
    // Nothing that is there is overwritten; payloads are nobody else's business.
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(stage.cwd.join(file));
    let mut out = BufWriter::new(new.map_err(unwritable)?);
    let written = write(&opened, &engine, which, args, &mut out, &unwritable)?;
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)
        .and_then(|new| new.sync_all())
        .map_err(unwritable)?;
    let values: [(&str, &dyn std::fmt::Display); 2] = [("n", &written), ("file", &file.display())];
    stage.talk.note(&text(stage.settings.lang, "store.letters-exported", &values));
    Ok(Exit::Done)
}

fn write(
    opened: &Opened,
    engine: &Engine,
    which: LetterFilter,
    args: &DlqExportArgs,
    out: &mut dyn Write,
    trouble: &dyn Fn(io::Error) -> Trouble,
) -> Result<u64, Trouble> {
    if args.csv {
        let columns = COLUMNS.map(str::to_owned);
        let columns = if args.with_payload { &columns[..] } else { &columns[..columns.len() - 1] };
        row(columns, out).map_err(trouble)?;
    }
    let written = opened.runtime.block_on(engine.each_letter(which, args.with_payload, |line| {
        if args.csv {
            return row(&cells(&line), out);
        }
        json::write(&line, out, false)?;
        out.write_all(b"\n")
    }));
    // Reading letters does no input and output of our own: what failed was the writing.
    let written = written.map_err(|error| match error {
        EngineError::Io(error) => trouble(error),
        other => other.into(),
    })?;
    out.flush().map_err(trouble)?;
    Ok(written)
}

fn cells(line: &LetterLine) -> Vec<String> {
    let mut cells = vec![
        line.id.to_string(),
        line.timestamp.to_string(),
        line.queue.clone(),
        line.kind.clone(),
        line.cause.name().to_owned(),
        line.cause.class().name().to_owned(),
        line.reason.name().to_owned(),
        line.error_type.clone(),
        line.error_message.clone(),
        line.retry_count.to_string(),
        line.max_retries.to_string(),
        line.redrives.to_string(),
        line.retryable.to_string(),
        line.fingerprint.clone(),
        line.caller_id.clone().unwrap_or_default(),
        line.policy.clone().unwrap_or_default(),
        line.enqueued_at.to_string(),
    ];
    cells.extend(line.work.as_ref().map(|work| {
        let bytes = work.payload_text.clone().or_else(|| work.payload_base64.clone());
        bytes.unwrap_or_else(|| work.original_payload.to_string())
    }));
    cells
}

fn row(cells: &[String], out: &mut dyn Write) -> io::Result<()> {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    writeln!(out, "{}", cells.join(","))
}

/// A cell that no spreadsheet takes for a formula, and that stays on its line.
fn cell(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
    let text = escape(text);
    let text = if is_formula { format!("'{text}") } else { text.into_owned() };
    if text.contains(['"', ',', '\n', '\r', '\'']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2, reliability row 70: what others wrote never becomes a formula, nor a second row, nor a control code.
    #[test]
    fn a_cell_is_a_text_and_nothing_else() {
        for (text, written) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'=1\""),
            ("\r=1", "\"'=1\""),
            ("＝1", "\"'＝1\""),
            ("one\ntwo", "one two"),
            ("\x1b[31m", "\\x1b[31m"),
            ("", ""),
        ] {
            assert_eq!(cell(text), written, "{text:?}");
        }
    }
}
