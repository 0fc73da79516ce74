//! Health and metrics, below a prefix that is never passed on: `/.redrive/livez`, `/.redrive/readyz`, `/.redrive/metrics`.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use redrive_policy::Lang;
use tokio::time::timeout;

use super::Shared;
use crate::problem::{Problem, Refusal};

/// Paths below this belong to the proxy.
pub(super) const RESERVED: &str = "/.redrive/";
/// How long somebody who asks whether we are ready waits for the store.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How long a store that took no key counts as one that takes none.
const TROUBLE_LASTS: Duration = Duration::from_secs(30);

/// Who asks, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// Where clients come in, from this peer; nothing is told here when there is a door of its own.
    Clients { peer: SocketAddr, told_elsewhere: bool },
    /// A door of its own.
    Admin,
}

impl Shared {
    /// The answer to a request below the reserved prefix.
    pub(super) async fn reserved(
        &self,
        door: Door,
        method: &Method,
        path: &str,
        lang: Lang,
    ) -> Response<Bytes> {
        let (told, is_near) = match door {
            Door::Admin => (true, true),
            Door::Clients { peer, told_elsewhere } => {
                (!told_elsewhere, peer.ip().to_canonical().is_loopback())
            }
        };
        let name = path.strip_prefix(RESERVED).filter(|_| told);
        let is_there = matches!(name, Some("livez" | "readyz")) || (name == Some("metrics") && is_near);
        if !is_there {
            return Problem::ProxyRefused(Refusal::Reserved).response(lang);
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match name {
            Some("livez") => plain(StatusCode::OK, "ok\n"),
            Some("readyz") => self.ready().await,
            _ => self.metrics().await,
        }
    }

    async fn ready(&self) -> Response<Bytes> {
        if self.live.is_draining.load(Ordering::Acquire) {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
        }
        // A store that can be read may still refuse to write. After a while somebody has to try again, so this does not last.
        let refuses = self.guard.trouble().is_some_and(|(at, _)| at.elapsed() < TROUBLE_LASTS);
        if refuses {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the store takes no keys\n");
        }
        match timeout(STORE_ANSWERS_WITHIN, self.guard.engine().store().key_standing()).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "not ready: the store gives trouble");
                return plain(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n");
            }
            Err(_) => return plain(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n"),
        }
        match self.upstream.reach().await {
            Ok(()) => {
                self.is_up();
                plain(StatusCode::OK, "ready\n")
            }
            Err(error) => {
                self.is_down(&error.to_string());
                plain(StatusCode::SERVICE_UNAVAILABLE, "the service cannot be reached\n")
            }
        }
    }

    async fn metrics(&self) -> Response<Bytes> {
        let live = self.live.page(self.guard.held());
        // What the store knows belongs to the same page; when it does not answer, that is itself worth knowing.
        let mut response = match self.guard.engine().prometheus().await {
            Ok(page) => plain(StatusCode::OK, page + &live),
            Err(error) => {
                tracing::warn!(%error, "metrics without the store's figures");
                plain(StatusCode::OK, live)
            }
        };
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
