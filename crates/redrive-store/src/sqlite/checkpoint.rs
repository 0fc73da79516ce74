//! Checkpoints: moving what the journal holds into the main file, off the path of commits.
//!
//! A thread of its own copies while commits go on. It can never catch up with a busy writer entirely, so the writer
//! finishes the last few pages itself between two commits; then the next commit begins at the journal's start and
//! overwrites it, which costs half of what growing it would.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::open;
use crate::error::{StoreError, Trouble};

/// From so many pages on that wait in the journal it is copied: 8 MiB.
const BEGIN_PAGES: i64 = 2_048;
/// From this size on the journal is made to begin anew, with everybody else waiting for it: 32 MiB. Where several processes
/// write, none of them ever finds a moment in which nobody has just written.
const INSIST_PAGES: i64 = 8_192;
/// How long others may keep us from it, and how long we let it be afterwards: ten times as long.
const INSIST_FOR: Duration = Duration::from_millis(25);
const INSIST_EVERY: Duration = Duration::from_millis(250);
/// From this size on somebody keeps the journal from being reused: 256 MiB.
const TOO_LONG_PAGES: i64 = 65_536;
/// How many commits pass between two looks at the journal's size.
const LOOK_EVERY: u32 = 8;
/// How long a commit is held up for whoever is copying, so that nobody fills the journal faster than it is emptied.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(1);
/// The same for a journal of twice the size, which only a disk that is overwhelmed can have.
const CATCH_UP_AT_LAST: Duration = Duration::from_secs(30);

pub(super) struct Checkpoints {
    since_look: u32,
    ask: Option<SyncSender<()>>,
    nearly_done: Arc<AtomicBool>,
    /// The first failure of the disk. A sync that failed once may lie the next time, so it is never tried again.
    failure: Arc<OnceLock<StoreError>>,
    insisted: Option<Instant>,
    warned: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread, which has a connection of its own.
    pub(super) fn start(connection: Connection) -> std::io::Result<Checkpoints> {
        let (ask, asked) = sync_channel(1);
        let nearly_done = Arc::new(AtomicBool::new(false));
        let failure = Arc::new(OnceLock::new());
        let (tell, failed) = (Arc::clone(&nearly_done), Arc::clone(&failure));
        let thread = std::thread::Builder::new()
            .name("redrive-checkpoint".to_owned())
            .spawn(move || copy(&connection, &asked, &tell, &failed))?;
        Ok(Checkpoints {
            since_look: 0,
            ask: Some(ask),
            nearly_done,
            failure,
            insisted: None,
            warned: false,
            thread: Some(thread),
        })
    }

    /// How the disk failed under a checkpoint, if it did.
    pub(super) fn failure(&self) -> Option<&StoreError> {
        self.failure.get()
    }

    /// Called by the writer between two commits.
    pub(super) fn tidy(&mut self, connection: &Connection) {
        if self.failure.get().is_some() {
            return;
        }
        if self.nearly_done.swap(false, Ordering::AcqRel) {
            journal(connection, "PRAGMA wal_checkpoint(PASSIVE)", &self.failure);
        }
        self.since_look += 1;
        if self.since_look < LOOK_EVERY {
            return;
        }
        self.since_look = 0;
        let Some(Journal { pages, copied, .. }) =
            journal(connection, "PRAGMA wal_checkpoint(NOOP)", &self.failure)
        else {
            return;
        };
        if pages >= TOO_LONG_PAGES && !self.warned {
            tracing::warn!(pages, "the journal is not reused: somebody reads an old state of the store");
        }
        self.warned = pages >= TOO_LONG_PAGES;
        if pages >= INSIST_PAGES && self.insisted.is_none_or(|before| before.elapsed() >= INSIST_EVERY) {
            self.insist(
                connection,
                if pages >= 2 * INSIST_PAGES { CATCH_UP_AT_LAST } else { CATCH_UP_WITHIN },
            );
            return;
        }
        if pages - copied >= BEGIN_PAGES
            && let Some(ask) = &self.ask
        {
            // Full means that it is at it already, and will be asked once more.
            let _asked = ask.try_send(());
        }
    }

    /// Copies the rest while nobody else may write, so that the next commit, whoever's it is, begins at the journal's
    /// start. A reader of an old state prevents it: then it is tried again later.
    ///
    /// Only one copies at a time, in our thread or in another process; on a disk that is busy that takes longer than we would wait
    /// for a reader. So it is waited for first, and what it has left is copied.
    fn insist(&mut self, connection: &Connection, within: Duration) {
        let began = Instant::now();
        while journal(connection, "PRAGMA wal_checkpoint(PASSIVE)", &self.failure)
            .is_some_and(|journal| journal.is_busy)
        {
            if began.elapsed() >= within {
                // Not let be afterwards: a few commits later we wait again.
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        open::with_patience(INSIST_FOR, || {
            journal(connection, "PRAGMA wal_checkpoint(RESTART)", &self.failure)
        });
        self.insisted = Some(Instant::now());
    }

    pub(super) fn stop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpointing thread panicked");
        }
    }
}

fn copy(
    connection: &Connection,
    asked: &Receiver<()>,
    nearly_done: &AtomicBool,
    failure: &OnceLock<StoreError>,
) {
    while asked.recv().is_ok() && failure.get().is_none() {
        if journal(connection, "PRAGMA wal_checkpoint(PASSIVE)", failure).is_some() {
            nearly_done.store(true, Ordering::Release);
        }
    }
}

/// What a checkpoint tells.
struct Journal {
    /// Somebody else was at it, or in the way of beginning anew.
    is_busy: bool,
    /// How many pages the journal has, and how many of them are in the main file.
    pages: i64,
    copied: i64,
}

/// Runs a checkpoint of that kind.
fn journal(connection: &Connection, pragma: &'static str, failure: &OnceLock<StoreError>) -> Option<Journal> {
    let run = || {
        connection.prepare_cached(pragma)?.query_row([], |row| {
            Ok(Journal { is_busy: row.get(0)?, pages: row.get(1)?, copied: row.get(2)? })
        })
    };
    match run() {
        Ok(told) => Some(told),
        Err(error) => {
            // The journal keeps everything. On a full disk the next one may succeed; after a failure there is no next one.
            tracing::warn!(%error, "a checkpoint failed");
            let error = StoreError::from(error);
            if matches!(error.trouble(), Trouble::Broken(_)) {
                // Another one was first: one is enough.
                let _known = failure.set(error);
            }
            None
        }
    }
}
