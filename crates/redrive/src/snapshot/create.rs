//! Takes a snapshot: look, read what is not known by its fingerprint, make it durable, then write the manifest. Before the
//! manifest is named there is no snapshot, whatever happens.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::FileType;

use super::beneath::{Fingerprint, Root, interfered, kind_of, plain_mode};
use super::error::{SnapshotError, at, io_at};
use super::fault::Fault;
use super::id::SnapshotId;
use super::ignore::Rules;
use super::manifest::{Entry, Hash, Header, Kind, Manifest, RootHeader, hex};
use super::name::{Bytes, IGNORE_FILE, RelPath};
use super::object::Incoming;
use super::place::{Lock, Part};
use super::scan::{Found, FoundKind, Note, NoteKind, Scan, SnapshotLimits, is_beneath_any};
use super::{Created, SnapshotRequest, Snapshots};

/// How often a file is read again that changes meanwhile.
const MOST_READS: usize = 3;
const MOST_NOTES: usize = 1_000;
const MOST_ROOTS: usize = 100;
/// Fewer files than this are read sooner than a thread has begun.
const WORTH_A_THREAD: usize = 64;
const MOST_RULE_BYTES: u64 = 1 << 20;

/// A root as it was looked at.
struct Looked {
    root: Root,
    ignore: Vec<String>,
    found: Vec<Found>,
}

impl Snapshots {
    /// Takes a snapshot of the roots. With an id that exists already, that snapshot is the answer and nothing is read.
    ///
    /// ```
    /// # let home = tempfile::tempdir().unwrap();
    /// # let project = home.path().join("project");
    /// # std::fs::create_dir(&project).unwrap();
    /// # std::fs::write(project.join("a.txt"), "before").unwrap();
    /// use redrive::snapshot::{RestoreOptions, SnapshotRequest, Snapshots};
    ///
    /// let snapshots = Snapshots::open(home.path().join("snapshots"))?;
    /// let created = snapshots.create(&SnapshotRequest::of([&project]), 1_763_000_000_000)?;
    /// std::fs::write(project.join("a.txt"), "after").unwrap();
    ///
    /// let restored = snapshots.restore(&created.snapshot.id, RestoreOptions::default(), 1_763_000_000_001)?;
    /// assert_eq!(std::fs::read_to_string(project.join("a.txt")).unwrap(), "before");
    /// assert_eq!(restored.restored_files.len(), 1);
    /// # Ok::<(), redrive::snapshot::SnapshotError>(())
    /// ```
    pub fn create(&self, request: &SnapshotRequest, now_ms: i64) -> Result<Created, SnapshotError> {
        if let Some(id) = &request.id
            && let Some(created) = self.already_there(id)?
        {
            return Ok(created);
        }
        let id = request.id.clone().map_or_else(|| SnapshotId::new(now_ms), Ok)?;
        let never = self.never_touched();
        let roots = self.roots_of(&request.roots, &never)?;
        self.settle_restores(&roots.iter().map(|root| root.path.clone()).collect::<Vec<_>>())?;
        let shared = self.place.lock_shared()?;
        let began_ns = wall_clock_ns();
        let (looked, mut notes) = look(roots, request, &never)?;

        let incoming = Incoming::new(&self.place, &shared)?;
        let mut reading = Reading {
            snapshots: self,
            incoming: &incoming,
            limits: request.limits,
            bytes: AtomicU64::new(0),
            files: AtomicU64::new(0),
        };
        let mut entries = Vec::new();
        let mut headers = Vec::new();
        for Looked { root, ignore, found } in looked {
            let stat = root.stat_self()?;
            entries.push(reading.root(&root, &found, &mut notes)?);
            headers.push(RootHeader {
                path: Bytes::of_path(&root.path),
                mode: plain_mode(&stat),
                owner: (stat.st_uid, stat.st_gid),
                ignore,
                entries: 0,
            });
        }
        let (files_read, bytes_read) = (*reading.files.get_mut(), *reading.bytes.get_mut());
        let (objects_added, bytes_added) = incoming.publish()?;

        let notes_left_off = notes.len().saturating_sub(MOST_NOTES) as u64;
        notes.truncate(MOST_NOTES);
        let keep_ms = i64::try_from(request.keep_for.as_millis()).unwrap_or(i64::MAX);
        let header = Header {
            format: String::new(),
            snapshot_id: id.clone(),
            created_at: now_ms,
            expires_at: now_ms.saturating_add(keep_ms),
            began_ns,
            task_id: request.task_id.clone(),
            completed_subtasks: request.completed_subtasks.clone(),
            pending_subtasks: request.pending_subtasks.clone(),
            roots: headers,
            notes,
            notes_left_off,
        };
        let manifest = Manifest::new(header, entries);
        if !self.place.write(Part::Manifests, id.as_str(), &manifest.write()?, false)? {
            // Somebody else made it while we read.
            return self.already_there(&id)?.ok_or(SnapshotError::NotFound { id });
        }
        self.remember_latest(&manifest, &shared)?;
        let snapshot = super::Snapshot::of(&manifest, None);
        Ok(Created { snapshot, already_there: false, files_read, bytes_read, objects_added, bytes_added })
    }

    fn already_there(&self, id: &SnapshotId) -> Result<Option<Created>, SnapshotError> {
        match self.get(id) {
            Ok(snapshot) => Ok(Some(Created {
                snapshot,
                already_there: true,
                files_read: 0,
                bytes_read: 0,
                objects_added: 0,
                bytes_added: 0,
            })),
            Err(SnapshotError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The roots, opened: links in their paths are followed here, once.
    fn roots_of(&self, given: &[PathBuf], never: &[PathBuf]) -> Result<Vec<Root>, SnapshotError> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in given {
            let bad = |why| SnapshotError::BadRoot { path: path.clone(), why };
            if path.as_os_str().is_empty() {
                return Err(bad(Fault::NoName));
            }
            if path.components().any(|part| matches!(part, std::path::Component::ParentDir)) {
                return Err(bad(Fault::Upward));
            }
            let canonical = path.canonicalize().map_err(io_at("find", path))?;
            if canonical.parent().is_none() {
                return Err(bad(Fault::WholeFileSystem));
            }
            if is_beneath_any(&canonical, never) {
                return Err(bad(Fault::OurOwn));
            }
            if !canonical.is_dir() {
                return Err(bad(Fault::NotAFolder));
            }
            if !paths.contains(&canonical) {
                paths.push(canonical);
            }
        }
        if paths.is_empty() || paths.len() > MOST_ROOTS {
            let why = Fault::RootCount;
            return Err(SnapshotError::BadRoot { path: self.place.dir.clone(), why });
        }
        for path in &paths {
            if paths.iter().any(|other| other != path && path.starts_with(other)) {
                let why = Fault::Nested;
                return Err(SnapshotError::BadRoot { path: path.clone(), why });
            }
        }
        paths.iter().map(|path| Root::open(path)).collect()
    }

    /// Remembers this as the latest snapshot of its roots, whose fingerprints the next one goes by.
    fn remember_latest(&self, manifest: &Manifest, _shared: &Lock) -> Result<(), SnapshotError> {
        for root in &manifest.header.roots {
            let name = latest_name(&root.path.to_path());
            self.place.write(Part::Latest, &name, manifest.header.snapshot_id.as_str().as_bytes(), true)?;
        }
        Ok(())
    }

    /// What the latest snapshot of a root knows. A damaged or missing one knows nothing, and files are read.
    fn latest_of(&self, root: &Path) -> Result<(HashMap<RelPath, Entry>, i64), SnapshotError> {
        let nothing = (HashMap::new(), 0);
        let Some(id) = self.place.read(Part::Latest, &latest_name(root))? else { return Ok(nothing) };
        let Some(id) = String::from_utf8(id).ok().and_then(|id| id.parse::<SnapshotId>().ok()) else {
            return Ok(nothing);
        };
        let mut manifest = match self.manifest(&id) {
            Ok(manifest) => manifest,
            Err(SnapshotError::NotFound { .. } | SnapshotError::Damaged { .. }) => return Ok(nothing),
            Err(error) => return Err(error),
        };
        let place = manifest.header.roots.iter().position(|header| header.path.to_path() == root);
        let Some(place) = place else { return Ok(nothing) };
        let entries = std::mem::take(&mut manifest.entries[place]);
        let known = entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
        Ok((known, manifest.header.began_ns))
    }
}

fn look(
    roots: Vec<Root>,
    request: &SnapshotRequest,
    never: &[PathBuf],
) -> Result<(Vec<Looked>, Vec<Note>), SnapshotError> {
    let mut left = request.limits;
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for root in roots {
        let mut ignore = request.ignore.clone();
        ignore.extend(own_rules(&root)?);
        let rules = Rules::read(&ignore)?;
        let scan = Scan { root: &root, rules: &rules, never, limits: left, wanted: &|_| false };
        let scanned = scan.run().map_err(|error| match error {
            // Of the whole limit, not of what other roots left of it.
            SnapshotError::TooLarge { .. } => SnapshotError::TooLarge { limit: request.limits.max_bytes },
            SnapshotError::TooMany { .. } => SnapshotError::TooMany { limit: request.limits.max_entries },
            error => error,
        })?;
        let files = scanned.found.iter().filter(|found| found.kind == FoundKind::File);
        left.max_bytes = left.max_bytes.saturating_sub(files.map(|file| file.seen.size).sum());
        left.max_entries = left.max_entries.saturating_sub(scanned.found.len() as u64);
        notes.extend(scanned.notes);
        all.push(Looked { root, ignore, found: scanned.found });
    }
    Ok((all, notes))
}

/// The rules of the root's own file.
fn own_rules(root: &Root) -> Result<Vec<String>, SnapshotError> {
    let name = RelPath::new(IGNORE_FILE.into())?;
    let place = root.full(&name);
    let file = match root.file(&name) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(Vec::new()),
        Err(errno) => return Err(at("read", &place)(errno)),
    };
    let mut text = String::new();
    let bad = |why| SnapshotError::BadPattern { pattern: IGNORE_FILE.to_owned(), why };
    match file.take(MOST_RULE_BYTES + 1).read_to_string(&mut text) {
        Ok(read) if read as u64 > MOST_RULE_BYTES => return Err(bad(Fault::RulesTooLarge)),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            return Err(bad(Fault::RulesNotText));
        }
        done => done.map_err(io_at("read", &place))?,
    };
    Ok(text.lines().map(str::to_owned).collect())
}

/// Reads the files of roots, two at a time.
struct Reading<'a> {
    snapshots: &'a Snapshots,
    incoming: &'a Incoming<'a>,
    limits: SnapshotLimits,
    bytes: AtomicU64,
    files: AtomicU64,
}

impl Reading<'_> {
    fn root(&self, root: &Root, found: &[Found], notes: &mut Vec<Note>) -> Result<Vec<Entry>, SnapshotError> {
        let (known, began_ns) = self.snapshots.latest_of(&root.path)?;
        let told = Mutex::new(Vec::new());
        let entries = in_parallel(found, |found, buffer| {
            let kind = match &found.kind {
                FoundKind::Folder => Kind::Folder,
                FoundKind::Link(text) => Kind::Link(text.clone()),
                // Never found when a snapshot is taken.
                FoundKind::Special => return Ok(None),
                FoundKind::File => match self.known(&known, began_ns, found) {
                    Some(hash) => Kind::File(hash),
                    None => return self.read(root, found, &told, buffer),
                },
            };
            let Found { path, mode, owner, seen, .. } = found.clone();
            Ok(Some(Entry { path, kind, mode, owner, seen }))
        })?;
        notes.extend(told.into_inner().unwrap_or_else(PoisonError::into_inner));
        let entries: Vec<Entry> = entries.into_iter().flatten().collect();
        super::manifest::check_entries(&entries)
            .map_err(|_| SnapshotError::Unsteady { path: root.path.clone() })?;
        Ok(entries)
    }

    fn known(&self, known: &HashMap<RelPath, Entry>, began_ns: i64, found: &Found) -> Option<Hash> {
        let entry = known.get(&found.path)?;
        let Kind::File(hash) = entry.kind else { return None };
        let usable = entry.seen == found.seen
            && settled_before(&entry.seen, began_ns)
            && self.snapshots.place.has_object(&hash, found.seen.size);
        usable.then_some(hash)
    }

    fn read(
        &self,
        root: &Root,
        found: &Found,
        told: &Mutex<Vec<Note>>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Entry>, SnapshotError> {
        let place = root.full(&found.path);
        for turn in 1.. {
            // Removed since we looked: then it is not part of the snapshot.
            let Some(mut file) = open_regular(root, &found.path)? else { return Ok(None) };
            let before = rustix::fs::fstat(&file).map_err(at("look at", &place))?;
            let seen = Fingerprint::of(&before);
            let read = self.incoming.take(&mut file, seen.size, self.limits.max_bytes, buffer);
            let read = read.map_err(io_at("read", &place))??;
            let after = Fingerprint::of(&rustix::fs::fstat(&file).map_err(at("look at", &place))?);
            let steady = seen == after && read.bytes == seen.size;
            if !steady && turn < MOST_READS {
                continue;
            }
            if !steady {
                let note = Note { path: place, kind: NoteKind::ChangedWhileRead };
                told.lock().unwrap_or_else(PoisonError::into_inner).push(note);
            }
            self.files.fetch_add(1, Ordering::Relaxed);
            let all = self.bytes.fetch_add(read.bytes, Ordering::Relaxed) + read.bytes;
            if all > self.limits.max_bytes {
                return Err(SnapshotError::TooLarge { limit: self.limits.max_bytes });
            }
            return Ok(Some(Entry {
                path: found.path.clone(),
                kind: Kind::File(read.hash),
                mode: plain_mode(&before),
                owner: (before.st_uid, before.st_gid),
                // As much as was read, which is what a restore puts back.
                seen: Fingerprint { size: read.bytes, ..seen },
            }));
        }
        Ok(None)
    }
}

/// Opens a regular file; none if it is gone, and an error if it has become something else.
pub(crate) fn open_regular(root: &Root, path: &RelPath) -> Result<Option<File>, SnapshotError> {
    let place = root.full(path);
    let file = match root.file(path) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(errno) if interfered(errno) || errno == rustix::io::Errno::NXIO => {
            return Err(SnapshotError::Unsteady { path: place });
        }
        Err(errno) => return Err(at("read", &place)(errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(at("look at", &place))?;
    if kind_of(&stat) != FileType::RegularFile {
        return Err(SnapshotError::Unsteady { path: place });
    }
    Ok(Some(file))
}

/// Whether a file was last touched well before that moment, so that its fingerprint speaks for its content. A file that
/// was written in the same tick of the clock as it was read could have been written once more without a trace.
pub(crate) fn settled_before(seen: &Fingerprint, began_ns: i64) -> bool {
    let second = 1_000_000_000;
    // Stamps in whole seconds come from a file system that keeps no finer ones.
    let coarse = seen.mtime_ns % second == 0 && seen.ctime_ns % second == 0;
    let tick = if coarse { 2 * second } else { second / 20 };
    seen.mtime_ns.max(seen.ctime_ns) < began_ns.saturating_sub(tick)
}

/// The clock that stamps files. Not the caller's `now`: it is compared with those stamps.
pub(crate) fn wall_clock_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn latest_name(root: &Path) -> String {
    hex(blake3::hash(std::os::unix::ffi::OsStrExt::as_bytes(root.as_os_str())).as_bytes())
}

/// Does the same to many things on two threads, in any order, and answers in theirs. The first error ends it.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T, &mut Vec<u8>) -> Result<R, SnapshotError> + Sync,
) -> Result<Vec<R>, SnapshotError> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || -> Result<Vec<(usize, R)>, SnapshotError> {
        let (mut done, mut buffer) = (Vec::new(), Vec::new());
        while !failed.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            match work(item, &mut buffer) {
                Ok(answer) => done.push((index, answer)),
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(done)
    };
    let (mine, theirs) = if items.len() < WORTH_A_THREAD {
        (run(), Ok(Vec::new()))
    } else {
        std::thread::scope(|scope| {
            let other = scope.spawn(run);
            let mine = run();
            (mine, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    };
    let mut done = mine?;
    done.extend(theirs?);
    done.sort_unstable_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, answer)| answer).collect())
}
