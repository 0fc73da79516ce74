//! The stream: appending, importing, reading, pruning.
//!
//! A row keeps in columns what most events have and in `detail` (JSON) what few have. Reading puts the fields of R-E2
//! together again, the decision of a plain success included.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::{adapt, sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use super::wheres::Wheres;
use crate::event::{Aside, Event, EventFilter, EventId, EventStatus, ImportedEvent, NewEvent, Order, Scrap};
use crate::id::{EventSeq, JobId};
use crate::row::{self, Columns, Detail, EventRow};
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;

pub(super) fn needs<'a>(events: impl Iterator<Item = &'a NewEvent>) -> Vec<Need> {
    let names: HashSet<&str> = events.flat_map(|event| [&*event.event_type, &*event.source]).collect();
    names.into_iter().map(|name| Need::Name(name.to_owned())).collect()
}

/// Appends an event that this one led to, unless it names another.
pub(super) fn append_led(
    tx: &mut Tx<'_>,
    now: Timestamp,
    event: &NewEvent,
    led_by: i64,
) -> Result<i64, Fault> {
    write(tx, now, event, Detail::default(), None, event.parent.or(Some(EventSeq(led_by))))
}

fn write(
    tx: &mut Tx<'_>,
    at: Timestamp,
    event: &NewEvent,
    came_with: Detail,
    imported_at: Option<i64>,
    parent: Option<EventSeq>,
) -> Result<i64, Fault> {
    let source_id = tx.memory.borrow().name(&event.source)?;
    // Tags are looked for by the database, which reads no NUL out of JSON either.
    let mut event = Cow::Borrowed(event);
    if event.tags.iter().any(|tag| tag.contains('\0')) {
        event.to_mut().tags = event.tags.iter().map(|tag| storable(tag)).collect();
    }
    let row = EventRow { imported_at, ..row::reported(&event, came_with, parent, source_id)? };
    tx.batch.event(at, row)
}

/// Appends what people and programs report.
pub(super) struct Append {
    pub(super) now: Timestamp,
    pub(super) events: Vec<NewEvent>,
}

impl Verb for Append {
    type Answer = Vec<(EventSeq, EventId)>;

    fn needs(&self) -> Vec<Need> {
        needs(self.events.iter())
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<(EventSeq, EventId)>, Fault> {
        let now = tx.now(self.now);
        append(tx, now, &self.events)
    }
}

/// Appends what was reported.
pub(super) fn append(
    tx: &mut Tx<'_>,
    now: Timestamp,
    events: &[NewEvent],
) -> Result<Vec<(EventSeq, EventId)>, Fault> {
    let append_one = |event: &NewEvent| {
        let seq = EventSeq(write(tx, now, event, Detail::default(), None, event.parent)?);
        Ok((seq, seq.event_id(now)))
    };
    events.iter().map(append_one).collect()
}

/// Appends events from elsewhere, and keeps aside what could not be read.
pub(super) struct Import {
    pub(super) now: Timestamp,
    pub(super) events: Vec<ImportedEvent>,
    pub(super) scraps: Vec<Scrap>,
}

impl Verb for Import {
    type Answer = u64;

    fn needs(&self) -> Vec<Need> {
        needs(self.events.iter().map(|imported| &imported.event))
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<u64, Fault> {
        let now = tx.now(self.now);
        let ids = self.events.iter().map(|imported| &imported.event_id);
        let parents = self.events.iter().filter_map(|imported| imported.parent_event_id.as_ref());
        let mut known = seqs_of(tx.line, ids.chain(parents).map(String::as_str)).await?;
        let (mut added, mut seqs) = (Vec::new(), Vec::new());
        for imported in &self.events {
            if known.contains_key(&*imported.event_id) {
                continue;
            }
            let parent = imported.parent_event_id.as_deref().and_then(|id| known.get(id)).copied();
            let came_with = Detail::imported(&imported.event_id, imported.parent_event_id.as_deref());
            let imported_at = Some(now.millis());
            let seq = write(tx, imported.at, &imported.event, came_with, imported_at, parent)?;
            known.insert(&imported.event_id, EventSeq(seq));
            added.push(&*imported.event_id);
            seqs.push(seq);
        }
        if !added.is_empty() {
            let written = tx.line.run(sql!("event_alias_insert"), args![added, seqs]).await?;
            exactly(added.len() as u64, written)?;
        }
        self.keep_aside(tx, now).await?;
        Ok(added.len() as u64)
    }
}

impl Import {
    async fn keep_aside(&self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(), Fault> {
        if self.scraps.is_empty() {
            return Ok(());
        }
        let mut ids = Vec::with_capacity(self.scraps.len());
        let (mut whys, mut texts) = (Vec::new(), Vec::new());
        for scrap in &self.scraps {
            let id = tx.batch.next_event()?;
            ids.push(id);
            whys.push(tx.seals.seal_text(Cell::AsideWhy, id, &storable(&scrap.why))?.into_owned());
            texts.push(tx.seals.seal_bytes(Cell::AsideText, id, &scrap.text)?.into_owned());
        }
        let origins: Vec<String> = self.scraps.iter().map(|scrap| storable(&scrap.origin)).collect();
        let lines: Vec<i64> =
            self.scraps.iter().map(|scrap| i64::try_from(scrap.line).unwrap_or(i64::MAX)).collect();
        tx.line.run(sql!("aside_insert"), args![ids, now.millis(), origins, lines, whys, texts]).await?;
        Ok(())
    }
}

/// The places of the events known by these ids: those that came from elsewhere, and those of ours whose time is right,
/// too.
pub(super) async fn seqs_of<'a>(
    line: &Line,
    ids: impl Iterator<Item = &'a str>,
) -> Result<HashMap<&'a str, EventSeq>, Fault> {
    let ids: Vec<&str> = ids.filter(|id| !id.contains('\0')).collect();
    let mut found: HashMap<String, EventSeq> = HashMap::new();
    for row in line.all(sql!("event_alias_find"), args![ids]).await? {
        found.insert(column(&row, 0)?, EventSeq(column(&row, 1)?));
    }
    let mut places: HashMap<&str, EventSeq> =
        ids.iter().filter_map(|id| Some((*id, *found.get(*id)?))).collect();
    let ours: Vec<(&str, EventSeq)> = ids
        .iter()
        .filter(|id| !places.contains_key(**id))
        .filter_map(|id| Some((*id, EventSeq::from_event_id(id)?)))
        .collect();
    if ours.is_empty() {
        return Ok(places);
    }
    let seqs: Vec<i64> = ours.iter().map(|(_, seq)| seq.0).collect();
    let mut times: HashMap<i64, i64> = HashMap::new();
    for row in line.all(sql!("event_at"), args![seqs]).await? {
        times.insert(column(&row, 0)?, column(&row, 1)?);
    }
    let is_right = |(id, seq): &(&str, EventSeq)| {
        times.get(&seq.0).is_some_and(|at| seq.event_id(Timestamp::from_millis(*at)) == *id)
    };
    places.extend(ours.into_iter().filter(is_right));
    Ok(places)
}

fn read(row: &Row, seals: &Seals) -> Result<Event, Fault> {
    let columns = Columns {
        seq: column(row, 0)?,
        at: column(row, 1)?,
        event_type: column(row, 2)?,
        source: column(row, 3)?,
        status: column(row, 4)?,
        job: column(row, 5)?,
        queue: column(row, 6)?,
        kind: column(row, 7)?,
        parent: column(row, 8)?,
        attempt: column(row, 9)?,
        retries: column(row, 10)?,
        max_retries: column(row, 11)?,
        latency_ms: column(row, 12)?,
        exit_code: column(row, 13)?,
        importance: column(row, 14)?,
        hypothesis: column(row, 15)?,
        caller_id: column(row, 16)?,
        detail: column(row, 17)?,
        parent_at: column(row, 18)?,
        tags: column(row, 19)?,
    };
    Ok(columns.into_event(seals)?)
}

/// The event known by this id.
pub(super) struct EventOf {
    pub(super) id: String,
}

impl Question for EventOf {
    type Answer = Option<Event>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Option<Event>, Fault> {
        let places = seqs_of(line, std::iter::once(&*self.id)).await?;
        let Some(seq) = places.get(&*self.id) else { return Ok(None) };
        let mut wheres = Wheres::default();
        wheres.must_with("e.seq = {}", seq.0);
        Ok(list(line, seals, &wheres, "").await?.into_iter().next())
    }
}

async fn list(line: &Line, seals: &Seals, wheres: &Wheres, behind: &str) -> Result<Vec<Event>, Fault> {
    let text = wheres.query(line.texts().schema(), sql!("event_list"), behind);
    line.all_of(&text, &wheres.args()).await?.iter().map(|row| read(row, seals)).collect()
}

/// Events that match.
pub(super) struct EventsOf {
    pub(super) filter: EventFilter,
    pub(super) limit: u32,
}

impl Question for EventsOf {
    type Answer = Vec<Event>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Event>, Fault> {
        if let Some(job) = self.filter.job {
            return self.of_job(line, seals, job).await;
        }
        let order = match self.filter.order {
            Order::NewestFirst => "DESC",
            Order::OldestFirst => "ASC",
        };
        list(line, seals, &self.wheres(), &format!("ORDER BY e.seq {order} LIMIT {}", self.limit)).await
    }
}

/// The most events that are looked at for one job: stories are short, but a job may be snoozed for years.
const LONGEST_STORY: u32 = 10_000;

impl EventsOf {
    fn wheres(&self) -> Wheres {
        let filter = &self.filter;
        let mut wheres = Wheres::default();
        if !filter.types.is_empty() {
            let types: Vec<String> = filter.types.iter().map(|name| storable(name)).collect();
            wheres.must_with("e.type_id IN (SELECT n.id FROM redrive.name n WHERE n.text = ANY ({}))", types);
        }
        if let Some(source) = &filter.source {
            wheres.must_be("e.source_id = (SELECT n.id FROM redrive.name n WHERE n.text = {})", source);
        }
        if !filter.statuses.is_empty() {
            let statuses: Vec<i64> = filter.statuses.iter().map(|status| *status as i64).collect();
            wheres.must_with("e.status = ANY ({})", statuses);
            // Said in the words of the partial index, without which it is not used.
            if filter.statuses.iter().all(|status| *status >= EventStatus::Failed) {
                wheres.must("e.status >= 3");
            }
        }
        if let Some(hypothesis) = &filter.hypothesis {
            wheres.must_be("e.hypothesis = {}", hypothesis);
        }
        if let Some(caller_id) = &filter.caller_id {
            wheres.must_be("e.caller_id = {}", caller_id);
        }
        if !filter.tags.is_empty() {
            let tags: Vec<String> = filter.tags.iter().map(|tag| storable(tag)).collect();
            wheres.must_with("e.tags::jsonb ?| {}", tags);
        }
        for (text, bound) in [
            ("e.at >= {}", filter.since.map(Timestamp::millis)),
            ("e.at < {}", filter.until.map(Timestamp::millis)),
            ("e.seq > {}", filter.after.map(|after| after.0)),
            ("e.seq < {}", filter.before.map(|before| before.0)),
        ] {
            if let Some(bound) = bound {
                wheres.must_with(text, bound);
            }
        }
        wheres
    }

    async fn of_job(&self, line: &Line, seals: &Seals, job: JobId) -> Result<Vec<Event>, Fault> {
        let latest = line.first(sql!("job_latest"), args![vec![job.0]]).await?;
        let mut story = match latest {
            // What led to its enqueuing is another's story, which may be long.
            Some(row) => chain(line, seals, EventSeq(column(&row, 1)?), LONGEST_STORY, Some(job)).await?,
            None => Vec::new(),
        };
        story.extend(beside(line, seals, job).await?);
        story.retain(|event| row::matches(event, job, &self.filter));
        story.sort_by_key(|event| event.seq);
        story.dedup_by_key(|event| event.seq);
        if self.filter.order == Order::NewestFirst {
            story.reverse();
        }
        story.truncate(self.limit as usize);
        Ok(story)
    }
}

/// What was told about a job from beside its story: by people and programs, or by who came too late.
async fn beside(line: &Line, seals: &Seals, job: JobId) -> Result<Vec<Event>, Fault> {
    let mut wheres = Wheres::default();
    wheres.must_with("e.job_id = {}", job.0);
    wheres.must("e.lane_id IS NULL");
    list(line, seals, &wheres, &format!("ORDER BY e.seq DESC LIMIT {LONGEST_STORY}")).await
}

/// An event and everything that led to it, the oldest first; only as far as it is about a job, if asked.
async fn chain(
    line: &Line,
    seals: &Seals,
    seq: EventSeq,
    limit: u32,
    job: Option<JobId>,
) -> Result<Vec<Event>, Fault> {
    let text = format!(
        "{} {} JOIN chain c ON c.seq = e.seq ORDER BY c.depth",
        sql!("event_chain").trim_end(),
        sql!("event_list").trim_end()
    );
    let text = adapt(&text, line.texts().schema());
    let rows = line.all_of(&text, args![seq.0, i64::from(limit), job.map(|job| job.0)]).await?;
    let mut chain: Vec<Event> = rows.iter().map(|row| read(row, seals)).collect::<Result<_, _>>()?;
    // A parent stands before its child; an import may say otherwise, and must not lead us in circles.
    let mut seen = HashSet::new();
    let straight = chain.iter().take_while(|event| seen.insert(event.seq)).count();
    chain.truncate(straight);
    chain.reverse();
    Ok(chain)
}

/// The event and everything that led to it.
pub(super) struct Causality {
    pub(super) seq: EventSeq,
    pub(super) limit: u32,
}

impl Question for Causality {
    type Answer = Vec<Event>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Event>, Fault> {
        chain(line, seals, self.seq, self.limit, None).await
    }
}

/// Lines that were kept aside.
pub(super) struct Asides {
    pub(super) after: i64,
    pub(super) limit: u32,
}

impl Question for Asides {
    type Answer = Vec<Aside>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Aside>, Fault> {
        let rows = line.all(sql!("aside_list"), args![self.after, i64::from(self.limit)]).await?;
        let read = |row: &Row| {
            let id = column(row, 0)?;
            Ok(Aside {
                id,
                at: Timestamp::from_millis(column(row, 1)?),
                scrap: Scrap {
                    origin: column(row, 2)?,
                    line: u64::try_from(column::<i64>(row, 3)?).unwrap_or(0),
                    why: seals.open_text(Cell::AsideWhy, id, column(row, 4)?)?,
                    text: seals.open_bytes(Cell::AsideText, id, column(row, 5)?)?,
                },
            })
        };
        rows.iter().map(read).collect()
    }
}

/// Deletes the next stretch of old events that nobody needs; answers how many, and whether more of them are old.
pub(super) async fn prune(tx: &mut Tx<'_>, before: Timestamp, limit: u32) -> Result<(u64, bool), Fault> {
    tx.batch.write(tx.line).await?;
    let cursor = tx.line.first(sql!("store_pruned_to"), args![]).await?;
    let cursor: i64 = cursor.map_or(Ok(0), |row| column(&row, 0))?;
    let rows = tx.line.all(sql!("event_old"), args![cursor, i64::from(limit)]).await?;
    let (mut looked_at, mut reached, mut gone) = (0_u32, 0, Vec::new());
    for row in &rows {
        // Times follow the sequence, so the first young one ends the round. What was imported is as old as its import.
        if column::<i64>(row, 1)? >= before.millis() {
            break;
        }
        looked_at += 1;
        reached = column(row, 0)?;
        if !column::<bool>(row, 2)? {
            gone.push(reached);
        }
    }
    if !gone.is_empty() {
        delete(tx, &gone).await?;
    }
    // At the end of the old ones it begins again: jobs end, and then their events may go.
    let reached = if looked_at < limit { 0 } else { reached };
    if reached != cursor {
        exactly(1, tx.line.run(sql!("store_prune_to"), args![reached]).await?)?;
    }
    Ok((gone.len() as u64, reached != 0))
}

async fn delete(tx: &mut Tx<'_>, seqs: &[i64]) -> Result<(), Fault> {
    let rows = tx.line.all(sql!("event_delete"), args![seqs]).await?;
    exactly(seqs.len() as u64, rows.len() as u64)?;
    let (mut jobs, mut lasts, mut imported, mut failed) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for row in &rows {
        let seq: i64 = column(row, 0)?;
        if let Some(job) = column::<Option<i64>>(row, 1)? {
            jobs.push(job);
            lasts.push(seq);
        }
        if column(row, 2)? {
            imported.push(seq);
        }
        failed += i64::from(column::<i64>(row, 3)? == EventStatus::Failed as i64);
    }
    tx.batch.events_went(i64::try_from(rows.len()).unwrap_or(i64::MAX), failed);
    tx.line.run(sql!("ended_delete"), args![jobs, lasts]).await?;
    if !imported.is_empty() {
        tx.line.run(sql!("event_alias_drop"), args![imported]).await?;
    }
    Ok(())
}
