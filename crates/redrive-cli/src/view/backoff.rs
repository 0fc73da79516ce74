//! A backoff in JSON and in a few words, and how far jitter can move its delays.

use std::time::Duration;

use redrive_policy::{Backoff, Curve, Jitter, Lang, describe_jitter, human_duration, round_to_millis};

use crate::text::text;

/// A backoff in a few words: `exponential 1s ×2, ± 10 %, ≤ 30s`.
pub(crate) fn in_words(backoff: &Backoff, lang: Lang) -> String {
    let human = |duration: &Duration| human_duration(*duration);
    let curve = match &backoff.curve {
        Curve::Exponential { initial, multiplier } => format!("exponential {} ×{multiplier}", human(initial)),
        Curve::Linear { initial, increment } => format!("linear {} +{}", human(initial), human(increment)),
        Curve::Constant { delay } => format!("constant {}", human(delay)),
        Curve::Fibonacci { unit } => format!("fibonacci {}", human(unit)),
        Curve::List(delays) => {
            let shown: Vec<String> = delays.iter().take(6).map(human).collect();
            let more = if delays.len() > shown.len() { ", …" } else { "" };
            format!("list {}{more}", shown.join(", "))
        }
        other => other.name().to_owned(),
    };
    let jitter = describe_jitter(lang, backoff.jitter);
    text(
        lang,
        "backoff.in-words",
        &[("curve", &curve), ("jitter", &jitter), ("cap", &human_duration(backoff.cap))],
    )
}

/// The least and the most that the delay before retry `n` can be. `previous` is the delay before it, which
/// decorrelated jitter grows from.
pub(crate) fn range(backoff: &Backoff, n: u32, previous: Option<Duration>) -> (Duration, Duration) {
    // The curve before the cap: jitter is applied to it, and the cap comes last.
    let base = backoff.clone().with_cap(Duration::MAX).nominal(n);
    let reach = |factor: f64| base.mul_f64_saturating(factor);
    let (low, high) = match backoff.jitter {
        Jitter::None => (base, base),
        Jitter::PlusMinus(factor) => {
            (reach(1.0 - factor.as_f64()), base.saturating_add(reach(factor.as_f64())))
        }
        Jitter::Additive(factor) => (base, base.saturating_add(reach(factor.as_f64()))),
        Jitter::Full => (Duration::ZERO, base),
        Jitter::Decorrelated => {
            let first = backoff.nominal(0);
            (first, previous.unwrap_or(first).saturating_mul(3).max(first))
        }
    };
    (low.min(backoff.cap), high.min(backoff.cap))
}

trait MulF64 {
    fn mul_f64_saturating(self, factor: f64) -> Duration;
}

impl MulF64 for Duration {
    /// For drawing only: a float is near enough, and what does not fit stays at the end.
    fn mul_f64_saturating(self, factor: f64) -> Duration {
        Duration::try_from_secs_f64(self.as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }
}

/// A duration at a glance: exact below a minute, then `2m30s`, then `1h05m`, then `3d04h`.
pub(crate) fn short(duration: Duration) -> String {
    let millis = Duration::from_millis(round_to_millis(duration));
    let seconds = millis.as_secs();
    match seconds {
        0..60 => human_duration(millis),
        60..3_600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 if seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A range in words: `5s`, or `4.5s – 5.5s`.
pub(crate) fn range_in_words((low, high): (Duration, Duration)) -> String {
    if round_to_millis(low) == round_to_millis(high) {
        short(low)
    } else {
        format!("{} – {}", short(low), short(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use redrive_policy::{Factor, Rng};

    #[test]
    fn a_glance_is_enough() {
        for (millis, words) in [
            (0, "0s"),
            (1_250, "1.25s"),
            (59_999, "59.999s"),
            (60_000, "1m"),
            (150_184, "2m30s"),
            (3_600_000, "1h"),
            (3_900_000, "1h05m"),
            (273_600_000, "3d04h"),
        ] {
            assert_eq!(short(Duration::from_millis(millis)), words);
        }
    }

    proptest! {
        /// R-P6: what is drawn lies in the range that is shown.
        #[test]
        fn every_draw_lies_in_its_range(seed in any::<u64>(), n in 0u32..40, mode in 0u8..5) {
            let jitter = match mode {
                0 => Jitter::None,
                1 => Jitter::PlusMinus(Factor::percent(30)),
                2 => Jitter::Additive(Factor::percent(10)),
                3 => Jitter::Full,
                _ => Jitter::Decorrelated,
            };
            let backoff = Backoff::new(Curve::exponential(Duration::from_millis(700))).with_jitter(jitter);
            let previous = Some(Duration::from_secs(2));
            let wait = backoff.delay(n, previous, &mut Rng::seeded(seed)).wait;
            let (low, high) = range(&backoff, n, previous);
            let slack = Duration::from_micros(1) + wait / 1_000_000;
            prop_assert!(wait + slack >= low && wait <= high + slack, "{wait:?} not in {low:?}..{high:?}");
        }
    }
}
