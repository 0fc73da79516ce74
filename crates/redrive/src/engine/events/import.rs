//! JSON Lines into the stream (R-E4): both shapes that 000 and 003 wrote, their dead letters included, mixed in one file.
//!
//! Field names of both are understood. What cannot be read is counted and kept aside, line by line, never lost and never
//! in the way of the rest; what is not known of an event is kept in its data. A file is read in bounded pieces.

use std::io::{BufRead, Read};
use std::time::Duration;

use redrive_policy::ErrorCategory;
use redrive_store::{
    ErrorInfo, EventStatus, ImportedEvent, NewEvent, RecoveryAction, RetryInfo, Scrap, Timestamp,
};
use serde_json::{Map, Value, json};

use crate::engine::{Engine, EngineError};
use crate::secrets::redact;

/// How many lines are written in one go.
const LINES: usize = 500;
/// How many bytes of lines are written in one go.
const BYTES: usize = 1 << 20;
/// The longest line that is read; of a longer one the beginning is kept aside.
const LONGEST: u64 = 4 << 20;

/// Why a line beyond that is not read.
pub(in crate::engine) const TOO_LONG: &str = "the line is too long";
/// What some programs begin a file with.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How an import reads.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// What the file is called, for the lines that are kept aside.
    pub origin: String,
    /// Of a time without an offset: how many minutes it is ahead of UTC.
    pub offset_minutes: i32,
    /// Whether it comes in through the API: jobs of letters may then do no more than others that came that way, whatever a
    /// line says.
    pub from_api: bool,
}

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Imported {
    /// Lines that had something in them.
    pub lines: u64,
    /// Events that were added.
    pub added: u64,
    /// Events that were there already.
    pub known: u64,
    /// Lines that could not be read and were kept aside.
    pub bad: u64,
}

impl Engine {
    /// Reads events, one per line. What was imported before is not added again.
    pub async fn import_events(
        &self,
        from: &mut (dyn BufRead + Send),
        options: &ImportOptions,
    ) -> Result<Imported, EngineError> {
        let mut imported = Imported::default();
        let (mut events, mut scraps, mut bytes, mut number) = (Vec::new(), Vec::new(), 0, 0);
        loop {
            number += 1;
            let line = next_line(from, number)?;
            let over = line.is_none();
            if let Some(Line { bytes: line, whole }) = line {
                bytes += line.len();
                if !line.trim_ascii().is_empty() {
                    imported.lines += 1;
                    let event = if whole { read_line(&line, options) } else { Err(TOO_LONG.to_owned()) };
                    match event {
                        Ok(event) => events.push(event),
                        Err(why) => {
                            imported.bad += 1;
                            scraps.push(scrap(&options.origin, number, &why, Line { bytes: line, whole }));
                        }
                    }
                }
            }
            if over || events.len() + scraps.len() >= LINES || bytes >= BYTES {
                let count = events.len() as u64;
                let (batch, aside) = (std::mem::take(&mut events), std::mem::take(&mut scraps));
                if count > 0 || !aside.is_empty() {
                    let added = self.store().import(self.now(), batch, aside).await?;
                    imported.added += added;
                    imported.known += count.saturating_sub(added);
                }
                bytes = 0;
            }
            if over {
                return Ok(imported);
            }
        }
    }
}

/// One line of a file.
pub(in crate::engine) struct Line {
    pub(in crate::engine) bytes: Vec<u8>,
    /// Whether this is all of it, or only the beginning of one that is too long.
    pub(in crate::engine) whole: bool,
}

/// The next line, which has this number; nothing at the end.
pub(in crate::engine) fn next_line(
    from: &mut (dyn BufRead + Send),
    number: u64,
) -> Result<Option<Line>, EngineError> {
    let mut bytes = Vec::new();
    let read = from.take(LONGEST).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    let whole = bytes.ends_with(b"\n") || (read as u64) < LONGEST;
    if !whole {
        skip_line(from)?;
    }
    if number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(Some(Line { bytes, whole }))
}

/// A line that could not be read, as it came, to be mended. What is said about it is redacted.
pub(in crate::engine) fn scrap(origin: &str, number: u64, why: &str, line: Line) -> Scrap {
    let mut text = line.bytes;
    text.truncate(if line.whole { text.trim_ascii_end().len() } else { BYTES });
    Scrap { origin: origin.to_owned(), line: number, why: redact(why), text }
}

/// Reads on to the end of the line, keeping nothing.
fn skip_line(from: &mut (dyn BufRead + Send)) -> Result<(), EngineError> {
    loop {
        let buffer = from.fill_buf()?;
        let (used, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(place) => (place + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        from.consume(used);
        if ended {
            return Ok(());
        }
    }
}

/// The event of one line, or why it is none.
pub(in crate::engine) fn read_line(line: &[u8], options: &ImportOptions) -> Result<ImportedEvent, String> {
    let json: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Value::Object(fields) = json else { return Err("the line is no object".to_owned()) };
    let mut fields = Fields { left: fields, offset_minutes: options.offset_minutes };
    let event_id = fields.text("event_id")?.ok_or("event_id is missing")?;
    let at = fields.time("timestamp")?.ok_or("timestamp is missing")?;
    let is_letter = !fields.left.contains_key("event_type") && fields.left.contains_key("error_type");
    let mut event = if is_letter { letter(&mut fields)? } else { plain(&mut fields)? };
    let parent_event_id = fields.text("parent_event_id")?;
    event.related_hypothesis_id = fields.text("related_hypothesis_id")?;
    event.caller_id = fields.text("caller_id")?;
    event.tags = fields.texts("tags")?;
    event.latency =
        fields.number("latency_ms")?.map(|millis| Duration::from_secs_f64(millis.clamp(0.0, 1e13) / 1e3));
    event.exit_code = fields.whole("exit_code")?;
    event.importance = fields.whole::<u8>("importance")?.map(|importance| importance.clamp(1, 5));
    keep_rest(&mut event.data, fields.left);
    super::redact_event(&mut event);
    let imported = ImportedEvent { event, event_id, parent_event_id, at };
    imported.validate().map_err(|error| error.to_string())?;
    Ok(imported)
}

/// An event of either stream.
fn plain(fields: &mut Fields) -> Result<NewEvent, String> {
    let mut event = NewEvent {
        event_type: fields.text("event_type")?.ok_or("event_type is missing")?,
        source: fields.text("source")?.unwrap_or_else(|| "unknown".to_owned()),
        data: fields.left.remove("data").unwrap_or(Value::Null),
        ..NewEvent::default()
    };
    if let Some(status) = fields.text("status")? {
        let known = EventStatus::from_name(&status);
        event.status = Some(known.ok_or_else(|| format!("there is no status {status:?}"))?);
    }
    let error = fields.table("error_info")?;
    event.error_info = error.map(error_info).transpose()?;
    let retryable = event.error_info.as_ref().is_some_and(may_heal);
    let retry = fields.table("retry_info")?;
    event.retry_info = retry.map(|retry| retry_info(retry, retryable)).transpose()?;
    for action in fields.list("recovery_actions")? {
        let Value::Object(action) = action else { return Err("a recovery action is no object".to_owned()) };
        let mut action = Fields { left: action, offset_minutes: fields.offset_minutes };
        event.recovery_actions.push(RecoveryAction {
            timestamp: action.time("timestamp")?.ok_or("a recovery action has no timestamp")?,
            action: action.text("action")?.unwrap_or_default(),
            more: action.left,
        });
    }
    Ok(event)
}

/// An entry of 000's dead letter file, which is flat.
fn letter(fields: &mut Fields) -> Result<NewEvent, String> {
    let offset_minutes = fields.offset_minutes;
    let mut error = Fields { left: Map::new(), offset_minutes };
    let mut retry = Fields { left: Map::new(), offset_minutes };
    for name in ["error_type", "error_message", "error_category", "stack_trace"] {
        error.left.extend(fields.left.remove_entry(name));
    }
    for name in ["retry_count", "max_retries", "retryable"] {
        retry.left.extend(fields.left.remove_entry(name));
    }
    let error = error_info(error)?;
    let retryable = may_heal(&error);
    let context = fields.left.remove("context").unwrap_or(Value::Null);
    let action =
        context.get("action").and_then(Value::as_str).filter(|action| may_name(action)).map(str::to_owned);
    let source = fields.text("source")?.or(action).unwrap_or_else(|| "unknown".to_owned());
    Ok(NewEvent {
        event_type: "dead_letter".to_owned(),
        source,
        data: json!({ "context": context }),
        status: Some(EventStatus::DeadLetter),
        error_info: Some(error),
        retry_info: Some(retry_info(retry, retryable)?),
        ..NewEvent::default()
    })
}

/// Whether a text from somewhere may be what an event names as its source.
fn may_name(text: &str) -> bool {
    (1..=redrive_store::MAX_NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// `error_type …` as 000 writes it, `type …` as 003 does.
pub(in crate::engine) fn error_info(mut fields: Fields) -> Result<ErrorInfo, String> {
    let category = fields.either("error_category", "category")?.unwrap_or_else(|| "unknown".to_owned());
    let category = category.to_ascii_lowercase();
    let error_category = match category.as_str() {
        "rate_limit" => ErrorCategory::ApiRateLimit,
        "validation" => ErrorCategory::ValidationError,
        // A class is no category; it is kept beside.
        "transient" | "permanent" => {
            fields.left.insert("class".to_owned(), json!(category));
            ErrorCategory::Unknown
        }
        name => name.parse().map_err(|_| format!("there is no error category {name:?}"))?,
    };
    Ok(ErrorInfo {
        error_type: fields.either("error_type", "type")?.unwrap_or_else(|| "Error".to_owned()),
        error_message: fields.either("error_message", "message")?.unwrap_or_default(),
        error_category,
        stack_trace: fields.either("stack_trace", "stacktrace")?,
        more: fields.left,
    })
}

/// `retry_count` as 000 writes it, `count` as 003 does.
fn retry_info(mut fields: Fields, retryable: bool) -> Result<RetryInfo, String> {
    let count = match fields.whole("retry_count")? {
        Some(count) => Some(count),
        None => fields.whole("count")?,
    };
    let retry_count = count.unwrap_or(0);
    Ok(RetryInfo {
        retry_count,
        max_retries: fields.whole("max_retries")?.unwrap_or(retry_count),
        retryable: fields.left.remove("retryable").and_then(|value| value.as_bool()).unwrap_or(retryable),
        next_retry_at: fields.time("next_retry_at")?,
        more: fields.left,
    })
}

/// Whether an error may heal by itself, when its event does not say.
pub(in crate::engine) fn may_heal(error: &ErrorInfo) -> bool {
    match error.more.get("class").and_then(Value::as_str) {
        Some(class) => class == "transient",
        None => match error.error_category {
            ErrorCategory::Network | ErrorCategory::ApiRateLimit | ErrorCategory::ApiError => true,
            ErrorCategory::AuthError | ErrorCategory::ValidationError | ErrorCategory::Unknown => false,
        },
    }
}

/// Fields that nobody asked for are not lost.
fn keep_rest(data: &mut Value, rest: Map<String, Value>) {
    if rest.is_empty() {
        return;
    }
    match data {
        Value::Object(data) => {
            data.insert("more".to_owned(), Value::Object(rest));
        }
        Value::Null => *data = json!({ "more": rest }),
        other => *other = json!({ "data": other.take(), "more": rest }),
    }
}

/// The fields of an object, taken out one by one. `null` is as good as absent.
pub(in crate::engine) struct Fields {
    pub(in crate::engine) left: Map<String, Value>,
    pub(in crate::engine) offset_minutes: i32,
}

impl Fields {
    pub(in crate::engine) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.remove(name).filter(|value| !value.is_null())
    }

    pub(in crate::engine) fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{name} is no text")),
        }
    }

    fn either(&mut self, one: &str, other: &str) -> Result<Option<String>, String> {
        let first = self.text(one)?;
        if first.is_some() { Ok(first) } else { self.text(other) }
    }

    fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        self.list(name)?
            .into_iter()
            .map(|value| match value {
                Value::String(text) => Ok(text),
                _ => Err(format!("an entry of {name} is no text")),
            })
            .collect()
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>, String> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(format!("{name} is no list")),
        }
    }

    pub(in crate::engine) fn table(&mut self, name: &str) -> Result<Option<Fields>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(left)) if left.is_empty() => Ok(None),
            Some(Value::Object(left)) => Ok(Some(Fields { left, offset_minutes: self.offset_minutes })),
            Some(_) => Err(format!("{name} is no object")),
        }
    }

    fn number(&mut self, name: &str) -> Result<Option<f64>, String> {
        let value = self.take(name);
        value.map(|value| value.as_f64().ok_or_else(|| format!("{name} is no number"))).transpose()
    }

    pub(in crate::engine) fn whole<N: TryFrom<i64>>(&mut self, name: &str) -> Result<Option<N>, String> {
        let whole = |value: Value| value.as_i64().and_then(|number| N::try_from(number).ok());
        let value = self.take(name);
        value
            .map(|value| whole(value).ok_or_else(|| format!("{name} is no fitting whole number")))
            .transpose()
    }

    /// A time; one that names no offset is ahead of UTC by what the options say.
    pub(in crate::engine) fn time(&mut self, name: &str) -> Result<Option<Timestamp>, String> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let at: Timestamp = text.parse().map_err(|_| format!("{name} is no time: {text:?}"))?;
        let clock = text.trim().get(10..).unwrap_or_default();
        if clock.contains(['Z', 'z', '+', '-']) {
            return Ok(Some(at));
        }
        Ok(Some(Timestamp::from_millis(at.millis() - i64::from(self.offset_minutes) * 60_000)))
    }
}
