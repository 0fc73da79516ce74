//! Idempotency keys: taken before their request is run, completed with its answer.
//!
//! A claim looks first, together with all others that look in the same moment, and is mostly answered by that. Who is to take a key
//! shares a transaction with everybody else who writes, and so do those who hold one.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_postgres::Row;

use super::Postgres;
use super::complete_in::EnqueueForKey;
use super::desk::Handle;
use super::fault::Fault;
use super::job::exactly;
use super::key_look::{Looked, Seen};
use super::key_rows::KeyUnknownRow;
use super::key_take::{Met, Take, Wish, Word, tell_unknown};
use super::line::{Line, args, column};
use super::memory::{Memory, Need};
use super::operation::{Call, Op, TakeAnswer};
use super::texts::{sql, storable};
use super::tx::{Isolation, Tx};
use super::verb::{Question, Verb};
use super::wheres::Wheres;
use crate::Answer;
use crate::error::{StoreError, Trouble};
use crate::idempotency::record::{self, Cells, Stored};
use crate::idempotency::{
    Claimed, Finish, Idempotency, KeyClaim, KeyCounts, KeyHold, KeyQuery, KeyRecord, KeyState, KeyedRequest,
    KeysSwept, StoredResponse,
};
use crate::job::{Enqueued, NewJob, validate};
use crate::seal::Seals;
use crate::time::Timestamp;
use crate::told::{self, KeyOf};

/// The lane of what is counted for no queue.
const NO_LANE: i64 = 0;
/// How long one waits for a record that a transaction of somebody else has taken hold of.
const WAIT: Duration = Duration::from_secs(10);
/// How long a claim does, before it is told that somebody runs the request.
const SOON: Duration = Duration::from_millis(250);
/// When it may come back then.
const COME_BACK: Duration = Duration::from_secs(1);
/// The first pause before one looks again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The time between two tries; in between somebody else does something with the same record.
struct Turns {
    pause: Duration,
    began: Instant,
}

impl Turns {
    fn new() -> Turns {
        Turns { pause: PAUSES.0, began: Instant::now() }
    }

    fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for the next try, unless it has lasted too long.
    async fn next(&mut self, desk: &Handle) -> Result<(), StoreError> {
        if self.waited() >= WAIT {
            let why = "another transaction keeps hold of the key".to_owned();
            return Err(Trouble::Contended(why).into());
        }
        desk.pause(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}

impl Postgres {
    async fn look_at_key(&self, now: Timestamp, claim: &Arc<KeyClaim>) -> Result<Looked, StoreError> {
        let (call, answer) = Call::new(now, Arc::clone(claim));
        self.desk.look(call);
        answer.await.unwrap_or_else(|_| Err(Trouble::Closed.into()))
    }

    /// One try: looks, and takes what is to be taken.
    async fn try_claim(
        &self,
        now: Timestamp,
        claim: &Arc<KeyClaim>,
    ) -> Result<(Met, Option<Seen>), StoreError> {
        match self.look_at_key(now, claim).await? {
            Looked::Known(claimed) => Ok((Met::Claimed(claimed), None)),
            Looked::Answered(record) => {
                Ok((self.read(AnswerOf { record }).await?.map_or(Met::Changed, Met::Claimed), None))
            }
            Looked::ToTake(seen) => {
                let take = Take { claim: Arc::clone(claim), found: seen.map(|seen| seen.id) };
                let (call, answer) = Call::new(now, take);
                self.desk.submit(Op::Take(call));
                Ok((TakeAnswer::new(&self.desk, now, answer).await?, seen))
            }
        }
    }

    async fn claim(&self, now: Timestamp, claim: KeyClaim) -> Result<Claimed, StoreError> {
        let (claim, mut turns) = (Arc::new(claim), Turns::new());
        loop {
            match self.try_claim(now, &claim).await? {
                (Met::Claimed(claimed), _) => return Ok(claimed),
                (Met::Moving, _) => return Err(Trouble::Moving.into()),
                // Whoever has taken hold of it is about to say how it ended.
                (Met::Held, Some(Seen { since, job, .. })) if turns.waited() >= SOON => {
                    return Ok(Claimed::InFlight { since, until: now.after(COME_BACK), job });
                }
                (Met::Held | Met::Changed, _) => turns.next(&self.desk).await?,
            }
        }
    }

    async fn tell(&self, now: Timestamp, hold: KeyHold, wish: Wish) -> Result<Finish, StoreError> {
        let (word, mut turns) = (Arc::new(Word { hold, wish }), Turns::new());
        loop {
            if let Some(finish) = self.call(now, Arc::clone(&word), Op::Word).await? {
                return Ok(finish);
            }
            turns.next(&self.desk).await?;
        }
    }
}

impl Idempotency for Postgres {
    fn claim_key(&self, now: Timestamp, claim: KeyClaim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            record::validate_claim(&claim)?;
            self.claim(now, claim).await
        })
    }

    fn renew_key(&self, now: Timestamp, hold: KeyHold, hold_for: Duration) -> Answer<'_, Finish> {
        Box::pin(self.tell(now, hold, Wish::Renew { hold_for }))
    }

    fn complete_key(
        &self,
        now: Timestamp,
        hold: KeyHold,
        response: StoredResponse,
        keep_for: Duration,
    ) -> Answer<'_, Finish> {
        Box::pin(async move {
            record::validate_response(&response)?;
            self.tell(now, hold, Wish::Complete { response, keep_for }).await
        })
    }

    fn enqueue_for_key(
        &self,
        now: Timestamp,
        jobs: Vec<NewJob>,
        request: KeyedRequest,
    ) -> Answer<'_, Option<Vec<Enqueued>>> {
        Box::pin(async move {
            validate(&jobs)?;
            self.write(EnqueueForKey { now, jobs, request }).await
        })
    }

    fn release_key(&self, now: Timestamp, hold: KeyHold, why: Option<String>) -> Answer<'_, Finish> {
        Box::pin(self.tell(now, hold, Wish::Release { why }))
    }

    fn give_up_key(
        &self,
        now: Timestamp,
        hold: KeyHold,
        why: String,
        keep_for: Duration,
    ) -> Answer<'_, Finish> {
        Box::pin(self.tell(now, hold, Wish::GiveUp { why, keep_for }))
    }

    fn keys(&self, query: KeyQuery) -> Answer<'_, Vec<KeyRecord>> {
        Box::pin(self.read(KeysOf { query }))
    }

    fn key(&self, record: i64) -> Answer<'_, Option<(KeyRecord, Option<StoredResponse>)>> {
        Box::pin(self.read(KeyWith { record }))
    }

    fn reset_key(
        &self,
        now: Timestamp,
        record: i64,
        seen: KeyState,
        why: Option<String>,
    ) -> Answer<'_, Option<KeyRecord>> {
        Box::pin(self.write(ResetKey { now, record, seen, why }))
    }

    fn key_standing(&self) -> Answer<'_, (u64, u64)> {
        Box::pin(self.read(KeyStanding))
    }

    fn count_keys(&self, now: Timestamp, counts: KeyCounts) -> Answer<'_, ()> {
        Box::pin(async move {
            if counts == KeyCounts::default() {
                return Ok(());
            }
            self.write(CountKeys { now, counts }).await
        })
    }

    fn sweep_keys(&self, now: Timestamp, keep_for: Duration, limit: u32) -> Answer<'_, KeysSwept> {
        Box::pin(async move {
            // Mostly there is nothing to do, and then nothing is written.
            if self.read(NothingToSweep { now: self.time(now) }).await? {
                return Ok(KeysSwept::default());
            }
            self.write(SweepKeys { now, keep_for, limit }).await
        })
    }
}

/// Reads the columns of `idempotency_list.sql`, with which those of `idempotency_read.sql` begin.
fn stored(row: &Row) -> Result<Stored, Fault> {
    Ok(Stored {
        id: column(row, 0)?,
        principal: column(row, 1)?,
        key: column(row, 2)?,
        endpoint: column(row, 3)?,
        request_hash: column(row, 4)?,
        state: column(row, 5)?,
        created_at: column(row, 6)?,
        leased_until: column(row, 7)?,
        ended_at: column(row, 8)?,
        expires_at: column(row, 9)?,
        status: column(row, 10)?,
        head: column(row, 11)?,
        job: column(row, 12)?,
    })
}

async fn key(
    line: &Line,
    seals: &Seals,
    id: i64,
) -> Result<Option<(KeyRecord, Option<StoredResponse>)>, Fault> {
    let Some(row) = line.first(sql!("idempotency_read"), args![id]).await? else { return Ok(None) };
    let stored = stored(&row)?;
    let cells = Cells { status: stored.status, head: stored.head.clone(), body: column(&row, 13)? };
    Ok(Some((stored.into_record(seals)?, cells.into_response(id, seals)?)))
}

/// A long answer; nothing when it is gone by now.
struct AnswerOf {
    record: i64,
}

impl Question for AnswerOf {
    type Answer = Option<Claimed>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Option<Claimed>, Fault> {
        let Some((record, response)) = key(line, seals, self.record).await? else { return Ok(None) };
        Ok(response.zip(record.ended_at).map(|(response, completed_at)| Claimed::Completed {
            response,
            completed_at,
            job: record.job,
        }))
    }
}

/// Records, the newest first.
struct KeysOf {
    query: KeyQuery,
}

impl Question for KeysOf {
    type Answer = Vec<KeyRecord>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Vec<KeyRecord>, Fault> {
        let KeyQuery { state, key, principal, before, limit } = &self.query;
        let mut wheres = Wheres::default();
        match state {
            // Said as the indexes of these say it, since they know the few among the many.
            Some(KeyState::InProgress) => wheres.must("k.state = 0"),
            Some(KeyState::UnknownOutcome) => wheres.must("k.state = 2"),
            Some(KeyState::Completed) => wheres.must("k.state = 1"),
            None => {}
        }
        if let Some(key) = key {
            wheres.must_be("k.key = {}", key);
        }
        if let Some(principal) = principal {
            wheres.must_be("k.principal = {}", principal);
        }
        if let Some(before) = before {
            wheres.must_with("k.id < {}", *before);
        }
        let behind = format!("ORDER BY k.id DESC LIMIT {limit}");
        let text = wheres.query(line.texts().schema(), sql!("idempotency_list"), &behind);
        let rows = line.all_of(&text, &wheres.args()).await?;
        rows.iter().map(|row| Ok(stored(row)?.into_record(seals)?)).collect()
    }
}

/// One record with its answer.
struct KeyWith {
    record: i64,
}

impl Question for KeyWith {
    type Answer = Option<(KeyRecord, Option<StoredResponse>)>;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, seals: &Seals) -> Result<Self::Answer, Fault> {
        key(line, seals, self.record).await
    }
}

/// How many are in progress, and of how many nobody knows the outcome.
struct KeyStanding;

impl Question for KeyStanding {
    type Answer = (u64, u64);

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<(u64, u64), Fault> {
        let row = line.first(sql!("idempotency_standing"), args![record::COUNTED]).await?;
        let row = row.ok_or_else(|| Fault::corrupt("a question without an answer"))?;
        Ok((column::<i64>(&row, 0)?.cast_unsigned(), column::<i64>(&row, 1)?.cast_unsigned()))
    }
}

/// A person has a key forgotten.
struct ResetKey {
    now: Timestamp,
    record: i64,
    seen: KeyState,
    why: Option<String>,
}

impl Verb for ResetKey {
    type Answer = Option<KeyRecord>;

    fn needs(&self) -> Vec<Need> {
        names(&["idempotency_reset"])
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<Option<KeyRecord>, Fault> {
        let (now, id) = (tx.now(self.now), self.record);
        let Some(row) = tx.line.first(sql!("idempotency_read"), args![id]).await? else { return Ok(None) };
        let found = stored(&row)?.into_record(&tx.seals)?;
        if found.state != self.seen {
            return Ok(None);
        }
        // Whoever has changed it since undoes us: then we look again.
        exactly(1, tx.line.run(sql!("idempotency_delete"), args![vec![id]]).await?)?;
        let KeyRecord { principal, key, endpoint, .. } = &found;
        let of = KeyOf { record: id, principal, key, endpoint };
        let (source_id, caller_id) = (tx.memory.borrow().name(told::SOURCE)?, of.caller_id());
        let why = self.why.as_deref().map(storable);
        let event = told::idempotency_reset(source_id, &caller_id, of, self.seen, why.as_deref());
        tx.batch.event(now, event)?;
        Ok(Some(found))
    }
}

/// What was counted since the last time.
struct CountKeys {
    now: Timestamp,
    counts: KeyCounts,
}

impl Verb for CountKeys {
    type Answer = ();

    async fn run(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let now = tx.now(self.now);
        for (metric, n) in self.counts.metrics() {
            tx.batch.tally.add(now, NO_LANE, metric, i64::try_from(n).unwrap_or(i64::MAX));
        }
        Ok(())
    }
}

/// Whether no holder fell silent and nothing has expired.
struct NothingToSweep {
    now: Option<i64>,
}

impl Question for NothingToSweep {
    type Answer = bool;

    async fn ask(&self, line: &Line, _: &RefCell<Memory>, _: &Seals) -> Result<bool, Fault> {
        let row = line.first(sql!("idempotency_over"), args![self.now]).await?;
        row.map_or(Ok(true), |row| Ok(!column::<bool>(&row, 0)?))
    }
}

/// Finds who fell silent, and forgets what has expired.
struct SweepKeys {
    now: Timestamp,
    keep_for: Duration,
    limit: u32,
}

impl Verb for SweepKeys {
    type Answer = KeysSwept;

    fn needs(&self) -> Vec<Need> {
        names(&["idempotency_unknown"])
    }

    fn isolation(&self) -> Isolation {
        // Takes what it needs, and leaves what others have.
        Isolation::Taking
    }

    async fn run(&self, tx: &mut Tx<'_>) -> Result<KeysSwept, Fault> {
        let (now, most) = (tx.now(self.now), i64::from(self.limit));
        let lapsed = tx.line.all(sql!("idempotency_lapsed"), args![now.millis(), most]).await?;
        for row in &lapsed {
            let of = KeyOf {
                record: column(row, 0)?,
                principal: column(row, 1)?,
                key: column(row, 2)?,
                endpoint: column(row, 3)?,
            };
            tell_unknown(tx, now, of, told::FELL_SILENT)?;
            let expires_at = now.after(self.keep_for).millis();
            tx.batch.keys.unknowns.push(KeyUnknownRow { id: of.record, ended_at: now.millis(), expires_at });
        }
        let rows = tx.line.all(sql!("idempotency_expired"), args![now.millis(), most]).await?;
        let read = |row: &Row| Ok((column(row, 0)?, column::<i64>(row, 1)?.unsigned_abs()));
        let expired: Vec<(i64, u64)> = rows.iter().map(read).collect::<Result<_, Fault>>()?;
        let few = record::few_of(&expired);
        tx.batch.keys.gone.extend(expired[..few].iter().map(|(id, _)| *id));
        let limit = self.limit as usize;
        let more = lapsed.len() >= limit || expired.len() >= limit || few < expired.len();
        Ok(KeysSwept { lapsed: lapsed.len() as u64, expired: few as u64, more })
    }
}

/// What is told in the store's name needs these numbers.
pub(super) fn names(types: &[&str]) -> Vec<Need> {
    types.iter().chain([&told::SOURCE]).map(|name| Need::Name((*name).to_owned())).collect()
}
