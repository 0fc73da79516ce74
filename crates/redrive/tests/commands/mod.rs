//! What the tests of commands share: scripts, writers that keep what they are given, and a look at who is still alive.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use redrive::{CommandSpec, Evidence, Executed, Outcome, Writer};
use tokio::io::AsyncWrite;
use tokio::time::{Instant, sleep};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn sh(script: &str) -> CommandSpec {
    CommandSpec::new(["sh", "-c", script])
}

pub(crate) fn evidence(executed: &Executed) -> &Evidence {
    match &executed.outcome {
        Outcome::Failed(evidence) => evidence,
        other => panic!("it did not fail: {other:?}"),
    }
}

/// Looks again and again until it is so.
pub(crate) async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a process has ended; one that is dead and only not reaped has.
pub(crate) async fn gone(pid: &str) {
    assert!(pid.parse::<u32>().is_ok_and(|pid| pid > 1), "{pid:?} is no process");
    until(&format!("the end of process {pid}"), || !lives(pid)).await;
}

pub(crate) fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with(['Z', 'X']))
}

/// The number behind a name in a file of `/proc`.
pub(crate) fn number_in(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Keeps what is written.
#[derive(Clone, Default)]
pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

impl Sink {
    pub(crate) fn writer(&self) -> Writer {
        Box::new(self.clone())
    }

    /// A writer whose reader has gone.
    pub(crate) fn broken() -> Writer {
        let (ours, theirs) = tokio::io::duplex(16);
        drop(theirs);
        Box::new(ours)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until what has come looks like this.
    pub(crate) async fn until(&self, so: impl Fn(&[u8]) -> bool) {
        until("output", || so(&self.0.lock().unwrap())).await;
    }

    /// Waits for so many whole lines.
    pub(crate) async fn lines(&self, count: usize) -> Vec<String> {
        self.until(|bytes| bytes.split(|byte| *byte == b'\n').count() > count).await;
        String::from_utf8(self.bytes()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl AsyncWrite for Sink {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, chunk: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(chunk);
        Poll::Ready(Ok(chunk.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
