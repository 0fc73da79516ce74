//! Single values of the command line: text in, a valid value or a [`BadValue`] out.
//!
//! A bad value knows what is allowed in its place and says so in the user's language.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use redrive_idempotency::client::{Key, MAX_KEY_BYTES};
use redrive_policy::{Cause, CauseSet, CurveKind, Factor, Jitter, Lang, Multiplier, human_duration, nearest};

use redrive_store::{EventSeq, EventStatus, GroupState, JobId, MAX_NAME_BYTES, PRIORITIES, RunId, Timestamp};

use super::{MAX_COUNT, MAX_LIMIT, MAX_SLOTS};

use crate::text::{say, text};

/// The longest duration that can be read, in whole days: nanoseconds are counted in 64 bits.
const MAX_DURATION: Duration = Duration::from_hours(213_503 * 24);
const SHORTEST_SHOW: Duration = Duration::from_secs(2);

/// A value that is not allowed where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadValue {
    Duration,
    /// A duration all right, but longer than can be counted.
    TooLong,
    TooShort {
        least: Duration,
    },
    Multiplier,
    Jitter,
    HttpStatus,
    ExitCode,
    Whole {
        least: u64,
        most: u64,
    },
    Curve {
        written: String,
    },
    Cause {
        written: String,
        or_any: bool,
    },
    /// Neither the id of a job nor that of an event.
    Id,
    /// Not the id of an idempotency key.
    KeyId,
    /// Nothing that names an idempotency key.
    KeyOrId,
    /// Not the id of a redrive.
    RunId,
    Rate,
    Target,
    Percent,
    Since,
    Status {
        written: String,
    },
    Priority,
    Name,
    Header,
    GroupState {
        written: String,
    },
    /// No `path=value`.
    Assignment,
    /// No size.
    Bytes,
    /// No item of the outbox.
    ItemId,
    /// Nothing that can be sent as a key.
    Key,
}

/// `path=value`: what is to be set, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) path: String,
    pub(crate) value: String,
}

/// A job, by its own id or by that of one of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobRef {
    Job(JobId),
    Event(String),
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobRef::Job(id) => id.fmt(f),
            JobRef::Event(id) => f.write_str(id),
        }
    }
}

/// A beginning: so long ago, or a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    At(Timestamp),
}

/// A header of an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl BadValue {
    /// What may stand there, as a sentence.
    pub(crate) fn allowed(&self, lang: Lang) -> String {
        match self {
            BadValue::Duration => say(lang, "allowed.duration"),
            BadValue::TooLong => text(lang, "allowed.too-long", &[("most", &human_duration(MAX_DURATION))]),
            BadValue::TooShort { least } => {
                text(lang, "allowed.too-short", &[("least", &human_duration(*least))])
            }
            BadValue::Multiplier => say(lang, "allowed.multiplier"),
            BadValue::Jitter => say(lang, "allowed.jitter"),
            BadValue::HttpStatus => say(lang, "allowed.status"),
            BadValue::ExitCode => say(lang, "allowed.exit-code"),
            BadValue::Whole { least, most } => {
                text(lang, "allowed.whole", &[("least", least), ("most", most)])
            }
            BadValue::Curve { .. } => {
                text(lang, "allowed.one-of", &[("names", &CurveKind::NAMES.join(", "))])
            }
            BadValue::Cause { or_any, .. } => {
                let any = if *or_any { ", any" } else { "" };
                text(lang, "allowed.one-of", &[("names", &format!("{}{any}", Cause::NAMES.join(", ")))])
            }
            BadValue::Id => say(lang, "allowed.id"),
            BadValue::KeyId => say(lang, "allowed.key-id"),
            BadValue::KeyOrId => say(lang, "allowed.key-or-id"),
            BadValue::Since => say(lang, "allowed.since"),
            BadValue::Status { .. } => {
                let names = EventStatus::ALL.map(EventStatus::name).join(", ");
                text(lang, "allowed.one-of", &[("names", &names)])
            }
            BadValue::Priority => {
                text(lang, "allowed.whole", &[("least", PRIORITIES.start()), ("most", PRIORITIES.end())])
            }
            BadValue::Name => text(lang, "allowed.name", &[("most", &MAX_NAME_BYTES)]),
            BadValue::RunId => say(lang, "allowed.run-id"),
            BadValue::Rate => say(lang, "allowed.rate"),
            BadValue::Target => say(lang, "allowed.target"),
            BadValue::Percent => say(lang, "allowed.percent"),
            BadValue::Header => say(lang, "allowed.header"),
            BadValue::GroupState { .. } => {
                let names = GroupState::ALL.map(GroupState::name).join(", ");
                text(lang, "allowed.one-of", &[("names", &names)])
            }
            BadValue::Assignment => say(lang, "allowed.assignment"),
            BadValue::Bytes => say(lang, "allowed.bytes"),
            BadValue::ItemId => say(lang, "allowed.item-id"),
            BadValue::Key => text(lang, "allowed.key", &[("most", &MAX_KEY_BYTES)]),
        }
    }

    /// The allowed name that was probably meant.
    pub(crate) fn meant(&self) -> Option<&'static str> {
        match self {
            BadValue::Curve { written } => nearest(written, CurveKind::NAMES.iter().copied()),
            BadValue::Cause { written, .. } => nearest(written, Cause::NAMES.iter().copied()),
            BadValue::Status { written } => {
                nearest(written, EventStatus::ALL.into_iter().map(EventStatus::name))
            }
            BadValue::GroupState { written } => {
                nearest(written, GroupState::ALL.into_iter().map(GroupState::name))
            }
            _ => None,
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed(Lang::En))
    }
}

impl Error for BadValue {}

pub(super) fn duration(text: &str) -> Result<Duration, BadValue> {
    redrive_policy::parse_duration(text).map_err(|_| {
        // What can be read when its digits are fewer was only too long.
        let (whole, rest) = text.trim().split_at(text.trim().bytes().take_while(u8::is_ascii_digit).count());
        let shorter = redrive_policy::parse_duration(&format!("1{rest}")).is_ok();
        if !whole.is_empty() && shorter { BadValue::TooLong } else { BadValue::Duration }
    })
}

/// How long a demo lasts: what is over in a blink shows nothing.
pub(super) fn show_time(text: &str) -> Result<Duration, BadValue> {
    let lasts = duration(text)?;
    if lasts < SHORTEST_SHOW { Err(BadValue::TooShort { least: SHORTEST_SHOW }) } else { Ok(lasts) }
}

/// How long something may take: no time at all is not enough for anything.
pub(super) fn wait(text: &str) -> Result<Duration, BadValue> {
    let least = Duration::from_millis(1);
    let wait = duration(text)?;
    if wait < least { Err(BadValue::TooShort { least }) } else { Ok(wait) }
}

/// A size: bytes, or with a unit of 1024 or 1000.
pub(super) fn bytes(text: &str) -> Result<u64, BadValue> {
    let text = text.trim();
    let (digits, unit) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(BadValue::Bytes),
    };
    let number: Option<u64> = digits.parse().ok();
    number.and_then(|number| number.checked_mul(factor)).ok_or(BadValue::Bytes)
}

pub(super) fn multiplier(text: &str) -> Result<Multiplier, BadValue> {
    text.trim().parse().ok().and_then(Multiplier::new).ok_or(BadValue::Multiplier)
}

pub(super) fn jitter(text: &str) -> Result<Jitter, BadValue> {
    match text.trim() {
        "none" => Ok(Jitter::None),
        "full" => Ok(Jitter::Full),
        "decorrelated" => Ok(Jitter::Decorrelated),
        number => match number.parse().ok().and_then(Factor::new) {
            Some(factor) if factor.as_f64() == 0.0 => Ok(Jitter::None),
            Some(factor) => Ok(Jitter::PlusMinus(factor)),
            None => Err(BadValue::Jitter),
        },
    }
}

pub(super) fn curve(text: &str) -> Result<CurveKind, BadValue> {
    match text {
        // The other word for it in the documents that redrive comes from.
        "fixed" => Ok(CurveKind::Constant),
        name => name.parse().map_err(|_| BadValue::Curve { written: name.to_owned() }),
    }
}

pub(super) fn cause(text: &str) -> Result<Cause, BadValue> {
    text.parse().map_err(|_| BadValue::Cause { written: text.to_owned(), or_any: false })
}

pub(super) fn causes(text: &str) -> Result<CauseSet, BadValue> {
    match text.trim() {
        "any" => Ok(CauseSet::ALL),
        name => match name.parse() {
            Ok(cause) => Ok(CauseSet::of(&[cause])),
            Err(_) => Err(BadValue::Cause { written: name.to_owned(), or_any: true }),
        },
    }
}

/// Beyond 599 there are servers that make up their own, and rules that name them.
pub(super) fn http_status(text: &str) -> Result<u16, BadValue> {
    text.trim().parse().ok().filter(|status| (100..=999).contains(status)).ok_or(BadValue::HttpStatus)
}

/// Windows reports codes such as 3221225477 as unsigned; they are the same 32 bits.
pub(super) fn exit_code(text: &str) -> Result<i32, BadValue> {
    let number: i64 = text.trim().parse().map_err(|_| BadValue::ExitCode)?;
    i32::try_from(number)
        .or_else(|_| u32::try_from(number).map(u32::cast_signed))
        .map_err(|_| BadValue::ExitCode)
}

pub(super) fn whole(text: &str) -> Result<u32, BadValue> {
    text.trim().parse().map_err(|_| BadValue::Whole { least: 0, most: u64::from(u32::MAX) })
}

pub(super) fn count(text: &str) -> Result<u32, BadValue> {
    let bad = BadValue::Whole { least: 1, most: MAX_COUNT };
    text.trim().parse().ok().filter(|count| (1..=MAX_COUNT).contains(&u64::from(*count))).ok_or(bad)
}

pub(super) fn seed(text: &str) -> Result<u64, BadValue> {
    text.trim().parse().map_err(|_| BadValue::Whole { least: 0, most: u64::MAX })
}

pub(super) fn at_least_one(text: &str) -> Result<u64, BadValue> {
    let bad = BadValue::Whole { least: 1, most: u64::MAX };
    text.trim().parse().ok().filter(|number| *number > 0).ok_or(bad)
}

pub(super) fn limit(text: &str) -> Result<u32, BadValue> {
    let bad = BadValue::Whole { least: 1, most: MAX_LIMIT };
    text.trim().parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(&u64::from(*limit))).ok_or(bad)
}

/// How many jobs are simulated at most.
pub(super) fn jobs(text: &str) -> Result<u32, BadValue> {
    const MOST: u32 = 10_000_000;
    let bad = BadValue::Whole { least: 1, most: u64::from(MOST) };
    text.trim().parse().ok().filter(|jobs| (1..=MOST).contains(jobs)).ok_or(bad)
}

pub(super) fn slots(text: &str) -> Result<usize, BadValue> {
    let bad = BadValue::Whole { least: 1, most: u64::try_from(MAX_SLOTS).unwrap_or(u64::MAX) };
    text.trim().parse().ok().filter(|slots| (1..=MAX_SLOTS).contains(slots)).ok_or(bad)
}

/// The same, or none at all.
pub(super) fn slots_or_none(text: &str) -> Result<usize, BadValue> {
    let bad = BadValue::Whole { least: 0, most: u64::try_from(MAX_SLOTS).unwrap_or(u64::MAX) };
    text.trim().parse().ok().filter(|slots| *slots <= MAX_SLOTS).ok_or(bad)
}

pub(super) fn priority(text: &str) -> Result<i32, BadValue> {
    text.trim().parse().ok().filter(|priority| PRIORITIES.contains(priority)).ok_or(BadValue::Priority)
}

/// A key as it can be sent, wherever it is used.
pub(super) fn key(text: &str) -> Result<Key, BadValue> {
    Key::given(text).map_err(|_| BadValue::Key)
}

/// The name of a queue or a kind, a key, an id of the caller's.
pub(super) fn name(text: &str) -> Result<String, BadValue> {
    let fits = (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.chars().any(char::is_control);
    if fits { Ok(text.to_owned()) } else { Err(BadValue::Name) }
}

pub(super) fn job_id(text: &str) -> Result<JobId, BadValue> {
    text.trim().parse().map_err(|_| BadValue::Id)
}

/// Events from elsewhere have ids of any shape; what begins like one of ours is taken for one.
pub(crate) fn job_ref(text: &str) -> Result<JobRef, BadValue> {
    let text = text.trim();
    if EventSeq::from_event_id(text).is_some() || text.starts_with("EVT-") {
        return Ok(JobRef::Event(text.to_owned()));
    }
    job_id(text).map(JobRef::Job)
}

/// A redrive, by its number.
pub(super) fn run_id(text: &str) -> Result<RunId, BadValue> {
    text.trim().parse().map_err(|_| BadValue::RunId)
}

/// So many in a second, a minute or an hour; as a number for the second.
pub(super) fn rate(text: &str) -> Result<f64, BadValue> {
    redrive::engine::parse_rate(text).ok_or(BadValue::Rate)
}

/// A share in percent, as a number from 0 to 1.
pub(super) fn percent(text: &str) -> Result<f64, BadValue> {
    let number = text.trim().trim_end_matches('%').trim_end().parse().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .map(|percent: f64| percent / 100.0)
        .ok_or(BadValue::Percent)
}

pub(super) fn since(text: &str) -> Result<Since, BadValue> {
    let at = || text.parse().map(Since::At).ok();
    redrive_policy::parse_duration(text).map(Since::Ago).ok().or_else(at).ok_or(BadValue::Since)
}

pub(super) fn event_status(text: &str) -> Result<EventStatus, BadValue> {
    EventStatus::from_name(text).ok_or_else(|| BadValue::Status { written: text.to_owned() })
}

pub(super) fn group_state(text: &str) -> Result<GroupState, BadValue> {
    GroupState::from_name(text).ok_or_else(|| BadValue::GroupState { written: text.to_owned() })
}

/// The first `=` outside of quotation marks ends the path.
pub(super) fn assignment(text: &str) -> Result<Assignment, BadValue> {
    let mut quoted = false;
    let end = text.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '=' && !quoted
    });
    match end {
        Some((at, _)) if !text[..at].trim().is_empty() => {
            Ok(Assignment { path: text[..at].trim().to_owned(), value: text[at + 1..].to_owned() })
        }
        _ => Err(BadValue::Assignment),
    }
}

/// `Name: value`. A line break in it would be a second header.
pub(super) fn header(text: &str) -> Result<Header, BadValue> {
    let (name, value) = text.split_once(':').ok_or(BadValue::Header)?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let (name, value) = (name.trim_end(), value.trim());
    if name.is_empty() || !name.bytes().all(token) || value.chars().any(char::is_control) {
        return Err(BadValue::Header);
    }
    Ok(Header { name: name.to_owned(), value: value.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bad input: NaN, negative and infinite factors are refused with what is allowed.
    #[test]
    fn impossible_numbers_are_refused() {
        for text in ["NaN", "inf", "-inf", "-2", "0.99", "0", "", "1e300", "two", "２"] {
            assert_eq!(multiplier(text), Err(BadValue::Multiplier), "{text}");
        }
        for text in ["NaN", "inf", "-0.1", "1.01", "", "most"] {
            assert_eq!(jitter(text), Err(BadValue::Jitter), "{text}");
        }
        for text in ["-1", "1.5", "4294967296", "", "many"] {
            assert!(whole(text).is_err(), "{text}");
        }
        for text in ["0", "10001", "-1"] {
            assert!(count(text).is_err(), "{text}");
        }
        for text in ["0", "99", "1000", "-500", "65536", "OK"] {
            assert_eq!(http_status(text), Err(BadValue::HttpStatus), "{text}");
        }
        assert_eq!(http_status("999"), Ok(999));
        assert_eq!(exit_code("3221225477"), Ok(-1_073_741_819));
        assert_eq!(exit_code("99999999999"), Err(BadValue::ExitCode));
    }

    /// Bad input: what is too long is told apart from what is no duration, and the most is said.
    #[test]
    fn a_duration_too_long_is_told_the_most() {
        for text in ["99999999999999h", "213504d", " 99999999999999999999999.5 s "] {
            assert_eq!(duration(text), Err(BadValue::TooLong), "{text}");
        }
        for text in ["", "h", "5", "99999999999999999999", "-1s", "9999999999999999x", "1.2.3s"] {
            assert_eq!(duration(text), Err(BadValue::Duration), "{text}");
        }
        assert_eq!(duration(&human_duration(MAX_DURATION)), Ok(MAX_DURATION));
        assert_eq!(show_time("1.9s"), Err(BadValue::TooShort { least: SHORTEST_SHOW }));
        assert_eq!(show_time("2s"), Ok(SHORTEST_SHOW));
    }

    /// R-D1, R-E2: jobs are named by their own id or by an event's; nothing else is an id.
    #[test]
    fn ids_names_and_times() {
        assert_eq!(job_ref("job_17"), Ok(JobRef::Job(JobId(17))));
        assert_eq!(job_ref(" 17 "), Ok(JobRef::Job(JobId(17))));
        let event = "EVT-20261115-110332-00002a";
        assert_eq!(job_ref(event), Ok(JobRef::Event(event.to_owned())));
        for bad in ["", "job_", "job_-1", "-1", "17x", "99999999999999999999", "job 17"] {
            assert_eq!(job_ref(bad), Err(BadValue::Id), "{bad}");
        }
        assert_eq!(since("90m"), Ok(Since::Ago(Duration::from_mins(90))));
        assert!(matches!(since("2026-11-15T11:00:00Z"), Ok(Since::At(_))));
        assert_eq!(since("yesterday"), Err(BadValue::Since));
        assert!(priority("-101").is_err() && priority("100") == Ok(100));
        assert!(name("").is_err() && name("a\nb").is_err() && name(&"x".repeat(256)).is_err());
        assert!(header("X-Token: a:b").is_ok_and(|header| header.value == "a:b"));
        for bad in ["no colon", ": x", "a b: c", "A: b\r\nC: d"] {
            assert_eq!(header(bad), Err(BadValue::Header), "{bad:?}");
        }
        assert_eq!(event_status("dead_leter").unwrap_err().meant(), Some("dead_letter"));
    }

    #[test]
    fn both_words_for_constant_are_known() {
        assert_eq!(curve("fixed"), Ok(CurveKind::Constant));
        assert_eq!(curve("exponental").unwrap_err().meant(), Some("exponential"));
        assert_eq!(causes("any"), Ok(CauseSet::ALL));
    }
}
