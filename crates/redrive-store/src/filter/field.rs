//! What can be asked of a letter and of an event, and what kind of value each answer is.

use std::borrow::Cow;
use std::fmt;

use redrive_policy::{Cause, Class};

use crate::dead_letter::LetterHead;
use crate::event::{Event, EventStatus};
use crate::id::JobId;
use crate::settle::LetterReason;
use crate::time::Timestamp;

/// What kind of value a field has, and so how it is written and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text; compared as it is.
    Text,
    /// A text of which the beginning is enough.
    Prefix,
    /// One of these names.
    OneOf(&'static [&'static str]),
    /// The id of a job.
    Id,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// A length of time.
    Length,
    /// A point in time, or the day, minute or second that it is written as.
    Moment,
}

/// The fields of one noun.
pub trait Field: Copy + Eq + fmt::Debug + Send + Sync + 'static {
    /// Every field, in the order in which people are told of them.
    const ALL: &'static [Self];

    /// Its name in a filter.
    fn name(self) -> &'static str;

    /// What kind of value it has.
    fn kind(self) -> ValueKind;
}

/// What a thing says about one of its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact<'a> {
    /// Nothing.
    Absent,
    /// A text, or a name.
    Text(Cow<'a, str>),
    /// Several texts, of which one is enough.
    Texts(&'a [String]),
    /// The id of a job.
    Id(JobId),
    /// A number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// A length of time in milliseconds.
    Length(u64),
    /// A point in time. Asked for a length of time, it is how long ago that was.
    Moment(Timestamp),
}

impl<'a> From<&'a str> for Fact<'a> {
    fn from(text: &'a str) -> Fact<'a> {
        Fact::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<Option<&'a str>> for Fact<'a> {
    fn from(text: Option<&'a str>) -> Fact<'a> {
        text.map_or(Fact::Absent, Fact::from)
    }
}

/// Something that a filter can be asked about.
pub trait Fields<F> {
    /// What it says about this field.
    fn fact(&self, field: F) -> Fact<'_>;
}

/// Declares the fields of a noun once: variant, name, kind.
macro_rules! fields {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal : $kind:expr),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant),+
        }

        impl Field for $name {
            const ALL: &'static [$name] = &[$($name::$variant),+];

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            fn kind(self) -> ValueKind {
                match self { $($name::$variant => $kind),+ }
            }
        }
    };
}

const REASONS: [&str; LetterReason::ALL.len()] = {
    let mut names = [""; LetterReason::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = LetterReason::ALL[i].name();
        i += 1;
    }
    names
};

const STATUSES: [&str; EventStatus::ALL.len()] = {
    let mut names = [""; EventStatus::ALL.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = EventStatus::ALL[i].name();
        i += 1;
    }
    names
};

fields! {
    /// What can be asked of a dead letter.
    LetterField {
        /// The job.
        Id = "id": ValueKind::Id,
        /// The queue that it came from.
        Queue = "queue": ValueKind::Text,
        /// Its kind.
        Kind = "kind": ValueKind::Text,
        /// What its last failure was.
        Cause = "cause": ValueKind::OneOf(Cause::NAMES),
        /// Whether such a failure passes by itself.
        Class = "class": ValueKind::OneOf(Class::NAMES),
        /// Why it was set aside.
        Reason = "reason": ValueKind::OneOf(&REASONS),
        /// Whether sending it again may plausibly help.
        Retryable = "retryable": ValueKind::Flag,
        /// What failures of one kind share; the beginning is enough.
        Group = "group": ValueKind::Prefix,
        /// The rule that recognised the failure.
        Rule = "rule": ValueKind::Text,
        /// The error's words.
        Error = "error": ValueKind::Text,
        /// The error's type.
        Type = "type": ValueKind::Text,
        /// The caller's own id.
        CallerId = "caller_id": ValueKind::Text,
        /// Attempts made.
        Attempts = "attempts": ValueKind::Number,
        /// Retries among them.
        Retries = "retries": ValueKind::Number,
        /// How often it was put back before.
        Redrives = "redrives": ValueKind::Number,
        /// How long it has been dead.
        Age = "age": ValueKind::Length,
        /// When it died.
        Died = "died": ValueKind::Moment,
    }
}

fields! {
    /// What can be asked of an event.
    EventField {
        /// Its id; the beginning is enough.
        Id = "id": ValueKind::Prefix,
        /// What kind of event.
        Type = "type": ValueKind::Text,
        /// Who reports it.
        Source = "source": ValueKind::Text,
        /// The state after it.
        Status = "status": ValueKind::OneOf(&STATUSES),
        /// The job that it is about.
        Job = "job": ValueKind::Id,
        /// That job's queue.
        Queue = "queue": ValueKind::Text,
        /// That job's kind.
        Kind = "kind": ValueKind::Text,
        /// The caller's own id.
        CallerId = "caller_id": ValueKind::Text,
        /// What the failure was.
        Cause = "cause": ValueKind::OneOf(Cause::NAMES),
        /// What failures of one kind share; the beginning is enough.
        Group = "group": ValueKind::Prefix,
        /// The error's words.
        Error = "error": ValueKind::Text,
        /// The error's type.
        ErrorType = "error_type": ValueKind::Text,
        /// One of its tags.
        Tag = "tag": ValueKind::Text,
        /// From 1 to 5.
        Importance = "importance": ValueKind::Number,
        /// The exit code of a command.
        ExitCode = "exit_code": ValueKind::Number,
        /// How long it took.
        Latency = "latency": ValueKind::Length,
        /// Which attempt.
        Attempt = "attempt": ValueKind::Number,
        /// How long ago.
        Age = "age": ValueKind::Length,
        /// When.
        At = "at": ValueKind::Moment,
    }
}

impl Fields<LetterField> for LetterHead {
    fn fact(&self, field: LetterField) -> Fact<'_> {
        match field {
            LetterField::Id => Fact::Id(self.id),
            LetterField::Queue => self.queue.as_str().into(),
            LetterField::Kind => self.kind.as_str().into(),
            LetterField::Cause => self.cause.name().into(),
            LetterField::Class => self.cause.class().name().into(),
            LetterField::Reason => self.reason.name().into(),
            LetterField::Retryable => Fact::Flag(self.retryable),
            LetterField::Group => self.fingerprint.as_str().into(),
            LetterField::Rule => self.rule.as_str().into(),
            LetterField::Error => self.error_message.as_str().into(),
            LetterField::Type => self.error_type.as_str().into(),
            LetterField::CallerId => self.caller_id.as_deref().into(),
            LetterField::Attempts => Fact::Number(self.attempts.into()),
            LetterField::Retries => Fact::Number(self.retries.into()),
            LetterField::Redrives => Fact::Number(self.redrives.into()),
            LetterField::Age | LetterField::Died => Fact::Moment(self.died_at),
        }
    }
}

impl Fields<EventField> for Event {
    fn fact(&self, field: EventField) -> Fact<'_> {
        let word = |name: &str| Fact::from(self.data.get(name).and_then(|value| value.as_str()));
        let error = self.error_info.as_ref();
        let number = |number: Option<i64>| number.map_or(Fact::Absent, Fact::Number);
        match field {
            EventField::Id => self.event_id.as_str().into(),
            EventField::Type => self.event_type.as_str().into(),
            EventField::Source => self.source.as_str().into(),
            EventField::Status => self.status.name().into(),
            EventField::Job => self.job.map_or(Fact::Absent, Fact::Id),
            EventField::Queue => word("queue"),
            EventField::Kind => word("kind"),
            EventField::CallerId => word("caller_id"),
            EventField::Cause => word("cause"),
            EventField::Group => word("fingerprint"),
            EventField::Error => error.map(|error| error.error_message.as_str()).into(),
            EventField::ErrorType => error.map(|error| error.error_type.as_str()).into(),
            EventField::Tag => Fact::Texts(&self.tags),
            EventField::Importance => Fact::Number(self.importance.into()),
            EventField::ExitCode => number(self.exit_code.map(i64::from)),
            EventField::Latency => self.latency_ms.map_or(Fact::Absent, Fact::Length),
            EventField::Attempt => number(self.data.get("attempt").and_then(serde_json::Value::as_i64)),
            EventField::Age | EventField::At => Fact::Moment(self.timestamp),
        }
    }
}
