//! The reverse proxy (R-I6): a service in any language puts it in front of itself, and from then on a request with a key does its
//! effect once.
//!
//! HTTP/1.1 on both sides. A request's way: `connection` reads its head → below `/.redrive/` the proxy answers itself (`admin`) → what
//! belongs to one connection ends here (`hops`) → the guard looks → `pass` for what is not guarded, which streams both ways unchanged;
//! `keyed` for what is, which is held, sent, tried again under a policy where that is safe, recorded and answered (`gather`).

mod address;
mod admin;
mod connection;
mod gather;
mod hops;
mod keyed;
mod live;
mod pass;
mod patience;
mod presence;
mod upstream;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderName};
use http_body_util::combinators::UnsyncBoxBody;
use redrive::engine::{EngineError, Shutdown};
use redrive_policy::Policy;
use redrive_policy::idempotency::Principal;
use redrive_store::StoreError;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::guard::Guard;
pub use address::{BadUpstream, UpstreamUrl};
use admin::Door;
use live::Live;
use upstream::Upstream;

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// What a client is answered with.
type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// The most headers of a message, and the most bytes of a request's head.
const MAX_HEADERS: usize = 256;
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How often keys are looked after when no request does it.
const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// How long nobody is let in when the system has no more room for connections.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How a proxy goes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyOptions {
    /// The service.
    pub upstream: UpstreamUrl,
    /// The name of the policy under which a request with a key is sent again.
    pub policy: String,
    /// How long the service may take to answer; for a request with a key all tries together.
    pub upstream_timeout: Duration,
    /// How long a connection to the service may take.
    pub connect_timeout: Duration,
    /// How long a client may take to send a head, to go on with a body, to send the whole body of a guarded request, and to take what it
    /// is answered.
    pub client_timeout: Duration,
    /// How long what is under way may take at the end.
    pub drain_for: Duration,
    /// How many clients are served at a time; who comes later waits.
    pub max_connections: usize,
}

impl ProxyOptions {
    /// The usual ones for this service.
    pub fn new(upstream: UpstreamUrl) -> ProxyOptions {
        ProxyOptions {
            upstream,
            policy: "standard".to_owned(),
            upstream_timeout: Duration::from_mins(1),
            connect_timeout: Duration::from_secs(5),
            client_timeout: Duration::from_secs(30),
            drain_for: Duration::from_secs(30),
            max_connections: 1_024,
        }
    }
}

/// Something that a person may want to know at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notable {
    /// A request was sent, and nobody knows what it did.
    UnknownOutcome {
        /// Its method and path.
        endpoint: String,
        /// Its key.
        key: String,
        /// What happened.
        why: String,
    },
    /// Holders had fallen silent, such as a proxy that was killed: so many outcomes are unknown now.
    Lapsed(u64),
    /// The service can no longer be reached.
    UpstreamDown {
        /// What the system said.
        why: String,
    },
    /// It can be reached again.
    UpstreamUp,
    /// The store cannot be asked for keys: requests that carry one are refused.
    StoreDown {
        /// What it said.
        why: String,
    },
    /// It can be asked again.
    StoreUp,
    /// How a request ended could not be written down.
    NotRecorded {
        /// Its method and path.
        endpoint: String,
    },
}

/// Why there is no proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// There is no policy of that name.
    #[error(transparent)]
    Policy(#[from] EngineError),
    /// TLS to the service cannot be made ready.
    #[error("TLS to the service cannot be made ready: {0}")]
    Tls(String),
    /// What was counted could not be added up at the end.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a proxy ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was under way is done.
    Whole,
    /// So many requests with a key were still under way; their keys will say that nobody knows.
    Cut(usize),
}

/// A reverse proxy in front of one service.
pub struct Proxy(Arc<Shared>);

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("options", &self.0.options).finish_non_exhaustive()
    }
}

type Teller = Box<dyn Fn(Notable) + Send + Sync>;

/// What all connections share.
struct Shared {
    guard: Guard,
    options: ProxyOptions,
    policy: Policy,
    upstream: Arc<Upstream>,
    live: Arc<Live>,
    /// Headers by which the guard tells requests apart: no client may have them taken off on the way.
    stays: Vec<HeaderName>,
    tell: Teller,
}

impl Proxy {
    /// A proxy that asks this guard, and tells what is notable.
    ///
    /// ```
    /// use redrive::engine::{Engine, Shutdown};
    /// use redrive_idempotency::Guard;
    /// use redrive_idempotency::proxy::{Ended, Proxy, ProxyOptions};
    /// use redrive_policy::idempotency::Guarded;
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("redrive.db");
    /// let engine = Engine::open(&path)?;
    /// let guard = Guard::of_proxy(&engine, Guarded::whatever_carries_a_key());
    /// let options = ProxyOptions::new("http://127.0.0.1:3000".parse().unwrap());
    /// let proxy = Proxy::new(guard, options, |notable| println!("{notable:?}")).unwrap();
    /// let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    /// let shutdown = Shutdown::new();
    /// # shutdown.signal();
    /// assert_eq!(proxy.serve(listener, None, &shutdown).await.unwrap(), Ended::Whole);
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub fn new(
        guard: Guard,
        options: ProxyOptions,
        tell: impl Fn(Notable) + Send + Sync + 'static,
    ) -> Result<Proxy, ProxyError> {
        let policy = guard.engine().policy(&options.policy)?;
        let upstream =
            Upstream::new(options.upstream.clone(), options.connect_timeout, options.upstream_timeout);
        let upstream = Arc::new(upstream.map_err(ProxyError::Tls)?);
        let mut stays = vec![AUTHORIZATION, COOKIE, CONTENT_TYPE];
        stays.extend(guard.guarded().routes.iter().filter_map(|route| match &route.rules.principal {
            Principal::Header(name) => HeaderName::try_from(name).ok(),
            Principal::Authorization | Principal::Everybody => None,
        }));
        let tell = Box::new(tell);
        Ok(Proxy(Arc::new(Shared { guard, options, policy, upstream, live: Arc::default(), stays, tell })))
    }

    /// Serves until it is told to end: then nobody new is let in, and what is under way may finish within its time. With a listener of
    /// their own, health and metrics are told there and nowhere else.
    pub async fn serve(
        &self,
        clients: TcpListener,
        admin: Option<TcpListener>,
        shutdown: &Shutdown,
    ) -> Result<Ended, ProxyError> {
        let shared = &self.0;
        let told_elsewhere = admin.is_some();
        // Health and metrics are told until the very end, so that whoever watches sees that it ends.
        let admin = admin.map(|listener| {
            let most = Arc::new(Semaphore::new(connection::ADMIN_CONNECTIONS));
            tokio::spawn(accepting(Arc::clone(shared), listener, most, Shutdown::new(), |_| Door::Admin))
        });
        let most = Arc::new(Semaphore::new(shared.options.max_connections));
        let door = move |peer| Door::Clients { peer, told_elsewhere };
        tokio::select! {
            () = accepting(Arc::clone(shared), clients, most, shutdown.clone(), door) => {}
            () = sweeping(shared) => {}
        }
        shared.live.is_draining.store(true, Ordering::Release);
        let drained = tokio::select! {
            () = shared.live.over() => true,
            () = sleep(shared.options.drain_for) => false,
            () = shutdown.ending_now() => false,
        };
        if let Some(admin) = admin {
            admin.abort();
        }
        let left = usize::try_from(shared.live.guarded.now()).unwrap_or(usize::MAX);
        shared.guard.write_counts().await?;
        Ok(if drained || left == 0 { Ended::Whole } else { Ended::Cut(left) })
    }
}

/// Lets clients in until it is told to end.
async fn accepting(
    shared: Arc<Shared>,
    listener: TcpListener,
    most: Arc<Semaphore>,
    shutdown: Shutdown,
    door: impl Fn(SocketAddr) -> Door,
) {
    let letting_in = async {
        loop {
            let Ok(room) = Arc::clone(&most).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let one = live::one(&shared.live, |live| &live.connections);
                    let serving =
                        connection::serve(Arc::clone(&shared), stream, door(peer), shutdown.clone());
                    tokio::spawn(async move {
                        serving.await;
                        drop((one, room));
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a client could not be let in");
                    sleep(ACCEPT_REST).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.draining() => {}
        () = letting_in => {}
    }
}

/// Looks after keys now and then, for as long as the proxy lets clients in.
async fn sweeping(shared: &Shared) {
    let mut now_and_then = interval(SWEEP_EVERY);
    now_and_then.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        now_and_then.tick().await;
        match shared.guard.sweep().await {
            Ok(swept) if swept.lapsed > 0 => (shared.tell)(Notable::Lapsed(swept.lapsed)),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "idempotency keys could not be looked after; it is tried again");
            }
        }
    }
}

impl Shared {
    /// When the service must have answered.
    fn until(&self) -> Instant {
        Instant::now() + self.options.upstream_timeout
    }

    fn is_up(&self) {
        if self.live.is_down.swap(false, Ordering::AcqRel) {
            (self.tell)(Notable::UpstreamUp);
        }
    }

    /// A request has asked the store for its key: whether that worked is told when it changes.
    fn has_asked_the_store(&self) {
        match self.guard.trouble() {
            None if self.live.store_is_down.swap(false, Ordering::AcqRel) => (self.tell)(Notable::StoreUp),
            Some((_, why)) if !self.live.store_is_down.swap(true, Ordering::AcqRel) => {
                (self.tell)(Notable::StoreDown { why });
            }
            _ => {}
        }
    }

    fn is_down(&self, why: &str) {
        self.live.unreachable.fetch_add(1, Ordering::Relaxed);
        if !self.live.is_down.swap(true, Ordering::AcqRel) {
            (self.tell)(Notable::UpstreamDown { why: why.to_owned() });
        }
    }
}

/// Reads a body that must be there within a time.
async fn in_time<T>(limit: Duration, reading: impl Future<Output = T>) -> Option<T> {
    timeout(limit, reading).await.ok()
}
