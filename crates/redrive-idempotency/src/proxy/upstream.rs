//! The way to the service: connections, which of them are used again, and what is certain when a request is not answered.
//!
//! A request that no connection took was never sent, and that is the one thing which may always be tried again. Everything else is in
//! doubt, because nobody can tell an answer that was lost from a request that was.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::ServerName;

use super::patience::Patient;
use super::{BoxError, MAX_HEADERS, UpstreamUrl};

/// What is sent to a service.
pub(super) type Sent = UnsyncBoxBody<Bytes, BoxError>;

/// How long a connection may have been idle before it is used again. Services close theirs after 5 s and more, and one that is
/// closed while a request is on its way leaves a doubt: a request with a key takes no such chance.
const IDLE_PASSING: Duration = Duration::from_secs(4);
const IDLE_KEYED: Duration = Duration::from_secs(1);
/// The most idle connections that are kept.
const MAX_IDLE: usize = 256;

/// How careful a request is about the connection that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    Passing,
    Keyed,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Not a byte of the request was sent.
    NeverSent(io::Error),
    /// It was sent, at least in part, and then the connection was lost or answered what is no HTTP.
    Lost(BoxError),
    /// It was sent, and its time is over.
    TimedOut,
}

/// The service, and the connections to it.
pub(super) struct Upstream {
    pub(super) url: UpstreamUrl,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    connect_timeout: Duration,
    /// How long the service may refuse to take a byte.
    patience: Duration,
    idle: Mutex<Vec<(SendRequest<Sent>, Instant)>>,
    /// The connections to the service, by both ends. A client at the other end of one of them is ourselves.
    ours: Arc<Mutex<HashSet<Ends>>>,
}

impl Upstream {
    pub(super) fn new(
        url: UpstreamUrl,
        connect_timeout: Duration,
        patience: Duration,
    ) -> Result<Upstream, String> {
        let tls = if url.is_tls() { Some(tls(&url)?) } else { None };
        Ok(Upstream { url, tls, connect_timeout, patience, idle: Mutex::default(), ours: Arc::default() })
    }

    /// Sends a request and waits for the head of its answer, until then.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Sent>,
        care: Care,
        until: Instant,
    ) -> Result<Response<Incoming>, Trouble> {
        loop {
            let (mut sender, is_new) = match self.idle(care) {
                Some(sender) => (sender, false),
                None => (self.connected(until).await.map_err(Trouble::NeverSent)?, true),
            };
            let answer = match timeout_at(until, sender.try_send_request(request)).await {
                Err(_) => return Err(Trouble::TimedOut),
                Ok(Ok(answer)) => answer,
                Ok(Err(mut refused)) => match refused.take_message() {
                    // An idle connection was closed meanwhile, which proves nothing: the next one may do.
                    Some(unsent) if !is_new => {
                        request = unsent;
                        continue;
                    }
                    Some(_) => {
                        let why = io::Error::new(io::ErrorKind::ConnectionReset, refused.into_error());
                        return Err(Trouble::NeverSent(why));
                    }
                    None => return Err(Trouble::Lost(refused.into_error().into())),
                },
            };
            let upstream = Arc::clone(self);
            tokio::spawn(async move {
                // Ready once its answer was read to the end; never when it is closed.
                if sender.ready().await.is_ok() {
                    upstream.keep(sender);
                }
            });
            if !super::hops::is_framed_plainly(answer.headers()) {
                return Err(Trouble::Lost("it was answered in a coding that nobody asked for".into()));
            }
            return Ok(answer);
        }
    }

    fn idle(&self, care: Care) -> Option<SendRequest<Sent>> {
        let most = if care == Care::Keyed { IDLE_KEYED } else { IDLE_PASSING };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The latest first. Those below it have been idle for longer.
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() > most {
                if since.elapsed() > IDLE_PASSING {
                    idle.clear();
                } else {
                    idle.push((sender, since));
                }
                return None;
            }
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, sender: SendRequest<Sent>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() == MAX_IDLE {
            idle.remove(0);
        }
        idle.push((sender, Instant::now()));
    }

    /// Whether the client of a connection is this proxy, which was told that it is its own service. Both ends must fit: a client may well
    /// have the port that one of our own connections has, which leads elsewhere.
    pub(super) fn is_ours(&self, client: SocketAddr, here: SocketAddr) -> bool {
        let ends = (canonical(client), canonical(here));
        self.ours.lock().unwrap_or_else(PoisonError::into_inner).contains(&ends)
    }

    /// Whether somebody listens there.
    pub(super) async fn reach(&self) -> io::Result<()> {
        self.dialled().await.map(drop)
    }

    async fn dialled(&self) -> io::Result<TcpStream> {
        let dialling = TcpStream::connect((self.url.host(), self.url.port()));
        let stream = timeout(self.connect_timeout, dialling).await.map_err(|_| too_slow())??;
        super::presence::prepared(&stream)?;
        Ok(stream)
    }

    async fn connected(&self, until: Instant) -> io::Result<SendRequest<Sent>> {
        let connecting = async {
            let stream = self.dialled().await?;
            let end = End::new(&self.ours, (stream.local_addr()?, stream.peer_addr()?));
            match &self.tls {
                None => self.spoken_to(stream, end).await,
                Some((connector, name)) => {
                    let shaking = connector.connect(name.clone(), stream);
                    let stream = timeout(self.connect_timeout, shaking).await.map_err(|_| too_slow())??;
                    self.spoken_to(stream, end).await
                }
            }
        };
        timeout_at(until, connecting).await.map_err(|_| too_slow())?
    }

    async fn spoken_to<S>(&self, stream: S, end: End) -> io::Result<SendRequest<Sent>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(Patient::new(stream, self.patience));
        let shaken =
            Builder::new().preserve_header_case(true).max_headers(MAX_HEADERS).handshake(stream).await;
        let (sender, connection) = shaken.map_err(io::Error::other)?;
        tokio::spawn(async move {
            // Whoever waits for an answer hears of its trouble; without anybody it concerns nobody.
            let _ = connection.with_upgrades().await;
            drop(end);
        });
        Ok(sender)
    }
}

/// Where a connection begins and where it ends.
type Ends = (SocketAddr, SocketAddr);

/// One of our connections, for as long as it is there.
struct End(Arc<Mutex<HashSet<Ends>>>, Ends);

impl End {
    fn new(ours: &Arc<Mutex<HashSet<Ends>>>, (from, to): Ends) -> End {
        let ends = (canonical(from), canonical(to));
        ours.lock().unwrap_or_else(PoisonError::into_inner).insert(ends);
        End(Arc::clone(ours), ends)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.1);
    }
}

/// The same address is written in two ways where both kinds of them are listened to.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn too_slow() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no connection came about in time")
}

fn tls(url: &UpstreamUrl) -> Result<(TlsConnector, ServerName<'static>), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| told(&error))?
        .with_platform_verifier()
        .map_err(|error| told(&error))?
        .with_no_client_auth();
    let name = ServerName::try_from(url.host().to_owned()).map_err(|error| told(&error))?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I6: only the far end of one of our own connections is ourselves; a client that has the same port is a client.
    #[test]
    fn a_client_with_our_port_is_a_client() {
        let url = "http://127.0.0.1:3000".parse().unwrap();
        let upstream = Upstream::new(url, Duration::from_secs(1), Duration::from_secs(1)).unwrap();
        let [ours, service, proxy] =
            [40_000, 3_000, 7_412].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let to_the_service = End::new(&upstream.ours, (ours, service));
        assert!(!upstream.is_ours(ours, proxy));
        let to_itself = End::new(&upstream.ours, (ours, proxy));
        assert!(upstream.is_ours(ours, proxy));
        drop((to_the_service, to_itself));
        assert!(!upstream.is_ours(ours, proxy));
    }
}
