//! What this process remembers between transactions. Names and lanes are committed before anybody uses them and are never
//! deleted, so what is known stays true.

use std::collections::HashMap;

use super::fault::Fault;
use super::line::{Line, args, column};
use super::texts::sql;

/// The most names that are remembered: a program that invents sources does not fill our memory. More than twice what one
/// call can name, so that a call whose names were forgotten under it finds room for all of them the next time.
const MOST_NAMES: usize = 50_000;

/// The types of the events that the store writes by itself.
pub(super) const EVENT_TYPES: &[&str] = &[
    "job_enqueued",
    "attempt_started",
    "attempt_succeeded",
    "attempt_failed",
    "job_dead",
    "job_snoozed",
    "job_released",
    "job_parked",
    "job_cancelled",
    "stale_settle",
    "manual_retry",
    "letter_expired",
    "redrive",
];

/// The jobs of one kind in one queue.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) id: i64,
    pub(super) queue_id: i64,
    pub(super) queue: String,
    pub(super) kind: String,
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    names: HashMap<String, i64>,
    texts: HashMap<i64, String>,
    lanes: HashMap<String, HashMap<String, i64>>,
    by_id: HashMap<i64, Lane>,
    /// Whether some queue was paused when the last transaction began.
    pub(super) some_paused: bool,
}

/// What an operation has to have a number for before its transaction begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Need {
    Name(String),
    Lane { queue: String, kind: String },
}

impl Memory {
    fn knows(&self, need: &Need) -> bool {
        match need {
            Need::Name(text) => self.names.contains_key(text),
            Need::Lane { queue, kind } => self.lane(queue, kind).is_some(),
        }
    }

    /// What of these is not known yet.
    pub(super) fn lacks(&self, needs: impl IntoIterator<Item = Need>) -> Vec<Need> {
        let mut lacking: Vec<Need> = needs.into_iter().filter(|need| !self.knows(need)).collect();
        lacking.sort_by_key(|need| format!("{need:?}"));
        lacking.dedup();
        lacking
    }

    pub(super) fn lane(&self, queue: &str, kind: &str) -> Option<&Lane> {
        self.by_id.get(self.lanes.get(queue)?.get(kind)?)
    }

    /// How many lanes are known.
    pub(super) fn lanes_known(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn lane_of(&self, id: i64) -> Option<&Lane> {
        self.by_id.get(&id)
    }

    pub(super) fn text_of(&self, name: i64) -> Option<&str> {
        self.texts.get(&name).map(String::as_str)
    }

    /// The number of a name that was asked for before.
    pub(super) fn name(&self, text: &str) -> Result<i64, Fault> {
        self.names
            .get(text)
            .copied()
            // Learnt before, and forgotten since for others' sake: the next time it is learnt again.
            .ok_or_else(|| Fault::Again(format!("the name {text:?} has no number")))
    }

    /// The lanes of these kinds in these queues (none named: all of them), as far as they are known.
    pub(super) fn lanes_of(&self, queues: &[String], kinds: &[String]) -> Vec<i64> {
        let has = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        let chosen = |lane: &&Lane| has(queues, &lane.queue) && has(kinds, &lane.kind);
        let mut ids: Vec<i64> = self.by_id.values().filter(chosen).map(|lane| lane.id).collect();
        ids.sort_unstable();
        ids
    }

    /// The lanes of this queue and this kind, each of which may be any, as far as they are known.
    pub(super) fn lanes_named(&self, queue: Option<&str>, kind: Option<&str>) -> Vec<i64> {
        let chosen = |lane: &&Lane| {
            queue.is_none_or(|queue| queue == lane.queue) && kind.is_none_or(|kind| kind == lane.kind)
        };
        let mut ids: Vec<i64> = self.by_id.values().filter(chosen).map(|lane| lane.id).collect();
        ids.sort_unstable();
        ids
    }

    fn remember_name(&mut self, id: i64, text: &str) {
        if self.names.len() >= MOST_NAMES {
            let keep = |text: &String| EVENT_TYPES.contains(&text.as_str());
            self.names.retain(|text, _| keep(text));
            self.texts.retain(|_, text| keep(text));
        }
        self.names.insert(text.to_owned(), id);
        self.texts.insert(id, text.to_owned());
    }

    fn remember_lane(&mut self, lane: Lane) {
        self.lanes.entry(lane.queue.clone()).or_default().insert(lane.kind.clone(), lane.id);
        self.by_id.insert(lane.id, lane);
    }
}

/// Looks up or makes what is lacking, outside of any transaction.
pub(super) async fn learn(
    line: &Line,
    memory: &std::cell::RefCell<Memory>,
    lacking: &[Need],
) -> Result<(), Fault> {
    for need in lacking {
        match need {
            Need::Name(text) => {
                // Looking first: a sequence whose numbers are burnt by every conflict would grow without end.
                let mut found = line.first(sql!("name_find"), args![text.as_str()]).await?;
                if found.is_none() {
                    line.run(sql!("name_intern"), args![text.as_str()]).await?;
                    found = line.first(sql!("name_find"), args![text.as_str()]).await?;
                }
                let row = found.ok_or_else(|| Fault::Again(format!("the name {text:?} is gone")))?;
                memory.borrow_mut().remember_name(column(&row, 0)?, text);
            }
            Need::Lane { queue, kind } => {
                let (queue_name, kind_name) = (queue.as_str(), kind.as_str());
                let key = args![queue_name, kind_name];
                let mut found = line.first(sql!("lane_find"), key).await?;
                if found.is_none() {
                    line.run(sql!("queue_intern"), args![queue.as_str()]).await?;
                    line.run(sql!("lane_insert"), key).await?;
                    found = line.first(sql!("lane_find"), key).await?;
                }
                let row = found.ok_or_else(|| Fault::Again(format!("the lane {queue}/{kind} is gone")))?;
                let found_lane = Lane {
                    id: column(&row, 0)?,
                    queue_id: column(&row, 1)?,
                    queue: queue.clone(),
                    kind: kind.clone(),
                };
                memory.borrow_mut().remember_lane(found_lane);
            }
        }
    }
    Ok(())
}

/// Every lane that there is now: others may have made some.
pub(super) async fn learn_lanes(line: &Line, memory: &std::cell::RefCell<Memory>) -> Result<(), Fault> {
    let rows = line.all(sql!("lane_list"), args![]).await?;
    let mut memory = memory.borrow_mut();
    for row in rows {
        let found_lane = Lane {
            id: column(&row, 0)?,
            queue_id: column(&row, 1)?,
            queue: column(&row, 2)?,
            kind: column(&row, 3)?,
        };
        if !memory.by_id.contains_key(&found_lane.id) {
            memory.remember_lane(found_lane);
        }
    }
    Ok(())
}

/// The texts of names that were met by their number.
pub(super) async fn learn_texts(
    line: &Line,
    memory: &std::cell::RefCell<Memory>,
    numbers: impl IntoIterator<Item = i64>,
) -> Result<(), Fault> {
    let mut unknown: Vec<i64> =
        numbers.into_iter().filter(|number| !memory.borrow().texts.contains_key(number)).collect();
    unknown.sort_unstable();
    unknown.dedup();
    if unknown.is_empty() {
        return Ok(());
    }
    let rows = line.all(sql!("name_read"), args![unknown]).await?;
    let mut memory = memory.borrow_mut();
    for row in rows {
        memory.remember_name(column(&row, 0)?, column(&row, 1)?);
    }
    Ok(())
}
