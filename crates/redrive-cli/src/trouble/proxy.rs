//! The trouble of those who put a proxy in front of a service.

use std::io;

use redrive_idempotency::proxy::BadUpstream;
use redrive_policy::Lang;

use super::system_error;
use crate::exit::Exit;
use crate::text::{say, text};

/// What keeps a proxy from beginning.
#[derive(Debug)]
pub(crate) enum ProxyTrouble {
    /// Nobody says which service.
    NoUpstream,
    /// The service's address cannot be used.
    BadUpstream { url: String, why: BadUpstream },
    /// An address to listen at that is none.
    BadAddress { address: String },
    /// That address cannot be listened at.
    Listen { address: String, source: io::Error },
    /// TLS to the service cannot be made ready.
    Tls(String),
}

impl ProxyTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            ProxyTrouble::NoUpstream | ProxyTrouble::BadUpstream { .. } | ProxyTrouble::BadAddress { .. } => {
                Exit::Usage
            }
            ProxyTrouble::Listen { .. } | ProxyTrouble::Tls(_) => Exit::Failed,
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        match self {
            ProxyTrouble::NoUpstream => say(lang, "trouble.proxy.no-upstream"),
            ProxyTrouble::BadUpstream { url, why } => {
                // Somebody may have written a password into it.
                let url = crate::secret::blanked(url);
                let why = say(lang, &format!("trouble.proxy.upstream.{}", why.name()));
                text(lang, "trouble.proxy.bad-upstream", &[("url", &url), ("why", &why)])
            }
            ProxyTrouble::BadAddress { address } => {
                text(lang, "trouble.proxy.bad-address", &[("address", address)])
            }
            ProxyTrouble::Listen { address, source } if source.kind() == io::ErrorKind::AddrInUse => {
                text(lang, "trouble.proxy.in-use", &[("address", address)])
            }
            ProxyTrouble::Listen { address, source } => {
                let why = system_error(source, lang);
                text(lang, "trouble.proxy.listen", &[("address", address), ("why", &why)])
            }
            ProxyTrouble::Tls(why) => text(lang, "trouble.proxy.tls", &[("why", why)]),
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> String {
        say(
            lang,
            match self {
                ProxyTrouble::NoUpstream | ProxyTrouble::BadUpstream { .. } => "trouble.hint.proxy.upstream",
                ProxyTrouble::BadAddress { .. } | ProxyTrouble::Listen { .. } => "trouble.hint.proxy.listen",
                ProxyTrouble::Tls(_) => "trouble.hint.proxy.tls",
            },
        )
    }
}
