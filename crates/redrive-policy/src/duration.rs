//! Durations as people write them: `250ms`, `1.5s`, `2m`, `72h`.

use std::fmt;
use std::time::Duration;

/// A duration that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDuration(String);

impl fmt::Display for BadDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a duration; write a number and a unit: 250ms, 1.5s, 2m, 72h, 7d", self.0)
    }
}

impl std::error::Error for BadDuration {}

const UNITS: [(&str, u64); 6] = [
    ("ms", 1_000_000),
    ("us", 1_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Reads a duration. Exact: the decimal is taken as written, never through a float.
///
/// ```
/// use redrive_policy::parse_duration;
/// use std::time::Duration;
///
/// assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
/// assert!(parse_duration("-1s").is_err() && parse_duration("NaN").is_err() && parse_duration("5").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Duration::ZERO);
    }
    let (number, nanos_per_unit) =
        UNITS.iter().find_map(|(unit, nanos)| Some((trimmed.strip_suffix(unit)?, *nanos))).ok_or_else(bad)?;
    let (whole, fraction) = number.trim_end().split_once('.').unwrap_or((number.trim_end(), ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty()
        || !digits(whole)
        || !digits(fraction)
        || (number.contains('.') && fraction.is_empty())
    {
        return Err(bad());
    }
    let mut nanos =
        whole.parse::<u64>().ok().and_then(|units| units.checked_mul(nanos_per_unit)).ok_or_else(bad)?;
    let mut place = nanos_per_unit;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.checked_add(u64::from(digit - b'0') * place).ok_or_else(bad)?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Writes a duration so that it is short, exact to the millisecond, and readable again.
///
/// ```
/// use redrive_policy::human_duration;
/// use std::time::Duration;
///
/// assert_eq!(human_duration(Duration::from_millis(20_250)), "20.25s");
/// assert_eq!(human_duration(Duration::from_secs(7200)), "2h");
/// ```
pub fn human_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 && !duration.is_zero() {
        return format!("{}us", duration.as_micros());
    }
    if millis == 0 {
        return "0s".to_owned();
    }
    if millis > 366 * 86_400_000 {
        // Nobody reads hundreds of millions of seconds.
        return format!("{}d", millis / 86_400_000);
    }
    for (unit, per_unit) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)] {
        if millis >= per_unit && millis.is_multiple_of(per_unit) {
            return format!("{}{unit}", millis / per_unit);
        }
    }
    if millis < 1_000 {
        return format!("{millis}ms");
    }
    let fraction = format!("{:03}", millis % 1_000);
    match fraction.trim_end_matches('0') {
        "" => format!("{}s", millis / 1_000),
        fraction => format!("{}.{fraction}s", millis / 1_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_written() {
        for (text, millis) in [
            ("250ms", 250),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("72h", 259_200_000),
            ("0.1s", 100),
            ("1 s", 1_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "1.s",
            ".5s",
            "-3s",
            "1e3s",
            "+1s",
            "inf",
            "NaNs",
            "99999999999999999999h",
            "1.5.5s",
            "５s",
            "1s2",
        ] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_can_be_read_again(millis in 0u64..10_000_000_000) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&human_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,12}") {
            let _ = parse_duration(&text);
        }
    }
}
