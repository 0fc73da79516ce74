//! Readers: a few threads with connections of their own, so that looking never waits for writing.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::batch::{Batch, Memory};
use super::statements::Statements;
use crate::error::{StoreError, Trouble};
use crate::seal::Keeper;

/// How many read at once.
const READERS: usize = 2;
/// The most that may wait.
const MAX_WAITING: usize = 1_024;

type Wish = Box<dyn FnOnce(&Statements<'_>) + Send>;

pub(super) struct Readers {
    sender: Mutex<Option<SyncSender<Wish>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Readers {
    pub(super) fn start(
        keeper: &Arc<Keeper>,
        mut connect: impl FnMut() -> Result<Connection, StoreError>,
    ) -> Result<Readers, StoreError> {
        let (sender, receiver) = sync_channel::<Wish>(MAX_WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for _ in 0..READERS {
            let (connection, receiver, keeper) = (connect()?, Arc::clone(&receiver), Arc::clone(keeper));
            let thread = std::thread::Builder::new()
                .name("redrive-reader".to_owned())
                .spawn(move || serve(&connection, &keeper, &receiver))
                .map_err(|error| Trouble::Database(error.to_string()))?;
            threads.push(thread);
        }
        Ok(Readers { sender: Mutex::new(Some(sender)), threads: Mutex::new(threads) })
    }

    /// Runs a read in one transaction, on one consistent state of the store.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        wish: impl FnOnce(&mut Batch<'_, '_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.look(move |statements| {
            let transaction = statements.connection().unchecked_transaction()?;
            let mut memory = Memory::default();
            let mut batch = Batch::begin(statements, &mut memory)?;
            let answer = wish(&mut batch);
            drop(batch);
            drop(transaction);
            answer
        })
        .await
    }

    /// Runs a single statement, which says itself whose store it is and under which keys.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        wish: impl FnOnce(&Statements<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job: Wish = Box::new(move |statements| {
            // The caller may be gone; then nobody wants to know.
            drop(reply.send(wish(statements)));
        });
        let sent = match &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(sender) => sender.try_send(job).map_err(|unsent| match unsent {
                TrySendError::Full(_) => Trouble::Overloaded,
                TrySendError::Disconnected(_) => Trouble::Closed,
            }),
            None => Err(Trouble::Closed),
        };
        sent?;
        answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))
    }

    pub(super) fn stop(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reading thread panicked");
            }
        }
    }
}

fn serve(connection: &Connection, keeper: &Keeper, receiver: &Mutex<Receiver<Wish>>) {
    let statements = Statements::new(connection, keeper);
    loop {
        // The lock is held while waiting: the next reader waits for it instead.
        let wish = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(wish) = wish else { return };
        wish(&statements);
    }
}
