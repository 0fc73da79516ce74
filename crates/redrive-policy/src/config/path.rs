//! Where in a file something stands: `policies.nightly.cause_specific[2].backoff`.

use std::fmt;

use super::words::short;
use crate::known_secrets::is_secret_field;

/// A place in a file, written out only when somebody has to be told.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Top,
    Field(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl Path<'_> {
    pub(super) fn field<'a>(&'a self, name: &'a str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub(super) fn item(&self, index: usize) -> Path<'_> {
        Path::Item(self, index)
    }

    /// Whether what stands here may be a secret: it is not repeated.
    pub(super) fn may_hold_a_secret(&self) -> bool {
        match self {
            Path::Top => false,
            Path::Field(parent, name) => {
                ["webhook", "headers", "url", "env"].contains(name)
                    || is_secret_field(name)
                    || parent.may_hold_a_secret()
            }
            Path::Item(parent, _) => parent.may_hold_a_secret(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Top => f.write_str("(top)"),
            Path::Field(parent, name) => {
                if !matches!(parent, Path::Top) {
                    write!(f, "{parent}.")?;
                }
                let bare =
                    |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte == b'$';
                if !name.is_empty() && name.len() <= 64 && name.bytes().all(bare) {
                    f.write_str(name)
                } else {
                    write!(f, "\"{}\"", short(name))
                }
            }
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
