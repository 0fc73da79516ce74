//! Work that keeps a core busy for a while. It is done beside everything else, a little at a time: whoever sends much must not keep
//! the server from its other clients, nor its workers from their heartbeats.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::problem::{Code, Problem};

/// How many are done at a time, and how long one waits for its turn.
static TURNS: Semaphore = Semaphore::const_new(2);
/// The same for bodies that are read: who sends much honestly does not wait for those who ask for much.
static READING: Semaphore = Semaphore::const_new(4);
const WAIT: Duration = Duration::from_secs(5);

/// Does this beside everything else, when it is its turn.
pub(crate) async fn heavy<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    in_turn(&TURNS, work).await
}

/// Reads a large body beside everything else, when it is its turn.
pub(crate) async fn reading<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    in_turn(&READING, work).await
}

async fn in_turn<T: Send + 'static>(
    turns: &'static Semaphore,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let Ok(Ok(turn)) = timeout(WAIT, turns.acquire()).await else { return Err(Problem::of(Code::TooMany)) };
    let done = tokio::task::spawn_blocking(move || {
        // Held until it is done, also when nobody waits for it any more.
        let _turn = turn;
        work()
    });
    done.await.map_err(|error| {
        tracing::error!(%error, "work that was asked for panicked, or was given up");
        Problem::of(Code::Internal)
    })
}

/// Refuses a text that is too long to be read for somebody else.
pub(crate) fn short_enough(text: &str, most: usize, field: &'static str) -> Result<(), Problem> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Problem::new(Code::TooLarge, "refused.large").with("bytes", text.len()).with("most", most).at(field))
}
