//! Points in time: milliseconds since 1970 in UTC, handed in by the caller. Nothing in this crate reads a clock.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DAY_MS: i64 = 86_400_000;
/// The beginning of year 0 and the end of year 9999.
const FIRST_WRITTEN: i64 = -62_167_219_200_000;
const LAST_WRITTEN: i64 = 253_402_300_799_999;

/// A point in time, to the millisecond.
///
/// ```
/// use redrive_store::Timestamp;
///
/// let at: Timestamp = "2026-11-15T11:03:32.123Z".parse().unwrap();
/// assert_eq!(at.to_string(), "2026-11-15T11:03:32.123Z");
/// assert_eq!("2026-11-15T20:03:32.123456+09:00".parse::<Timestamp>().unwrap(), at);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// So many milliseconds after the beginning of 1970.
    pub const fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since the beginning of 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// The millisecond in which `time` lies.
    pub fn from_system(time: SystemTime) -> Timestamp {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Timestamp(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => millis(since),
            Err(before) => -millis(before.duration()),
        })
    }

    /// This much later. A delay shorter than a millisecond is rounded up, so that nothing is due too early.
    pub fn after(self, delay: Duration) -> Timestamp {
        let millis = delay.as_nanos().div_ceil(1_000_000);
        Timestamp(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// This much earlier.
    pub fn before(self, delay: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Year, month, day, hour, minute, second, millisecond.
    pub(crate) fn civil(self) -> (i64, i64, i64, i64, i64, i64, i64) {
        let (days, ms) = (self.0.div_euclid(DAY_MS), self.0.rem_euclid(DAY_MS));
        let (year, month, day) = civil_of_days(days);
        (year, month, day, ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
    }
}

/// The date that lies so many days after 1970-01-01. Years are counted from March, so that a leap day ends one.
/// Whole milliseconds for a column; half of one is one, so that a timeout is never none. "For ever" is an age of the
/// world: any more, added to a time in SQL, would overflow.
pub(crate) fn whole_millis(duration: Duration) -> i64 {
    const FOR_EVER: i64 = i64::MAX / 4;
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(FOR_EVER).min(FOR_EVER)
}

fn civil_of_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_of_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A text has four digits for the year. What lies beyond, such as "never", is written as the last moment that has.
        let shown = Timestamp(self.0.clamp(FIRST_WRITTEN, LAST_WRITTEN));
        let (year, month, day, hour, minute, second, millis) = shown.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// A text that is no point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time such as 2026-11-15T11:03:32Z")]
pub struct BadTimestamp;

/// RFC 3339, also without an offset (then it is UTC), without a time of day, and with a blank for the `T`.
impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Timestamp, BadTimestamp> {
        let text = text.trim();
        let (date, rest) = text.split_at_checked(10).ok_or(BadTimestamp)?;
        let number = |text: &str| {
            let digits =
                !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
            if digits { text.parse::<i64>().map_err(|_| BadTimestamp) } else { Err(BadTimestamp) }
        };
        let parts: Vec<&str> = date.split('-').collect();
        let [year, month, day] = parts[..] else { return Err(BadTimestamp) };
        let (year, month, day) = (number(year)?, number(month)?, number(day)?);
        let days = days_of_civil(year, month, day);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || civil_of_days(days) != (year, month, day)
        {
            return Err(BadTimestamp);
        }
        if rest.is_empty() {
            return Ok(Timestamp(days * DAY_MS));
        }
        let rest = rest.strip_prefix(['T', 't', ' ']).ok_or(BadTimestamp)?;
        let zone = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
        let (clock, zone) = rest.split_at(zone);
        let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
        let parts: Vec<&str> = clock.split(':').collect();
        let (hour, minute, second) = match parts[..] {
            [hour, minute] => (number(hour)?, number(minute)?, 0),
            [hour, minute, second] => (number(hour)?, number(minute)?, number(second)?),
            _ => return Err(BadTimestamp),
        };
        // A leap second is the last millisecond that it can be told as.
        if hour > 23 || minute > 59 || second > 60 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(BadTimestamp);
        }
        let millis = number(&format!("{fraction:0<3}").chars().take(3).collect::<String>())?;
        let offset = offset_ms(zone, number)?;
        let of_day = ((hour * 60 + minute) * 60 + second.min(59)) * 1_000 + millis;
        Ok(Timestamp(days * DAY_MS + of_day - offset))
    }
}

fn offset_ms(zone: &str, number: impl Fn(&str) -> Result<i64, BadTimestamp>) -> Result<i64, BadTimestamp> {
    let (sign, rest) = match zone.as_bytes().first() {
        None => return Ok(0),
        Some(b'Z' | b'z') if zone.len() == 1 => return Ok(0),
        Some(b'+') => (1, &zone[1..]),
        Some(b'-') => (-1, &zone[1..]),
        Some(_) => return Err(BadTimestamp),
    };
    let rest = rest.replace(':', "");
    let (hours, minutes) = match rest.len() {
        2 => (number(&rest)?, 0),
        4 => (number(&rest[..2])?, number(&rest[2..])?),
        _ => return Err(BadTimestamp),
    };
    if hours > 23 || minutes > 59 {
        return Err(BadTimestamp);
    }
    Ok(sign * (hours * 60 + minutes) * 60_000)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// R-E2: what is written is read back, from year 1 to year 9999.
        #[test]
        fn a_time_survives_its_text(millis in -62_135_596_800_000_i64..253_402_300_799_999) {
            let at = Timestamp::from_millis(millis);
            prop_assert_eq!(at.to_string().parse::<Timestamp>(), Ok(at));
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = text.parse::<Timestamp>();
        }
    }

    /// R-E4: a time without offset is UTC.
    #[test]
    fn offsets_and_their_absence() {
        let check = |text: &str, millis: i64| assert_eq!(text.parse(), Ok(Timestamp(millis)), "{text}");
        check("1970-01-01", 0);
        check("1970-01-01T00:00:01", 1_000);
        check("1970-01-01 09:00:00+09:00", 0);
        check("2025-11-06T09:00:00.123456", 1_762_419_600_123);
        check("2024-02-29T23:59:60Z", 1_709_251_199_000);
        for bad in [
            "",
            "2025-02-29",
            "2025-13-01T00:00Z",
            "yesterday",
            "2025-01-01T24:00:00Z",
            "2025-01-01T1:2:3:4Z",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(BadTimestamp), "{bad}");
        }
    }

    /// R-E2: whatever a time is, its text is a time.
    #[test]
    fn a_time_beyond_all_calendars_has_a_text() {
        for (millis, text) in [
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (LAST_WRITTEN + 1, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Timestamp(millis).to_string(), text);
            assert!(text.parse::<Timestamp>().is_ok(), "{text}");
        }
    }

    #[test]
    fn nothing_is_due_too_early() {
        assert_eq!(Timestamp(5).after(Duration::from_nanos(1)), Timestamp(6));
        assert_eq!(Timestamp(5).after(Duration::MAX), Timestamp(i64::MAX));
    }
}
