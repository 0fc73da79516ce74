//! Ids of snapshots: `snap-` and a time and a little chance, so that they sort by age; or whatever a caller makes from its
//! own ids, within the same alphabet. An id is a file name of ours, so nothing else is let in.

use std::fmt;
use std::str::FromStr;

use super::error::SnapshotError;

/// How long an id may be.
const LONGEST: usize = 100;
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Names one snapshot.
///
/// ```
/// use redrive::snapshot::SnapshotId;
///
/// let id: SnapshotId = "snap-job-42".parse().unwrap();
/// assert_eq!(id.as_str(), "snap-job-42");
/// assert!("snap-../etc".parse::<SnapshotId>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(String);

impl SnapshotId {
    /// A new one for this moment.
    pub(crate) fn new(now_ms: i64) -> Result<SnapshotId, SnapshotError> {
        let chance = random_bits()?;
        let time = u64::try_from(now_ms).unwrap_or(0);
        Ok(SnapshotId(format!("snap-{}-{}", in_digits(time, 9), in_digits(chance, 6))))
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SnapshotId {
    type Err = SnapshotError;

    fn from_str(given: &str) -> Result<SnapshotId, SnapshotError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let rest = given.strip_prefix("snap-").unwrap_or_default();
        if rest.is_empty() || given.len() > LONGEST || !rest.bytes().all(allowed) {
            return Err(SnapshotError::BadId { given: given.chars().take(LONGEST).collect() });
        }
        Ok(SnapshotId(given.to_owned()))
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for SnapshotId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for SnapshotId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<SnapshotId, D::Error> {
        let written = String::deserialize(deserializer)?;
        written.parse().map_err(serde::de::Error::custom)
    }
}

/// A name that nobody else has: of a restore, of a folder for what comes in.
pub(crate) fn random_name() -> Result<String, SnapshotError> {
    Ok(format!("{:016x}", random_bits()?))
}

fn random_bits() -> Result<u64, SnapshotError> {
    getrandom::u64().map_err(|error| SnapshotError::Io {
        doing: "get random bits for",
        path: "an id".into(),
        source: std::io::Error::other(error.to_string()),
    })
}

fn in_digits(mut value: u64, width: usize) -> String {
    let mut written = vec![b'0'; width];
    for place in written.iter_mut().rev() {
        *place = DIGITS[usize::try_from(value % 32).unwrap_or(0)];
        value /= 32;
    }
    written.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-T3
    #[test]
    fn ids_sort_by_time_and_are_file_names() {
        let (early, late) =
            (SnapshotId::new(1_700_000_000_000).unwrap(), SnapshotId::new(1_800_000_000_000).unwrap());
        assert!(early < late, "{early} {late}");
        assert_eq!(early.as_str().parse::<SnapshotId>().unwrap(), early);
        for bad in ["", "snap-", "snap-a/b", "snap-a\0", "snap- a", "x-1", "snap-é"] {
            assert!(bad.parse::<SnapshotId>().is_err(), "{bad:?}");
        }
        assert!(format!("snap-{}", "a".repeat(200)).parse::<SnapshotId>().is_err());
    }
}
