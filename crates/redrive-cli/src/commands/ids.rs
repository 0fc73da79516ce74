//! The ids that a command is given: on its command line, or by stdin, one per line.
//!
//! A line is an id, a row of our own plain output that begins with one, or JSON that has one.

use std::io::{BufRead, BufReader, Read};

use redrive_policy::Lang;
use serde_json::Value;

use crate::Stage;
use crate::args::{IdArg, JobRef, job_ref};
use crate::text::say;
use crate::trouble::Trouble;

/// The most ids that are read, and the longest line. A JSON document with all its letters is one line.
const MOST: usize = 100_000;
const LONGEST_LINE: u64 = 64 * 1024 * 1024;

/// Every id that is meant, in order.
pub(super) fn given(args: &[IdArg], stage: &mut Stage<'_>) -> Result<Vec<JobRef>, Trouble> {
    let mut ids = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            IdArg::One(id) => ids.push(id.clone()),
            IdArg::Stdin => from_stdin(stage, &mut ids)?,
        }
    }
    if ids.is_empty() { Err(Trouble::NoIds) } else { Ok(ids) }
}

fn from_stdin(stage: &mut Stage<'_>, ids: &mut Vec<JobRef>) -> Result<(), Trouble> {
    let headings = Lang::ALL.map(|lang| say(lang, "letter.id"));
    let mut in_table = false;
    let mut input = BufReader::new(&mut *stage.stdin);
    for number in 1.. {
        let mut line = Vec::new();
        let read = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(Trouble::Input)?;
        if read == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        match in_line(&line, &headings) {
            Line::Ids(found) => ids.extend(found),
            Line::Heading => in_table = true,
            // Below a table stands what to type next.
            Line::Other if in_table => {}
            Line::Other => {
                let line = crate::escape::beginning(line.trim(), 60);
                return Err(Trouble::BadIdLine { number, line });
            }
        }
        if ids.len() > MOST {
            return Err(Trouble::TooManyIds { most: MOST });
        }
    }
    Ok(())
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Ids(Vec<JobRef>),
    /// The first row of a table of ours.
    Heading,
    Other,
}

fn in_line(line: &str, headings: &[String]) -> Line {
    let line = line.trim();
    if line.starts_with('{') {
        let ids = serde_json::from_str(line).ok().and_then(|value| in_json(&value));
        return ids.map_or(Line::Other, Line::Ids);
    }
    match line.split_whitespace().next() {
        None => Line::Ids(Vec::new()),
        Some(word) if headings.iter().any(|heading| heading == word) => Line::Heading,
        // A bare number is an id only where it stands alone: "5 shown" is no job_5.
        Some(word) if word != line && !word.starts_with("job_") && !word.starts_with("EVT-") => Line::Other,
        Some(word) => job_ref(word).map_or(Line::Other, |id| Line::Ids(vec![id])),
    }
}

/// The id of a thing, or of all the things in a list of ours.
fn in_json(value: &Value) -> Option<Vec<JobRef>> {
    if let Some(items) = value.get("items").and_then(Value::as_array) {
        return items.iter().map(in_json).collect::<Option<Vec<_>>>().map(|ids| ids.concat());
    }
    let named = |name: &str| value.get(name).and_then(Value::as_str);
    let id = named("id").or_else(|| named("job_id")).or_else(|| named("event_id"))?;
    job_ref(id).ok().map(|id| vec![id])
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_store::JobId;

    /// R-C1: what our own commands write can be piped into those that take ids.
    #[test]
    fn lines_rows_and_json_name_their_ids() {
        let headings = ["id".to_owned()];
        let jobs = |ids: &[i64]| Line::Ids(ids.iter().map(|id| JobRef::Job(JobId(*id))).collect());
        let event = "EVT-20261115-110332-00002a";
        for (line, expected) in [
            ("job_7", jobs(&[7])),
            (" 7 \n", jobs(&[7])),
            ("job_7  3m ago  network  3/3  refused", jobs(&[7])),
            ("id  when  cause", Line::Heading),
            ("", jobs(&[])),
            (r#"{"id":"job_7","queue":"mail"}"#, jobs(&[7])),
            (r#"{"schema":"x","items":[{"id":"job_7"},{"id":"job_8"}]}"#, jobs(&[7, 8])),
            (&format!("{{\"event_id\":\"{event}\"}}"), Line::Ids(vec![JobRef::Event(event.into())])),
            (r#"{"name":"x"}"#, Line::Other),
            ("{", Line::Other),
            ("nonsense", Line::Other),
            ("5 shown; there are more.", Line::Other),
            ("7  3m ago  network", Line::Other),
        ] {
            assert_eq!(in_line(line, &headings), expected, "{line}");
        }
    }
}
