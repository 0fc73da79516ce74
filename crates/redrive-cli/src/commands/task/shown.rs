//! What the steps of a task write, line by line, each line with the step's name before it: they write at the same time.
//!
//! Untrusted text reaches a terminal escaped. Memory stays bounded: a line without an end is shown in pieces, and what
//! cannot be written yet is not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::escape::escape;

/// How long a line may get before it is shown without its end.
const LINE: usize = 4 * 1024;

/// One stream of one step.
pub(super) struct Shown<W> {
    name: String,
    line: Vec<u8>,
    /// Whole lines that are on their way.
    out: Vec<u8>,
    written: usize,
    to: W,
}

impl<W: AsyncWrite + Unpin> Shown<W> {
    pub(super) fn new(name: impl Into<String>, to: W) -> Shown<W> {
        Shown { name: name.into(), line: Vec::new(), out: Vec::new(), written: 0, to }
    }

    fn add(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let window = &chunk[..chunk.len().min(LINE - self.line.len())];
            let end = window.iter().position(|byte| *byte == b'\n');
            self.line.extend_from_slice(&window[..end.unwrap_or(window.len())]);
            chunk = &chunk[end.map_or(window.len(), |end| end + 1)..];
            if end.is_some() || self.line.len() >= LINE {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        let line = format!("{} │ {}\n", self.name, escape(text.trim_end_matches('\r')));
        self.line.clear();
        self.out.extend_from_slice(line.as_bytes());
    }

    /// Writes what is on its way.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            match ready!(Pin::new(&mut self.to).poll_write(cx, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.out.clear();
        self.written = 0;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Shown<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, chunk: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_out(cx))?;
        self.add(chunk);
        Poll::Ready(Ok(chunk.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_out(cx))?;
        Pin::new(&mut self.to).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.line.is_empty() {
            self.end_line();
        }
        self.poll_flush(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    async fn shown(pieces: &[&[u8]]) -> String {
        let mut kept = Vec::new();
        let mut shown = Shown::new("write", &mut kept);
        for piece in pieces {
            shown.write_all(piece).await.unwrap();
        }
        shown.shutdown().await.unwrap();
        drop(shown);
        String::from_utf8(kept).unwrap()
    }

    /// Reliability 69: lines of steps come whole, named, and without anything that moves a cursor.
    #[tokio::test]
    async fn lines_are_whole_named_and_harmless() {
        let text = shown(&[b"one\ntw", b"o\r\n", b"\x1b[2Jthree", b"\xff"]).await;
        assert_eq!(text, "write │ one\nwrite │ two\nwrite │ \\x1b[2Jthree\u{fffd}\n");
    }

    /// Reliability 26: a command that floods one line is shown in pieces.
    #[tokio::test]
    async fn a_line_without_an_end_is_shown_in_pieces() {
        let text = shown(&[&vec![b'x'; LINE * 3 + 1]]).await;
        assert_eq!(text.lines().count(), 4);
        assert!(text.lines().all(|line| line.len() <= LINE + "write │ ".len()));
    }
}
