//! A far side on loopback that does each key once and counts it. It can be away, broken, or lose its answers.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Well,
    /// 500.
    Broken,
    /// 422.
    Refusing,
    /// 400, with all that it was asked with.
    Repeating,
    /// 409, with this about the key.
    AboutTheKey(&'static str),
    /// Every fourth answer is lost after the work was done.
    LosingAnswers,
}

#[derive(Default)]
struct Seen {
    bodies: Vec<String>,
    keys: BTreeSet<String>,
    done: BTreeSet<String>,
    effects: usize,
    last: String,
    now: usize,
    most: usize,
    takes: Duration,
}

pub struct Counting {
    address: SocketAddr,
    away: Mutex<Option<tokio::net::TcpSocket>>,
    mood: Arc<Mutex<Mood>>,
    seen: Arc<Mutex<Seen>>,
}

impl Counting {
    /// Not there yet: its port is taken, and whoever connects is refused.
    pub fn away() -> Counting {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let mood = Arc::new(Mutex::new(Mood::Well));
        Counting { address, away: Mutex::new(Some(socket)), mood, seen: Arc::default() }
    }

    pub fn there() -> Counting {
        let far = Counting::away();
        far.comes();
        far
    }

    pub fn comes(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let socket = self.away.lock().unwrap().take().unwrap();
        let listener = runtime.block_on(async { socket.listen(64).unwrap() }).into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        let (mood, seen) = (Arc::clone(&self.mood), Arc::clone(&self.seen));
        std::thread::spawn(move || serve(&listener, &mood, &seen));
    }

    pub fn says(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    pub fn takes(&self, takes: Duration) {
        self.seen.lock().unwrap().takes = takes;
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1/bookmarks", self.address)
    }

    pub fn bodies(&self) -> Vec<String> {
        self.seen.lock().unwrap().bodies.clone()
    }

    pub fn requests(&self) -> usize {
        self.seen.lock().unwrap().bodies.len()
    }

    pub fn keys(&self) -> BTreeSet<String> {
        self.seen.lock().unwrap().keys.clone()
    }

    /// How often something was really done.
    pub fn effects(&self) -> usize {
        self.seen.lock().unwrap().effects
    }

    pub fn most_at_once(&self) -> usize {
        self.seen.lock().unwrap().most
    }

    /// Its head and its body.
    pub fn last_request(&self) -> String {
        self.seen.lock().unwrap().last.clone()
    }
}

/// Serves until the process ends.
fn serve(listener: &TcpListener, mood: &Arc<Mutex<Mood>>, seen: &Arc<Mutex<Seen>>) {
    for stream in listener.incoming() {
        let (stream, mood, seen) = (stream.unwrap(), Arc::clone(mood), Arc::clone(seen));
        // A client that is killed breaks off: that is its right.
        std::thread::spawn(move || {
            let _ = answer(stream, &mood, &seen);
        });
    }
}

fn answer(mut stream: TcpStream, mood: &Mutex<Mood>, seen: &Mutex<Seen>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length, mut key) = (String::new(), 0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().expect("a length"),
            "idempotency-key" => value.trim().clone_into(&mut key),
            _ => {}
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8(body).expect("text");
    let mood = *mood.lock().unwrap();
    let takes = {
        let mut seen = seen.lock().unwrap();
        seen.now += 1;
        seen.most = seen.most.max(seen.now);
        seen.last = format!("{head}\n{body}");
        seen.takes
    };
    std::thread::sleep(takes);
    let (status, said, lost) = {
        let mut seen = seen.lock().unwrap();
        seen.now -= 1;
        seen.bodies.push(body);
        seen.keys.insert(key.clone());
        let works = matches!(mood, Mood::Well | Mood::LosingAnswers);
        // What redrive's own layer would do.
        if works && seen.done.insert(key) {
            seen.effects += 1;
        }
        match mood {
            Mood::Well => ("201 Created", String::new(), false),
            Mood::LosingAnswers => ("201 Created", String::new(), seen.bodies.len().is_multiple_of(4)),
            Mood::Broken => ("500 Internal Server Error", "it broke".to_owned(), false),
            Mood::Refusing => ("422 Unprocessable Content", "no such place".to_owned(), false),
            Mood::AboutTheKey(what) => {
                let problem = format!("{{\"type\":\"urn:redrive:problem:idempotency-{what}\"}}");
                ("409 Conflict", problem, false)
            }
            Mood::Repeating => ("400 Bad Request", seen.last.clone(), false),
        }
    };
    if lost {
        return Ok(());
    }
    let length = said.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{said}")
}
