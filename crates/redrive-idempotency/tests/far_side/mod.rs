//! A far side on loopback that counts what it was sent, can be gone for a while, and answers as it is told. And stores to send from.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used, clippy::print_stderr)]

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use redrive::engine::Engine;
use redrive::{Override, Policy};
use redrive_policy::CurveKind;
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    pub key: String,
    pub body: String,
    pub job: String,
    pub attempt: String,
}

/// How to answer a body, the n-th time that its key comes.
type Answers = Box<dyn Fn(&str, usize) -> Response + Send + Sync>;

pub struct Far {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    away: Mutex<Option<TcpSocket>>,
    serving: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    answers: Answers,
    takes: Duration,
    came: Mutex<Vec<Came>>,
    effects: Mutex<BTreeSet<String>>,
    now: Mutex<(usize, usize)>,
}

impl Far {
    /// One that is not there yet. Its port is known.
    pub fn away(answers: impl Fn(&str, usize) -> Response + Send + Sync + 'static) -> Far {
        Far::slow(Duration::ZERO, answers)
    }

    /// The same, and every answer takes so long.
    pub fn slow(takes: Duration, answers: impl Fn(&str, usize) -> Response + Send + Sync + 'static) -> Far {
        // Bound and not listening: who connects is refused, and nobody else gets the port.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::new(Shared {
            answers: Box::new(answers),
            takes,
            came: Mutex::default(),
            effects: Mutex::default(),
            now: Mutex::default(),
        });
        Far { address, shared, away: Mutex::new(Some(socket)), serving: Mutex::default() }
    }

    /// One that is there.
    pub fn there(answers: impl Fn(&str, usize) -> Response + Send + Sync + 'static) -> Far {
        let far = Far::away(answers);
        far.comes();
        far
    }

    pub fn comes(&self) {
        let listener = self.away.lock().unwrap().take().unwrap().listen(64).unwrap();
        let app = Router::new().fallback(serve).with_state(Arc::clone(&self.shared));
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        *self.serving.lock().unwrap() = Some(serving);
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1/bookmarks", self.address)
    }

    pub fn lane(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that came, in order.
    pub fn came(&self) -> Vec<Came> {
        self.shared.came.lock().unwrap().clone()
    }

    pub fn bodies(&self) -> Vec<String> {
        self.came().into_iter().map(|came| came.body).collect()
    }

    /// The keys whose work was done.
    pub fn effects(&self) -> usize {
        self.shared.effects.lock().unwrap().len()
    }

    /// The most requests that were there at the same time.
    pub fn most_at_once(&self) -> usize {
        self.shared.now.lock().unwrap().1
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.lock().unwrap().take() {
            serving.abort();
        }
    }
}

async fn serve(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
    let came = Came {
        key: header("idempotency-key"),
        body: String::from_utf8(body.to_vec()).unwrap(),
        job: header("redrive-job-id"),
        attempt: header("redrive-attempt"),
    };
    let times = {
        let mut all = shared.came.lock().unwrap();
        all.push(came.clone());
        all.iter().filter(|earlier| earlier.key == came.key).count()
    };
    {
        let mut now = shared.now.lock().unwrap();
        now.0 += 1;
        now.1 = now.1.max(now.0);
    }
    tokio::time::sleep(shared.takes).await;
    shared.now.lock().unwrap().0 -= 1;
    let answer = (shared.answers)(&came.body, times);
    if answer.status().is_success() {
        shared.effects.lock().unwrap().insert(came.key);
    }
    answer
}

pub fn created(_: &str, _: usize) -> Response {
    StatusCode::CREATED.into_response()
}

/// An answer as redrive's layer and proxy give it.
pub fn problem(code: &str, status: u16) -> Response {
    let body = serde_json::json!({
        "type": format!("urn:redrive:problem:idempotency-{code}"),
        "title": "About this key",
        "detail": format!("the key is {code}"),
        "code": code,
        "status": status,
    });
    let status = StatusCode::from_u16(status).unwrap();
    let headers = [("content-type", "application/problem+json"), ("retry-after", "1")];
    (status, headers, body.to_string()).into_response()
}

/// The standard policy, which waits a moment only.
pub fn hasty() -> Policy {
    let moment = Override {
        curve: Some(CurveKind::Constant),
        initial: Some(Duration::from_millis(20)),
        cap: Some(Duration::from_millis(20)),
        ..Override::default()
    };
    Policy::standard().with_override(&moment)
}

/// A store of its own, which can be opened again.
pub struct Place {
    location: Location,
}

enum Location {
    Sqlite(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Postgres(String),
}

impl Place {
    pub fn sqlite() -> Place {
        Place { location: Location::Sqlite(tempfile::tempdir().unwrap()) }
    }

    /// Nothing where PostgreSQL is missing, which is told, and a failure in CI.
    #[cfg(feature = "postgres")]
    pub fn postgres() -> Option<Place> {
        let Some(shared) = redrive_testing::shared() else {
            assert!(std::env::var_os("CI").is_none(), "PostgreSQL is missing");
            eprintln!("SKIPPED: PostgreSQL is missing");
            return None;
        };
        let joint = if shared.url().contains('?') { '&' } else { '?' };
        let url = format!("{}{joint}schema={}", shared.url(), shared.schema());
        Some(Place { location: Location::Postgres(url) })
    }

    pub async fn engine(&self) -> Engine {
        match &self.location {
            Location::Sqlite(folder) => Engine::open(folder.path().join("redrive.db")).unwrap(),
            #[cfg(feature = "postgres")]
            Location::Postgres(url) => Engine::connect(url).await.unwrap(),
        }
    }
}

/// How often each key came.
pub fn by_key(came: &[Came]) -> HashMap<String, usize> {
    came.iter().fold(HashMap::new(), |mut counts, came| {
        *counts.entry(came.key.clone()).or_default() += 1;
        counts
    })
}
