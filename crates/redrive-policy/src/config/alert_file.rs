//! What the section `alerts` of a configuration looks like: the only place that says so, as [`file`](super::file) is for the
//! rest.

use super::file::{COMMAND, DURATION, NAME, WORDS};
use super::shape::{Field, Rule, Shape, Table};

const COUNT: Shape = Shape::Either(&[Shape::False, Shape::Whole { min: 1, max: u32::MAX as i64 }]);
const PERCENT: Shape = Shape::Either(&[Shape::False, Shape::Number { min: 0, max: 100 }]);
const LENGTH: Shape = Shape::Either(&[Shape::False, DURATION]);
const URL: Shape = Shape::Form { pattern: r"^https?://[^\s/?#]+\S*$", called: "webhook-url" };
const HEADER: Shape = Shape::Form { pattern: r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$", called: "header-name" };

/// When people are told that something is wrong, and how.
pub(super) const ALERTS: Table = Table {
    name: "alerts",
    about: "When people are told that something is wrong, and how. A rule that is false is off.",
    fields: &[
        Field::optional("dead_letters", COUNT, "Critical: so many dead letters or more; 1."),
        Field::optional("oldest_letter", LENGTH, "Warning: the oldest dead letter is older; 24h."),
        Field::optional("recovery_success", PERCENT, "Warning: fewer redriven jobs succeed, in percent; 80."),
        Field::optional("recovery_duration", LENGTH, "Warning: redriven jobs take longer on average; 5m."),
        Field::optional("letters_per_hour", COUNT, "Warning: more jobs died within an hour; 10."),
        Field::optional("retry_failure", PERCENT, "Warning: more retried jobs died, in percent; 5."),
        Field::optional(
            "duplicates",
            PERCENT,
            "Warning: more requests with a key came again, in percent; 50.",
        ),
        Field::optional("processing_delay", LENGTH, "Warning: attempts take longer on average; 5m."),
        Field::optional(
            "min_samples",
            Shape::Whole { min: 1, max: 1_000_000 },
            "A rate of fewer says nothing; 20.",
        ),
        Field::optional("repeat_every", LENGTH, "How often an alert that goes on is told again; 4h."),
        Field::optional("summary_after", DURATION, "How long the letters of a group are gathered; 5m."),
        Field::optional("policy", NAME, "The policy under which messages are delivered."),
        Field::optional(
            "receivers",
            Shape::List { of: &Shape::Table(&RECEIVER), min_len: 0 },
            "Who is told. Without any, nobody is.",
        ),
    ],
    rules: &[],
};

const RECEIVER: Table = Table {
    name: "alert_receiver",
    about: "Somebody who is told: by a webhook, or by a command.",
    fields: &[
        Field::required("name", NAME, "Its name."),
        Field::optional("webhook", URL, "The address that messages are posted to."),
        Field::optional("command", COMMAND, "The command that gets a message on stdin."),
        Field::optional(
            "format",
            Shape::Name(&[&["json", "slack"]]),
            "What a webhook gets: all fields, or what Slack takes; json.",
        ),
        Field::optional(
            "headers",
            Shape::Map { keys: &HEADER, values: &WORDS },
            "Headers that a webhook gets.",
        ),
        Field::optional("template", WORDS, "The file with a template for its messages."),
        Field::optional("lang", Shape::Name(&[&["en", "ja"]]), "The language of its messages."),
        Field::optional(
            "severity",
            Shape::Name(&[&["warning", "critical"]]),
            "Only what is at least so bad; warning.",
        ),
        Field::optional("resolved", Shape::Bool, "It is also told when it is over; true."),
    ],
    rules: &[
        Rule::ExactlyOne(&["webhook", "command"]),
        Rule::NotBeside { field: "command", others: &["format", "headers"] },
    ],
};
