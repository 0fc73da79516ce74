//! From a command's pipe to ours, byte for byte and as it comes, while its end is kept.
//!
//! Memory stays the same however much goes through: what cannot be written is not read, so that a slow reader slows
//! the command and nothing else. After the command's own end the pipe may be held open by somebody it left
//! behind; nobody waits for those.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::bounded::Tail;

/// Somewhere that output can go.
pub type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// How long after its end a command's pipes are listened to.
pub(super) const DRAIN_FOR: Duration = Duration::from_millis(500);
/// How much more may come when even that time went by writing: more than any pipe holds.
const DRAIN_BOUND: usize = 1 << 20;
const BUFFER: usize = 64 * 1024;

/// What happens to the command when its output can no longer be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenBroken {
    /// Its pipe is closed, as it would find our stdout closed: `redrive run -- yes | head` ends.
    ClosePipe,
    /// It goes on: losing the place where one complains is no reason to stop.
    GoOn,
}

/// One stream of a command.
pub(super) struct Pump<'a> {
    pub(super) to: Option<Writer>,
    pub(super) when_broken: WhenBroken,
    pub(super) tail: &'a mut Tail,
    pub(super) escalation: Option<&'a mut Escalation>,
    /// Why it could not be written any more.
    pub(super) broken: &'a mut Option<io::Error>,
    pub(super) ended: watch::Receiver<bool>,
    /// Whether something was written that may still be on its way.
    pub(super) unflushed: bool,
}

impl Pump<'_> {
    /// Pumps until the stream ends, or the command has ended and nothing more is to be expected.
    pub(super) async fn run(mut self, from: Option<impl AsyncRead + Unpin>) {
        if let Some(from) = from {
            self.pump(from).await;
        }
        let _ = self.flush().await;
        if let Some(to) = &mut self.to {
            // A line without an end is shown now, by those who show lines.
            let _ = to.shutdown().await;
        }
    }

    async fn pump(&mut self, mut from: impl AsyncRead + Unpin) {
        let mut buffer = vec![0; BUFFER];
        let mut until = None;
        let mut late = 0;
        loop {
            if until.is_none() && *self.ended.borrow() {
                until = Some(Instant::now() + DRAIN_FOR);
            }
            let mut ended = self.ended.clone();
            let drained = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => drop(ended.changed().await),
                }
            };
            let count = tokio::select! {
                biased;
                // What is there already is read even when the time is over.
                read = from.read(&mut buffer) => match read {
                    Ok(count @ 1..) => count,
                    _ => return,
                },
                // Only when nothing more is there to write: then nobody waits for what was written, nor for us.
                flushed = self.flush(), if self.unflushed => match flushed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                () = drained => match until {
                    Some(_) => return,
                    None => continue,
                },
            };
            if until.is_some_and(|until| Instant::now() > until) {
                late += count;
                if late > DRAIN_BOUND {
                    return;
                }
            }
            self.tail.push(&buffer[..count]);
            if let Some(escalation) = &mut self.escalation {
                escalation.read(&buffer[..count]);
            }
            if self.write(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }

    async fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        self.unflushed = true;
        let written = to.write_all(chunk).await;
        self.went(written)
    }

    async fn flush(&mut self) -> io::Result<()> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let flushed = to.flush().await;
        self.unflushed = false;
        self.went(flushed)
    }

    /// What a write that failed means for the command.
    fn went(&mut self, written: io::Result<()>) -> io::Result<()> {
        let Err(error) = written else { return Ok(()) };
        self.to = None;
        self.unflushed = false;
        let kind = error.kind();
        *self.broken = Some(error);
        if self.when_broken == WhenBroken::GoOn { Ok(()) } else { Err(kind.into()) }
    }
}

/// Watches stderr for the line by which a command asks for a person (R-P1): `redrive: escalate <reason>`. It is
/// heard wherever it stands, also when gigabytes follow.
#[derive(Debug, Default)]
pub(super) struct Escalation {
    line: Vec<u8>,
    reason: Option<String>,
}

impl Escalation {
    const ASKS: &[u8] = b"redrive: escalate";
    /// How much of a line is looked at.
    const LINE_BOUND: usize = 1024;

    fn read(&mut self, mut chunk: &[u8]) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            self.add(&chunk[..end]);
            self.end_line();
            chunk = &chunk[end + 1..];
        }
        self.add(chunk);
    }

    fn add(&mut self, part: &[u8]) {
        let room = Escalation::LINE_BOUND - self.line.len();
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        let asked = self.line.trim_ascii().strip_prefix(Escalation::ASKS);
        // "redrive: escalated to nobody" is another word.
        if let Some(rest) = asked.filter(|rest| rest.first().is_none_or(u8::is_ascii_whitespace)) {
            let reason = String::from_utf8_lossy(rest.trim_ascii()).into_owned();
            self.reason =
                Some(if reason.is_empty() { "the command asks for a person".to_owned() } else { reason });
        }
        self.line.clear();
    }

    /// The reason that was given last.
    pub(super) fn reason(mut self) -> Option<String> {
        self.end_line();
        self.reason
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-P1: the line is found however it arrives, and only the line.
    #[test]
    fn the_line_that_asks_for_a_person_is_found_in_any_pieces() {
        for (text, reason) in [
            ("redrive: escalate sign it\n", Some("sign it")),
            ("x\n  redrive: escalate  two of them \r\ny\n", Some("two of them")),
            ("redrive: escalate last", Some("last")),
            ("redrive: escalate\n", Some("the command asks for a person")),
            ("redrive: escalate a\nredrive: escalate b\nmore\n", Some("b")),
            ("redrive: escalated\n", None),
            ("see redrive: escalate x\n", None),
            ("", None),
        ] {
            for size in [1, 2, 7, 1_000] {
                let mut escalation = Escalation::default();
                text.as_bytes().chunks(size).for_each(|chunk| escalation.read(chunk));
                assert_eq!(escalation.reason().as_deref(), reason, "{text:?} by {size}");
            }
        }
        let mut long = Escalation::default();
        long.read(&vec![b'x'; 1 << 20]);
        assert!(long.line.len() <= Escalation::LINE_BOUND);
    }
}
