//! What is a caller's own although it travels: the names that a caller gives to things must not meet those of another (ADR 0051).

use redrive_policy::protection::key_of_queue;
use redrive_store::NewJob;
use sha2::{Digest, Sha256};

use crate::caller::Caller;

impl Caller {
    /// The key that the effects of a request carry which came with this one (R-I8): the same for the same caller and key, however often
    /// it is sent, and no other caller's. While there is only this machine it is the key itself.
    pub(crate) fn travelling_key(&self, store_id: u64, key: &str) -> String {
        if self.is_local() {
            return key.to_owned();
        }
        let mut hash = Sha256::new();
        // The lengths stand before the texts: no two triples are the same bytes.
        hash.update(store_id.to_be_bytes());
        hash.update((self.who.len() as u64).to_be_bytes());
        hash.update(self.who.as_bytes());
        hash.update(key.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        // A UUID of names; one of version 8 would be taken for a job's own.
        bytes[6] = (bytes[6] & 0x0f) | 0x50;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let hex = format!("{:032x}", u128::from_be_bytes(bytes));
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The job with its target as this caller may name it: whoever is limited to queues has keys of its own in each.
    pub(crate) fn with_own_target(&self, job: NewJob) -> NewJob {
        if self.queues.is_empty() {
            return job;
        }
        let target = job.target.as_deref().map(|key| key_of_queue(job.queue(), key));
        NewJob { target, ..job }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(id: &str) -> Caller {
        Caller { who: format!("token:{id}"), ..Caller::local() }
    }

    /// R-I8: the same caller and key are the same key outside, each time; another caller, another store or another key is another.
    #[test]
    fn a_key_travels_as_its_senders_own() {
        let one = token("a").travelling_key(7, "order-1");
        assert_eq!(one, token("a").travelling_key(7, "order-1"));
        let others = [
            token("b").travelling_key(7, "order-1"),
            token("a").travelling_key(8, "order-1"),
            token("a").travelling_key(7, "order-2"),
            token("ao").travelling_key(7, "rder-1"),
        ];
        assert!(others.iter().all(|other| *other != one), "{one} {others:?}");
        assert_eq!((one.len(), &one[14..15]), (36, "5"));
        assert_eq!(redrive_store::JobId::of_idempotency_key(&one), None);
        assert_eq!(Caller::local().travelling_key(7, "order-1"), "order-1");
    }
}
