//! What a configuration file looks like: the only place that says so.
//!
//! Add a field here, read it where its section is read, and checking, suggestions and the JSON Schema follow.

use super::alert_file::ALERTS;
use super::idempotency_file::{IDEMPOTENCY, PROXY};
use super::push_file::PUSH;
use super::server_file::SERVER;
use super::shape::{Field, Rule, Shape, Table};
use super::target_file::{TARGET, TARGET_NAME};
use crate::cause::{Cause, FailureType};
use crate::policy::LongRetryAfter;
use crate::review::Criterion;

/// The longest delay a file can ask for: a leap year. What waits longer is not being retried.
pub(super) const MAX_DELAY_MS: u64 = 366 * 24 * 3600 * 1000;

/// The word that `extends` takes for "start from nothing", and that no policy can have as its name.
pub(super) const NOTHING: &str = "none";

/// The word that stands for every cause.
pub(super) const ANY: &str = "any";

pub(super) const CURVES: &[&str] = &["exponential", "linear", "constant", "fixed", "fibonacci", LIST];
pub(super) const LIST: &str = "list";
/// What a task can override a curve with: a list would say nothing about single fields.
const CURVES_OF_TASKS: &[&str] = &["exponential", "linear", "constant", "fixed", "fibonacci"];

const MAX_WHOLE: i64 = u32::MAX as i64;
const COUNT: Shape = Shape::Whole { min: 0, max: MAX_WHOLE };
const ATTEMPTS: Shape = Shape::Whole { min: 1, max: MAX_WHOLE + 1 };
#[allow(clippy::cast_possible_wrap)]
const MILLIS: Shape = Shape::Whole { min: 0, max: MAX_DELAY_MS as i64 };
pub(super) const DURATION: Shape = Shape::Duration { max_ms: MAX_DELAY_MS };
pub(super) const WORDS: Shape = Shape::Text { max_chars: 10_000 };
pub(super) const NAME: Shape = Shape::Text { max_chars: 64 };

const KIND: Shape = Shape::Name(&[FailureType::NAMES, Cause::NAMES]);
const KINDS: Shape = Shape::List { of: &KIND, min_len: 0 };
const KINDS_OR_ANY: Shape =
    Shape::List { of: &Shape::Name(&[&[ANY], FailureType::NAMES, Cause::NAMES]), min_len: 0 };

const CAUSE: Shape = Shape::Name(&[Cause::NAMES]);
const FAILURE_TYPE: Shape = Shape::Name(&[FailureType::NAMES]);
const CODE: Shape = Shape::Text { max_chars: 256 };
const STATUS: Shape = Shape::Whole { min: 100, max: 999 };
const EXIT_CODE: Shape = Shape::Whole { min: i32::MIN as i64, max: i32::MAX as i64 };

/// The whole file.
pub(super) const FILE: Table = Table {
    name: "config",
    about: "The configuration of redrive.",
    fields: &[
        Field::optional("$schema", WORDS, "Where this schema is, for editors; not looked at."),
        Field::optional("retry", Shape::Table(&RETRY), "The policy called standard, which is the default."),
        Field::optional("recovery", Shape::Table(&RECOVERY), "Snapshots and partial results."),
        Field::optional("escalate", Shape::Table(&ESCALATE), "How people are told."),
        Field::optional("review", Shape::Table(&REVIEW), "What output has to be like where it is reviewed."),
        Field::optional(
            "policies",
            Shape::Map {
                keys: &Shape::NewName { max_chars: 64, reserved: &[NOTHING] },
                values: &Shape::Table(&POLICY),
            },
            "More policies by name; a preset's name replaces the preset.",
        ),
        Field::optional(
            "rules",
            Shape::List { of: &Shape::Table(&RULE), min_len: 0 },
            "Rules that recognise failures; they are asked before the built-in ones, in this order.",
        ),
        Field::optional(
            "alerts",
            Shape::Table(&ALERTS),
            "When people are told that something is wrong, and how.",
        ),
        Field::optional(
            "auto_redrive",
            Shape::List { of: &Shape::Table(&AUTO_REDRIVE), min_len: 0 },
            "Dead letters that are put back by themselves once their cause may have healed.",
        ),
        Field::optional(
            "idempotency",
            Shape::Table(&IDEMPOTENCY),
            "Requests that are done once however often they come.",
        ),
        Field::optional(
            "proxy",
            Shape::Table(&PROXY),
            "What redrive proxy would otherwise be told each time.",
        ),
        Field::optional(
            "push",
            Shape::List { of: &Shape::Table(&PUSH), min_len: 0 },
            "Services that redrive serve calls for jobs.",
        ),
        Field::optional("server", Shape::Table(&SERVER), "Where redrive serve listens, and what it lets in."),
        Field::optional(
            "targets",
            Shape::Map { keys: &TARGET_NAME, values: &Shape::Table(&TARGET) },
            "How hosts, queues and keys are protected from too much work, and from too much trying again.",
        ),
        Field::optional(
            "store",
            Shape::Beginning(&["sqlite:", "postgres://", "postgresql://"]),
            "Where work is kept: sqlite:PATH or postgres://…",
        ),
        Field::optional("key_file", WORDS, "The file with the keys of an encrypted store; mode 600."),
        Field::optional("lang", Shape::Name(&[&["en", "ja"]]), "The language people are spoken to in."),
        Field::optional("policy", NAME, "The policy that is used when none is named."),
    ],
    rules: &[],
};

const RECOVERY: Table = Table {
    name: "recovery",
    about: "Snapshots and partial results.",
    fields: &[
        Field::optional("enable_snapshots", Shape::Bool, "Take snapshots at all (true)."),
        Field::optional(
            "snapshot_retention_hours",
            Shape::Whole { min: 1, max: 87_600 },
            "How long a snapshot can be restored (24).",
        ),
        Field::optional("partial_commit_enabled", Shape::Bool, "A part of the results may be kept (true)."),
    ],
    rules: &[],
};

const ESCALATE: Table = Table {
    name: "escalate",
    about: "How people are told.",
    fields: &[
        Field::optional("notify_immediately", Shape::Bool, "Tell somebody at once (true)."),
        Field::optional(
            "include_trace_link",
            Shape::Bool,
            "End the message with the way to the trace (true).",
        ),
        Field::optional(
            "max_message_length",
            Shape::Whole { min: 1, max: 1_000_000 },
            "The most characters a message may have (500).",
        ),
    ],
    rules: &[],
};

const PATTERNS: Shape = Shape::List { of: &Shape::Regex, min_len: 0 };
/// A command: the program and its arguments, or one text for the shell.
pub(super) const COMMAND: Shape =
    Shape::Either(&[Shape::Text { max_chars: 100_000 }, Shape::List { of: &WORDS, min_len: 1 }]);

/// What output has to be like: a section of this file, and a field of a plan's subtask.
pub(super) const REVIEW: Table = Table {
    name: "review",
    about: "What output has to be like (Q1 to Q6), and commands that must succeed (Q7 to Q9).",
    fields: &[
        Field::optional(
            "criteria",
            Shape::List { of: &Shape::Name(&[Criterion::OF_OUTPUT]), min_len: 0 },
            "Which of Q1 to Q6 are asked; all of them when none is named.",
        ),
        Field::optional(
            "files",
            Shape::List { of: &WORDS, min_len: 0 },
            "Files that must exist afterwards; they are reviewed like output.",
        ),
        Field::optional("whole_file", Shape::Bool, "A fragment of a file is not enough (false)."),
        Field::optional("omission_patterns", PATTERNS, "More markers of something left out."),
        Field::optional("early_termination_patterns", PATTERNS, "More ways to say that it is done."),
        Field::optional(
            "todo_words",
            Shape::List { of: &NAME, min_len: 0 },
            "More words that mark what is left to do, in any case.",
        ),
        Field::optional("allow", PATTERNS, "Lines that are no finding although they look like one."),
        Field::optional("test", COMMAND, "Q7: a command that must succeed."),
        Field::optional("lint", COMMAND, "Q8: a command that must succeed."),
        Field::optional("types", COMMAND, "Q9: a command that must succeed."),
    ],
    rules: &[],
};

const SAY_RETRIES_ONCE: Rule = Rule::AtMostOne(&["max_retries", "default_max_retries", "max_attempts"]);
const SAY_BACKOFF_ONCE: Rule = Rule::AtMostOne(&["backoff", "default_backoff"]);

const MAX_RETRIES: Field =
    Field::optional("max_retries", COUNT, "How many retries follow the first attempt.");
const DEFAULT_MAX_RETRIES: Field = Field::optional("default_max_retries", COUNT, "The same as max_retries.");
const MAX_ATTEMPTS: Field =
    Field::optional("max_attempts", ATTEMPTS, "The same counted in attempts: retries + 1.");
const RETRYABLE_FAILURES: Field = Field::optional(
    "retryable_failures",
    KINDS,
    "What is retried, by failure type or cause; replaces the list it would otherwise have.",
);
const CAUSE_SPECIFIC: Field = Field::optional(
    "cause_specific",
    Shape::Either(&[
        Shape::List { of: &Shape::Table(&LISTED_CAUSE), min_len: 0 },
        Shape::Map { keys: &KIND, values: &Shape::Table(&NAMED_CAUSE) },
    ]),
    "What differs for some causes: a list, or a table by failure type or cause.",
);

const RETRY: Table = Table {
    name: "retry",
    about: "A policy: what is retried, how often, after what delays.",
    fields: &POLICY_FIELDS,
    rules: &[SAY_RETRIES_ONCE, SAY_BACKOFF_ONCE, SAY_RETRY_AFTER_ONCE],
};

const SAY_RETRY_AFTER_ONCE: Rule = Rule::AtMostOne(&["max_retry_after_ms", "max_retry_after"]);

const POLICY_FIELDS: [Field; 14] = [
    MAX_RETRIES,
    DEFAULT_MAX_RETRIES,
    MAX_ATTEMPTS,
    Field::optional("backoff", Shape::Table(&BACKOFF), "The delays."),
    Field::optional("default_backoff", Shape::Table(&BACKOFF), "The same as backoff."),
    RETRYABLE_FAILURES,
    Field::optional(
        "retry_on",
        KINDS_OR_ANY,
        "What is retried as well; any is all that never does not name.",
    ),
    Field::optional("never", KINDS, "What is not retried, whatever else says so; replaces the list."),
    CAUSE_SPECIFIC,
    Field::optional("crash_budget", COUNT, "How often the work may take its worker down (3)."),
    Field::optional("max_retry_after_ms", MILLIS, "The longest Retry-After that is obeyed."),
    Field::optional("max_retry_after", DURATION, "The same with a unit (1h)."),
    Field::optional(
        "on_long_retry_after",
        Shape::Name(&[LongRetryAfter::NAMES]),
        "What happens when the other side asks for longer (escalate).",
    ),
    Field::optional(
        "forced_max_retries",
        COUNT,
        "A limit that beats every other, those of single causes included; overrides set it.",
    ),
];

/// As `retry`, and what it builds on.
pub(super) const POLICY: Table = Table {
    name: "policy",
    about: "A policy of one's own: as retry, and what it builds on.",
    fields: &with_extends(),
    rules: &[SAY_RETRIES_ONCE, SAY_BACKOFF_ONCE, SAY_RETRY_AFTER_ONCE],
};

const fn with_extends() -> [Field; POLICY_FIELDS.len() + 1] {
    const EXTENDS: Field = Field::optional(
        "extends",
        NAME,
        "The preset or policy that says whatever this one does not (standard); none for a bare start.",
    );
    let mut all = [EXTENDS; POLICY_FIELDS.len() + 1];
    let mut i = 0;
    while i < POLICY_FIELDS.len() {
        all[i + 1] = POLICY_FIELDS[i];
        i += 1;
    }
    all
}

const CAUSE_BACKOFF: Field =
    Field::optional("backoff", Shape::Table(&WHOLE_BACKOFF), "Its own delays, in place of the policy's.");
const HINT: Field =
    Field::optional("modification_hint", WORDS, "Words that are added to what the next attempt is told.");
const CODES: Field = Field::optional(
    "codes",
    Shape::List { of: &CODE, min_len: 1 },
    "Only failures with one of these error codes.",
);
const SAY_ENTRY_RETRIES_ONCE: Rule = Rule::AtMostOne(&["max_retries", "max_attempts"]);

const NAMED_CAUSE: Table = Table {
    name: "named_cause",
    about: "What differs for the failure type or cause that is its key.",
    fields: &[MAX_RETRIES, MAX_ATTEMPTS, CAUSE_BACKOFF, HINT, CODES],
    rules: &[SAY_ENTRY_RETRIES_ONCE],
};

const LISTED_CAUSE: Table = Table {
    name: "listed_cause",
    about: "What differs for a failure type or for some causes.",
    fields: &[
        Field::optional("failure_type", FAILURE_TYPE, "Every cause of this failure type."),
        Field::optional(
            "cause",
            Shape::Either(&[CAUSE, Shape::List { of: &CAUSE, min_len: 1 }]),
            "A cause, or several.",
        ),
        MAX_RETRIES,
        MAX_ATTEMPTS,
        CAUSE_BACKOFF,
        HINT,
        CODES,
    ],
    rules: &[
        Rule::AtMostOne(&["failure_type", "cause"]),
        Rule::AtLeastOne(&["failure_type", "cause"]),
        SAY_ENTRY_RETRIES_ONCE,
    ],
};

const INITIAL_MS: Field = Field::optional(
    "initial_delay_ms",
    MILLIS,
    "The first delay (the unit of fibonacci, the delay of fixed).",
);
const INITIAL: Field = Field::optional("initial_delay", DURATION, "The same with a unit: 1.5s.");
const CAP_MS: Field = Field::optional("max_delay_ms", MILLIS, "The cap, which comes last and is hard.");
const CAP: Field = Field::optional("max_delay", DURATION, "The same with a unit.");
const MULTIPLIER: Field = Field::optional(
    "multiplier",
    Shape::Number { min: 1, max: 1_000_000 },
    "What exponential delays grow by.",
);
const INCREMENT_MS: Field =
    Field::optional("increment_ms", MILLIS, "What linear delays grow by (the first delay).");
const INCREMENT: Field = Field::optional("increment", DURATION, "The same with a unit.");
const JITTER: Field = Field::optional(
    "jitter",
    Shape::Either(&[FACTOR, Shape::Name(&[BARE_JITTERS]), Shape::Table(&SPREAD)]),
    "How delays are spread: a factor (0.1 is ± 10 %), a mode, or a mode with its factor.",
);
const DELAYS_MS: Field = Field::optional(
    "delays_ms",
    Shape::List { of: &MILLIS, min_len: 1 },
    "The delays of a list; the last repeats.",
);
const DELAYS: Field =
    Field::optional("delays", Shape::List { of: &DURATION, min_len: 1 }, "The same with units.");

const FACTOR: Shape = Shape::Number { min: 0, max: 1 };
pub(super) const BARE_JITTERS: &[&str] = &["none", "full", "decorrelated"];
const SPREAD: Table = Table {
    name: "spread",
    about: "A jitter with a factor.",
    fields: &[
        Field::required("mode", Shape::Name(&[&["plus_minus", "additive"]]), "Both ways, or never sooner."),
        Field::required("factor", FACTOR, "How far, as a share of the delay."),
    ],
    rules: &[],
};

const SAY_INITIAL_ONCE: Rule = Rule::AtMostOne(&["initial_delay_ms", "initial_delay"]);
const SAY_CAP_ONCE: Rule = Rule::AtMostOne(&["max_delay_ms", "max_delay"]);
const SAY_INCREMENT_ONCE: Rule = Rule::AtMostOne(&["increment_ms", "increment"]);
const SAY_DELAYS_ONCE: Rule = Rule::AtMostOne(&["delays_ms", "delays"]);
const A_LIST_HAS_DELAYS: Rule = Rule::Needs { field: "type", is: LIST, one_of: &["delays_ms", "delays"] };

/// The delays of a policy; what is missing comes from what it extends.
const BACKOFF: Table = Table {
    name: "backoff",
    about: "The delays of a policy; what is missing comes from the policy that it extends.",
    fields: &[
        Field::optional("type", Shape::Name(&[CURVES]), "How delays grow; fixed is constant."),
        INITIAL_MS,
        INITIAL,
        CAP_MS,
        CAP,
        MULTIPLIER,
        INCREMENT_MS,
        INCREMENT,
        JITTER,
        DELAYS_MS,
        DELAYS,
    ],
    rules: &[SAY_INITIAL_ONCE, SAY_CAP_ONCE, SAY_INCREMENT_ONCE, SAY_DELAYS_ONCE, A_LIST_HAS_DELAYS],
};

/// The delays of a cause, which stand for themselves.
const WHOLE_BACKOFF: Table = Table {
    name: "cause_backoff",
    about: "The delays of a cause. No jitter means none, no multiplier 2, no cap the policy's.",
    fields: &[
        Field::required("type", Shape::Name(&[CURVES]), "How delays grow; fixed is constant."),
        INITIAL_MS,
        INITIAL,
        CAP_MS,
        CAP,
        MULTIPLIER,
        INCREMENT_MS,
        INCREMENT,
        JITTER,
        DELAYS_MS,
        DELAYS,
    ],
    rules: &[
        SAY_INITIAL_ONCE,
        SAY_CAP_ONCE,
        SAY_INCREMENT_ONCE,
        SAY_DELAYS_ONCE,
        A_LIST_HAS_DELAYS,
        Rule::ElseNeeds { field: "type", is: LIST, one_of: &["initial_delay_ms", "initial_delay"] },
    ],
};

const RULE: Table = Table {
    name: "rule",
    about: "Recognises a failure. All conditions that are given must hold; of a list any value will do.",
    fields: &[
        Field::required("id", NAME, "Its name, which every failure it recognises carries."),
        Field::required("cause", CAUSE, "What it recognises."),
        Field::optional("retry", Shape::Bool, "Its own word on retrying; without one the policy decides."),
        Field::optional("reason", WORDS, "Why, for whoever reads the decision."),
        Field::optional(
            "status",
            Shape::Either(&[STATUS, Shape::List { of: &STATUS, min_len: 1 }]),
            "HTTP statuses.",
        ),
        Field::optional(
            "exit_code",
            Shape::Either(&[EXIT_CODE, Shape::List { of: &EXIT_CODE, min_len: 1 }]),
            "Exit codes of commands.",
        ),
        Field::optional(
            "code",
            Shape::Either(&[CODE, Shape::List { of: &CODE, min_len: 1 }]),
            "Error codes, in any case.",
        ),
        Field::optional(
            "regex",
            Shape::Either(&[Shape::Regex, Shape::List { of: &Shape::Regex, min_len: 1 }]),
            "Regular expressions that the text matches.",
        ),
    ],
    rules: &[Rule::AtLeastOne(&["status", "exit_code", "code", "regex"])],
};

const AUTO_REDRIVE: Table = Table {
    name: "auto_redrive",
    about: "A rule by which workers put dead letters back.",
    fields: &[
        Field::required("name", NAME, "Its name, which its redrives carry."),
        Field::required("where", WORDS, "Which letters: a filter such as cause=network and age>15m."),
        Field::optional("every", DURATION, "How long after one redrive by this rule the next may begin; 5m."),
        Field::optional("rate", NAME, "How many letters come back: 10/s, 30/m, 100/h."),
        Field::optional(
            "limit",
            Shape::Whole { min: 1, max: MAX_WHOLE },
            "How many letters one redrive takes.",
        ),
        Field::optional("canary", Shape::Bool, "In steps of 1, 10, 10 % and all, each judged first; true."),
        Field::optional(
            "max_redrives",
            Shape::Whole { min: 1, max: MAX_WHOLE },
            "A letter that was put back so often stays where it is; 3.",
        ),
    ],
    rules: &[],
};

/// 002 §7.2: what one task has otherwise.
pub(super) const TASK: Table = Table {
    name: "task_retry_override",
    about: "What one task has otherwise.",
    fields: &[
        Field::required("task_id", Shape::Text { max_chars: 255 }, "The task."),
        Field::required("overrides", Shape::Table(&OVERRIDES), "What it has otherwise, field by field."),
    ],
    rules: &[],
};

pub(super) const OVERRIDES: Table = Table {
    name: "overrides",
    about: "A part of a policy that beats the policy's own, those of single causes included.",
    fields: &[
        MAX_RETRIES,
        DEFAULT_MAX_RETRIES,
        MAX_ATTEMPTS,
        Field::optional("backoff", Shape::Table(&BACKOFF_FIELDS), "Other delays, field by field."),
        Field::optional("default_backoff", Shape::Table(&BACKOFF_FIELDS), "The same as backoff."),
        RETRYABLE_FAILURES,
        CAUSE_SPECIFIC,
    ],
    rules: &[SAY_RETRIES_ONCE, SAY_BACKOFF_ONCE],
};

const BACKOFF_FIELDS: Table = Table {
    name: "backoff_fields",
    about: "Single fields of every delay.",
    fields: &[
        Field::optional("type", Shape::Name(&[CURVES_OF_TASKS]), "How delays grow; fixed is constant."),
        INITIAL_MS,
        INITIAL,
        CAP_MS,
        CAP,
        MULTIPLIER,
        INCREMENT_MS,
        INCREMENT,
        JITTER,
    ],
    rules: &[SAY_INITIAL_ONCE, SAY_CAP_ONCE, SAY_INCREMENT_ONCE],
};
