//! The trouble of those who run a server.

use std::io;

use redrive_policy::Lang;
use redrive_server::{BindRefused, TlsTrouble};

use super::system_error;
use crate::exit::Exit;
use crate::text::{say, text};

/// What keeps a server from beginning.
#[derive(Debug)]
pub(crate) enum ServeTrouble {
    /// An address to listen at that is none.
    BadAddress { address: String },
    /// That address cannot be listened at.
    Listen { address: String, source: io::Error },
    /// Others could reach it, and nothing protects it.
    Unprotected(BindRefused),
    /// A service of the configuration that cannot be called.
    BadPush { name: String, why: String },
    /// The secret of a service is not where the configuration says.
    PushSecret { name: String, variable: String },
    /// The certificate cannot be shown.
    Tls(TlsTrouble),
}

impl ServeTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            ServeTrouble::BadAddress { .. } | ServeTrouble::Unprotected(_) => Exit::Usage,
            ServeTrouble::BadPush { .. }
            | ServeTrouble::PushSecret { .. }
            | ServeTrouble::Listen { .. }
            | ServeTrouble::Tls(_) => Exit::Failed,
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        match self {
            ServeTrouble::BadAddress { address } => {
                text(lang, "trouble.serve.bad-address", &[("address", address)])
            }
            ServeTrouble::Unprotected(BindRefused::NoTokens { addr }) => {
                text(lang, "trouble.serve.no-tokens", &[("address", addr)])
            }
            ServeTrouble::Unprotected(BindRefused::NoTls { addr }) => {
                text(lang, "trouble.serve.no-tls", &[("address", addr)])
            }
            ServeTrouble::BadPush { name, why } => {
                text(lang, "trouble.serve.bad-push", &[("name", name), ("why", why)])
            }
            ServeTrouble::PushSecret { name, variable } => {
                text(lang, "trouble.serve.push-secret", &[("name", name), ("variable", variable)])
            }
            ServeTrouble::Tls(trouble) => tls_in_words(trouble, lang),
            ServeTrouble::Listen { address, source } => {
                let why = system_error(source, lang);
                text(lang, &format!("trouble.serve.{}", kind(source)), &[("address", address), ("why", &why)])
            }
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> String {
        match self {
            ServeTrouble::BadAddress { .. } => say(lang, "trouble.hint.serve.bad-address"),
            ServeTrouble::Unprotected(BindRefused::NoTokens { .. }) => {
                say(lang, "trouble.hint.serve.no-tokens")
            }
            ServeTrouble::Unprotected(BindRefused::NoTls { .. }) => say(lang, "trouble.hint.serve.no-tls"),
            ServeTrouble::BadPush { .. } => say(lang, "trouble.hint.serve.bad-push"),
            ServeTrouble::PushSecret { variable, .. } => {
                text(lang, "trouble.hint.serve.push-secret", &[("variable", variable)])
            }
            ServeTrouble::Tls(TlsTrouble::KeyIsOpen { file, .. }) => {
                text(lang, "trouble.hint.serve.key-is-open", &[("file", file)])
            }
            ServeTrouble::Tls(_) => say(lang, "trouble.hint.serve.tls"),
            ServeTrouble::Listen { address, source } => {
                text(lang, &format!("trouble.hint.serve.{}", kind(source)), &[("address", address)])
            }
        }
    }
}

fn tls_in_words(trouble: &TlsTrouble, lang: Lang) -> String {
    match trouble {
        TlsTrouble::Read { file, source } => {
            text(lang, "trouble.serve.tls-read", &[("file", file), ("why", &system_error(source, lang))])
        }
        TlsTrouble::KeyIsOpen { file, mode } => {
            text(lang, "trouble.serve.key-is-open", &[("file", file), ("mode", &format!("{mode:03o}"))])
        }
        TlsTrouble::Nothing { file, what } => {
            text(lang, "trouble.serve.tls-nothing", &[("file", file), ("what", what)])
        }
        TlsTrouble::Unfit(why) => text(lang, "trouble.serve.tls-unfit", &[("why", why)]),
    }
}

/// Why nobody can listen there, as the last part of a key.
fn kind(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "in-use",
        io::ErrorKind::AddrNotAvailable => "not-here",
        io::ErrorKind::PermissionDenied => "denied",
        _ => "listen",
    }
}
