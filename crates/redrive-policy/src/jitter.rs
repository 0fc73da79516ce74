//! How a delay is spread (R-P6), so that what failed together does not come back together.
//!
//! Integers throughout: a factor is a whole number of billionths, a draw is exact, and a seed repeats it.

use std::fmt;

use crate::rng::Rng;

/// How a delay is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Between (1 − factor) and (1 + factor) times the delay.
    PlusMinus(Factor),
    /// Between the delay and (1 + factor) times the delay: never sooner than the curve says.
    Additive(Factor),
    /// Between nothing and the delay, itself cut at the cap first: else a long outage would end in step.
    Full,
    /// Between the first delay and three times the previous one.
    Decorrelated,
}

/// A share of a whole, from 0 to 1, in billionths.
///
/// ```
/// use redrive_policy::Factor;
/// assert_eq!(Factor::new(0.2).unwrap().to_string(), "0.2");
/// assert!(Factor::new(1.5).is_none() && Factor::new(f64::NAN).is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor(u32);

impl Factor {
    const ONE: u32 = 1_000_000_000;

    /// The factor nearest to `value`; `None` unless it is a number from 0 to 1.
    pub fn new(value: f64) -> Option<Factor> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        (0.0..=1.0).contains(&value).then(|| Factor((value * f64::from(Factor::ONE)).round() as u32))
    }

    /// So many per cent.
    pub const fn percent(percent: u32) -> Factor {
        assert!(percent <= 100, "a factor is at most 100 %");
        Factor(percent * 10_000_000)
    }

    /// The nearest float, for showing.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Factor::ONE)
    }

    /// The factor in per cent, as exactly as it is kept: `0.29` is `29`, not `28.999999999999996`.
    pub fn in_percent(self) -> String {
        let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        let digits = format!("{rest:07}");
        match digits.trim_end_matches('0') {
            "" => whole.to_string(),
            fraction => format!("{whole}.{fraction}"),
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    const fn of(self, nanos: u64) -> u64 {
        (nanos as u128 * self.0 as u128 / Factor::ONE as u128) as u64
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl Jitter {
    /// The name of the mode in configuration and history.
    pub const fn mode(self) -> &'static str {
        match self {
            Jitter::None => "none",
            Jitter::PlusMinus(_) => "plus_minus",
            Jitter::Additive(_) => "additive",
            Jitter::Full => "full",
            Jitter::Decorrelated => "decorrelated",
        }
    }

    /// Spreads `base`. The caller caps the result; `cap` is known here only to the modes that draw below it.
    pub(crate) fn apply(self, base: u64, cap: u64, previous: Option<u64>, first: u64, rng: &mut Rng) -> u64 {
        match self {
            Jitter::None => base,
            Jitter::PlusMinus(factor) => {
                let reach = factor.of(base);
                rng.between(base - reach, base.saturating_add(reach))
            }
            Jitter::Additive(factor) => rng.between(base, base.saturating_add(factor.of(base))),
            Jitter::Full => rng.between(0, base.min(cap)),
            Jitter::Decorrelated => {
                let first = first.min(cap);
                rng.between(first, previous.unwrap_or(first).saturating_mul(3).min(cap))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backoff::{Backoff, Curve};
    use std::time::Duration;

    fn draws(jitter: Jitter, base: u64) -> Vec<u64> {
        let mut rng = Rng::seeded(42);
        (0..20_000).map(|_| jitter.apply(base, 60_000_000_000, None, base, &mut rng)).collect()
    }

    /// Checks range, mean and evenness: each tenth of the range gets its tenth of the draws.
    fn check_uniform(jitter: Jitter, base: u64, low: u64, high: u64) {
        let drawn = draws(jitter, base);
        let mut tenths = [0u32; 10];
        for value in &drawn {
            assert!((low..=high).contains(value), "{jitter:?}: {value} outside {low}..={high}");
            tenths[usize::try_from((value - low) * 10 / (high - low + 1)).unwrap()] += 1;
        }
        // 2,000 expected in each; five standard deviations of a binomial are about 212.
        assert!(tenths.iter().all(|n| (1_788..=2_212).contains(n)), "{jitter:?}: {tenths:?}");
    }

    /// R-P6: each mode keeps to its range and fills it evenly.
    #[test]
    fn each_mode_fills_its_range_evenly() {
        let base = 1_000_000_000;
        check_uniform(Jitter::PlusMinus(Factor::percent(20)), base, 800_000_000, 1_200_000_000);
        check_uniform(Jitter::PlusMinus(Factor::percent(10)), base, 900_000_000, 1_100_000_000);
        check_uniform(Jitter::Additive(Factor::percent(10)), base, base, 1_100_000_000);
        check_uniform(Jitter::Full, base, 0, base);
        assert!(draws(Jitter::None, base).iter().all(|value| *value == base));
    }

    /// R-P6: decorrelated jitter grows from what was last waited, between its first delay and the cap.
    #[test]
    fn decorrelated_jitter_grows_from_the_previous_delay() {
        let backoff = Backoff::new(Curve::exponential(Duration::from_secs(1)))
            .with_jitter(Jitter::Decorrelated)
            .with_cap(Duration::from_secs(20));
        let mut rng = Rng::seeded(3);
        let mut previous = None;
        let mut reached_cap = false;
        for n in 0..200 {
            let wait = backoff.delay(n, previous, &mut rng).wait;
            assert!(wait >= Duration::from_secs(1) && wait <= Duration::from_secs(20));
            if let Some(previous) = previous {
                assert!(wait <= (previous * 3).max(Duration::from_secs(1)));
            }
            reached_cap |= wait > Duration::from_secs(15);
            previous = Some(wait);
        }
        assert!(reached_cap);
    }

    #[test]
    fn per_cent_are_written_without_noise() {
        for (factor, percent) in
            [(0.29, "29"), (0.07, "7"), (0.1, "10"), (1.0, "100"), (0.0, "0"), (0.125, "12.5")]
        {
            assert_eq!(Factor::new(factor).unwrap().in_percent(), percent);
        }
    }

    /// R-P6: a seed repeats every draw.
    #[test]
    fn a_seed_repeats_every_draw() {
        let jitter = Jitter::PlusMinus(Factor::percent(30));
        assert_eq!(draws(jitter, 5_000), draws(jitter, 5_000));
        let distinct: std::collections::BTreeSet<u64> = draws(jitter, 1_000_000_000).into_iter().collect();
        assert!(distinct.len() > 1_000);
    }

    /// R-P5: with jitter, never above the cap, at any n.
    #[test]
    fn jitter_never_passes_the_cap() {
        let mut rng = Rng::seeded(9);
        for jitter in [
            Jitter::PlusMinus(Factor::percent(100)),
            Jitter::Additive(Factor::percent(100)),
            Jitter::Full,
            Jitter::Decorrelated,
        ] {
            let backoff = Backoff::new(Curve::exponential(Duration::from_secs(1))).with_jitter(jitter);
            let mut previous = None;
            for n in (0..100).chain([u32::MAX]) {
                let wait = backoff.delay(n, previous, &mut rng).wait;
                assert!(wait <= backoff.cap);
                previous = Some(wait);
            }
        }
    }
}
