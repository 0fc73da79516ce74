//! The listener: our own loop over hyper, so that every wait on a client has an end and nobody can take everything
//! (reliability 57, 58).
//!
//! A connection has a place among so many, a clock on its line, and a look at the head of every request. An accept that fails is
//! waited out. At the end nothing new is taken, what runs may finish, and what does not is cut and counted. HTTP/1.1 is spoken, and
//! nothing else.

mod arriving;
mod careful;
mod crowd;
mod head;
mod line;
mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::Server;
use crate::app::App;
use crate::settings::ServerSettings;
use arriving::{Arriving, BodyPace, Leaving};
use careful::careful;
use crowd::Place;
pub(crate) use crowd::{Crowd, one_of};
use line::{Line, Paces, Turn};
pub use tls::{Certificate, Tls, TlsTrouble};

/// How long an accept that fails is waited out, at first and at most: the process has too many files, or the machine too little.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long the rest of a head, or of a handshake, may take once we are about to end.
const REST_WITHIN: Duration = Duration::from_millis(500);
/// The most headers of a request.
const MOST_HEADERS: usize = 100;
/// What a client is told for whom there is no place; it is not listened to.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// From where a request came; it stands in the extensions of each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Drained {
    /// The connections that were cut in the middle of a request.
    pub cut: usize,
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
}

pub(crate) async fn serve(server: &Server, listener: TcpListener, tls: Option<&Tls>) -> io::Result<Drained> {
    may_open_many();
    serve_app(server, App::new(server), listener, tls).await
}

async fn serve_app(
    server: &Server,
    app: App,
    listener: TcpListener,
    tls: Option<&Tls>,
) -> io::Result<Drained> {
    let (phase, phases) = watch::channel(Phase::Serving);
    let answering = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    let mut wait = FIRST_WAIT;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = server.shutdown().draining() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_clients(&error) => continue,
            Err(error) => {
                // What is open will be closed; until then nobody new comes in, and nothing spins.
                tracing::warn!(%error, wait_ms = wait.as_millis(), "no connection can be accepted");
                tokio::select! {
                    () = sleep(wait) => {}
                    () = server.shutdown().draining() => break,
                }
                wait = (wait * 2).min(LONGEST_WAIT);
                continue;
            }
        };
        wait = FIRST_WAIT;
        // As they are now: they may change while it listens.
        let settings = server.settings();
        let most = settings.max_connections;
        let Some(place) = server.crowd().enter(peer.ip(), most, settings.max_connections_per_address) else {
            turn_away(&stream, tls.is_some());
            continue;
        };
        // Where it cannot be set, answers are a little later.
        let _ = stream.set_nodelay(true);
        let (app, answering, phases) = (app.clone(), Arc::clone(&answering), phases.clone());
        let connection = Connection { app, peer, answering, phases, place };
        let tls = tls.cloned();
        connections.spawn(connection.serve(stream, settings, tls));
    }
    drop(listener);
    // Whoever waits for the next request is told to go.
    phase.send_replace(Phase::Draining);
    let until = Instant::now() + server.settings().drain_for;
    let finished = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        _ = timeout_at(until, finished) => {}
        () = server.shutdown().ending_now() => {}
    }
    let cut = answering.load(Ordering::Acquire);
    connections.shutdown().await;
    if cut > 0 {
        tracing::warn!(cut, "connections were cut in the middle of a request");
    }
    Ok(Drained { cut })
}

/// As many files as this process may have at all, instead of the few that it begins with: each connection is one.
fn may_open_many() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "the number of open files cannot be raised");
        }
    }
}

/// Whether an accept failed because the client went away, which is nobody's trouble.
fn is_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Nobody waits for it to be read.
fn turn_away(stream: &TcpStream, encrypted: bool) {
    if !encrypted {
        let _ = stream.try_write(NO_PLACE);
    }
}

struct Connection {
    app: App,
    peer: SocketAddr,
    answering: Arc<AtomicUsize>,
    phases: watch::Receiver<Phase>,
    place: Place,
}

impl Connection {
    async fn serve(self, stream: TcpStream, settings: Arc<ServerSettings>, tls: Option<Tls>) {
        let Some(tls) = tls else { return self.speak(stream, &settings).await };
        let mut phases = self.phases.clone();
        let ends = async {
            // Its sender lives as long as the listener.
            let _ = phases.changed().await;
            sleep(REST_WITHIN).await;
        };
        tokio::select! {
            shaken = timeout(settings.head_within, tls.acceptor().accept(stream)) => match shaken {
                Ok(Ok(stream)) => self.speak(stream, &settings).await,
                Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                Err(_) => tracing::debug!("a handshake took too long"),
            },
            () = ends => tracing::debug!("a handshake was not over at the end"),
        }
    }

    async fn speak<IO>(self, io: IO, settings: &ServerSettings)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Connection { app, peer, answering, mut phases, place } = self;
        let turn = Turn::new(answering);
        let seen = Arc::clone(&turn);
        let line = Line::new(io, settings.paces(), Arc::clone(&turn));
        let pace = settings.body_pace();
        let service = service_fn(move |request: http::Request<Incoming>| {
            let app = app.clone();
            let mut request: Request =
                request.map(|body| Body::new(Arriving::new(body, pace, Arc::clone(&turn))));
            let turn = turn.begin();
            request.extensions_mut().insert(Peer(peer));
            async move {
                let answer = careful(app.answer(request)).await;
                Ok::<Response<Leaving>, Infallible>(answer.map(|body| Leaving::new(body, turn)))
            }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .max_buf_size(head::MOST)
                .max_headers(MOST_HEADERS)
                .serve_connection(TokioIo::new(line), service)
        );
        let mut rest = std::pin::pin!(sleep(Duration::ZERO));
        let mut ends = false;
        let ended = loop {
            tokio::select! {
                ended = connection.as_mut() => break ended,
                // Its sender lives as long as the listener.
                Ok(()) = phases.changed() => {
                    connection.as_mut().graceful_shutdown();
                    rest.as_mut().reset(Instant::now() + REST_WITHIN);
                    ends = true;
                }
                // Nobody waits for a request that may never come.
                () = &mut rest, if ends => {
                    ends = false;
                    if seen.is_half() {
                        break Ok(());
                    }
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended badly");
        }
        drop(place);
    }
}

impl ServerSettings {
    fn paces(&self) -> Paces {
        Paces {
            head_within: self.head_within,
            idle_for: self.idle_for,
            read_within: self.read_within,
            still_for: self.body_within,
            least_rate: self.least_rate,
        }
    }

    fn body_pace(&self) -> BodyPace {
        BodyPace { grace: self.head_within, least_rate: self.least_rate, within: self.body_within }
    }
}

#[cfg(test)]
mod tests;
