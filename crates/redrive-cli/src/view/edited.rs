//! What became of an edit, what it changed, and the payloads that a letter had before.

use redrive::payload::{Change, Hunk, changes, readable};
use redrive_policy::Lang;
use redrive_store::{JobId, PayloadVersion, Timestamp};
use serde::Serialize;
use serde_json::Value;

use super::block::{Column, Listing};
use super::moment::when;
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};
use redrive_server::shape::letter::payload;

/// Lines that differ. Never part of JSON: payloads are shown to people who ask.
#[derive(Debug)]
pub(crate) struct DiffView {
    id: String,
    hunks: Vec<Hunk>,
}

impl DiffView {
    pub(crate) fn new(id: &str, hunks: Vec<Hunk>) -> DiffView {
        DiffView { id: id.to_owned(), hunks }
    }
}

impl Page for DiffView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = |text: String, tone: Tone| Block::Text(vec![Span::new(text, tone)]);
        let old = text(reader.lang, "edited.old", &[("id", &self.id)]);
        let new = text(reader.lang, "edited.new", &[("id", &self.id)]);
        let mut blocks =
            vec![line(format!("--- {old}"), Tone::Strong), line(format!("+++ {new}"), Tone::Strong)];
        if self.hunks.is_empty() {
            blocks.push(line(say(reader.lang, "edited.blanks-only"), Tone::Dim));
        }
        blocks.extend(hunks(&self.hunks));
        blocks
    }
}

fn hunks(hunks: &[Hunk]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for hunk in hunks {
        blocks.push(Block::Text(vec![Span::new(hunk.heading(), Tone::Heading)]));
        for (change, text) in &hunk.lines {
            let (sign, tone) = match change {
                Change::Removed => ('-', Tone::Bad),
                Change::Added => ('+', Tone::Good),
            };
            blocks.push(Block::Text(vec![Span::new(format!("{sign}{text}"), tone)]));
        }
    }
    blocks
}

/// What became of putting it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RedriveAfter {
    Redriven,
    Duplicate,
    NotDead,
}

/// JSON: `redrive/edited.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct EditedView {
    schema: &'static str,
    id: String,
    /// Whether the payload is another one now.
    changed: bool,
    /// Whether nothing was done, only shown.
    dry_run: bool,
    /// The number under which the payload before is kept.
    version: Option<u32>,
    /// What became of putting it back, if that was asked for.
    redrive: Option<RedriveAfter>,
    #[serde(skip)]
    diff: Option<DiffView>,
}

impl EditedView {
    pub(crate) fn done(id: String, version: u32, redrive: Option<RedriveAfter>) -> EditedView {
        let schema = "redrive/edited.v1";
        EditedView { schema, id, changed: true, dry_run: false, version: Some(version), redrive, diff: None }
    }

    pub(crate) fn would(id: String, diff: DiffView) -> EditedView {
        let unchanged = EditedView::unchanged(id);
        EditedView { changed: true, dry_run: true, diff: Some(diff), ..unchanged }
    }

    pub(crate) fn unchanged(id: String) -> EditedView {
        let schema = "redrive/edited.v1";
        EditedView { schema, id, changed: false, dry_run: false, version: None, redrive: None, diff: None }
    }
}

impl Page for EditedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if let Some(diff) = &self.diff {
            return diff.blocks(reader);
        }
        let line = |key: &str, tone: Tone| {
            let version = self.version.unwrap_or_default();
            let values: [(&str, &dyn std::fmt::Display); 2] = [("id", &self.id), ("version", &version)];
            Block::Text(vec![Span::new(text(lang, key, &values), tone)])
        };
        let mut blocks = vec![line("edited.done", Tone::Good)];
        match self.redrive {
            Some(RedriveAfter::Redriven) => blocks.push(line("redriven.redriven", Tone::Good)),
            Some(RedriveAfter::Duplicate) => blocks.push(line("redriven.duplicate", Tone::Bad)),
            Some(RedriveAfter::NotDead) => blocks.push(line("redriven.not-dead", Tone::Bad)),
            None => blocks.push(line("edited.next", Tone::Dim)),
        }
        blocks
    }
}

/// Payloads that were replaced, the oldest first, and the one in force. JSON: `redrive/payload_versions.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct VersionsView {
    schema: &'static str,
    id: String,
    items: Vec<VersionItem>,
    current_bytes: usize,
    /// Only when it was asked for.
    current_payload: Option<Value>,
    /// What each edit changed, if it was asked for.
    #[serde(skip)]
    diffs: Vec<Vec<Hunk>>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
struct VersionItem {
    version: u32,
    /// When it was replaced.
    replaced_at: Timestamp,
    edited_by: String,
    payload_bytes: usize,
    /// Only when it was asked for.
    payload: Option<Value>,
}

impl VersionItem {
    /// Who edited it, if anybody knows.
    fn by(&self, lang: Lang) -> String {
        if self.edited_by == "person" { say(lang, "edited.by-person") } else { self.edited_by.clone() }
    }
}

impl VersionsView {
    pub(crate) fn new(
        id: JobId,
        versions: Vec<PayloadVersion>,
        current: &[u8],
        with_payload: bool,
        now: Timestamp,
    ) -> VersionsView {
        let mut diffs = Vec::new();
        if with_payload {
            let after = versions.iter().skip(1).map(|version| version.payload.as_slice()).chain([current]);
            let pairs = versions.iter().zip(after);
            diffs.extend(pairs.map(|(old, new)| changes(&readable(&old.payload), &readable(new))));
        }
        let item = |version: PayloadVersion| VersionItem {
            version: version.version,
            replaced_at: version.at,
            edited_by: version.edited_by,
            payload_bytes: version.payload.len(),
            payload: with_payload.then(|| payload(&version.payload)),
        };
        VersionsView {
            schema: "redrive/payload_versions.v1",
            id: id.to_string(),
            items: versions.into_iter().map(item).collect(),
            current_bytes: current.len(),
            current_payload: with_payload.then(|| payload(current)),
            diffs,
            now,
        }
    }
}

impl Page for VersionsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            let line = text(lang, "edited.never", &[("id", &self.id)]);
            return vec![Block::Text(vec![Span::plain(line)])];
        }
        let word = |key: &str| say(lang, &format!("edited.{key}"));
        let columns = vec![
            Column::right(word("version")),
            Column::right(word("replaced")),
            Column::left(word("by")).cut_to(10),
            Column::right(word("bytes")),
        ];
        let row = |item: &VersionItem| {
            vec![
                Span::new(item.version.to_string(), Tone::Strong),
                Span::new(when(item.replaced_at, self.now, reader), Tone::Dim),
                Span::plain(item.by(lang)),
                Span::plain(item.payload_bytes.to_string()),
            ]
        };
        let mut blocks =
            vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })];
        for (item, diff) in self.items.iter().zip(&self.diffs) {
            let heading =
                text(lang, "edited.changed-by", &[("version", &item.version), ("by", &item.by(lang))]);
            blocks.extend([Block::Gap, Block::Heading(heading)]);
            blocks.extend(hunks(diff));
        }
        if self.diffs.is_empty() {
            blocks.push(Block::Text(vec![Span::new(word("with-payload"), Tone::Dim)]));
        }
        blocks
    }
}
