//! What stands in the store: whether it is sound, who works, what is stopped, and what is stuck.

use std::time::Duration;

use redrive::engine::{Engine, EngineError, TargetView, Token, Untaken, working};
use redrive_store::{
    EventFilter, GroupQuery, GroupState, LaneCounts, LetterFilter, StoreError, StoreStatus, Timestamp,
    Trouble as StoreTrouble, WorkerId, WorkerPresence,
};

use super::{Findings, Values};
use crate::commands::opened::Opened;

use crate::text::own;
use crate::view::moment::rough;

/// The store is looked through only while that is a matter of moments.
const SMALL: u64 = 200_000;
/// How far a clock may be ahead of ours.
const SKEW: Duration = Duration::from_secs(2);
/// How long work that is due may wait before somebody should know (R-C5).
const LATE: Duration = Duration::from_mins(5);
/// The most groups that are looked at.
const GROUPS: u32 = 10_000;
/// The most targets that are looked at.
const TARGETS: u32 = 1_000;
/// A token that ends within this time is about to.
const SOON: Duration = Duration::from_hours(7 * 24);
/// The queue of messages about alerts.
const ALERTS: &str = "redrive-alerts";

pub(super) async fn look(opened: &Opened, found: &mut Findings) -> Result<(), StoreError> {
    let store = &opened.store;
    let now = opened.now;
    writes(opened, found).await;
    let status = store.status(now).await?;
    sound(opened, &status, found).await?;
    let workers = store.workers(now).await?;
    clock(opened, &workers, found).await?;
    sample(opened, found).await?;
    who_works(&status, &workers, found);
    paused(&status, found);
    late(&status, &workers, now, found);
    let known = GroupQuery { states: vec![GroupState::Acknowledged], ..GroupQuery::default() };
    let known = store.groups(known, GROUPS).await?;
    let known = known.iter().map(|group| u64::try_from(group.counts.letters).unwrap_or(0)).sum();
    waiting(&status, known, found);
    Ok(())
}

/// What needs the engine: targets that nobody calls, services that are not called any more, and tokens that are about to end.
pub(super) async fn look_further(
    engine: &Engine,
    now: Timestamp,
    found: &mut Findings,
) -> Result<(), EngineError> {
    let sick: Vec<TargetView> = engine
        .targets_that_matter(TARGETS)
        .await?
        .into_iter()
        .filter(|target| target.why().is_some())
        .collect();
    if sick.is_empty() {
        found.ok("targets", "targets.fine", &[]);
    }
    for target in sick {
        let why = target.why().map(|why| why.words(&target.name, found.lang)).unwrap_or_default();
        let next = target.next_at().map_or_else(|| "-".to_owned(), |next| rough(next.since(now)));
        let fix = "redrive targets";
        found.warn("targets", "targets.sick", &[("why", &why), ("next", &next)], fix);
    }
    for endpoint in engine.push_endpoints().await?.into_iter().filter(|endpoint| !endpoint.enabled) {
        let name = endpoint.name;
        let why = endpoint.disabled_why.map(|why| format!(": {}", own(found.lang, &why))).unwrap_or_default();
        let fix = format!("redrive push set {name} --enable");
        found.warn("push", "push.disabled", &[("name", &name), ("why", &why)], &fix);
    }
    let tokens = engine.tokens().await?;
    let ends_soon =
        |token: &&Token| token.holds(now) && token.expires_at.is_some_and(|at| at.since(now) < SOON);
    for token in tokens.iter().filter(ends_soon) {
        let left = token.expires_at.map(|at| rough(at.since(now))).unwrap_or_default();
        let values: Values<'_> = &[("name", &token.name), ("id", &token.id), ("left", &left)];
        found.warn("tokens", "tokens.soon", values, "redrive token create");
    }
    let held = tokens.iter().filter(|token| token.holds(now)).count();
    match (tokens.is_empty(), held) {
        (true, _) => found.ok("tokens", "tokens.none", &[]),
        (false, 0) => found.warn("tokens", "tokens.all-over", &[], "redrive token create"),
        (false, n) => found.ok("tokens", "tokens.some", &[("n", &n)]),
    }
    Ok(())
}

/// A change that changes nothing: nobody has this number.
async fn writes(opened: &Opened, found: &mut Findings) {
    match opened.store.unregister(opened.now, WorkerId(i64::MAX)).await {
        Ok(()) => found.ok("writes", "writes.yes", &[]),
        Err(error) => found.trouble("writes", &crate::trouble::Trouble::Store(error)),
    }
}

async fn sound(opened: &Opened, status: &StoreStatus, found: &mut Findings) -> Result<(), StoreError> {
    if status.events > SMALL {
        found.ok("integrity", "integrity.too-large", &[("n", &status.events)]);
        return Ok(());
    }
    let report = opened.store.check().await?;
    match report.violations.first() {
        None => found.ok("integrity", "integrity.sound", &[("n", &report.checked.len())]),
        Some(first) => {
            let n = report.violations.len();
            let values: Values<'_> = &[("n", &n), ("first", &first.what)];
            found.problem("integrity", "integrity.broken", values, "redrive store check");
        }
    }
    Ok(())
}

/// What others wrote cannot be from the future.
async fn clock(opened: &Opened, workers: &[WorkerPresence], found: &mut Findings) -> Result<(), StoreError> {
    let newest = opened.store.events(EventFilter::default(), 1).await?.first().map(|event| event.timestamp);
    let seen = workers.iter().map(|worker| worker.seen_at).max();
    let latest = newest.max(seen);
    // Read again: looking has taken a while.
    let now = Timestamp::from_system(std::time::SystemTime::now());
    match latest.map(|latest| latest.since(now)) {
        Some(ahead) if ahead > SKEW => {
            found.warn("clock", "clock.ahead", &[("by", &rough(ahead))], "timedatectl");
        }
        Some(_) => found.ok("clock", "clock.fine", &[]),
        None => found.ok("clock", "clock.unknown", &[]),
    }
    Ok(())
}

/// A sealed value is opened, if there is one; that the key is the right one was proved when the store was opened.
async fn sample(opened: &Opened, found: &mut Findings) -> Result<(), StoreError> {
    match opened.store.letters(LetterFilter::default(), 1).await {
        Ok(letters) if letters.is_empty() => found.ok("payloads", "payloads.none", &[]),
        Ok(_) => found.ok("payloads", "payloads.open", &[]),
        Err(error) if matches!(error.trouble(), StoreTrouble::Unsealable { .. }) => {
            found.problem("payloads", "payloads.sealed", &[("why", &error)], "redrive store check");
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn who_works(status: &StoreStatus, workers: &[WorkerPresence], found: &mut Findings) {
    // What is paused waits because somebody wants it to.
    let open = status.lanes.iter().filter(|lane| lane.paused_at.is_none());
    let due: u64 = open.map(|lane| lane.ready.saturating_sub(lane.scheduled)).sum();
    let left: u64 = status.lanes.iter().map(|lane| lane.leased).sum();
    let working = working(workers);
    let untaken = Untaken::of(&status.lanes, workers);
    // `work` runs no other kinds: those wait for a worker of the user's own.
    let is_ours = |lane: &Untaken| matches!(lane.kind.as_str(), "exec" | "http");
    let fix = match (workers.is_empty(), untaken.iter().all(is_ours)) {
        (true, _) => "redrive serve",
        // There is a server already, which leaves the work to others.
        (false, true) => "redrive work",
        (false, false) => "redrive help server",
    };
    let values: Values<'_> = &[("n", &working), ("due", &due), ("left", &left)];
    match (working, due, left) {
        // What a worker left behind another takes up when its lease is over.
        (1.., ..) => found.ok("workers", "workers.some", values),
        (0, 0, 0) => found.ok("workers", "workers.none", values),
        (0, 0, _) => found.warn("workers", "workers.left", values, fix),
        (0, ..) => found.problem("workers", "workers.nobody", values, fix),
    }
    // Where nobody is there at all, that is what is to be mended.
    for lane in untaken.iter().filter(|_| !workers.is_empty()) {
        let values: Values<'_> = &[("n", &lane.ready), ("queue", &lane.queue), ("kind", &lane.kind)];
        let fix = if is_ours(lane) {
            format!("redrive work --queue {}", lane.queue)
        } else {
            "redrive help server".to_owned()
        };
        found.warn("workers", "workers.not-taken", values, &fix);
    }
    let ours = concat!("redrive ", env!("CARGO_PKG_VERSION"));
    let others =
        workers.iter().filter(|worker| worker.label.contains("(redrive ") && !worker.label.contains(ours));
    for other in others {
        found.warn("version", "version.other", &[("worker", &other.label)], "redrive --version");
    }
}

fn paused(status: &StoreStatus, found: &mut Findings) {
    let mut queues: Vec<&str> =
        status.lanes.iter().filter(|lane| lane.paused_at.is_some()).map(|lane| lane.queue.as_str()).collect();
    queues.dedup();
    if queues.is_empty() {
        found.ok("queues", "queues.open", &[]);
    }
    for queue in queues {
        let waits: u64 = status.lanes.iter().filter(|lane| lane.queue == queue).map(|lane| lane.ready).sum();
        let fix = format!("redrive queue resume {queue}");
        found.warn("queues", "queues.paused", &[("queue", &queue), ("n", &waits)], &fix);
    }
}

/// Work that somebody takes, and not soon enough; what nobody takes was told before.
fn late(status: &StoreStatus, workers: &[WorkerPresence], now: Timestamp, found: &mut Findings) {
    let untaken = Untaken::of(&status.lanes, workers);
    let is_taken = |lane: &&LaneCounts| {
        !untaken.iter().any(|other| (&other.queue, &other.kind) == (&lane.queue, &lane.kind))
    };
    let open = status.lanes.iter().filter(|lane| lane.paused_at.is_none());
    let oldest = open.filter(is_taken).filter_map(|lane| lane.oldest_due).min();
    match oldest.map(|due| now.since(due)) {
        Some(age) if age > LATE => {
            found.warn("delay", "delay.late", &[("age", &rough(age))], "redrive work --concurrency 32");
        }
        _ => found.ok("delay", "delay.fine", &[]),
    }
}

/// What waits for a person; what somebody has acknowledged does not any more.
fn waiting(status: &StoreStatus, acknowledged: u64, found: &mut Findings) {
    let undelivered: u64 =
        status.lanes.iter().filter(|lane| lane.queue == ALERTS).map(|lane| lane.dead).sum();
    let letters = status.dead_letters.saturating_sub(undelivered).saturating_sub(acknowledged);
    let things = [
        ("dead_letters", letters, "redrive dlq groups"),
        ("alerts", undelivered, "redrive dlq list --queue redrive-alerts"),
        ("unknown_outcomes", status.unknown_outcomes, "redrive idempotency --state unknown_outcome"),
        ("outbox", status.outbox_failed, "redrive outbox list --state failed"),
    ];
    for (check, n, fix) in things {
        if n > 0 {
            found.warn(check, &format!("stuck.{check}"), &[("n", &n)], fix);
        }
    }
    if things.iter().all(|(_, n, _)| *n == 0) {
        found.ok("stuck", "stuck.nothing", &[]);
    }
}
