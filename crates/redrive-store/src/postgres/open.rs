//! Where the database is, and how it is reached.

use std::rc::Rc;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};

use super::fault::Fault;
use super::line::Line;
use super::texts::{DEFAULT_SCHEMA, Texts};
use crate::error::{StoreError, Trouble};

/// Longer than that nobody waits for one server to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A database and the schema in it.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    schema: String,
}

impl Address {
    /// From a URL as libpq knows it. `schema=NAME` among its parameters is ours.
    pub(super) fn parse(url: &str, schema: Option<&str>) -> Result<Address, StoreError> {
        let (url, named) = take_parameter(url, "schema");
        let refuse = |why: String| StoreError::from(Trouble::Open { path: shown(&url).into(), why });
        let mut config = Config::from_str(&url).map_err(|error| refuse(without_secrets(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(refuse("the URL names no host".to_owned()));
        }
        config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(Duration::from_secs(30));
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
        Ok(Address { config, schema })
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

    async fn dial(&self) -> Result<(Client, Connection<Socket, tokio_postgres::tls::NoTlsStream>), Fault> {
        // What a server says while it starts or stops is no reason to give up; a wrong password is.
        Ok(self.config.connect(NoTls).await?)
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
                found = Some(value.to_owned());
                false
            }
            _ => true,
        })
        .collect();
    let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
    (url, found)
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
