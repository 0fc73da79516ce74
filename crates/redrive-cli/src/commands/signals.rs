//! SIGINT and SIGTERM as something to wait for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The numbers that an exit code is made of: 128 and one of these.
pub(super) const SIGINT: i32 = signal_hook::consts::SIGINT;
const SIGTERM: i32 = signal_hook::consts::SIGTERM;

/// Whoever asks us to end.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Needs a runtime. From here on these signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SIGINT,
            _ = self.terminate.recv() => SIGTERM,
        }
    }
}
