//! The one screen: what is failing and why, what waits, queue by queue, and what to type next.
//!
//! Whoever is woken at night reads it from the top: how it stands, how much of it, which errors, which causes, which
//! queues. When all is well it says so and stops.

use std::collections::BTreeMap;
use std::time::Duration;

use redrive::engine::{GroupCount, GroupReport, LaneReport, StatusReport, TargetTrouble};
use redrive_policy::{Cause, Class};
use redrive_store::Timestamp;
use serde::Serialize;

use super::badge::Badge;
use super::block::{Column, Listing, Panel, Share};
use super::group::short;
use super::moment::{coming, rough, when};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{own, say, text};

/// How many groups the screen shows; the others are counted.
const GROUPS_SHOWN: usize = StatusReport::GROUPS_TOLD;
/// How many queues and kinds that nobody takes are named; the others are counted.
const LANES_SHOWN: usize = 5;

/// The whole store. JSON: the contract `redrive/status.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct StatusView {
    #[serde(flatten)]
    report: StatusReport,
    /// Where the store is; nobody but a person asks.
    #[serde(skip)]
    location: String,
    #[serde(skip)]
    now: Timestamp,
}

impl std::ops::Deref for StatusView {
    type Target = StatusReport;

    fn deref(&self) -> &StatusReport {
        &self.report
    }
}

impl StatusView {
    pub(crate) fn new(report: StatusReport, location: String, now: Timestamp) -> StatusView {
        StatusView { report, location, now }
    }

    fn is_healthy(&self) -> bool {
        self.dead_letter_queue == 0 && self.failed_events == 0
    }

    /// Jobs that are due while nobody is there to do them.
    fn stranded(&self) -> u64 {
        self.nobody_takes.iter().map(|lane| lane.ready).sum()
    }

    /// Whether `redrive work` takes everything that nobody takes.
    fn takes_all(&self) -> bool {
        self.nobody_takes.iter().all(|lane| matches!(lane.kind.as_str(), "exec" | "http"))
    }

    /// That nobody is there, or else what those who are do not take.
    fn untaken(&self, reader: Reader) -> Vec<Block> {
        let warn = |line: String| Block::Text(vec![Span::new(line, Tone::Warn)]);
        match (self.nobody_takes.as_slice(), self.workers) {
            ([], _) => Vec::new(),
            (_, 0) => vec![warn(text(reader.lang, "status.stranded", &[("n", &self.stranded())]))],
            (lanes, _) => {
                let told = lanes.iter().take(LANES_SHOWN).map(|lane| {
                    let values: [(&str, &dyn std::fmt::Display); 3] =
                        [("kind", &lane.kind), ("queue", &lane.queue), ("n", &lane.ready)];
                    warn(text(reader.lang, "status.not-taken", &values))
                });
                let rest: u64 = lanes.iter().skip(LANES_SHOWN).map(|lane| lane.ready).sum();
                let rest =
                    (rest > 0).then(|| warn(text(reader.lang, "status.not-taken-more", &[("n", &rest)])));
                told.chain(rest).collect()
            }
        }
    }

    /// A line for each paused queue in which something waits.
    fn pauses(&self, reader: Reader) -> Vec<Block> {
        let mut waiting: BTreeMap<&str, (Timestamp, u64)> = BTreeMap::new();
        for lane in &self.queues {
            if let Some(at) = lane.paused_at {
                waiting.entry(&lane.queue).or_insert((at, 0)).1 += lane.ready + lane.scheduled;
            }
        }
        let line = |(queue, (at, n)): (&str, (Timestamp, u64))| {
            let since = when(at, self.now, reader);
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("queue", &queue), ("since", &since), ("n", &n)];
            Block::Text(vec![Span::new(text(reader.lang, "status.paused", &values), Tone::Warn)])
        };
        waiting.into_iter().map(line).collect()
    }

    /// A line for each target that is not called, or that work is parked for.
    fn parked(&self, reader: Reader) -> Vec<Block> {
        let line = |target: &TargetTrouble| {
            let limited = || text(reader.lang, "status.limited", &[("target", &target.name)]);
            let why = target.why.as_ref().map_or_else(limited, |why| why.words(&target.name, reader.lang));
            let at = target.tried_again_at.map(|at| coming(at, self.now, reader));
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("why", &why), ("n", &target.parked), ("at", &at.clone().unwrap_or_default())];
            let key = if at.is_some() { "status.parked-until" } else { "status.parked" };
            Block::Text(vec![Span::new(text(reader.lang, key, &values), Tone::Warn)])
        };
        self.targets.iter().map(line).collect()
    }

    /// What else waits for a person, and the command that tells more.
    fn for_people(&self, reader: Reader) -> Vec<Block> {
        let counts = [
            ("status.unknown-outcomes", self.unknown_outcomes),
            ("status.outbox-failed", self.outbox_failed),
        ];
        let line = |(key, n): (&str, u64)| {
            Block::Text(vec![Span::new(text(reader.lang, key, &[("n", &n)]), Tone::Warn)])
        };
        counts.into_iter().filter(|(_, n)| *n > 0).map(line).collect()
    }

    fn verdict(&self, reader: Reader) -> Span {
        if self.store_missing {
            return Span::new(say(reader.lang, "status.no-store"), Tone::Warn);
        }
        match (self.dead_letter_queue, self.failed_events) {
            (0, 0) if self.unknown_outcomes + self.outbox_failed > 0 => {
                Span::new(say(reader.lang, "status.waits"), Tone::Warn)
            }
            (0, 0) if self.stranded() > 0 => Span::new(say(reader.lang, "status.stuck"), Tone::Warn),
            (0, 0) => Span::new(say(reader.lang, "status.healthy"), Tone::Good),
            (0, failed) => Span::new(text(reader.lang, "status.failures", &[("n", &failed)]), Tone::Warn),
            (dead, _) => match (dead.saturating_sub(self.acknowledged), self.acknowledged) {
                (waiting, 0) => {
                    Span::new(text(reader.lang, "status.letters", &[("n", &waiting)]), Tone::Alarm)
                }
                (0, known) => Span::new(text(reader.lang, "status.all-known", &[("n", &known)]), Tone::Warn),
                (waiting, known) => {
                    let values: [(&str, &dyn std::fmt::Display); 2] = [("n", &waiting), ("known", &known)];
                    Span::new(text(reader.lang, "status.some-known", &values), Tone::Alarm)
                }
            },
        }
    }

    fn counts(&self, reader: Reader) -> Block {
        let count = |n: u64, key: &str, tone: Tone| {
            let tone = if n == 0 { Tone::Good } else { tone };
            (Span::new(n.to_string(), tone), say(reader.lang, key))
        };
        let workers = Span::new(self.workers.to_string(), Tone::Strong);
        Block::Tally(vec![
            count(self.failed_events, "status.failed-events", Tone::Warn),
            count(self.dead_letter_queue, "status.dead-letters", Tone::Alarm),
            count(self.retry_candidates, "status.retry-candidates", Tone::Warn),
            (workers, say(reader.lang, "status.workers")),
        ])
    }

    fn groups_panel(&self, reader: Reader) -> Panel {
        let lang = reader.lang;
        let name = |key: &str| say(lang, &format!("status.{key}"));
        let row = |group: &GroupReport| {
            vec![
                Span::new(group.count.to_string(), Tone::Strong),
                Badge::of_group(group.state).span(lang),
                Span::plain(group.cause.name()),
                Span::plain(own(lang, &group.sample)),
                Span::new(when(group.last_seen, self.now, reader), Tone::Dim),
                Span::new(short(&group.fingerprint), Tone::Dim),
            ]
        };
        let listing = Listing {
            columns: vec![
                Column::right(name("count")),
                Column::left(name("state")),
                Column::left(name("cause")).rank(2),
                Column::left(name("error")).cut_to(24),
                Column::right(name("last-seen")).rank(1),
                Column::left(name("group")),
            ],
            rows: self.groups.iter().map(row).collect(),
        };
        let note = match self.group_count {
            GroupCount::All(n) if n > GROUPS_SHOWN => {
                text(lang, "status.groups-of", &[("shown", &GROUPS_SHOWN), ("n", &n)])
            }
            GroupCount::All(n) => text(lang, "status.group-count", &[("n", &n)]),
            GroupCount::MoreThan(n) => {
                text(lang, "status.groups-of", &[("shown", &GROUPS_SHOWN), ("n", &format_args!("{n}+"))])
            }
        };
        Panel::new(name("failing"), vec![Block::Listing(listing)]).note(Span::new(note, Tone::Dim))
    }

    fn causes_panel(&self, reader: Reader) -> Option<Panel> {
        let mut causes: Vec<(&Cause, &u64)> = self.by_cause.iter().collect();
        // The largest first; equal ones in the order of their names' table.
        causes.sort_by_key(|(_, letters)| std::cmp::Reverse(**letters));
        let share = |(cause, letters): &(&Cause, &u64)| Share {
            label: cause.name().to_owned(),
            value: **letters,
            of: self.dead_letter_queue,
            tone: if cause.class() == Class::Transient { Tone::Warn } else { Tone::Bad },
        };
        let shares: Vec<Share> = causes.iter().map(share).collect();
        let title = say(reader.lang, "status.by-cause");
        (!shares.is_empty()).then(|| Panel::new(title, vec![Block::Shares(shares)]))
    }

    fn queues_panel(&self, reader: Reader) -> Option<Panel> {
        let name = |key: &str| say(reader.lang, &format!("status.{key}"));
        let number = |n: u64, tone: Tone| Span::new(n.to_string(), if n == 0 { Tone::Dim } else { tone });
        let row = |lane: &LaneReport| {
            let oldest = lane.oldest_due_age_ms.map(|ms| rough(Duration::from_millis(ms)));
            vec![
                Span::new(lane.queue.clone(), Tone::Strong),
                Span::plain(lane.kind.clone()),
                number(lane.ready, Tone::Plain),
                number(lane.scheduled, Tone::Plain),
                number(lane.leased, Tone::Plain),
                number(lane.dead, Tone::Bad),
                number(lane.succeeded, Tone::Good),
                Span::plain(oldest.unwrap_or_else(|| "-".to_owned())),
            ]
        };
        let listing = Listing {
            columns: vec![
                Column::left(name("queue")).cut_to(12),
                Column::left(name("kind")).cut_to(8).rank(5),
                Column::right(name("ready")),
                Column::right(name("scheduled")).rank(2),
                Column::right(name("leased")).rank(1),
                Column::right(name("dead")),
                Column::right(name("succeeded")).rank(4),
                Column::right(name("oldest")).rank(3),
            ],
            rows: self.queues.iter().map(row).collect(),
        };
        (!self.queues.is_empty()).then(|| Panel::new(name("queues"), vec![Block::Listing(listing)]))
    }

    /// What fits what is there.
    fn next(&self, reader: Reader) -> Option<Block> {
        let key = match (self.stranded(), self.dead_letter_queue, self.failed_events, self.groups.first()) {
            (1.., ..) if self.takes_all() => "status.next-work",
            (1.., ..) => "status.next-elsewhere",
            (0, 1.., _, Some(_)) => "status.next-group",
            (0, 1.., _, None) => "status.next",
            (0, 0, 1.., _) => "status.next-failed",
            (0, 0, 0, _) => return None,
        };
        let group = self.groups.first().map(|group| short(&group.fingerprint).to_owned()).unwrap_or_default();
        let commands = match key {
            "status.next-group" => text(reader.lang, key, &[("group", &group)]),
            _ => say(reader.lang, key),
        };
        Some(Block::Text(vec![Span::new(commands, Tone::Strong)]))
    }
}

impl Page for StatusView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let title =
            vec![Span::new("redrive", Tone::Heading), Span::new(format!("  {}", self.location), Tone::Dim)];
        let mut blocks = if self.location.is_empty() { Vec::new() } else { vec![Block::Text(title)] };
        blocks.push(Block::Text(vec![self.verdict(reader)]));
        blocks.extend(self.untaken(reader));
        blocks.extend(self.for_people(reader));
        blocks.extend(self.pauses(reader));
        blocks.extend(self.parked(reader));
        let panel = |panel: Panel| vec![Block::Panel(panel)];
        if self.is_healthy() {
            blocks.extend(self.queues_panel(reader).map(Block::Panel));
        } else {
            let now = Panel::new(say(reader.lang, "status.now"), vec![self.counts(reader)]);
            let alarmed = self.dead_letter_queue > 0;
            blocks.push(Block::Panel(if alarmed { now.border(Tone::Bad) } else { now }));
            if !self.groups.is_empty() {
                blocks.push(Block::Panel(self.groups_panel(reader)));
            }
            let causes = self.causes_panel(reader).map(panel).unwrap_or_default();
            let queues = self.queues_panel(reader).map(panel).unwrap_or_default();
            if !(causes.is_empty() && queues.is_empty()) {
                blocks.push(Block::Beside(causes, queues));
            }
        }
        blocks.extend(self.next(reader));
        blocks
    }
}
