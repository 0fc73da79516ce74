//! Snapshots of files: one that was taken, all there are, what one holds, what differs from it, what was pruned.

use std::path::Path;

use redrive::snapshot::{Created, Difference, DifferenceKind, Pruned, Snapshot, SnapshotId};
use redrive_store::Timestamp;
use serde::Serialize;

use super::block::{Column, Listing};
use super::moment::{date_time, rough, when};
use super::{Block, Page, Reader, Span, Tone};
use crate::escape;
use crate::text::{say, text};

/// A snapshot as the `StateSnapshot` of the seed has it, and what it holds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SnapshotItem {
    snapshot_id: String,
    created_at: Timestamp,
    expires_at: Timestamp,
    task_id: Option<String>,
    state: StateItem,
    /// When the work that it protects was done, if that was recorded.
    marked_at: Option<Timestamp>,
    files: u64,
    folders: u64,
    links: u64,
    bytes: u64,
    roots: Vec<RootItem>,
    notes: Vec<NoteItem>,
    notes_left_off: u64,
}

#[derive(Debug, Clone, Serialize)]
struct StateItem {
    completed_subtasks: Vec<String>,
    pending_subtasks: Vec<String>,
    files_created: Vec<String>,
    files_modified: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct RootItem {
    path: String,
    files: u64,
    folders: u64,
    links: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Serialize)]
struct NoteItem {
    path: String,
    kind: &'static str,
}

/// A path as text, for programs. What is no text shows the sign for that. People see it as [`escape::name`] writes it.
pub(super) fn shown_path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl SnapshotItem {
    pub(crate) fn new(snapshot: &Snapshot) -> SnapshotItem {
        let paths = |paths: &[std::path::PathBuf]| paths.iter().map(|path| shown_path(path)).collect();
        let root = |root: &redrive::snapshot::SnapshotRoot| RootItem {
            path: shown_path(&root.path),
            files: root.files,
            folders: root.folders,
            links: root.links,
            bytes: root.bytes,
        };
        let sum = |of: fn(&redrive::snapshot::SnapshotRoot) -> u64| snapshot.roots.iter().map(of).sum();
        SnapshotItem {
            snapshot_id: snapshot.id.to_string(),
            created_at: Timestamp::from_millis(snapshot.created_at_ms),
            expires_at: Timestamp::from_millis(snapshot.expires_at_ms),
            task_id: snapshot.task_id.clone(),
            state: StateItem {
                completed_subtasks: snapshot.state.completed_subtasks.clone(),
                pending_subtasks: snapshot.state.pending_subtasks.clone(),
                files_created: paths(&snapshot.state.files_created),
                files_modified: paths(&snapshot.state.files_modified),
            },
            marked_at: snapshot.marked_after_ms.map(Timestamp::from_millis),
            files: sum(|root| root.files),
            folders: sum(|root| root.folders),
            links: sum(|root| root.links),
            bytes: sum(|root| root.bytes),
            roots: snapshot.roots.iter().map(root).collect(),
            notes: snapshot
                .notes
                .iter()
                .map(|note| NoteItem { path: shown_path(&note.path), kind: note.kind.as_str() })
                .collect(),
            notes_left_off: snapshot.notes_left_off,
        }
    }

    fn holds(&self, reader: Reader) -> String {
        let counted = |what: &str, n: u64| counted(reader, &format!("snapshot.holds-{what}"), n);
        let (files, folders, links) =
            (counted("files", self.files), counted("folders", self.folders), counted("links", self.links));
        let values: [(&str, &dyn std::fmt::Display); 4] =
            [("files", &files), ("folders", &folders), ("links", &links), ("size", &size(self.bytes))];
        text(reader.lang, "snapshot.holds", &values)
    }

    fn until(&self, now: Timestamp, reader: Reader) -> Span {
        if self.expires_at <= now {
            return Span::new(say(reader.lang, "snapshot.expired"), Tone::Warn);
        }
        Span::plain(if reader.absolute {
            date_time(self.expires_at)
        } else {
            text(reader.lang, "snapshot.left", &[("length", &rough(self.expires_at.since(now)))])
        })
    }
}

/// So many of something: one has a word of its own.
fn counted(reader: Reader, key: &str, n: u64) -> String {
    let key = if n == 1 { format!("{key}-one") } else { key.to_owned() };
    text(reader.lang, &key, &[("n", &n)])
}

/// A size as people say it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut tenths, mut unit) = (bytes, 0, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    if unit == 0 || whole >= 100 {
        format!("{whole} {}", UNITS[unit])
    } else {
        format!("{whole}.{tenths} {}", UNITS[unit])
    }
}

/// One that was taken. JSON: `redrive/snapshot_created.v1`. For people and scripts: the id alone on its line.
#[derive(Debug, Serialize)]
pub(crate) struct CreatedView {
    schema: &'static str,
    #[serde(flatten)]
    snapshot: SnapshotItem,
    existing: bool,
    files_read: u64,
    bytes_read: u64,
    objects_added: u64,
    bytes_added: u64,
}

impl CreatedView {
    pub(crate) fn new(created: &Created) -> CreatedView {
        CreatedView {
            schema: "redrive/snapshot_created.v1",
            snapshot: SnapshotItem::new(&created.snapshot),
            existing: created.already_there,
            files_read: created.files_read,
            bytes_read: created.bytes_read,
            objects_added: created.objects_added,
            bytes_added: created.bytes_added,
        }
    }
}

impl Page for CreatedView {
    fn blocks(&self, _: Reader) -> Vec<Block> {
        vec![Block::Text(vec![Span::plain(self.snapshot.snapshot_id.clone())])]
    }
}

/// All there are. JSON: `redrive/snapshots.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotsView {
    schema: &'static str,
    items: Vec<SnapshotItem>,
    damaged: Vec<String>,
    #[serde(skip)]
    now: Timestamp,
}

impl SnapshotsView {
    pub(crate) fn new(snapshots: &[Snapshot], damaged: &[SnapshotId], now: Timestamp) -> SnapshotsView {
        SnapshotsView {
            schema: "redrive/snapshots.v1",
            items: snapshots.iter().map(SnapshotItem::new).collect(),
            damaged: damaged.iter().map(ToString::to_string).collect(),
            now,
        }
    }
}

impl Page for SnapshotsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(say(lang, "snapshot.none"))])];
        }
        let word = |key: &str| say(lang, &format!("snapshot.column.{key}"));
        let columns = vec![
            Column::left(word("id")),
            Column::left(word("taken")).rank(2),
            Column::left(word("kept")),
            Column::right(word("files")).rank(1),
            Column::right(word("size")),
            Column::left(word("task")).rank(3),
            Column::left(word("roots")).cut_to(12),
        ];
        let row = |item: &SnapshotItem| {
            let roots: Vec<String> = item.roots.iter().map(|root| escape::name(&root.path)).collect();
            vec![
                Span::new(item.snapshot_id.clone(), Tone::Strong),
                Span::plain(when(item.created_at, self.now, reader)),
                item.until(self.now, reader),
                Span::plain(item.files.to_string()),
                Span::plain(size(item.bytes)),
                Span::plain(item.task_id.clone().unwrap_or_else(|| "-".to_owned())),
                Span::plain(roots.join(", ")),
            ]
        };
        vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })]
    }
}

/// What one holds. JSON: `redrive/snapshot.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotView {
    schema: &'static str,
    #[serde(flatten)]
    snapshot: SnapshotItem,
    #[serde(skip)]
    now: Timestamp,
}

impl SnapshotView {
    pub(crate) fn new(snapshot: SnapshotItem, now: Timestamp) -> SnapshotView {
        SnapshotView { schema: "redrive/snapshot.v1", snapshot, now }
    }
}

impl Page for SnapshotView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let (lang, item) = (reader.lang, &self.snapshot);
        let word = |key: &str| say(lang, &format!("snapshot.field.{key}"));
        let mut fields = vec![
            (word("id"), Span::new(item.snapshot_id.clone(), Tone::Strong)),
            (word("taken"), Span::plain(when(item.created_at, self.now, reader))),
            (word("kept"), item.until(self.now, reader)),
            (word("holds"), Span::plain(item.holds(reader))),
        ];
        fields.extend(item.roots.iter().map(|root| (word("root"), Span::plain(escape::name(&root.path)))));
        if let Some(task) = &item.task_id {
            fields.push((word("task"), Span::plain(task.clone())));
        }
        for (key, list) in
            [("completed", &item.state.completed_subtasks), ("pending", &item.state.pending_subtasks)]
        {
            if !list.is_empty() {
                fields.push((word(key), Span::plain(list.join(", "))));
            }
        }
        if let Some(at) = item.marked_at {
            fields.push((word("marked"), Span::plain(when(at, self.now, reader))));
        }
        let mut blocks = vec![Block::Fields(fields)];
        for (key, tone, list) in [
            ("created", Tone::Good, &item.state.files_created),
            ("modified", Tone::Warn, &item.state.files_modified),
        ] {
            if !list.is_empty() {
                blocks.push(Block::Heading(word(key)));
                blocks.extend(list.iter().map(|path| Block::Text(vec![Span::new(escape::name(path), tone)])));
            }
        }
        if !item.notes.is_empty() {
            blocks.push(Block::Heading(word("notes")));
            let line = |note: &NoteItem| {
                let key = format!("snapshot.note.{}", note.kind.replace('_', "-"));
                Block::Text(vec![Span::new(
                    text(lang, &key, &[("path", &escape::name(&note.path))]),
                    Tone::Dim,
                )])
            };
            blocks.extend(item.notes.iter().map(line));
        }
        blocks
    }
}

/// What differs. JSON: `redrive/snapshot_diff.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct DifferencesView {
    schema: &'static str,
    snapshot_id: String,
    pub(crate) items: Vec<DifferenceItem>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DifferenceItem {
    path: String,
    change: &'static str,
    #[serde(skip)]
    kind: DifferenceKind,
}

impl DifferencesView {
    pub(crate) fn new(id: &SnapshotId, differences: &[Difference]) -> DifferencesView {
        let item = |difference: &Difference| DifferenceItem {
            path: shown_path(&difference.path),
            change: difference.kind.as_str(),
            kind: difference.kind,
        };
        DifferencesView {
            schema: "redrive/snapshot_diff.v1",
            snapshot_id: id.to_string(),
            items: differences.iter().map(item).collect(),
        }
    }
}

impl Page for DifferencesView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        if self.items.is_empty() {
            let same = text(reader.lang, "snapshot.same", &[("id", &self.snapshot_id)]);
            return vec![Block::Text(vec![Span::new(same, Tone::Good)])];
        }
        let columns = vec![
            Column::left(say(reader.lang, "snapshot.column.change")),
            Column::left(say(reader.lang, "snapshot.column.path")).cut_to(20),
        ];
        let row = |item: &DifferenceItem| {
            let tone = match item.kind {
                DifferenceKind::Added => Tone::Good,
                DifferenceKind::Changed | DifferenceKind::Mode => Tone::Warn,
                DifferenceKind::Removed => Tone::Bad,
            };
            let word = say(reader.lang, &format!("snapshot.change.{}", item.change));
            vec![Span::new(word, tone), Span::plain(escape::name(&item.path))]
        };
        vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })]
    }
}

/// What was pruned. JSON: `redrive/snapshots_pruned.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct PrunedSnapshotsView {
    schema: &'static str,
    snapshots: Vec<String>,
    objects: u64,
    bytes: u64,
    asides: Vec<String>,
    damaged: Vec<String>,
}

impl PrunedSnapshotsView {
    pub(crate) fn new(pruned: &Pruned) -> PrunedSnapshotsView {
        PrunedSnapshotsView {
            schema: "redrive/snapshots_pruned.v1",
            snapshots: pruned.snapshots.iter().map(ToString::to_string).collect(),
            objects: pruned.objects,
            bytes: pruned.bytes,
            asides: pruned.asides.iter().map(|path| shown_path(path)).collect(),
            damaged: pruned.damaged.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Page for PrunedSnapshotsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let nothing = self.snapshots.is_empty() && self.objects == 0 && self.asides.is_empty();
        let snapshots = counted(reader, "snapshot.pruned-snapshots", self.snapshots.len() as u64);
        let asides = counted(reader, "snapshot.pruned-asides", self.asides.len() as u64);
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("snapshots", &snapshots), ("asides", &asides), ("size", &size(self.bytes))];
        let line = if nothing {
            Span::new(say(reader.lang, "snapshot.pruned-nothing"), Tone::Good)
        } else {
            Span::new(text(reader.lang, "snapshot.pruned", &values), Tone::Strong)
        };
        vec![Block::Text(vec![line])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: sizes are said as people say them.
    #[test]
    fn sizes_are_said_in_their_largest_unit() {
        for (bytes, said) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_536, "1.5 KiB"),
            (150 << 20, "150 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16777215 TiB"),
        ] {
            assert_eq!(size(bytes), said);
        }
    }
}
