//! Checkpoints: moving what the journal holds into the main file, off the path of commits.
//!
//! A thread of its own copies while commits go on. It can never catch up with a busy writer entirely, so the writer
//! finishes the last few pages itself between two commits; then the next commit begins at the journal's start and
//! overwrites it, which costs half of what growing it would.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

/// From so many pages on that wait in the journal it is copied: 8 MiB.
const BEGIN_PAGES: i64 = 2_048;
/// From this size on somebody keeps the journal from being reused: 256 MiB.
const TOO_LONG_PAGES: i64 = 65_536;
/// How many commits pass between two looks at the journal's size.
const LOOK_EVERY: u32 = 32;

pub(super) struct Checkpoints {
    since_look: u32,
    ask: Option<SyncSender<()>>,
    nearly_done: Arc<AtomicBool>,
    warned: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    /// Starts the thread, which has a connection of its own.
    pub(super) fn start(connection: Connection) -> std::io::Result<Checkpoints> {
        let (ask, asked) = sync_channel(1);
        let nearly_done = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&nearly_done);
        let thread = std::thread::Builder::new()
            .name("redrive-checkpoint".to_owned())
            .spawn(move || copy(&connection, &asked, &tell))?;
        Ok(Checkpoints { since_look: 0, ask: Some(ask), nearly_done, warned: false, thread: Some(thread) })
    }

    /// Called by the writer between two commits.
    pub(super) fn tidy(&mut self, connection: &Connection) {
        if self.nearly_done.swap(false, Ordering::AcqRel) {
            journal(connection, "PRAGMA wal_checkpoint(PASSIVE)");
        }
        self.since_look += 1;
        if self.since_look < LOOK_EVERY {
            return;
        }
        self.since_look = 0;
        let Some((pages, copied)) = journal(connection, "PRAGMA wal_checkpoint(NOOP)") else { return };
        if pages >= TOO_LONG_PAGES && !self.warned {
            tracing::warn!(pages, "the journal is not reused: somebody reads an old state of the store");
        }
        self.warned = pages >= TOO_LONG_PAGES;
        if pages - copied >= BEGIN_PAGES
            && let Some(ask) = &self.ask
        {
            // Full means that it is at it already.
            let _asked = ask.try_send(());
        }
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

fn copy(connection: &Connection, asked: &Receiver<()>, nearly_done: &AtomicBool) {
    while asked.recv().is_ok() {
        if journal(connection, "PRAGMA wal_checkpoint(PASSIVE)").is_some() {
            nearly_done.store(true, Ordering::Release);
        }
    }
}

/// Runs a checkpoint of that kind: how many pages the journal has, and how many of them are in the main file.
fn journal(connection: &Connection, pragma: &'static str) -> Option<(i64, i64)> {
    let run = || {
        connection
            .prepare_cached(pragma)?
            .query_row([], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)))
    };
    match run() {
        Ok(pages) => Some(pages),
        Err(error) => {
            // The commit path meets the same disk and says so to those who wait; the journal keeps everything.
            tracing::warn!(%error, "a checkpoint failed");
            None
        }
    }
}
