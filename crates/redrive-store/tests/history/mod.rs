//! Real histories, replayed: every job's story in the event log goes through the functions that the stores ask before they
//! write. A step that the protocol does not allow, or a count that differs from it, is told.
//!
//! `history::replay(&*store, Writers::Engines).await.must_hold()` at the end of a test is all it takes.
//!
//! The log shows when an attempt begins and how it ends. Taking a lease, renewing it and taking it over leave no event, so
//! these steps are put in where the story needs them: fences in a replay are the lowest that can have been.
// Each test binary takes what it needs.
#![allow(dead_code)]

mod story;

use std::collections::{BTreeMap, BTreeSet};

use redrive_store::protocol::Standing;
use redrive_store::{Event, EventFilter, EventSeq, JobId, JobState, Order, Store};

use story::{Place, Story};

/// Of how many jobs that are over the store is asked: they are many, and only their last event is left to compare.
const OVER: usize = 1_000;

/// Who wrote the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Engines: only what has begun can succeed or fail.
    Engines,
    /// Tests, which settle leases that never began in any way they like.
    Tests,
}

/// A job that was set aside, and what it had been through.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Death {
    pub(crate) job: JobId,
    pub(crate) cause: String,
    pub(crate) standing: Standing,
}

/// What a replay saw.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Jobs whose whole story was replayed.
    pub(crate) jobs: usize,
    /// Jobs whose story has lost events, which only pruning may take, and only from jobs that are over.
    pub(crate) cut: Vec<JobId>,
    /// Attempts that began.
    pub(crate) attempts: usize,
    /// Jobs that were done.
    pub(crate) succeeded: usize,
    /// Settlements that came too late, and changed nothing.
    pub(crate) stale: usize,
    /// Every death, also of jobs that were put back since.
    pub(crate) deaths: Vec<Death>,
    /// What the protocol does not allow, as sentences.
    pub(crate) wrong: Vec<String>,
}

impl Replay {
    /// Everything was as the protocol allows, and nobody has pruned: every story is whole.
    pub(crate) fn must_be_whole(&self) {
        self.must_hold();
        assert!(self.cut.is_empty(), "events or jobs are lost: {:?}", self.cut);
    }

    /// Everything was as the protocol allows.
    pub(crate) fn must_hold(&self) {
        assert!(self.wrong.is_empty(), "the log tells what the protocol forbids:\n{}", self.wrong.join("\n"));
    }
}

/// Replays everything in a store that nobody writes to meanwhile, and compares where it ends with where the store says
/// that each job stands.
pub(crate) async fn replay(store: &dyn Store, writers: Writers) -> Replay {
    let events = all_events(store).await;
    let (mut replay, stories) = replay_events(&events, writers);
    let mut over = 0;
    for (job, story) in stories {
        over += usize::from(story.is_over());
        if !story.is_over() || over <= OVER {
            compare(store, job, &story, &mut replay).await;
        }
    }
    for job in replay.cut.clone() {
        let record = store.job(job).await.unwrap();
        if let Some(record) = record.filter(|record| record.state != JobState::Ended) {
            replay.wrong.push(format!("{job}: events of a living job are gone: {:?}", record.state));
        }
    }
    replay
}

/// Replays these events, the oldest first; answers where each job stands afterwards.
pub(crate) fn replay_events(events: &[Event], writers: Writers) -> (Replay, BTreeMap<JobId, Story>) {
    let mut replay = Replay::default();
    let mut own: BTreeMap<JobId, Vec<&Event>> = BTreeMap::new();
    for event in events {
        let Some(job) = event.job else { continue };
        replay.stale += usize::from(event.event_type == "stale_settle");
        if is_own(event) {
            own.entry(job).or_default().push(event);
        }
    }
    let there: BTreeSet<EventSeq> = events.iter().map(|event| event.seq).collect();
    let mut stories = BTreeMap::new();
    for (job, events) in own {
        let is_gone = |event: &&Event| event.parent.is_some_and(|parent| !there.contains(&parent));
        let story = Story::begin(job, events[0]).filter(|_| !events[1..].iter().any(is_gone));
        let Some(mut story) = story else {
            replay.cut.push(job);
            continue;
        };
        replay.jobs += 1;
        for event in &events[1..] {
            if let Err(wrong) = story.step(event, writers, &mut replay) {
                let seq = event.seq.0;
                replay.wrong.push(format!("{job}, event {seq} ({}): {wrong}", event.event_type));
                break;
            }
        }
        stories.insert(job, story);
    }
    (replay, stories)
}

/// Every event, the oldest first.
pub(crate) async fn all_events(store: &dyn Store) -> Vec<Event> {
    const PAGE: u32 = 5_000;
    let mut events: Vec<Event> = Vec::new();
    let mut after: Option<EventSeq> = None;
    loop {
        let filter = EventFilter { after, order: Order::OldestFirst, ..EventFilter::default() };
        let page = store.events(filter, PAGE).await.unwrap();
        let Some(last) = page.last() else { return events };
        after = Some(last.seq);
        events.extend(page);
    }
}

/// Whether an event is part of its job's story. What people report about a job, and who came too late, has no lane.
fn is_own(event: &Event) -> bool {
    event.event_type != "stale_settle"
        && ["queue", "kind", "attempt"].iter().all(|key| event.data.get(*key).is_some())
}

async fn compare(store: &dyn Store, job: JobId, told: &Story, replay: &mut Replay) {
    let record = store.job(job).await.unwrap();
    let Some(record) = record else {
        // Either the last events of its story are pruned, and what is left is not whole, or it is lost.
        if !told.is_over() {
            replay.cut.push(job);
        }
        return;
    };
    let mut differs = |what: String| replay.wrong.push(format!("{job}: {what}"));
    let same = match (&told.place, &record.state) {
        (Place::Waits(_), JobState::Ready { .. } | JobState::Leased { begun_at: None, .. })
        | (Place::Begun(_), JobState::Leased { begun_at: Some(_), .. })
        | (Place::Dead(_), JobState::Dead(_))
        | (Place::Over, JobState::Ended) => true,
        (Place::Waits(_) | Place::Begun(_) | Place::Dead(_) | Place::Over, _) => false,
    };
    if !same {
        differs(format!("the store says {:?}, the log leaves it {:?}", record.state, told.place));
    }
    if record.event != told.latest {
        differs(format!("the store says {:?} is its latest event, the log {:?}", record.event, told.latest));
    }
    let Some(standing) = told.standing() else { return };
    let counted = [record.attempts, record.retries, record.crashes].map(i64::from);
    if counted != [standing.attempts, standing.retries, standing.crashes] {
        differs(format!("the store counts {counted:?} attempts, retries and crashes, the log {standing:?}"));
    }
}
