//! The few connections of this process: opened when they are needed, kept while they work, dropped when they fail.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::fault::Fault;
use super::line::{ANSWERS_WITHIN, Line};
use super::open::Address;
use super::texts::Texts;

/// How long somebody waits for a connection before it counts as lost.
const WAIT_FOR_LINE: Duration = Duration::from_secs(15);

pub(super) struct Pool {
    address: Address,
    texts: Rc<Texts>,
    free: RefCell<Vec<Line>>,
    permits: Semaphore,
    down_since: Cell<Option<Instant>>,
    answers: Arc<AtomicBool>,
}

impl Pool {
    pub(super) fn new(
        address: Address,
        texts: Rc<Texts>,
        most: usize,
        first: Line,
        answers: Arc<AtomicBool>,
    ) -> Pool {
        Pool {
            address,
            texts,
            free: RefCell::new(vec![first]),
            permits: Semaphore::new(most.max(1)),
            down_since: Cell::new(None),
            answers,
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    pub(super) fn texts(&self) -> &Rc<Texts> {
        &self.texts
    }

    /// A connection that works, as far as is known.
    pub(super) async fn line(&self) -> Result<Borrowed<'_>, Fault> {
        let waiting = tokio::time::timeout(WAIT_FOR_LINE, self.permits.acquire()).await;
        let permit = waiting
            .map_err(|_| Fault::Lost("every connection has been busy for 15 s".to_owned()))?
            .map_err(|_| Fault::Final(crate::error::Trouble::Closed.into()))?;
        loop {
            let Some(line) = self.free.borrow_mut().pop() else { break };
            if !line.is_closed() {
                line.allow(ANSWERS_WITHIN);
                return Ok(Borrowed { pool: self, line: Some(line), _permit: permit });
            }
        }
        let line = self.address.connect(&self.texts).await?;
        super::timeline::greet(&line).await?;
        Ok(Borrowed { pool: self, line: Some(line), _permit: permit })
    }

    /// Since when the database has not answered.
    pub(super) fn down_since(&self) -> Option<Instant> {
        self.down_since.get()
    }

    /// It answers, or it does not.
    pub(super) fn note(&self, works: bool) {
        self.answers.store(works, Ordering::Relaxed);
        if works {
            self.down_since.set(None);
        } else if self.down_since.get().is_none() {
            self.down_since.set(Some(Instant::now()));
        }
    }
}

/// A connection on loan. It goes back unless it is said to be broken.
pub(super) struct Borrowed<'a> {
    pool: &'a Pool,
    line: Option<Line>,
    _permit: SemaphorePermit<'a>,
}

impl Borrowed<'_> {
    /// Nothing good comes from this one any more.
    pub(super) fn discard(mut self) {
        self.line = None;
    }
}

impl Deref for Borrowed<'_> {
    type Target = Line;

    fn deref(&self) -> &Line {
        match &self.line {
            Some(line) => line,
            // Only `discard` takes it, and that takes all of us.
            None => unreachable!("a connection that was discarded is used"),
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take().filter(|line| !line.is_closed()) {
            self.pool.free.borrow_mut().push(line);
        }
    }
}
