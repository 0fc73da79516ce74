//! A look at the head of a request before it is parsed (reliability 58). Whatever two programs could read in two ways is no
//! request here: a bare line feed, a folded header, two lengths, a length beside chunks.
//!
//! The parser behind it is lenient in some of that. What is found wanting is overwritten with NULs, which no parser takes: so the
//! client is answered 400, and the connection ends.

/// The most bytes in a head, which is also what the parser keeps of one.
pub(super) const MOST: usize = 64 * 1024;

/// Reads a head as it arrives.
#[derive(Debug, Default)]
pub(super) struct Head {
    seen: Vec<u8>,
    over: bool,
    too_long: bool,
}

impl Head {
    /// The next request begins.
    pub(super) fn begin(&mut self) {
        self.seen.clear();
        self.over = false;
        self.too_long = false;
    }

    /// Looks at what has arrived, and spoils it when it is not what it must be. Whether anything of a head has arrived.
    pub(super) fn look(&mut self, arrived: &mut [u8]) -> bool {
        if self.over {
            return true;
        }
        if self.too_long {
            arrived.fill(b'a');
            return true;
        }
        let mut bad = false;
        for &byte in &*arrived {
            // Empty lines before a request are no part of it.
            if self.seen.is_empty() && matches!(byte, b'\r' | b'\n') {
                continue;
            }
            let last = self.seen.last().copied();
            if (byte == b'\n') != (last == Some(b'\r')) || byte == 0 {
                bad = true;
                break;
            }
            self.seen.push(byte);
            if self.seen.ends_with(b"\r\n\r\n") {
                self.over = true;
                bad = is_doubtful(&self.seen);
                break;
            }
            if self.seen.len() > MOST {
                // It never ends now, so that the parser finds it too long.
                self.too_long = true;
                self.seen.clear();
                arrived.fill(b'a');
                return true;
            }
        }
        if bad {
            self.over = true;
            arrived.fill(0);
        }
        if self.over {
            self.seen.clear();
        }
        self.over || !self.seen.is_empty()
    }
}

/// Whether a whole head says how long its body is in more than one way, or in a way that not everybody understands.
fn is_doubtful(head: &[u8]) -> bool {
    let (mut lengths, mut codings) = (0, 0);
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return true;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            lengths += 1;
            if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                return true;
            }
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            codings += 1;
            if !value.eq_ignore_ascii_case(b"chunked") {
                return true;
            }
        }
    }
    lengths + codings > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a head passes, in one piece and byte by byte.
    fn passes(head: &str) -> bool {
        let mut whole = head.as_bytes().to_vec();
        Head::default().look(&mut whole);
        let mut looked = Head::default();
        let mut bytes = head.as_bytes().to_vec();
        bytes.chunks_mut(1).for_each(|byte| {
            looked.look(byte);
        });
        let (whole, pieces) = (whole == head.as_bytes(), bytes == head.as_bytes());
        assert_eq!(whole, pieces, "{head:?}");
        whole
    }

    /// Reliability 58: what could be read in two ways is spoiled, the rest is left as it is.
    #[test]
    fn what_could_be_read_in_two_ways_is_spoiled() {
        for good in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\nb",
            "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert!(passes(good), "{good:?}");
        }
        for bad in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\n",
            "GET / HTTP/1.1\r\nA: b\rc\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n",
            "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\ncontent-length: 4\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
        ] {
            assert!(!passes(bad), "{bad:?}");
        }
    }
}
