//! A store, a clock that is set by hand, an app behind a front, and a client.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{Engine, ManualClock};
use redrive_idempotency::rules::{Guarded, KeyForm, Rules};
use redrive_store::{KeyQuery, KeyRecord};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, StatusCode};
use tokio::runtime::Runtime;

use crate::app::App;
use crate::front::Front;
pub(crate) use crate::place::Place;

/// A front that serves, on a runtime of its own, so that it can be killed with everything in it.
struct Served {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl Served {
    fn start<F: Front>(engine: &Engine, guarded: Guarded, app: &Arc<App>) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.spawn(F::serve(listener, engine.clone(), guarded, app.router()));
        Served { address, runtime: Some(runtime) }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) engine: Engine,
    pub(crate) app: Arc<App>,
    guarded: Guarded,
    served: Served,
    client: Client,
}

/// Rules of these tests: any key will do.
pub(crate) fn rules(change: impl FnOnce(&mut Rules)) -> Guarded {
    let mut guarded = Guarded::whatever_carries_a_key();
    guarded.routes[0].rules.key = KeyForm::Any;
    change(&mut guarded.routes[0].rules);
    guarded
}

impl World {
    /// With the rules that count when nothing is said.
    pub(crate) async fn new<F: Front>(place: Place) -> World {
        World::with::<F>(place, |_| {}).await
    }

    /// With other rules.
    pub(crate) async fn with<F: Front>(place: Place, change: impl FnOnce(&mut Rules)) -> World {
        let clock = Arc::new(ManualClock::at("2026-11-15T08:00:00Z".parse().unwrap()));
        let engine = engine(&place, &clock).await;
        let (app, guarded) = (App::new(), rules(change));
        let served = Served::start::<F>(&engine, guarded.clone(), &app);
        World { place, clock, engine, app, guarded, served, client: client() }
    }

    /// The front is killed with everything that it runs, and another one is started on the same store.
    pub(crate) async fn kill_and_restart<F: Front>(&mut self) {
        self.served.runtime.take().unwrap().shutdown_background();
        self.engine = engine(&self.place, &self.clock).await;
        self.served = Served::start::<F>(&self.engine, self.guarded.clone(), &self.app);
        self.client = client();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.served.address
    }

    /// A POST that can be changed before it is sent.
    pub(crate) fn post(&self, path: &str) -> Ask {
        self.ask(Method::POST, path)
    }

    pub(crate) fn ask(&self, method: Method, path: &str) -> Ask {
        Ask(self.client.request(method, format!("http://{}{path}", self.served.address)))
    }

    /// What is known of all keys.
    pub(crate) async fn records(&self) -> Vec<KeyRecord> {
        let query = KeyQuery { limit: 1_000, ..KeyQuery::default() };
        self.engine.store().keys(query).await.unwrap()
    }
}

async fn engine(place: &Place, clock: &Arc<ManualClock>) -> Engine {
    let clock: Arc<ManualClock> = Arc::clone(clock);
    Engine::builder(place.open().await).clock(clock).build().unwrap()
}

fn client() -> Client {
    Client::builder().timeout(Duration::from_mins(1)).build().unwrap()
}

/// A request in the making.
pub(crate) struct Ask(reqwest::RequestBuilder);

impl Ask {
    pub(crate) fn key(self, key: impl AsRef<[u8]>) -> Ask {
        self.header("idempotency-key", key)
    }

    pub(crate) fn header(self, name: &str, value: impl AsRef<[u8]>) -> Ask {
        let value = reqwest::header::HeaderValue::from_bytes(value.as_ref()).unwrap();
        Ask(self.0.header(name, value))
    }

    /// What the app is to do.
    pub(crate) fn test(self, words: &str) -> Ask {
        self.header("x-test", words)
    }

    pub(crate) fn body(self, body: impl Into<reqwest::Body>) -> Ask {
        Ask(self.0.body(body))
    }

    pub(crate) async fn send(self) -> Answer {
        let response = self.0.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Answer { status, headers, body: response.bytes().await.unwrap().to_vec() }
    }

    /// Sends it, and does not wait.
    pub(crate) fn go(self) -> tokio::task::JoinHandle<Answer> {
        tokio::spawn(self.send())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// It was run, as so many-th.
    #[track_caller]
    pub(crate) fn is_effect(&self, effect: u64) {
        assert_eq!(self.status, 201, "{}", self.text());
        assert!(self.text().contains(&format!("\"effect\":{effect},")), "{}", self.text());
        assert!(!self.is_replay());
    }

    /// It is the same answer, from the record.
    #[track_caller]
    pub(crate) fn replays(&self, first: &Answer) {
        assert!(self.is_replay(), "{self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
    }

    /// It is a problem of this kind.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let told: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(told["type"], format!("urn:redrive:problem:idempotency-{code}"), "{told}");
        assert_eq!((self.status.as_u16(), &told["status"]), (status, &status.into()));
        assert!(!told["title"].as_str().unwrap().is_empty() && !told["detail"].as_str().unwrap().is_empty());
    }
}
