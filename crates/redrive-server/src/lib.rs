//! redrive over HTTP (design.md §6): every language enqueues, leases, settles, watches and redrives.
//!
//! A request's way: `listen` (timers, TLS, caps) → `front` (Host, Origin, token, scope) → the idempotency layer → `api/<noun>` →
//! the engine. A route is written down once, in its noun's file: the router, the matrix of scopes and the OpenAPI document all
//! come from there. Nothing here has a power of its own: every handler calls what the command line calls.

mod act;
mod api;
mod body;
mod caller;
mod listen;
mod openapi;
mod problem;
mod route;
mod settings;

use std::sync::Arc;

use redrive::engine::{Engine, Shutdown};
use tokio::net::TcpListener;

pub use caller::{Caller, Scope};
pub use problem::{Code, Problem};
pub use settings::ServerSettings;

/// A server on an engine.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    engine: Engine,
    settings: ServerSettings,
    shutdown: Shutdown,
}

impl Server {
    /// A server that answers for this engine.
    pub fn new(engine: &Engine, settings: ServerSettings) -> Server {
        Server(Arc::new(Inner { engine: engine.clone(), settings, shutdown: Shutdown::new() }))
    }

    /// Answers on this listener until `shutdown` asks it to end: then nothing new is taken, and what runs is finished.
    pub async fn serve(&self, listener: TcpListener) -> std::io::Result<()> {
        listen::serve(self, listener).await
    }

    /// By which it is asked to end.
    pub fn shutdown(&self) -> &Shutdown {
        &self.0.shutdown
    }

    /// The description of the API, as OpenAPI 3.1.
    pub fn openapi() -> serde_json::Value {
        openapi::document(&api::routes())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn settings(&self) -> &ServerSettings {
        &self.0.settings
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("engine", &self.0.engine).finish_non_exhaustive()
    }
}
