//! Reading a period of the stream into records, once and page by page.
//!
//! What is kept: the stories of jobs that failed in the period, up to the limit; jobs that are under way; and of all others
//! only how many attempts began in each minute and what they say about their lane. A story that began before the period is
//! read back to its beginning; one whose beginning is no longer kept is left out and counted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::simulate::{Moment, Tally, TargetId, Targets};
use redrive_store::{Event, EventFilter, EventSeq, JobId, Order, Timestamp};

use super::Simulate;
use super::story::{Shared, Story, moment};
use crate::engine::{Engine, EngineError};

/// How many events are read at a time.
const PAGE: u32 = 4_096;
/// A stretch of the stream that is read through rather than searched.
const SHORT: i64 = 1_024;
/// How many events are looked at to find one that tells the time.
const PROBE: u32 = 64;
/// The most events of one job.
const LONGEST_STORY: u32 = 10_000;
/// How far beyond the period the stream is read: what happened to its jobs then is part of their story.
const FOLLOWED: Duration = Duration::from_hours(24);
/// The clocks of two machines do not differ by more than this.
const CLOCKS_DIFFER: Duration = Duration::from_secs(5);

/// Everything that is known of a period.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) stories: Vec<Story>,
    pub(super) targets: Targets,
    /// Attempts of jobs that are not replayed, by minute.
    pub(super) base_load: BTreeMap<i64, u64>,
    /// Nothing is known of what lies behind this.
    pub(super) ends_at: Moment,
    pub(super) beyond_limit: u64,
    pub(super) without_beginning: u64,
}

impl Record {
    /// A tally that knows of the jobs that are not replayed.
    pub(super) fn base(&self) -> Tally {
        let mut tally = Tally::default();
        for (minute, attempts) in &self.base_load {
            tally.begin_in(*minute, *attempts);
        }
        tally
    }
}

pub(super) async fn record(engine: &Engine, wanted: &Simulate) -> Result<Record, EngineError> {
    let ends_at = wanted.now.min(wanted.until.after(FOLLOWED));
    let mut reading = Reading::new(wanted);
    let mut after = before_the_first(engine, wanted.since.before(CLOCKS_DIFFER)).await?;
    loop {
        let filter = EventFilter { after: Some(after), order: Order::OldestFirst, ..EventFilter::default() };
        let page = engine.store().events(filter, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        // Nobody's clock is that far ahead: what follows happened later.
        let done = is_ours(last) && last.timestamp > ends_at.after(CLOCKS_DIFFER);
        for event in &page {
            if event.timestamp <= ends_at {
                reading.tell(event);
            }
        }
        if done {
            break;
        }
    }
    reading.finish(engine, moment(ends_at)).await
}

/// Whether an event was told here, so that its time follows the sequence. An imported one brought its own.
fn is_ours(event: &Event) -> bool {
    event.event_id == event.seq.event_id(event.timestamp)
}

/// A place in the stream before which nothing happened at or after `since`. Times follow the sequence, so it is searched
/// for by halves: a long stream is not read to find its end.
async fn before_the_first(engine: &Engine, since: Timestamp) -> Result<EventSeq, EngineError> {
    let newest = engine.store().events(EventFilter::default(), 1).await?;
    let (mut low, mut high) = (0, newest.first().map_or(0, |event| event.seq.0));
    while high - low > SHORT {
        let middle = low + (high - low) / 2;
        match time_after(engine, EventSeq(middle)).await? {
            Some(at) if at < since => low = middle,
            Some(_) | None => high = middle,
        }
    }
    Ok(EventSeq(low))
}

/// When the first event behind a place happened that tells the time; nothing when there is none.
async fn time_after(engine: &Engine, mut after: EventSeq) -> Result<Option<Timestamp>, EngineError> {
    loop {
        let filter = EventFilter { after: Some(after), order: Order::OldestFirst, ..EventFilter::default() };
        let page = engine.store().events(filter, PROBE).await?;
        if let Some(event) = page.iter().find(|event| is_ours(event)) {
            return Ok(Some(event.timestamp));
        }
        match page.last() {
            Some(last) => after = last.seq,
            None => return Ok(None),
        }
    }
}

struct Reading<'a> {
    wanted: &'a Simulate,
    shared: Shared,
    none: Arc<str>,
    targets: Targets,
    lanes: HashMap<(Arc<str>, Arc<str>), TargetId>,
    /// Jobs that are under way, and those that failed.
    open: HashMap<JobId, Story>,
    /// How many of them failed in the period.
    failed: usize,
    beyond_limit: HashSet<JobId>,
    base_load: BTreeMap<i64, u64>,
}

impl<'a> Reading<'a> {
    fn new(wanted: &'a Simulate) -> Reading<'a> {
        Reading {
            wanted,
            shared: Shared::default(),
            none: Arc::from(""),
            targets: Targets::default(),
            lanes: HashMap::new(),
            open: HashMap::new(),
            failed: 0,
            beyond_limit: HashSet::new(),
            base_load: BTreeMap::new(),
        }
    }

    /// The lane that an event belongs to, if that is asked for.
    fn lane(&mut self, event: &Event) -> Option<TargetId> {
        let (queue, kind) = (event.data.get("queue")?.as_str()?, event.data.get("kind")?.as_str()?);
        let asked_for = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|one| one == name);
        if !asked_for(&self.wanted.queue, queue) || !asked_for(&self.wanted.kind, kind) {
            return None;
        }
        let lane = (self.shared.text(queue), self.shared.text(kind));
        Some(*self.lanes.entry(lane).or_insert_with(|| self.targets.add()))
    }

    fn tell(&mut self, event: &Event) {
        let Some(id) = event.job else { return };
        let Some(target) = self.lane(event) else { return };
        // A job that was not tried yet is no story, and there may be millions of them.
        if event.event_type == "job_enqueued" {
            return;
        }
        let story = self.open.entry(id).or_insert_with(|| Story::new(id, target, &self.none));
        let before = story.job.attempts.len();
        story.tell(event, &mut self.shared);
        let is_failure =
            story.job.attempts.len() > before && story.has_failed() && event.error_info.is_some();
        let in_period = event.timestamp >= self.wanted.since && event.timestamp < self.wanted.until;
        if is_failure && in_period && !story.failed_in_period {
            if self.failed >= self.wanted.limit || self.beyond_limit.contains(&id) {
                self.beyond_limit.insert(id);
            } else {
                story.failed_in_period = true;
                self.failed += 1;
            }
        }
        if !story.failed_in_period && (story.is_over || self.beyond_limit.contains(&id)) {
            self.fold(id);
        }
    }

    /// A job that is not replayed: what it says about its lane is kept, and when its attempts began.
    fn fold(&mut self, id: JobId) {
        let Some(story) = self.open.remove(&id) else { return };
        story.observe(&mut self.targets);
        self.load(&story);
    }

    fn load(&mut self, story: &Story) {
        for attempt in &story.job.attempts {
            *self.base_load.entry(attempt.started_at.0.div_euclid(60_000)).or_default() += 1;
        }
    }

    async fn finish(mut self, engine: &Engine, ends_at: Moment) -> Result<Record, EngineError> {
        let others: Vec<JobId> =
            self.open.values().filter(|story| !story.failed_in_period).map(|story| story.id).collect();
        for id in others {
            if let Some(story) = self.open.get_mut(&id) {
                story.close(ends_at);
            }
            self.fold(id);
        }
        let mut stories: Vec<Story> = std::mem::take(&mut self.open).into_values().collect();
        stories.sort_by_key(|story| story.id);
        let mut without_beginning = 0;
        let mut kept = Vec::with_capacity(stories.len());
        for mut story in stories {
            if !story.is_whole {
                story = self.read_back(engine, &story).await?;
            }
            story.close(ends_at);
            story.observe(&mut self.targets);
            let wanted = self.wanted.cause.is_none_or(|cause| story.causes.contains(&cause));
            if story.is_whole && wanted {
                kept.push(story);
                continue;
            }
            without_beginning += u64::from(wanted);
            self.load(&story);
        }
        self.targets.finish();
        Ok(Record {
            stories: kept,
            targets: self.targets,
            base_load: self.base_load,
            ends_at,
            beyond_limit: self.beyond_limit.len() as u64,
            without_beginning,
        })
    }

    /// A story that began before the period, from its beginning.
    async fn read_back(&mut self, engine: &Engine, part: &Story) -> Result<Story, EngineError> {
        let filter = EventFilter { job: Some(part.id), order: Order::OldestFirst, ..EventFilter::default() };
        let events = engine.store().events(filter, LONGEST_STORY).await?;
        let mut story = Story::new(part.id, part.job.target, &self.none);
        for event in events.iter().filter(|event| event.data.get("queue").is_some()) {
            story.tell(event, &mut self.shared);
        }
        story.failed_in_period = true;
        Ok(story)
    }
}
