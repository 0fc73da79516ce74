//! Removes what is past its time: snapshots that have expired, contents that no snapshot names, and what restores moved
//! aside. Nobody else is at the folder meanwhile, and a manifest goes before its contents.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::error::{SnapshotError, at, io_at};
use super::id::SnapshotId;
use super::journal::Journal;
use super::manifest::{Hash, Kind};
use super::place::{Lock, Part};
use super::{DEFAULT_KEEP, Root, Snapshots};

/// What was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Snapshots.
    pub snapshots: Vec<SnapshotId>,
    /// Contents that no snapshot names any more.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Folders with what restores had moved aside.
    pub asides: Vec<PathBuf>,
    /// Manifests that cannot be read. While there are any, no content is removed: they may name it.
    pub damaged: Vec<SnapshotId>,
}

/// The folder with the notes on snapshots that must stay: by whom they are needed, then which.
pub(crate) const NEEDED: &str = "needed";
/// After how long a note is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_hours(30 * 24);

/// What is in a folder; nothing when it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, SnapshotError> {
    match fs::read_dir(folder) {
        Ok(found) => found
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(io_at("list", folder)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(io_at("list", folder)(error)),
    }
}

impl Snapshots {
    /// Removes snapshots that have expired, or all that are older than `older_than`, with what only they needed; and
    /// what restores moved aside, once it has stayed as long as a snapshot would have.
    pub fn prune(&self, now_ms: i64, older_than: Option<Duration>) -> Result<Pruned, SnapshotError> {
        let restoring = self.place.lock_restores()?;
        let stuck = self.recover_locked(&restoring)?.1;
        let alone = self.place.lock_alone()?;
        let mut pruned = Pruned::default();
        let mut needed = self.needed()?;
        needed.extend(stuck.iter().map(|record| record.journal.snapshot_id.clone()));
        let live = self.prune_manifests(now_ms, older_than, &needed, &mut pruned)?;
        // Gone for good before what it named goes.
        self.place.sync(Part::Manifests)?;
        if pruned.damaged.is_empty() {
            self.prune_objects(&live, &mut pruned)?;
        }
        self.prune_latest()?;
        self.place.sweep(&alone)?;
        self.prune_asides(now_ms, older_than, &restoring, &mut pruned)?;
        for record in stuck {
            let gone =
                record.journal.roots.iter().all(|root| {
                    matches!(Root::open(&root.path.to_path()), Err(SnapshotError::RootGone { .. }))
                });
            if gone && is_past(now_ms, record.journal.began_at, record.journal.keep_ms, older_than) {
                for phase in ["apply", "clean", "staging"] {
                    self.place.remove(Part::Restores, &format!("{}.{phase}", record.name))?;
                }
            }
        }
        Ok(pruned)
    }

    /// The snapshots that somebody has noted to need: an attempt that works on their files, a task that is not over. A note
    /// that nobody has taken back for a month is forgotten.
    fn needed(&self) -> Result<HashSet<SnapshotId>, SnapshotError> {
        let mut needed = HashSet::new();
        for by in entries(&self.place.dir.join(NEEDED))? {
            for note in entries(&by)? {
                let at = fs::metadata(&note).and_then(|found| found.modified());
                let forgotten = at.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > FORGOTTEN_AFTER));
                let id = note.file_name().and_then(|name| name.to_str()?.parse().ok());
                needed.extend(id.filter(|_| !forgotten));
            }
        }
        Ok(needed)
    }

    /// Answers what the remaining ones name.
    fn prune_manifests(
        &self,
        now_ms: i64,
        older_than: Option<Duration>,
        needed: &HashSet<SnapshotId>,
        pruned: &mut Pruned,
    ) -> Result<HashSet<Hash>, SnapshotError> {
        let mut live = HashSet::new();
        for id in self.ids()? {
            let (created_at, expires_at, hashes) = match self.manifest(&id) {
                Ok(manifest) => {
                    let hashes: Vec<Hash> = manifest
                        .entries
                        .iter()
                        .flatten()
                        .filter_map(|entry| match entry.kind {
                            Kind::File(hash) => Some(hash),
                            Kind::Folder | Kind::Link(_) => None,
                        })
                        .collect();
                    (manifest.header.created_at, manifest.header.expires_at, Some(hashes))
                }
                Err(SnapshotError::Damaged { .. }) => {
                    let written = self.written_at(&id)?;
                    (written, written.saturating_add(as_millis(DEFAULT_KEEP)), None)
                }
                Err(SnapshotError::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let keep_ms = expires_at.saturating_sub(created_at);
            if is_past(now_ms, created_at, keep_ms, older_than) && !needed.contains(&id) {
                self.place.remove(Part::Manifests, id.as_str())?;
                self.place.remove(Part::After, id.as_str())?;
                pruned.snapshots.push(id);
            } else if let Some(hashes) = hashes {
                live.extend(hashes);
            } else {
                pruned.damaged.push(id);
            }
        }
        Ok(live)
    }

    fn prune_objects(&self, live: &HashSet<Hash>, pruned: &mut Pruned) -> Result<(), SnapshotError> {
        let kept: HashSet<PathBuf> = live.iter().map(|hash| self.place.object(hash)).collect();
        let objects = self.place.part(Part::Objects);
        for rack in fs::read_dir(&objects).map_err(io_at("list", &objects))? {
            let rack = rack.map_err(io_at("list", &objects))?.path();
            for object in fs::read_dir(&rack).map_err(io_at("list", &rack))? {
                let object = object.map_err(io_at("list", &rack))?;
                let path = object.path();
                if !kept.contains(&path) {
                    pruned.bytes += object.metadata().map_err(io_at("look at", &path))?.len();
                    fs::remove_file(&path).map_err(io_at("remove", &path))?;
                    pruned.objects += 1;
                }
            }
        }
        Ok(())
    }

    fn prune_latest(&self) -> Result<(), SnapshotError> {
        let there: HashSet<String> = self.place.names(Part::Manifests)?.into_iter().collect();
        for name in self.place.names(Part::Latest)? {
            let id = self.place.read(Part::Latest, &name)?;
            let id = id.and_then(|id| String::from_utf8(id).ok());
            if !id.is_some_and(|id| there.contains(&id)) {
                self.place.remove(Part::Latest, &name)?;
            }
        }
        Ok(())
    }

    fn prune_asides(
        &self,
        now_ms: i64,
        older_than: Option<Duration>,
        _restoring: &Lock,
        pruned: &mut Pruned,
    ) -> Result<(), SnapshotError> {
        for name in self.place.names(Part::Asides)? {
            let Some(written) = self.place.read(Part::Asides, &name)? else { continue };
            let journal = Journal::read(&self.place.file(Part::Asides, &name), &written)?;
            if !is_past(now_ms, journal.began_at, journal.keep_ms, older_than) {
                continue;
            }
            let mut all = true;
            for part in &journal.roots {
                let root = match Root::open(&part.path.to_path()) {
                    // Perhaps on a disk that is away: its record stays.
                    Err(SnapshotError::RootGone { .. } | SnapshotError::RootReplaced { .. }) => {
                        all = false;
                        continue;
                    }
                    opened => opened?,
                };
                if let Ok(Some(_)) = root.stat(&part.aside) {
                    let place = root.full(&part.aside);
                    root.remove_ours(&part.aside).map_err(at("remove", &place))?;
                    root.remove_if_empty(part.aside.parent().as_ref()).map_err(at("remove", &place))?;
                    pruned.asides.push(place);
                }
            }
            if all {
                self.place.remove(Part::Asides, &name)?;
            }
        }
        pruned.asides.sort_unstable();
        Ok(())
    }

    fn written_at(&self, id: &SnapshotId) -> Result<i64, SnapshotError> {
        let path = self.place.file(Part::Manifests, id.as_str());
        let written =
            fs::metadata(&path).and_then(|found| found.modified()).map_err(io_at("look at", &path))?;
        Ok(as_millis(written.duration_since(UNIX_EPOCH).unwrap_or_default()))
    }
}

fn is_past(now_ms: i64, began_at: i64, keep_ms: i64, older_than: Option<Duration>) -> bool {
    began_at.saturating_add(older_than.map_or(keep_ms, as_millis)) <= now_ms
}

pub(crate) fn as_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
