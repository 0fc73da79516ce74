//! What the section `targets` of a configuration looks like: the only place that says so, as [`file`](super::file) is for the rest.

use super::file::DURATION;
use super::shape::{Field, Shape, Table};

pub(super) const TARGET_NAME: Shape = Shape::Form {
    pattern: r"^(default_(host|queue|key)|(host|queue|key):[^\x00-\x1f\x7f]{1,240})$",
    called: "target-name",
};
const RATE: Shape = Shape::Form { pattern: r"^\s*0*[1-9][0-9]{0,5}\s*/\s*[smh]\s*$", called: "rate" };
const COUNT: Shape = Shape::Whole { min: 1, max: 1_000_000 };
const PERCENT: Shape = Shape::Whole { min: 1, max: 100 };

/// How one target is protected.
pub(super) const TARGET: Table = Table {
    name: "target",
    about: "How a host, a queue or a key is protected; what it does not say, the default of its kind says.",
    fields: &[
        Field::optional("rate", RATE, "How many calls may begin in a time, such as 10/s."),
        Field::optional("burst", COUNT, "How many of them may come at once (1)."),
        Field::optional("concurrency", COUNT, "How many calls may run at a time."),
        Field::optional("breaker", Shape::Bool, "Stop calling it while it is sick (true for hosts)."),
        Field::optional("failures", PERCENT, "Sick: so many of a hundred calls failed (50) …"),
        Field::optional("of_at_least", COUNT, "… of at least so many (20) …"),
        Field::optional("within", DURATION, "… in this time (30s)."),
        Field::optional("open_for", DURATION, "How long nobody calls it, the first time (5s)."),
        Field::optional("open_for_at_most", DURATION, "How long nobody calls it, however often (5m)."),
        Field::optional("probes", COUNT, "How many calls must succeed before the rest comes back (3)."),
        Field::optional("ramp", DURATION, "How long it takes until all of the rest may come (30s)."),
        Field::optional("pace", RATE, "How fast parked work comes back (100/s)."),
        Field::optional(
            "budget",
            Shape::Bool,
            "Bound retries and redriven work by the first attempts (true for hosts).",
        ),
        Field::optional("budget_percent", COUNT, "So many of them for a hundred first attempts (10)."),
        Field::optional("budget_at_least", RATE, "So many of them in any case (10/s)."),
    ],
    rules: &[],
};
