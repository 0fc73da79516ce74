//! Where a server listens: addresses as people write them, and the listeners there.

use std::net::SocketAddr;

use tokio::net::{TcpListener, lookup_host};

use crate::trouble::{ServeTrouble, Trouble};

/// A listener, and where it really listens.
pub(super) struct Bound {
    pub(super) listener: TcpListener,
    pub(super) at: SocketAddr,
}

/// Listens at each of these, or at none.
pub(super) async fn bind(addresses: &[String]) -> Result<Vec<Bound>, Trouble> {
    let mut bound = Vec::with_capacity(addresses.len());
    for address in addresses {
        let cannot = |source| Trouble::Serve(ServeTrouble::Listen { address: address.clone(), source });
        let listener = TcpListener::bind(resolve(address).await?.as_slice()).await.map_err(cannot)?;
        let at = listener.local_addr().map_err(cannot)?;
        bound.push(Bound { listener, at });
    }
    Ok(bound)
}

/// The addresses that a name and a port mean.
pub(super) async fn resolve(address: &str) -> Result<Vec<SocketAddr>, Trouble> {
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
