//! Dead letters: the list, with the fields that other programs rely on (R-D5), and one letter for a person.

use redrive_policy::Lang;
pub(crate) use redrive_server::shape::letter::Letter as LetterView;
use redrive_store::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::group::short;
use super::level;
use super::moment::{date_time, when};
use super::story::{Attempt, AttemptWords, attempts_table, cause_by, own_words};
use super::{Block, Column, Listing, Page, Reader, Span, Tone};
use crate::escape::beginning;
use crate::text::{own, say, text};

/// What a row shows of an error's words.
const MESSAGE_CHARS: usize = 120;
/// What a page shows of them.
const WHOLE_MESSAGE_CHARS: usize = 2_000;

/// What rows and pages say of a letter.
trait InWords {
    /// What the failure said; where it said nothing, how it ended.
    fn said(&self, chars: usize, lang: Lang) -> String;
    fn retries(&self) -> String;
}

impl InWords for LetterView {
    fn said(&self, chars: usize, lang: Lang) -> String {
        let code = self.context.get("exit_code").and_then(Value::as_i64);
        let code = code.and_then(|code| i32::try_from(code).ok());
        match (code, own_words(&self.error_message, code)) {
            (Some(code), "") => text(lang, "story.exit-code", &[("code", &code)]),
            (_, words) => beginning(&own(lang, words), chars),
        }
    }

    fn retries(&self) -> String {
        format!("{}/{}", self.retry_count, self.max_retries)
    }
}

/// Which letters are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    /// All of them, or those that somebody asked for.
    Letters { narrowed: bool },
    /// Those whose class is transient.
    Candidates,
}

/// Letters from the newest to the oldest. JSON: the contract `redrive/dead_letters.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct DeadLettersView {
    pub(crate) schema: &'static str,
    pub(crate) items: Vec<LetterView>,
    /// The place of the last one, if there are more behind it: `--after` takes it.
    pub(crate) next: Option<String>,
    /// The command for those behind it.
    #[serde(skip)]
    pub(crate) next_page: Option<String>,
    #[serde(skip)]
    pub(crate) about: About,
    /// How long ago is counted from here.
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

impl DeadLettersView {
    /// One line per letter. What a person knows it by stands beside its id.
    pub(super) fn listing(&self, reader: Reader) -> Listing {
        let name = |key: &str| say(reader.lang, &format!("letter.{key}"));
        let with_caller = self.items.iter().any(|item| item.caller_id.is_some());
        let mut columns = vec![Column::left(name("id"))];
        if with_caller {
            columns.push(Column::left(name("caller")).cut_to(16).rank(3));
        }
        columns.push(Column::right(name("when")).rank(2));
        if reader.verbose {
            columns.push(Column::left(name("queue")).rank(5));
            columns.push(Column::left(name("kind")).rank(6));
        }
        columns.push(Column::left(name("cause")).rank(1));
        columns.push(Column::right(name("retries")).rank(4));
        columns.push(Column::left(name("error")).cut_to(20));
        if reader.verbose {
            columns.push(Column::left(name("event")).rank(7));
        }
        let row = |item: &LetterView| {
            let tone = if item.retryable { Tone::Warn } else { Tone::Bad };
            let mut row = vec![Span::new(item.id.clone(), Tone::Strong)];
            if with_caller {
                row.push(Span::plain(item.caller_id.clone().unwrap_or_else(|| "-".to_owned())));
            }
            row.push(Span::new(when(item.timestamp, self.now, reader), Tone::Dim));
            if reader.verbose {
                row.push(Span::plain(item.queue.clone()));
                row.push(Span::plain(item.kind.clone()));
            }
            row.push(Span::new(item.cause.name(), tone));
            row.push(Span::plain(item.retries()));
            row.push(Span::plain(item.said(MESSAGE_CHARS, reader.lang)));
            if reader.verbose {
                row.push(Span::new(item.event_id.clone(), Tone::Dim));
            }
            row
        };
        Listing { columns, rows: self.items.iter().map(row).collect() }
    }
}

impl Page for DeadLettersView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let (none, next) = match self.about {
            About::Letters { narrowed: false } => ("letter.none", "letter.next"),
            About::Letters { narrowed: true } => ("letter.none-matches", "letter.next"),
            About::Candidates => ("candidates.none", "candidates.next"),
        };
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::new(say(lang, none), Tone::Good)])];
        }
        let mut blocks = vec![Block::Listing(self.listing(reader))];
        if let Some(command) = &self.next_page {
            let more = text(lang, "letter.more", &[("n", &self.items.len()), ("command", command)]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        blocks.push(Block::Text(vec![Span::new(say(lang, next), Tone::Dim)]));
        blocks
    }
}

/// One letter and the attempts that led to it.
#[derive(Debug, Serialize)]
pub(crate) struct DeadLetterView {
    pub(crate) schema: &'static str,
    #[serde(flatten)]
    pub(crate) letter: LetterView,
    /// Whom it calls, if it is an HTTP call: the method and the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) calls: Option<String>,
    /// The escalation report of 002 §4.2.
    pub(crate) report: Value,
    pub(crate) history: Vec<Attempt>,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

impl DeadLetterView {
    /// What happened, in three lines.
    fn summary(&self, reader: Reader) -> Vec<Block> {
        let (lang, letter) = (reader.lang, &self.letter);
        let when = when(letter.timestamp, self.now, reader);
        // What it is called says more than its kind.
        let name = letter.context["action"].as_str().unwrap_or(&letter.kind);
        let what = text(
            lang,
            "letter.what",
            &[("id", &letter.id), ("name", &name), ("when", &when), ("attempts", &letter.attempts)],
        );
        let why = self
            .history
            .last()
            .and_then(|attempt| attempt.reasoning(lang))
            .map_or_else(|| say(lang, &format!("letter.reason.{}", letter.reason.name())), ToOwned::to_owned);
        let error = letter.said(WHOLE_MESSAGE_CHARS, lang);
        vec![
            Block::Text(vec![Span::new(what, Tone::Bad)]),
            Block::Text(vec![
                Span::new(cause_by(letter.cause.name(), &letter.rule, lang), Tone::Strong),
                Span::plain(if error.is_empty() { error } else { format!(": {error}") }),
            ]),
            Block::Text(vec![Span::plain(why)]),
        ]
    }
}

impl Page for DeadLetterView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, letter) = (reader.lang, &self.letter);
        let key = |name: &str| say(lang, &format!("letter.{name}"));
        let mut fields = vec![
            (
                key("reason-heading"),
                Span::plain(say(lang, &format!("letter.reason.{}", letter.reason.name()))),
            ),
            level::field(letter.level, lang),
            (key("retries"), Span::plain(letter.retries())),
            (key("queue"), Span::plain(letter.queue.clone())),
            (key("enqueued"), Span::plain(date_time(letter.enqueued_at))),
            (key("died"), Span::plain(date_time(letter.timestamp))),
            (key("event"), Span::plain(letter.event_id.clone())),
        ];
        if let Some(calls) = &self.calls {
            fields.insert(4, (key("calls"), Span::plain(calls.clone())));
        }
        if let Some(policy) = &letter.policy {
            fields.push((key("policy"), Span::plain(policy.clone())));
        }
        if let Some(caller) = &letter.caller_id {
            fields.push((key("caller"), Span::plain(caller.clone())));
        }
        if letter.redrives > 0 {
            fields.push((key("redrives"), Span::plain(letter.redrives.to_string())));
        }
        fields.push((key("group"), Span::new(short(&letter.fingerprint), Tone::Dim)));
        let payload = match &letter.original_payload {
            Some(payload) => payload.to_string(),
            None => text(lang, "letter.hidden", &[("bytes", &letter.payload_bytes)]),
        };
        fields.push((key("payload"), Span::plain(payload)));

        let mut blocks = self.summary(reader);
        blocks.extend([Block::Gap, Block::Fields(fields)]);
        if !self.history.is_empty() {
            blocks.push(Block::Gap);
            blocks.push(Block::Heading(key("attempts")));
            blocks.push(Block::Table(attempts_table(&self.history, reader)));
        }
        let actions: Vec<&str> = self.report["recommended_actions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if reader.verbose && !actions.is_empty() {
            blocks.extend([Block::Gap, Block::Heading(key("actions"))]);
            blocks.extend(actions.iter().map(|action| Block::Text(vec![Span::plain(format!("  {action}"))])));
        }
        blocks.push(Block::Gap);
        let next = text(lang, "letter.what-next", &[("id", &letter.id)]);
        blocks.push(Block::Text(vec![Span::new(next, Tone::Strong)]));
        blocks
    }
}
