//! `proxy`: idempotency keys in front of a service in any language (R-I6). Quiet but for what a person must know.

use std::net::SocketAddr;

use redrive::engine::Shutdown;
use redrive_idempotency::Guard;
use redrive_idempotency::proxy::{BadUpstream, Ended, Notable, Proxy, ProxyError, ProxyOptions, UpstreamUrl};
use redrive_policy::idempotency::{Guarded, Route};
use redrive_policy::{Lang, ProxySettings};
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

use super::opened;
use super::signals::{SIGINT, Signals};
use crate::args::ProxyArgs;
use crate::text::{say, text};
use crate::trouble::{ProxyTrouble, Trouble};
use crate::view::key_reason::key_reason;
use crate::{Exit, Stage};

/// Where it listens when nobody says so: nobody else can reach that.
const DEFAULT_LISTEN: &str = "127.0.0.1:7412";
/// How many routes are named when it begins.
const NAMED_ROUTES: usize = 3;

pub(super) fn run(args: &ProxyArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    // What is wrong with the command line is said before anything is opened.
    let options = options(args, &config.proxy, stage)?;
    let guarded = config.idempotency.clone();
    let what = what(guarded.as_ref(), stage.settings.lang);
    let guarded = guarded.unwrap_or_else(Guarded::whatever_carries_a_key);
    let listen = args.listen.clone().or_else(|| config.proxy.listen.clone());
    let addresses =
        Addresses { listen: listen.unwrap_or_else(|| DEFAULT_LISTEN.to_owned()), admin: args.admin.clone() };
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&config, stage)?;
    let guard = Guard::of_proxy(&engine, guarded);
    let ended = opened.runtime.block_on(proxy(guard, options, &addresses, &what, stage));
    let closed = opened.wait(opened.store.close());
    let exit = ended?;
    closed?;
    Ok(exit)
}

struct Addresses {
    listen: String,
    admin: Option<String>,
}

/// What holds: flags, then the configuration, then what is usual.
fn options(args: &ProxyArgs, settings: &ProxySettings, stage: &Stage<'_>) -> Result<ProxyOptions, Trouble> {
    let Some(url) = args.upstream.clone().or_else(|| settings.upstream.clone()) else {
        return Err(Trouble::Proxy(ProxyTrouble::NoUpstream));
    };
    let upstream: UpstreamUrl =
        url.parse().map_err(|why| Trouble::Proxy(ProxyTrouble::BadUpstream { url, why }))?;
    let usual = ProxyOptions::new(upstream);
    let config = stage.settings.config()?;
    let named = args.policy.as_deref().or(settings.policy.as_deref());
    let policy = stage.settings.policy(&config, named)?;
    let most = args.max_connections.or(settings.max_connections.map(u64::from));
    Ok(ProxyOptions {
        policy: policy.name.clone(),
        upstream_timeout: args
            .upstream_timeout
            .or(settings.upstream_timeout)
            .unwrap_or(usual.upstream_timeout),
        connect_timeout: settings.connect_timeout.unwrap_or(usual.connect_timeout),
        client_timeout: args.client_timeout.or(settings.client_timeout).unwrap_or(usual.client_timeout),
        drain_for: args.drain_for.or(settings.drain_for).unwrap_or(usual.drain_for),
        max_connections: most
            .map_or(usual.max_connections, |most| usize::try_from(most).unwrap_or(usize::MAX))
            .min(tokio::sync::Semaphore::MAX_PERMITS),
        ..usual
    })
}

async fn proxy(
    guard: Guard,
    options: ProxyOptions,
    addresses: &Addresses,
    what: &str,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let lang = stage.settings.lang;
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let url = options.upstream.clone();
    let upstream = url.to_string();
    let (teller, mut told) = unbounded_channel();
    let proxy = Proxy::new(guard, options, move |notable| {
        // Nobody listens only when this process is on its way out.
        let _ = teller.send(notable);
    })
    .map_err(in_trouble)?;
    let (clients, listen) = bound(&addresses.listen).await?;
    if url.leads_to(listen).await {
        return Err(Trouble::Proxy(ProxyTrouble::BadUpstream { url: upstream, why: BadUpstream::Itself }));
    }
    let admin = match &addresses.admin {
        Some(address) => Some(bound(address).await?),
        None => None,
    };
    let values: [(&str, &dyn std::fmt::Display); 3] =
        [("listen", &listen), ("upstream", &upstream), ("what", &what)];
    stage.talk.note(&text(lang, "proxy.begin", &values));
    if let Some((_, admin)) = &admin {
        stage.talk.note(&text(lang, "proxy.admin", &[("admin", admin)]));
    }
    let shutdown = Shutdown::new();
    let ended = {
        let mut serving = std::pin::pin!(proxy.serve(clients, admin.map(|(admin, _)| admin), &shutdown));
        loop {
            tokio::select! {
                biased;
                Some(notable) = told.recv() => tell(&notable, &upstream, stage),
                signal = signals.next() => {
                    if signal == SIGINT {
                        stage.talk.after_a_key();
                    }
                    if !shutdown.is_draining() {
                        stage.talk.note(&say(lang, "proxy.draining"));
                    }
                    shutdown.signal();
                }
                ended = &mut serving => break ended.map_err(in_trouble)?,
            }
        }
    };
    while let Ok(notable) = told.try_recv() {
        tell(&notable, &upstream, stage);
    }
    match ended {
        Ended::Whole => Ok(Exit::Done),
        Ended::Cut(n) => {
            stage.talk.warning(&text(lang, "proxy.cut", &[("n", &n)]));
            Ok(Exit::Partly)
        }
    }
}

fn in_trouble(error: ProxyError) -> Trouble {
    match error {
        ProxyError::Policy(error) => error.into(),
        ProxyError::Store(error) => error.into(),
        ProxyError::Tls(why) => Trouble::Proxy(ProxyTrouble::Tls(why)),
    }
}

/// A listener, and where it really listens.
async fn bound(address: &str) -> Result<(TcpListener, SocketAddr), Trouble> {
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port {
        return Err(Trouble::Proxy(ProxyTrouble::BadAddress { address: address.to_owned() }));
    }
    let cannot = |source| Trouble::Proxy(ProxyTrouble::Listen { address: address.to_owned(), source });
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let at = listener.local_addr().map_err(cannot)?;
    Ok((listener, at))
}

/// One line for what a person must know.
fn tell(notable: &Notable, upstream: &str, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    match notable {
        Notable::UnknownOutcome { endpoint, key, why } => {
            let why = key_reason(why, lang).unwrap_or_else(|| why.clone());
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("endpoint", endpoint), ("key", key), ("why", &why)];
            stage.talk.warning(&text(lang, "proxy.unknown", &values));
        }
        Notable::Lapsed(n) => stage.talk.warning(&text(lang, "proxy.lapsed", &[("n", n)])),
        Notable::UpstreamDown { why } => {
            stage.talk.warning(&text(lang, "proxy.down", &[("upstream", &upstream), ("why", why)]));
        }
        Notable::UpstreamUp => stage.talk.note(&text(lang, "proxy.up", &[("upstream", &upstream)])),
        Notable::StoreDown { why } => {
            stage.talk.warning(&text(lang, "proxy.store-down", &[("why", why)]));
        }
        Notable::StoreUp => stage.talk.note(&text(lang, "proxy.store-up", &[])),
        Notable::NotRecorded { endpoint } => {
            stage.talk.warning(&text(lang, "proxy.not-recorded", &[("endpoint", endpoint)]));
        }
    }
}

/// What is guarded, in a few words.
fn what(guarded: Option<&Guarded>, lang: Lang) -> String {
    let Some(guarded) = guarded else { return say(lang, "proxy.everything") };
    if guarded.routes.is_empty() {
        return say(lang, "proxy.unguarded");
    }
    let named: Vec<String> =
        guarded.routes.iter().take(NAMED_ROUTES).map(|route| route_in_words(route, lang)).collect();
    let named = named.join(", ");
    match guarded.routes.len().saturating_sub(NAMED_ROUTES) {
        0 => named,
        n => text(lang, "proxy.more", &[("routes", &named), ("n", &n)]),
    }
}

fn route_in_words(route: &Route, lang: Lang) -> String {
    let methods = if route.methods.is_empty() { "POST, PATCH".to_owned() } else { route.methods.join(", ") };
    let named = text(lang, "proxy.route", &[("methods", &methods), ("path", &route.path)]);
    if route.rules.required { text(lang, "proxy.required", &[("route", &named)]) } else { named }
}
