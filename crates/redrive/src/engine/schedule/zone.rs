//! Time zones: when something on a calendar comes about, also on the days on which clocks are changed.
//!
//! A schedule that names its hours follows the clock on the wall: a tick in the hour that is left out comes with the first
//! moment after it, and one in the hour that comes twice comes once, the first time. A schedule that goes on every hour, such as
//! `*/15 * * * *`, follows the time that passes instead: nothing is left out, and nothing comes twice at once.

use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp as Instant, ToSpan};
use redrive_policy::nearest;
use redrive_store::Timestamp;

use super::cron::Cron;

/// How many changes of clocks are looked behind: two a year, within the expression's horizon.
const MOST_CHANGES: usize = 64;

/// No name of a zone is longer.
const LONGEST: usize = 40;

/// The zone of that name. Names are those of the IANA: `Asia/Tokyo`, `UTC`.
pub(super) fn named(name: &str) -> Option<TimeZone> {
    // A zone without a name could not be found again, and one by offset knows no summer.
    TimeZone::get(name).ok().filter(|zone| zone.iana_name().is_some() && !zone.is_unknown())
}

/// What people call the time of a place. Several mean several places: the one with the most people is offered.
const SHORT: [(&str, &str); 18] = [
    ("jst", "Asia/Tokyo"),
    ("kst", "Asia/Seoul"),
    ("ist", "Asia/Kolkata"),
    ("hkt", "Asia/Hong_Kong"),
    ("sgt", "Asia/Singapore"),
    ("aest", "Australia/Sydney"),
    ("aedt", "Australia/Sydney"),
    ("bst", "Europe/London"),
    ("cest", "Europe/Berlin"),
    ("msk", "Europe/Moscow"),
    ("est", "America/New_York"),
    ("edt", "America/New_York"),
    ("cst", "America/Chicago"),
    ("cdt", "America/Chicago"),
    ("mdt", "America/Denver"),
    ("pst", "America/Los_Angeles"),
    ("pdt", "America/Los_Angeles"),
    ("z", "UTC"),
];

/// Names that somebody may have meant: what an abbreviation stands for, what contains it, and what a slip of the fingers away from it.
pub(super) fn alike(name: &str) -> Vec<String> {
    let whole = name.trim().to_ascii_lowercase().replace(' ', "_");
    if let Some((_, place)) = SHORT.iter().find(|(short, _)| *short == whole) {
        return vec![(*place).to_owned()];
    }
    let wanted = whole.rsplit('/').next().unwrap_or_default();
    if wanted.len() < 3 || whole.len() > LONGEST {
        return Vec::new();
    }
    let all: Vec<String> = jiff::tz::db().available().map(|name| name.as_str().to_owned()).collect();
    let mut alike: Vec<String> =
        all.iter().filter(|name| name.to_ascii_lowercase().contains(wanted)).cloned().collect();
    alike.sort_by_key(String::len);
    if alike.is_empty() {
        let city = |name: &str| name.rsplit('/').next().unwrap_or_default().to_owned();
        let cities: Vec<String> = all.iter().map(|name| city(name)).collect();
        let near = nearest(&whole, all.iter().map(String::as_str));
        alike.extend(near.map(str::to_owned));
        if let (true, Some(near)) = (alike.is_empty(), nearest(wanted, cities.iter().map(String::as_str))) {
            alike.extend(all.iter().filter(|name| city(name) == near).cloned());
        }
    }
    alike.truncate(3);
    alike
}

/// The first tick after this moment.
pub(super) fn next_after(cron: &Cron, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    let after = Instant::from_millisecond(after.millis()).ok()?;
    let next = if cron.keeps_pace() { paced(cron, zone, after) } else { by_the_wall(cron, zone, after) };
    next.map(|at| Timestamp::from_millis(at.as_millisecond()))
}

fn by_the_wall(cron: &Cron, zone: &TimeZone, after: Instant) -> Option<Instant> {
    let mut from = second_after(zone.to_offset(after), after)?;
    loop {
        let shown = cron.next_civil(from)?;
        let at = match zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(shown).ok()?,
            // The hour that comes twice: the first time.
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(shown).ok()?,
            // The hour that is left out: the change itself, which lies no later than this would have been.
            AmbiguousOffset::Gap { before, .. } => {
                let would = before.to_timestamp(shown).ok()?;
                zone.preceding(would.checked_add(1.second()).ok()?).next()?.timestamp()
            }
        };
        if at > after {
            return Some(at);
        }
        from = shown.checked_add(1.second()).ok()?;
    }
}

fn paced(cron: &Cron, zone: &TimeZone, after: Instant) -> Option<Instant> {
    let mut offset = zone.to_offset(after);
    let mut from = second_after(offset, after)?;
    let mut changes = zone.following(after).take(MOST_CHANGES);
    loop {
        let at = offset.to_timestamp(cron.next_civil(from)?).ok()?;
        match changes.next() {
            Some(change) if change.timestamp() <= at => {
                offset = change.offset();
                from = offset.to_datetime(change.timestamp());
            }
            _ => return Some(at),
        }
    }
}

/// What the clock shows at the beginning of the next second.
fn second_after(offset: Offset, at: Instant) -> Option<jiff::civil::DateTime> {
    let whole = Instant::from_second(at.as_millisecond().div_euclid(1_000)).ok()?;
    Some(offset.to_datetime(whole.checked_add(SignedDuration::from_secs(1)).ok()?))
}

/// A moment as the clocks of a zone show it: `2026-11-17 06:00:00 JST`.
pub(super) fn shown(at: Timestamp, zone: &TimeZone) -> String {
    match Instant::from_millisecond(at.millis()) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(expression: &str, zone: &str, after: &str, expected: &[&str]) {
        let (cron, name) = (Cron::parse(expression).unwrap(), zone);
        let zone = named(zone).unwrap();
        let mut at: Timestamp = after.parse().unwrap();
        for expected in expected {
            at = next_after(&cron, &zone, at).unwrap();
            assert_eq!(shown(at, &zone), *expected, "{expression} in {name}");
        }
    }

    /// Schedules, DST: in the night in which an hour is left out, a tick of that hour comes with the first moment after it.
    #[test]
    fn a_tick_in_the_hour_that_is_left_out_comes_right_after_it() {
        let before = "2026-03-28T12:00:00Z";
        let days = ["2026-03-29 03:00:00 CEST", "2026-03-30 02:30:00 CEST"];
        check("30 2 * * *", "Europe/Berlin", before, &days);
        // Two of that hour are one moment, and one tick.
        let days = ["2026-03-29 03:00:00 CEST", "2026-03-30 02:00:00 CEST", "2026-03-30 02:30:00 CEST"];
        check("0,30 2 * * *", "Europe/Berlin", before, &days);
        // What was due at three anyway is the same tick.
        let days = ["2026-03-29 03:00:00 CEST", "2026-03-30 02:00:00 CEST", "2026-03-30 03:00:00 CEST"];
        check("0 2,3 * * *", "Europe/Berlin", before, &days);
        let new_york = ["2026-03-08 03:00:00 EDT", "2026-03-09 02:15:00 EDT"];
        check("15 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", &new_york);
        // Half an hour is left out: 02:00 becomes 02:30.
        let lord_howe = ["2026-10-04 02:30:00 +11", "2026-10-05 02:10:00 +11"];
        check("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", &lord_howe);
    }

    /// Schedules, DST: in the night in which an hour comes twice, a tick of that hour comes once, the first time.
    #[test]
    fn a_tick_in_the_hour_that_comes_twice_comes_once() {
        let nights = ["2026-10-25 02:30:00 CEST", "2026-10-26 02:30:00 CET"];
        check("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &nights);
        // From within the second of the two hours.
        check("45 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["2026-10-26 02:45:00 CET"]);
        let new_york = ["2026-11-01 01:30:00 EDT", "2026-11-02 01:30:00 EST"];
        check("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", &new_york);
        let lord_howe = ["2026-04-05 01:45:00 +11", "2026-04-06 01:45:00 +1030"];
        check("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T03:00:00Z", &lord_howe);
        check("0 6 * * *", "Asia/Tokyo", "2026-10-24T12:00:00Z", &["2026-10-25 06:00:00 JST"]);
    }

    /// Schedules, DST: what goes on every hour keeps its pace on both nights.
    #[test]
    fn what_goes_on_every_hour_keeps_its_pace() {
        let autumn = [
            "2026-10-25 02:30:00 CEST",
            "2026-10-25 02:00:00 CET",
            "2026-10-25 02:30:00 CET",
            "2026-10-25 03:00:00 CET",
        ];
        check("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", &autumn);
        let spring = ["2026-03-29 01:30:00 CET", "2026-03-29 03:00:00 CEST", "2026-03-29 03:30:00 CEST"];
        check("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &spring);
        let lord_howe = ["2026-04-05 01:30:00 +11", "2026-04-05 01:30:00 +1030", "2026-04-05 02:00:00 +1030"];
        check("*/30 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", &lord_howe);
        let hourly = ["2026-11-01 01:00:00 EDT", "2026-11-01 01:00:00 EST", "2026-11-01 02:00:00 EST"];
        check("@hourly", "America/New_York", "2026-11-01T04:00:00Z", &hourly);
    }

    /// Schedules: a zone is known by its name, and a name that is none leads to those that may be meant.
    #[test]
    fn zones_are_known_by_name() {
        assert!(named("Asia/Tokyo").is_some() && named("UTC").is_some());
        assert!(named("Tokyo").is_none() && named("").is_none());
        assert_eq!(alike("tokyo"), ["Asia/Tokyo"]);
        assert_eq!(alike("New York").first().map(String::as_str), Some("America/New_York"));
        for (slip, meant) in [
            ("Asia/Toyko", "Asia/Tokyo"),
            ("Asia/Tokio", "Asia/Tokyo"),
            ("Tokio", "Asia/Tokyo"),
            ("Europe/Berln", "Europe/Berlin"),
            ("JST", "Asia/Tokyo"),
            ("PST", "America/Los_Angeles"),
        ] {
            assert_eq!(alike(slip).first().map(String::as_str), Some(meant), "{slip}");
        }
    }

    proptest! {
        /// Schedules: where clocks are never changed another implementation finds the same times.
        #[test]
        fn in_utc_it_agrees_with_another_implementation(
            minute in "(\\*|[0-5]?[0-9]|\\*/[1-9]|[0-2][0-9]-[3-5][0-9]/7)",
            hour in "(\\*|1?[0-9]|\\*/[2-6]|[0-9],2[0-3])",
            day in "(\\*|[1-9]|1[0-9]-2[0-8]|31)",
            month in "(\\*|[1-9]|JAN|1,3,12)",
            weekday in "(\\*|[0-6]|1-5)",
            start in 1_700_000_000_000_i64..1_900_000_000_000,
        ) {
            let expression = format!("{minute} {hour} {day} {month} {weekday}");
            let Ok(cron) = Cron::parse(&expression) else { return Ok(()) };
            let theirs: croner::Cron = expression.parse().unwrap();
            let mut at = Timestamp::from_millis(start);
            for _ in 0..3 {
                let from = Instant::from_millisecond(at.millis()).unwrap().to_zoned(TimeZone::UTC);
                let expected = theirs.find_next_occurrence(&from, false).unwrap();
                at = next_after(&cron, &TimeZone::UTC, at).unwrap();
                prop_assert_eq!(at.millis(), expected.timestamp().as_second() * 1_000, "{}", expression);
            }
        }

        /// Schedules: time goes on: every tick is later than the one before it, in any zone.
        #[test]
        fn ticks_only_grow(
            expression in prop::sample::select(vec!["*/10 * * * *", "30 1,2,3 * * *", "0 0 * * *", "15 */2 * * *"]),
            zone in prop::sample::select(vec!["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "Africa/Casablanca"]),
            start in 1_700_000_000_000_i64..2_000_000_000_000,
        ) {
            let (cron, zone) = (Cron::parse(expression).unwrap(), named(zone).unwrap());
            let mut at = Timestamp::from_millis(start);
            for _ in 0..200 {
                let next = next_after(&cron, &zone, at).unwrap();
                prop_assert!(next > at && next.since(at).as_secs() <= 27 * 3_600);
                at = next;
            }
        }
    }
}
