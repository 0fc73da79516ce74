//! Where chance comes from when nobody names a seed: one generator per thread, seeded by the operating
//! system through the standard library's hasher keys, so that no crate is needed for it.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use redrive_policy::Rng;

thread_local! {
    static SEED: Cell<u64> = Cell::new(RandomState::new().hash_one(std::process::id()));
}

/// A generator that no other call on any thread gets, for the price of two memory accesses.
pub(crate) fn fresh() -> Rng {
    SEED.with(|seed| {
        let mut rng = Rng::seeded(seed.get());
        // One draw becomes the next caller's seed and the other ours: the two sequences do not meet.
        seed.set(rng.next_u64());
        Rng::seeded(rng.next_u64())
    })
}

/// Sixteen random bytes for an id. Every eight come from new hasher keys, which the standard library takes
/// from the operating system: they are not a walk of the generator above, which 64 bits would give away.
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
pub(crate) fn sixteen_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    for (half, mark) in bytes.chunks_exact_mut(8).zip([1u64, 2]) {
        half.copy_from_slice(&RandomState::new().hash_one((mark, fresh().next_u64())).to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_calls_and_no_two_threads_share_their_numbers() {
        let draw = || (0..50).map(|_| fresh().next_u64()).collect::<Vec<_>>();
        let mut all = draw();
        all.extend(std::thread::spawn(draw).join().unwrap());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100);
    }
}
