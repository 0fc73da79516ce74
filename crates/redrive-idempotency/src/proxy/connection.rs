//! One client: its requests one after another, each sent where it belongs.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use redrive::engine::Shutdown;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::admin::{Door, RESERVED};
use super::patience::Patient;
use super::{Answer, MAX_HEAD_BYTES, MAX_HEADERS, Shared, hops, presence};
use crate::guard::Looked;
use crate::problem::{Problem, Refusal, language};

/// How many may ask for health and metrics at a time, where they have a door of their own.
pub(super) const ADMIN_CONNECTIONS: usize = 32;
/// How long a client that is connected and has not asked for anything may still do so at the end.
const LAST_CALL: Duration = Duration::from_millis(500);

pub(super) async fn serve(shared: Arc<Shared>, stream: TcpStream, door: Door, shutdown: Shutdown) {
    if let Err(error) = presence::prepared(&stream) {
        tracing::debug!(%error, "a client went away before it was let in");
        return;
    }
    let Ok(here) = stream.local_addr() else { return };
    let patience = shared.options.client_timeout;
    let begun = AtomicBool::new(false);
    let (line, client) = presence::line(stream);
    let service = service_fn(|request| {
        begun.store(true, Ordering::Relaxed);
        let (shared, client) = (Arc::clone(&shared), client.clone());
        async move {
            let answer = answer(shared, door, here, request).await;
            Ok::<_, Infallible>(answer.map(|body| client.hears(body)))
        }
    });
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES)
        .preserve_header_case(true)
        // Half a connection still wants its answer: `printf … | nc` is a client, too. Who is gone is found out by looking.
        .half_close(true)
        .serve_connection(TokioIo::new(Patient::new(line, patience)), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.draining() => {
            connection.as_mut().graceful_shutdown();
            if begun.load(Ordering::Relaxed) {
                connection.await
            } else {
                // Somebody who never asked for anything would be waited for as if it had.
                timeout(LAST_CALL, connection).await.unwrap_or(Ok(()))
            }
        }
    };
    if let Err(error) = ended {
        // What a client does to its own connection is its own affair.
        tracing::debug!(%error, "a connection ended before its time");
    }
}

/// A whole answer as a body.
pub(super) fn whole(response: Response<Bytes>) -> Response<Answer> {
    response.map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())
}

async fn answer(
    shared: Arc<Shared>,
    door: Door,
    here: SocketAddr,
    mut request: Request<Incoming>,
) -> Response<Answer> {
    let lang = language(request.headers());
    let refused = |refusal| whole(Problem::ProxyRefused(refusal).response(lang));
    if door == Door::Admin || request.uri().path().starts_with(RESERVED) {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        return whole(shared.reserved(door, &method, &path, lang).await);
    }
    if let Door::Clients { peer, .. } = door
        && shared.upstream.is_ours(peer, here)
    {
        return refused(Refusal::Loop);
    }
    if request.method() == Method::CONNECT {
        return refused(Refusal::Connect);
    }
    let usual = shared.options.upstream.authority();
    if let Err(refusal) = as_origin(&mut request, &usual) {
        return refused(refusal);
    }
    if !hops::is_framed_plainly(request.headers()) {
        return refused(Refusal::Coding);
    }
    let upgrade = hops::upgrade_of(request.headers());
    let goes_on = hops::waits_to_go_on(request.version(), request.headers());
    hops::end_here(request.headers_mut(), &shared.stays);
    *request.version_mut() = Version::HTTP_11;
    match shared.guard.look(request.method(), request.uri(), request.headers()) {
        Looked::Pass => shared.pass(request, upgrade, goes_on).await,
        Looked::Refused(answer) => whole(answer),
        Looked::Guarded(asked) => shared.keyed(asked, request).await,
    }
}

/// Makes a request one to an origin server, which the service is: its target in origin form, and one host.
fn as_origin<B>(request: &mut Request<B>, usual: &str) -> Result<(), Refusal> {
    let hosts = request.headers().get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() >= Version::HTTP_11) {
        return Err(Refusal::Host);
    }
    // What the target says counts for more than the header (RFC 9112 §3.2.2).
    let host = match request.uri().authority() {
        Some(authority) => {
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            Some(HeaderValue::from_str(host).map_err(|_| Refusal::Host)?)
        }
        // A client of HTTP/1.0 need not say one.
        None if hosts == 0 => Some(HeaderValue::from_str(usual).map_err(|_| Refusal::Host)?),
        None => None,
    };
    if let Some(host) = host {
        if request.uri().authority().is_some() {
            let mut parts = http::uri::Parts::default();
            // A host alone is the target of a tunnel, and nothing that a service can be asked for.
            parts.path_and_query = Some(request.uri().path_and_query().ok_or(Refusal::Target)?.clone());
            *request.uri_mut() = Uri::from_parts(parts).map_err(|_| Refusal::Host)?;
        }
        request.headers_mut().insert(HOST, host);
    }
    Ok(())
}
