//! The flaky upstream of the demo: a real HTTP server on a free port of this machine, whose mood decides how it answers. The
//! script changes its mood, and so can anybody: `curl -X PUT …/mood/down`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// The most bytes in the head of a request, and in its body.
const MOST: usize = 16 * 1024;
/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the upstream feels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Healthy,
    Slow,
    RateLimiting,
    Down,
    AuthBroken,
}

impl Mood {
    pub(super) const ALL: [Mood; 5] =
        [Mood::Healthy, Mood::Slow, Mood::RateLimiting, Mood::Down, Mood::AuthBroken];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Mood::Healthy => "healthy",
            Mood::Slow => "slow",
            Mood::RateLimiting => "rate-limiting",
            Mood::Down => "down",
            Mood::AuthBroken => "auth-broken",
        }
    }

    fn named(name: &str) -> Option<Mood> {
        Mood::ALL.into_iter().find(|mood| mood.name() == name)
    }

    fn number(self) -> u8 {
        Mood::ALL.iter().position(|mood| *mood == self).and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
    }
}

/// The upstream. It goes when it is dropped.
pub(super) struct Upstream {
    pub(super) at: SocketAddr,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

struct State {
    mood: AtomicU8,
    /// Somebody has changed the mood: the script no longer does.
    by_hand: AtomicBool,
    calls: AtomicU64,
    /// How long it takes when it is slow.
    slowness: Duration,
}

impl State {
    fn mood(&self) -> Mood {
        Mood::ALL.get(usize::from(self.mood.load(Ordering::Relaxed))).copied().unwrap_or(Mood::Healthy)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Upstream {
    /// Needs a runtime.
    pub(super) async fn start(slowness: Duration) -> io::Result<Upstream> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let state = Arc::new(State {
            mood: AtomicU8::new(Mood::Healthy.number()),
            by_hand: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            slowness,
        });
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                let state = Arc::clone(&shared);
                // How one connection ends is nobody's concern: being flaky is its purpose.
                tokio::spawn(async move { drop(timeout(PATIENCE, answer(stream, &state)).await) });
            }
        });
        Ok(Upstream { at, state, serving })
    }

    pub(super) fn mood(&self) -> Mood {
        self.state.mood()
    }

    /// Whether somebody else changes the mood.
    pub(super) fn is_by_hand(&self) -> bool {
        self.state.by_hand.load(Ordering::Relaxed)
    }

    /// The script's wish, which gives way to a person's.
    pub(super) fn set(&self, mood: Mood) {
        if !self.is_by_hand() {
            self.state.mood.store(mood.number(), Ordering::Relaxed);
        }
    }
}

/// One request, and what the mood makes of it.
async fn answer(mut stream: TcpStream, state: &State) -> io::Result<()> {
    let Some((method, path, body)) = read(&mut stream).await? else { return Ok(()) };
    if let Some(name) = path.strip_prefix("/mood") {
        let (status, words) = change(method.as_str(), name.trim_start_matches('/'), state);
        return say(&mut stream, status, "", &format!("{words}\n")).await;
    }
    let call = state.calls.fetch_add(1, Ordering::Relaxed);
    let mood = state.mood();
    let has_no_card = body.contains("\"card\":\"\"");
    match mood {
        // It is gone before it has said a word.
        Mood::Down => return Ok(()),
        // What is wrong with an order itself is found first: a redrive of the others then meets no new kind of failure.
        Mood::AuthBroken if !has_no_card => {
            return say(&mut stream, "401 Unauthorized", "", "{\"error\":\"the API key has expired\"}").await;
        }
        Mood::RateLimiting if call.is_multiple_of(2) => {
            let words = "{\"error\":\"too many requests\"}";
            return say(&mut stream, "429 Too Many Requests", "Retry-After: 1\r\n", words).await;
        }
        Mood::Slow if call.is_multiple_of(2) => sleep(state.slowness).await,
        Mood::Healthy | Mood::Slow | Mood::RateLimiting | Mood::AuthBroken => {
            sleep(Duration::from_millis(20)).await;
        }
    }
    if has_no_card {
        let words = "{\"error\":\"card must not be empty\"}";
        return say(&mut stream, "422 Unprocessable Entity", "", words).await;
    }
    say(&mut stream, "200 OK", "", "{\"ok\":true}").await
}

/// Looks at the mood, or changes it.
fn change(method: &str, name: &str, state: &State) -> (&'static str, String) {
    match (method, Mood::named(name)) {
        ("GET", _) => ("200 OK", state.mood().name().to_owned()),
        (_, Some(mood)) => {
            state.by_hand.store(true, Ordering::Relaxed);
            state.mood.store(mood.number(), Ordering::Relaxed);
            ("200 OK", mood.name().to_owned())
        }
        _ if name == "auto" => {
            state.by_hand.store(false, Ordering::Relaxed);
            ("200 OK", "auto".to_owned())
        }
        _ => ("404 Not Found", Mood::ALL.map(Mood::name).join(", ")),
    }
}

/// Method, path and body; nothing when it is no request.
async fn read(stream: &mut TcpStream) -> io::Result<Option<(String, String, String)>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > MOST || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut lines = text.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (first.next(), first.next()) else { return Ok(None) };
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let end = head + 4 + length.unwrap_or(0).min(MOST);
    while bytes.len() < end {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
    let body = String::from_utf8_lossy(&bytes[head + 4..end]).into_owned();
    Ok(Some((method.to_owned(), path.to_owned(), body)))
}

async fn say(stream: &mut TcpStream, status: &str, headers: &str, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
