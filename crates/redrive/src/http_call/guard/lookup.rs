//! Looking names up: once for a connection, every address of the answer is checked, and only checked ones are connected to. So a
//! name that answers differently the second time gains nothing.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::Guard;

/// What a name stands for, or why that is not known.
pub type Looked = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

type Names = dyn Fn(String) -> Looked + Send + Sync;

/// How names are looked up.
#[derive(Clone)]
pub struct Lookup(Arc<Names>);

impl Lookup {
    /// As this machine looks them up.
    pub fn system() -> Lookup {
        Lookup::by(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|address| address.ip()).collect())
            })
        })
    }

    /// As this function says.
    pub fn by(names: impl Fn(String) -> Looked + Send + Sync + 'static) -> Lookup {
        Lookup(Arc::new(names))
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lookup")
    }
}

/// A resolver that hands on checked addresses only.
pub(super) struct Checked {
    pub(super) guard: Arc<Guard>,
    pub(super) lookup: Lookup,
    /// Where the call goes, if that is a port that we listen at.
    pub(super) port: u16,
    /// For hosts that are listed by name.
    pub(super) trusted: bool,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (guard, port, trusted) = (Arc::clone(&self.guard), self.port, self.trusted);
        let host = name.as_str().to_owned();
        let looking = (self.lookup.0)(host.clone());
        Box::pin(async move {
            // What is not known is not connected to. It may be known the next time.
            let found = looking.await?;
            if found.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name stands for no address").into());
            }
            // One address inside condemns the whole answer: whoever sent it wanted us there.
            for address in &found {
                guard.check_address(&host, *address, port, trusted)?;
            }
            let checked: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(checked)
        })
    }
}
