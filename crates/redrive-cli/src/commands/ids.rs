//! The ids that a command is given: on its command line, or by stdin, one per line.
//!
//! A line is an id, a row of our own plain output that begins with one, or JSON that has one.

use std::io::{BufRead, BufReader, Read};

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
    let headings = [redrive_policy::Lang::En, redrive_policy::Lang::Ja].map(|lang| say(lang, "letter.id"));
    let mut input = BufReader::new(&mut *stage.stdin);
    for number in 1.. {
        let mut line = Vec::new();
        let read = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(Trouble::Input)?;
        if read == 0 {
            break;
        }
        let line = String::from_utf8_lossy(&line);
        let found = in_line(&line, &headings)
            .ok_or_else(|| Trouble::BadIdLine { number, line: crate::escape::beginning(line.trim(), 60) })?;
        ids.extend(found);
        if ids.len() > MOST {
            return Err(Trouble::TooManyIds { most: MOST });
        }
    }
    Ok(())
}

/// The ids in one line; nothing when it is none.
fn in_line(line: &str, headings: &[String]) -> Option<Vec<JobRef>> {
    let line = line.trim();
    if line.starts_with('{') {
        return in_json(&serde_json::from_str(line).ok()?);
    }
    match line.split_whitespace().next() {
        None => Some(Vec::new()),
        // The first row of a table names its columns.
        Some(word) if headings.iter().any(|heading| heading == word) => Some(Vec::new()),
        Some(word) => job_ref(word).ok().map(|id| vec![id]),
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
        let job = |id| vec![JobRef::Job(JobId(id))];
        for (line, expected) in [
            ("job_7", Some(job(7))),
            (" 7 \n", Some(job(7))),
            ("job_7  3m ago  network  3/3  refused", Some(job(7))),
            ("id  when  cause", Some(Vec::new())),
            ("", Some(Vec::new())),
            (r#"{"id":"job_7","queue":"mail"}"#, Some(job(7))),
            (r#"{"schema":"x","items":[{"id":"job_7"},{"id":"job_8"}]}"#, Some([job(7), job(8)].concat())),
            (
                r#"{"event_id":"EVT-20261115-110332-00002a"}"#,
                Some(vec![JobRef::Event("EVT-20261115-110332-00002a".into())]),
            ),
            (r#"{"name":"x"}"#, None),
            ("{", None),
            ("nonsense", None),
        ] {
            assert_eq!(in_line(line, &headings), expected, "{line}");
        }
    }
}
