//! Where a subtask stands, in one word and in a few.

use std::ops::Deref;
use std::time::Duration;

use redrive::engine::{Standing, SubtaskLine, TaskStory};
use redrive_policy::Lang;
use redrive_policy::plan::Plan;
use redrive_store::Timestamp;
use serde::Serialize;

use super::super::moment::{date_time, rough};
use super::super::{Reader, Span, Tone};
use crate::text::{say, text};

/// Where a subtask stands, for people.
pub(super) trait InWords {
    fn mark(self) -> char;
    fn tone(self) -> Tone;
    fn word(self, lang: Lang) -> String;
    fn span(self, lang: Lang) -> Span;
    /// Whether a person who looks at a large task wants to see it.
    fn asks_for_a_look(self) -> bool;
}

impl InWords for Standing {
    fn mark(self) -> char {
        match self {
            Standing::Failed => '✗',
            Standing::Retrying => '↻',
            Standing::Running | Standing::Queued => '▸',
            Standing::Ready | Standing::Waiting => '○',
            Standing::Skipped | Standing::Cancelled => '·',
            Standing::Succeeded => '✓',
        }
    }

    fn tone(self) -> Tone {
        match self {
            Standing::Failed => Tone::Bad,
            Standing::Retrying => Tone::Warn,
            Standing::Running => Tone::Heading,
            Standing::Queued | Standing::Ready => Tone::Plain,
            Standing::Waiting | Standing::Skipped | Standing::Cancelled => Tone::Dim,
            Standing::Succeeded => Tone::Good,
        }
    }

    fn word(self, lang: Lang) -> String {
        say(lang, &format!("task-view.standing.{}", self.name()))
    }

    fn span(self, lang: Lang) -> Span {
        Span::new(self.word(lang), self.tone())
    }

    fn asks_for_a_look(self) -> bool {
        matches!(self, Standing::Failed | Standing::Retrying | Standing::Running | Standing::Queued)
    }
}

/// One subtask.
#[derive(Debug, Serialize)]
pub(crate) struct SubtaskItem {
    #[serde(flatten)]
    line: SubtaskLine,
    /// What it does; told of a plan only.
    #[serde(skip)]
    does: Option<String>,
}

impl Deref for SubtaskItem {
    type Target = SubtaskLine;

    fn deref(&self) -> &SubtaskLine {
        &self.line
    }
}

impl SubtaskItem {
    /// Everything but the state, in a line.
    pub(super) fn note(&self, now: Timestamp, reader: Reader) -> String {
        let lang = reader.lang;
        let took = self.elapsed_ms.map(|ms| rough(Duration::from_millis(ms)));
        let attempt = self.attempts.filter(|attempts| *attempts > 1 || self.state == Standing::Failed);
        let tried = |key: &str| attempt.map(|n| text(lang, key, &[("n", &n)]));
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.does.clone());
        match self.state {
            Standing::Failed => {
                let cause = self.cause.map(|cause| cause.name().to_owned());
                let said = self.error.clone().filter(|said| !said.is_empty());
                parts.extend(match (cause, said) {
                    (Some(cause), Some(said)) => Some(format!("{cause}: {said}")),
                    (cause, said) => cause.or(said),
                });
                parts.extend(tried("task-view.tried"));
            }
            Standing::Retrying => {
                let next = self.attempts.unwrap_or(0).saturating_add(1);
                parts.extend(self.next_retry_at.map(|at| {
                    let key = if reader.absolute { "task-view.again-at" } else { "task-view.again-in" };
                    let wait = if reader.absolute { date_time(at) } else { rough(at.since(now)) };
                    text(lang, key, &[("n", &next), ("wait", &wait)])
                }));
            }
            Standing::Running => {
                parts.extend(tried("task-view.attempt"));
                parts.extend(took);
            }
            Standing::Succeeded => {
                parts.extend(took);
                parts.extend(tried("task-view.tried"));
            }
            Standing::Skipped => {
                let because = |id: &String| text(lang, "task-view.because", &[("id", id)]);
                parts.extend(self.because_of.as_ref().map(because));
            }
            Standing::Queued | Standing::Ready | Standing::Waiting | Standing::Cancelled => {}
        }
        if self.rounds > 1 {
            parts.push(text(lang, "task-view.round", &[("n", &self.rounds)]));
        }
        parts.join(" · ")
    }
}

/// The subtasks of a plan that is not started.
pub(super) fn of_plan(plan: &Plan) -> Vec<SubtaskItem> {
    let lines = SubtaskLine::of_plan(plan).into_iter().zip(&plan.subtasks);
    lines.map(|(line, subtask)| SubtaskItem { line, does: Some(super::in_words(&subtask.work)) }).collect()
}

/// The subtasks of a task, where each stands now.
pub(super) fn of_story(story: &TaskStory, now: Timestamp) -> Vec<SubtaskItem> {
    story.subtask_lines(now).into_iter().map(|line| SubtaskItem { line, does: None }).collect()
}
