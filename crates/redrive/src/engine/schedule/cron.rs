//! Cron expressions: five fields, or six with seconds in front, or a word such as `@daily`.
//!
//! What is wrong is told with the field and the place, so that a person sees where to look. Matching is done on the calendar
//! alone; what a time zone makes of it is `zone`'s business. As with every cron: a day of the month and a day of the week that
//! are both restricted fit when either does.

use std::fmt;
use std::ops::Range;

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};
use redrive_policy::nearest;

/// No expression is longer.
const MOST_CHARS: usize = 200;
/// The 29th of February may be eight years away; what does not come about within these never does.
const HORIZON_YEARS: i16 = 12;

/// A field of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CronField {
    /// 0–59, only in expressions of six fields.
    Second,
    /// 0–59.
    Minute,
    /// 0–23.
    Hour,
    /// 1–31, or `L` for the last one.
    Day,
    /// 1–12, or JAN–DEC.
    Month,
    /// 0–7, or SUN–SAT; 0 and 7 are Sunday.
    Weekday,
}

impl CronField {
    const ALL: [CronField; 6] = [
        CronField::Second,
        CronField::Minute,
        CronField::Hour,
        CronField::Day,
        CronField::Month,
        CronField::Weekday,
    ];

    /// Its name, by which messages are looked up.
    pub const fn name(self) -> &'static str {
        match self {
            CronField::Second => "second",
            CronField::Minute => "minute",
            CronField::Hour => "hour",
            CronField::Day => "day",
            CronField::Month => "month",
            CronField::Weekday => "weekday",
        }
    }

    /// The least and the most that may stand in it.
    pub const fn bounds(self) -> (u8, u8) {
        match self {
            CronField::Second | CronField::Minute => (0, 59),
            CronField::Hour => (0, 23),
            CronField::Day => (1, 31),
            CronField::Month => (1, 12),
            CronField::Weekday => (0, 7),
        }
    }

    const fn names(self) -> &'static [&'static str] {
        match self {
            CronField::Month => {
                &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
            }
            CronField::Weekday => &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
            _ => &[],
        }
    }
}

/// What is wrong with an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CronProblem {
    /// There is nothing in it.
    Empty,
    /// It is longer than any expression need be.
    TooLong,
    /// So many fields; there must be five or six.
    Fields(usize),
    /// A word behind `@` that is none.
    Word(String),
    /// Neither a number nor a name that belongs there.
    NotANumber(String),
    /// A number that the field does not have.
    OutOfRange {
        /// The number.
        given: u32,
        /// The least.
        min: u8,
        /// The most.
        max: u8,
    },
    /// A range that ends before it begins.
    Backwards {
        /// Its beginning.
        from: u8,
        /// Its end.
        to: u8,
    },
    /// A step that is none.
    Step(String),
    /// No day ever fits, as the 31st of February.
    Never,
}

/// An expression that cannot be obeyed: which one, where in it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCron {
    /// What was given.
    pub expression: String,
    /// The field, where one is to blame.
    pub field: Option<CronField>,
    /// The characters to blame.
    pub at: Range<usize>,
    /// What is wrong.
    pub why: CronProblem,
}

/// What is shown where an example is needed.
pub const CRON_EXAMPLE: &str = "0 6 * * *";

impl fmt::Display for BadCron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.expression.chars().take(MOST_CHARS).collect();
        write!(f, "{shown:?} is no cron expression: ")?;
        if let Some(field) = self.field {
            write!(f, "{} (character {}): ", field.name(), self.at.start + 1)?;
        }
        match &self.why {
            CronProblem::Empty => f.write_str("it is empty")?,
            CronProblem::TooLong => write!(f, "it has more than {MOST_CHARS} characters")?,
            CronProblem::Fields(count) => write!(
                f,
                "it has {count} fields; minute, hour, day of the month, month and day of the week are needed, \
                 and a second may come first"
            )?,
            CronProblem::Word(word) => write!(
                f,
                "{word:?} is not known; @yearly, @monthly, @weekly, @daily, @midnight and @hourly are"
            )?,
            CronProblem::NotANumber(given) => write!(f, "{given:?} is neither a number nor a name")?,
            CronProblem::OutOfRange { given, min, max } => {
                write!(f, "{given} is not between {min} and {max}")?;
            }
            CronProblem::Backwards { from, to } => {
                write!(f, "{from}-{to} ends before it begins; write two ranges with a comma")?;
            }
            CronProblem::Step(given) => write!(f, "{given:?} is no step such as */5")?,
            CronProblem::Never => f.write_str("no day ever fits")?,
        }
        write!(f, "; an example: {CRON_EXAMPLE} is every day at 06:00")
    }
}

impl std::error::Error for BadCron {}

impl BadCron {
    /// What was probably meant in its place: `@daily` for `@dayly`, `FRI` for `Friday`.
    pub fn meant(&self) -> Option<&'static str> {
        match &self.why {
            CronProblem::Word(word) => nearest(word, NICKNAMES),
            CronProblem::NotANumber(given) => {
                let (names, given) = (self.field?.names(), given.to_ascii_uppercase());
                let begun = names.iter().copied().find(|name| given.starts_with(name));
                begun.or_else(|| nearest(&given, names.iter().copied()))
            }
            _ => None,
        }
    }
}

/// An expression that makes sense, and comes about now and then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    source: String,
    seconds: u64,
    minutes: u64,
    hours: u64,
    /// The number nought stands for the last day of a month, whichever that is.
    days: u64,
    months: u64,
    weekdays: u64,
    /// The field begins with a star: it does not restrict.
    any_day: bool,
    any_weekday: bool,
    any_hour: bool,
}

/// What one field says.
#[derive(Default)]
struct Said {
    bits: u64,
    any: bool,
}

impl Cron {
    /// Reads an expression.
    ///
    /// ```
    /// use redrive::engine::Cron;
    ///
    /// assert!(Cron::parse("*/15 9-17 * * MON-FRI").is_ok());
    /// let error = Cron::parse("0 25 * * *").unwrap_err();
    /// assert!(error.to_string().contains("hour (character 3): 25 is not between 0 and 23"));
    /// ```
    pub fn parse(expression: &str) -> Result<Cron, BadCron> {
        let bad = |field, at, why| BadCron { expression: expression.to_owned(), field, at, why };
        let length = expression.chars().count();
        if length > MOST_CHARS {
            return Err(bad(None, MOST_CHARS..length, CronProblem::TooLong));
        }
        let given = words(expression);
        let replaced;
        let fields: Vec<(usize, &str)> = match given[..] {
            [] => return Err(bad(None, 0..length, CronProblem::Empty)),
            [(at, word)] if word.starts_with('@') => {
                replaced = nickname(word).ok_or_else(|| {
                    bad(None, at..at + word.chars().count(), CronProblem::Word(word.to_owned()))
                })?;
                words(replaced)
            }
            _ => given,
        };
        let first = match fields.len() {
            5 => 1,
            6 => 0,
            count => return Err(bad(None, 0..length, CronProblem::Fields(count))),
        };
        let mut said: [Said; 6] = Default::default();
        said[0].bits = 1;
        for (field, (at, word)) in CronField::ALL[first..].iter().zip(&fields) {
            said[*field as usize] = read(*field, word)
                .map_err(|(place, why)| bad(Some(*field), at + place.start..at + place.end, why))?;
        }
        let [seconds, minutes, hours, days, months, weekdays] = said;
        let cron = Cron {
            source: expression.trim().to_owned(),
            seconds: seconds.bits,
            minutes: minutes.bits,
            hours: hours.bits,
            days: days.bits,
            months: months.bits,
            // Sunday has two numbers.
            weekdays: (weekdays.bits | weekdays.bits >> 7) & 0x7f,
            any_day: days.any,
            any_weekday: weekdays.any,
            any_hour: hours.any,
        };
        // A leap year and all others are in any twelve years, and so is every weekday of every date.
        if cron.next_civil(DateTime::constant(2026, 1, 1, 0, 0, 0, 0)).is_none() {
            let at = fields.get(3 - first).map_or(0..length, |(at, word)| *at..*at + word.chars().count());
            return Err(bad(Some(CronField::Day), at, CronProblem::Never));
        }
        Ok(cron)
    }

    /// As it was given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether it goes on by the hour, whatever the hour is called: such a schedule keeps its pace when clocks are changed,
    /// while one that names its hours keeps to what the clock on the wall shows.
    pub(super) fn keeps_pace(&self) -> bool {
        self.any_hour
    }

    /// The first time on the calendar that fits, at or after this one.
    pub(super) fn next_civil(&self, from: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut earliest = Some(from.time());
        let last_year = from.year().saturating_add(HORIZON_YEARS);
        loop {
            if date.year() > last_year {
                return None;
            }
            if !has(self.months, date.month()) {
                date = date.last_of_month().tomorrow().ok()?;
                earliest = None;
                continue;
            }
            if self.fits_day(date)
                && let Some(time) = self.next_time(earliest.unwrap_or(Time::midnight()))
            {
                return Some(date.to_datetime(time));
            }
            date = date.checked_add(1.day()).ok()?;
            earliest = None;
        }
    }

    fn fits_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day()) || (has(self.days, 0) && date == date.last_of_month());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        match (self.any_day, self.any_weekday) {
            (false, false) => day || weekday,
            _ => day && weekday,
        }
    }

    /// The first time of a day that fits, at or after this one; what is below a second does not count.
    fn next_time(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let at = |hour, minute, second| Some(Time::constant(hour, minute, second, 0));
        let (first_minute, first_second) = (next_bit(self.minutes, 0)?, next_bit(self.seconds, 0)?);
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = next_bit(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = next_bit(self.minutes, minute + 1) {
                return at(hour, minute, first_second);
            }
        }
        at(next_bit(self.hours, hour + 1)?, first_minute, first_second)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

fn has(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|number| number < 64 && bits >> number & 1 == 1)
}

/// The first number from this one on that is in the set.
fn next_bit(bits: u64, from: i8) -> Option<i8> {
    let from = u32::try_from(from).ok().filter(|from| *from < 64)?;
    let rest = bits >> from << from;
    if rest == 0 { None } else { i8::try_from(rest.trailing_zeros()).ok() }
}

/// The words of a text, each with the place of its first character.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut rest = text;
    let mut at = 0;
    loop {
        let blank = rest.len() - rest.trim_start().len();
        at += rest[..blank].chars().count();
        rest = &rest[blank..];
        if rest.is_empty() {
            return words;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        words.push((at, &rest[..end]));
        at += rest[..end].chars().count();
        rest = &rest[end..];
    }
}

/// Words that stand for an expression.
const NICKNAMES: [&str; 7] =
    ["@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"];

fn nickname(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Some("0 0 1 1 *"),
        "@monthly" => Some("0 0 1 * *"),
        "@weekly" => Some("0 0 * * 0"),
        "@daily" | "@midnight" => Some("0 0 * * *"),
        "@hourly" => Some("0 * * * *"),
        _ => None,
    }
}

type Place = Range<usize>;

/// What a field says; or where in it, counted in characters, something is wrong.
fn read(field: CronField, text: &str) -> Result<Said, (Place, CronProblem)> {
    let mut said = Said { any: text.starts_with(['*', '?']), ..Said::default() };
    let mut at = 0;
    for part in text.split(',') {
        let length = part.chars().count();
        let place = at..at + length.max(1);
        at += length + 1;
        if field == CronField::Day && part.eq_ignore_ascii_case("L") {
            said.bits |= 1;
            continue;
        }
        said.bits |= read_part(field, part).map_err(|why| (place, why))?;
    }
    Ok(said)
}

/// One part of a list: `*`, a number, a range, each with or without a step.
fn read_part(field: CronField, part: &str) -> Result<u64, CronProblem> {
    let (min, max) = field.bounds();
    let (range, step) = match part.split_once('/') {
        None => (part, None),
        Some((range, step)) => {
            let number: Option<u8> = step.parse().ok().filter(|step| *step > 0 && !part.contains('+'));
            (range, Some(number.ok_or_else(|| CronProblem::Step(part.to_owned()))?))
        }
    };
    let (from, to) = match range.split_once('-') {
        // A star is every day of the week once.
        _ if range == "*" || (range == "?" && matches!(field, CronField::Day | CronField::Weekday)) => {
            (min, if field == CronField::Weekday { 6 } else { max })
        }
        // With a step, one number is where it begins.
        None if step.is_some() => (number(field, range)?, max),
        None => {
            let one = number(field, range)?;
            (one, one)
        }
        Some((from, to)) => {
            let (from, mut to) = (number(field, from)?, number(field, to)?);
            // A week may end with Sunday.
            if field == CronField::Weekday && to == 0 && from > 0 {
                to = 7;
            }
            (from, to)
        }
    };
    if from > to {
        return Err(CronProblem::Backwards { from, to });
    }
    let step = usize::from(step.unwrap_or(1));
    Ok((from..=to).step_by(step).fold(0, |bits, number| bits | 1 << number))
}

fn number(field: CronField, text: &str) -> Result<u8, CronProblem> {
    let (min, max) = field.bounds();
    if let Some(place) = field.names().iter().position(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(u8::try_from(place).unwrap_or(0) + u8::from(field == CronField::Month));
    }
    let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    let given: u32 = digits
        .then(|| text.parse().ok())
        .flatten()
        .ok_or_else(|| CronProblem::NotANumber(text.to_owned()))?;
    let fitting = u8::try_from(given).ok().filter(|number| (min..=max).contains(number));
    fitting.ok_or(CronProblem::OutOfRange { given, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expression: &str, from: &str, expected: &[&str]) {
        let cron = Cron::parse(expression).unwrap_or_else(|error| panic!("{error}"));
        let mut from: DateTime = from.parse().unwrap();
        for expected in expected {
            let next = cron.next_civil(from).unwrap();
            assert_eq!(next.to_string(), format!("{expected}:00"), "{expression}");
            from = next.checked_add(1.second()).unwrap();
        }
    }

    /// Schedules: what cron has always meant.
    #[test]
    fn expressions_mean_what_they_have_always_meant() {
        let sunday = "2026-11-15T12:00:00";
        check("0 6 * * *", sunday, &["2026-11-16T06:00", "2026-11-17T06:00"]);
        check("*/20 9-10 * * mon-fri", sunday, &["2026-11-16T09:00", "2026-11-16T09:20", "2026-11-16T09:40"]);
        check("5/20 * * * *", sunday, &["2026-11-15T12:05", "2026-11-15T12:25", "2026-11-15T12:45"]);
        check("0 0 29 2 *", sunday, &["2028-02-29T00:00", "2032-02-29T00:00"]);
        check("0 0 L * ?", sunday, &["2026-11-30T00:00", "2026-12-31T00:00"]);
        check("0 0 13 * FRI", sunday, &["2026-11-20T00:00", "2026-11-27T00:00", "2026-12-04T00:00"]);
        check("0 0 */10 * 1", sunday, &["2026-12-21T00:00"]);
        check("0 12 * * 7", sunday, &["2026-11-15T12:00", "2026-11-22T12:00"]);
        check("0 0 * * sat-sun", sunday, &["2026-11-21T00:00", "2026-11-22T00:00"]);
        check("@weekly", sunday, &["2026-11-22T00:00"]);
        check("@Hourly", sunday, &["2026-11-15T12:00", "2026-11-15T13:00"]);
        check("@yearly", sunday, &["2027-01-01T00:00"]);
        let cron = Cron::parse("30 0 6 * * *").unwrap();
        let next = cron.next_civil(sunday.parse().unwrap()).unwrap();
        assert_eq!(next.to_string(), "2026-11-16T06:00:30", "six fields begin with seconds");
    }

    /// Schedules: whoever slips is told what was probably meant, and nobody else is.
    #[test]
    fn what_was_probably_meant_is_told() {
        for (expression, meant) in [
            ("@dayly", Some("@daily")),
            ("@never", None),
            ("0 6 * * Friday", Some("FRI")),
            ("0 6 * * TEU", Some("TUE")),
            ("0 6 * Sept *", Some("SEP")),
            ("0 6 * * noon", None),
            ("0 six * * *", None),
            ("0 25 * * *", None),
        ] {
            assert_eq!(Cron::parse(expression).expect_err(expression).meant(), meant, "{expression}");
        }
        for word in NICKNAMES {
            assert!(Cron::parse(word).is_ok(), "{word}");
        }
    }

    /// Schedules: a bad expression is told with its field and its place.
    #[test]
    fn what_is_wrong_is_told_where_it_is() {
        let check = |expression: &str, field: Option<CronField>, at: Range<usize>, why: CronProblem| {
            let error = Cron::parse(expression).expect_err(expression);
            assert_eq!((error.field, error.at.clone(), &error.why), (field, at, &why), "{expression}");
            assert!(error.to_string().contains("an example: 0 6 * * * is every day at 06:00"));
        };
        let (minute, hour) = (Some(CronField::Minute), Some(CronField::Hour));
        check("", None, 0..0, CronProblem::Empty);
        check("0 6 * *", None, 0..7, CronProblem::Fields(4));
        check("0 25 * * *", hour, 2..4, CronProblem::OutOfRange { given: 25, min: 0, max: 23 });
        check("5,61,7 * * * *", minute, 2..4, CronProblem::OutOfRange { given: 61, min: 0, max: 59 });
        check("  x 6 * * *", minute, 2..3, CronProblem::NotANumber("x".to_owned()));
        check("0 22-2 * * *", hour, 2..6, CronProblem::Backwards { from: 22, to: 2 });
        check("*/0 * * * *", minute, 0..3, CronProblem::Step("*/0".to_owned()));
        check("0 6 31 2 *", Some(CronField::Day), 4..6, CronProblem::Never);
        check("0 6 31 FEB,APR *", Some(CronField::Day), 4..6, CronProblem::Never);
        check("@reboot", None, 0..7, CronProblem::Word("@reboot".to_owned()));
        check("0 6 , * *", Some(CronField::Day), 4..5, CronProblem::NotANumber(String::new()));
        check("日 6 * * *", minute, 0..1, CronProblem::NotANumber("日".to_owned()));
        let long = "*".repeat(MOST_CHARS + 1);
        check(&long, None, MOST_CHARS..MOST_CHARS + 1, CronProblem::TooLong);
    }

    proptest::proptest! {
        /// Schedules: whatever somebody types, it is an expression or an error.
        #[test]
        fn no_expression_panics(text in "[-0-9*/,LW?#@a-zA-Z ]{0,30}") {
            if let Ok(cron) = Cron::parse(&text) {
                cron.next_civil(DateTime::constant(2026, 11, 15, 12, 0, 0, 0)).unwrap();
            }
        }
    }
}
