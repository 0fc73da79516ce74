//! What a plan looks like as a file (R-T1): the only place that says so. [`read_plan`](super::read_plan) makes a
//! [`Plan`](crate::plan::Plan) of it.

use super::file::{DURATION, NAME, OVERRIDES, REVIEW, WORDS};
use super::shape::{Field, Rule, Shape, Table};
use crate::plan::{HintBy, OnEscalate, RecoveryStrategy};
use crate::size::MAX_BYTES;

/// The word for a strategy that is chosen from what depended on what failed.
pub(super) const AUTO: &str = "auto";

/// A subtask is one of these.
const WORKS: &[&str] = &["command", "http", "handler"];
const OTHER_THAN_COMMAND: &[&str] = &["http", "handler"];
const OTHER_THAN_HANDLER: &[&str] = &["command", "http"];

const TEXT_OF_PROGRAM: Shape = Shape::Raw { min_chars: 0, max_chars: 100_000 };
const PATH: Shape = Shape::Raw { min_chars: 1, max_chars: 4_096 };
const ID: Shape = Shape::Id { max_chars: 64 };
const IDS: Shape = Shape::Either(&[ID, Shape::List { of: &ID, min_len: 0 }]);
const ROOTS: Shape = Shape::List { of: &Shape::PathBelow, min_len: 1 };
const SNAPSHOT_OR_NOT: Shape =
    Shape::Either(&[Shape::False, Shape::PathBelow, ROOTS, Shape::Table(&SNAPSHOT)]);
const REVIEW_OR_NOT: Shape = Shape::Either(&[Shape::Bool, Shape::Table(&REVIEW)]);
const SUBTASKS: Shape = Shape::List { of: &Shape::Table(&SUBTASK), min_len: 1 };

/// The whole file.
pub(super) const PLAN: Table = Table {
    name: "plan",
    about: "A task as dependent subtasks.",
    fields: &[
        Field::optional("$schema", WORDS, "Where this schema is, for editors; not looked at."),
        Field::optional(
            "name",
            Shape::Raw { min_chars: 1, max_chars: 200 },
            "What people call it (the file's name).",
        ),
        Field::optional(
            "parallel",
            Shape::Whole { min: 1, max: 1_024 },
            "How many subtasks run at a time (4).",
        ),
        Field::optional("queue", NAME, "The queue of its jobs (default)."),
        Field::optional(
            "timeout",
            DURATION,
            "How long one attempt of a subtask may take, unless it says otherwise.",
        ),
        Field::optional("policy", NAME, "The policy of subtasks that name none."),
        Field::optional(
            "snapshot",
            SNAPSHOT_OR_NOT,
            "What is put back when a command fails, unless it says otherwise.",
        ),
        Field::optional(
            "review",
            REVIEW_OR_NOT,
            "What the output of commands has to be like, unless they say otherwise.",
        ),
        Field::optional(
            "recovery",
            Shape::Table(&RECOVERY),
            "What is done when a subtask has failed for good.",
        ),
        Field::optional("subtasks", SUBTASKS, "The parts of the task."),
        Field::optional("subtask", SUBTASKS, "The same as subtasks."),
    ],
    rules: &[Rule::AtMostOne(&["subtasks", "subtask"]), Rule::AtLeastOne(&["subtasks", "subtask"])],
};

const RECOVERY: Table = Table {
    name: "plan_recovery",
    about: "What is done when a subtask has failed for good.",
    fields: &[
        Field::optional(
            "strategy",
            Shape::Name(&[&[AUTO], RecoveryStrategy::NAMES]),
            "Fixed, or chosen from what depended on what failed (auto).",
        ),
        Field::optional(
            "rounds",
            Shape::Whole { min: 0, max: 100 },
            "How often a task is recovered by itself, once a policy has given up (1).",
        ),
        Field::optional(
            "on_escalate",
            Shape::Name(&[OnEscalate::NAMES]),
            "What becomes of what succeeded when a person has to take over (keep).",
        ),
    ],
    rules: &[],
};

const SUBTASK: Table = Table {
    name: "subtask",
    about: "A part of a task: a command, an HTTP call, or a registered handler.",
    fields: &[
        Field::optional(
            "id",
            ID,
            "Its name, unique in the plan; sub-1, sub-2 … by position when it has none.",
        ),
        Field::optional(
            "command",
            Shape::Either(&[
                Shape::Raw { min_chars: 1, max_chars: 100_000 },
                Shape::List { of: &TEXT_OF_PROGRAM, min_len: 1 },
            ]),
            "The program and its arguments, or one text for the shell; {hint} in arguments is what the last attempt taught.",
        ),
        Field::optional(
            "stdin",
            Shape::Raw { min_chars: 0, max_chars: 4_000_000 },
            "What the command reads; {hint} as above.",
        ),
        Field::optional(
            "hint",
            Shape::Name(&[HintBy::NAMES]),
            "How the command is told what to do better: REDRIVE_HINT and {hint}, or stdin as well (env).",
        ),
        Field::optional("cwd", PATH, "Where the command runs, from where the plan is."),
        Field::optional(
            "env",
            Shape::Map { keys: &Shape::Variable, values: &TEXT_OF_PROGRAM },
            "Variables of the command. No secrets: a plan is stored.",
        ),
        Field::optional("http", Shape::Table(&HTTP), "An HTTP call."),
        Field::optional("handler", NAME, "The kind of job whose handler does it."),
        Field::optional("payload", Shape::Any, "What the handler gets (null)."),
        Field::optional("depends_on", IDS, "What must have succeeded before."),
        Field::optional("dependencies", IDS, "The same as depends_on."),
        Field::optional("blames", IDS, "Where the fault lies when this fails: done again as well."),
        Field::optional("timeout", DURATION, "How long one attempt may take."),
        Field::optional("policy", NAME, "Its policy."),
        Field::optional("overrides", Shape::Table(&OVERRIDES), "What it has otherwise than its policy says."),
        Field::optional("snapshot", SNAPSHOT_OR_NOT, "What is put back when it fails; false for nothing."),
        Field::optional("review", REVIEW_OR_NOT, "What its output has to be like; false for anything."),
        Field::optional(
            "recovery",
            Shape::Name(&[RecoveryStrategy::NAMES]),
            "What is done when it has failed for good, in place of what the plan says.",
        ),
    ],
    rules: &[
        Rule::ExactlyOne(WORKS),
        Rule::NotBeside { field: "stdin", others: OTHER_THAN_COMMAND },
        Rule::NotBeside { field: "hint", others: OTHER_THAN_COMMAND },
        Rule::NotBeside { field: "cwd", others: OTHER_THAN_COMMAND },
        Rule::NotBeside { field: "env", others: OTHER_THAN_COMMAND },
        Rule::NotBeside { field: "snapshot", others: OTHER_THAN_COMMAND },
        Rule::NotBeside { field: "review", others: OTHER_THAN_COMMAND },
        Rule::NotBeside { field: "payload", others: OTHER_THAN_HANDLER },
        Rule::AtMostOne(&["depends_on", "dependencies"]),
    ],
};

const SNAPSHOT: Table = Table {
    name: "snapshot",
    about: "Files that are put back when a subtask fails.",
    fields: &[
        Field::required(
            "roots",
            Shape::Either(&[Shape::PathBelow, ROOTS]),
            "Folders, from where the plan is.",
        ),
        Field::optional(
            "ignore",
            Shape::Either(&[PATH, Shape::List { of: &PATH, min_len: 0 }]),
            "What is left alone, in the manner of .gitignore.",
        ),
        Field::optional("max_size", Shape::Size { max: MAX_BYTES }, "The most bytes."),
        Field::optional(
            "max_files",
            Shape::Whole { min: 1, max: i64::MAX },
            "The most files, folders and links.",
        ),
    ],
    rules: &[],
};

const HTTP: Table = Table {
    name: "http",
    about: "An HTTP call, as the payload of an http job.",
    fields: &[
        Field::optional("method", NAME, "GET, POST, or any other (GET)."),
        Field::required("url", Shape::Beginning(&["http://", "https://"]), "Where to."),
        Field::optional(
            "headers",
            Shape::Either(&[
                Shape::Map { keys: &NAME_OF_HEADER, values: &TEXT_OF_PROGRAM },
                Shape::List { of: &Shape::List { of: &TEXT_OF_PROGRAM, min_len: 2 }, min_len: 0 },
            ]),
            "A table, or a list of [name, value] where a name comes twice.",
        ),
        Field::optional(
            "body",
            Shape::Either(&[Shape::Raw { min_chars: 0, max_chars: 4_000_000 }, Shape::Table(&BASE64)]),
            "What is sent.",
        ),
    ],
    rules: &[],
};

const NAME_OF_HEADER: Shape = Shape::Raw { min_chars: 1, max_chars: 256 };

const BASE64: Table = Table {
    name: "bytes",
    about: "Bytes that are no text.",
    fields: &[Field::required("base64", Shape::Raw { min_chars: 0, max_chars: 6_000_000 }, "The bytes.")],
    rules: &[],
};
