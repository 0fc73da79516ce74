//! Chance as an argument: a small seedable generator, so that tests and simulations repeat.

/// A `SplitMix64` generator: 64 bits of state, a full period, and nothing to allocate.
///
/// ```
/// use redrive_policy::Rng;
/// assert_eq!(Rng::seeded(7).next_u64(), Rng::seeded(7).next_u64());
/// ```
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that gives the same numbers for the same seed, on every machine.
    pub const fn seeded(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included; `low` when they are the wrong way round.
    pub const fn between(&mut self, low: u64, high: u64) -> u64 {
        if high <= low {
            return low;
        }
        // Multiply-shift maps 64 random bits onto the range; its bias is below one part in 2^64 per value.
        let span = (high - low) as u128 + 1;
        #[allow(clippy::cast_possible_truncation)]
        let offset = ((self.next_u64() as u128 * span) >> 64) as u64;
        low + offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_reaches_both_ends_and_nothing_beyond() {
        let mut rng = Rng::seeded(1);
        let mut seen = [0u32; 5];
        for _ in 0..5_000 {
            seen[usize::try_from(rng.between(10, 14) - 10).unwrap()] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
        assert_eq!(rng.between(9, 3), 9);
        assert!(rng.between(0, u64::MAX) > 0);
    }
}
