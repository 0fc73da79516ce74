//! Who is let in: a look at the head of every request, before its route is known.
//!
//! First by which name we were called and from which page (a browser can be made to ask us, DNS can be made to lie), then by whom.
//! While the store has never had a token, whoever is on this machine may do everything; from then on a token is needed for all but
//! health. A token that does not hold is answered in one way, whatever is wrong with it.

mod throttle;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use axum::extract::Request;
use http::header::{AUTHORIZATION, FORWARDED, HOST, HeaderMap, HeaderName, ORIGIN};
use http::uri::Authority;
use redrive::engine::{Act, Shown, TokenKeeper};

use crate::caller::Caller;
use crate::listen::{Peer, one_of};
use crate::problem::{Code, Problem};
use crate::route::Need;
use crate::{Server, api};
use throttle::Throttle;

/// In which a request says why it acts.
const REASON: HeaderName = HeaderName::from_static("redrive-reason");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The most characters of a reason.
const REASON_CHARS: usize = 1_000;

/// The paths that need nothing.
static OPEN: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let open = api::routes().into_iter().filter(|route| route.need == Need::Nothing);
    open.map(|route| route.path).collect()
});

/// What the front remembers.
pub(crate) struct Front {
    pub(crate) tokens: TokenKeeper,
    /// Tokens shown in vain, by address and by the id that they claim.
    by_address: Throttle,
    by_id: Throttle,
    /// How many refusals are written down.
    written: Throttle,
}

impl Front {
    pub(crate) fn new(tokens: TokenKeeper) -> Front {
        Front {
            tokens,
            by_address: Throttle::new(Duration::from_secs(1), 20),
            by_id: Throttle::new(Duration::from_secs(2), 10),
            written: Throttle::new(Duration::from_secs(1), 20),
        }
    }
}

/// Who asks, or why nobody is let in. Asked of every request, those about health included.
pub(crate) async fn admit(server: &Server, request: &mut Request) -> Result<Caller, Problem> {
    if OPEN.contains(request.uri().path()) {
        return Ok(Caller::nobody());
    }
    // An alert that becomes work would raise alerts of its own.
    if request.headers().contains_key(redrive::engine::ALERT_HOP) {
        return Err(Problem::new(Code::Invalid, "alerts.loop"));
    }
    let called = check_host(server, request)?;
    check_origin(server, request.headers(), &called)?;
    let why = reason(request.headers());
    let front = server.front();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip());
    // It is not needed behind here, and what is not there cannot be told on.
    let twice = request.headers().get_all(AUTHORIZATION).iter().nth(1).is_some();
    let shown = request.headers_mut().remove(AUTHORIZATION);
    let Some(shown) = shown else {
        if is_here(peer, request.headers()) && !front.tokens.any().await? {
            return Ok(Caller { why, ..Caller::local() });
        }
        return Err(Problem::of(Code::Unauthorized));
    };
    if is_here(peer, request.headers()) && !front.tokens.any_now().await? {
        // Nobody has made a token: this one is from elsewhere, and is not needed.
        return Ok(Caller { why, ..Caller::local() });
    }
    // Of two tokens nobody knows which is meant.
    let text = shown.to_str().ok().filter(|_| !twice).and_then(bearer).unwrap_or_default();
    match front.tokens.check(text).await? {
        Shown::Good(token) => Ok(Caller {
            who: format!("token:{}", token.id),
            scopes: token.scopes.clone(),
            queues: token.queues.clone(),
            why,
        }),
        Shown::Bad(id) => Err(turned_away(server, peer, &id, request)),
    }
}

/// Whether somebody who was let in would be let in now: until its token ends, or the store has its first.
pub(crate) async fn is_still_in(server: &Server, caller: &Caller) -> Result<bool, Problem> {
    let tokens = &server.front().tokens;
    match caller.who.strip_prefix("token:") {
        Some(id) => Ok(tokens.holds(id).await?),
        None => Ok(!tokens.any().await?),
    }
}

/// The token in `Authorization: Bearer rdv_…`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Whether a request comes from this machine itself, and not through a proxy on it.
fn is_here(peer: Option<IpAddr>, headers: &HeaderMap) -> bool {
    let forwarded = headers.contains_key(FORWARDED) || headers.contains_key(FORWARDED_FOR);
    peer.is_some_and(|peer| peer.to_canonical().is_loopback()) && !forwarded
}

/// What is told of a token that does not hold: the same of every one, until there were too many.
fn turned_away(server: &Server, peer: Option<IpAddr>, id: &str, request: &Request) -> Problem {
    let front = server.front();
    let address = peer.map(one_of);
    refused(server, "unknown", request.method().as_str(), request.uri().path(), address);
    match (front.by_address.count(address), front.by_id.count(id)) {
        (Ok(()), Ok(())) => Problem::of(Code::Unauthorized),
        (one, other) => {
            let wait = one.err().unwrap_or_default().max(other.err().unwrap_or_default());
            Problem::new(Code::TooMany, "front.too-many-tokens").retry_after(wait)
        }
    }
}

/// Writes down that somebody was refused, and lets nobody wait for it. So many a second; who is refused more often is known by then.
pub(crate) fn refused(server: &Server, who: &str, method: &str, path: &str, from: Option<IpAddr>) {
    if server.front().written.count(who).is_err() {
        return;
    }
    let from = from.map_or_else(String::new, |from| format!(" from {from}"));
    let act = Act {
        who: who.to_owned(),
        act: "api".to_owned(),
        target: format!("{method} {path}{from}"),
        why: None,
    };
    let engine = server.engine().clone();
    tokio::spawn(async move {
        if let Err(error) = engine.record_refusal(act).await {
            tracing::warn!(%error, "a refusal could not be written down");
        }
    });
}

/// By which name we were called; a problem when it is none of ours.
fn check_host(server: &Server, request: &Request) -> Result<Authority, Problem> {
    let bad = || Problem::new(Code::Forbidden, "front.host");
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = hosts.next().ok_or_else(|| Problem::new(Code::Invalid, "front.no-host"))?;
    if hosts.next().is_some() {
        return Err(Problem::new(Code::Invalid, "front.no-host"));
    }
    // An address in the first line beats the header (RFC 9112, 3.2.2).
    let called = match request.uri().authority() {
        Some(authority) => authority.clone(),
        None => header.to_str().ok().and_then(|host| host.parse().ok()).ok_or_else(bad)?,
    };
    let host = called.host().trim_end_matches('.').to_ascii_lowercase();
    let is_ours = is_local_name(&host) || server.settings().hosts.contains(&host);
    if is_ours && !called.as_str().contains('@') { Ok(called) } else { Err(bad()) }
}

fn is_local_name(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// A page that asks must be our own, or one that is listed.
fn check_origin(server: &Server, headers: &HeaderMap, called: &Authority) -> Result<(), Problem> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let Some(origin) = origins.next() else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
    let place = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let ours = place.is_some_and(|place| place.eq_ignore_ascii_case(called.as_str()));
    let listed = server.settings().origins.contains(&origin);
    if (ours || listed) && origins.next().is_none() {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "front.origin"))
}

/// Why a request acts, in its own words. A header is bytes; people write UTF-8.
fn reason(headers: &HeaderMap) -> Option<String> {
    let words = String::from_utf8_lossy(headers.get(REASON)?.as_bytes()).into_owned();
    Some(words.chars().take(REASON_CHARS).collect())
}
