//! Where a server may listen: on this machine always, beyond it only with tokens, and with TLS unless somebody vouches for what
//! stands in front of it.

use std::net::SocketAddr;

use crate::Server;

/// Why a server does not listen somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindRefused {
    /// Everybody could do everything.
    #[error(
        "{addr} can be reached from other machines, and there are no tokens; make one first: redrive token create"
    )]
    NoTokens {
        /// Where it would listen.
        addr: SocketAddr,
    },
    /// Tokens and payloads could be read on the way.
    #[error(
        "{addr} can be reached from other machines, and there is no TLS; set [server] tls, or --insecure-http when a proxy in front of it does that"
    )]
    NoTls {
        /// Where it would listen.
        addr: SocketAddr,
    },
}

impl Server {
    /// Whether a server may listen here.
    ///
    /// ```
    /// use redrive_server::{BindRefused, Server};
    /// let (here, everywhere) = ("127.0.0.1:7411".parse().unwrap(), "0.0.0.0:7411".parse().unwrap());
    /// assert_eq!(Server::check_bind(here, false, false, false), Ok(()));
    /// assert_eq!(Server::check_bind(everywhere, false, true, false), Err(BindRefused::NoTokens { addr: everywhere }));
    /// assert_eq!(Server::check_bind(everywhere, true, false, false), Err(BindRefused::NoTls { addr: everywhere }));
    /// assert_eq!(Server::check_bind(everywhere, true, false, true), Ok(()));
    /// ```
    pub fn check_bind(
        addr: SocketAddr,
        has_tokens: bool,
        has_tls: bool,
        insecure_http: bool,
    ) -> Result<(), BindRefused> {
        if addr.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        match (has_tokens, has_tls || insecure_http) {
            (false, _) => Err(BindRefused::NoTokens { addr }),
            (true, false) => Err(BindRefused::NoTls { addr }),
            (true, true) => Ok(()),
        }
    }
}
