//! How far a caller reaches among letters. A token of some queues sees and touches what is in them, and nothing else: for what
//! lies elsewhere it is told that there is no such thing.

use std::fmt::Display;
use std::str::FromStr;

use redrive_store::filter::{Filter, LetterField};
use redrive_store::{DeadLetter, JobId, LetterFilter, Timestamp};

use crate::Server;
use crate::caller::Caller;
use crate::problem::{Code, Problem};

/// What there is no such thing of.
pub(crate) fn unknown(id: impl Display) -> Problem {
    Problem::new(Code::NotFound, "thing.unknown").with("id", id)
}

/// An id out of a path: what is none names nothing.
pub(crate) fn id<T: FromStr>(written: &str) -> Result<T, Problem> {
    written.parse().map_err(|_| unknown(written))
}

/// How many are listed: as many as are asked for, within bounds.
pub(crate) fn limit(asked: Option<u32>, most: u32) -> Result<u32, Problem> {
    match asked {
        None => Ok(most.min(50)),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(_) => {
            Err(Problem::new(Code::Invalid, "range.number").with("least", 1).with("most", most).at("limit"))
        }
    }
}

/// A place in a list, `ID@TIME`, as the page before told it.
pub(crate) fn place<T: FromStr>(cursor: Option<&str>) -> Result<Option<(Timestamp, T)>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    let read = cursor.split_once('@').and_then(|(id, at)| Some((at.parse().ok()?, id.parse().ok()?)));
    read.map(Some).ok_or_else(no_place)
}

/// What is no place in a list.
pub(crate) fn no_place() -> Problem {
    Problem::new(Code::Invalid, "list.cursor").at("cursor")
}

/// The same, as it is told.
pub(crate) fn cursor<T: Display>((at, id): (Timestamp, T)) -> String {
    format!("{id}@{at}")
}

/// A filter out of a request.
pub(crate) fn filter(text: Option<&str>) -> Result<Option<Filter<LetterField>>, Problem> {
    let read = text.map(str::parse::<Filter<LetterField>>).transpose();
    read.map_err(|error| Problem::from(error).at("where"))
}

impl Caller {
    /// Whether it may do things that concern every queue.
    pub(crate) fn reaches_all(&self) -> bool {
        self.queues.is_empty()
    }

    /// Refuses what concerns every queue to a token of some.
    pub(crate) fn must_reach_all(&self) -> Result<(), Problem> {
        if self.reaches_all() { Ok(()) } else { Err(Problem::new(Code::Forbidden, "token.all_queues")) }
    }

    /// The letters of its queues as a filter; nothing when it reaches all.
    pub(crate) fn queue_filter(&self) -> Option<Filter<LetterField>> {
        let condition = |pattern: &String| {
            let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
            if pattern.contains('*') {
                let parts: Vec<String> = pattern.split('*').map(escaped).collect();
                // Patterns of filters do not mind case; names of queues do.
                format!("queue~\"{}\"", quoted(&format!("^(?-i:{})$", parts.join(".*"))))
            } else {
                format!("queue=\"{}\"", quoted(pattern))
            }
        };
        let conditions: Vec<String> = self.queues.iter().map(condition).collect();
        if conditions.is_empty() {
            return None;
        }
        // What cannot be read as a filter is no queue, and so nothing is reached by it.
        let none = || "queue=\"\"".parse().ok();
        Filter::parse_own(&conditions.join(" or ")).ok().or_else(none)
    }

    /// What is asked for, as far as it reaches.
    pub(crate) fn narrowed(&self, asked: Option<Filter<LetterField>>) -> Option<Filter<LetterField>> {
        match (asked, self.queue_filter()) {
            (Some(asked), Some(own)) => Some(asked.and(own)),
            (asked, own) => asked.or(own),
        }
    }

    /// The letters that are asked for, as far as it reaches.
    pub(crate) fn letters(
        &self,
        among: LetterFilter,
        asked: Option<Filter<LetterField>>,
        now: Timestamp,
    ) -> LetterFilter {
        match self.narrowed(asked) {
            Some(filter) => filter.letters_among(among, now),
            None => among,
        }
    }

    /// The letter of that job, if it is one and lies within reach.
    pub(crate) async fn letter(&self, server: &Server, id: JobId) -> Result<DeadLetter, Problem> {
        let letter = server.engine().letter(id).await?;
        letter.filter(|letter| self.reaches(&letter.queue)).ok_or_else(|| unknown(id))
    }
}

/// A text as a regular expression that means itself.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_alphanumeric() && c != '_' && c.is_ascii() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Whether a parameter can name anything at all: what cannot is a slip, and not a search that finds nothing.
pub(crate) fn name(field: &'static str, name: Option<&String>) -> Result<(), Problem> {
    let is_one = |name: &String| (1..=255).contains(&name.len()) && !name.chars().any(char::is_control);
    if name.is_none_or(is_one) {
        return Ok(());
    }
    Err(Problem::new(Code::Invalid, "refused.name").with("field", field).at(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(queues: &[&str]) -> Caller {
        let queues = queues.iter().map(|&queue| queue.to_owned()).collect();
        Caller { queues, ..Caller::local() }
    }

    /// Issue 8, safety: the filter that stands for a token's queues says the same as the token.
    #[test]
    fn the_filter_of_a_caller_reaches_as_far_as_the_caller() {
        use redrive_policy::Cause;
        use redrive_store::{LetterHead, LetterReason};
        let head = |queue: &str| LetterHead {
            id: JobId(1),
            queue: queue.to_owned(),
            kind: "k".into(),
            died_at: Timestamp::from_millis(0),
            reason: LetterReason::Exhausted,
            cause: Cause::Network,
            retryable: true,
            rule: String::new(),
            fingerprint: String::new(),
            error_type: String::new(),
            error_message: String::new(),
            attempts: 1,
            retries: 0,
            redrives: 0,
            caller_id: None,
        };
        let now = Timestamp::from_millis(1);
        for patterns in [
            &["mail"][..],
            &["mail", "sms"],
            &["mail-*"],
            &["*-eu"],
            &["a.b*", "q\"uo\\te"],
            &["*"],
            &["日本*"],
            &["and"],
        ] {
            let caller = caller(patterns);
            let filter = caller.queue_filter().unwrap();
            for queue in [
                "mail",
                "MAIL",
                "sms",
                "mail-eu",
                "mail-",
                "xmail-eu",
                "a.bc",
                "axbc",
                "q\"uo\\te",
                "日本橋",
                "and",
            ] {
                let expected = caller.reaches(queue);
                assert_eq!(filter.matches(&head(queue), now), expected, "{patterns:?} {queue}: {filter}");
            }
        }
        assert!(caller(&[]).queue_filter().is_none());
        // As many and as long as a token may have them.
        let long: Vec<String> = (0..63).map(|n| format!("{n:02}{}*", ".-".repeat(48))).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).chain(["mail"]).collect();
        let filter = caller(&long).queue_filter().unwrap();
        assert!(filter.matches(&head("mail"), now) && !filter.matches(&head("sms"), now));
        let stored = Filter::<LetterField>::parse_own(&filter.to_string()).unwrap();
        assert!(stored.matches(&head("mail"), now), "and as it is stored");
    }

    /// Issue 8, API: a place survives its way through a client.
    #[test]
    fn a_cursor_is_read_back() {
        let at: Timestamp = "2026-11-15T11:03:32.123Z".parse().unwrap();
        let told = cursor((at, JobId(7)));
        assert_eq!(told, "job_7@2026-11-15T11:03:32.123Z");
        assert_eq!(place::<JobId>(Some(&told)).unwrap(), Some((at, JobId(7))));
        for bad in ["", "@", "job_7", "job_7@yesterday", "x@2026-11-15T11:03:32.123Z"] {
            assert!(place::<JobId>(Some(bad)).is_err(), "{bad}");
        }
    }
}
