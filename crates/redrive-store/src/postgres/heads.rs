//! Choosing letters: by an index where there is one, and by looking at what is short of each where there is none.

use std::cell::RefCell;
use std::collections::HashSet;
use std::future::{Future, poll_fn, ready};
use std::task::Poll;

use futures_util::future::Either;
use redrive_policy::{Cause, Class};
use tokio_postgres::Row;

use super::dead_letter;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::{Memory, learn_lanes};
use super::texts::sql;
use super::verb::Question;
use super::wheres::Wheres;
use crate::dead_letter::{DeadLetter, Heads, LetterFilter, LetterHead};
use crate::id::JobId;
use crate::row::count;
use crate::seal::{Cell, Seals};
use crate::settle::LetterReason;
use crate::time::Timestamp;

/// How many are looked at by one statement.
const STRETCH: usize = 5_000;
/// Groups whose fingerprints begin alike, up to which each is looked up by the index.
const FEW_GROUPS: usize = 1_000;

/// What an index leads to: a column, and what may stand in it.
enum Way {
    /// Nothing narrows it down: by age.
    Age,
    Texts(&'static str, Vec<String>),
    Numbers(&'static str, Vec<i64>),
}

impl Way {
    fn is_empty(&self) -> bool {
        match self {
            Way::Age => false,
            Way::Texts(_, values) => values.is_empty(),
            Way::Numbers(_, values) => values.is_empty(),
        }
    }
}

/// A filter in the words of the database.
struct Chosen {
    way: Way,
    wheres: Wheres,
}

/// The causes that a filter leaves; absent: all.
fn causes(filter: &LetterFilter) -> Option<Vec<Cause>> {
    let chosen = |cause: &&Cause| {
        filter.cause.is_none_or(|one| one == **cause)
            && (filter.causes.is_empty() || filter.causes.contains(cause))
            && (!filter.transient_only || cause.class() == Class::Transient)
    };
    let all = filter.cause.is_none() && filter.causes.is_empty() && !filter.transient_only;
    (!all).then(|| Cause::ALL.iter().filter(chosen).copied().collect())
}

/// The lanes that a filter leaves; absent: all.
async fn lanes(
    line: &Line,
    memory: &RefCell<Memory>,
    filter: &LetterFilter,
) -> Result<Option<Vec<i64>>, Fault> {
    if filter.queue.is_none() && filter.kind.is_none() {
        return Ok(None);
    }
    // Others may have made some.
    learn_lanes(line, memory).await?;
    Ok(Some(memory.borrow().lanes_named(filter.queue.as_deref(), filter.kind.as_deref())))
}

/// The fingerprints that begin so, unless they are many.
async fn begin_with(line: &Line, prefix: &str) -> Result<Option<Vec<String>>, Fault> {
    let mut wheres = Wheres::default();
    wheres.must_be("g.fingerprint ^@ {}", prefix);
    let text =
        wheres.query(line.texts().schema(), sql!("group_prefix"), &format!("LIMIT {}", FEW_GROUPS + 1));
    let rows = line.all_of(&text, &wheres.args()).await?;
    if rows.len() > FEW_GROUPS {
        return Ok(None);
    }
    rows.iter().map(|row| column(row, 0)).collect::<Result<_, Fault>>().map(Some)
}

async fn choose(line: &Line, memory: &RefCell<Memory>, filter: &LetterFilter) -> Result<Chosen, Fault> {
    let mut wheres = Wheres::default();
    let mut ways = Vec::new();
    if let Some(ids) = &filter.ids {
        ways.push(Way::Numbers("d.job_id", unique(ids.iter().map(|id| id.0))));
    }
    for (column, value) in [("d.caller_id", &filter.caller_id), ("d.fingerprint", &filter.fingerprint)] {
        if let Some(value) = value {
            let is_text = !value.contains('\0');
            ways.push(Way::Texts(column, is_text.then(|| value.clone()).into_iter().collect()));
        }
    }
    if let Some(prefix) = &filter.fingerprint_prefix {
        match begin_with(line, prefix).await? {
            Some(prints) => ways.push(Way::Texts("d.fingerprint", prints)),
            None => wheres.must_be("d.fingerprint ^@ {}", prefix),
        }
    }
    if let Some(lanes) = lanes(line, memory, filter).await? {
        ways.push(Way::Numbers("d.lane_id", lanes));
    }
    if let Some(causes) = causes(filter) {
        let names = causes.iter().map(|cause| cause.name().to_owned()).collect();
        ways.push(Way::Texts("d.cause", names));
    }
    // The first leads, and the others are conditions.
    let mut ways = ways.into_iter();
    let way = ways.next().unwrap_or(Way::Age);
    for other in ways {
        match other {
            Way::Age => {}
            Way::Texts(column, values) => wheres.must_with(&format!("{column} = ANY ({{}})"), values),
            Way::Numbers(column, values) => wheres.must_with(&format!("{column} = ANY ({{}})"), values),
        }
    }
    if let Some(reason) = filter.reason {
        wheres.must_with("d.reason = {}", reason.name().to_owned());
    }
    for (text, bound) in [("d.died_at >= {}", filter.since), ("d.died_at < {}", filter.before)] {
        if let Some(bound) = bound {
            wheres.must_with(text, bound.millis());
        }
    }
    if let Some(run) = filter.not_by {
        let text = "d.run_id IS DISTINCT FROM {} AND NOT EXISTS (SELECT 1 FROM redrive.redrive_item i \
                    WHERE i.run_id = {} AND i.job_id = d.job_id)";
        wheres.must_with(text, run.0);
    }
    Ok(Chosen { way, wheres })
}

fn unique(numbers: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut seen = HashSet::new();
    numbers.filter(|number| seen.insert(*number)).collect()
}

impl Chosen {
    /// The next letters behind `after`, in this order, at most `limit`.
    async fn next(
        &self,
        line: &Line,
        oldest_first: bool,
        after: Option<(Timestamp, JobId)>,
        limit: usize,
    ) -> Result<Vec<Row>, Fault> {
        if self.way.is_empty() {
            return Ok(Vec::new());
        }
        let (order, behind) = if oldest_first { ("ASC", ">") } else { ("DESC", "<") };
        let mut wheres = self.wheres.share();
        let mut reached = None;
        if let Some((died_at, id)) = after {
            let place = vec![died_at.millis(), id.0];
            let text = format!("(d.died_at, d.job_id) {behind} (({{}}::bigint[])[1], ({{}}::bigint[])[2])");
            wheres.must_with(&text, place);
            reached = Some(wheres.value(died_at.millis()));
        }
        let led = match &self.way {
            Way::Age => None,
            Way::Texts(column, values) => Some((*column, wheres.value(values.clone()), "text[]")),
            Way::Numbers(column, values) => Some((*column, wheres.value(values.clone()), "bigint[]")),
        };
        let schema = line.texts().schema();
        let outer = format!("ORDER BY d.died_at {order}, d.job_id {order} LIMIT {limit}");
        let text = if let Some((column, at, kind)) = led {
            // Each value leads by itself: together no index has their order.
            for condition in leads(column, oldest_first, reached) {
                wheres.must(&condition);
            }
            let inner =
                format!("ORDER BY {column} {order}, d.died_at {order}, d.job_id {order} LIMIT {limit}");
            let one = wheres.query(schema, sql!("letter_head"), &inner);
            format!("SELECT d.* FROM unnest(${at}::{kind}) AS w (value) CROSS JOIN LATERAL ({one}) d {outer}")
        } else {
            if let Some(reached) = reached {
                wheres.must(&format!("d.died_at {behind}= ${reached}"));
            }
            wheres.query(schema, sql!("letter_head"), &outer)
        };
        line.all_of(&text, &wheres.args()).await
    }

    /// From the counters, where one of them says it all.
    async fn count(&self, line: &Line) -> Result<u64, Fault> {
        if self.wheres.is_empty() {
            let counted = match &self.way {
                Way::Age => line.first(sql!("dead_count_sum"), args![None::<Vec<String>>]).await?,
                Way::Texts("d.cause", causes) => {
                    line.first(sql!("dead_count_sum"), args![Some(causes.clone())]).await?
                }
                Way::Texts("d.fingerprint", prints) => {
                    line.first(sql!("group_letters"), args![prints.clone()]).await?
                }
                Way::Numbers("d.lane_id", lanes) => {
                    line.first(sql!("lane_dead"), args![lanes.clone()]).await?
                }
                Way::Texts(..) | Way::Numbers(..) => None,
            };
            if let Some(row) = counted {
                return Ok(u64::try_from(column::<i64>(&row, 0)?).unwrap_or(0));
            }
        }
        self.count_rows(line).await
    }

    async fn count_rows(&self, line: &Line) -> Result<u64, Fault> {
        if self.way.is_empty() {
            return Ok(0);
        }
        let mut wheres = self.wheres.share();
        match &self.way {
            Way::Age => {}
            Way::Texts(column, values) => wheres.must_with(&format!("{column} = ANY ({{}})"), values.clone()),
            Way::Numbers(column, values) => {
                wheres.must_with(&format!("{column} = ANY ({{}})"), values.clone());
            }
        }
        let text = wheres.query(line.texts().schema(), sql!("letter_count"), "");
        let rows = line.all_of(&text, &wheres.args()).await?;
        let letters: i64 = rows.first().map_or(Ok(0), |row| column(row, 0))?;
        Ok(letters.unsigned_abs())
    }
}

/// That a column is like the value that leads. Said as two bounds and not as one equation, so that the order of the column and the
/// time is asked for: the planner would otherwise take the index by age for a value that is rare, and read all of it.
fn leads(column: &str, oldest_first: bool, reached: Option<usize>) -> [String; 2] {
    let (near, far) = if oldest_first { (">=", "<=") } else { ("<=", ">=") };
    let from = match reached {
        Some(reached) => format!("({column}, d.died_at) {near} (w.value, ${reached})"),
        None => format!("{column} {near} w.value"),
    };
    [from, format!("{column} {far} w.value")]
}

/// Reads the columns of `letter_head.sql`; its lane is known already.
fn read(row: &Row, memory: &Memory, seals: &Seals) -> Result<LetterHead, Fault> {
    let id = JobId(column(row, 0)?);
    let lane: i64 = column(row, 1)?;
    let lane = memory
        .lane_of(lane)
        .ok_or_else(|| Fault::corrupt(format_args!("{id} belongs to lane {lane}, which does not exist")))?;
    let number = |at| column::<i64>(row, at).map(count);
    Ok(LetterHead {
        id,
        queue: lane.queue.clone(),
        kind: lane.kind.clone(),
        died_at: Timestamp::from_millis(column(row, 2)?),
        reason: LetterReason::from_name(column(row, 3)?).unwrap_or(LetterReason::NonRetryable),
        cause: column::<&str>(row, 4)?.parse().unwrap_or(Cause::Unknown),
        retryable: column(row, 5)?,
        rule: column(row, 6)?,
        fingerprint: column(row, 7)?,
        error_type: column(row, 8)?,
        error_message: seals.open_text(Cell::LetterMessage, id.0, column(row, 9)?)?,
        attempts: number(10)?,
        retries: number(11)?,
        redrives: number(12)?,
        caller_id: column(row, 13)?,
    })
}

/// The heads of letters.
pub(super) struct HeadsOf {
    pub(super) filter: LetterFilter,
    pub(super) limit: u32,
    pub(super) look_at: u32,
}

impl Question for HeadsOf {
    type Answer = Heads;

    async fn ask(&self, line: &Line, memory: &RefCell<Memory>, seals: &Seals) -> Result<Heads, Fault> {
        let mut heads = Vec::new();
        let keep = |head| {
            heads.push(head);
            heads.len() < self.limit as usize
        };
        let next = look(line, memory, seals, &self.filter, (self.limit, self.look_at), keep).await?;
        Ok(Heads { heads, next })
    }
}

/// Looks at letters until `keep` has had enough of those that match. Answers where to look on.
async fn look(
    line: &Line,
    memory: &RefCell<Memory>,
    seals: &Seals,
    filter: &LetterFilter,
    (limit, look_at): (u32, u32),
    mut keep: impl FnMut(LetterHead) -> bool,
) -> Result<Option<(Timestamp, JobId)>, Fault> {
    let chosen = choose(line, memory, filter).await?;
    let mut after = filter.after;
    let mut left = look_at as usize;
    // Without a test each that is looked at is one that was asked for.
    let mut wanted = if filter.only.is_some() { usize::MAX } else { limit as usize };
    if limit == 0 {
        return Ok(after);
    }
    let mut stretch = STRETCH.min(left).min(wanted);
    let mut coming = None;
    while stretch > 0 {
        let rows = match coming.take() {
            Some(coming) => coming.await?,
            None => chosen.next(line, filter.oldest_first, after, stretch).await?,
        };
        learn_strange_lanes(line, memory, &rows).await?;
        let is_all = rows.len() < stretch;
        left -= rows.len();
        wanted -= rows.len().min(wanted);
        stretch = STRETCH.min(left).min(wanted);
        if let (Some(last), false, true) = (rows.last(), is_all, stretch > 0) {
            let last = (Timestamp::from_millis(column(last, 2)?), JobId(column(last, 0)?));
            let mut next = Box::pin(chosen.next(line, filter.oldest_first, Some(last), stretch));
            // Asked for now, so that the database is busy with it while we look at these.
            let begun = poll_fn(|context| Poll::Ready(next.as_mut().poll(context))).await;
            coming = Some(match begun {
                Poll::Ready(early) => Either::Left(ready(early)),
                Poll::Pending => Either::Right(next),
            });
        }
        // Others on this thread have their turn, the one that sends what was asked among them.
        tokio::task::yield_now().await;
        for row in &rows {
            let head = read(row, &memory.borrow(), seals)?;
            after = Some((head.died_at, head.id));
            if filter.only.as_ref().is_none_or(|only| only.0(&head)) && !keep(head) {
                return Ok(after);
            }
        }
        if is_all {
            return Ok(None);
        }
    }
    Ok(after)
}

async fn learn_strange_lanes(line: &Line, memory: &RefCell<Memory>, rows: &[Row]) -> Result<(), Fault> {
    for row in rows {
        if memory.borrow().lane_of(column(row, 1)?).is_none() {
            return learn_lanes(line, memory).await;
        }
    }
    Ok(())
}

/// Letters with all that they say.
pub(super) struct LettersOf {
    pub(super) filter: LetterFilter,
    pub(super) limit: u32,
}

impl Question for LettersOf {
    type Answer = Vec<DeadLetter>;

    async fn ask(
        &self,
        line: &Line,
        memory: &RefCell<Memory>,
        seals: &Seals,
    ) -> Result<Vec<DeadLetter>, Fault> {
        let mut ids = Vec::new();
        let keep = |head: LetterHead| {
            ids.push(head.id.0);
            ids.len() < self.limit as usize
        };
        look(line, memory, seals, &self.filter, (self.limit, u32::MAX), keep).await?;
        let mut wheres = Wheres::default();
        wheres.must_with("d.job_id = ANY ({})", ids);
        let order = if self.filter.oldest_first { "ASC" } else { "DESC" };
        let behind = format!("ORDER BY d.died_at {order}, d.job_id {order}");
        let text = wheres.query(line.texts().schema(), sql!("letter_list"), &behind);
        line.all_of(&text, &wheres.args()).await?.iter().map(|row| dead_letter::read(row, seals)).collect()
    }
}

/// How many letters match.
pub(super) struct CountOf {
    pub(super) filter: LetterFilter,
}

impl Question for CountOf {
    type Answer = u64;

    async fn ask(&self, line: &Line, memory: &RefCell<Memory>, seals: &Seals) -> Result<u64, Fault> {
        if self.filter.only.is_some() {
            let mut letters = 0;
            let keep = |_| {
                letters += 1;
                true
            };
            look(line, memory, seals, &self.filter, (u32::MAX, u32::MAX), keep).await?;
            return Ok(letters);
        }
        let chosen = choose(line, memory, &self.filter).await?;
        let mut wheres = chosen.wheres.share();
        if let Some((died_at, id)) = self.filter.after {
            let behind = if self.filter.oldest_first { ">" } else { "<" };
            let text = format!("(d.died_at, d.job_id) {behind} (({{}}::bigint[])[1], ({{}}::bigint[])[2])");
            wheres.must_with(&text, vec![died_at.millis(), id.0]);
        }
        Chosen { way: chosen.way, wheres }.count(line).await
    }
}
