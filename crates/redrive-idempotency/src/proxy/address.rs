//! The service behind the proxy, as somebody writes it: `http://localhost:3000`.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;
use tokio::net::lookup_host;

/// The address of a service: a scheme, a host and a port, and nothing else, because targets pass as they are.
///
/// ```
/// use redrive_idempotency::proxy::UpstreamUrl;
/// let upstream: UpstreamUrl = "http://localhost:3000".parse().unwrap();
/// assert_eq!((upstream.host(), upstream.port()), ("localhost", 3000));
/// assert!("http://localhost:3000/api".parse::<UpstreamUrl>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamUrl {
    tls: bool,
    host: String,
    port: u16,
}

/// Why a text is no address of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUpstream {
    /// It cannot be read at all.
    #[error("it is not a URL such as http://localhost:3000")]
    NoUrl,
    /// It is neither http nor https.
    #[error("only http:// and https:// are spoken")]
    Scheme,
    /// It has a name or a password in it.
    #[error("a name or a password in it would be sent nowhere; clients send their own")]
    UserInfo,
    /// It has a path.
    #[error("a path in it would change what clients ask for; give the host and the port alone")]
    Path,
    /// It has a query or a fragment.
    #[error("what stands behind ? or # in it would be sent to nobody; give the host and the port alone")]
    Query,
    /// It is the proxy's own.
    #[error("the proxy itself listens there")]
    Itself,
}

impl BadUpstream {
    /// Its name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            BadUpstream::NoUrl => "no-url",
            BadUpstream::Scheme => "scheme",
            BadUpstream::UserInfo => "user-info",
            BadUpstream::Path => "path",
            BadUpstream::Query => "query",
            BadUpstream::Itself => "itself",
        }
    }
}

impl FromStr for UpstreamUrl {
    type Err = BadUpstream;

    fn from_str(text: &str) -> Result<UpstreamUrl, BadUpstream> {
        let uri: Uri = text.trim().parse().map_err(|_| BadUpstream::NoUrl)?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(BadUpstream::NoUrl);
        };
        let tls = match scheme {
            scheme if *scheme == Scheme::HTTP => false,
            scheme if *scheme == Scheme::HTTPS => true,
            _ => return Err(BadUpstream::Scheme),
        };
        if authority.as_str().contains('@') {
            return Err(BadUpstream::UserInfo);
        }
        if !matches!(uri.path(), "" | "/") {
            return Err(BadUpstream::Path);
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(BadUpstream::Query);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        // A colon without a number behind it is somebody's slip, not the usual port.
        let says_port = authority.as_str().rsplit(']').next().is_some_and(|rest| rest.contains(':'));
        let port = match authority.port_u16() {
            Some(port) if port > 0 => port,
            Some(_) => return Err(BadUpstream::NoUrl),
            None if says_port => return Err(BadUpstream::NoUrl),
            None if tls => 443,
            None => 80,
        };
        if host.is_empty() {
            return Err(BadUpstream::NoUrl);
        }
        Ok(UpstreamUrl { tls, host: host.to_owned(), port })
    }
}

impl UpstreamUrl {
    /// Whether it is spoken to by TLS.
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Its host, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Whether whoever listens here is the service itself, as far as that can be seen. A name that cannot be looked up leads nowhere yet.
    pub async fn leads_to(&self, listener: SocketAddr) -> bool {
        if self.port != listener.port() {
            return false;
        }
        let ours = listener.ip().to_canonical();
        let Ok(mut found) = lookup_host((self.host.as_str(), self.port)).await else { return false };
        found.any(|found| {
            let found = found.ip().to_canonical();
            found == ours
                || (ours.is_unspecified() && (found.is_loopback() || found.is_unspecified()))
                || (found.is_unspecified() && ours.is_loopback())
        })
    }

    /// As a Host header says it.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-I6: what is no service's address is refused at the door, and says why.
    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        let ok = |text: &str| text.parse::<UpstreamUrl>().unwrap().to_string();
        assert_eq!(ok("http://localhost:3000"), "http://localhost:3000");
        assert_eq!(ok("http://localhost:3000/"), "http://localhost:3000");
        assert_eq!(ok("https://example.com"), "https://example.com");
        assert_eq!(ok("https://example.com:443"), "https://example.com");
        assert_eq!(ok("http://[::1]:8080"), "http://[::1]:8080");
        for (text, why) in [
            ("", BadUpstream::NoUrl),
            ("localhost:3000", BadUpstream::NoUrl),
            ("/x", BadUpstream::NoUrl),
            ("http://", BadUpstream::NoUrl),
            ("http://host:", BadUpstream::NoUrl),
            ("http://host:0", BadUpstream::NoUrl),
            ("http://host:99999", BadUpstream::NoUrl),
            ("ftp://host", BadUpstream::Scheme),
            ("http://ada:secret@host", BadUpstream::UserInfo),
            ("http://host/api", BadUpstream::Path),
            ("http://host?x=1", BadUpstream::Query),
            ("http://host/#x", BadUpstream::Query),
        ] {
            assert_eq!(text.parse::<UpstreamUrl>(), Err(why), "{text}");
        }
    }
}
