//! Where the database is, and how it is reached.

use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Socket};

use super::fault::Fault;
use super::line::Line;
use super::texts::{DEFAULT_SCHEMA, Texts};
use super::tls::{Stream, Tls, Trust};
use crate::error::{StoreError, Trouble};

/// Longer than that nobody waits for one server to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A database and the schema in it.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    schema: String,
    tls: Tls,
}

impl Address {
    /// From a URL as libpq knows it. `schema=NAME` among its parameters is ours.
    pub(super) fn parse(url: &str, schema: Option<&str>) -> Result<Address, StoreError> {
        let (url, named) = take_parameter(url, "schema");
        let (url, mode) = take_parameter(&url, "sslmode");
        let (url, roots) = take_parameter(&url, "sslrootcert");
        let refuse = |why: String| StoreError::from(Trouble::BadAddress { location: shown(&url), why });
        let authority =
            url.split_once("://").map_or("", |(_, rest)| rest).split('?').next().unwrap_or_default();
        if authority.matches('@').count() > 1 {
            let why = "there is more than one @: in a name or a password it is written %40".to_owned();
            return Err(Trouble::BadAddress { location: "postgres://…".to_owned(), why }.into());
        }
        let mut config = Config::from_str(&url).map_err(|error| refuse(without_secrets(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(refuse("the URL names no host".to_owned()));
        }
        // As every client of PostgreSQL does: what is in the environment need not be in a URL.
        if config.get_password().is_none()
            && let Some(password) = std::env::var_os("PGPASSWORD")
        {
            config.password(password.into_encoded_bytes());
        }
        let (mode, trust) = security(mode.as_deref(), roots).map_err(&refuse)?;
        let tls = Tls::new(&trust).map_err(&refuse)?;
        config.ssl_mode(mode).connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(Duration::from_secs(30));
        // A machine that is gone while we wait for its answer is noticed within half a minute.
        config
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(4);
        // Never a decision from a replica: it may be behind.
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        if config.get_application_name().is_none() {
            config.application_name("redrive");
        }
        let schema = named.or(schema.map(str::to_owned)).unwrap_or_else(|| DEFAULT_SCHEMA.to_owned());
        if schema.is_empty() || schema.len() > 63 || schema.contains('\0') || schema.starts_with("pg_") {
            return Err(refuse(format!("{schema:?} cannot be the name of a schema")));
        }
        Ok(Address { config, schema, tls })
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// For people: where it is, without a password.
    pub(super) fn location(&self) -> String {
        let hosts: Vec<String> = self.config.get_hosts().iter().map(host).collect();
        let ports: Vec<String> = self.config.get_ports().iter().map(u16::to_string).collect();
        let port = if ports.is_empty() { String::new() } else { format!(":{}", ports.join(",")) };
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        let schema =
            if self.schema == DEFAULT_SCHEMA { String::new() } else { format!("?schema={}", self.schema) };
        format!("postgres://{}{port}/{database}{schema}", hosts.join(","))
    }

    async fn dial(&self) -> Result<(Client, Connection<Socket, Stream<Socket>>), Fault> {
        // What a server says while it starts or stops is no reason to give up; a wrong password is.
        Ok(self.config.connect(self.tls.clone()).await?)
    }

    /// A connection.
    pub(super) async fn connect(&self, texts: &Rc<Texts>) -> Result<Line, Fault> {
        let (client, connection) = self.dial().await?;
        let driver = tokio::task::spawn_local(async move {
            // Whoever uses the connection hears of its end by itself.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        Ok(Line::new(client, driver, Rc::clone(texts)))
    }

    /// A connection whose notifications are heard.
    pub(super) async fn listen(
        &self,
        texts: &Rc<Texts>,
        mut heard: impl FnMut(&str) + 'static,
    ) -> Result<Line, Fault> {
        let (client, mut connection) = self.dial().await?;
        let driver = tokio::task::spawn_local(async move {
            loop {
                match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                    Some(Ok(AsyncMessage::Notification(note))) => heard(note.payload()),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => break,
                }
            }
        });
        Ok(Line::new(client, driver, Rc::clone(texts)))
    }
}

/// What `sslmode` and `sslrootcert` ask for.
fn security(mode: Option<&str>, roots: Option<String>) -> Result<(SslMode, Trust), String> {
    Ok(match mode {
        Some("disable") => (SslMode::Disable, Trust::Anybody),
        None | Some("allow" | "prefer") => (SslMode::Prefer, Trust::Anybody),
        Some("require" | "verify-ca" | "verify-full") => {
            (SslMode::Require, roots.map_or(Trust::Machine, |path| Trust::File(path.into())))
        }
        Some(other) => {
            return Err(format!("sslmode={other} is none of disable, prefer, require, verify-full"));
        }
    })
}

fn host(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// Takes one parameter out of a URL.
fn take_parameter(url: &str, name: &str) -> (String, Option<String>) {
    let Some((base, parameters)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut found = None;
    let rest: Vec<&str> = parameters
        .split('&')
        .filter(|parameter| match parameter.split_once('=') {
            Some((key, value)) if key == name => {
                found = Some(decoded(value));
                false
            }
            _ => true,
        })
        .collect();
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    (url, found)
}

/// `%41` is `A`, as anywhere in a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let escaped =
            behind.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A URL for people: what is between the scheme and the `@` may be a password.
pub(super) fn shown(url: &str) -> String {
    let base = url.split('?').next().unwrap_or_default();
    match (base.split_once("://"), base.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://{place}"),
        _ => base.to_owned(),
    }
}

/// Why a URL cannot be read, without the URL.
fn without_secrets(error: &tokio_postgres::Error) -> String {
    let mut words = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        words = format!("{words}: {source}");
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, String> {
        Address::parse(url, None).map_err(|error| error.to_string())
    }

    /// R-D7: where a store is can be shown, and its password cannot.
    #[test]
    fn a_location_has_no_secret() {
        let address = parse("postgres://me:hunter2@db.example:5433/app?schema=jobs").ok();
        assert_eq!(
            address.map(|address| address.location()),
            Some("postgres://db.example:5433/app?schema=jobs".into())
        );
        for url in [
            "postgres://me:hun@ter2@h/db",
            "postgres://me:hunter2@h/db?nonsense=1",
            "postgres://me:hunter2@h:x/db",
            "postgres://me:hunter2@h/db?sslmode=maybe",
        ] {
            let refused = parse(url).err().unwrap_or_default();
            assert!(!refused.is_empty() && !refused.contains("ter2"), "{url}: {refused}");
        }
    }

    /// R-D7: who asks for TLS gets it verified or nothing; who says nothing gets it when it can be had.
    #[test]
    fn sslmode_is_what_it_says() {
        let asked = |mode| security(mode, None);
        assert_eq!(asked(None), Ok((SslMode::Prefer, Trust::Anybody)));
        assert_eq!(asked(Some("disable")), Ok((SslMode::Disable, Trust::Anybody)));
        for mode in ["require", "verify-ca", "verify-full"] {
            assert_eq!(asked(Some(mode)), Ok((SslMode::Require, Trust::Machine)));
        }
        let file = security(Some("verify-full"), Some("/ca.pem".to_owned()));
        assert_eq!(file, Ok((SslMode::Require, Trust::File("/ca.pem".into()))));
        assert!(asked(Some("yes")).is_err());
    }

    /// A name of a schema that nobody could have meant is refused before anything is asked.
    #[test]
    fn a_schema_needs_a_name() {
        for schema in ["", "pg_catalog", &"x".repeat(64)] {
            assert!(parse(&format!("postgres://h/db?schema={schema}")).is_err(), "{schema}");
        }
        assert!(parse("postgres://h/db?schema=Work%22Queue").is_ok());
    }
}
