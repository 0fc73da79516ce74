//! How things stand: the contract `redrive/status.v1`, and the counts of queues. The command line and the API tell the same.

use std::collections::BTreeMap;

use redrive_policy::Cause;
use redrive_policy::protection::ParkedWhy;
use redrive_store::{
    Group, GroupQuery, GroupState, LaneCounts, Queue, StoreStatus, Timestamp, WorkerPresence,
};
use serde::Serialize;

use super::{Engine, EngineError, TargetView};

/// How far groups are counted.
const GROUPS: u32 = 100;
/// The queue of messages to people.
const ALERTS: &str = "redrive-alerts";
/// How many targets are looked at.
const TARGETS: u32 = 1_000;

/// How things stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// `redrive/status.v1`.
    pub schema: &'static str,
    /// Work that finally failed without a letter.
    pub failed_events: u64,
    /// Dead letters.
    pub dead_letter_queue: u64,
    /// Those of them whose group somebody has acknowledged: somebody is at it.
    pub acknowledged: u64,
    /// Dead letters whose class is transient.
    pub retry_candidates: u64,
    /// Dead letters by cause.
    pub by_cause: BTreeMap<Cause, u64>,
    /// By queue and kind.
    pub queues: Vec<LaneReport>,
    /// The groups that wait for somebody, the largest first.
    pub groups: Vec<GroupReport>,
    /// Workers that are present and take work. Those elsewhere, who ask a server for it, count once for each server, queue and
    /// set of kinds, however many they are.
    pub workers: u64,
    /// Jobs that are due while nobody takes their kind from their queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nobody_takes: Vec<Untaken>,
    /// Idempotency keys of which nobody knows how their request ended.
    pub unknown_outcomes: u64,
    /// Calls of the outbox that failed.
    pub outbox_failed: u64,
    /// Targets that are not called, or that work is parked for, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetTrouble>,
    /// There is none where it is looked for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub store_missing: bool,
    /// How many groups wait for somebody.
    #[serde(skip)]
    pub group_count: GroupCount,
}

/// Jobs that are due, and that nobody who is present takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Untaken {
    /// Their queue.
    pub queue: String,
    /// Their kind.
    pub kind: String,
    /// How many of them are due.
    pub ready: u64,
}

impl Untaken {
    /// Of these lanes, those in which something is due that none of these workers takes. What is paused waits because somebody
    /// wants it to; and of what runs at this moment somebody has taken some, although it may not ask for more before it is done.
    pub fn of(lanes: &[LaneCounts], workers: &[WorkerPresence]) -> Vec<Untaken> {
        let takes = |lane: &LaneCounts| {
            let mut taking = workers.iter().filter_map(|worker| worker.takes.as_ref());
            taking.any(|takes| takes.takes(&lane.queue, &lane.kind))
                || (lane.leased > 0 && !workers.is_empty())
        };
        let due = |lane: &LaneCounts| lane.ready.saturating_sub(lane.scheduled);
        let untaken = lanes.iter().filter(|lane| due(lane) > 0 && lane.paused_at.is_none() && !takes(lane));
        let told = |lane: &LaneCounts| Untaken {
            queue: lane.queue.clone(),
            kind: lane.kind.clone(),
            ready: due(lane),
        };
        untaken.map(told).collect()
    }
}

/// How many of these do work: a server that only answers, and tells people of trouble, does none.
pub fn working(workers: &[WorkerPresence]) -> u64 {
    let works = |worker: &&WorkerPresence| worker.takes.as_ref().is_none_or(|takes| takes.queues != [ALERTS]);
    u64::try_from(workers.iter().filter(works).count()).unwrap_or(u64::MAX)
}

/// A target that is not called, or that work is parked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetTrouble {
    /// Its name.
    pub name: String,
    /// Where its breaker stands: `closed`, `open`, `half_open` or `ramp`.
    pub state: &'static str,
    /// Jobs that are parked for it now, about.
    pub parked: u32,
    /// When it is tried again, while nobody calls it.
    pub tried_again_at: Option<Timestamp>,
    /// Why nobody calls it, or few do.
    #[serde(flatten)]
    pub why: Option<ParkedWhy>,
}

/// How many groups there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupCount {
    /// So many.
    All(usize),
    /// They were not counted to the end.
    MoreThan(usize),
}

/// A group that waits for somebody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupReport {
    /// What its failures share.
    pub fingerprint: String,
    /// Its letters.
    pub count: i64,
    /// Their cause.
    pub cause: Cause,
    /// What one of them said.
    pub sample: String,
    /// Where it stands.
    pub state: GroupState,
    /// When it first came.
    pub first_seen: Timestamp,
    /// When it came last.
    pub last_seen: Timestamp,
}

impl From<Group> for GroupReport {
    fn from(group: Group) -> GroupReport {
        GroupReport {
            fingerprint: group.fingerprint,
            count: group.counts.letters,
            cause: group.cause,
            sample: group.sample,
            state: group.state,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
        }
    }
}

/// The jobs of one kind in one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneReport {
    /// The queue.
    pub queue: String,
    /// The kind.
    pub kind: String,
    /// Due, and waiting for a worker.
    pub ready: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Under a lease.
    pub leased: u64,
    /// Dead letters.
    pub dead: u64,
    /// Succeeded so far.
    pub succeeded: u64,
    /// Cancelled so far.
    pub cancelled: u64,
    /// How long the oldest one has been due.
    pub oldest_due_age_ms: Option<u64>,
    /// Since when none of it is handed out.
    pub paused_at: Option<Timestamp>,
}

impl LaneReport {
    fn of(lane: &LaneCounts, now: Timestamp) -> LaneReport {
        LaneReport {
            queue: lane.queue.clone(),
            kind: lane.kind.clone(),
            ready: lane.ready.saturating_sub(lane.scheduled),
            scheduled: lane.scheduled,
            leased: lane.leased,
            dead: lane.dead,
            succeeded: lane.succeeded,
            cancelled: lane.cancelled,
            oldest_due_age_ms: lane.oldest_due.map(|at| age_ms(at, now)),
            paused_at: lane.paused_at,
        }
    }
}

/// A queue and how much is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueReport {
    /// Its name.
    pub name: String,
    /// Due, and waiting for a worker.
    pub ready: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Under a lease.
    pub running: u64,
    /// Dead letters.
    pub dead: u64,
    /// Succeeded so far.
    pub succeeded: u64,
    /// How long the oldest one has been due.
    pub oldest_due_age_ms: Option<u64>,
    /// Since when none of it is handed out.
    pub paused_at: Option<Timestamp>,
    /// Why, in the words of whoever paused it.
    pub paused_why: Option<String>,
}

impl QueueReport {
    /// A queue by the counts of its lanes.
    pub fn new(queue: Queue, lanes: &[LaneCounts], now: Timestamp) -> QueueReport {
        let mut report = QueueReport {
            name: queue.name,
            ready: 0,
            scheduled: 0,
            running: 0,
            dead: 0,
            succeeded: 0,
            oldest_due_age_ms: None,
            paused_at: queue.paused_at,
            paused_why: queue.paused_why,
        };
        for lane in lanes.iter().filter(|lane| lane.queue == report.name) {
            report.ready += lane.ready.saturating_sub(lane.scheduled);
            report.scheduled += lane.scheduled;
            report.running += lane.leased;
            report.dead += lane.dead;
            report.succeeded += lane.succeeded;
            report.oldest_due_age_ms =
                report.oldest_due_age_ms.max(lane.oldest_due.map(|at| age_ms(at, now)));
        }
        report
    }
}

fn age_ms(at: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX)
}

impl StatusReport {
    /// How many groups are told; the others are counted.
    pub const GROUPS_TOLD: usize = 5;
    /// How many targets are told.
    pub const TARGETS_TOLD: usize = 20;

    /// Of a store that is not there.
    pub fn of_nothing() -> StatusReport {
        let nothing = StatusReport::new(StoreStatus::default(), Vec::new(), false, Timestamp::default());
        StatusReport { store_missing: true, ..nothing }
    }

    fn new(status: StoreStatus, groups: Vec<Group>, more: bool, now: Timestamp) -> StatusReport {
        // What is on its way again may come back as a letter; until then nobody has to look at it.
        let groups: Vec<Group> = groups.into_iter().filter(|group| group.counts.letters > 0).collect();
        let count = groups.len();
        let is_known = |group: &&Group| group.state == GroupState::Acknowledged;
        let letters = |group: &Group| u64::try_from(group.counts.letters).unwrap_or(0);
        StatusReport {
            schema: "redrive/status.v1",
            failed_events: status.failed_events,
            dead_letter_queue: status.dead_letters,
            acknowledged: groups.iter().filter(is_known).map(letters).sum::<u64>().min(status.dead_letters),
            retry_candidates: status.retry_candidates,
            by_cause: status.by_cause.into_iter().filter(|(_, letters)| *letters > 0).collect(),
            queues: status.lanes.iter().map(|lane| LaneReport::of(lane, now)).collect(),
            groups: groups.into_iter().take(StatusReport::GROUPS_TOLD).map(GroupReport::from).collect(),
            workers: status.workers,
            nobody_takes: Vec::new(),
            unknown_outcomes: status.unknown_outcomes,
            outbox_failed: status.outbox_failed,
            targets: Vec::new(),
            store_missing: false,
            group_count: if more { GroupCount::MoreThan(count) } else { GroupCount::All(count) },
        }
    }
}

impl Engine {
    /// Targets that somebody should know of, those with the most parked work first.
    async fn troubled_targets(&self) -> Result<Vec<TargetTrouble>, EngineError> {
        let mut targets = self.targets_that_matter(TARGETS).await?;
        targets.retain(TargetView::is_troubled);
        targets.sort_by_key(|target| std::cmp::Reverse(target.standing.parked));
        targets.truncate(StatusReport::TARGETS_TOLD);
        let trouble = |target: TargetView| TargetTrouble {
            state: target.phase.name(),
            parked: target.standing.parked,
            tried_again_at: target.next_at(),
            why: target.why().cloned(),
            name: target.name,
        };
        Ok(targets.into_iter().map(trouble).collect())
    }

    /// How things stand.
    pub async fn status_report(&self) -> Result<StatusReport, EngineError> {
        let now = self.now();
        let status = self.store().status(now).await?;
        let workers = self.store().workers(now).await?;
        let nobody_takes = Untaken::of(&status.lanes, &workers);
        let of_interest = vec![GroupState::Open, GroupState::Regressed, GroupState::Acknowledged];
        let query = GroupQuery { states: of_interest, ..GroupQuery::default() };
        let mut groups = self.store().groups(query, GROUPS + 1).await?;
        let more = groups.len() > GROUPS as usize;
        groups.truncate(GROUPS as usize);
        let targets = self.troubled_targets().await?;
        let workers = working(&workers);
        Ok(StatusReport { workers, nobody_takes, targets, ..StatusReport::new(status, groups, more, now) })
    }

    /// Every queue and how much is in it, by name.
    pub async fn queue_reports(&self) -> Result<Vec<QueueReport>, EngineError> {
        let now = self.now();
        let mut lanes = self.store().status(now).await?.lanes;
        let mut queues = self.store().queues().await?;
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        // Those of a queue beside each other: there may be very many queues.
        lanes.sort_by(|one, other| one.queue.cmp(&other.queue));
        let report = |queue: Queue| {
            let first = lanes.partition_point(|lane| lane.queue < queue.name);
            let behind = lanes.partition_point(|lane| lane.queue <= queue.name);
            QueueReport::new(queue, lanes.get(first..behind).unwrap_or_default(), now)
        };
        Ok(queues.into_iter().map(report).collect())
    }
}
