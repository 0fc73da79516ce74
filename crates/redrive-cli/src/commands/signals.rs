//! Signals that ask us to end, as something to wait for: SIGINT, SIGTERM, and what a terminal sends otherwise (SIGQUIT by a key,
//! SIGHUP when it goes).

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The numbers that an exit code is made of: 128 and one of these.
pub(super) const SIGINT: i32 = signal_hook::consts::SIGINT;
const SIGTERM: i32 = signal_hook::consts::SIGTERM;
const SIGQUIT: i32 = signal_hook::consts::SIGQUIT;
const SIGHUP: i32 = signal_hook::consts::SIGHUP;

/// Whoever asks us to end.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Needs a runtime. From here on these signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SIGINT,
            _ = self.terminate.recv() => SIGTERM,
            _ = self.quit.recv() => SIGQUIT,
            _ = self.hang_up.recv() => SIGHUP,
        }
    }
}
