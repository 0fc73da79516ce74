//! Groups: letters with one fingerprint (R-D10). The list, and one of them with its newest letters.

pub(crate) use redrive_server::shape::group::Group as GroupItem;
use redrive_store::Timestamp;
use serde::Serialize;

use super::badge::Badge;
use super::block::{Column, Listing};
use super::dead_letter::DeadLettersView;
use super::moment::when;
use super::{Block, Page, Reader, Span, Tone};
use crate::escape::beginning;
use crate::text::{own, say, text};

/// What finds a group again, of its fingerprint.
const SHORT: usize = 8;
/// What a page shows of an error's words.
const SAMPLE_CHARS: usize = 2_000;

/// As much of a fingerprint as people see and type.
pub(crate) fn short(fingerprint: &str) -> &str {
    fingerprint.get(..SHORT).unwrap_or(fingerprint)
}

/// What rows and pages say of a group.
trait InWords {
    fn badge(&self, reader: Reader) -> Span;
    fn is_over(&self) -> bool;
}

impl InWords for GroupItem {
    fn badge(&self, reader: Reader) -> Span {
        Badge::named(self.state).map_or_else(|| Span::plain(self.state), |badge| badge.span(reader.lang))
    }

    fn is_over(&self) -> bool {
        self.state == Badge::Resolved.name()
    }
}

/// Groups, the largest first, those that are resolved last. JSON: the contract `redrive/groups.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct GroupsView {
    schema: &'static str,
    items: Vec<GroupItem>,
    /// Whether there are more than these.
    #[serde(skip)]
    more: bool,
    #[serde(skip)]
    now: Timestamp,
}

impl GroupsView {
    pub(crate) fn new(items: Vec<GroupItem>, more: bool, now: Timestamp) -> GroupsView {
        GroupsView { schema: "redrive/groups.v1", items, more, now }
    }

    /// As much of each fingerprint as tells them apart.
    fn shown_of_fingerprints(&self) -> usize {
        let mut all: Vec<&str> = self.items.iter().map(|item| item.fingerprint.as_str()).collect();
        all.sort_unstable();
        let shared = |pair: &[&str]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
        all.windows(2).map(shared).max().map_or(SHORT, |longest| SHORT.max(longest + 1))
    }

    fn listing(&self, reader: Reader) -> Listing {
        let word = |key: &str| say(reader.lang, &format!("group.{key}"));
        let mut columns = vec![
            Column::left(word("fingerprint")),
            Column::right(word("count")),
            Column::left(word("state")),
            Column::left(word("cause")).rank(2),
            Column::right(word("last-seen")).rank(3),
            Column::left(word("sample")).cut_to(20),
        ];
        if reader.verbose {
            columns.insert(5, Column::left(word("type")).rank(5));
            columns.insert(6, Column::right(word("recovered")).rank(4));
        }
        let length = self.shown_of_fingerprints();
        let row = |item: &GroupItem| {
            let tone = |tone: Tone| if item.is_over() { Tone::Dim } else { tone };
            let mut row = vec![
                Span::new(item.fingerprint.get(..length).unwrap_or(&item.fingerprint), tone(Tone::Strong)),
                Span::new(item.count.to_string(), tone(Tone::Bad)),
                item.badge(reader),
                Span::new(item.cause.name(), tone(Tone::Warn)),
                Span::new(when(item.last_seen, self.now, reader), Tone::Dim),
                Span::new(own(reader.lang, &item.sample), tone(Tone::Plain)),
            ];
            if reader.verbose {
                row.insert(5, Span::new(item.error_type.clone(), tone(Tone::Plain)));
                row.insert(6, Span::new(item.recovered.unwrap_or_default().to_string(), tone(Tone::Good)));
            }
            row
        };
        Listing { columns, rows: self.items.iter().map(row).collect() }
    }
}

impl Page for GroupsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let Some(first) = self.items.first() else {
            return vec![Block::Text(vec![Span::new(say(lang, "group.none"), Tone::Good)])];
        };
        let mut blocks = vec![Block::Listing(self.listing(reader))];
        if self.more {
            let more = text(lang, "group.more", &[("n", &self.items.len())]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        let length = self.shown_of_fingerprints();
        let prefix = first.fingerprint.get(..length).unwrap_or(&first.fingerprint);
        let next = text(lang, "group.next", &[("fingerprint", &prefix)]);
        blocks.push(Block::Text(vec![Span::new(next, Tone::Dim)]));
        blocks
    }
}

/// One group and its newest letters. JSON: `redrive/group.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct GroupView {
    schema: &'static str,
    #[serde(flatten)]
    group: GroupItem,
    /// The newest.
    letters: DeadLettersView,
    #[serde(skip)]
    now: Timestamp,
}

impl GroupView {
    pub(crate) fn new(group: GroupItem, letters: DeadLettersView, now: Timestamp) -> GroupView {
        GroupView { schema: "redrive/group.v1", group, letters, now }
    }
}

impl Page for GroupView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, group) = (reader.lang, &self.group);
        let word = |key: &str| say(lang, &format!("group.{key}"));
        let at = |at: Timestamp| Span::plain(when(at, self.now, reader));
        let number = |n: i64| Span::plain(n.to_string());
        let shown = if reader.verbose { &group.fingerprint } else { short(&group.fingerprint) };
        let mut fields = vec![
            (word("fingerprint"), Span::new(shown, Tone::Strong)),
            (word("state"), group.badge(reader)),
            (word("state-since"), at(group.state_since)),
            (word("cause"), Span::plain(group.cause.name())),
            (word("type"), Span::plain(group.error_type.clone())),
            (word("count"), Span::new(group.count.to_string(), Tone::Bad)),
            (word("failures"), number(group.failures.unwrap_or_default())),
            (word("under-way"), number(group.under_way.unwrap_or_default())),
            (word("recovered"), number(group.recovered.unwrap_or_default())),
            (word("relapsed"), number(group.relapsed.unwrap_or_default())),
            (word("first-seen"), at(group.first_seen)),
            (word("last-seen"), at(group.last_seen)),
        ];
        if let Some(note) = &group.note {
            fields.insert(3, (word("note"), Span::plain(note.clone())));
        }
        let mut blocks = vec![
            Block::Text(vec![Span::new(
                beginning(&own(reader.lang, &group.sample), SAMPLE_CHARS),
                Tone::Bad,
            )]),
            Block::Gap,
            Block::Fields(fields),
        ];
        if group.count > 0 {
            blocks.extend([Block::Gap, Block::Heading(word("newest"))]);
            blocks.push(Block::Listing(self.letters.listing(reader)));
            let known = group.state == Badge::Acknowledged.name();
            let key = if known { "group.next-known" } else { "group.next-one" };
            let next = text(lang, key, &[("fingerprint", &short(&group.fingerprint))]);
            blocks.extend([Block::Gap, Block::Text(vec![Span::new(next, Tone::Strong)])]);
        }
        blocks
    }
}

/// What a person said about groups. JSON: `redrive/groups_changed.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct GroupsChangedView {
    schema: &'static str,
    items: Vec<GroupItem>,
}

impl GroupsChangedView {
    pub(crate) fn new(items: Vec<GroupItem>) -> GroupsChangedView {
        GroupsChangedView { schema: "redrive/groups_changed.v1", items }
    }
}

impl Page for GroupsChangedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = |item: &GroupItem| {
            let values: [(&str, &dyn std::fmt::Display); 2] =
                [("fingerprint", &short(&item.fingerprint)), ("n", &item.count)];
            let key = format!("group.now.{}", item.state);
            Block::Text(vec![Span::new(text(reader.lang, &key, &values), Tone::Strong)])
        };
        self.items.iter().map(line).collect()
    }
}
