//! The trouble of those who want work done by the clock: where an expression is wrong, and what would be right.

use std::ops::Range;

use redrive::engine::{BadCron, CronField, CronProblem, ScheduleProblem};
use redrive_policy::Lang;

use crate::exit::Exit;
use crate::text::{say, text};

/// What goes wrong with schedules.
#[derive(Debug)]
pub(crate) enum ScheduleTrouble {
    /// A name before the expression and another behind `--name`.
    NamedTwice,
    /// More words than a name and an expression.
    NotQuoted { words: usize },
    /// The engine does not take it.
    Problem(ScheduleProblem),
}

impl ScheduleTrouble {
    pub(super) fn exit(&self) -> Exit {
        match self {
            ScheduleTrouble::NamedTwice | ScheduleTrouble::NotQuoted { .. } => Exit::Usage,
            ScheduleTrouble::Problem(problem) => match problem {
                ScheduleProblem::Unknown(_) => Exit::Nothing,
                ScheduleProblem::Cron(_)
                | ScheduleProblem::Zone { .. }
                | ScheduleProblem::Name(_)
                | ScheduleProblem::Taken(_) => Exit::Usage,
                _ => Exit::Failed,
            },
        }
    }

    pub(super) fn message(&self, lang: Lang) -> String {
        let key = |key: &str| format!("trouble.schedule.{key}");
        let problem = match self {
            ScheduleTrouble::NamedTwice => return say(lang, &key("named-twice")),
            ScheduleTrouble::NotQuoted { words } => return text(lang, &key("not-quoted"), &[("n", words)]),
            ScheduleTrouble::Problem(problem) => problem,
        };
        match problem {
            ScheduleProblem::Cron(bad) => cron(bad, lang),
            ScheduleProblem::Zone { name, .. } => text(lang, &key("zone"), &[("name", name)]),
            ScheduleProblem::Name(name) => text(lang, &key("name"), &[("name", name)]),
            ScheduleProblem::Taken(name) => text(lang, &key("taken"), &[("name", name)]),
            ScheduleProblem::TooMany(most) => text(lang, &key("too-many"), &[("most", most)]),
            ScheduleProblem::TooLong { bytes, most } => {
                text(lang, &key("too-long"), &[("bytes", bytes), ("most", most)])
            }
            ScheduleProblem::Unknown(name) => text(lang, &key("unknown"), &[("name", name)]),
            ScheduleProblem::Contended(name) => text(lang, &key("contended"), &[("name", name)]),
            other => text(lang, &key("other"), &[("why", other)]),
        }
    }

    pub(super) fn hint(&self, lang: Lang) -> Option<String> {
        let key = |key: &str| format!("trouble.hint.schedule.{key}");
        match self {
            ScheduleTrouble::NamedTwice => Some(say(lang, &key("named-twice"))),
            ScheduleTrouble::NotQuoted { .. } => Some(say(lang, &key("not-quoted"))),
            ScheduleTrouble::Problem(problem) => match problem {
                ScheduleProblem::Cron(bad) => Some(cron_hint(bad, lang)),
                ScheduleProblem::Zone { alike, .. } if alike.len() == 1 => {
                    Some(text(lang, "usage.did-you-mean", &[("name", &alike[0])]))
                }
                ScheduleProblem::Zone { alike, .. } if !alike.is_empty() => {
                    Some(text(lang, &key("zone-alike"), &[("names", &alike.join(", "))]))
                }
                ScheduleProblem::Zone { .. } => Some(say(lang, &key("zone"))),
                ScheduleProblem::Name(_) => Some(say(lang, &key("name"))),
                ScheduleProblem::Taken(name) => Some(text(lang, &key("taken"), &[("name", name)])),
                ScheduleProblem::Unknown(_) => Some(say(lang, &key("unknown"))),
                _ => None,
            },
        }
    }

    /// The expression and the bytes of it that are wrong.
    pub(super) fn place(&self) -> Option<(&str, Range<usize>)> {
        let ScheduleTrouble::Problem(ScheduleProblem::Cron(bad)) = self else { return None };
        let byte = |chars: usize| {
            let mut places = bad.expression.char_indices().map(|(at, _)| at);
            places.nth(chars).unwrap_or(bad.expression.len())
        };
        let shown = !bad.expression.trim().is_empty();
        shown.then(|| (bad.expression.as_str(), byte(bad.at.start)..byte(bad.at.end)))
    }
}

fn cron(bad: &BadCron, lang: Lang) -> String {
    let key = |key: &str| format!("trouble.schedule.cron.{key}");
    let why = match &bad.why {
        CronProblem::Empty => say(lang, &key("empty")),
        CronProblem::TooLong => say(lang, &key("too-long")),
        CronProblem::Fields(count) => text(lang, &key("fields"), &[("n", count)]),
        CronProblem::Word(word) => text(lang, &key("word"), &[("word", word)]),
        CronProblem::NotANumber(given) => text(lang, &key("not-a-number"), &[("given", given)]),
        CronProblem::OutOfRange { given, min, max } => {
            text(lang, &key("out-of-range"), &[("given", given), ("min", min), ("max", max)])
        }
        CronProblem::Backwards { from, to } => text(lang, &key("backwards"), &[("from", from), ("to", to)]),
        CronProblem::Step(given) => text(lang, &key("step"), &[("given", given)]),
        CronProblem::Never => say(lang, &key("never")),
    };
    match bad.field {
        Some(field) => text(lang, &key("at-field"), &[("field", &field_name(field, lang)), ("why", &why)]),
        None => text(lang, &key("whole"), &[("why", &why)]),
    }
}

/// What may stand where the expression is wrong; the whole of it where no field is to blame.
fn cron_hint(bad: &BadCron, lang: Lang) -> String {
    let key = |key: &str| format!("trouble.hint.schedule.{key}");
    if let Some(meant) = bad.meant() {
        return text(lang, "usage.did-you-mean", &[("name", &meant)]);
    }
    match (bad.field, &bad.why) {
        (Some(field), why) if !matches!(why, CronProblem::Never) => {
            let range = say(lang, &format!("trouble.hint.schedule.range.{}", field.name()));
            text(lang, &key("field"), &[("range", &range)])
        }
        _ => say(lang, &key("cron")),
    }
}

fn field_name(field: CronField, lang: Lang) -> String {
    say(lang, &format!("trouble.schedule.field.{}", field.name()))
}
