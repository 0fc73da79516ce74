//! Points in time for people: in UTC, as the store keeps them, and how long ago they were.

use std::time::Duration;

use redrive_policy::Lang;
use redrive_store::Timestamp;

use super::Reader;
use crate::text::text;

/// Date and time to the second: `2026-11-15 11:03:32Z`.
pub(crate) fn date_time(at: Timestamp) -> String {
    let written = at.to_string();
    let seconds = written.split_once('.').map_or(written.as_str(), |(seconds, _)| seconds);
    format!("{}Z", seconds.replacen('T', " ", 1))
}

/// Date and time to the millisecond: `2026-11-15 11:03:32.123`.
pub(crate) fn precise(at: Timestamp) -> String {
    at.to_string().replacen('T', " ", 1).trim_end_matches('Z').to_owned()
}

/// The time of day to the millisecond: `11:03:32.123`.
pub(crate) fn clock(at: Timestamp) -> String {
    let written = precise(at);
    written.split_once(' ').map_or_else(|| written.clone(), |(_, clock)| clock.to_owned())
}

/// A length of time as it is said, in its one or two largest units: `2d 4h`, `3m 12s`, `250ms`.
pub(crate) fn rough(length: Duration) -> String {
    let seconds = length.as_secs();
    let two = |large: u64, unit: &str, small: u64, smaller: &str| {
        if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit} {small}{smaller}") }
    };
    match seconds {
        0 => format!("{}ms", length.as_millis()),
        1..60 if seconds < 10 && length.subsec_millis() >= 100 => {
            format!("{seconds}.{}s", length.subsec_millis() / 100)
        }
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

/// How long ago: `3m 12s ago`.
pub(crate) fn ago(at: Timestamp, now: Timestamp, lang: Lang) -> String {
    text(lang, "moment.ago", &[("length", &rough(now.since(at)))])
}

/// A point in time as the reader wants it: how long ago it was, or in UTC.
pub(crate) fn when(at: Timestamp, now: Timestamp, reader: Reader) -> String {
    if reader.absolute { date_time(at) } else { ago(at, now, reader.lang) }
}

/// A point in time to come, as the reader wants it: how long until then, or in UTC. What has passed comes at once.
pub(crate) fn coming(at: Timestamp, now: Timestamp, reader: Reader) -> String {
    if reader.absolute {
        return date_time(at);
    }
    text(reader.lang, "moment.coming", &[("length", &rough(at.since(now)))])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C2: lengths of time are said as people say them.
    #[test]
    fn lengths_are_said_in_two_units() {
        let check = |millis: u64, said: &str| assert_eq!(rough(Duration::from_millis(millis)), said);
        check(0, "0ms");
        check(999, "999ms");
        check(1_000, "1s");
        check(1_540, "1.5s");
        check(59_999, "59s");
        check(60_000, "1m");
        check(192_000, "3m 12s");
        check(3_600_000, "1h");
        check(187_200_000, "2d 4h");
        let at: Timestamp = "2026-11-15T11:03:32.123Z".parse().unwrap();
        assert_eq!(date_time(at), "2026-11-15 11:03:32Z");
        assert_eq!((precise(at).as_str(), clock(at).as_str()), ("2026-11-15 11:03:32.123", "11:03:32.123"));
        let later = at.after(Duration::from_secs(61));
        assert_eq!(ago(at, later, Lang::Ja), "1m 1s 前");
        let reader = Reader { lang: Lang::En, verbose: false, absolute: false };
        assert_eq!(coming(later, at, reader), "in 1m 1s");
        assert_eq!(coming(later, at, Reader { absolute: true, ..reader }), "2026-11-15 11:04:33Z");
    }
}
