//! Restores that were cut short. One that was committed is carried to its end; one that was not is as if it had never
//! begun. Whoever opens the folder does this, under a lock that a dead process does not hold.

use std::path::PathBuf;

use super::error::SnapshotError;
use super::id::SnapshotId;
use super::journal::Journal;
use super::place::{Lock, Part};
use super::restore::MOST_PLANS;
use super::{Root, Snapshots};

/// A restore that was cut short, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The snapshot that was being restored.
    pub snapshot_id: SnapshotId,
    /// Where.
    pub roots: Vec<PathBuf>,
    /// What became of it.
    pub outcome: RecoveredOutcome,
}

/// What became of a restore that was cut short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveredOutcome {
    /// It had been committed, and the tree is now the whole snapshot.
    Finished,
    /// It had not been committed, and the tree is as it was before.
    Undone,
    /// It could not be finished now, and will be tried again; why.
    Waiting {
        /// What stands in the way.
        why: String,
    },
}

/// A committed restore and the name of its record.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) name: String,
    pub(crate) journal: Journal,
}

pub(crate) struct Finished {
    pub(crate) changed: Vec<PathBuf>,
    pub(crate) asides: Vec<PathBuf>,
}

impl Journal {
    pub(crate) fn without_steps(&self) -> Journal {
        let mut bare = self.clone();
        bare.roots.iter_mut().for_each(|root| root.steps.clear());
        bare
    }

    fn root_paths(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| root.path.to_path()).collect()
    }
}

impl Snapshots {
    /// Finishes restores that were cut short, and waits for one that is under way. `open` has done this already; a
    /// process that runs for long may do it again.
    pub fn recover(&self) -> Result<Vec<Recovered>, SnapshotError> {
        let restoring = self.place.lock_restores()?;
        Ok(self.recover_locked(&restoring)?.0)
    }

    /// The same, but only when there is something and nobody is at it.
    pub(crate) fn recover_if_left(&self) -> Result<Vec<Recovered>, SnapshotError> {
        if self.place.is_empty(Part::Restores)? {
            return Ok(Vec::new());
        }
        match self.place.try_lock_restores()? {
            Some(restoring) => Ok(self.recover_locked(&restoring)?.0),
            None => Ok(Vec::new()),
        }
    }

    /// Before something relies on these trees being whole: waits for restores, and fails if one of theirs is stuck.
    pub(crate) fn settle_restores(&self, roots: &[PathBuf]) -> Result<(), SnapshotError> {
        if self.place.is_empty(Part::Restores)? {
            return Ok(());
        }
        let restoring = self.place.lock_restores()?;
        for stuck in self.recover_locked(&restoring)?.1 {
            let near =
                |root: &PathBuf| roots.iter().any(|other| root.starts_with(other) || other.starts_with(root));
            if let Some(path) = stuck.journal.root_paths().into_iter().find(near) {
                let source = Box::new(SnapshotError::Unsteady { path });
                return Err(SnapshotError::Unfinished { id: stuck.journal.snapshot_id, source });
            }
        }
        Ok(())
    }

    /// What became of each, and those that are stuck.
    pub(crate) fn recover_locked(
        &self,
        restoring: &Lock,
    ) -> Result<(Vec<Recovered>, Vec<Record>), SnapshotError> {
        self.place.sweep_restores(restoring)?;
        let names = self.place.names(Part::Restores)?;
        let (mut told, mut stuck) = (Vec::new(), Vec::new());
        for file in &names {
            let Some((name, phase)) = file.rsplit_once('.') else { continue };
            // Committed, and killed before the older record was removed.
            if phase == "staging" && names.iter().any(|other| *other == format!("{name}.apply")) {
                self.place.remove(Part::Restores, file)?;
                continue;
            }
            let Some(written) = self.place.read(Part::Restores, file)? else { continue };
            let journal = Journal::read(&self.place.file(Part::Restores, file), &written)?;
            let (snapshot_id, roots) = (journal.snapshot_id.clone(), journal.root_paths());
            let record = Record { name: name.to_owned(), journal };
            let done = match phase {
                "apply" => self.finish(record.clone(), restoring).map(|_| RecoveredOutcome::Finished),
                "clean" => self.clean(&record).map(|()| RecoveredOutcome::Finished),
                _ => self.undo(&record).map(|()| RecoveredOutcome::Undone),
            };
            let outcome = done.unwrap_or_else(|error| {
                stuck.push(record);
                RecoveredOutcome::Waiting { why: error.to_string() }
            });
            told.push(Recovered { snapshot_id, roots, outcome });
        }
        Ok((told, stuck))
    }

    /// Takes the steps of a committed restore. If somebody interferes it is planned again, a few times.
    pub(crate) fn finish(&self, mut record: Record, restoring: &Lock) -> Result<Finished, SnapshotError> {
        let mut finished = Finished { changed: Vec::new(), asides: Vec::new() };
        let unfinished =
            |id: &SnapshotId, error| SnapshotError::Unfinished { id: id.clone(), source: Box::new(error) };
        for turn in 1..=MOST_PLANS {
            match record.journal.apply() {
                Ok(changed) => {
                    finished.changed.extend(changed);
                    break;
                }
                Err(SnapshotError::Unsteady { .. }) if turn < MOST_PLANS => {
                    let again = self.commit_anew(&record.journal, restoring);
                    let again = again.map_err(|error| unfinished(&record.journal.snapshot_id, error))?;
                    finished.asides.extend(asides_of(&record.journal)?);
                    self.supersede(vec![record], &again)?;
                    record = again;
                }
                Err(error) => return Err(unfinished(&record.journal.snapshot_id, error)),
            }
        }
        finished.asides.extend(asides_of(&record.journal)?);
        // The tree is as the snapshot has it: how the work left it is past.
        if !record.journal.own {
            self.place.remove(Part::After, record.journal.snapshot_id.as_str())?;
        }
        let (apply, clean) = (format!("{}.apply", record.name), format!("{}.clean", record.name));
        let from = self.place.file(Part::Restores, &apply);
        std::fs::rename(&from, self.place.file(Part::Restores, &clean))
            .map_err(super::error::io_at("rename", &from))?;
        self.place.sync(Part::Restores)?;
        self.clean(&record)?;
        Ok(finished)
    }

    fn clean(&self, record: &Record) -> Result<(), SnapshotError> {
        record.journal.remove_staging()?;
        self.place.remove(Part::Restores, &format!("{}.clean", record.name))
    }

    fn undo(&self, record: &Record) -> Result<(), SnapshotError> {
        record.journal.remove_staging()?;
        record.journal.remove_made_roots()?;
        self.place.remove(Part::Asides, &record.name)?;
        self.place.remove(Part::Restores, &format!("{}.staging", record.name))
    }

    /// Drops restores whose place a newer one has taken.
    pub(crate) fn supersede(&self, older: Vec<Record>, newer: &Record) -> Result<(), SnapshotError> {
        let newer = newer.journal.root_paths();
        for record in older {
            if record.journal.root_paths().iter().all(|root| newer.contains(root)) {
                match record.journal.remove_staging() {
                    Ok(()) | Err(SnapshotError::RootGone { .. }) => {}
                    Err(error) => return Err(error),
                }
                for phase in ["apply", "clean", "staging"] {
                    self.place.remove(Part::Restores, &format!("{}.{phase}", record.name))?;
                }
            }
        }
        Ok(())
    }
}

/// The folders that hold what was moved aside, of those that there are.
pub(crate) fn asides_of(journal: &Journal) -> Result<Vec<PathBuf>, SnapshotError> {
    let mut asides = Vec::new();
    for part in &journal.roots {
        let root = Root::open(&part.path.to_path())?;
        if let Ok(Some(_)) = root.stat(&part.aside) {
            asides.push(root.full(&part.aside));
        }
    }
    Ok(asides)
}
