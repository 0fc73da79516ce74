//! The trouble of those who run a server.

use std::io;

use redrive_policy::Lang;

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
}

impl ServeTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            ServeTrouble::BadAddress { .. } => Exit::Usage,
            ServeTrouble::Listen { .. } => Exit::Failed,
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        match self {
            ServeTrouble::BadAddress { address } => {
                text(lang, "trouble.serve.bad-address", &[("address", address)])
            }
            ServeTrouble::Listen { address, source } => {
                let why = system_error(source, lang);
                text(lang, &format!("trouble.serve.{}", kind(source)), &[("address", address), ("why", &why)])
            }
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> String {
        match self {
            ServeTrouble::BadAddress { .. } => say(lang, "trouble.hint.serve.bad-address"),
            ServeTrouble::Listen { address, source } => {
                text(lang, &format!("trouble.hint.serve.{}", kind(source)), &[("address", address)])
            }
        }
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
