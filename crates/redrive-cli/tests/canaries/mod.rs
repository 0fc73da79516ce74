//! Canaries: secrets that are planted wherever secrets come from, a far side that repeats them, and the search for them.
//!
//! Their values are words. No rule knows them by what they look like; who finds them knows where they stood.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod aviary;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// A secret, and where it was planted.
#[derive(Debug, Clone)]
pub struct Canary {
    pub place: &'static str,
    pub value: String,
}

pub fn canary(place: &'static str, value: impl Into<String>) -> Canary {
    Canary { place, value: value.into() }
}

impl Canary {
    /// In how many ways somebody could write it.
    fn ways(&self) -> Vec<String> {
        let value = &self.value;
        let quoted = serde_json::to_string(value).unwrap();
        let json = quoted[1..quoted.len() - 1].to_owned();
        let twice = serde_json::to_string(&json).unwrap();
        let mut percent = String::new();
        let mut all_percent = String::new();
        let mut hex = String::new();
        for byte in value.bytes() {
            write!(hex, "{byte:02x}").unwrap();
            write!(all_percent, "%{byte:02X}").unwrap();
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                percent.push(char::from(byte));
            } else {
                write!(percent, "%{byte:02X}").unwrap();
            }
        }
        let mut ways =
            vec![value.clone(), json, twice[1..twice.len() - 1].to_owned(), percent.to_lowercase()];
        ways.extend([percent, all_percent, hex]);
        // Behind none, one or two other bytes; the signs at the ends belong to the neighbours, too.
        for before in 0..3_usize {
            let bytes = [vec![b'x'; before], value.as_bytes().to_vec()].concat();
            let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
            ways.push(STANDARD.encode(&bytes)[from..to].to_owned());
            ways.push(URL_SAFE_NO_PAD.encode(&bytes)[from..to].to_owned());
        }
        ways.sort_unstable();
        ways.dedup();
        ways
    }
}

/// What was told somewhere.
#[derive(Debug, Clone)]
pub struct Told {
    pub place: String,
    pub text: String,
}

/// All that was told, to be searched.
#[derive(Debug, Default)]
pub struct Everything(pub Vec<Told>);

impl Everything {
    pub fn add(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.0.push(Told { place: place.into(), text: text.into() });
    }

    /// Where one of them stands, in whatever way: a line for each place.
    pub fn found(&self, canaries: &[Canary]) -> Vec<String> {
        let mut found = Vec::new();
        for canary in canaries {
            for way in canary.ways() {
                for Told { place, text } in &self.0 {
                    let Some(at) = text.find(&way).or_else(|| text.to_lowercase().find(&way.to_lowercase()))
                    else {
                        continue;
                    };
                    let near = &text[text.floor_char_boundary(at.saturating_sub(120))..];
                    let near = &near[..near.floor_char_boundary(240)];
                    found.push(format!("{} stands in {place} as {way:?}: …{near:?}…", canary.place));
                }
            }
        }
        found
    }

    /// All of it that has this in the name of its place.
    pub fn at(&self, place: &str) -> String {
        let found: Vec<&str> =
            self.0.iter().filter(|told| told.place.contains(place)).map(|told| told.text.as_str()).collect();
        assert!(!found.is_empty(), "nothing was looked at in {place}");
        found.join("\n")
    }
}

/// A far side that refuses everything, and repeats all that it was asked with; what it has heard can be looked up.
pub struct Parrot {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Heard {
    pub head: String,
    pub body: String,
}

impl Parrot {
    /// `refuses` answers a status for the path and how many have come to it before.
    pub fn new(refuses: fn(&str, usize) -> &'static str) -> Parrot {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let hearing = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, heard) = (stream.unwrap(), Arc::clone(&hearing));
                // A client may break off.
                std::thread::spawn(move || answer(&stream, &heard, refuses));
            }
        });
        Parrot { address, heard }
    }

    /// The requests whose path begins so.
    pub fn heard(&self, path: &str) -> Vec<Heard> {
        let all = self.heard.lock().unwrap();
        all.iter().filter(|heard| path_of(&heard.head).starts_with(path)).cloned().collect()
    }
}

fn path_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

fn answer(
    mut stream: &TcpStream,
    seen: &Mutex<Vec<Heard>>,
    refuses: fn(&str, usize) -> &'static str,
) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let mut arriving = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let from = head.len();
        arriving.read_line(&mut head).ok()?;
        let line = head[from..].trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    arriving.read_exact(&mut body).ok()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    let first = path_of(&head).split(['/', '?']).nth(1).unwrap_or_default().to_owned();
    let before = {
        let mut all = seen.lock().unwrap();
        let before = all.iter().filter(|one| path_of(&one.head).starts_with(&format!("/{first}"))).count();
        all.push(Heard { head: head.clone(), body: body.clone() });
        before
    };
    let status = refuses(&first, before);
    let words: Vec<&str> =
        head.lines().filter_map(|line| line.split_once(": ")).map(|(_, value)| value).collect();
    let said = format!("marker-{first}: you said {head}{body} and that is {}", words.join(" and "));
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nX-Said: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{said}",
        path_of(&head),
        said.len()
    );
    stream.write_all(answer.as_bytes()).ok()
}
