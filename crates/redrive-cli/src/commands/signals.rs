//! Signals that ask us to end, as something to wait for: SIGINT, SIGTERM, and what a terminal sends otherwise (SIGQUIT by a
//! key, SIGHUP when it goes). Where `nohup` has switched the latter off, they stay off.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The numbers that an exit code is made of: 128 and one of these.
pub(super) const SIGINT: i32 = signal_hook::consts::SIGINT;
pub(super) const SIGHUP: i32 = signal_hook::consts::SIGHUP;

/// Whoever asks us to end.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    quit: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Signals {
    /// Needs a runtime. From here on these signals no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Signals> {
        let ignored = ignored();
        let unless_ignored = |kind: SignalKind| {
            let bit = 1_u64 << (kind.as_raw_value() - 1);
            if ignored & bit == 0 { signal(kind).map(Some) } else { Ok(None) }
        };
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: unless_ignored(SignalKind::quit())?,
            hang_up: unless_ignored(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SIGINT,
            _ = self.terminate.recv() => signal_hook::consts::SIGTERM,
            () = heard(&mut self.quit) => signal_hook::consts::SIGQUIT,
            () = heard(&mut self.hang_up) => SIGHUP,
        }
    }
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The signals that are ignored, a bit for each; none where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0)
}
