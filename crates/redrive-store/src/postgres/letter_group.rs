//! Groups of letters. Transactions append how a group changes; who looks adds that to the group's row, and from time to time it
//! is added up for good.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use redrive_policy::Cause;
use tokio_postgres::Row;

use super::batch::{GroupPutRow, GroupPuts, GroupRow, GroupRows};
use super::fault::Fault;
use super::job::exactly;
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::texts::{sql, storable};
use super::tx::Tx;
use super::verb::{Question, Verb};
use super::wheres::Wheres;
#[cfg(feature = "sqlite")]
use crate::copy::{Record, Table, Value};
use crate::effects::{group_moved, sample_row};
use crate::letter_group::{Group, GroupCounts, GroupQuery, GroupState};
use crate::seal::{Cell, Seals};
use crate::time::Timestamp;
use crate::told;

/// A change that is not added up yet.
#[derive(Debug, Clone, Copy)]
struct Change {
    counts: GroupCounts,
    seen_at: Option<Timestamp>,
    at: Timestamp,
}

/// Changes by group, each in the order in which they happened.
type Changes = BTreeMap<String, Vec<Change>>;

/// Where a group stood, where it stands now, since when, and with how many letters.
struct Moved {
    from: GroupState,
    to: GroupState,
    at: Timestamp,
    letters: i64,
}

fn changes(rows: &[Row]) -> Result<Changes, Fault> {
    let mut changes = Changes::new();
    for row in rows {
        let change = Change {
            counts: counts(row, 1)?,
            seen_at: column::<Option<i64>>(row, 6)?.map(Timestamp::from_millis),
            at: Timestamp::from_millis(column(row, 7)?),
        };
        changes.entry(column(row, 0)?).or_default().push(change);
    }
    Ok(changes)
}

fn counts(row: &Row, at: usize) -> Result<GroupCounts, Fault> {
    Ok(GroupCounts {
        letters: column(row, at)?,
        failures: column(row, at + 1)?,
        under_way: column(row, at + 2)?,
        recovered: column(row, at + 3)?,
        relapsed: column(row, at + 4)?,
    })
}

/// A group as its row says. The sample is still sealed; without one it is that of a letter.
struct Stored {
    group: Group,
    sample: Option<String>,
}

fn read(row: &Row) -> Result<Stored, Fault> {
    let group = Group {
        fingerprint: column(row, 0)?,
        cause: column::<String>(row, 1)?.parse().unwrap_or(Cause::Unknown),
        error_type: column(row, 2)?,
        sample: String::new(),
        counts: counts(row, 4)?,
        first_seen: Timestamp::from_millis(column(row, 9)?),
        last_seen: Timestamp::from_millis(column(row, 10)?),
        state: GroupState::from_number(column(row, 11)?),
        state_since: Timestamp::from_millis(column(row, 12)?),
        note: column(row, 13)?,
    };
    Ok(Stored { group, sample: column(row, 3)? })
}

/// Adds changes to a group, one after the other; answers where that has led.
fn add(group: &mut Group, changes: &[Change]) -> Vec<Moved> {
    let mut moved = Vec::new();
    for change in changes {
        group.counts.add(change.counts);
        group.last_seen = change.seen_at.map_or(group.last_seen, |seen| group.last_seen.max(seen));
        let (from, to) = (group.state, group.counts.state_after(group.state, change.counts));
        if from != to {
            (group.state, group.state_since, group.note) = (to, change.at, None);
            moved.push(Moved { from, to, at: change.at, letters: group.counts.letters });
        }
    }
    moved
}

/// What is not added up yet, for a copy of the groups.
#[cfg(feature = "sqlite")]
pub(super) struct Pending(Changes);

#[cfg(feature = "sqlite")]
impl Pending {
    pub(super) async fn read(line: &Line) -> Result<Pending, Fault> {
        Ok(Pending(changes(&line.all(sql!("group_delta_list"), args![]).await?)?))
    }

    /// Adds it to a row on its way.
    pub(super) fn add_to(&self, table: &Table, record: &mut Record) {
        let at = |name: &str| table.columns.iter().position(|column| column.name == name);
        let Some(changes) = at("fingerprint").and_then(|at| match &record[at] {
            Value::Text(fingerprint) => self.0.get(fingerprint),
            _ => None,
        }) else {
            return;
        };
        let number = |name| at(name).and_then(|at| record[at].as_int()).unwrap_or_default();
        let mut group = Group {
            fingerprint: String::new(),
            cause: Cause::Unknown,
            error_type: String::new(),
            sample: String::new(),
            counts: GroupCounts {
                letters: number("letters"),
                failures: number("failures"),
                under_way: number("under_way"),
                recovered: number("recovered"),
                relapsed: number("relapsed"),
            },
            first_seen: Timestamp::default(),
            last_seen: Timestamp::from_millis(number("last_seen")),
            state: GroupState::from_number(number("state")),
            state_since: Timestamp::from_millis(number("state_since")),
            note: None,
        };
        let moved = !add(&mut group, changes).is_empty();
        let counts = group.counts;
        for (name, value) in [
            ("letters", counts.letters),
            ("failures", counts.failures),
            ("under_way", counts.under_way),
            ("recovered", counts.recovered),
            ("relapsed", counts.relapsed),
            ("last_seen", group.last_seen.millis()),
            ("state", group.state.number()),
            ("state_since", group.state_since.millis()),
        ] {
            if let Some(at) = at(name) {
                record[at] = Value::Int(value);
            }
        }
        if let (true, Some(at)) = (moved, at("note")) {
            record[at] = Value::Null;
        }
    }
}

/// Some groups.
pub(super) struct GroupsOf {
    pub(super) query: GroupQuery,
    pub(super) limit: u32,
}

impl Question for GroupsOf {
    type Answer = Vec<Group>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<Group>, Fault> {
        let pending = changes(&line.all(sql!("group_delta_list"), args![]).await?)?;
        let changed: Vec<&str> = pending.keys().map(String::as_str).collect();
        let mut found = Vec::new();
        // What changes may match only then, or no more: it is looked at by hand.
        for row in line.all(sql!("group_read"), args![changed]).await? {
            let mut stored = read(&row)?;
            if let Some(changes) = pending.get(&stored.group.fingerprint) {
                add(&mut stored.group, changes);
            }
            if self.matches(&stored.group) {
                found.push(stored);
            }
        }
        let wheres = self.wheres(pending.keys().cloned().collect());
        let behind = format!("ORDER BY g.letters DESC, g.last_seen DESC, g.fingerprint LIMIT {}", self.limit);
        let text = wheres.query(line.texts().schema(), sql!("group_list"), &behind);
        for row in line.all_of(&text, &wheres.args()).await? {
            found.push(read(&row)?);
        }
        found.sort_by(|one, other| place(&one.group).cmp(&place(&other.group)));
        found.truncate(self.limit as usize);
        with_samples(line, seals, found).await
    }
}

/// The most letters first, then what was seen last.
fn place(group: &Group) -> (i64, i64, &str) {
    (-group.counts.letters, -group.last_seen.millis(), &group.fingerprint)
}

impl GroupsOf {
    fn matches(&self, group: &Group) -> bool {
        let GroupQuery { states, cause, prefix } = &self.query;
        (states.is_empty() || states.contains(&group.state))
            && cause.is_none_or(|cause| group.cause == cause)
            && prefix.as_ref().is_none_or(|prefix| group.fingerprint.starts_with(prefix.as_str()))
    }

    fn wheres(&self, without: Vec<String>) -> Wheres {
        let GroupQuery { states, cause, prefix } = &self.query;
        let mut wheres = Wheres::default();
        if !without.is_empty() {
            wheres.must_with("g.fingerprint <> ALL ({})", without);
        }
        if !states.is_empty() {
            let states: Vec<i64> = states.iter().map(|state| state.number()).collect();
            wheres.must_with("g.state = ANY ({})", states);
        }
        if let Some(cause) = cause {
            wheres.must_with("g.cause = {}", cause.name().to_owned());
        }
        if let Some(prefix) = prefix {
            wheres.must_be("g.fingerprint ^@ {}", prefix);
        }
        wheres
    }
}

/// Opens the samples. A group from before samples were kept has the words of one of its letters.
async fn with_samples(line: &Line, seals: &Seals, stored: Vec<Stored>) -> Result<Vec<Group>, Fault> {
    let without: Vec<&str> = stored
        .iter()
        .filter(|stored| stored.sample.is_none())
        .map(|stored| stored.group.fingerprint.as_str())
        .collect();
    let mut words: HashMap<String, String> = HashMap::new();
    if !without.is_empty() {
        for row in line.all(sql!("group_sample"), args![without]).await? {
            let message = seals.open_text(Cell::LetterMessage, column(&row, 1)?, column(&row, 2)?)?;
            words.insert(column(&row, 0)?, message);
        }
    }
    let opened = |Stored { mut group, sample }| {
        group.sample = match sample {
            Some(sample) => seals.open_text(Cell::GroupSample, sample_row(&group.fingerprint), sample)?,
            None => words.remove(&group.fingerprint).unwrap_or_default(),
        };
        Ok(group)
    };
    stored.into_iter().map(opened).collect()
}

/// What has to have a number before groups are added up.
pub(super) fn needs() -> Vec<Need> {
    let types = GroupState::ALL.map(GroupState::event_type);
    types.into_iter().chain([told::SOURCE]).map(|name| Need::Name(name.to_owned())).collect()
}

/// Adds up how groups have changed: one of them, or so many changes of all. Answers how many changes.
pub(super) async fn fold(tx: &mut Tx<'_>, of: Option<&str>, most: i64) -> Result<u64, Fault> {
    let rows = tx.line.all(sql!("group_delta_take"), args![of, most]).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let pending = changes(&rows)?;
    let changed: Vec<&str> = pending.keys().map(String::as_str).collect();
    let mut found = tx.line.all(sql!("group_read"), args![changed]).await?;
    if found.len() < changed.len() {
        restore(tx, &pending, &found).await?;
        found = tx.line.all(sql!("group_read"), args![changed]).await?;
    }
    let mut groups = Vec::with_capacity(found.len());
    let source_id = tx.memory.borrow().name(told::SOURCE)?;
    for row in &found {
        let mut group = read(row)?.group;
        let its = pending.get(&group.fingerprint).map(Vec::as_slice).unwrap_or_default();
        for moved in add(&mut group, its) {
            let Moved { from, to, at, letters } = moved;
            tx.batch.event(at, group_moved(source_id, &group.fingerprint, from, to, letters, None))?;
        }
        groups.push(group);
    }
    put(tx, &groups).await?;
    Ok(rows.len() as u64)
}

/// Groups that went while somebody added to them come back: from one of their letters, as far as that is there.
async fn restore(tx: &Tx<'_>, pending: &Changes, found: &[Row]) -> Result<(), Fault> {
    let known: HashSet<&str> = found.iter().map(|row| column(row, 0)).collect::<Result<_, Fault>>()?;
    let missing: Vec<&str> = pending.keys().map(String::as_str).filter(|one| !known.contains(one)).collect();
    let mut letters: HashMap<String, (String, String, String)> = HashMap::new();
    for row in tx.line.all(sql!("group_sample"), args![missing]).await? {
        let message = tx.seals.open_text(Cell::LetterMessage, column(&row, 1)?, column(&row, 2)?)?;
        letters.insert(column(&row, 0)?, (column(&row, 3)?, column(&row, 4)?, message));
    }
    let mut rows = GroupRows::default();
    for fingerprint in missing {
        let (cause, error_type, message) = letters
            .remove(fingerprint)
            .unwrap_or_else(|| (Cause::Unknown.name().to_owned(), String::new(), String::new()));
        let sample = tx.seals.seal_text(Cell::GroupSample, sample_row(fingerprint), &message)?.into_owned();
        let first = pending[fingerprint].iter().map(|change| change.at.millis()).min().unwrap_or_default();
        rows.push(GroupRow {
            fingerprint: fingerprint.to_owned(),
            cause,
            error_type,
            sample,
            first_seen: first,
            last_seen: first,
            since: first,
        });
    }
    tx.line.run(sql!("group_insert"), &rows.args()).await?;
    Ok(())
}

async fn put(tx: &Tx<'_>, groups: &[Group]) -> Result<(), Fault> {
    let mut rows = GroupPuts::default();
    for group in groups {
        rows.push(GroupPutRow {
            fingerprint: group.fingerprint.clone(),
            letters: group.counts.letters,
            failures: group.counts.failures,
            under_way: group.counts.under_way,
            recovered: group.counts.recovered,
            relapsed: group.counts.relapsed,
            last_seen: group.last_seen.millis(),
            state: group.state.number(),
            state_since: group.state_since.millis(),
            note: group.note.clone(),
        });
    }
    exactly(groups.len() as u64, tx.line.run(sql!("group_put"), &rows.args()).await?)
}

/// A person says where a group stands.
pub(super) struct SetGroupState {
    pub(super) now: Timestamp,
    pub(super) fingerprint: String,
    pub(super) state: GroupState,
    pub(super) note: Option<String>,
}

impl Verb for SetGroupState {
    type Answer = Option<Group>;

    fn needs(&self) -> Vec<Need> {
        needs()
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Group>, Fault> {
        let now = tx.now(self.now);
        let fingerprint = storable(&self.fingerprint);
        fold(tx, Some(&fingerprint), i64::MAX).await?;
        let rows = tx.line.all(sql!("group_read"), args![vec![fingerprint.as_str()]]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut stored = read(row)?;
        let from = stored.group.state;
        stored.group.state = self.state;
        stored.group.note = self.note.as_deref().map(storable);
        if from != self.state {
            stored.group.state_since = now;
        }
        put(tx, std::slice::from_ref(&stored.group)).await?;
        let source_id = tx.memory.borrow().name(told::SOURCE)?;
        let letters = stored.group.counts.letters;
        let note = stored.group.note.as_deref();
        tx.batch.event(now, group_moved(source_id, &fingerprint, from, self.state, letters, note))?;
        Ok(with_samples(tx.line, &tx.seals, vec![stored]).await?.pop())
    }
}
