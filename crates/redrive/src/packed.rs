//! Bytes inside JSON: text as text, so that people can read and edit it, and everything else as `{"base64": "…"}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Bytes as they stand in a payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a text, or {\"base64\": \"…\"} for bytes that are none")]
pub(crate) enum Packed {
    /// Bytes that are UTF-8.
    Text(String),
    /// Bytes that are not.
    Bytes(Base64),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Base64 {
    base64: String,
}

impl Packed {
    pub(crate) fn pack(bytes: Vec<u8>) -> Packed {
        match String::from_utf8(bytes) {
            Ok(text) => Packed::Text(text),
            Err(error) => Packed::Bytes(Base64 { base64: STANDARD.encode(error.as_bytes()) }),
        }
    }

    pub(crate) fn unpack(self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Packed::Text(text) => Ok(text.into_bytes()),
            Packed::Bytes(Base64 { base64 }) => STANDARD.decode(base64),
        }
    }
}

/// A path inside JSON.
#[cfg(feature = "tasks")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedPath(pub(crate) std::path::PathBuf);

#[cfg(feature = "tasks")]
impl Serialize for PackedPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::os::unix::ffi::OsStrExt;
        Packed::pack(self.0.as_os_str().as_bytes().to_vec()).serialize(serializer)
    }
}

#[cfg(feature = "tasks")]
impl<'de> Deserialize<'de> for PackedPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<PackedPath, D::Error> {
        use std::os::unix::ffi::OsStringExt;
        let bytes = Packed::deserialize(deserializer)?.unpack().map_err(serde::de::Error::custom)?;
        Ok(PackedPath(std::ffi::OsString::from_vec(bytes).into()))
    }
}
