//! Everything that is known about one event, and about the job that it is about.

use redrive_policy::{EscalationLevel, Lang};
use redrive_store::{Event, JobRecord, JobState, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::level;
use super::moment::{date_time, rough, when};
use super::story::{tone, type_in_words};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{own, say, text};

/// How much of the data and of a stack trace is shown to a person.
const MOST_LINES: usize = 200;

/// JSON: `redrive/detail.v1`: the fields of R-E2, and the job's if there is one.
#[derive(Debug, Serialize)]
pub(crate) struct DetailView {
    schema: &'static str,
    id: String,
    job_id: Option<String>,
    /// Whether that job is a dead letter now.
    dead_letter: bool,
    /// How far up that letter has gone.
    level: Option<EscalationLevel>,
    #[serde(flatten)]
    event: Event,
    #[serde(skip)]
    now: Timestamp,
}

impl DetailView {
    pub(crate) fn new(event: Event, job: Option<&JobRecord>, now: Timestamp) -> DetailView {
        DetailView {
            schema: "redrive/detail.v1",
            id: event.event_id.clone(),
            job_id: event.job.map(|job| job.to_string()),
            dead_letter: job.is_some_and(|record| matches!(record.state, JobState::Dead(_))),
            level: job.and_then(level::of_job),
            event,
            now,
        }
    }

    fn facts(&self, reader: Reader) -> Vec<(String, Span)> {
        let event = &self.event;
        let mut facts = Facts { lang: reader.lang, fields: Vec::new() };
        let at = format!(
            "{} ({})",
            date_time(event.timestamp),
            super::moment::ago(event.timestamp, self.now, reader.lang)
        );
        facts.add("id", Span::new(self.id.clone(), Tone::Strong));
        facts.add(
            "time",
            Span::plain(if reader.absolute { when(event.timestamp, self.now, reader) } else { at }),
        );
        facts.add("type", Span::plain(self.kind_of_event(reader.lang)));
        facts.add("source", Span::plain(event.source.clone()));
        facts.add("status", Span::new(event.status.name(), tone(event.status)));
        facts.maybe("job", self.job_id.clone());
        facts.fields.extend(self.level.map(|level| level::field(level, reader.lang)));
        facts.maybe("queue", word(&event.data, "queue"));
        facts.maybe("caller", word(&event.data, "caller_id"));
        facts.maybe("took", event.latency_ms.map(|ms| rough(std::time::Duration::from_millis(ms))));
        facts.maybe("exit-code", event.exit_code.map(|code| code.to_string()));
        facts.maybe("http-status", event.data.get("http_status").map(ToString::to_string));
        facts.maybe("code", word(&event.data, "code"));
        facts.add("importance", Span::plain(event.importance.to_string()));
        facts.maybe("tags", (!event.tags.is_empty()).then(|| event.tags.join(", ")));
        facts.maybe("hypothesis", event.related_hypothesis_id.clone());
        facts.maybe("parent", event.parent_event_id.clone());
        facts.fields
    }

    /// The type, and in brackets what it means where it is one of ours.
    fn kind_of_event(&self, lang: Lang) -> String {
        let words = type_in_words(&self.event.event_type, lang);
        if words == self.event.event_type { words } else { format!("{} ({words})", self.event.event_type) }
    }

    fn error(&self, reader: Reader) -> Vec<Block> {
        let Some(error) = &self.event.error_info else { return Vec::new() };
        let mut facts = Facts { lang: reader.lang, fields: Vec::new() };
        facts.maybe("cause", word(&self.event.data, "cause"));
        facts.maybe("rule", word(&self.event.data, "rule"));
        facts.add("category", Span::plain(error.error_category.name()));
        facts.add("error-type", Span::plain(error.error_type.clone()));
        facts.add("message", Span::new(own(reader.lang, &error.error_message), Tone::Bad));
        let mut blocks =
            vec![Block::Gap, Block::Heading(say(reader.lang, "detail.error")), Block::Fields(facts.fields)];
        if let Some(trace) = &error.stack_trace {
            blocks.push(Block::Heading(say(reader.lang, "detail.stack")));
            blocks.extend(lines(trace, reader.lang));
        }
        blocks
    }

    fn retries(&self, reader: Reader) -> Vec<Block> {
        let Some(retry) = &self.event.retry_info else { return Vec::new() };
        let lang = reader.lang;
        let mut facts = Facts { lang, fields: Vec::new() };
        facts.add("retries", Span::plain(format!("{}/{}", retry.retry_count, retry.max_retries)));
        facts.add("retryable", Span::plain(say(lang, if retry.retryable { "yes" } else { "no" })));
        facts.maybe("next-retry", retry.next_retry_at.map(date_time));
        vec![Block::Gap, Block::Heading(say(lang, "detail.retrying")), Block::Fields(facts.fields)]
    }

    fn actions(&self, reader: Reader) -> Vec<Block> {
        let actions = &self.event.recovery_actions;
        if actions.is_empty() {
            return Vec::new();
        }
        let mut blocks = vec![Block::Gap, Block::Heading(say(reader.lang, "detail.actions"))];
        blocks.extend(actions.iter().map(|action| {
            let line = format!("  {}: {}", date_time(action.timestamp), action.action);
            Block::Text(vec![Span::plain(line)])
        }));
        blocks
    }

    fn data(&self, reader: Reader) -> Vec<Block> {
        if self.event.data.as_object().is_some_and(serde_json::Map::is_empty) {
            return Vec::new();
        }
        let mut blocks = vec![Block::Gap, Block::Heading(say(reader.lang, "detail.data"))];
        let data = in_one_language(&self.event.data, reader.lang);
        // What cannot be indented is shown as it is; it came from JSON, so this does not happen.
        let text = serde_json::to_string_pretty(&data).unwrap_or_else(|_| data.to_string());
        blocks.extend(lines(&text, reader.lang));
        blocks
    }
}

/// A decision stands in the data in both languages; a person reads one. JSON keeps both.
fn in_one_language(data: &Value, lang: Lang) -> Value {
    let mut data = data.clone();
    if let Some(decision) = data.get_mut("decision").and_then(Value::as_object_mut)
        && let Some(Value::Object(japanese)) = decision.remove("ja")
        && lang == Lang::Ja
    {
        decision.extend(japanese);
    }
    data
}

/// Names and values, in the language of the reader.
struct Facts {
    lang: Lang,
    fields: Vec<(String, Span)>,
}

impl Facts {
    fn add(&mut self, key: &str, value: Span) {
        self.fields.push((say(self.lang, &format!("detail.{key}")), value));
    }

    /// What is not there is left out.
    fn maybe(&mut self, key: &str, value: Option<String>) {
        if let Some(value) = value {
            self.add(key, Span::plain(value));
        }
    }
}

fn word(data: &Value, name: &str) -> Option<String> {
    data.get(name).and_then(Value::as_str).map(ToOwned::to_owned)
}

/// Lines that keep their indentation.
fn lines(text: &str, lang: Lang) -> Vec<Block> {
    let all = text.lines().count();
    let mut blocks: Vec<Block> = text
        .lines()
        .take(MOST_LINES)
        .map(|line| Block::Text(vec![Span::plain(format!("  {line}"))]))
        .collect();
    if all > MOST_LINES {
        let left = crate::text::text(lang, "detail.left-out", &[("n", &(all - MOST_LINES))]);
        blocks.push(Block::Text(vec![Span::new(left, Tone::Dim)]));
    }
    blocks
}

impl Page for DetailView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let mut blocks = vec![Block::Fields(self.facts(reader))];
        blocks.extend(self.error(reader));
        blocks.extend(self.retries(reader));
        blocks.extend(self.actions(reader));
        blocks.extend(self.data(reader));
        if let Some(job) = &self.job_id {
            let key = if self.dead_letter { "detail.next-dead" } else { "detail.next" };
            blocks.push(Block::Gap);
            blocks.push(Block::Text(vec![Span::new(text(reader.lang, key, &[("id", job)]), Tone::Strong)]));
        }
        blocks
    }
}
