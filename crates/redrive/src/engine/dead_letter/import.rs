//! Letters from JSON Lines (R-E4): our own export, and the dead letters that 000, 003 and 004 wrote, mixed in one file.
//!
//! A letter must be something that can be put back: it needs a kind and a payload. One without them is kept as an event,
//! which is all that it is. What cannot be read is counted, named and kept aside. What was taken in before, or still lives
//! here, is not added again.

use std::io::BufRead;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_policy::{Cause, Classifier, ErrorCategory, Failure, Report, fingerprint};
use redrive_store::{
    EventFilter, ImportedEvent, ImportedLetter, JobId, JobState, LetterReason, MAX_NAME_BYTES, NewJob,
    Origin, Scrap,
};
use serde_json::{Map, Value};

use super::export::JobSettings;
use super::outside;
use crate::engine::events::import::{
    Fields, ImportOptions, Line, TOO_LONG, error_info, may_heal, next_line, read_line, scrap,
};
use crate::engine::settle::bounded_why;
use crate::engine::{Engine, EngineError};
use crate::secrets::{redact, redact_json};

/// How many lines, and how many bytes of them, are written in one go.
const LINES: usize = 500;
const BYTES: usize = 4 << 20;
/// The last events of letters that went for good.
const LET_GO: [&str; 3] = ["letter_discarded", "letter_purged", "letter_expired"];
/// How many bad lines are named.
const NAMED: usize = 20;

/// What an import of letters did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LettersImported {
    /// Lines that had something in them.
    pub lines: u64,
    /// Letters that were added.
    pub added: u64,
    /// Letters and events that were here already.
    pub known: u64,
    /// Letters that nobody could run, since they have no kind or no payload: added as events.
    pub as_events: u64,
    /// Lines that could not be read and were kept aside.
    pub bad: u64,
    /// The first of these.
    pub bad_lines: Vec<BadLine>,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// Why.
    pub why: String,
}

/// What a line holds.
enum Found {
    Letter(Box<ImportedLetter>),
    /// A letter of this very store, of this job.
    Own(JobId, Box<ImportedLetter>),
    Event(Box<ImportedEvent>),
    /// A letter of this very store without what it takes to run it.
    OwnEvent,
}

impl Found {
    /// The same, as far as it may come in through the API.
    fn through_api(mut self) -> Result<Found, String> {
        match &mut self {
            Found::Letter(letter) | Found::Own(_, letter) => outside::letter(&mut letter.job)?,
            Found::Event(event) => outside::event(&mut event.event)?,
            Found::OwnEvent => {}
        }
        Ok(self)
    }
}

/// After how many lines others get a turn.
const YIELD_EVERY: u64 = 16;

/// What is written in one go.
#[derive(Default)]
struct Heap {
    letters: Vec<ImportedLetter>,
    events: Vec<ImportedEvent>,
    scraps: Vec<Scrap>,
    bytes: usize,
}

impl Engine {
    /// Reads letters, one per line.
    pub async fn import_letters(
        &self,
        from: &mut (dyn BufRead + Send),
        options: &ImportOptions,
    ) -> Result<LettersImported, EngineError> {
        let mut imported = LettersImported::default();
        let mut heap = Heap::default();
        let classifier = self.classifier();
        let own_id = format!("{:016x}", self.store().store_id());
        let mut number = 0;
        loop {
            number += 1;
            if number % YIELD_EVERY == 0 {
                // Lines that cannot be read need nothing of the store: somebody else may be waiting for this thread.
                tokio::task::yield_now().await;
            }
            let line = next_line(from, number)?;
            let over = line.is_none();
            if let Some(line) = line.filter(|line| !line.bytes.trim_ascii().is_empty()) {
                imported.lines += 1;
                heap.bytes += line.bytes.len();
                let found = if line.whole {
                    read(&line.bytes, options, &classifier, &own_id)
                } else {
                    Err(TOO_LONG.to_owned())
                };
                match found.and_then(|found| if options.from_api { found.through_api() } else { Ok(found) }) {
                    // It went meanwhile, and somebody wants it back.
                    Ok(Found::Own(id, letter)) if self.was_let_go(id).await? => {
                        heap.letters.push(self.under_a_free_id(*letter).await?);
                    }
                    Ok(Found::Own(..) | Found::OwnEvent) => imported.known += 1,
                    Ok(Found::Letter(letter)) => heap.letters.push(self.under_a_free_id(*letter).await?),
                    Ok(Found::Event(event)) => heap.events.push(*event),
                    Err(why) => imported.note_bad(&mut heap, &options.origin, number, &why, line),
                }
            }
            if over || heap.is_large() {
                self.write(std::mem::take(&mut heap), &mut imported).await?;
            }
            if over {
                return Ok(imported);
            }
        }
    }

    /// The letter under an id that nobody has here. One that came before and was let go since may come again; any other keeps
    /// its id, by which it is known.
    async fn under_a_free_id(&self, mut letter: ImportedLetter) -> Result<ImportedLetter, EngineError> {
        let first = letter.event_id.clone();
        for coming in 2.. {
            let Some(before) = self.store().event(letter.event_id.clone()).await? else { break };
            let Some(job) = before.job else { break };
            if !self.was_let_go(job).await? {
                break;
            }
            letter.event_id = format!("{first}~{coming}");
        }
        Ok(letter)
    }

    /// Whether a job of this store was a letter that went for good, or nobody knows it any more. One that has succeeded
    /// since then must not run again.
    async fn was_let_go(&self, id: JobId) -> Result<bool, EngineError> {
        match self.store().job(id).await? {
            None => return Ok(true),
            Some(record) if !matches!(record.state, JobState::Ended) => return Ok(false),
            Some(_) => {}
        }
        let of_it = EventFilter { job: Some(id), ..EventFilter::default() };
        let last = self.store().events(of_it, 1).await?;
        Ok(last.first().is_none_or(|last| LET_GO.contains(&last.event_type.as_str())))
    }

    async fn write(&self, heap: Heap, imported: &mut LettersImported) -> Result<(), EngineError> {
        if !heap.letters.is_empty() {
            for job in self.store().import_letters(self.now(), heap.letters).await? {
                if job.existing {
                    imported.known += 1;
                } else {
                    imported.added += 1;
                }
            }
        }
        if !heap.events.is_empty() || !heap.scraps.is_empty() {
            let events = heap.events.len() as u64;
            let added = self.store().import(self.now(), heap.events, heap.scraps).await?;
            imported.as_events += added;
            imported.known += events.saturating_sub(added);
        }
        Ok(())
    }
}

impl Heap {
    fn is_large(&self) -> bool {
        self.letters.len() + self.events.len() + self.scraps.len() >= LINES || self.bytes >= BYTES
    }
}

impl LettersImported {
    fn note_bad(&mut self, heap: &mut Heap, origin: &str, number: u64, why: &str, line: Line) {
        let scrap = scrap(origin, number, why, line);
        self.bad += 1;
        if self.bad_lines.len() < NAMED {
            self.bad_lines.push(BadLine { line: number, why: scrap.why.clone() });
        }
        heap.scraps.push(scrap);
    }
}

/// What a line holds, or why it holds nothing.
fn read(
    line: &[u8],
    options: &ImportOptions,
    classifier: &Classifier,
    own_id: &str,
) -> Result<Found, String> {
    let json: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let Value::Object(left) = json else { return Err("the line is no object".to_owned()) };
    let mut fields = Fields { left, offset_minutes: options.offset_minutes };
    if fields.left.contains_key("event_type") {
        let status = fields.left.get("status").and_then(Value::as_str).unwrap_or("missing");
        if status != "dead_letter" {
            return Err(format!("no dead letter: its status is {status}; `redrive import` reads events"));
        }
        flatten(&mut fields)?;
    } else if !fields.left.contains_key("error_type") && !fields.left.contains_key("error_message") {
        return Err("no dead letter: it has neither error_type nor error_message".to_owned());
    }
    let kind = match fields.text("kind")? {
        Some(kind) => Some(kind),
        None => fields.text("job_type")?,
    };
    let payload = payload(&mut fields)?;
    let store_id = fields.text("store_id")?;
    let (Some(kind), Some(payload)) = (kind, payload) else {
        // Read from the beginning: as an event it keeps every field.
        let mut event = read_line(line, options)?;
        if let Some(store_id) = store_id {
            if store_id == own_id {
                return Ok(Found::OwnEvent);
            }
            // Should the letter come later with all that it takes to run it, it is another thing.
            event.event_id = format!("{}-{store_id}-event", event.event_id);
            event.validate().map_err(|error| error.to_string())?;
        }
        return Ok(Found::Event(Box::new(event)));
    };
    let id = fields.text("id")?.and_then(|id| id.parse::<JobId>().ok());
    let mut letter = letter(&mut fields, kind, payload, classifier)?;
    let key = letter.job.idempotency_key.clone().unwrap_or_default();
    let first_job = JobId::of_idempotency_key(&key);
    if first_job.is_some() {
        // A key that a store has made names one job, through however many stores it has gone since.
        letter.event_id = format!("job-{key}");
    } else if let Some(store_id) = &store_id {
        // Two of our stores may have made the same id in the same second.
        letter.event_id = format!("{}-{store_id}", letter.event_id);
    }
    check_name("event_id", &letter.event_id)?;
    letter.job.validate().map_err(|error| error.to_string())?;
    let letter = Box::new(letter);
    let own = u64::from_str_radix(own_id, 16).unwrap_or_default();
    // It may have been here first, and come back by way of another store.
    let returned = first_job.filter(|job| job.idempotency_key(own) == key);
    Ok(match id.filter(|_| store_id.as_deref() == Some(own_id)).or(returned) {
        Some(id) => Found::Own(id, letter),
        None => Found::Letter(letter),
    })
}

/// 003 nests what 000 writes flat, and its data may hold what the job was.
fn flatten(fields: &mut Fields) -> Result<(), String> {
    let mut flat: Map<String, Value> = Map::new();
    if let Some(error) = fields.table("error_info")? {
        let error = error_info(error)?;
        flat.insert("retryable".to_owned(), may_heal(&error).into());
        flat.insert("error_type".to_owned(), error.error_type.into());
        flat.insert("error_message".to_owned(), error.error_message.into());
        flat.insert("error_category".to_owned(), error.error_category.name().into());
        flat.extend(error.more.get("context").map(|context| ("context".to_owned(), context.clone())));
    }
    if let Some(mut retry) = fields.table("retry_info")? {
        for (name, other) in [("retry_count", "count"), ("max_retries", "max_retries")] {
            let number = retry.take(name).or_else(|| retry.take(other));
            flat.extend(number.map(|number| (name.to_owned(), number)));
        }
        flat.extend(retry.take("retryable").map(|said| ("retryable".to_owned(), said)));
    }
    if let Some(Value::Object(data)) = fields.left.get("data") {
        for name in ["kind", "job_type", "queue", "original_payload", "caller_id"] {
            flat.extend(data.get(name).map(|value| (name.to_owned(), value.clone())));
        }
    }
    for (name, value) in flat {
        fields.left.entry(name).or_insert(value);
    }
    Ok(())
}

/// The payload: byte for byte where that was written, else what JSON makes of it.
fn payload(fields: &mut Fields) -> Result<Option<Vec<u8>>, String> {
    if let Some(text) = fields.text("payload_base64")? {
        return STANDARD.decode(text).map(Some).map_err(|_| "payload_base64 is no base64".to_owned());
    }
    if let Some(text) = fields.text("payload_text")? {
        return Ok(Some(text.into_bytes()));
    }
    let original = fields.take("original_payload");
    original.map(|json| serde_json::to_vec(&json).map_err(|error| error.to_string())).transpose()
}

fn letter(
    fields: &mut Fields,
    kind: String,
    payload: Vec<u8>,
    classifier: &Classifier,
) -> Result<ImportedLetter, String> {
    let event_id = fields.text("event_id")?.ok_or("event_id is missing")?;
    let died_at = fields.time("timestamp")?.ok_or("timestamp is missing")?;
    let error_type = fields.text("error_type")?.unwrap_or_else(|| "Error".to_owned());
    let error_message = bounded_why(&fields.text("error_message")?.unwrap_or_default());
    let category = category(fields.text("error_category")?)?;
    let failure = failure(fields.text("cause")?, category, &error_message, classifier)?;
    let retry_count: u32 = fields.whole("retry_count")?.unwrap_or(0);
    let max_retries: u32 = fields.whole("max_retries")?.unwrap_or(retry_count);
    let retryable = fields.take("retryable").and_then(|said| said.as_bool());
    let retryable = retryable.unwrap_or_else(|| failure.is_retryable());
    let reason = match fields.text("reason")? {
        Some(name) => LetterReason::from_name(&name).ok_or_else(|| format!("there is no reason {name:?}"))?,
        None if retryable || retry_count > 0 => LetterReason::Exhausted,
        None => LetterReason::NonRetryable,
    };
    let said = fields.text("fingerprint")?.filter(|said| is_fingerprint(said));
    let fingerprint = said.unwrap_or_else(|| fingerprint(&failure, &error_message));
    let rule = fields.text("rule")?.map_or_else(|| failure.rule.to_string(), |rule| redact(&rule));
    let queue = fields.text("queue")?.unwrap_or_default();
    let caller_id = fields.text("caller_id")?;
    let policy = fields.text("policy")?;
    let settings: JobSettings = match fields.take("job") {
        Some(settings) => serde_json::from_value(settings).map_err(|error| format!("job: {error}"))?,
        None => JobSettings::default(),
    };
    let redacted = |mut value: Value| {
        redact_json(&mut value);
        value
    };
    Ok(ImportedLetter {
        event_id,
        died_at,
        reason,
        cause: failure.cause,
        retryable,
        rule,
        fingerprint,
        error_type: redact(&error_type),
        error_message,
        attempts: fields.whole("attempts")?.unwrap_or_else(|| retry_count.saturating_add(1)),
        retries: retry_count,
        max_retries,
        redrives: fields.whole("redrives")?.unwrap_or(0),
        context: redacted(fields.take("context").unwrap_or_default()),
        report: redacted(fields.take("report").unwrap_or_default()),
        job: NewJob {
            queue,
            kind,
            payload,
            priority: settings.priority,
            unique_key: settings.unique_key,
            caller_id,
            policy,
            overrides: settings.overrides,
            idempotency_key: settings.idempotency_key,
            timeout: settings.timeout_ms.map(Duration::from_millis),
            origin: if settings.from_api { Origin::Api } else { Origin::Local },
            target: settings.target,
            source: settings.source,
            ..NewJob::default()
        },
    })
}

/// The category, in the words of either; a class is none.
fn category(said: Option<String>) -> Result<ErrorCategory, String> {
    match said.map(|said| said.to_ascii_lowercase()).as_deref() {
        None | Some("transient" | "permanent") => Ok(ErrorCategory::Unknown),
        Some("rate_limit") => Ok(ErrorCategory::ApiRateLimit),
        Some("validation") => Ok(ErrorCategory::ValidationError),
        Some(name) => name.parse().map_err(|_| format!("there is no error category {name:?}")),
    }
}

/// What it failed with: the cause that is named, else what its words say, else what its category says.
fn failure(
    cause: Option<String>,
    category: ErrorCategory,
    words: &str,
    classifier: &Classifier,
) -> Result<Failure, String> {
    if let Some(name) = cause {
        return name.parse().map(Failure::of).map_err(|_| format!("there is no cause {name:?}"));
    }
    let failure = classifier.classify(&Report::text(words));
    if failure.cause != Cause::Unknown {
        return Ok(failure);
    }
    Ok(Failure::of(match category {
        ErrorCategory::Network => Cause::Network,
        ErrorCategory::ApiRateLimit => Cause::RateLimit,
        ErrorCategory::ApiError => Cause::ApiError,
        ErrorCategory::AuthError => Cause::AuthError,
        ErrorCategory::ValidationError => Cause::ValidationError,
        ErrorCategory::Unknown => return Ok(failure),
    }))
}

fn is_fingerprint(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(format!("{what} must have 1 to {MAX_NAME_BYTES} bytes and no control characters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Result<Found, String> {
        read(line.as_bytes(), &ImportOptions::default(), Classifier::built_in(), "00000000000000aa")
    }

    fn letter_of(line: &str) -> ImportedLetter {
        match found(line) {
            Ok(Found::Letter(letter) | Found::Own(_, letter)) => *letter,
            Ok(Found::Event(_) | Found::OwnEvent) => panic!("an event: {line}"),
            Err(why) => panic!("{why}: {line}"),
        }
    }

    /// Reliability, Audit log: what redrive itself writes down cannot be made up outside; what comes in is marked, and its queue can be read.
    #[test]
    fn the_own_record_does_not_come_in_through_the_api() {
        let event = |event_type: &str| {
            let line = format!(
                r#"{{"event_id":"E","timestamp":"2024-01-01T00:00:00","status":"dead_letter","event_type":"{event_type}","source":"local","data":{{"who":"local"}}}}"#
            );
            found(&line).unwrap().through_api()
        };
        for ours in [
            "operator_act",
            "operator_refused",
            "config_reloaded",
            "letter_purged",
            "manual_retry",
            "redrive",
        ] {
            let why = event(ours).err().unwrap_or_else(|| panic!("{ours} was taken"));
            assert!(why.contains(ours), "{why}");
        }
        match event("page_failed") {
            Ok(Found::Event(event)) => assert_eq!(event.event.tags, ["imported"]),
            _ => panic!("no event"),
        }
        let letter = |queue: &str| {
            let line = format!(
                r#"{{"error_type":"X","kind":"k","original_payload":1,"event_id":"E","timestamp":"2024-01-01T00:00:00","queue":"{queue}"}}"#
            );
            found(&line).unwrap().through_api()
        };
        assert!(letter("mail").is_ok() && letter("b\\u202e1").is_err() && letter(" mail").is_err());
    }

    /// R-E4: 000's flat entries, 003's nested ones and 004's rows are letters when they can be run.
    #[test]
    fn both_shapes_are_read() {
        let flat = letter_of(
            r#"{"event_id":"EVT-20240101-000000-aaaaaa","timestamp":"2024-01-01T00:00:00","error_type":"TimeoutError","error_message":"request timed out","error_category":"network","retry_count":3,"max_retries":3,"job_type":"sync","original_payload":{"id":7},"context":{"action":"fetch","password":"hunter2"}}"#,
        );
        assert_eq!((flat.cause, flat.reason, flat.attempts), (Cause::Timeout, LetterReason::Exhausted, 4));
        assert_eq!((flat.job.kind.as_str(), flat.job.payload.as_slice()), ("sync", &br#"{"id":7}"#[..]));
        assert!(!flat.context.to_string().contains("hunter2"), "{}", flat.context);
        let nested = letter_of(
            r#"{"event_id":"EVT-2","timestamp":"2024-01-01T00:00:00+09:00","event_type":"action","source":"notion","status":"dead_letter","data":{"kind":"sync","original_payload":"text"},"error_info":{"category":"validation","message":"no such column","type":"ValueError","stacktrace":"…"},"retry_info":{"count":2,"max_retries":3}}"#,
        );
        assert_eq!((nested.retries, nested.max_retries, nested.error_type.as_str()), (2, 3, "ValueError"));
        assert_eq!(nested.job.payload, b"\"text\"");
        assert_eq!(nested.died_at.to_string(), "2023-12-31T15:00:00.000Z");
    }

    /// R-E4: what nobody could run is an event, and what is no letter is refused with a reason.
    #[test]
    fn what_cannot_be_run_is_an_event_and_what_is_no_letter_is_named() {
        let bare = r#"{"event_id":"E","timestamp":"2024-01-01T00:00:00","error_type":"X","error_message":"y","error_category":"unknown","retry_count":0}"#;
        assert!(matches!(found(bare), Ok(Found::Event(_))));
        for (line, says) in [
            ("{", "EOF"),
            ("[]", "no object"),
            (
                r#"{"event_id":"E","timestamp":"2024-01-01T00:00:00","event_type":"action","status":"success"}"#,
                "its status is success",
            ),
            (r#"{"event_id":"E"}"#, "neither error_type nor error_message"),
            (r#"{"error_type":"X","kind":"k","original_payload":1}"#, "event_id is missing"),
            (r#"{"error_type":"X","kind":"k","original_payload":1,"event_id":"E"}"#, "timestamp is missing"),
            (r#"{"error_type":"X","kind":"k","payload_base64":"%"}"#, "no base64"),
            (
                r#"{"error_type":"X","kind":"k\u0007","original_payload":1,"event_id":"E","timestamp":"2024-01-01T00:00:00"}"#,
                "kind",
            ),
            (
                r#"{"error_type":"X","kind":"k","original_payload":1,"event_id":"E","timestamp":"2024-01-01T00:00:00","cause":"magic"}"#,
                "no cause \"magic\"",
            ),
        ] {
            let why = found(line).err().unwrap_or_else(|| panic!("{line} was taken"));
            assert!(why.contains(says), "{line}: {why}");
        }
    }

    /// R-E4: a letter of this store is known by its job, one of another by where it comes from.
    #[test]
    fn ids_of_two_stores_do_not_meet() {
        let line = |store: &str| {
            format!(
                r#"{{"id":"job_3","store_id":"{store}","error_type":"X","kind":"k","payload_text":" 1 ","event_id":"E","timestamp":"2024-01-01T00:00:00","fingerprint":"0123456789abcdef","cause":"network"}}"#
            )
        };
        assert!(matches!(found(&line("00000000000000aa")), Ok(Found::Own(JobId(3), _))));
        // By way of another store, where it has another number.
        let key = JobId(5).idempotency_key(0xaa);
        let by_way = line("00000000000000bb")
            .replace(r#""cause":"#, &format!(r#""job":{{"idempotency_key":"{key}"}},"cause":"#));
        assert!(matches!(found(&by_way), Ok(Found::Own(JobId(5), _))));
        let key = JobId(5).idempotency_key(0xcc);
        let third = line("00000000000000bb")
            .replace(r#""cause":"#, &format!(r#""job":{{"idempotency_key":"{key}"}},"cause":"#));
        assert_eq!(letter_of(&third).event_id, format!("job-{key}"));
        let bare = |store: &str| line(store).replace("payload_text", "nothing");
        assert!(matches!(found(&bare("00000000000000aa")), Ok(Found::OwnEvent)));
        match found(&bare("00000000000000bb")) {
            Ok(Found::Event(event)) => assert_eq!(event.event_id, "E-00000000000000bb-event"),
            _ => panic!("no event"),
        }
        let other = letter_of(&line("00000000000000bb"));
        assert_eq!(other.event_id, "E-00000000000000bb");
        assert_eq!(
            (other.fingerprint.as_str(), other.job.payload.as_slice()),
            ("0123456789abcdef", &b" 1 "[..])
        );
    }
}
