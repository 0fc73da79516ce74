//! `Retry-After` (R-P11): seconds or an HTTP date, turned into a duration at the moment it is captured.
//!
//! The clock is an argument. A date in the past means "now"; what is neither form is no answer at all.

use std::time::Duration;

/// Reads the value of a `Retry-After` header. `now` is in seconds since 1970.
///
/// ```
/// use redrive_policy::parse_retry_after;
/// use std::time::Duration;
///
/// assert_eq!(parse_retry_after("120", 0), Some(Duration::from_secs(120)));
/// let now = 1_445_412_480; // one second before the date below
/// assert_eq!(parse_retry_after("Wed, 21 Oct 2015 07:28:01 GMT", now), Some(Duration::from_secs(1)));
/// assert_eq!(parse_retry_after("soon", now), None);
/// ```
pub fn parse_retry_after(value: &str, now: u64) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit is still a number of seconds: the longest one.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    // Some services send a decimal; it is rounded up, so that it is never undercut.
    if let Some((whole, fraction)) = value.split_once('.')
        && !fraction.is_empty()
        && [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let seconds: u64 = whole.parse().ok()?;
        return Some(Duration::from_secs(
            seconds.saturating_add(u64::from(fraction.bytes().any(|d| d != b'0'))),
        ));
    }
    let at = parse_http_date(value)?;
    Some(Duration::from_secs(at.saturating_sub(now)))
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The three date forms of HTTP: IMF-fixdate, the RFC 850 form, and C's asctime.
fn parse_http_date(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (day, month, year, time) = match words.as_slice() {
        [weekday, day, month, year, time, "GMT" | "UTC"] if weekday.ends_with(',') => {
            (*day, *month, number(year, 4)?, *time)
        }
        [weekday, date, time, "GMT" | "UTC"] if weekday.ends_with(',') => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, number(parts.next()?, 2)?);
            // Two digits: the century that puts it nearest to the time these clocks still run in.
            (day, month, if year < 70 { 2000 + year } else { 1900 + year }, *time)
        }
        [_, month, day, time, year] => (*day, *month, number(year, 4)?, *time),
        _ => return None,
    };
    let month = u64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let day = number(day, 2)?;
    let mut clock = time.split(':');
    let (hour, minute, second) =
        (number(clock.next()?, 2)?, number(clock.next()?, 2)?, number(clock.next()?, 2)?);
    let valid = clock.next().is_none()
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && (1970..=9999).contains(&year);
    valid.then(|| days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn number(text: &str, max_digits: usize) -> Option<u64> {
    (!text.is_empty() && text.len() <= max_digits && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

const fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the Gregorian calendar, counted in years that begin in March.
const fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(value: &str, expected: Option<u64>) {
        assert_eq!(
            parse_retry_after(value, 784_111_777 - 100),
            expected.map(Duration::from_secs),
            "{value:?}"
        );
    }

    /// R-P11: both forms, all three dates, and what is neither.
    #[test]
    fn seconds_and_dates_are_read_and_garbage_is_not() {
        check("0", Some(0));
        check(" 30 ", Some(30));
        check("1.2", Some(2));
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(100));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(100));
        check("Sun Nov  6 08:49:37 1994", Some(100));
        check("Sun, 06 Nov 1994 08:47:00 GMT", Some(0));
        check("Sat, 06 Nov 1993 08:49:37 GMT", Some(0));
        check("99999999999999999999999", Some(u64::MAX));
        for garbage in [
            "",
            "-5",
            "soon",
            "1s",
            "１２",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Fri, 31 Feb 2040 00:00:00 GMT",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "NaN",
            "1e9",
            "\u{0}",
        ] {
            check(garbage, None);
        }
    }

    #[test]
    fn days_are_counted_as_calendars_do() {
        for (date, days) in [
            ((1970, 1, 1), 0),
            ((1972, 2, 29), 789),
            ((1972, 3, 1), 790),
            ((2000, 2, 29), 11_016),
            ((2100, 3, 1), 47_541),
        ] {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(value in "\\PC{0,40}", now in any::<u64>()) {
            let _ = parse_retry_after(&value, now);
        }
    }
}
