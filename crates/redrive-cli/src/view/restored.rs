//! What a restore did, or would do.

use redrive::snapshot::{RestoreOptions, Restored};
use serde::Serialize;

use super::snapshot::shown_path;
use super::{Block, Page, Reader, Span, Tone};
use crate::escape;
use crate::text::{say, text};

/// JSON: `redrive/restored.v1`; the fields of the seed's `SNAPSHOT_RESTORE` are among them.
#[derive(Debug, Serialize)]
pub(crate) struct RestoredView {
    schema: &'static str,
    snapshot_id: String,
    dry_run: bool,
    /// Put back as they were.
    restored_files: Vec<String>,
    /// Made since, and moved aside.
    deleted_files: Vec<String>,
    asides: Vec<String>,
    kept: Vec<String>,
    changed_meanwhile: Vec<String>,
    conflicts: Vec<ConflictItem>,
    pending_subtasks: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ConflictItem {
    path: String,
    kind: &'static str,
}

impl RestoredView {
    pub(crate) fn new(restored: &Restored, options: RestoreOptions) -> RestoredView {
        let paths = |paths: &[std::path::PathBuf]| paths.iter().map(|path| shown_path(path)).collect();
        let conflict = |conflict: &redrive::snapshot::Conflict| ConflictItem {
            path: shown_path(&conflict.path),
            kind: conflict.kind.as_str(),
        };
        RestoredView {
            schema: "redrive/restored.v1",
            snapshot_id: restored.snapshot_id.to_string(),
            dry_run: options.dry_run,
            restored_files: paths(&restored.restored_files),
            deleted_files: paths(&restored.deleted_files),
            asides: paths(&restored.asides),
            kept: paths(&restored.kept),
            changed_meanwhile: paths(&restored.changed_meanwhile),
            conflicts: restored.conflicts.iter().map(conflict).collect(),
            pending_subtasks: restored.pending_subtasks.clone(),
        }
    }
}

impl Page for RestoredView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let (back, away) = (self.restored_files.len(), self.deleted_files.len());
        let key = match (self.dry_run, back + away) {
            (_, 0) => "snapshot.restored-nothing",
            (true, _) => "snapshot.would-restore",
            (false, _) => "snapshot.restored",
        };
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("id", &self.snapshot_id), ("n", &back), ("moved", &away)];
        let tone = if self.dry_run { Tone::Strong } else { Tone::Good };
        let mut blocks = vec![Block::Text(vec![Span::new(text(lang, key, &values), tone)])];
        let mut lines = |key: &str, tone: Tone, paths: &[String]| {
            let word = say(lang, &format!("snapshot.{key}"));
            let line = |path: &String| {
                Block::Text(vec![Span::new(format!("{word} "), tone), Span::plain(escape::name(path))])
            };
            blocks.extend(paths.iter().map(line));
        };
        lines("put-back", Tone::Good, &self.restored_files);
        lines("moved-aside", Tone::Warn, &self.deleted_files);
        lines("kept", Tone::Dim, &self.kept);
        for conflict in &self.conflicts {
            lines(
                &format!("conflict.{}", conflict.kind.replace('_', "-")),
                Tone::Bad,
                std::slice::from_ref(&conflict.path),
            );
        }
        for aside in &self.asides {
            let line = text(lang, "snapshot.aside", &[("path", &escape::name(aside))]);
            blocks.push(Block::Text(vec![Span::new(line, Tone::Strong)]));
        }
        blocks
    }
}
