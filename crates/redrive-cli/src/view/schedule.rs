//! Schedules: when they fire next and what came of the last tick.

use redrive::engine::Schedule;
use redrive_store::{JobId, Timestamp};
use serde::Serialize;

use super::block::{Column, Listing};
use super::moment::{date_time, rough};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// How many of the next ticks are shown.
const UPCOMING: usize = 3;

/// One schedule.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ScheduleItem {
    name: String,
    cron: String,
    tz: String,
    missed: &'static str,
    queue: String,
    kind: String,
    policy: Option<String>,
    priority: i32,
    created_at: Timestamp,
    paused_at: Option<Timestamp>,
    next: Option<Timestamp>,
    /// The same as clocks in its zone show it, and as they do here.
    next_in_zone: Option<String>,
    next_local: Option<String>,
    last: Option<LastTick>,
    fired: u64,
    skipped: u64,
}

#[derive(Debug, Clone, Serialize)]
struct LastTick {
    tick: Timestamp,
    /// As long as its events are kept.
    job: Option<String>,
}

impl ScheduleItem {
    pub(crate) fn new(schedule: &Schedule, job: Option<JobId>) -> ScheduleItem {
        ScheduleItem {
            name: schedule.name.clone(),
            cron: schedule.cron.source().to_owned(),
            tz: schedule.zone.clone(),
            missed: schedule.missed.name(),
            queue: schedule.job.queue().to_owned(),
            kind: schedule.job.kind.clone(),
            policy: schedule.job.policy.clone(),
            priority: schedule.job.priority,
            created_at: schedule.created_at,
            paused_at: schedule.paused_at,
            next: schedule.next,
            next_in_zone: schedule.next.map(|at| schedule.in_its_zone(at)),
            next_local: schedule.next.map(Schedule::locally),
            last: schedule.last.map(|tick| LastTick { tick, job: job.map(|id| id.to_string()) }),
            fired: schedule.fired,
            skipped: schedule.skipped,
        }
    }

    fn next(&self, reader: Reader) -> Span {
        match &self.next_in_zone {
            Some(next) => Span::plain(next.clone()),
            None if self.paused_at.is_some() => Span::new(say(reader.lang, "schedule.paused"), Tone::Warn),
            None => Span::new("-", Tone::Dim),
        }
    }

    fn last(&self) -> String {
        let Some(last) = &self.last else { return "-".to_owned() };
        let job = last.job.as_ref().map(|job| format!(" {job}")).unwrap_or_default();
        format!("{}{job}", date_time(last.tick))
    }
}

/// JSON: `redrive/schedules.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct SchedulesView {
    schema: &'static str,
    items: Vec<ScheduleItem>,
    #[serde(skip)]
    now: Timestamp,
}

impl SchedulesView {
    pub(crate) fn new(items: Vec<ScheduleItem>, now: Timestamp) -> SchedulesView {
        SchedulesView { schema: "redrive/schedules.v1", items, now }
    }
}

impl Page for SchedulesView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if self.items.is_empty() {
            return vec![Block::Text(vec![Span::plain(say(lang, "schedule.none"))])];
        }
        let word = |key: &str| say(lang, &format!("schedule.{key}"));
        let columns = vec![
            Column::left(word("name")).cut_to(16),
            Column::left(word("cron")).cut_to(14),
            Column::left(word("zone")).rank(4),
            Column::left(word("next")),
            Column::right(word("in")).rank(1),
            Column::left(word("local")).rank(5),
            Column::left(word("last")).rank(3),
            Column::left(word("kind")).rank(2).cut_to(8),
        ];
        let row = |item: &ScheduleItem| {
            let wait = item.next.map(|at| rough(at.since(self.now)));
            vec![
                Span::new(item.name.clone(), Tone::Strong),
                Span::plain(item.cron.clone()),
                Span::plain(item.tz.clone()),
                item.next(reader),
                Span::plain(wait.unwrap_or_else(|| "-".to_owned())),
                Span::plain(item.next_local.clone().unwrap_or_else(|| "-".to_owned())),
                Span::plain(item.last()),
                Span::plain(item.kind.clone()),
            ]
        };
        vec![Block::Listing(Listing { columns, rows: self.items.iter().map(row).collect() })]
    }
}

/// One schedule with its next ticks. JSON: `redrive/schedule.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleView {
    schema: &'static str,
    #[serde(flatten)]
    item: ScheduleItem,
    upcoming: Vec<Upcoming>,
}

#[derive(Debug, Serialize)]
struct Upcoming {
    at: Timestamp,
    in_zone: String,
    local: String,
}

impl ScheduleView {
    pub(crate) fn new(item: ScheduleItem, schedule: &Schedule) -> ScheduleView {
        let upcoming = schedule.upcoming(UPCOMING).into_iter().map(|at| Upcoming {
            at,
            in_zone: schedule.in_its_zone(at),
            local: Schedule::locally(at),
        });
        ScheduleView { schema: "redrive/schedule.v1", upcoming: upcoming.collect(), item }
    }
}

impl Page for ScheduleView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let word = |key: &str| say(lang, &format!("schedule.{key}"));
        let item = &self.item;
        let mut fields = vec![
            (word("name"), Span::new(item.name.clone(), Tone::Strong)),
            (word("cron"), Span::plain(format!("{} ({})", item.cron, item.tz))),
            (word("work"), Span::plain(format!("{} ({})", item.kind, item.queue))),
            (word("missed"), Span::plain(say(lang, &format!("schedule.rule.{}", item.missed)))),
        ];
        if item.paused_at.is_some() {
            fields.push((word("next"), item.next(reader)));
        }
        for (place, next) in self.upcoming.iter().enumerate() {
            let name = word(if place == 0 { "next" } else { "then" });
            // Where both clocks show the same, once is enough.
            let shown = if next.in_zone == next.local {
                next.in_zone.clone()
            } else {
                text(lang, "schedule.here", &[("there", &next.in_zone), ("here", &next.local)])
            };
            fields.push((name, Span::plain(shown)));
        }
        if item.last.is_some() {
            fields.push((word("last"), Span::plain(item.last())));
            let counts = text(lang, "schedule.counts", &[("fired", &item.fired), ("skipped", &item.skipped)]);
            fields.push((word("so-far"), Span::plain(counts)));
        }
        vec![Block::Fields(fields)]
    }
}

/// What became of a schedule.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ScheduleChange {
    Removed,
    Paused,
    Resumed,
}

/// JSON: `redrive/schedule_changed.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct ScheduleChangedView {
    schema: &'static str,
    name: String,
    change: ScheduleChange,
    /// Whether it stood otherwise before.
    changed: bool,
}

impl ScheduleChangedView {
    pub(crate) fn new(name: String, change: ScheduleChange, changed: bool) -> ScheduleChangedView {
        ScheduleChangedView { schema: "redrive/schedule_changed.v1", name, change, changed }
    }
}

impl Page for ScheduleChangedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let key = match (self.change, self.changed) {
            (ScheduleChange::Removed, _) => "schedule.removed",
            (ScheduleChange::Paused, true) => "schedule.now-paused",
            (ScheduleChange::Paused, false) => "schedule.was-paused",
            (ScheduleChange::Resumed, true) => "schedule.now-resumed",
            (ScheduleChange::Resumed, false) => "schedule.was-resumed",
        };
        let line = text(reader.lang, key, &[("name", &self.name)]);
        vec![Block::Text(vec![Span::plain(line)])]
    }
}
