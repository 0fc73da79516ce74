//! What the server is told, as a file writes it (design.md §6).

// From `core`, which has addresses and no sockets: the policy opens none.
use core::net::IpAddr;
use std::time::Duration;

use super::Notes;
use super::node::Node;
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff::duration;
use super::read_policy::texts;
use super::words::short;
use crate::size::parse_size;

/// Where the server listens, whom it lets in, and what work that came in over the API may do. What is not said is the server's to
/// choose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerConfig {
    /// Where it listens: hosts and ports.
    pub listen: Vec<String>,
    /// The names that it answers to, beside those of this machine.
    pub hosts: Vec<String>,
    /// The origins of pages that may ask, beside its own.
    pub origins: Vec<String>,
    /// Private addresses that calls which came in over the API may reach.
    pub allow: Vec<Allowed>,
    /// The ports that such calls may reach; none: 80 and 443.
    pub ports: Vec<u16>,
    /// The programs that jobs which came in over the API may run.
    pub commands: Vec<String>,
    /// The certificate that it shows.
    pub tls: Option<TlsFiles>,
    /// Whether it may listen beyond this machine without TLS.
    pub insecure_http: bool,
    /// How many jobs it runs at once.
    pub concurrency: Option<u32>,
    /// How long what runs may take at the end.
    pub drain_for: Option<Duration>,
    /// How many clients are served at a time.
    pub max_connections: Option<u32>,
    /// How many of them may come from one address.
    pub max_connections_per_address: Option<u32>,
    /// The longest request, in bytes.
    pub max_body: Option<usize>,
}

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificates, as PEM.
    pub cert: String,
    /// Their key, as PEM.
    pub key: String,
}

/// What calls that came in over the API may reach, although it is private.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Every address of a network.
    Net {
        /// The network.
        address: IpAddr,
        /// How many of its first bits count.
        prefix: u8,
    },
    /// A host, wherever it is; on the usual ports.
    Host(String),
    /// A host, on this port.
    HostPort(String, u16),
}

impl std::str::FromStr for Allowed {
    type Err = ();

    /// ```
    /// use redrive_policy::Allowed;
    /// let net: Allowed = "10.0.0.0/8".parse().unwrap();
    /// assert_eq!(net, Allowed::Net { address: "10.0.0.0".parse().unwrap(), prefix: 8 });
    /// assert_eq!("Files.internal:8080".parse(), Ok(Allowed::HostPort("files.internal".into(), 8080)));
    /// assert!("10.0.0.0/33".parse::<Allowed>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Allowed, ()> {
        let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if let Some((address, prefix)) = text.split_once('/') {
            let address: IpAddr = bare(address).parse().map_err(|_| ())?;
            let prefix = prefix.parse().map_err(|_| ())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            return if prefix <= most { Ok(Allowed::Net { address, prefix }) } else { Err(()) };
        }
        if let Ok(address) = bare(text).parse::<IpAddr>() {
            return Ok(Allowed::Net { address, prefix: if address.is_ipv4() { 32 } else { 128 } });
        }
        match text.rsplit_once(':') {
            Some((host, _)) if host.contains(':') && !host.starts_with('[') => Err(()),
            Some((host, port)) => match port.parse() {
                Ok(port) if port > 0 && !host.is_empty() => Ok(Allowed::HostPort(bare(host), port)),
                _ => Err(()),
            },
            None if text.is_empty() || text.contains(['[', ']']) => Err(()),
            None => Ok(Allowed::Host(text.to_ascii_lowercase())),
        }
    }
}

/// The section `server`.
pub(super) fn read(file: &Node, notes: &mut Notes) -> ServerConfig {
    let Some(section) = file.get("server") else { return ServerConfig::default() };
    let list = |name: &str| section.get(name).map(texts).unwrap_or_default();
    let lower = |name: &str| list(name).iter().map(|text| text.to_ascii_lowercase()).collect();
    let whole =
        |name: &str| section.get(name).and_then(Node::whole).and_then(|whole| u32::try_from(whole).ok());
    let text = |table: &Node, name: &str| table.get(name).and_then(Node::text).map(str::to_owned);
    let tls = section
        .get("tls")
        .and_then(|tls| Some(TlsFiles { cert: text(tls, "cert")?, key: text(tls, "key")? }));
    let max_body = section.get("max_body").and_then(|size| match size.text() {
        Some(text) => parse_size(text).ok().and_then(|bytes| usize::try_from(bytes).ok()),
        None => usize::try_from(size.whole()?).ok(),
    });
    let ports = section.get("ports").map(Node::items).unwrap_or_default();
    ServerConfig {
        listen: list("listen"),
        hosts: lower("hosts"),
        origins: lower("origins"),
        allow: allowed(section, notes),
        ports: ports.iter().filter_map(Node::whole).filter_map(|port| u16::try_from(port).ok()).collect(),
        commands: list("commands"),
        tls,
        insecure_http: section.get("insecure_http").and_then(Node::bool).unwrap_or_default(),
        concurrency: whole("concurrency"),
        drain_for: duration(section, "drain_for", "drain_for"),
        max_connections: whole("max_connections"),
        max_connections_per_address: whole("max_connections_per_address"),
        max_body,
    }
}

/// What is allowed; what looks like it and is nothing that can be reached is noted.
fn allowed(section: &Node, notes: &mut Notes) -> Vec<Allowed> {
    let path = Path::Top.field("server");
    let path = path.field("allow");
    let mut allowed = Vec::new();
    for (i, item) in section.get("allow").map(Node::items).unwrap_or_default().iter().enumerate() {
        let Some(text) = item.text() else { continue };
        if let Ok(one) = text.parse() {
            allowed.push(one);
        } else {
            let kind = ProblemKind::Unfit { given: format!("\"{}\"", short(text)) };
            notes.wrong.add(item.at, &path.item(i), kind, Expected::Form("allowed"));
        }
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;

    fn parse(text: &str) -> Result<ServerConfig, String> {
        let config = Config::parse(text, Format::Toml, "redrive.toml");
        config.map(|config| config.server).map_err(|error| error.to_string())
    }

    /// Design.md §6: everything that the server is told can be configured.
    #[test]
    fn a_server_is_read_whole() {
        assert_eq!(parse("").unwrap(), ServerConfig::default());
        let text = "[server]\nlisten = [\"0.0.0.0:7411\", \"[::]:7411\"]\nhosts = [\"Redrive.example.com\"]\n\
                    origins = [\"https://ops.example.com\"]\nallow = [\"10.0.0.0/8\", \"fd00::/8\", \"192.0.2.7\", \"db\", \"db:81\"]\n\
                    ports = [80, 443, 8443]\ncommands = [\"/usr/bin/backup\"]\ninsecure_http = true\nconcurrency = 4\n\
                    drain_for = \"10s\"\nmax_connections = 500\nmax_connections_per_address = 50\nmax_body = \"1MiB\"\n\
                    [server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let net = |address: &str, prefix| Allowed::Net { address: address.parse().unwrap(), prefix };
        let expected = ServerConfig {
            listen: owned(&["0.0.0.0:7411", "[::]:7411"]),
            hosts: owned(&["redrive.example.com"]),
            origins: owned(&["https://ops.example.com"]),
            allow: vec![
                net("10.0.0.0", 8),
                net("fd00::", 8),
                net("192.0.2.7", 32),
                Allowed::Host("db".into()),
                Allowed::HostPort("db".into(), 81),
            ],
            ports: vec![80, 443, 8443],
            commands: owned(&["/usr/bin/backup"]),
            tls: Some(TlsFiles { cert: "cert.pem".into(), key: "key.pem".into() }),
            insecure_http: true,
            concurrency: Some(4),
            drain_for: Some(Duration::from_secs(10)),
            max_connections: Some(500),
            max_connections_per_address: Some(50),
            max_body: Some(1 << 20),
        };
        assert_eq!(parse(text).unwrap(), expected);
    }

    /// Design.md §6: what is no address, no host and no network is named, with what would be one.
    #[test]
    fn what_cannot_be_allowed_is_named() {
        for (text, says) in [
            ("allow = [\"10.0.0.0/33\"]", "server.allow[0]: \"10.0.0.0/33\""),
            ("allow = [\"10.0.0.0/8\", \"db:0\"]", "server.allow[1]: \"db:0\""),
            ("hosts = [\"a:1\"]", "a host without a port"),
            ("origins = [\"a\"]", "an origin such as"),
            ("listen = [\"7411\"]", "a host and a port"),
            ("ports = [0]", "server.ports[0]"),
            ("tls = { cert = \"a\" }", "key"),
        ] {
            let error = parse(&format!("[server]\n{text}\n")).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
