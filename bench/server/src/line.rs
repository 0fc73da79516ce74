//! One connection of the client: HTTP/1.1 by hand, so that it costs little beside the server that is measured.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that is kept, with one request under way at a time.
pub struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
    head: String,
}

/// An answer.
pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a [u8],
}

impl Line {
    pub async fn open(port: u16) -> io::Result<Line> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Line { stream, buffer: Vec::with_capacity(4096), head: String::new() })
    }

    /// A POST of JSON, and what came of it.
    pub async fn post(&mut self, path: &str, body: &[u8]) -> io::Result<Answer<'_>> {
        self.send(path, body).await?;
        self.answer().await
    }

    pub async fn send(&mut self, path: &str, body: &[u8]) -> io::Result<()> {
        use std::fmt::Write;
        self.head.clear();
        write!(
            self.head,
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .map_err(io::Error::other)?;
        self.buffer.clear();
        self.buffer.extend_from_slice(self.head.as_bytes());
        self.buffer.extend_from_slice(body);
        self.stream.write_all(&self.buffer).await
    }

    pub async fn answer(&mut self) -> io::Result<Answer<'_>> {
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((status, start, whole)) = head(&self.buffer)
                && self.buffer.len() >= whole
            {
                return Ok(Answer { status, body: &self.buffer[start..whole] });
            }
        }
    }
}

/// The status, where the body begins, and how many bytes the whole answer has.
fn head(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = text.get(9..12)?.parse().ok()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    Some((status, end + 4, end + 4 + length))
}
