//! Where a server listens: addresses as people write them, and the listeners there.

use std::net::SocketAddr;

use redrive_policy::Lang;
use redrive_server::{Server, Tls};
use tokio::net::{TcpListener, lookup_host};

use crate::text::{say, text};
use crate::trouble::{ServeTrouble, Trouble};

/// A listener, and where it really listens.
pub(super) struct Bound {
    pub(super) listener: TcpListener,
    pub(super) at: SocketAddr,
}

/// What protects the server.
pub(super) struct Guarded {
    /// How many tokens hold; nothing where there never was one.
    pub(super) tokens: Option<usize>,
    pub(super) tls: Option<Tls>,
    pub(super) insecure_http: bool,
}

impl Guarded {
    /// The same in a few words.
    pub(super) fn in_words(&self, lang: Lang) -> String {
        let who = match self.tokens {
            None => say(lang, "serve.open"),
            Some(n) => text(lang, "serve.tokens", &[("n", &n)]),
        };
        match self.tls {
            Some(_) => text(lang, "serve.tls", &[("who", &who)]),
            None => who,
        }
    }
}

/// Listens at each of these, or at none. Nobody listens beyond this machine without protection.
pub(super) async fn bind(addresses: &[String], guarded: &Guarded) -> Result<Vec<Bound>, Trouble> {
    let mut resolved = Vec::with_capacity(addresses.len());
    for address in addresses {
        let found = resolve(address).await?;
        for at in &found {
            Server::check_bind(*at, guarded.tokens.is_some(), guarded.tls.is_some(), guarded.insecure_http)
                .map_err(|why| Trouble::Serve(ServeTrouble::Unprotected(why)))?;
        }
        resolved.push((address, found));
    }
    let mut bound = Vec::with_capacity(addresses.len());
    for (address, found) in resolved {
        let cannot = |source| Trouble::Serve(ServeTrouble::Listen { address: address.clone(), source });
        let listener = TcpListener::bind(found.as_slice()).await.map_err(cannot)?;
        let at = listener.local_addr().map_err(cannot)?;
        bound.push(Bound { listener, at });
    }
    Ok(bound)
}

/// The addresses that a name and a port mean.
async fn resolve(address: &str) -> Result<Vec<SocketAddr>, Trouble> {
    let bad = || Trouble::Serve(ServeTrouble::BadAddress { address: address.to_owned() });
    let has_port = address.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    if !has_port {
        return Err(bad());
    }
    let found: Vec<SocketAddr> = lookup_host(address).await.map_err(|_| bad())?.collect();
    if found.is_empty() { Err(bad()) } else { Ok(found) }
}
