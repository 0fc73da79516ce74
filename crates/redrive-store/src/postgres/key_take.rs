//! Taking idempotency keys and finishing with them, for all callers of a group at once.
//!
//! Nobody waits for anybody here but for who takes the same new key in the same moment. What others have taken hold of, and what
//! somebody before in the group has changed, is left: its caller looks again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use tokio_postgres::Row;

use super::fault::Fault;
use super::key_rows::{KeyAnswerRow, KeyRenewRow, KeyTakeRow, KeyUnknownRow};
use super::line::{Line, args, column};
use super::memory::Need;
use super::operation::Call;
use super::texts::{sql, storable};
use super::tx::{Clock, Tx};
use crate::id::JobId;
use crate::idempotency::record::{self, Cells, Found};
use crate::idempotency::{Claimed, Finish, KeyClaim, KeyHold, KeyState, Meeting, Standing, StoredResponse};
use crate::seal::{Cell, Seals};
use crate::time::{Timestamp, whole_millis};
use crate::told::{self, KeyOf};

/// A claim that was not answered by reading alone.
#[derive(Debug)]
pub(super) struct Take {
    pub(super) claim: Arc<KeyClaim>,
    /// The record that was found, if one was.
    pub(super) found: Option<i64>,
}

/// What a holder says.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) hold: KeyHold,
    pub(super) wish: Wish,
}

#[derive(Debug)]
pub(super) enum Wish {
    Renew { hold_for: Duration },
    Complete { response: StoredResponse, keep_for: Duration },
    Release { why: Option<String> },
    GiveUp { why: String, keep_for: Duration },
}

/// What comes of a claim.
#[derive(Debug)]
pub(super) enum Met {
    Claimed(Claimed),
    /// Somebody else has changed something: look again.
    Changed,
    /// Somebody else has taken hold of the record, and is about to change it.
    Held,
    /// No key is taken while the store is about to move.
    Moving,
}

pub(super) type TakeCall = Call<Take, Met>;
/// Answered with nothing: somebody else has taken hold of the record; say it again.
pub(super) type WordCall = Call<Arc<Word>, Option<Finish>>;

impl Word {
    /// How much it is going to write, in rows of a common size.
    pub(super) fn weight(&self) -> usize {
        let Wish::Complete { response, .. } = &self.wish else { return 0 };
        response.body.as_ref().map_or(0, Vec::len) / 1024
    }
}

/// What must have a number before the transaction begins.
pub(super) fn needs(takes: &[TakeCall], words: &[WordCall]) -> Vec<Need> {
    let tells =
        |call: &WordCall| matches!(call.ask.wish, Wish::GiveUp { .. } | Wish::Release { why: Some(_) });
    if takes.iter().all(|call| call.ask.found.is_none()) && !words.iter().any(tells) {
        return Vec::new();
    }
    let names = [told::SOURCE, "idempotency_unknown", "idempotency_released"];
    names.into_iter().map(|name| Need::Name(name.to_owned())).collect()
}

/// A record that is ours until the end of the transaction.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: i64,
    pub(super) principal: String,
    pub(super) key: String,
    pub(super) endpoint: String,
    pub(super) standing: Standing,
    pub(super) incarnation: i64,
    pub(super) job: Option<JobId>,
    pub(super) created_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    /// Whether something is written about it in this transaction.
    changed: bool,
}

impl Record {
    pub(super) fn read(row: &Row) -> Result<Record, Fault> {
        let time = |at| column::<Option<i64>>(row, at).map(|at| at.map(Timestamp::from_millis));
        Ok(Record {
            id: column(row, 0)?,
            principal: column(row, 1)?,
            key: column(row, 2)?,
            endpoint: column(row, 3)?,
            standing: Standing {
                request_hash: column(row, 4)?,
                state: KeyState::from_number(column(row, 5)?),
                leased_until: time(7)?,
                expires_at: time(8)?,
            },
            incarnation: column(row, 6)?,
            job: column::<Option<i64>>(row, 9)?.map(JobId),
            created_at: Timestamp::from_millis(column(row, 10)?),
            ended_at: time(11)?,
            changed: false,
        })
    }

    fn of(&self) -> KeyOf<'_> {
        KeyOf { record: self.id, principal: &self.principal, key: &self.key, endpoint: &self.endpoint }
    }

    /// As a claim finds it. Who is to get its answer reads that, which is not here.
    fn found(&self) -> Found {
        Found {
            id: self.id,
            endpoint: self.endpoint.clone(),
            standing: self.standing.clone(),
            job: self.job,
            created_at: self.created_at,
            ended_at: self.ended_at,
            cells: Cells::default(),
        }
    }

    /// It has this holder now.
    fn is_held(&mut self, claim: &KeyClaim, hold: KeyHold, until: Timestamp) {
        self.id = hold.record;
        self.incarnation = hold.incarnation;
        self.endpoint.clone_from(&claim.endpoint);
        self.job = claim.job;
        self.standing = Standing {
            state: KeyState::InProgress,
            request_hash: claim.request_hash.clone(),
            leased_until: Some(until),
            expires_at: None,
        };
    }
}

/// What was taken and read for a group.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    /// The call that each of the transaction's first numbers is for.
    wanted: Vec<usize>,
    new: Vec<Row>,
    records: HashMap<i64, Record>,
    /// Records that are there, and not ours.
    elsewhere: HashSet<i64>,
}

impl Fetched {
    /// How many of the transaction's first numbers are given to new records.
    pub(super) fn numbers(&self) -> usize {
        self.wanted.len()
    }
}

/// The columns of new records.
#[derive(Default)]
struct New<'a> {
    principals: Vec<&'a str>,
    keys: Vec<&'a str>,
    endpoints: Vec<&'a str>,
    hashes: Vec<&'a str>,
    hold_ms: Vec<i64>,
    jobs: Vec<Option<i64>>,
    now: Vec<Option<i64>>,
}

/// Takes keys that nobody has, and takes hold of records.
pub(super) async fn fetch(
    line: &Line,
    clock: Clock,
    takes: &[TakeCall],
    words: &[WordCall],
) -> Result<Fetched, Fault> {
    let mut fetched = Fetched::default();
    // In one order everywhere; of several that want the same key the first gets it.
    let mut fresh: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut ids: Vec<i64> = words.iter().map(|call| call.ask.hold.record).collect();
    for (at, call) in takes.iter().enumerate() {
        match call.ask.found {
            Some(id) => ids.push(id),
            None => {
                fresh.entry((&call.ask.claim.principal, &call.ask.claim.key)).or_insert(at);
            }
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let mut new = New::default();
    for ((principal, key), at) in fresh {
        let (call, claim) = (&takes[at], &takes[at].ask.claim);
        new.principals.push(principal);
        new.keys.push(key);
        new.endpoints.push(&claim.endpoint);
        new.hashes.push(&claim.request_hash);
        new.hold_ms.push(whole_millis(claim.hold_for).min(FOREVER));
        new.jobs.push(claim.job.map(|job| job.0));
        new.now.push((clock == Clock::Caller).then(|| call.now.millis()));
        fetched.wanted.push(at);
    }
    let insert = async {
        if new.keys.is_empty() {
            return Ok(Vec::new());
        }
        let New { principals, keys, endpoints, hashes, hold_ms, jobs, now } = new;
        let new = args![principals, keys, endpoints, hashes, hold_ms, jobs, now];
        line.all(sql!("idempotency_insert"), new).await
    };
    let hold = async {
        if ids.is_empty() { Ok(Vec::new()) } else { line.all(sql!("idempotency_hold"), args![ids]).await }
    };
    let (new, found) = try_join(insert, hold).await?;
    fetched.new = new;
    for row in &found {
        let record = Record::read(row)?;
        fetched.records.insert(record.id, record);
    }
    let missing: Vec<i64> = ids.into_iter().filter(|id| !fetched.records.contains_key(id)).collect();
    if !missing.is_empty() {
        for row in line.all(sql!("idempotency_there"), args![missing]).await? {
            fetched.elsewhere.insert(column(&row, 0)?);
        }
    }
    Ok(fetched)
}

/// Longer than anybody holds anything, and short enough to be added to a time.
const FOREVER: i64 = 1 << 50;

/// Says what is written for those who take and those who hold.
pub(super) fn apply(
    tx: &mut Tx<'_>,
    fetched: Fetched,
    takes: &mut [TakeCall],
    words: &mut [WordCall],
) -> Result<(), Fault> {
    let Fetched { wanted, new, mut records, elsewhere } = fetched;
    for call in words.iter_mut() {
        let now = tx.now(call.now);
        call.result = Some(match records.get_mut(&call.ask.hold.record) {
            Some(record) => hear(tx, now, record, &call.ask)?,
            None if elsewhere.contains(&call.ask.hold.record) => None,
            None => Some(Finish::Lost),
        });
        if matches!((&call.ask.wish, &call.result), (Wish::Release { .. }, Some(Some(Finish::Done)))) {
            records.remove(&call.ask.hold.record);
        }
    }
    // New records, by whom they are for; who wanted the same key in this group finds it taken.
    let mut won: HashMap<usize, i64> = HashMap::new();
    let mut by_key: HashMap<(&str, &str), i64> = HashMap::new();
    let claims: Vec<Arc<KeyClaim>> = takes.iter().map(|call| Arc::clone(&call.ask.claim)).collect();
    for row in &new {
        let id: i64 = column(row, 0)?;
        let place = usize::try_from(id - tx.batch.first_event()).unwrap_or(usize::MAX);
        let at = *wanted.get(place).ok_or_else(|| misnumbered(id))?;
        let claim = &claims[at];
        let record = Record {
            id,
            principal: claim.principal.clone(),
            key: claim.key.clone(),
            endpoint: claim.endpoint.clone(),
            standing: Standing {
                state: KeyState::InProgress,
                request_hash: claim.request_hash.clone(),
                leased_until: Some(Timestamp::from_millis(column(row, 1)?)),
                expires_at: None,
            },
            incarnation: id,
            job: claim.job,
            created_at: Timestamp::from_millis(column(row, 2)?),
            ended_at: None,
            changed: true,
        };
        by_key.insert((&claim.principal, &claim.key), id);
        records.insert(id, record);
        won.insert(at, id);
    }
    for (at, call) in takes.iter_mut().enumerate() {
        if let Some(id) = won.get(&at) {
            let hold = KeyHold { record: *id, incarnation: *id };
            call.result = Some(Met::Claimed(Claimed::Taken { hold, again: false }));
            continue;
        }
        let claim = &claims[at];
        let id = call.ask.found.or_else(|| by_key.get(&(&*claim.principal, &*claim.key)).copied());
        call.result = Some(match id.and_then(|id| records.get_mut(&id)) {
            Some(record) => meet(tx, call.now, record, claim)?,
            None if id.is_some_and(|id| elsewhere.contains(&id)) => Met::Held,
            None if id.is_none() && tx.draining => Met::Moving,
            None => Met::Changed,
        });
    }
    Ok(())
}

fn misnumbered(id: i64) -> Fault {
    Fault::corrupt(format_args!("key record {id} has a number that was not given to it"))
}

/// What a claim does to a record, and is answered with.
fn meet(
    tx: &mut Tx<'_>,
    callers_now: Timestamp,
    record: &mut Record,
    claim: &KeyClaim,
) -> Result<Met, Fault> {
    let now = tx.now(callers_now);
    let meeting = Standing::meets(Some(&record.standing), claim, now);
    match meeting {
        // Its answer is read by looking again.
        Meeting::Replays => return Ok(Met::Changed),
        Meeting::Mismatch | Meeting::InFlight | Meeting::Unknown => {
            let mut found = record.found();
            let until = found.standing.leased_until;
            found.standing.leased_until = until.map(|until| tx.by_callers_clock(until, callers_now));
            return Ok(found.claimed(meeting, &tx.seals)?.map_or(Met::Changed, Met::Claimed));
        }
        _ if record.changed => return Ok(Met::Changed),
        Meeting::TakesAsNew | Meeting::TakesAgain | Meeting::Lapses { takes: true } if tx.draining => {
            return Ok(Met::Moving);
        }
        Meeting::TakesAsNew | Meeting::TakesAgain => {}
        Meeting::Lapses { takes } => {
            tell_unknown(tx, now, record.of(), told::FELL_SILENT)?;
            if !takes {
                become_unknown(tx, now, record, claim.keep_for);
                return Ok(Met::Claimed(Claimed::Unknown { since: now, job: record.job }));
            }
        }
    }
    let again = meeting != Meeting::TakesAsNew;
    let incarnation = tx.batch.next_event()?;
    let hold = KeyHold { record: if again { record.id } else { incarnation }, incarnation };
    let until = now.after(claim.hold_for);
    let created_at = if again { record.created_at } else { now };
    tx.batch.keys.takes.push(KeyTakeRow {
        id: record.id,
        new_id: hold.record,
        endpoint: claim.endpoint.clone(),
        request_hash: claim.request_hash.clone(),
        incarnation,
        leased_until: until.millis(),
        job_id: claim.job.map(|job| job.0),
        created_at: created_at.millis(),
    });
    record.changed = true;
    record.created_at = created_at;
    record.is_held(claim, hold, until);
    Ok(Met::Claimed(Claimed::Taken { hold, again }))
}

/// What a holder's word does to its record; nothing while somebody else's does something to it.
fn hear(tx: &mut Tx<'_>, now: Timestamp, record: &mut Record, word: &Word) -> Result<Option<Finish>, Fault> {
    if record.incarnation != word.hold.incarnation {
        return Ok(Some(Finish::Lost));
    }
    let is_said = match (&word.wish, record.standing.state) {
        (Wish::Release { .. }, KeyState::Completed) => return Ok(Some(Finish::Lost)),
        (_, KeyState::Completed) | (Wish::GiveUp { .. }, KeyState::UnknownOutcome) => true,
        _ => false,
    };
    if is_said {
        return Ok(Some(Finish::Done));
    }
    if record.changed {
        return Ok(None);
    }
    match &word.wish {
        Wish::Renew { hold_for } => {
            let until = now.after(*hold_for);
            let leased_until = until.millis();
            tx.batch.keys.renewals.push(KeyRenewRow { id: record.id, leased_until });
            record.standing.state = KeyState::InProgress;
            record.standing.leased_until = Some(until);
            record.standing.expires_at = None;
        }
        Wish::Complete { response, keep_for } => {
            let row = answer_row(&tx.seals, record.id, now, response, *keep_for)?;
            tx.batch.keys.answers.push(row);
            record.standing.state = KeyState::Completed;
            record.standing.expires_at = Some(now.after(*keep_for));
        }
        Wish::Release { why } => {
            tx.batch.keys.gone.push(record.id);
            if let Some(why) = why {
                let (of, source_id) = (record.of(), tx.memory.borrow().name(told::SOURCE)?);
                let caller_id = of.caller_id();
                tx.batch.event(now, told::idempotency_released(source_id, &caller_id, of, &storable(why)))?;
            }
        }
        Wish::GiveUp { why, keep_for } => {
            tell_unknown(tx, now, record.of(), &storable(why))?;
            become_unknown(tx, now, record, *keep_for);
        }
    }
    record.changed = true;
    Ok(Some(Finish::Done))
}

/// The answer as it is written.
pub(super) fn answer_row(
    seals: &Seals,
    id: i64,
    now: Timestamp,
    response: &StoredResponse,
    keep_for: Duration,
) -> Result<KeyAnswerRow, Fault> {
    let head = record::write_head(response);
    let body = response.body.as_deref().map(|body| seals.seal_bytes(Cell::KeyBody, id, body));
    Ok(KeyAnswerRow {
        id,
        status: i64::from(response.status),
        head: seals.seal_bytes(Cell::KeyHeaders, id, &head)?.into_owned(),
        body: body.transpose()?.map(std::borrow::Cow::into_owned),
        ended_at: now.millis(),
        expires_at: now.after(keep_for).millis(),
    })
}

/// The event of an outcome that nobody knows.
pub(super) fn tell_unknown(tx: &mut Tx<'_>, now: Timestamp, of: KeyOf<'_>, why: &str) -> Result<(), Fault> {
    let source_id = tx.memory.borrow().name(told::SOURCE)?;
    let caller_id = of.caller_id();
    tx.batch.event(now, told::idempotency_unknown(source_id, &caller_id, of, why))?;
    Ok(())
}

fn become_unknown(tx: &mut Tx<'_>, now: Timestamp, record: &mut Record, keep_for: Duration) {
    let expires_at = now.after(keep_for);
    tx.batch.keys.unknowns.push(KeyUnknownRow {
        id: record.id,
        ended_at: now.millis(),
        expires_at: expires_at.millis(),
    });
    record.standing.state = KeyState::UnknownOutcome;
    record.standing.leased_until = None;
    record.standing.expires_at = Some(expires_at);
    record.ended_at = Some(now);
    record.changed = true;
}
