//! What was asked for: flags, then the configuration, then what is usual. Made at the start, and again when the configuration is
//! read again.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use redrive::engine::PushEndpoint;
use redrive_policy::{Config, Lang};
use redrive_server::ServerSettings;

use super::push;
use crate::args::ServeArgs;
use crate::commands::health::DEFAULT_LISTEN;
use crate::trouble::Trouble;

/// How many jobs it runs itself when nobody says so.
pub(in crate::commands) const DEFAULT_CONCURRENCY: usize = 8;
/// How long what runs may take at the end when nobody says so.
pub(in crate::commands) const DEFAULT_DRAIN: Duration = Duration::from_secs(30);

/// Everything that a server is run with.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) listen: Vec<String>,
    pub(super) concurrency: usize,
    pub(super) queues: Vec<String>,
    pub(super) settings: ServerSettings,
    /// Services of the configuration that are called for jobs.
    pub(super) push: Vec<PushEndpoint>,
    /// The files of the certificate and of its key.
    pub(super) tls: Option<(PathBuf, PathBuf)>,
    pub(super) insecure_http: bool,
    pub(super) lang: Lang,
}

impl Plan {
    pub(super) fn new(
        args: &ServeArgs,
        config: &Config,
        lang: Lang,
        env: &HashMap<OsString, OsString>,
        cwd: &Path,
    ) -> Result<Plan, Trouble> {
        let files = config.server.tls.as_ref().map(|tls| (PathBuf::from(&tls.cert), PathBuf::from(&tls.key)));
        let files = args.tls_cert.clone().zip(args.tls_key.clone()).or(files);
        let mut settings = ServerSettings::of(&config.server);
        settings.drain_for = args.drain_for.or(config.server.drain_for).unwrap_or(DEFAULT_DRAIN);
        let listen = [&args.listen, &config.server.listen].into_iter().find(|listen| !listen.is_empty());
        let configured = config.server.concurrency.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        Ok(Plan {
            listen: listen.cloned().unwrap_or_else(|| vec![DEFAULT_LISTEN.to_owned()]),
            concurrency: args.concurrency.or(configured).unwrap_or(DEFAULT_CONCURRENCY),
            queues: args.queue.clone(),
            settings,
            push: push::endpoints(&config.push, |name| {
                env.get(OsStr::new(name))?.clone().into_string().ok()
            })?,
            tls: files.map(|(cert, key)| (cwd.join(cert), cwd.join(key))),
            insecure_http: args.insecure_http || config.server.insecure_http,
            lang,
        })
    }

    /// Jobs of the API never call us, whatever is allowed.
    pub(super) fn never_calls(&mut self, own: &[SocketAddr]) {
        let guard = std::mem::take(&mut self.settings.guard);
        self.settings.guard = guard.and_not(own.iter().copied());
    }
}
