//! Our own trouble as problems: every kind has its code, and what only the operator may know goes into the log.

use std::fmt::Display;

use redrive::engine::{AlertProblem, BadCron, CronProblem, EngineError, ScheduleProblem};
use redrive_policy::{Lang, nearest};
use redrive_store::filter::{FilterError, FilterProblem, ValueKind};
use redrive_store::{Refusal, StoreError, Trouble};

use super::{Code, Problem, text};

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        match error.trouble() {
            Trouble::Refused(refusal) => return refusal.into(),
            Trouble::UnknownOutcome(_) => {
                tracing::error!(%error, "nobody knows whether the store has done what was asked");
                return Problem::of(Code::OutcomeUnknown);
            }
            Trouble::Full => {
                tracing::error!(%error, "the store is full");
                return Problem::of(Code::StoreFull);
            }
            _ => {}
        }
        if error.may_pass() {
            tracing::warn!(%error, "the store cannot do now what was asked");
            return Problem::of(Code::Unavailable);
        }
        // A store that is closed, moved, damaged or read-only is no use to any request, and another server may do better.
        tracing::error!(%error, "the store cannot do what was asked");
        match error.trouble() {
            Trouble::Database(_) | Trouble::Unsealable { .. } => Problem::of(Code::Internal),
            _ => Problem::new(Code::Unavailable, "store.out_of_order"),
        }
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Problem {
        match refusal {
            Refusal::PayloadTooLarge { bytes, most } => Problem::new(Code::TooLarge, "refused.payload")
                .with("bytes", bytes)
                .with("most", most)
                .at("payload"),
            Refusal::BadName { what, .. } => {
                let field = what.replace(' ', "_");
                Problem::new(Code::Invalid, "refused.name").with("field", &field).at(field)
            }
            Refusal::BadPriority(_) => Problem::new(Code::Invalid, "refused.priority").at("priority"),
            Refusal::BadImportance(_) => Problem::new(Code::Invalid, "refused.importance").at("importance"),
            Refusal::TooDeep { most } => Problem::new(Code::Invalid, "refused.deep").with("most", most),
            Refusal::TooMany { count, most } => {
                Problem::new(Code::Invalid, "refused.many").with("count", count).with("most", most)
            }
            Refusal::TooLarge { what, bytes, most } => Problem::new(Code::TooLarge, "refused.large")
                .with("bytes", bytes)
                .with("most", most)
                .at(what.replace(' ', "_")),
            Refusal::NoSuchSubtask { .. } | Refusal::NothingBegun(_) | Refusal::EndsRunning => {
                Problem::of(Code::Conflict)
            }
            _ => Problem::of(Code::Invalid),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::UnknownPolicy { name, known } => {
                let names = known.join(", ");
                let problem = match nearest(&name, known.iter().map(String::as_str)) {
                    Some(meant) => Problem::new(Code::UnknownPolicy, "policy.meant").with("meant", meant),
                    None => Problem::new(Code::UnknownPolicy, "policy.unknown"),
                };
                problem.with("name", name).with("names", names).at("policy")
            }
            EngineError::BadOverrides(error) => Problem::in_words(Code::Invalid, |lang| {
                let all = error.problems.iter().map(|problem| problem.describe(lang));
                let all: Vec<String> = all.take(5).collect();
                text(lang, "policy.overrides", &[("why", &all.join(" "))])
            })
            .at("overrides"),
            EngineError::OverridesNotJson(_) => {
                Problem::new(Code::Invalid, "policy.overrides_not_json").at("overrides")
            }
            EngineError::Payload(_) => Problem::new(Code::Invalid, "json.syntax").at("payload"),
            EngineError::BadFilter(error) => error.into(),
            EngineError::TooManyIds { count, most } => {
                Problem::new(Code::Invalid, "refused.many").with("count", count).with("most", most)
            }
            EngineError::UnknownTask(id) => Problem::new(Code::NotFound, "thing.unknown").with("id", id),
            EngineError::UnknownRun(id) => Problem::new(Code::NotFound, "thing.unknown").with("id", id),
            EngineError::UnknownEvent(id) => Problem::new(Code::NotFound, "thing.unknown").with("id", id),
            EngineError::BadCall(subtask, why) => {
                tracing::debug!(subtask, why, "a call that cannot be made");
                Problem::new(Code::Invalid, "task.call").with("subtask", subtask)
            }
            EngineError::Schedule(problem) => problem.into(),
            EngineError::Alert(problem) => problem.into(),
            error => {
                tracing::error!(%error, "the engine cannot do what was asked");
                Problem::of(Code::Internal)
            }
        }
    }
}

impl From<ScheduleProblem> for Problem {
    fn from(problem: ScheduleProblem) -> Problem {
        match problem {
            ScheduleProblem::Cron(bad) => {
                Problem::in_words(Code::Invalid, |lang| cron(&bad, lang)).at("cron")
            }
            ScheduleProblem::Zone { name, alike } if alike.is_empty() => {
                Problem::new(Code::Invalid, "schedules.zone").with("name", name).at("tz")
            }
            ScheduleProblem::Zone { name, alike } => {
                let what = Problem::new(Code::Invalid, "schedules.zone_alike").with("name", name);
                what.with("alike", alike.join(", ")).at("tz")
            }
            ScheduleProblem::Name(_) => Problem::new(Code::Invalid, "schedules.name").at("name"),
            ScheduleProblem::Taken(name) => {
                Problem::new(Code::Conflict, "schedules.taken").with("name", name).at("name")
            }
            ScheduleProblem::TooMany(most) => {
                Problem::new(Code::Conflict, "schedules.too_many").with("most", most)
            }
            ScheduleProblem::TooLong { bytes, most } => Problem::new(Code::TooLarge, "refused.large")
                .with("bytes", bytes)
                .with("most", most)
                .at("job"),
            ScheduleProblem::Unknown(name) => {
                Problem::new(Code::NotFound, "schedules.unknown").with("name", name)
            }
            ScheduleProblem::Contended(_) => Problem::of(Code::Conflict),
            problem => {
                tracing::error!(%problem, "a schedule cannot be had");
                Problem::of(Code::Internal)
            }
        }
    }
}

/// Which field of a cron expression is wrong, where, why, and what may be meant.
fn cron(bad: &BadCron, lang: Lang) -> String {
    let say = |key: &str, values: &[(&str, &dyn Display)]| text(lang, &format!("schedules.{key}"), values);
    let short = |given: &str| given.chars().filter(|c| !c.is_control()).take(40).collect::<String>();
    let why = match &bad.why {
        CronProblem::Empty => say("why.empty", &[]),
        CronProblem::TooLong => say("why.too_long", &[]),
        CronProblem::Fields(count) => say("why.fields", &[("n", count)]),
        CronProblem::Word(word) => say("why.word", &[("word", &short(word))]),
        CronProblem::NotANumber(given) => say("why.not_a_number", &[("given", &short(given))]),
        CronProblem::OutOfRange { given, min, max } => {
            say("why.out_of_range", &[("given", given), ("min", min), ("max", max)])
        }
        CronProblem::Backwards { from, to } => say("why.backwards", &[("from", from), ("to", to)]),
        CronProblem::Step(given) => say("why.step", &[("given", &short(given))]),
        CronProblem::Never => say("why.never", &[]),
    };
    let told = match bad.field {
        Some(field) => {
            let name = say(&format!("part.{}", field.name()), &[]);
            say("cron_at", &[("at", &(bad.at.start + 1)), ("part", &name), ("why", &why)])
        }
        None => say("cron", &[("why", &why)]),
    };
    match bad.meant() {
        Some(meant) => say("cron_meant", &[("told", &told), ("meant", &meant)]),
        None => say("cron_example", &[("told", &told)]),
    }
}

impl From<AlertProblem> for Problem {
    fn from(problem: AlertProblem) -> Problem {
        match problem {
            AlertProblem::NoReceivers => Problem::new(Code::Conflict, "alerts.nobody"),
            AlertProblem::NoReceiver { name, known } => {
                let what = Problem::new(Code::NotFound, "alerts.no_receiver").with("name", name);
                what.with("names", known.join(", ")).at("receiver")
            }
            AlertProblem::NotSilenceable { name, known } => {
                let what = Problem::new(Code::NotFound, "alerts.not_silenceable").with("name", name);
                what.with("names", known.join(", ")).at("of")
            }
            AlertProblem::NoSilence(id) => Problem::new(Code::NotFound, "alerts.no_silence").with("id", id),
            AlertProblem::TooManySilences(most) => {
                Problem::new(Code::Conflict, "alerts.too_many").with("most", most)
            }
            problem => {
                tracing::error!(%problem, "alerts cannot be had");
                Problem::of(Code::Internal)
            }
        }
    }
}

impl From<FilterError> for Problem {
    fn from(error: FilterError) -> Problem {
        Problem::in_words(Code::InvalidFilter, |lang| {
            let what = wrong(&error.problem, lang);
            text(lang, "filter.at", &[("at", &(error.span.start + 1)), ("what", &what)])
        })
    }
}

fn wrong(problem: &FilterProblem, lang: Lang) -> String {
    let say = |key: &str| text(lang, key, &[]);
    match problem {
        FilterProblem::TooLong { most } => text(lang, "filter.too_long", &[("most", most)]),
        FilterProblem::TooDeep { most } => text(lang, "filter.too_deep", &[("most", most)]),
        FilterProblem::Expected { expected, .. } => {
            let expected = say(&format!("filter.expected.{}", expected.name()));
            text(lang, "filter.wants", &[("expected", &expected)])
        }
        FilterProblem::OpenQuote => say("filter.open_quote"),
        FilterProblem::UnknownField { written, meant, known } => {
            // No more of it than a person needs to know it again, and nothing that is no text.
            let field: String = written.chars().filter(|c| !c.is_control()).take(40).collect();
            let told = match meant {
                Some(meant) => text(lang, "filter.meant", &[("field", &field), ("name", meant)]),
                None => text(lang, "filter.unknown", &[("field", &field)]),
            };
            format!("{told} {}", text(lang, "filter.fields", &[("names", &known.join(", "))]))
        }
        FilterProblem::BadOperator { field, allowed, .. } => {
            text(lang, "filter.operators", &[("field", field), ("names", &allowed.join(" "))])
        }
        FilterProblem::BadValue { field, kind, .. } => match kind {
            ValueKind::OneOf(names) => {
                text(lang, "filter.one_of", &[("field", field), ("names", &names.join(", "))])
            }
            ValueKind::Flag => text(lang, "filter.one_of", &[("field", field), ("names", &"true, false")]),
            _ => text(lang, "filter.value", &[("field", field)]),
        },
        FilterProblem::BadPattern { .. } => say("filter.pattern"),
    }
}
