//! What an entry of `push` looks like in a configuration: the only place that says so, as [`file`](super::file) is for the rest.

use super::file::{DURATION, NAME, WORDS};
use super::shape::{Field, Shape, Table};

/// A service that `redrive serve` calls for jobs.
pub(super) const PUSH: Table = Table {
    name: "push",
    about: "A service that redrive serve calls for each job of a queue, with a signed POST.",
    fields: &[
        Field::required("name", NAME, "Its name."),
        Field::required("queue", NAME, "The queue whose jobs it gets."),
        Field::required("url", Shape::Beginning(&["http://", "https://"]), "Where it is called."),
        Field::required(
            "secret_env",
            Shape::List { of: &WORDS, min_len: 1 },
            "The environment variables that hold the secrets which calls are signed with (whsec_…), the newest first.",
        ),
        Field::optional(
            "kinds",
            Shape::List { of: &NAME, min_len: 1 },
            "Only jobs of these kinds; all of the queue otherwise.",
        ),
        Field::optional(
            "concurrency",
            Shape::Whole { min: 1, max: 256 },
            "How many calls are under way at a time (4).",
        ),
        Field::optional(
            "batch",
            Shape::Whole { min: 1, max: 1_000 },
            "How many jobs go into one call (1); more need kinds.",
        ),
        Field::optional("timeout", DURATION, "How long a call may take (15s)."),
    ],
    rules: &[],
};
