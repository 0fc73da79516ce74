//! What waits to be sent, what was, and what a flush came to (R-I7). What is secret in a call is sent as it was given and shown to
//! nobody.

use redrive::{HttpSpec, redact};
use redrive_idempotency::outbox::{Flushed, ItemId, Left, LeftWhy, Queued, SendReport, call_of, save_of};
use redrive_policy::{Lang, is_plain_header, one_line};
use redrive_store::{ItemState, OutboxItem, Timestamp};
use serde::Serialize;

use super::header::Header;
use super::moment::{rough, when};
use super::{Block, Column, Listing, Page, Reader, Span, Tone};
use crate::escape::beginning;
use crate::text::{say, text};

/// What a row shows of the last answer.
const LAST_CHARS: usize = 200;

/// The most that is shown of a body.
const BODY_CHARS: usize = 16 * 1024;

/// One item as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ItemLine {
    id: ItemId,
    state: ItemState,
    lane: String,
    key: String,
    /// The logical save that it is for.
    save: Option<String>,
    method: String,
    /// The address, without what is secret in it.
    url: String,
    sends: u32,
    created_at: Timestamp,
    not_before: Timestamp,
    sent_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    last_status: Option<u16>,
    last: Option<String>,
}

impl ItemLine {
    pub(crate) fn new(item: &OutboxItem) -> ItemLine {
        let call = call_of(item).unwrap_or_else(|_| HttpSpec::new("", ""));
        ItemLine {
            id: ItemId(item.id),
            state: item.state,
            lane: item.lane.clone(),
            key: item.key.clone(),
            save: save_of(item).map(ToOwned::to_owned),
            url: call.place(),
            method: call.method,
            sends: item.sends,
            created_at: item.created_at,
            not_before: item.not_before,
            sent_at: item.sent_at,
            ended_at: item.ended_at,
            last_status: item.last_status,
            last: item.last.clone(),
        }
    }

    fn call(&self) -> String {
        format!("{} {}", self.method, self.url)
    }

    /// What became of it last, in short.
    fn in_short(&self) -> String {
        match (&self.last, self.last_status) {
            (Some(last), _) => beginning(&one_line(last), LAST_CHARS),
            (None, Some(status)) => format!("HTTP {status}"),
            (None, None) => "-".to_owned(),
        }
    }
}

fn state(state: ItemState, lang: Lang) -> Span {
    let tone = match state {
        ItemState::Pending => Tone::Warn,
        ItemState::Sent => Tone::Good,
        ItemState::Failed => Tone::Bad,
    };
    Span::new(say(lang, &format!("outbox.state.{}", state.name())), tone)
}

/// In the order in which they are sent. JSON: `redrive/outbox.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct OutboxView {
    pub(crate) schema: &'static str,
    pub(crate) items: Vec<ItemLine>,
    /// The last one, if there may be more behind it: `--after` takes it.
    pub(crate) next: Option<ItemId>,
    #[serde(skip)]
    pub(crate) next_page: Option<String>,
    /// Whether others were left out.
    #[serde(skip)]
    pub(crate) is_part: bool,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

impl Page for OutboxView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let word = |key: &str| say(lang, &format!("outbox.{key}"));
        if self.items.is_empty() {
            let none = if self.is_part { "none-of-these" } else { "none" };
            return vec![Block::Text(vec![Span::new(word(none), Tone::Good)])];
        }
        let columns = vec![
            Column::left(word("id")),
            Column::left(word("state-heading")),
            Column::left(word("call")).cut_to(24),
            Column::right(word("sends")).rank(2),
            Column::right(word("added")).rank(3),
            Column::left(word("last")).cut_to(16).rank(1),
        ];
        let row = |item: &ItemLine| {
            vec![
                Span::new(item.id.to_string(), Tone::Strong),
                state(item.state, lang),
                Span::plain(item.call()),
                Span::plain(item.sends.to_string()),
                Span::new(when(item.created_at, self.now, reader), Tone::Dim),
                Span::plain(item.in_short()),
            ]
        };
        let mut blocks =
            vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })];
        if let Some(command) = &self.next_page {
            let more = text(lang, "letter.more", &[("n", &self.items.len()), ("command", command)]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        if self.items.iter().any(|item| item.state == ItemState::Failed) {
            blocks.push(Block::Text(vec![Span::new(word("next-failed"), Tone::Dim)]));
        }
        blocks
    }
}

/// One item with all that may be shown of it. JSON: `redrive/outbox_item.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct ItemView {
    schema: &'static str,
    #[serde(flatten)]
    line: ItemLine,
    headers: Vec<Header>,
    body_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip)]
    now: Timestamp,
}

impl ItemView {
    pub(crate) fn new(item: &OutboxItem, with_payload: bool, now: Timestamp) -> ItemView {
        let call = call_of(item).unwrap_or_else(|_| HttpSpec::new("", ""));
        let body = call.body.unwrap_or_default();
        let shown = with_payload.then(|| beginning(&redact(&String::from_utf8_lossy(&body)), BODY_CHARS));
        ItemView {
            schema: "redrive/outbox_item.v1",
            line: ItemLine::new(item),
            headers: call.headers.into_iter().map(blanked).collect(),
            body_bytes: body.len(),
            body: shown,
            now,
        }
    }
}

/// A header as it may be shown.
fn blanked((name, value): (String, String)) -> Header {
    let value = if is_plain_header(&name) { redact(&value) } else { "[redacted]".to_owned() };
    Header { name, value }
}

impl Page for ItemView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, line) = (reader.lang, &self.line);
        let word = |key: &str| say(lang, &format!("outbox.{key}"));
        let mut facts = vec![
            (word("id"), Span::new(line.id.to_string(), Tone::Strong)),
            (word("state-heading"), state(line.state, lang)),
            (word("call"), Span::plain(line.call())),
            (word("key"), Span::plain(line.key.clone())),
            (word("lane"), Span::plain(line.lane.clone())),
            (word("sends"), Span::plain(line.sends.to_string())),
            (word("added"), Span::plain(when(line.created_at, self.now, reader))),
        ];
        let save = line.save.iter().map(|save| (word("save"), Span::plain(save.clone())));
        facts.extend(save);
        if line.state == ItemState::Pending && line.not_before > self.now {
            let wait = rough(line.not_before.since(self.now));
            facts.push((word("not-before"), Span::plain(text(lang, "outbox.in", &[("wait", &wait)]))));
        }
        let at = |key: &str, at: Timestamp| (word(key), Span::plain(when(at, self.now, reader)));
        facts.extend(line.sent_at.map(|sent| at("sent-at", sent)));
        facts.extend(line.ended_at.map(|ended| at("ended-at", ended)));
        facts.push((word("last"), Span::plain(line.last.clone().unwrap_or_else(|| line.in_short()))));
        for Header { name, value } in &self.headers {
            facts.push((word("header"), Span::plain(format!("{name}: {value}"))));
        }
        let size = text(lang, "outbox.bytes", &[("n", &self.body_bytes)]);
        facts.push((word("body"), Span::plain(self.body.clone().unwrap_or(size))));
        let mut blocks = vec![Block::Fields(facts)];
        if line.state == ItemState::Failed {
            let next = text(lang, "outbox.next", &[("id", &line.id)]);
            blocks.push(Block::Text(vec![Span::new(next, Tone::Dim)]));
        }
        blocks
    }
}

/// The id of what was added, or was there already. JSON: `redrive/outbox_added.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct AddedView {
    schema: &'static str,
    #[serde(flatten)]
    queued: Queued,
}

impl AddedView {
    pub(crate) fn new(queued: Queued) -> AddedView {
        AddedView { schema: "redrive/outbox_added.v1", queued }
    }
}

impl Page for AddedView {
    fn blocks(&self, _: Reader) -> Vec<Block> {
        vec![Block::Text(vec![Span::plain(self.queued.id.to_string())])]
    }
}

/// What a flush came to. JSON: `redrive/outbox_flushed.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct FlushedView {
    schema: &'static str,
    #[serde(flatten)]
    flushed: Flushed,
    /// How the last send of each item ended.
    items: Vec<SendReport>,
    #[serde(skip)]
    now: Timestamp,
}

impl FlushedView {
    pub(crate) fn new(flushed: Flushed, items: Vec<SendReport>, now: Timestamp) -> FlushedView {
        FlushedView { schema: "redrive/outbox_flushed.v1", flushed, items, now }
    }

    fn left(&self, left: &Left, lang: Lang) -> String {
        let of = ("lane", &left.lane as &dyn std::fmt::Display);
        match &left.why {
            LeftWhy::NotReached { last } => text(lang, "outbox.left.not-reached", &[of, ("last", last)]),
            LeftWhy::NotBefore { at } => {
                text(lang, "outbox.left.not-before", &[of, ("wait", &rough(at.since(self.now)))])
            }
            LeftWhy::Underway { .. } => text(lang, "outbox.left.underway", &[of]),
            LeftWhy::HeldByAnother => text(lang, "outbox.left.held", &[of]),
            LeftWhy::Stopped => text(lang, "outbox.left.stopped", &[of]),
        }
    }
}

impl Page for FlushedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, flushed) = (reader.lang, &self.flushed);
        if flushed.is_nothing() {
            return vec![Block::Text(vec![Span::plain(say(lang, "outbox.nothing"))])];
        }
        let tone = if flushed.is_all_sent() { Tone::Good } else { Tone::Strong };
        let line = text(lang, "outbox.flushed", &[("sent", &flushed.sent), ("failed", &flushed.failed)]);
        let mut blocks = vec![Block::Text(vec![Span::new(line, tone)])];
        for left in &flushed.left {
            blocks.push(Block::Text(vec![Span::new(self.left(left, lang), Tone::Warn)]));
        }
        if flushed.failed > 0 {
            blocks.push(Block::Text(vec![Span::new(say(lang, "outbox.next-failed"), Tone::Dim)]));
        }
        blocks
    }
}

/// Items that were put back, or taken out. JSON: `redrive/outbox_retried.v1` and `redrive/outbox_discarded.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct ItemsMovedView {
    pub(crate) schema: &'static str,
    pub(crate) items: Vec<ItemId>,
    /// Those with which it could not be done; people are told on stderr.
    pub(crate) not_found: Vec<ItemId>,
    #[serde(skip)]
    pub(crate) key: &'static str,
}

impl Page for ItemsMovedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = |id: &ItemId| {
            let line = text(reader.lang, &format!("outbox.{}.done", self.key), &[("id", id)]);
            Block::Text(vec![Span::new(line, Tone::Good)])
        };
        self.items.iter().map(line).collect()
    }
}
