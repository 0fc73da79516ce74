//! Puts a tree back as a snapshot has it: compare, refuse what somebody else did, get everything ready beside the tree
//! (and check it while it is copied), write the journal, then take its steps. Until the journal is there the tree is
//! untouched; from then on it becomes the whole snapshot, if need be after the next start.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{Fingerprint, Root, stat_in};
use super::compare::compare;
use super::create::in_parallel;
use super::error::{Conflict, SnapshotError, at, io_at};
use super::fault::Fault;
use super::id::{SnapshotId, random_name};
use super::journal::{Journal, RootJournal, Step, give_to};
use super::locked::refuse_locked;
use super::manifest::{After, Hash, Manifest};
use super::name::{ASIDE, Bytes, RelPath, STAGING_PREFIX};
use super::object::copy_checked;
use super::place::{Lock, Part};
use super::plan::{Content, Plan, Planned, plan, room_for};
use super::{Snapshots, recover::Record};

/// How often a restore is planned again that somebody interferes with.
pub(crate) const MOST_PLANS: usize = 4;
const MOST_ASIDES: u32 = 100_000;

/// How to restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Also undo what somebody else did; it is moved aside like the rest.
    pub force: bool,
    /// Tell what would be done, conflicts included, and do nothing. What could not be done at all is an error here, too.
    pub dry_run: bool,
    /// How much of the tree is put back.
    pub scope: Scope,
}

/// How much of a tree is put back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// The tree is as the snapshot has it, or nothing is touched.
    #[default]
    Everything,
    /// Only what the work has changed, as [`Snapshots::mark_after`] recorded it. What somebody else has changed since, and
    /// the work had not, stays; what both have changed is a conflict.
    OwnChanges,
}

/// What a restore did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// The snapshot that the tree is now as.
    pub snapshot_id: SnapshotId,
    /// What the task that it was taken for had still to do.
    pub pending_subtasks: Vec<String>,
    /// Put back as the snapshot has them: content, kind or mode.
    pub restored_files: Vec<PathBuf>,
    /// Made since, and moved aside. A folder stands for all that is in it.
    pub deleted_files: Vec<PathBuf>,
    /// The folders that hold what was replaced or moved.
    pub asides: Vec<PathBuf>,
    /// Folders made since that stay, because of what is ignored in them.
    pub kept: Vec<PathBuf>,
    /// Changed by somebody after we compared: theirs is aside.
    pub changed_meanwhile: Vec<PathBuf>,
    /// What somebody else did since: overridden by force, or seen on a dry run.
    pub conflicts: Vec<Conflict>,
}

/// A root that is going to be restored.
struct Target {
    path: PathBuf,
    made: bool,
    plan: Plan,
}

impl Snapshots {
    /// Puts the tree back as that snapshot has it. Nothing is deleted: what was replaced or made since is moved into
    /// `.redrive-aside` in its root. See [`SnapshotError::Conflicts`] for what is refused.
    pub fn restore(
        &self,
        id: &SnapshotId,
        options: RestoreOptions,
        now_ms: i64,
    ) -> Result<Restored, SnapshotError> {
        let restoring = self.place.lock_restores()?;
        // One that was cut short is finished first. What cannot be is replaced by this one, where the roots are the same.
        let stuck = self.recover_locked(&restoring)?.1;
        let _shared = self.place.lock_shared()?;
        let manifest = self.manifest(id)?;
        let after = self.after(id)?;
        let targets = self.plan(&manifest, after.as_ref(), options.scope)?;
        let mut restored = told(&manifest, &targets);
        let immovable = targets.iter().any(|target| target.plan.immovable);
        if immovable || (!options.force && !restored.conflicts.is_empty()) {
            let refused = SnapshotError::Conflicts { conflicts: restored.conflicts.clone() };
            return if options.dry_run { Ok(restored) } else { Err(refused) };
        }
        // What would be refused is refused on a dry run, too.
        if let Some(path) = targets.iter().find_map(|target| target.plan.denied.as_deref()) {
            return Err(at("change", path)(Errno::ACCESS));
        }
        for target in targets.iter().filter(|target| !target.made) {
            refuse_locked(&Root::open(&target.path)?, &target.plan)?;
        }
        if options.dry_run {
            return Ok(restored);
        }
        if targets.iter().any(|target| target.made || !target.plan.is_empty()) {
            let record = self.commit(&manifest, targets, options.scope, now_ms, &restoring)?;
            self.supersede(stuck, &record)?;
            let finished = self.finish(record, &restoring)?;
            restored.changed_meanwhile = finished.changed;
            restored.asides = finished.asides;
        } else if options.scope == Scope::Everything {
            self.place.remove(Part::After, id.as_str())?;
        }
        Ok(restored)
    }

    /// What each root needs. Everything in a manifest has been checked by now.
    fn plan(
        &self,
        manifest: &Manifest,
        after: Option<&After>,
        scope: Scope,
    ) -> Result<Vec<Target>, SnapshotError> {
        let never = self.never_touched();
        let mut targets = Vec::new();
        for (index, header) in manifest.header.roots.iter().enumerate() {
            let path = manifest.root_path(index);
            let compared = compare(manifest, index, &never)?;
            let plan = plan(&path, header, &compared, after.map(|after| (after, index)), scope)?;
            targets.push(Target { path, made: compared.root.is_none(), plan });
        }
        Ok(targets)
    }

    /// Plans again after somebody interfered with a committed restore: by now whatever they did goes aside.
    pub(crate) fn commit_anew(&self, journal: &Journal, restoring: &Lock) -> Result<Record, SnapshotError> {
        let manifest = self.manifest(&journal.snapshot_id)?;
        let also = Snapshots {
            never: self.never.iter().cloned().chain(journal.never.iter().map(Bytes::to_path)).collect(),
            ..self.clone()
        };
        // What is put back in part never reaches beyond that part.
        let (after, scope) = if journal.own {
            (self.after(&journal.snapshot_id)?, Scope::OwnChanges)
        } else {
            (None, Scope::Everything)
        };
        let targets = also.plan(&manifest, after.as_ref(), scope)?;
        also.commit(&manifest, targets, scope, journal.began_at, restoring)
    }

    /// Gets everything ready and writes the journal. An error before that leaves the tree as it was.
    fn commit(
        &self,
        manifest: &Manifest,
        targets: Vec<Target>,
        scope: Scope,
        now_ms: i64,
        _restoring: &Lock,
    ) -> Result<Record, SnapshotError> {
        let name = random_name()?;
        let staging = RelPath::new(format!("{STAGING_PREFIX}{name}").into())?;
        let mut journal = Journal {
            snapshot_id: manifest.header.snapshot_id.clone(),
            began_at: now_ms,
            own: scope == Scope::OwnChanges,
            keep_ms: manifest.header.expires_at.saturating_sub(manifest.header.created_at),
            never: self.never_touched().iter().map(|path| Bytes::of_path(path)).collect(),
            roots: Vec::new(),
        };
        for target in &targets {
            journal.roots.push(RootJournal {
                path: Bytes::of_path(&target.path),
                staging: staging.clone(),
                aside: free_aside(target, &journal.snapshot_id)?,
                made: target.made,
                steps: Vec::new(),
            });
        }
        check_room(&targets)?;
        self.place.write(Part::Restores, &format!("{name}.staging"), &journal.write()?, false)?;
        let staged = (|| {
            for (part, target) in journal.roots.iter_mut().zip(targets) {
                part.steps = self.stage(&staging, target)?;
            }
            self.place.write(Part::Asides, &name, &journal.without_steps().write()?, true)?;
            self.place.write(Part::Restores, &format!("{name}.apply"), &journal.write()?, false)
        })();
        if let Err(error) = staged {
            // Not committed: our folder goes, and the error is what counts. What cannot be removed now is removed by
            // the next start, which finds the record.
            let _next_start = journal
                .remove_staging()
                .and_then(|()| journal.remove_made_roots())
                .and_then(|()| self.place.remove(Part::Asides, &name))
                .and_then(|()| self.place.remove(Part::Restores, &format!("{name}.staging")));
            return Err(error);
        }
        self.place.remove(Part::Restores, &format!("{name}.staging"))?;
        Ok(Record { name, journal })
    }

    /// Writes what is going to be put into place into our folder in the root. Contents are checked as they are copied.
    fn stage(&self, staging: &RelPath, target: Target) -> Result<Vec<Step>, SnapshotError> {
        if target.made {
            make_root(&target.path)?;
        }
        let root = Root::open(&target.path)?;
        let place = root.full(staging);
        rustix::fs::mkdirat(root.fd(), staging.bytes(), Mode::RWXU).map_err(at("make the folder", &place))?;
        let folder = root.handle(Some(staging)).map_err(at("open", &place))?;
        let numbered: Vec<(u64, &Planned)> = (0..).zip(&target.plan.puts).collect();
        let puts = in_parallel(&numbered, |(number, put), buffer| {
            self.stage_one(&folder, &root, *number, put, buffer)
        })?;
        rustix::fs::syncfs(root.fd()).map_err(at("sync", &root.path))?;
        let Plan { before, modes, .. } = target.plan;
        Ok(before.into_iter().chain(puts).chain(modes).collect())
    }

    fn stage_one(
        &self,
        folder: &std::os::fd::OwnedFd,
        root: &Root,
        number: u64,
        put: &Planned,
        buffer: &mut Vec<u8>,
    ) -> Result<Step, SnapshotError> {
        let (name, place) = (number.to_string(), root.full(&put.path));
        match &put.content {
            Content::Link(text) => {
                rustix::fs::symlinkat(text.as_slice(), folder, name.as_bytes())
                    .map_err(at("get ready the link", &place))?;
                let link = rustix::fs::openat(
                    folder,
                    name.as_bytes(),
                    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                );
                link.and_then(|link| give_to(link, put.owner)).map_err(at("give away", &place))?;
            }
            Content::File { hash, mode, .. } => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = rustix::fs::openat(folder, name.as_bytes(), flags, Mode::RUSR | Mode::WUSR);
                let mut file = std::fs::File::from(made.map_err(at("get ready", &place))?);
                self.copy_object(hash, &mut file, &place, buffer)?;
                give_to(&file, put.owner).map_err(at("give away", &place))?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))
                    .map_err(at("set the mode of", &place))?;
            }
        }
        let stat = stat_in(folder, name.as_bytes()).map_err(at("look at", &place))?;
        let stat = stat.ok_or(SnapshotError::Unsteady { path: place })?;
        Ok(put.step(number, &Fingerprint::of(&stat)))
    }

    fn copy_object(
        &self,
        hash: &Hash,
        file: &mut std::fs::File,
        place: &std::path::Path,
        buffer: &mut Vec<u8>,
    ) -> Result<(), SnapshotError> {
        let damaged = |why| SnapshotError::Damaged { what: place.to_owned(), why };
        let object = self.place.object(hash);
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(&object);
        let mut opened = opened.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => damaged(Fault::ContentMissing),
            _ => io_at("read", &object)(error),
        })?;
        if copy_checked(&mut opened, file, hash, buffer).map_err(io_at("copy to", place))? {
            return Ok(());
        }
        // Out of the way, so that the next snapshot of the same content keeps it anew.
        let aside = object.with_extension("damaged");
        std::fs::rename(&object, &aside).map_err(io_at("set aside", &object))?;
        Err(damaged(Fault::ContentChanged))
    }
}

fn told(manifest: &Manifest, targets: &[Target]) -> Restored {
    let all =
        |of: fn(&Plan) -> &Vec<PathBuf>| targets.iter().flat_map(|target| of(&target.plan).clone()).collect();
    Restored {
        snapshot_id: manifest.header.snapshot_id.clone(),
        pending_subtasks: manifest.header.pending_subtasks.clone(),
        restored_files: all(|plan| &plan.restored),
        deleted_files: all(|plan| &plan.moved),
        asides: Vec::new(),
        kept: all(|plan| &plan.kept),
        changed_meanwhile: Vec::new(),
        conflicts: targets.iter().flat_map(|target| target.plan.conflicts.clone()).collect(),
    }
}

/// Room for everything that is going to be written, looked for before anything is.
fn check_room(targets: &[Target]) -> Result<(), SnapshotError> {
    for target in targets {
        let (path, made) = (&target.path, target.made);
        let there = if made { path.parent().unwrap_or(path) } else { path };
        let disk = match rustix::fs::statvfs(there) {
            Err(Errno::NOENT) => return Err(SnapshotError::RootGone { path: path.clone() }),
            disk => disk.map_err(at("look at the disk of", there))?,
        };
        let free = if rustix::process::geteuid().is_root() { disk.f_bfree } else { disk.f_bavail };
        let short = |why| Err(SnapshotError::NoRoom { path: path.clone(), why });
        if room_for(&target.plan) > free.saturating_mul(disk.f_frsize) {
            return short(Fault::DoesNotFit);
        }
        // Some file systems have no fixed number of them, and say 0.
        let entries = target.plan.puts.len() as u64 + target.plan.before.len() as u64;
        if disk.f_files > 0 && entries > disk.f_ffree {
            return short(Fault::NoInodes);
        }
    }
    Ok(())
}

/// A root that is gone is made again, in the folder that it was in.
fn make_root(path: &std::path::Path) -> Result<(), SnapshotError> {
    let gone = || SnapshotError::RootGone { path: path.to_owned() };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(gone()) };
    if parent.parent().is_none() {
        // Directly below `/`: that is always there.
        let slash = rustix::fs::open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let made = slash.and_then(|slash| rustix::fs::mkdirat(&slash, name, Mode::RWXU));
        return made.map_err(at("make the root", path));
    }
    let parent = match Root::open(parent) {
        Err(SnapshotError::RootGone { .. }) => return Err(gone()),
        opened => opened?,
    };
    match rustix::fs::mkdirat(parent.fd(), name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(at("make the root", path)(errno)),
    }
}

/// A folder for what is moved aside that nobody has used yet.
fn free_aside(target: &Target, id: &SnapshotId) -> Result<RelPath, SnapshotError> {
    let name = |number: u32| RelPath::new(format!("{ASIDE}/{id}-{number}").into());
    if target.made {
        return name(1);
    }
    let root = Root::open(&target.path)?;
    for number in 1..MOST_ASIDES {
        let aside = name(number)?;
        match root.stat(&aside) {
            Ok(None) | Err(Errno::NOENT) => return Ok(aside),
            Ok(Some(_)) => {}
            Err(errno) => return Err(at("look at", &root.full(&aside))(errno)),
        }
    }
    Err(SnapshotError::NoRoom { path: target.path.join(ASIDE), why: Fault::TooManyAsides })
}
