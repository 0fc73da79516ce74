//! Ids: numbers from the store's own sequences, never used twice, with a prefix when people see them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Timestamp;

/// A job, and the dead letter it may become. Written `job_17`.
///
/// ```
/// use redrive_store::JobId;
/// assert_eq!("job_17".parse(), Ok(JobId(17)));
/// assert_eq!("17".parse(), Ok(JobId(17)));
/// assert_eq!(JobId(17).to_string(), "job_17");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub i64);

impl JobId {
    /// The key that this job carries into the outside world, the same for each of its attempts: a UUID (version 8) made
    /// of the store's own number and the job's, so that no other store and no later job has it.
    pub fn idempotency_key(self, store_id: u64) -> String {
        let bits = (u128::from(store_id) << 64) | u128::from(self.0.cast_unsigned());
        // Version and variant take six bits: four of the store's low ones and the two top bits of a positive id.
        let hex = format!("{bits:032x}");
        let variant = 8 + (u128::from(self.0.cast_unsigned() >> 60) & 3);
        format!("{}-{}-8{}-{variant:x}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }
}

impl JobId {
    /// The job that such a key was made for, if a store has made it: for this one, or for whichever it was.
    pub fn of_idempotency_key(key: &str) -> Option<JobId> {
        let hex: String = key.split('-').collect();
        let parts: Vec<usize> = key.split('-').map(str::len).collect();
        if parts != [8, 4, 4, 4, 12] || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let low = u64::from_str_radix(&hex[16..], 16).ok()?;
        let (version, variant) = (&hex[12..13], low >> 62);
        // The two top bits say that it is a UUID; the next two are the job's own.
        (version == "8" && variant == 2).then(|| JobId((low & (u64::MAX >> 2)).cast_signed()))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job_{}", self.0)
    }
}

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id such as job_17")]
pub struct BadId;

impl FromStr for JobId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<JobId, BadId> {
        let digits = text.strip_prefix("job_").unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadId);
        }
        digits.parse().map(JobId).map_err(|_| BadId)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An incarnation of a worker: a new one each time a worker starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub i64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker_{}", self.0)
    }
}

/// An event's place in the stream. Gaps are allowed; going backwards is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EventSeq(pub i64);

impl EventSeq {
    /// The id that people see: `EVT-20261115-110332-00002a`, the time and the place in the stream.
    pub fn event_id(self, at: Timestamp) -> String {
        let (year, month, day, hour, minute, second, _) = at.civil();
        format!("EVT-{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{:06x}", self.0)
    }

    /// The place that an id of ours names. An id from elsewhere may look the same: compare the time, too.
    pub fn from_event_id(id: &str) -> Option<EventSeq> {
        let mut parts = id.strip_prefix("EVT-")?.split('-');
        let (date, clock, suffix) = (parts.next()?, parts.next()?, parts.next()?);
        let digits = |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
        if parts.next().is_some() || !digits(date, 8) || !digits(clock, 6) || suffix.len() < 6 {
            return None;
        }
        i64::from_str_radix(suffix, 16).ok().map(EventSeq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// R-E2: the suffix comes from the sequence, has six characters or more, and leads back.
    #[test]
    fn an_event_id_leads_back_to_its_place() {
        let at: Timestamp = "2026-11-15T11:03:32Z".parse().unwrap();
        assert_eq!(EventSeq(42).event_id(at), "EVT-20261115-110332-00002a");
        for seq in [0, 1, 0xff_ffff, 0x100_0000, i64::MAX] {
            assert_eq!(EventSeq::from_event_id(&EventSeq(seq).event_id(at)), Some(EventSeq(seq)));
        }
        for other in ["EVT-20251106-090000-xyz789", "EVT-1-2-3", "job_3", "EVT-20261115-110332-00002a-1"] {
            assert_eq!(EventSeq::from_event_id(other), None, "{other}");
        }
    }

    /// R-I8: no two jobs, and no two stores, share a key, it is a UUID, and it leads back to its job.
    #[test]
    fn idempotency_keys_are_uuids_that_differ() {
        let mut seen = HashSet::new();
        for store in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            for job in [1, 2, 1 << 20, i64::MAX] {
                let key = JobId(job).idempotency_key(store);
                assert_eq!(key.len(), 36);
                assert_eq!((&key[14..15], key[19..20].contains(['8', '9', 'a', 'b'])), ("8", true), "{key}");
                // The two highest bits of a job give way to those of a UUID; no store gets that far.
                assert_eq!(JobId::of_idempotency_key(&key), Some(JobId(job & (i64::MAX >> 1))), "{key}");
                assert!(seen.insert(key));
            }
        }
    }
}
