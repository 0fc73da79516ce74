//! redrive over HTTP (design.md §6): every language enqueues, leases, settles, watches and redrives.
//!
//! A request's way: `listen` (timers, TLS, caps) → `front` (Host, Origin, token, scope) → the idempotency layer → `api/<noun>` →
//! the engine. A route is written down once, in its noun's file: the router, the matrix of scopes and the OpenAPI document all
//! come from there. Nothing here has a power of its own: every handler calls what the command line calls.

mod act;
mod api;
mod app;
mod bind;
mod body;
mod caller;
mod fault;
mod front;
mod gate;
mod heavy;
mod language;
mod listen;
mod meter;
mod object;
mod once;
mod openapi;
mod own;
mod path;
mod problem;
mod query;
mod reach;
mod remote;
mod request_id;
mod route;
mod settings;
pub mod shape;
mod told;
mod weight;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use redrive::GuardedCalls;
use redrive::engine::{Engine, EngineError, PushClients, PushEndpoint, Shutdown, TokenKeeper};
use redrive_idempotency::IdempotencyLayer;
use redrive_store::WorkerId;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use bind::BindRefused;
pub use caller::{Caller, Scope};
pub use listen::{Certificate, Drained, Tls, TlsTrouble};
pub use problem::{Code, Problem, Told};
pub use settings::ServerSettings;

/// A server on an engine.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    engine: Engine,
    settings: RwLock<Arc<ServerSettings>>,
    /// Services of the configuration that are called for jobs.
    push: watch::Sender<Vec<PushEndpoint>>,
    /// For calls that came in over the API, once somebody makes some.
    calls: OnceLock<GuardedCalls>,
    shutdown: Shutdown,
    presence: OnceLock<WorkerId>,
    remote: remote::Door,
    crowd: listen::Crowd,
    front: front::Front,
    keys: IdempotencyLayer,
    meter: meter::Meter,
    scale: weight::Scale,
}

impl Server {
    /// A server that answers for this engine.
    pub fn new(engine: &Engine, settings: ServerSettings) -> Server {
        let keys = gate::keys(engine, settings.max_body);
        let scale = weight::Scale::new(settings.max_bodies);
        Server(Arc::new(Inner {
            engine: engine.clone(),
            keys,
            settings: RwLock::new(Arc::new(settings)),
            push: watch::Sender::default(),
            calls: OnceLock::new(),
            shutdown: Shutdown::new(),
            presence: OnceLock::new(),
            remote: remote::Door::default(),
            crowd: listen::Crowd::default(),
            front: front::Front::new(TokenKeeper::new(engine)),
            meter: meter::Meter::default(),
            scale,
        }))
    }

    /// Answers on this listener until `shutdown` asks it to end: then nothing new is taken, and what runs is finished.
    pub async fn serve(&self, listener: TcpListener) -> std::io::Result<Drained> {
        let drained = listen::serve(self, listener, None).await;
        self.finish().await;
        drained
    }

    /// The same over TLS.
    pub async fn serve_tls(&self, listener: TcpListener, tls: &Tls) -> std::io::Result<Drained> {
        let drained = listen::serve(self, listener, Some(tls)).await;
        self.finish().await;
        drained
    }

    /// Waits for requests with a key whose clients went away, and writes down what was counted of keys.
    async fn finish(&self) {
        let ended = self.keys().guard().drain();
        tokio::select! {
            ended = tokio::time::timeout(self.settings().drain_for, ended) => {
                if let Ok(Err(error)) = ended {
                    tracing::warn!(%error, "how keys were used could not be written down");
                }
            }
            () = self.shutdown().ending_now() => {}
        }
    }

    /// Pushes to the endpoints on the board and to these of the configuration, until the shutdown. What it takes to call them is
    /// made at once, and not when the files may all be taken by clients: only the call can fail, and what it returns never does.
    pub fn push(
        &self,
        local: Vec<PushEndpoint>,
    ) -> Result<impl Future<Output = ()> + Send + 'static, EngineError> {
        self.0.push.send_replace(local);
        let clients = PushClients::new(self.guarded_calls()?)?;
        let server = self.clone();
        Ok(async move {
            server.engine().run_pushes(server.0.push.subscribe(), clients, server.shutdown()).await;
        })
    }

    /// Makes calls that came in over the API, and refuses what the settings do not allow; also those that come later.
    pub fn guarded_calls(&self) -> Result<GuardedCalls, EngineError> {
        if let Some(calls) = self.0.calls.get() {
            return Ok(calls.clone());
        }
        let calls = GuardedCalls::new(self.settings().guard.clone()).map_err(EngineError::HttpClient)?;
        Ok(self.0.calls.get_or_init(|| calls).clone())
    }

    /// The programs that jobs which came in over the API may run, as it is now.
    pub fn commands(&self) -> Vec<String> {
        self.settings().commands.clone()
    }

    /// Exchanges whom it lets in, what work that came in over the API may do, how many clients it bears, and which services it calls.
    /// The longest request and the time to drain stay as they were. When it fails, nothing has changed.
    pub fn reload(&self, settings: ServerSettings, push: Vec<PushEndpoint>) -> Result<(), EngineError> {
        if let Some(calls) = self.0.calls.get() {
            calls.guard_by(settings.guard.clone()).map_err(EngineError::HttpClient)?;
        }
        let held = self.settings();
        let settings = ServerSettings { max_body: held.max_body, drain_for: held.drain_for, ..settings };
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
        self.0.push.send_replace(push);
        Ok(())
    }

    /// By which it is asked to end.
    pub fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    /// As which worker this process is present in the store: leases that are taken through the API are this worker's. Whoever says
    /// so keeps the presence alive; only the first one counts.
    pub fn present_as(&self, worker: WorkerId) {
        // One process is one worker for as long as it lives.
        let _ = self.0.presence.set(worker);
    }

    /// As which worker this process is present, if somebody has said.
    pub fn presence(&self) -> Option<WorkerId> {
        self.0.presence.get().copied()
    }

    /// The description of the API, as OpenAPI 3.1.
    pub fn openapi() -> serde_json::Value {
        openapi::document(&api::routes())
    }

    pub(crate) fn meter(&self) -> &meter::Meter {
        &self.0.meter
    }

    pub(crate) fn scale(&self) -> &weight::Scale {
        &self.0.scale
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        self.0.crowd.len()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn crowd(&self) -> &listen::Crowd {
        &self.0.crowd
    }

    pub(crate) fn keys(&self) -> &IdempotencyLayer {
        &self.0.keys
    }

    pub(crate) fn front(&self) -> &front::Front {
        &self.0.front
    }

    pub(crate) fn settings(&self) -> Arc<ServerSettings> {
        Arc::clone(&self.0.settings.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}
