//! How long to wait before retry number n (R-P5): `delay = cap(jitter(curve(n)))`.
//!
//! Curves are exact: nanoseconds as integers, multipliers as decimal fractions, no float anywhere on the
//! way. The cap comes last and is hard. No n overflows: what grows past the end of time stays there.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::jitter::Jitter;
use crate::rng::Rng;

/// The cap of a backoff that names none.
pub const DEFAULT_CAP: Duration = Duration::from_mins(5);

/// The delay used when a strategy of one's own cannot compute one (R-P14).
pub const FALLBACK_DELAY: Duration = Duration::from_secs(1);

/// A curve, its jitter and its cap.
///
/// ```
/// use redrive_policy::{Backoff, Curve, Rng};
/// use std::time::Duration;
///
/// let backoff = Backoff::new(Curve::fibonacci(Duration::from_secs(1)));
/// let mut rng = Rng::seeded(0);
/// let seconds: Vec<u64> = (0..6).map(|n| backoff.delay(n, None, &mut rng).wait.as_secs()).collect();
/// assert_eq!(seconds, [1, 1, 2, 3, 5, 8]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Backoff {
    /// How the delay grows.
    pub curve: Curve,
    /// How it is spread.
    pub jitter: Jitter,
    /// What it never exceeds.
    pub cap: Duration,
}

/// A computed delay, and whether the curve could not say and [`FALLBACK_DELAY`] stood in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// How long to wait.
    pub wait: Duration,
    /// The strategy gave no answer.
    pub fallback: bool,
}

impl Backoff {
    /// A curve without jitter under the default cap.
    pub const fn new(curve: Curve) -> Backoff {
        Backoff { curve, jitter: Jitter::None, cap: DEFAULT_CAP }
    }

    /// The same with another jitter.
    pub fn with_jitter(mut self, jitter: Jitter) -> Backoff {
        self.jitter = jitter;
        self
    }

    /// The same with another cap.
    pub fn with_cap(mut self, cap: Duration) -> Backoff {
        self.cap = cap;
        self
    }

    /// The delay before retry `n`, counted from 0. `previous` is the delay before the last one, which
    /// decorrelated jitter grows from.
    pub fn delay(&self, n: u32, previous: Option<Duration>, rng: &mut Rng) -> Delay {
        let cap = nanos(self.cap);
        let (base, fallback) = match self.curve.nanos(n, cap) {
            Some(base) => (base, false),
            None => (nanos(FALLBACK_DELAY), true),
        };
        let spread = self.jitter.apply(base, cap, previous.map(nanos), self.curve.first_nanos(), rng);
        Delay { wait: Duration::from_nanos(spread.min(cap)), fallback }
    }

    /// The delay before retry `n` with no jitter: what the curve and the cap say.
    pub fn nominal(&self, n: u32) -> Duration {
        let cap = nanos(self.cap);
        Duration::from_nanos(self.curve.nanos(n, cap).unwrap_or(nanos(FALLBACK_DELAY)).min(cap))
    }

    /// Whether the very first delay already exceeds the cap, which is worth a warning: the cap wins.
    pub fn starts_above_cap(&self) -> bool {
        self.curve.nanos(0, u64::MAX).is_some_and(|first| first > nanos(self.cap))
    }
}

/// Whole nanoseconds; what does not fit (584 years) saturates.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How the delay grows with the number of retries.
#[derive(Clone)]
#[non_exhaustive]
pub enum Curve {
    /// `initial · multiplier^n`
    Exponential {
        /// The first delay.
        initial: Duration,
        /// What each delay is multiplied by to give the next.
        multiplier: Multiplier,
    },
    /// `initial + increment · n`
    Linear {
        /// The first delay.
        initial: Duration,
        /// What is added each time.
        increment: Duration,
    },
    /// Always the same.
    Constant {
        /// The delay.
        delay: Duration,
    },
    /// `unit · 1, 1, 2, 3, 5, 8 …`
    Fibonacci {
        /// What the numbers are multiplied by.
        unit: Duration,
    },
    /// A list as it stands; its last delay repeats.
    List(Arc<[Duration]>),
    /// A strategy of one's own.
    Own(Arc<dyn Strategy>),
}

impl Curve {
    /// `initial · 2^n`
    pub const fn exponential(initial: Duration) -> Curve {
        Curve::Exponential { initial, multiplier: Multiplier::TWO }
    }

    /// `initial + increment · n`
    pub const fn linear(initial: Duration, increment: Duration) -> Curve {
        Curve::Linear { initial, increment }
    }

    /// Always `delay`.
    pub const fn constant(delay: Duration) -> Curve {
        Curve::Constant { delay }
    }

    /// `unit · 1, 1, 2, 3, 5, 8 …`
    pub const fn fibonacci(unit: Duration) -> Curve {
        Curve::Fibonacci { unit }
    }

    /// The name that is written into configuration and history.
    pub fn name(&self) -> &str {
        match self {
            Curve::Exponential { .. } => "exponential",
            Curve::Linear { .. } => "linear",
            Curve::Constant { .. } => "constant",
            Curve::Fibonacci { .. } => "fibonacci",
            Curve::List(_) => "list",
            Curve::Own(strategy) => strategy.name(),
        }
    }

    /// The delay before retry `n` in nanoseconds, saturating; `None` when a strategy gives no answer.
    /// Growth is not followed past `enough`: any answer above it will be capped anyway.
    fn nanos(&self, n: u32, enough: u64) -> Option<u64> {
        Some(match self {
            Curve::Exponential { initial, multiplier } => multiplier.grow(nanos(*initial), n, enough),
            Curve::Linear { initial, increment } => {
                nanos(*initial).saturating_add(nanos(*increment).saturating_mul(u64::from(n)))
            }
            Curve::Constant { delay } => nanos(*delay),
            Curve::Fibonacci { unit } => nanos(*unit).saturating_mul(fibonacci(n)),
            Curve::List(delays) => {
                let last = delays.len().checked_sub(1)?;
                nanos(delays[last.min(usize::try_from(n).unwrap_or(last))])
            }
            Curve::Own(strategy) => nanos(strategy.delay(n)?),
        })
    }

    /// The smallest delay of the curve, which decorrelated jitter starts from.
    fn first_nanos(&self) -> u64 {
        self.nanos(0, u64::MAX).unwrap_or(nanos(FALLBACK_DELAY))
    }
}

impl fmt::Debug for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Curve::Exponential { initial, multiplier } => write!(f, "exponential({initial:?} ×{multiplier})"),
            Curve::Linear { initial, increment } => write!(f, "linear({initial:?} +{increment:?})"),
            Curve::Constant { delay } => write!(f, "constant({delay:?})"),
            Curve::Fibonacci { unit } => write!(f, "fibonacci({unit:?})"),
            Curve::List(delays) => write!(f, "list({delays:?})"),
            Curve::Own(strategy) => write!(f, "own({})", strategy.name()),
        }
    }
}

impl PartialEq for Curve {
    fn eq(&self, other: &Curve) -> bool {
        use Curve::{Constant, Exponential, Fibonacci, Linear, List, Own};
        match (self, other) {
            (Exponential { initial: a, multiplier: m }, Exponential { initial: b, multiplier: n }) => {
                a == b && m == n
            }
            (Linear { initial: a, increment: i }, Linear { initial: b, increment: j }) => a == b && i == j,
            (Constant { delay: a }, Constant { delay: b })
            | (Fibonacci { unit: a }, Fibonacci { unit: b }) => a == b,
            (List(a), List(b)) => a == b,
            (Own(a), Own(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// fib(n) with 1, 1, 2, 3, 5 …; saturates at n = 93.
fn fibonacci(n: u32) -> u64 {
    let (mut current, mut next) = (1u64, 1u64);
    for _ in 0..n {
        if next == u64::MAX {
            return next;
        }
        (current, next) = (next, current.saturating_add(next));
    }
    current
}

/// A strategy of one's own.
///
/// ```
/// use redrive_policy::{Backoff, Curve, Strategy};
/// use std::{sync::Arc, time::Duration};
///
/// struct Nightly;
/// impl Strategy for Nightly {
///     fn name(&self) -> &str { "nightly" }
///     fn delay(&self, n: u32) -> Option<Duration> { Some(Duration::from_secs(3600 * u64::from(n + 1))) }
/// }
/// let backoff = Backoff::new(Curve::Own(Arc::new(Nightly)));
/// assert_eq!(backoff.curve.name(), "nightly");
/// ```
pub trait Strategy: Send + Sync {
    /// The name that is written into the history.
    fn name(&self) -> &str;

    /// The delay before retry `n`, counted from 0. `None` means "cannot say"; one second is waited then.
    fn delay(&self, n: u32) -> Option<Duration>;
}

/// A strategy that can be exchanged while work is running; every later delay follows the new one.
///
/// ```
/// use redrive_policy::{Curve, SwitchStrategy};
/// use std::time::Duration;
///
/// let switch = SwitchStrategy::new(Curve::constant(Duration::from_secs(1)));
/// let curve = switch.curve();
/// switch.set(Curve::fibonacci(Duration::from_secs(10)));
/// assert_eq!(redrive_policy::Backoff::new(curve).nominal(2), Duration::from_secs(20));
/// ```
#[derive(Clone)]
pub struct SwitchStrategy(Arc<RwLock<Curve>>);

impl SwitchStrategy {
    /// A switch that starts with this curve.
    pub fn new(curve: Curve) -> SwitchStrategy {
        SwitchStrategy(Arc::new(RwLock::new(curve)))
    }

    /// Follow another curve from now on.
    pub fn set(&self, curve: Curve) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = curve;
    }

    /// The curve to put into a policy; it keeps following this switch.
    pub fn curve(&self) -> Curve {
        Curve::Own(Arc::new(self.clone()))
    }
}

impl Strategy for SwitchStrategy {
    fn name(&self) -> &'static str {
        "switch"
    }

    fn delay(&self, n: u32) -> Option<Duration> {
        let curve = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        curve.nanos(n, u64::MAX).map(Duration::from_nanos)
    }
}

/// A multiplier as an exact decimal fraction: 1.1 is eleven tenths, not 1.100000000000000088.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Multiplier {
    numerator: u64,
    denominator: u64,
}

impl Multiplier {
    /// Two: each delay is twice the last.
    pub const TWO: Multiplier = Multiplier { numerator: 2, denominator: 1 };

    /// The largest multiplier that is accepted.
    pub const MAX: f64 = 1_000_000.0;

    /// The fraction that the shortest decimal writing of `value` stands for, to nine places.
    /// `None` unless it is a number from 1 to one million.
    pub fn new(value: f64) -> Option<Multiplier> {
        const SCALE: u64 = 1_000_000_000;
        if !(1.0..=Multiplier::MAX).contains(&value) {
            return None;
        }
        // Printing with nine places and reading the digits back keeps the decimal the person wrote.
        let digits: String = format!("{value:.9}").chars().filter(|c| *c != '.').collect();
        let numerator: u64 = digits.parse().ok()?;
        let common = gcd(numerator, SCALE);
        Some(Multiplier { numerator: numerator / common, denominator: SCALE / common })
    }

    /// The nearest float, for showing.
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// `start · self^n`, rounded down to a whole nanosecond. Exact for the first [`EXACT_STEPS`] steps; beyond
    /// them one part in 2^40 may be lost. Stops growing at `enough`.
    fn grow(self, start: u64, n: u32, enough: u64) -> u64 {
        if start == 0 || n == 0 || self.numerator == self.denominator {
            return start;
        }
        if self.denominator == 1 && self.numerator.is_power_of_two() {
            let shift = u64::from(self.numerator.trailing_zeros()) * u64::from(n);
            return if shift > u64::from(start.leading_zeros()) { u64::MAX } else { start << shift };
        }
        if n > EXACT_STEPS {
            // The tail starts from the last exact value, so that the curve never steps back there.
            let exact = self.grow(start, EXACT_STEPS, enough);
            return if exact >= enough { exact } else { self.grow_approximately(exact, n - EXACT_STEPS) };
        }
        // start · numerator^n / denominator^n, floored once at the end: floors of the parts would drift.
        let mut product = Wide::new(start);
        for _ in 0..n {
            product.multiply(self.numerator);
        }
        for _ in 0..n {
            product.divide(self.denominator);
        }
        product.saturating_u64()
    }

    /// Fixed-point square-and-multiply for the far tail, where one part in 2^40 does not matter.
    fn grow_approximately(self, start: u64, n: u32) -> u64 {
        const ONE: u128 = 1 << 63;
        // Factors are kept below 2^64 in Q63 times a power of two, so that no product leaves 128 bits.
        let mut factor = (u128::from(self.numerator) << 63) / u128::from(self.denominator);
        let mut factor_shift = 0u64;
        let mut result = ONE;
        let mut result_shift = 0u64;
        let mut left = n;
        let normal = |mut value: u128, mut shift: u64| {
            while value >= ONE << 1 {
                value >>= 1;
                shift = shift.saturating_add(1);
            }
            (value, shift)
        };
        (factor, factor_shift) = normal(factor, factor_shift);
        while left > 0 {
            if left & 1 == 1 {
                (result, result_shift) =
                    normal((result * factor) >> 63, result_shift.saturating_add(factor_shift));
            }
            (factor, factor_shift) = normal((factor * factor) >> 63, factor_shift.saturating_mul(2));
            left >>= 1;
        }
        let value = (u128::from(start) * result) >> 63;
        if result_shift >= 64 || value.leading_zeros() <= u32::try_from(result_shift).unwrap_or(u32::MAX) {
            return u64::MAX;
        }
        u64::try_from(value << result_shift).unwrap_or(u64::MAX)
    }
}

/// How many steps of an exponential curve are exact to the nanosecond.
pub const EXACT_STEPS: u32 = 64;

impl fmt::Display for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

impl fmt::Debug for Multiplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// An unsigned integer of up to 3,328 bits on the stack: room for 64 steps of the largest multiplier
/// (numerator below 2^50) on a 64-bit start.
struct Wide {
    limbs: [u64; Wide::LIMBS],
    len: usize,
}

impl Wide {
    const LIMBS: usize = 52;

    fn new(value: u64) -> Wide {
        let mut limbs = [0; Wide::LIMBS];
        limbs[0] = value;
        Wide { limbs, len: 1 }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn multiply(&mut self, factor: u64) {
        let mut carry = 0u128;
        for limb in &mut self.limbs[..self.len] {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = carry as u64;
            carry >>= 64;
        }
        if carry > 0 && self.len < Wide::LIMBS {
            self.limbs[self.len] = carry as u64;
            self.len += 1;
        }
    }

    /// Divides and floors. Flooring k times by d equals flooring once by d^k, so no drift comes of it.
    #[allow(clippy::cast_possible_truncation)]
    fn divide(&mut self, divisor: u64) {
        let mut remainder = 0u128;
        for limb in self.limbs[..self.len].iter_mut().rev() {
            let current = (remainder << 64) | u128::from(*limb);
            *limb = (current / u128::from(divisor)) as u64;
            remainder = current % u128::from(divisor);
        }
        while self.len > 1 && self.limbs[self.len - 1] == 0 {
            self.len -= 1;
        }
    }

    fn saturating_u64(&self) -> u64 {
        if self.len == 1 { self.limbs[0] } else { u64::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn check(backoff: &Backoff, expected: &[u64]) {
        let found: Vec<u64> =
            (0..u32::try_from(expected.len()).unwrap()).map(|n| backoff.nominal(n).as_secs()).collect();
        assert_eq!(found, expected);
    }

    /// R-P5: the sequences that the seeds give.
    #[test]
    fn the_curves_are_those_of_the_seeds() {
        check(&Backoff::new(Curve::exponential(seconds(1))), &[1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        check(&Backoff::new(Curve::linear(seconds(1), seconds(2))), &[1, 3, 5, 7, 9]);
        check(&Backoff::new(Curve::constant(seconds(500))), &[300, 300]);
        let fibonacci = Backoff::new(Curve::fibonacci(seconds(1)));
        check(&fibonacci, &[1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 300, 300]);
        check(&Backoff::new(Curve::List([seconds(2), seconds(7)].into())), &[2, 7, 7, 7]);
        let linear = Backoff::new(Curve::linear(seconds(1), seconds(2)));
        assert_eq!((linear.nominal(149), linear.nominal(150)), (seconds(299), seconds(300)));
    }

    /// R-P5: 1.1^n is eleven tenths to the n, floored to the nanosecond, for sixty steps.
    #[test]
    fn exponential_growth_does_not_drift() {
        let multiplier = Multiplier::new(1.1).unwrap();
        // The reference works in decimal digits, as a person with paper would.
        let mut digits: Vec<u32> = "1000000000".bytes().rev().map(|b| u32::from(b - b'0')).collect();
        for n in 1..=60u32 {
            let mut carry = 0;
            for digit in &mut digits {
                let value = *digit * 11 + carry;
                *digit = value % 10;
                carry = value / 10;
            }
            while carry > 0 {
                digits.push(carry % 10);
                carry /= 10;
            }
            let whole: String =
                digits[n as usize..].iter().rev().map(|d| char::from_digit(*d, 10).unwrap()).collect();
            assert_eq!(multiplier.grow(1_000_000_000, n, u64::MAX).to_string(), whole, "step {n}");
        }
    }

    /// R-P5: no overflow at any n, and the curve never steps back.
    #[test]
    fn nothing_overflows_at_any_n() {
        for multiplier in [1.0, 1.000_000_001, 1.01, 1.5, 2.0, 3.0, 7.3, 999_999.999_999_999] {
            let multiplier = Multiplier::new(multiplier).unwrap();
            let curve = Curve::Exponential { initial: Duration::from_millis(250), multiplier };
            let mut last = 0;
            for n in (0..200).chain([1_000, 1 << 20, u32::MAX - 1, u32::MAX]) {
                let now = curve.nanos(n, u64::MAX).unwrap();
                assert!(now >= last, "×{multiplier} steps back at {n}: {now} < {last}");
                last = now;
            }
        }
        let huge = Duration::MAX;
        for curve in [
            Curve::exponential(huge),
            Curve::linear(huge, huge),
            Curve::fibonacci(huge),
            Curve::constant(huge),
        ] {
            assert_eq!(Backoff::new(curve).nominal(u32::MAX), DEFAULT_CAP);
        }
        assert_eq!(fibonacci(92), 12_200_160_415_121_876_738);
        assert_eq!(fibonacci(93), u64::MAX);
        assert_eq!(fibonacci(u32::MAX), u64::MAX);
    }

    /// R-P5: numbers that are none, or go backwards, make no multiplier.
    #[test]
    fn impossible_multipliers_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -2.0, 0.0, 0.999, 1_000_000.1] {
            assert_eq!(Multiplier::new(bad), None, "{bad}");
        }
    }

    /// R-P14: a strategy that cannot say waits one second.
    #[test]
    fn a_strategy_without_an_answer_waits_one_second() {
        struct Mute;
        impl Strategy for Mute {
            fn name(&self) -> &'static str {
                "mute"
            }
            fn delay(&self, _: u32) -> Option<Duration> {
                None
            }
        }
        let backoff = Backoff::new(Curve::Own(Arc::new(Mute)));
        let delay = backoff.delay(3, None, &mut Rng::seeded(0));
        assert_eq!(delay, Delay { wait: FALLBACK_DELAY, fallback: true });
        let empty = Backoff::new(Curve::List(Arc::new([])));
        assert!(empty.delay(0, None, &mut Rng::seeded(0)).fallback);
    }

    /// R-P5: an initial delay above the cap is noticed, and the cap wins.
    #[test]
    fn the_cap_wins_over_the_first_delay() {
        let backoff = Backoff::new(Curve::exponential(seconds(900)));
        assert!(backoff.starts_above_cap());
        assert_eq!(backoff.nominal(0), DEFAULT_CAP);
        assert!(!Backoff::new(Curve::exponential(seconds(1))).starts_above_cap());
    }
}
