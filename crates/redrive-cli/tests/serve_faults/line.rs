//! A connection that is kept, as clients keep theirs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::serve_home::PATIENCE;

pub(crate) struct Line {
    host: String,
    stream: BufReader<TcpStream>,
}

impl Line {
    pub(crate) fn open(address: &str) -> Option<Line> {
        let stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Line { host: address.to_owned(), stream: BufReader::new(stream) })
    }

    /// Status and body; nothing when the connection ended before they came whole.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes()).ok()?;
        self.answer()
    }

    /// The head of a request whose body never comes.
    pub(crate) fn begin(&mut self, path: &str) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
            self.host
        );
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> Option<(u16, String)> {
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(said) = line.strip_prefix("http/1.1 ") {
                status = said.get(..3)?.parse().ok();
            } else if let Some(said) = line.strip_prefix("content-length:") {
                length = said.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some((status?, String::from_utf8(body).ok()?))
    }
}
