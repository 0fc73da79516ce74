//! Idempotency keys: the list, and what is known of one (R-I2, R-I4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use redrive::engine::KeyReport;
use redrive_policy::{Lang, one_line};
use redrive_store::{KeyRecord, KeyState, StoredResponse, Timestamp};
use serde::Serialize;

use super::header::Header;
use super::key_reason::key_reason;
use super::moment::{date_time, rough, when};
use super::{Block, Column, Listing, Page, Reader, Span, Tone};
use crate::run_answer::RunAnswer;
use crate::text::{say, text};

pub(crate) use redrive::engine::key_id;

fn tone(state: KeyState) -> Tone {
    match state {
        KeyState::InProgress => Tone::Heading,
        KeyState::Completed => Tone::Good,
        KeyState::UnknownOutcome => Tone::Bad,
    }
}

fn in_words(state: KeyState, lang: Lang) -> Span {
    Span::new(say(lang, &format!("idempotency.state.{}", state.name())), tone(state))
}

/// One key as JSON.
pub(crate) type KeyLine = KeyReport;

/// A key in words.
trait KeyWords {
    /// How long it is still known.
    fn expires(&self, now: Timestamp, reader: Reader) -> Span;
    /// The status of its answer.
    fn status(&self) -> String;
}

impl KeyWords for KeyLine {
    fn expires(&self, now: Timestamp, reader: Reader) -> Span {
        match self.expires_at {
            None => Span::plain("-"),
            Some(at) if at <= now => Span::new(say(reader.lang, "idempotency.expired"), Tone::Dim),
            Some(at) if reader.absolute => Span::new(date_time(at), Tone::Dim),
            Some(at) => {
                let left = text(reader.lang, "idempotency.left", &[("length", &rough(at.since(now)))]);
                Span::new(left, Tone::Dim)
            }
        }
    }

    fn status(&self) -> String {
        self.response_status.map_or_else(|| "-".to_owned(), |status| status.to_string())
    }
}

/// The newest first. JSON: `redrive/idempotency_keys.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct KeysView {
    pub(crate) schema: &'static str,
    pub(crate) items: Vec<KeyLine>,
    /// The last one, if there are more behind it: `--after` takes it.
    pub(crate) next: Option<String>,
    /// The command for those behind it.
    #[serde(skip)]
    pub(crate) next_page: Option<String>,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

impl Page for KeysView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let word = |key: &str| say(lang, &format!("idempotency.{key}"));
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(word("none"))])];
        }
        let columns = vec![
            Column::left(word("id")),
            Column::left(word("key")).cut_to(9),
            Column::left(word("endpoint")).cut_to(12),
            Column::left(word("state-column")),
            Column::right(word("status")),
            Column::right(word("created")).rank(1),
            Column::right(word("expires")).rank(2),
        ];
        let row = |item: &KeyLine| {
            vec![
                Span::new(item.id.clone(), Tone::Strong),
                Span::plain(item.key.clone()),
                Span::plain(item.endpoint.clone()),
                in_words(item.state, lang),
                Span::plain(item.status()),
                Span::new(when(item.created_at, self.now, reader), Tone::Dim),
                item.expires(self.now, reader),
            ]
        };
        let mut blocks =
            vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })];
        if let Some(command) = &self.next_page {
            let more = text(lang, "letter.more", &[("n", &self.items.len()), ("command", command)]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        if self.items.iter().any(|item| item.state == KeyState::UnknownOutcome) {
            blocks.push(Block::Text(vec![Span::new(word("next-unknown"), Tone::Dim)]));
        }
        blocks
    }
}

/// One key, and its answer. JSON: `redrive/idempotency_key.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct KeyView {
    schema: &'static str,
    #[serde(flatten)]
    line: KeyLine,
    /// Why nobody knows how it ended, as its event has it; absent when the event is no longer kept.
    why: Option<String>,
    response_headers: Vec<Header>,
    /// The body, where it was asked for and is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body: Option<String>,
    /// The body, where it was asked for and is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_body_base64: Option<String>,
    /// The parts of the body under their headings, for people.
    #[serde(skip)]
    parts: Vec<(&'static str, Vec<u8>)>,
    #[serde(skip)]
    now: Timestamp,
}

impl KeyView {
    pub(crate) fn new(
        record: &KeyRecord,
        response: Option<StoredResponse>,
        why: Option<String>,
        with_body: bool,
        now: Timestamp,
    ) -> KeyView {
        let response = response.unwrap_or_default();
        let parts = match RunAnswer::of_stored(&response) {
            Some(answer) => vec![("stdout", answer.stdout.kept), ("stderr", answer.stderr.kept)],
            None => response.body.iter().map(|body| ("body", body.clone())).collect(),
        };
        let header = |(name, value): &(String, Vec<u8>)| Header {
            name: name.clone(),
            value: String::from_utf8_lossy(value).into_owned(),
        };
        let body = response.body.filter(|_| with_body);
        let as_text = body.as_deref().and_then(|body| std::str::from_utf8(body).ok()).map(str::to_owned);
        let as_bytes = body.filter(|_| as_text.is_none()).map(|body| BASE64.encode(body));
        KeyView {
            schema: "redrive/idempotency_key.v1",
            line: KeyLine::new(record),
            why,
            response_headers: response.headers.iter().map(header).collect(),
            response_body: as_text,
            response_body_base64: as_bytes,
            parts: if with_body { parts } else { Vec::new() },
            now,
        }
    }

    fn facts(&self, reader: Reader) -> Vec<(String, Span)> {
        let (lang, line) = (reader.lang, &self.line);
        let word = |key: &str| say(lang, &format!("idempotency.{key}"));
        let at = |at: Timestamp| Span::plain(when(at, self.now, reader));
        let mut facts = vec![
            (word("id"), Span::new(line.id.clone(), Tone::Strong)),
            (word("key"), Span::plain(line.key.clone())),
            (word("endpoint"), Span::plain(line.endpoint.clone())),
            (word("principal"), Span::plain(line.principal.clone())),
            (word("request-hash"), Span::plain(line.request_hash.clone())),
            (word("state-column"), in_words(line.state, lang)),
            (word("created"), at(line.created_at)),
        ];
        if let Some(until) = line.leased_until {
            facts.push((word("held-until"), Span::plain(date_time(until))));
        }
        if let Some(ended) = line.ended_at {
            let key = if line.state == KeyState::Completed { "answered" } else { "unknown-since" };
            facts.push((word(key), at(ended)));
        }
        if line.state == KeyState::UnknownOutcome {
            facts.push((word("why-unknown"), self.why_in_words(lang)));
        }
        if line.expires_at.is_some() {
            facts.push((word("expires"), line.expires(self.now, reader)));
        }
        if let Some(job) = line.job_id {
            facts.push((word("job"), Span::plain(job.to_string())));
        }
        if line.response_status.is_some() {
            facts.push((word("status"), Span::plain(line.status())));
            let size = match line.response_bytes {
                Some(bytes) => text(lang, "idempotency.bytes", &[("n", &bytes)]),
                None => word("not-kept"),
            };
            facts.push((word("body"), Span::plain(size)));
        }
        facts.extend(
            self.response_headers
                .iter()
                .map(|header| (header.name.clone(), Span::plain(header.value.clone()))),
        );
        facts
    }

    fn why_in_words(&self, lang: Lang) -> Span {
        match &self.why {
            Some(why) => Span::plain(key_reason(why, lang).unwrap_or_else(|| one_line(why))),
            None => Span::new(say(lang, "idempotency.why-not-kept"), Tone::Dim),
        }
    }

    fn body(&self, lang: Lang) -> Vec<Block> {
        let part = |(heading, bytes): &(&'static str, Vec<u8>)| {
            let lines: Vec<Block> = if let Ok(said) = std::str::from_utf8(bytes) {
                said.lines().map(|line| Block::Text(vec![Span::plain(line)])).collect()
            } else {
                let note = text(lang, "idempotency.no-text", &[("n", &bytes.len()), ("id", &self.line.id)]);
                vec![Block::Text(vec![Span::new(note, Tone::Dim)])]
            };
            let heading = Block::Heading(say(lang, &format!("idempotency.part.{heading}")));
            [Block::Gap, heading].into_iter().chain(lines).collect::<Vec<_>>()
        };
        self.parts.iter().filter(|(_, bytes)| !bytes.is_empty()).flat_map(part).collect()
    }
}

impl Page for KeyView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, line) = (reader.lang, &self.line);
        let mut blocks = vec![Block::Fields(self.facts(reader))];
        blocks.extend(self.body(lang));
        let by_job = if line.job_id.is_some() && line.state != KeyState::Completed { "-job" } else { "" };
        let key = format!("idempotency.means.{}{by_job}", line.state.name());
        let job = line.job_id.map(|job| job.to_string()).unwrap_or_default();
        let means = text(lang, &key, &[("id", &line.id), ("job", &job)]);
        blocks.push(Block::Gap);
        blocks.extend(means.lines().map(|said| Block::Text(vec![Span::plain(said)])));
        blocks
    }
}

/// That a key is forgotten. JSON: `redrive/idempotency_reset.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct KeyResetView {
    schema: &'static str,
    id: String,
    key: String,
    endpoint: String,
    /// Where it stood.
    state: KeyState,
}

impl KeyResetView {
    pub(crate) fn new(record: &KeyRecord) -> KeyResetView {
        KeyResetView {
            schema: "redrive/idempotency_reset.v1",
            id: key_id(record.id),
            key: record.key.clone(),
            endpoint: record.endpoint.clone(),
            state: record.state,
        }
    }
}

impl Page for KeyResetView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = text(reader.lang, "idempotency.reset", &[("id", &self.id), ("key", &self.key)]);
        vec![Block::Text(vec![Span::new(line, Tone::Good)])]
    }
}
