//! Where a call may go that somebody else has asked for (reliability 60, ADR 0046).
//!
//! Work that came in over the API must not reach what only this machine can reach: itself, its neighbours, the metadata of its
//! cloud. So its calls are made by clients of their own: each name is looked up once, every address of the answer is looked at, and
//! only those that were looked at are connected to. A name that cannot be looked up is not connected to, redirects are not followed, and
//! proxies of the environment are not asked. What is refused says what it was and how to allow it, and is not tried again.

mod address;
mod lookup;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock};

use redrive_policy::{Allowed, Cause, Report, ServerConfig, Verdict};
use reqwest::{Client, Url};

use super::{HttpSpec, call_http, http_client};
use crate::outcome::{Evidence, Executed, Outcome};
use crate::surroundings::Surroundings;
pub use address::{Inside, inside};
use lookup::Checked;
pub use lookup::{Looked, Lookup};

/// The ports that may be reached unless others are listed.
const USUAL_PORTS: [u16; 2] = [80, 443];
/// What the name that every machine has for itself stands for, as far as it can be told without looking it up.
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What calls that came in over the API may reach.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allow: Vec<Allowed>,
    ports: Vec<u16>,
    /// Where we listen ourselves.
    own: Vec<SocketAddr>,
}

/// Why a call is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The address is not one of the outside world.
    #[error(
        "{} {inside}; jobs that came in over the API do not reach it unless [server] allow lists it (allow = [\"{address}\"])",
        whereabouts(host, *address)
    )]
    Inside {
        /// The host as it was written.
        host: String,
        /// The address that was found.
        address: IpAddr,
        /// What kind of address that is.
        inside: Inside,
    },
    /// It is where we listen ourselves.
    #[error(
        "{} where this server listens itself; a job that came in over the API does not reach it",
        whereabouts(host, *address)
    )]
    Ourselves {
        /// The host as it was written.
        host: String,
        /// The address that was found.
        address: IpAddr,
    },
    /// Not on this port.
    #[error(
        "port {port} is not among those that jobs which came in over the API may reach; list it in [server] ports, or the host in [server] allow (allow = [\"{host}:{port}\"])"
    )]
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// An address with a name and a password in it is easily misread.
    #[error("the address has a name or a password before its host; send them in a header")]
    UserInfo,
    /// It is not an http or https address.
    #[error("this is not an http or https address with a host")]
    NoHost,
}

/// A host and its address; who wrote the address itself is not told twice.
fn whereabouts(host: &str, address: IpAddr) -> String {
    if host.parse() == Ok(address) { format!("{address} is") } else { format!("{host} is {address},") }
}

impl Guard {
    /// What a configuration allows.
    pub fn of(config: &ServerConfig) -> Guard {
        Guard { allow: config.allow.clone(), ports: config.ports.clone(), own: Vec::new() }
    }

    /// Never where we listen ourselves, whatever is allowed.
    #[must_use]
    pub fn and_not(mut self, own: impl IntoIterator<Item = SocketAddr>) -> Guard {
        self.own.extend(own);
        self
    }

    /// Whether an address may be asked at all, as far as it can be told without looking its name up.
    ///
    /// ```
    /// use redrive::Guard;
    /// let guard = Guard::default();
    /// assert!(guard.check("https://example.com/hook").is_ok());
    /// for inside in ["http://127.0.0.1/", "http://2130706433/", "http://0x7f.1/", "http://[::ffff:10.0.0.1]/", "http://169.254.169.254/"] {
    ///     assert!(guard.check(inside).is_err(), "{inside}");
    /// }
    /// ```
    pub fn check(&self, url: &str) -> Result<(), Refused> {
        self.check_url(&Url::parse(url).map_err(|_| Refused::NoHost)?)
    }

    fn check_url(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::NoHost);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::UserInfo);
        }
        let (host, port) = place(url).ok_or(Refused::NoHost)?;
        let address = host.parse().ok().or_else(|| (host == "localhost").then_some(LOCALHOST));
        // First of all: no setting would help.
        if let Some(address) = address.filter(|address| self.is_own(*address, port)) {
            return Err(Refused::Ourselves { host, address });
        }
        let listed = self.trusts(&host, port);
        if !listed && !self.is_usual(port) {
            return Err(Refused::Port { host, port });
        }
        match host.parse() {
            Ok(address) => self.check_address(&host, address, port, listed),
            Err(_) => Ok(()),
        }
    }

    /// Whether a host is listed by its name, and its operator vouches for wherever it is.
    fn trusts(&self, host: &str, port: u16) -> bool {
        self.allow.iter().any(|allowed| match allowed {
            Allowed::Host(name) => name == host && self.is_usual(port),
            Allowed::HostPort(name, known) => name == host && *known == port,
            Allowed::Net { .. } => false,
        })
    }

    fn is_usual(&self, port: u16) -> bool {
        if self.ports.is_empty() { USUAL_PORTS.contains(&port) } else { self.ports.contains(&port) }
    }

    /// Whether this address of a host may be connected to.
    fn check_address(&self, host: &str, address: IpAddr, port: u16, trusted: bool) -> Result<(), Refused> {
        let host = host.to_owned();
        if self.is_own(address, port) {
            return Err(Refused::Ourselves { host, address });
        }
        match inside(address) {
            Some(inside) if !trusted && !self.allows(address) => {
                Err(Refused::Inside { host, address, inside })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether we listen there ourselves.
    fn is_own(&self, address: IpAddr, port: u16) -> bool {
        self.own.iter().any(|own| {
            own.port() == port
                && (own.ip().to_canonical() == address.to_canonical()
                    || (own.ip().is_unspecified() && is_this_machine(address)))
        })
    }

    fn allows(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|allowed| match allowed {
            Allowed::Net { address: net, prefix } => address::is_in(address, *net, *prefix),
            Allowed::Host(_) | Allowed::HostPort(..) => false,
        })
    }
}

/// Whether an address is one of this machine's own: only then can something be bound to it.
fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

/// The host without brackets and in lower case, and the port.
fn place(url: &Url) -> Option<(String, u16)> {
    let host = url.host_str().filter(|host| !host.is_empty())?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.trim_end_matches('.').to_ascii_lowercase(), url.port_or_known_default()?))
}

/// Makes calls that somebody else has asked for. Cheap to clone; every clone is held to the same guard, also when that changes.
#[derive(Debug, Clone)]
pub struct GuardedCalls {
    lookup: Lookup,
    held: Arc<RwLock<Arc<Held>>>,
}

/// A guard, and the clients that it stands before.
#[derive(Debug)]
struct Held {
    guard: Arc<Guard>,
    usual: Clients,
    /// For the ports that we listen at ourselves: whoever looks a name up is not told its port.
    own: Vec<(u16, Clients)>,
}

/// Those who call, by how far they go.
#[derive(Debug, Clone)]
struct Clients {
    /// For every host but those that are listed by name.
    strict: Client,
    trusting: Client,
}

impl Held {
    fn new(guard: Guard, lookup: &Lookup) -> Result<Held, reqwest::Error> {
        let guard = Arc::new(guard);
        let client = |port, trusted| {
            let names = Checked { guard: Arc::clone(&guard), lookup: lookup.clone(), port, trusted };
            http_client().no_proxy().dns_resolver(Arc::new(names)).build()
        };
        let clients = |port| Ok(Clients { strict: client(port, false)?, trusting: client(port, true)? });
        let mut ports: Vec<u16> = guard.own.iter().map(SocketAddr::port).collect();
        ports.sort_unstable();
        ports.dedup();
        let own = ports.into_iter().map(|port| clients(port).map(|clients| (port, clients)));
        let own = own.collect::<Result<Vec<_>, reqwest::Error>>()?;
        // No listener is at port 0: nothing is our own there.
        Ok(Held { usual: clients(0)?, own, guard })
    }

    fn client(&self, url: &str) -> Result<&Client, Refused> {
        let url = Url::parse(url).map_err(|_| Refused::NoHost)?;
        self.guard.check_url(&url)?;
        let (host, port) = place(&url).unwrap_or_default();
        let own = self.own.iter().find(|(own, _)| *own == port).map(|(_, clients)| clients);
        let clients = own.unwrap_or(&self.usual);
        Ok(if self.guard.trusts(&host, port) { &clients.trusting } else { &clients.strict })
    }
}

impl GuardedCalls {
    /// By the machine's own names.
    pub fn new(guard: Guard) -> Result<GuardedCalls, reqwest::Error> {
        GuardedCalls::looking_up(guard, &Lookup::system())
    }

    /// By other names than the machine's.
    pub fn looking_up(guard: Guard, lookup: &Lookup) -> Result<GuardedCalls, reqwest::Error> {
        let held = Held::new(guard, lookup)?;
        Ok(GuardedCalls { lookup: lookup.clone(), held: Arc::new(RwLock::new(Arc::new(held))) })
    }

    /// Holds calls that begin from now on to another guard. They get new connections, too: one that is open may lead to where
    /// nobody may go any more.
    pub fn guard_by(&self, guard: Guard) -> Result<(), reqwest::Error> {
        let held = Arc::new(Held::new(guard, &self.lookup)?);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
        Ok(())
    }

    fn held(&self) -> Arc<Held> {
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a call once, as [`call_http`] does, if it may be made.
    pub async fn call(&self, spec: &HttpSpec, around: &Surroundings) -> Executed {
        match self.held().client(&spec.url) {
            Ok(client) => call_http(client, spec, around).await,
            Err(refused) => not_made(&refused),
        }
    }

    /// The client that may be used for this address, for those who make their call themselves. It is not kept for the next.
    pub fn client(&self, url: &str) -> Result<Client, Refused> {
        self.held().client(url).cloned()
    }
}

/// What is refused now is refused later, unless somebody changes the configuration.
fn not_made(refused: &Refused) -> Executed {
    Executed::silent(Outcome::failed(evidence(refused)), std::time::Duration::ZERO)
}

pub(crate) fn evidence(refused: &Refused) -> Evidence {
    let report = Report::said(Cause::Configuration, Verdict::No, refused.to_string());
    Evidence { never_sent: true, ..Evidence::from_report("Refused", &report) }
}

/// The refusal inside the error of a client, if that is what it is.
pub(super) fn refusal_in(error: &reqwest::Error) -> Option<Refused> {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    // A chain of causes is short; one that is not is none of ours.
    for _ in 0..32 {
        let error = next?;
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused.clone());
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(text: &str) -> Guard {
        let config = redrive_policy::Config::parse(text, redrive_policy::Format::Toml, "redrive.toml");
        Guard::of(&config.unwrap().server)
    }

    /// Reliability 60: every way to write an address inside is refused, before anything is looked up.
    #[test]
    fn every_way_to_write_an_address_inside_is_refused() {
        let guard = Guard::default();
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[::7f00:1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:7f00:1::]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://10.1.2.3/",
            "http://100.64.0.1/",
            "http://255.255.255.255/",
            "http://１２７.0.0.1/",
        ] {
            assert!(matches!(guard.check(url), Err(Refused::Inside { .. })), "{url}: {:?}", guard.check(url));
        }
        for url in ["https://ada:secret@example.com/", "https://token@example.com/"] {
            let refused = guard.check(url).unwrap_err();
            assert!(refused == Refused::UserInfo && !refused.to_string().contains("secret"), "{url}");
        }
        assert!(matches!(guard.check("http://example.com:22/"), Err(Refused::Port { port: 22, .. })));
        for url in ["ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "nonsense"] {
            assert_eq!(guard.check(url), Err(Refused::NoHost), "{url}");
        }
        assert_eq!(guard.check("http://1.1.1.1/"), Ok(()));
        let said = guard.check("http://169.254.169.254/").unwrap_err().to_string();
        assert!(said.starts_with("169.254.169.254 is a link-local address; "), "{said}");
        let named =
            Refused::Inside { host: "db".to_owned(), address: [10, 0, 0, 1].into(), inside: Inside::Private };
        assert!(named.to_string().starts_with("db is 10.0.0.1, a private address; "), "{named}");
        assert_eq!(guard.check("https://[2606:4700::1111]/"), Ok(()));
    }

    /// Reliability 60: what is allowed is allowed, and nothing beside it.
    #[test]
    fn what_is_listed_is_allowed_and_nothing_beside_it() {
        let allowing =
            guard("[server]\nallow = [\"10.0.0.0/8\", \"127.0.0.1:8080\", \"db\"]\nports = [80, 9000]");
        for (url, passes) in [
            ("http://10.1.2.3/", true),
            ("http://[::ffff:10.1.2.3]/", true),
            ("http://10.1.2.3:9000/", true),
            ("http://10.1.2.3:443/", false),
            ("http://11.1.2.3:22/", false),
            ("http://192.168.0.1/", false),
            ("http://127.0.0.1:8080/", true),
            ("http://127.0.0.1:8081/", false),
            ("http://127.0.0.1/", false),
            ("http://db/", true),
            ("http://db:81/", false),
        ] {
            assert_eq!(allowing.check(url).is_ok(), passes, "{url}: {:?}", allowing.check(url));
        }
        let own = allowing.and_not(["127.0.0.1:8080".parse().unwrap(), "0.0.0.0:9000".parse().unwrap()]);
        assert!(matches!(own.check("http://127.0.0.1:8080/"), Err(Refused::Ourselves { .. })));
        assert!(matches!(own.check("http://127.0.0.1:9000/"), Err(Refused::Ourselves { .. })));
        assert_eq!(own.check("http://10.1.2.3:9000/"), Ok(()), "that is no address of this machine");
        // Also where the port would be refused anyway: nothing that could be listed helps.
        let own =
            Guard::default().and_not(["127.0.0.1:8080".parse().unwrap(), "0.0.0.0:9000".parse().unwrap()]);
        for url in ["http://127.0.0.1:8080/", "http://localhost:8080/", "http://LOCALHOST.:9000/"] {
            assert!(matches!(own.check(url), Err(Refused::Ourselves { .. })), "{url}");
        }
    }
}
