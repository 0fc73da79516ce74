//! Room kept for a full disk: a file of zeros beside the store. When the disk is full it is given up, so that work which
//! is under way can still be settled; new work is refused until there is room for the file again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Enough to settle some thousand jobs.
const BYTES: u64 = 2 << 20;
/// How often room is looked for again.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Reserve {
    path: PathBuf,
    /// Whether it was given up; then only what ends work is written.
    given_up: bool,
    looked: Instant,
}

impl Reserve {
    /// Sets the room aside, if there is room.
    pub(super) fn keep(database: &Path) -> Reserve {
        let mut path = database.as_os_str().to_owned();
        path.push("-reserve");
        let reserve = Reserve { path: path.into(), given_up: false, looked: Instant::now() };
        reserve.fill();
        reserve
    }

    /// Whether only what ends work may be written.
    pub(super) fn is_given_up(&self) -> bool {
        self.given_up
    }

    /// Gives the room up. Answers whether there was any to give.
    pub(super) fn give_up(&mut self) -> bool {
        self.given_up = true;
        self.looked = Instant::now();
        let there = std::fs::metadata(&self.path).is_ok_and(|found| found.len() > 0);
        there && std::fs::remove_file(&self.path).is_ok()
    }

    /// Sets the room aside again once the disk has some.
    pub(super) fn look(&mut self) {
        if self.given_up && self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            if self.fill() {
                tracing::info!("the disk has room again: new work is taken");
                self.given_up = false;
            }
        }
    }

    fn fill(&self) -> bool {
        if std::fs::metadata(&self.path).is_ok_and(|found| found.len() >= BYTES) {
            return true;
        }
        let fill = || -> std::io::Result<()> {
            let file: File =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BYTES)?;
            Ok(())
        };
        match fill() {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "no room is kept for a full disk");
                // Half a reserve is none. That it cannot be removed changes nothing.
                let _removed = std::fs::remove_file(&self.path);
                false
            }
        }
    }
}
