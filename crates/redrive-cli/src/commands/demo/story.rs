//! What the show tells: the store's own events, counted, and bundled into lines that can be read as they pass.

use std::collections::HashMap;
use std::time::Duration;

use redrive::engine::ParkedJob;
use redrive_policy::{Lang, human_duration};
use redrive_store::{Event, EventStatus, JobId};
use serde::Serialize;

use crate::escape::beginning;
use crate::text::text;

/// How much of somebody's words is quoted.
const WORDS: usize = 60;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Waiting,
    Running,
    Retrying,
    Parked,
    Done,
    Dead,
}

/// What is known of a job.
#[derive(Debug, Clone, Copy)]
struct Known {
    standing: Standing,
    failed: bool,
    parked: bool,
    put_back: bool,
}

/// How many things happened; in all, or in one act.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Tally {
    pub(super) orders: u64,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) parked: u64,
    pub(super) dead: u64,
    pub(super) put_back: u64,
}

/// How many jobs stand where, now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Now {
    pub(super) waiting: u64,
    pub(super) running: u64,
    pub(super) retrying: u64,
    pub(super) parked: u64,
    pub(super) done: u64,
    pub(super) dead: u64,
}

/// What kind of line it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Done,
    Failed,
    Parked,
    Dead,
    PutBack,
}

/// Several events of one kind, in one line.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Line {
    pub(super) at_ms: u64,
    pub(super) kind: Kind,
    pub(super) n: u64,
    /// Of what was done: how many had failed before, or had been parked.
    #[serde(skip_serializing_if = "is_zero")]
    healed: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    cause: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    again_in_ms: Option<u64>,
}

// As serde calls it.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Line {
    pub(super) fn words(&self, lang: Lang) -> String {
        let n = &self.n;
        match self.kind {
            Kind::Done if self.healed > 0 => {
                text(lang, "demo.line.healed", &[("n", n), ("healed", &self.healed)])
            }
            Kind::Done => text(lang, "demo.line.done", &[("n", n)]),
            Kind::Failed => {
                let again = human_duration(Duration::from_millis(self.again_in_ms.unwrap_or(0) / 10 * 10));
                let values: [(&str, &dyn std::fmt::Display); 4] =
                    [("n", n), ("what", &self.what), ("cause", &self.cause), ("again", &again)];
                text(lang, "demo.line.failed", &values)
            }
            Kind::Parked => text(lang, "demo.line.parked", &[("n", n), ("why", &self.what)]),
            Kind::Dead => {
                text(lang, "demo.line.dead", &[("n", n), ("what", &self.what), ("cause", &self.cause)])
            }
            Kind::PutBack => text(lang, "demo.line.put-back", &[("n", n)]),
        }
    }
}

/// Everything that was told so far.
#[derive(Debug, Default)]
pub(super) struct Story {
    jobs: HashMap<JobId, Known>,
    /// One for each act that was begun.
    acts: Vec<Tally>,
    gathered: Vec<Line>,
}

impl Story {
    /// From here on things happen in the next act.
    pub(super) fn begin_act(&mut self) {
        self.acts.push(Tally::default());
    }

    pub(super) fn acts(&self) -> &[Tally] {
        &self.acts
    }

    /// All acts together.
    pub(super) fn total(&self) -> Tally {
        self.acts.iter().fold(Tally::default(), |sum, act| Tally {
            orders: sum.orders + act.orders,
            done: sum.done + act.done,
            failed: sum.failed + act.failed,
            parked: sum.parked + act.parked,
            dead: sum.dead + act.dead,
            put_back: sum.put_back + act.put_back,
        })
    }

    pub(super) fn now(&self) -> Now {
        let mut now = Now::default();
        for known in self.jobs.values() {
            let place = match known.standing {
                Standing::Waiting => &mut now.waiting,
                Standing::Running => &mut now.running,
                Standing::Retrying => &mut now.retrying,
                Standing::Parked => &mut now.parked,
                Standing::Done => &mut now.done,
                Standing::Dead => &mut now.dead,
            };
            *place += 1;
        }
        now
    }

    /// How many of what is done had failed first, had been parked, and had been dead.
    pub(super) fn healed(&self) -> [usize; 3] {
        let done = || self.jobs.values().filter(|known| known.standing == Standing::Done);
        let failed = done().filter(|known| known.failed && !known.put_back).count();
        let parked = done().filter(|known| known.parked).count();
        let put_back = done().filter(|known| known.put_back).count();
        [failed, parked, put_back]
    }

    /// Takes in one event of the store; what it says is told with the next lines.
    pub(super) fn hear(&mut self, event: &Event, at: Duration, lang: Lang) {
        let Some(job) = event.job else { return };
        let known = self.jobs.entry(job).or_insert(Known {
            standing: Standing::Waiting,
            failed: false,
            parked: false,
            put_back: false,
        });
        let mut none = Tally::default();
        let act = self.acts.last_mut().unwrap_or(&mut none);
        let cause = event.data["cause"].as_str().unwrap_or_default().to_owned();
        let said = || {
            let message =
                event.error_info.as_ref().map(|info| info.error_message.as_str()).unwrap_or_default();
            let first = message.lines().next().unwrap_or_default();
            // The end of a chain of errors says what happened.
            beginning(first.rsplit(": ").next().unwrap_or(first), WORDS)
        };
        let line = |kind, cause, what| Line {
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            kind,
            n: 1,
            healed: 0,
            cause,
            what,
            again_in_ms: None,
        };
        let told = match event.event_type.as_str() {
            "job_enqueued" => {
                act.orders += 1;
                return;
            }
            "attempt_started" => {
                known.standing = Standing::Running;
                return;
            }
            "job_released" => {
                known.standing = Standing::Waiting;
                return;
            }
            "attempt_succeeded" => {
                known.standing = Standing::Done;
                act.done += 1;
                let healed = u64::from(known.failed || known.parked);
                Line { healed, ..line(Kind::Done, String::new(), String::new()) }
            }
            "attempt_failed" if event.status == EventStatus::Retrying => {
                known.standing = Standing::Retrying;
                known.failed = true;
                act.failed += 1;
                let next = event.retry_info.as_ref().and_then(|info| info.next_retry_at);
                let again = next.map(|next| next.since(event.timestamp).as_millis());
                let again_in_ms = again.and_then(|again| u64::try_from(again).ok());
                Line { again_in_ms, ..line(Kind::Failed, cause, said()) }
            }
            "job_parked" => {
                known.standing = Standing::Parked;
                known.parked = true;
                act.parked += 1;
                line(Kind::Parked, String::new(), parked_why(event, lang))
            }
            "job_dead" => {
                known.standing = Standing::Dead;
                known.failed = true;
                act.dead += 1;
                line(Kind::Dead, cause, said())
            }
            "redrive" => {
                known.standing = Standing::Waiting;
                known.put_back = true;
                act.put_back += 1;
                line(Kind::PutBack, String::new(), String::new())
            }
            _ => return,
        };
        self.gather(told);
    }

    fn gather(&mut self, line: Line) {
        let same = |other: &&mut Line| {
            let alike = other.kind == line.kind && other.cause == line.cause && other.what == line.what;
            // The steps of a canary are told one by one.
            alike && (line.kind != Kind::PutBack || other.at_ms == line.at_ms)
        };
        match self.gathered.iter_mut().find(same) {
            Some(other) => {
                other.n += 1;
                other.healed += line.healed;
                other.again_in_ms = other.again_in_ms.max(line.again_in_ms);
            }
            None => self.gathered.push(line),
        }
    }

    /// The lines since the last time.
    pub(super) fn lines(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.gathered)
    }
}

/// Why something was parked, in words.
fn parked_why(event: &Event, lang: Lang) -> String {
    ParkedJob::of(&event.data).map(|parked| parked.why.words(&parked.target, lang)).unwrap_or_default()
}
