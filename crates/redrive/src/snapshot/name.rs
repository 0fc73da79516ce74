//! Names below a root, as bytes: what a file system holds need not be UTF-8. A [`RelPath`] cannot lead out of its root; it
//! is checked when it is made, at creation and again when a manifest is read. In our files a name is written as text, with
//! `%` and the bytes that are no text as `%XX`.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::SnapshotError;
use super::fault::Fault;

/// A path is handed to the kernel as a whole, below a root and below our own folders in it; it takes 4,096 bytes.
const LONGEST_PATH: usize = 3_800;
/// So that a path below our own folders is not too long either.
const LONGEST_KEPT: usize = 3_600;
const LONGEST_NAME: usize = 255;
/// Where a restore moves what it replaces.
pub(crate) const ASIDE: &str = ".redrive-aside";
/// Where a restore gets ready.
pub(crate) const STAGING_PREFIX: &str = ".redrive-restore-";
/// The rules of a root.
pub(crate) const IGNORE_FILE: &str = ".redriveignore";

/// A path below a root: no `..`, no `.`, no NUL, nothing empty, not absolute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RelPath(Vec<u8>);

impl RelPath {
    pub(crate) fn new(bytes: Vec<u8>) -> Result<RelPath, SnapshotError> {
        match fault(&bytes) {
            None => Ok(RelPath(bytes)),
            Some(why) => Err(SnapshotError::BadName { path: PathBuf::from(OsStr::from_bytes(&bytes)), why }),
        }
    }

    /// The entry of that name in the folder `parent`, or in the root.
    pub(crate) fn child(parent: Option<&RelPath>, name: &[u8]) -> Result<RelPath, SnapshotError> {
        let mut bytes = Vec::with_capacity(parent.map_or(0, |parent| parent.0.len() + 1) + name.len());
        if let Some(parent) = parent {
            bytes.extend_from_slice(&parent.0);
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        RelPath::new(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// Whether it could not be moved aside under its own name.
    pub(crate) fn is_too_long_to_move(&self) -> bool {
        self.0.len() > LONGEST_KEPT
    }

    /// The folder it is in; none when that is the root.
    pub(crate) fn parent(&self) -> Option<RelPath> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(RelPath(self.0[..slash].to_vec()))
    }

    pub(crate) fn file_name(&self) -> &[u8] {
        let from = self.0.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        &self.0[from..]
    }

    /// Every folder it is in, the outermost first.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = RelPath> + '_ {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(|(at, _)| RelPath(self.0[..at].to_vec()))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_path())
    }
}

impl serde::Serialize for RelPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_bytes(&self.0))
    }
}

impl<'de> serde::Deserialize<'de> for RelPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<RelPath, D::Error> {
        let Bytes(bytes) = Bytes::deserialize(deserializer)?;
        RelPath::new(bytes).map_err(serde::de::Error::custom)
    }
}

/// Any bytes, written as text in our files: the text of a link, the path of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn of_path(path: &Path) -> Bytes {
        Bytes(path.as_os_str().as_bytes().to_vec())
    }

    pub(crate) fn to_path(&self) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.0))
    }
}

impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&write_bytes(&self.0))
    }
}

impl<'de> serde::Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let written = String::deserialize(deserializer)?;
        read_bytes(&written)
            .map(Bytes)
            .ok_or_else(|| serde::de::Error::custom("a '%' without its two digits"))
    }
}

/// Whether a name is one of our own folders in a tree. They are in no snapshot, and no restore touches them.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    let of_a_restore = |rest: &[u8]| rest.len() == 16 && rest.iter().all(u8::is_ascii_hexdigit);
    name == ASIDE.as_bytes() || name.strip_prefix(STAGING_PREFIX.as_bytes()).is_some_and(of_a_restore)
}

fn fault(bytes: &[u8]) -> Option<Fault> {
    if bytes.is_empty() {
        return Some(Fault::EmptyName);
    }
    if bytes.contains(&0) {
        return Some(Fault::Nul);
    }
    if bytes[0] == b'/' {
        return Some(Fault::Absolute);
    }
    if bytes.len() > LONGEST_PATH {
        return Some(Fault::PathTooLong);
    }
    bytes.split(|byte| *byte == b'/').find_map(|part| match part {
        [] => Some(Fault::EmptyPart),
        [b'.'] | [b'.', b'.'] => Some(Fault::Dots),
        _ if part.len() > LONGEST_NAME => Some(Fault::NameTooLong),
        _ => None,
    })
}

fn write_bytes(bytes: &[u8]) -> String {
    use fmt::Write as _;
    let mut written = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter == '%' { written.push_str("%25") } else { written.push(letter) }
        }
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _infallible = write!(written, "%{byte:02X}");
        }
    }
    written
}

fn read_bytes(written: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reliability row 53
    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = [b'a'; 256];
        let deep = [b"a/".repeat(2_000), b"a".to_vec()].concat();
        for bad in [
            &b""[..],
            b"/etc/x",
            b"../x",
            b"a/../b",
            b"a//b",
            b"a/",
            b"./a",
            b"a/.",
            b"a\0b",
            b"..",
            b".",
            &long,
            &deep,
        ] {
            assert!(RelPath::new(bad.to_vec()).is_err(), "{bad:?}");
        }
        for good in [&b"a"[..], b"...", b"..a/b..", b"a b/\xff\xfe", b"-rf", b"\n", &long[..255]] {
            assert!(RelPath::new(good.to_vec()).is_ok(), "{good:?}");
        }
    }

    /// Reliability row 53
    #[test]
    fn any_bytes_come_back_as_they_were() {
        for bytes in [&b"plain"[..], b"100%", b"%41", b"\xff\xfe/\xc3", "日本語\u{1b}".as_bytes(), b""] {
            let written = serde_json::to_string(&Bytes(bytes.to_vec())).unwrap();
            assert_eq!(serde_json::from_str::<Bytes>(&written).unwrap().0, bytes, "{written}");
        }
        assert!(serde_json::from_str::<Bytes>(r#""a%4""#).is_err());
        assert!(serde_json::from_str::<RelPath>(r#""a%2F..%2Fb""#).is_err());
        assert!(serde_json::from_str::<RelPath>(r#""%2Fetc""#).is_err());
    }
}
