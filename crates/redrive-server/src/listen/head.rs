//! A look at what arrives before it is parsed (reliability 58). Whatever two programs could read in two ways is no request here: a
//! bare line feed, a folded header, two lengths, a length beside chunks.
//!
//! Every byte is followed, bodies too, so that the head behind a body is looked at however early it comes. The parser behind it is
//! lenient in some of that. What is found wanting is overwritten with NULs, which no parser takes: so the client is answered 400,
//! and the connection ends.

/// The most bytes in a head, which is also what the parser keeps of one.
pub(super) const MOST: usize = 64 * 1024;
/// The most bytes in a line that says how long a chunk is, and in what follows the last chunk.
const MOST_BESIDE_CHUNKS: usize = 8 * 1024;

/// Follows requests as they arrive.
#[derive(Debug, Default)]
pub(super) struct Head {
    /// What has arrived of a head, of the line of a chunk, or of what follows the last chunk.
    seen: Vec<u8>,
    place: Place,
}

/// Where a request is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a head, or before one.
    #[default]
    Head,
    /// In a body or a chunk that has so many bytes still to come.
    Plain { left: u64, chunked: bool },
    /// In the line that says how long a chunk is.
    ChunkLine,
    /// At the end of a line behind a chunk.
    ChunkEnd,
    /// Behind the last chunk.
    Trailers,
    /// In a head that was too long.
    TooLong,
    /// Behind something that was not what it must be.
    Spoiled,
}

/// What follows a byte.
enum Next {
    Byte,
    Place(Place),
    Bad,
}

impl Head {
    /// Whether a part of a head has arrived, but not all of it.
    pub(super) fn has_begun(&self) -> bool {
        self.place == Place::Head && !self.seen.is_empty()
    }

    /// Looks at what has arrived, and spoils it from where it is not what it must be. Whether anything of a request has arrived.
    pub(super) fn look(&mut self, arrived: &mut [u8]) -> bool {
        let mut any = false;
        let mut at = 0;
        // Where the request before ends in what has arrived: nothing before that is spoiled.
        let mut begins = 0;
        while at < arrived.len() {
            if let Place::Plain { left, chunked } = self.place {
                any = true;
                let here = left.min((arrived.len() - at) as u64);
                at += usize::try_from(here).unwrap_or(arrived.len() - at);
                self.place = match (left - here, chunked) {
                    (0, true) => Place::ChunkEnd,
                    (0, false) => Place::Head,
                    (left, chunked) => Place::Plain { left, chunked },
                };
                begins = at;
                continue;
            }
            // Empty lines before a request are no part of it.
            if self.place == Place::Head && self.seen.is_empty() && matches!(arrived[at], b'\r' | b'\n') {
                at += 1;
                begins = at;
                continue;
            }
            any = true;
            match self.step(arrived[at]) {
                Next::Byte => {}
                Next::Place(Place::TooLong) => {
                    self.go_to(Place::TooLong);
                    // It never ends now, so that the parser finds it too long.
                    arrived[begins..].fill(b'a');
                    return true;
                }
                Next::Place(place) => {
                    self.go_to(place);
                    begins = at + 1;
                }
                Next::Bad => {
                    self.go_to(Place::Spoiled);
                    arrived[begins..].fill(0);
                    return true;
                }
            }
            at += 1;
        }
        any
    }

    fn go_to(&mut self, place: Place) {
        self.seen.clear();
        self.place = place;
    }

    fn step(&mut self, byte: u8) -> Next {
        let most = match self.place {
            Place::Spoiled | Place::Plain { .. } => return Next::Bad,
            Place::TooLong => return Next::Place(Place::TooLong),
            Place::Head => MOST,
            Place::ChunkLine | Place::ChunkEnd | Place::Trailers => MOST_BESIDE_CHUNKS,
        };
        let last = self.seen.last().copied();
        if (byte == b'\n') != (last == Some(b'\r')) || byte == 0 {
            return Next::Bad;
        }
        self.seen.push(byte);
        let is_over = match self.place {
            Place::Head => self.seen.ends_with(b"\r\n\r\n"),
            Place::Trailers => self.seen == b"\r\n" || self.seen.ends_with(b"\r\n\r\n"),
            _ => self.seen.ends_with(b"\r\n"),
        };
        if is_over {
            return self.place_behind().map_or(Next::Bad, Next::Place);
        }
        match self.place {
            Place::Head if self.seen.len() > most => Next::Place(Place::TooLong),
            Place::ChunkEnd if self.seen.len() >= 2 => Next::Bad,
            _ if self.seen.len() > most => Next::Bad,
            _ => Next::Byte,
        }
    }

    /// Where a request goes on behind what was seen; nowhere, when that is doubtful.
    fn place_behind(&self) -> Option<Place> {
        match self.place {
            Place::Head => match body_of(&self.seen)? {
                Body::None => Some(Place::Head),
                Body::Plain(left) => Some(Place::Plain { left, chunked: false }),
                Body::Chunks => Some(Place::ChunkLine),
            },
            Place::ChunkLine => match chunk_len(self.seen.strip_suffix(b"\r\n")?)? {
                0 => Some(Place::Trailers),
                left => Some(Place::Plain { left, chunked: true }),
            },
            Place::ChunkEnd => (self.seen == b"\r\n").then_some(Place::ChunkLine),
            Place::Trailers => Some(Place::Head),
            Place::Plain { .. } | Place::TooLong | Place::Spoiled => None,
        }
    }
}

/// How long a chunk says it is: digits, and behind a semicolon whatever is no business of ours.
fn chunk_len(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?;
    let few = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    u64::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| few)?, 16).ok()
}

/// What follows a head.
enum Body {
    None,
    Plain(u64),
    Chunks,
}

/// What a whole head says of its body; nothing when it says so in more than one way, or in a way that not everybody understands.
fn body_of(head: &[u8]) -> Option<Body> {
    let mut body = None;
    for line in head.split(|byte| *byte == b'\n').skip(1) {
        if matches!(line.first(), Some(b' ' | b'\t')) {
            return None;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        let said = if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).ok().filter(|_| value.iter().all(u8::is_ascii_digit))?;
            Body::Plain(digits.parse().ok()?)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            value.eq_ignore_ascii_case(b"chunked").then_some(Body::Chunks)?
        } else {
            continue;
        };
        if body.replace(said).is_some() {
            return None;
        }
    }
    Some(body.unwrap_or(Body::None))
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
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\na\nb\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HT",
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
            "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2 \r\nab\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\n0\n\n",
        ] {
            assert!(!passes(bad), "{bad:?}");
        }
    }

    /// Reliability 58: a doubtful head that comes together with a good request is spoiled, and the good one is left as it is.
    #[test]
    fn what_comes_too_early_is_looked_at() {
        let bad = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        for good in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ] {
            let both = format!("{good}{bad}{good}");
            let mut arrived = both.clone().into_bytes();
            let mut head = Head::default();
            head.look(&mut arrived);
            assert_eq!(&arrived[..good.len()], good.as_bytes());
            assert!(arrived[good.len()..].iter().all(|byte| *byte == 0), "{both:?}");
            // Nor does anything that comes later pass.
            let mut later = good.as_bytes().to_vec();
            head.look(&mut later);
            assert!(later.iter().all(|byte| *byte == 0));
            let mut pieces = both.clone().into_bytes();
            let mut head = Head::default();
            pieces.chunks_mut(1).for_each(|byte| {
                head.look(byte);
            });
            assert_ne!(pieces, both.as_bytes());
            assert!(pieces.ends_with(&vec![0; good.len()]));
        }
    }
}
