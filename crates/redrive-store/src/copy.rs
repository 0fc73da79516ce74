//! Moving a living store into another database, and copying one into a file.
//!
//! Rows go over as they are: numbers, sealed cells and the store's own id stay, so keys for the outside world stay, too.
//! Only the numbers of names and lanes may differ. Whoever is killed half-way leaves one store, never two: the copy refuses
//! to be written to until the original has been marked as moved, and the original refuses from that very commit on.

mod table;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::check::CheckReport;
use crate::error::{StoreError, Trouble};
pub(crate) use table::{Column, Kind, LANES, NAMES, QUEUES, Record, Role, TABLES, Table, Value};

/// A store that is copied from or to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEnd {
    /// A file.
    Sqlite(PathBuf),
    /// A database, by its URL.
    Postgres(String),
}

/// How a store is moved.
#[derive(Debug, Clone, Copy)]
pub struct CopyOptions {
    /// How long running work may take to end. Meanwhile no more is handed out.
    pub wait: Duration,
    /// Only look whether it could be done.
    pub dry_run: bool,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions { wait: Duration::from_mins(1), dry_run: false }
    }
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStep {
    /// Running work is waited for.
    Draining {
        /// So many jobs run.
        leases: u64,
    },
    /// Rows go over.
    Copying {
        /// Of this table.
        table: &'static str,
        /// So many so far.
        rows: u64,
    },
    /// The copy is compared with its original and checked.
    Checking,
    /// The original is marked as moved.
    Handing,
    /// The copy is opened for everybody.
    Opening,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It lives there now.
    Moved,
    /// It could be moved.
    Possible,
    /// Somebody had been interrupted right before the end; that is made up for.
    Finished,
    /// It had been moved there before.
    Before,
}

/// What was moved, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// From there.
    pub from: String,
    /// To there.
    pub to: String,
    /// Rows by table.
    pub rows: Vec<(&'static str, u64)>,
    /// What came of it.
    pub outcome: CopyOutcome,
}

/// What a store says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) store_id: i64,
    pub(crate) state: Option<(State, String)>,
    pub(crate) is_empty: bool,
}

/// Where a store is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Draining,
    Arriving,
    Moved,
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            State::Draining => "draining",
            State::Arriving => "arriving",
            State::Moved => "moved",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<State> {
        [State::Draining, State::Arriving, State::Moved].into_iter().find(|state| state.name() == name)
    }
}

/// What is not in the tables of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) store_id: i64,
    pub(crate) next_job: i64,
    pub(crate) next_event: i64,
    pub(crate) next_worker: i64,
    pub(crate) events: i64,
    pub(crate) failed_events: i64,
    pub(crate) pruned_to: i64,
    pub(crate) key_epoch: i64,
}

pub(crate) type Sink<'a> = dyn FnMut(Vec<Record>) -> Result<(), StoreError> + 'a;

/// What both databases can do for a copy.
pub(crate) trait End {
    fn location(&self) -> String;
    fn standing(&mut self) -> Result<Standing, StoreError>;

    /// Hands out no work for so long; `None` ends that.
    fn drain(&mut self, wait: Option<Duration>, to: &str) -> Result<(), StoreError>;
    /// How much runs: jobs under a lease, and requests that hold a key.
    fn running(&mut self) -> Result<u64, StoreError>;
    /// From here on one moment is read. `alone`: nobody else writes until the end.
    fn freeze(&mut self, alone: bool) -> Result<(), StoreError>;
    fn facts(&mut self) -> Result<Facts, StoreError>;
    fn counts(&mut self) -> Result<Vec<(&'static str, u64)>, StoreError>;
    fn read(&mut self, table: &Table, sink: &mut Sink<'_>) -> Result<(), StoreError>;
    /// Marks it as moved and ends the moment.
    fn leave(&mut self, to: &str) -> Result<(), StoreError>;
    /// Ends the moment without a trace.
    fn thaw(&mut self) -> Result<(), StoreError>;

    /// Begins to receive; what an interrupted copy has left goes.
    fn receive(&mut self) -> Result<(), StoreError>;
    fn name(&mut self, text: &str) -> Result<i64, StoreError>;
    /// With `paused`: none of its work is handed out since then, for this reason.
    fn queue(&mut self, name: &str, paused: Option<(i64, Option<&str>)>) -> Result<i64, StoreError>;
    fn lane(&mut self, queue_id: i64, kind: &str, counters: &[i64]) -> Result<i64, StoreError>;
    fn put(&mut self, table: &Table, rows: Vec<Record>) -> Result<(), StoreError>;
    /// Ends receiving. With `from` nobody may write until the doors are opened.
    fn keep(&mut self, facts: &Facts, letters: &Letters, from: Option<&str>) -> Result<(), StoreError>;
    fn check(&mut self) -> Result<CheckReport, StoreError>;
    fn open_doors(&mut self) -> Result<(), StoreError>;
    /// Throws away what was received.
    fn discard(&mut self) -> Result<(), StoreError>;
}

/// Letters by cause.
pub(crate) type Letters = BTreeMap<String, i64>;

/// Opens one end. What is made only when it may be.
fn open(end: &CopyEnd, create: bool) -> Result<Box<dyn End>, StoreError> {
    Ok(match end {
        CopyEnd::Sqlite(path) => Box::new(crate::sqlite::SqliteEnd::open(path, create)?),
        CopyEnd::Postgres(url) => Box::new(crate::postgres::PostgresEnd::open(url, create)?),
    })
}

/// Moves a store: everything that it has is in `to` afterwards, and whoever writes to `from` hears where it went. `to` must
/// be empty, or what an interrupted move has left there. Work that runs is waited for, and no more is handed out meanwhile;
/// while rows are copied, writers wait. Blocks.
///
/// Nothing is lost and nothing is there twice, whenever it is interrupted: until the original is marked it is the store, and
/// from then on the copy is. Run again, it finishes.
pub fn copy_store(
    from: &CopyEnd,
    to: &CopyEnd,
    options: CopyOptions,
    tell: &mut (dyn FnMut(CopyStep) + Send),
) -> Result<Copied, StoreError> {
    // A thread of its own: whoever calls may be inside a runtime, and the database's driver needs one.
    std::thread::scope(|scope| {
        let moved = scope.spawn(move || {
            let mut source = open(from, false)?;
            relocate(&mut *source, to, options, tell)
        });
        moved.join().unwrap_or_else(|_| Err(Trouble::Database("the copying broke off".to_owned()).into()))
    })
}

fn relocate(
    source: &mut dyn End,
    to: &CopyEnd,
    options: CopyOptions,
    tell: &mut dyn FnMut(CopyStep),
) -> Result<Copied, StoreError> {
    let there = source.standing()?;
    let from = source.location();
    let mut target = match open(to, !options.dry_run) {
        Err(error) if options.dry_run && matches!(error.trouble(), Trouble::Missing(_)) => None,
        opened => Some(opened?),
    };
    let place = target.as_ref().map_or_else(|| shown(to), |target| target.location());
    let told = |outcome, rows| Copied { from: from.clone(), to: place.clone(), rows, outcome };
    let arrived = target.as_mut().map(|target| target.standing()).transpose()?;
    match (&there.state, &arrived) {
        (Some((State::Moved, elsewhere)), _) if *elsewhere != place => {
            return Err(Trouble::Moved(elsewhere.clone()).into());
        }
        (Some((State::Moved, _)), Some(arrived)) if arrived.store_id == there.store_id => {
            let unfinished = matches!(arrived.state, Some((State::Arriving, _)));
            if let (true, false, Some(target)) = (unfinished, options.dry_run, &mut target) {
                target.open_doors()?;
                return Ok(told(CopyOutcome::Finished, target.counts()?));
            }
            return Ok(told(CopyOutcome::Before, Vec::new()));
        }
        (Some((State::Moved, elsewhere)), _) => return Err(Trouble::Moved(elsewhere.clone()).into()),
        (Some((State::Arriving, origin)), _) => return Err(Trouble::Arriving(origin.clone()).into()),
        _ => {}
    }
    if let Some(arrived) = &arrived {
        let is_ours = arrived.store_id == there.store_id
            && matches!(&arrived.state, Some((State::Arriving, origin)) if *origin == from);
        if !arrived.is_empty && !is_ours {
            return Err(Trouble::NotEmpty(place).into());
        }
    }
    let (Some(target), false) = (&mut target, options.dry_run) else {
        source.freeze(false)?;
        let rows = source.counts()?;
        source.thaw()?;
        return Ok(told(CopyOutcome::Possible, rows));
    };
    let moved = drain(source, &place, options.wait, tell)
        .and_then(|()| hand_over(source, &mut **target, &from, &place, tell));
    match moved {
        Ok(rows) => Ok(told(CopyOutcome::Moved, rows)),
        Err(error) => {
            // The original goes on as if nothing had been. Were this to fail as well, its pause ends by itself.
            if let Err(second) = source.thaw().and_then(|()| source.drain(None, &place)) {
                tracing::warn!(%second, "the store that was not moved may hand out no work for a while");
            }
            Err(error)
        }
    }
}

/// How often running work is counted.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// For so much longer than the wait nothing is handed out, unless the copying takes hold before.
const GRACE: Duration = Duration::from_secs(30);

/// Waits until nothing runs, and keeps it so: afterwards nobody else writes.
fn drain(
    source: &mut dyn End,
    to: &str,
    wait: Duration,
    tell: &mut dyn FnMut(CopyStep),
) -> Result<(), StoreError> {
    let began = Instant::now();
    let mut told = None;
    loop {
        source.drain(Some(wait + GRACE), to)?;
        let mut leases = source.running()?;
        if leases == 0 {
            // Somebody may have taken work in the moment in which nobody should have any more.
            match source.freeze(true) {
                Ok(()) => leases = source.running()?,
                Err(error) if error.may_pass() && began.elapsed() < wait => continue,
                Err(error) => return Err(error),
            }
            if leases == 0 {
                return Ok(());
            }
            source.thaw()?;
        }
        if told.replace(leases) != Some(leases) {
            tell(CopyStep::Draining { leases });
        }
        if began.elapsed() >= wait {
            return Err(Trouble::StillRunning { leases, seconds: wait.as_secs() }.into());
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

fn hand_over(
    source: &mut dyn End,
    target: &mut dyn End,
    from: &str,
    to: &str,
    tell: &mut dyn FnMut(CopyStep),
) -> Result<Vec<(&'static str, u64)>, StoreError> {
    transfer(source, target, Some(from), tell)?;
    tell(CopyStep::Checking);
    let rows = source.counts()?;
    if let Err(error) = compare(&rows, target) {
        target.discard()?;
        return Err(error);
    }
    tell(CopyStep::Handing);
    source.leave(to)?;
    tell(CopyStep::Opening);
    target.open_doors()?;
    Ok(rows)
}

fn compare(rows: &[(&'static str, u64)], target: &mut dyn End) -> Result<(), StoreError> {
    let arrived = target.counts()?;
    if let Some(((table, sent), (_, came))) = rows.iter().zip(&arrived).find(|(sent, came)| sent != came) {
        return Err(Trouble::CopyDiffers(format!("{table} has {came} rows instead of {sent}")).into());
    }
    match target.check()?.violations.first() {
        Some(broken) => Err(Trouble::CopyDiffers(format!("{}: {}", broken.invariant, broken.what)).into()),
        None => Ok(()),
    }
}

/// Copies the moment that the source reads.
pub(crate) fn transfer(
    source: &mut dyn End,
    target: &mut dyn End,
    from: Option<&str>,
    tell: &mut dyn FnMut(CopyStep),
) -> Result<(), StoreError> {
    target.receive()?;
    let numbers = intern(source, target)?;
    let mut letters = Letters::new();
    for table in TABLES {
        let mut rows = 0;
        tell(CopyStep::Copying { table: table.name, rows });
        source.read(table, &mut |mut chunk| {
            rows += chunk.len() as u64;
            for record in &mut chunk {
                numbers.translate(table, record)?;
            }
            if table.name == "dead_letter" {
                count_letters(table, &chunk, &mut letters);
            }
            target.put(table, chunk)?;
            tell(CopyStep::Copying { table: table.name, rows });
            Ok(())
        })?;
    }
    target.keep(&source.facts()?, &letters, from)
}

fn count_letters(table: &Table, chunk: &[Record], letters: &mut Letters) {
    let Some(at) = table.columns.iter().position(|column| column.name == "cause") else { return };
    for record in chunk {
        if let Value::Text(cause) = &record[at] {
            *letters.entry(cause.clone()).or_default() += 1;
        }
    }
}

/// The numbers that names, queues and lanes have over there, by those that they have here.
#[derive(Default)]
struct Numbers {
    names: HashMap<i64, i64>,
    queues: HashMap<i64, i64>,
    lanes: HashMap<i64, i64>,
}

fn intern(source: &mut dyn End, target: &mut dyn End) -> Result<Numbers, StoreError> {
    let mut numbers = Numbers::default();
    let odd = || StoreError::from(Trouble::Corrupt("a name or a lane cannot be read".to_owned()));
    source.read(&NAMES, &mut |chunk| {
        for record in chunk {
            let [Value::Int(id), Value::Text(text)] = &record[..] else { return Err(odd()) };
            numbers.names.insert(*id, target.name(text)?);
        }
        Ok(())
    })?;
    source.read(&QUEUES, &mut |chunk| {
        for record in chunk {
            let [Value::Int(id), Value::Text(name), paused_at, why] = &record[..] else { return Err(odd()) };
            let why = if let Value::Text(why) = why { Some(why.as_str()) } else { None };
            let paused = paused_at.as_int().map(|at| (at, why));
            numbers.queues.insert(*id, target.queue(name, paused)?);
        }
        Ok(())
    })?;
    source.read(&LANES, &mut |chunk| {
        for record in chunk {
            let [Value::Int(id), Value::Int(queue), Value::Text(kind), counters @ ..] = &record[..] else {
                return Err(odd());
            };
            let counters: Vec<i64> = counters.iter().filter_map(Value::as_int).collect();
            let queue = *numbers.queues.get(queue).ok_or_else(odd)?;
            numbers.lanes.insert(*id, target.lane(queue, kind, &counters)?);
        }
        Ok(())
    })?;
    Ok(numbers)
}

impl Numbers {
    fn translate(&self, table: &Table, record: &mut Record) -> Result<(), StoreError> {
        for (column, value) in table.columns.iter().zip(record) {
            let known = match column.role {
                Role::Plain => continue,
                Role::Name => &self.names,
                Role::Queue => &self.queues,
                Role::Lane => &self.lanes,
            };
            // A lane below zero is a worker's, and lane 0 is of no queue: these numbers stay.
            let stays = |number: i64| number < 0 || column.role == Role::Lane && number == 0;
            if let Value::Int(number) = value
                && !stays(*number)
            {
                *number = *known.get(number).ok_or_else(|| {
                    let what = format!("{}.{} names {number}, which does not exist", table.name, column.name);
                    StoreError::from(Trouble::Corrupt(what))
                })?;
            }
        }
        Ok(())
    }
}

/// A place that is not there, for people.
fn shown(end: &CopyEnd) -> String {
    match end {
        CopyEnd::Sqlite(path) => format!("sqlite:{}", path.display()),
        CopyEnd::Postgres(url) => crate::postgres::location_of(url),
    }
}
