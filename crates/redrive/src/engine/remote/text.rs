//! A lease as a text that travels: what settling needs to know, under a code that only processes on this store can make.
//!
//! Nobody reads it but us. It names its queue, so that whoever may work on some queues ends nothing elsewhere; and it holds the
//! counts that a decision is made of, so that ending an attempt well needs no look at the job.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use redrive_store::{EventSeq, JobId, LeaseToken, LeasedJob, MAX_NAME_BYTES, Timestamp};
use sha2::Sha256;

use crate::engine::target::Lent;

/// The first byte: another layout is another number.
const LAYOUT: u8 = 3;
/// How many bytes of the code are kept: nobody has the time to try 2⁹⁶ of them.
const CODE_BYTES: usize = 12;
/// Longer than that is no lease: two names, a dozen numbers and the code.
const MOST_CHARS: usize = (2 * MAX_NAME_BYTES + 12 * 10 + CODE_BYTES + 4) * 4 / 3 + 4;

/// A lease that came back as a text, and is one of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The proof.
    pub token: LeaseToken,
    /// The queue of its job.
    pub queue: String,
    /// How long it lasts unless it is extended, and by how much it is extended.
    pub lease_for: Duration,
    pub(super) attempt: u32,
    pub(super) retries: u32,
    pub(super) crashes: u32,
    pub(super) last_delay: Option<Duration>,
    pub(super) max_retries: u32,
    pub(super) leased_at: Timestamp,
    pub(super) event: EventSeq,
    /// The job is a part of a task.
    pub(super) of_task: bool,
    /// The key that its job goes to.
    pub(super) key: Option<String>,
}

impl HeldLease {
    pub(super) fn of(leased: &LeasedJob, lease_for: Duration, max_retries: u32, now: Timestamp) -> HeldLease {
        HeldLease {
            token: leased.token,
            queue: leased.job.queue.clone(),
            lease_for,
            attempt: leased.attempt,
            retries: leased.retries,
            crashes: leased.crashes,
            last_delay: leased.last_delay,
            max_retries,
            leased_at: now,
            event: leased.event,
            of_task: leased.job.caller_id.as_deref().is_some_and(|caller| caller.starts_with("task-")),
            key: leased.job.target.clone(),
        }
    }

    /// What targets know it by.
    pub(super) fn lent(&self) -> Lent<'_> {
        Lent { token: self.token, queue: &self.queue, key: self.key.as_deref() }
    }
}

/// Writes leases down and reads them again.
#[derive(Clone)]
pub(super) struct Sealer(Hmac<Sha256>);

impl Sealer {
    pub(super) fn new(key: &[u8; 32]) -> Option<Sealer> {
        Hmac::new_from_slice(key).ok().map(Sealer)
    }

    pub(super) fn write(&self, held: &HeldLease) -> String {
        let mut bytes = Vec::with_capacity(96);
        bytes.push(LAYOUT);
        let delay = held.last_delay.map_or(0, |delay| millis(delay).saturating_add(1));
        for number in [
            held.token.job.0.cast_unsigned(),
            held.token.fence.cast_unsigned(),
            held.attempt.into(),
            held.retries.into(),
            held.crashes.into(),
            delay,
            held.max_retries.into(),
            millis(held.lease_for),
            held.leased_at.millis().cast_unsigned(),
            held.event.0.cast_unsigned(),
            u64::from(held.of_task) | (u64::from(held.key.is_some()) << 1),
            u64::try_from(held.queue.len()).unwrap_or(u64::MAX),
        ] {
            put(&mut bytes, number);
        }
        bytes.extend_from_slice(held.queue.as_bytes());
        bytes.extend_from_slice(held.key.as_deref().unwrap_or_default().as_bytes());
        let code = self.0.clone().chain_update(&bytes).finalize().into_bytes();
        bytes.extend_from_slice(&code[..CODE_BYTES]);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The lease that a text is, if this store has made it.
    pub(super) fn read(&self, text: &str) -> Option<HeldLease> {
        if text.len() > MOST_CHARS {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (said, code) = bytes.split_at_checked(bytes.len().checked_sub(CODE_BYTES)?)?;
        self.0.clone().chain_update(said).verify_truncated_left(code).ok()?;
        let (layout, mut rest) = said.split_first()?;
        if *layout != LAYOUT {
            return None;
        }
        let mut number = || take(&mut rest);
        let token = LeaseToken { job: JobId(number()?.cast_signed()), fence: number()?.cast_signed() };
        let [attempt, retries, crashes] = [small(number()?)?, small(number()?)?, small(number()?)?];
        let last_delay = number()?.checked_sub(1).map(Duration::from_millis);
        let max_retries = small(number()?)?;
        let lease_for = Duration::from_millis(number()?);
        let leased_at = Timestamp::from_millis(number()?.cast_signed());
        let event = EventSeq(number()?.cast_signed());
        let (marks, queue) = (number()?, usize::try_from(number()?).ok()?);
        let (queue, key) = rest.split_at_checked(queue)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (queue, key) = (text(queue)?, text(key)?);
        Some(HeldLease {
            token,
            queue,
            lease_for,
            attempt,
            retries,
            crashes,
            last_delay,
            max_retries,
            leased_at,
            event,
            of_task: marks & 1 != 0,
            key: (marks & 2 != 0).then_some(key),
        })
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn small(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Seven bits a byte, the lowest first; the eighth says that there are more.
fn put(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            return bytes.push(low & 0x7f);
        }
        bytes.push(low | 0x80);
    }
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> HeldLease {
        HeldLease {
            token: LeaseToken { job: JobId(i64::MAX), fence: 3 },
            queue: "post-書類".to_owned(),
            lease_for: Duration::from_secs(30),
            attempt: 4,
            retries: 2,
            crashes: 1,
            last_delay: Some(Duration::ZERO),
            max_retries: u32::MAX,
            leased_at: Timestamp::from_millis(1_767_225_600_123),
            event: EventSeq(77),
            of_task: true,
            key: Some("tenant-七".to_owned()),
        }
    }

    /// R-D2: a lease that went out comes back as it was; without a delay, too.
    #[test]
    fn a_lease_comes_back_as_it_went() {
        let sealer = Sealer::new(&[7; 32]).unwrap();
        for held in [held(), HeldLease { last_delay: None, of_task: false, key: None, ..held() }] {
            assert_eq!(sealer.read(&sealer.write(&held)), Some(held));
        }
    }

    /// Reliability, Security: a lease that was changed anywhere, cut short, or made under another key is none.
    #[test]
    fn a_lease_that_was_tampered_with_is_none() {
        let sealer = Sealer::new(&[7; 32]).unwrap();
        let text = sealer.write(&held());
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(sealer.read(&URL_SAFE_NO_PAD.encode(changed)), None, "byte {place}");
            assert_eq!(sealer.read(&URL_SAFE_NO_PAD.encode(&bytes[..place])), None, "the first {place}");
        }
        assert_eq!(Sealer::new(&[8; 32]).unwrap().read(&text), None);
        for nonsense in ["", "x", "job_1", "====", &"A".repeat(10_000)] {
            assert_eq!(sealer.read(nonsense), None);
        }
    }
}
