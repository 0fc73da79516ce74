//! Schedules: jobs by the clock, in a time zone.
//!
//! A schedule is a notice on the board, and `due_at` is its next tick. Whoever maintains the store looks for ticks that are
//! due (`fire`), and posts the notice with its next tick and the job of this one in one transaction: one tick is one job, however
//! many engines look, and whenever one of them is killed. What is missed while nobody looks is done by rule.

mod cron;
mod fire;
mod stored;
mod zone;

use jiff::tz::TimeZone;
use redrive_store::{EventFilter, JobId, NewJob, NoticeChange, Posted, Timestamp};

pub use cron::{BadCron, CRON_EXAMPLE, Cron, CronField, CronProblem};
pub(super) use fire::ScheduleWatch;

use super::overrides::JobOverrides;
use super::{Engine, EngineError};
use stored::Stored;

/// Where schedules stand on the board.
const SPACE: &str = "schedule";
/// The most schedules of one store.
const MOST: u32 = 10_000;
/// The longest name: a tick is written behind it.
const NAME_CHARS: usize = 100;
/// How often a change is tried when others change the same.
const TRIES: u32 = 20;

/// What is done about ticks that nobody was there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// Nothing; the next tick is the next job.
    Skip,
    /// One job for all of them together, that of the latest.
    #[default]
    Once,
    /// A job for each, the oldest first.
    All,
}

impl Missed {
    /// Every rule.
    pub const ALL: [Missed; 3] = [Missed::Skip, Missed::Once, Missed::All];
    /// Their names.
    pub const NAMES: [&'static str; 3] = ["skip", "once", "all"];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::Once => "once",
            Missed::All => "all",
        }
    }

    /// The rule of that name.
    pub fn from_name(name: &str) -> Option<Missed> {
        Missed::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

/// A schedule to be added.
#[derive(Debug, Clone)]
pub struct NewSchedule {
    /// Its name; absent: one is made from the expression.
    pub name: Option<String>,
    /// When, as a cron expression.
    pub cron: String,
    /// In which time zone.
    pub zone: String,
    /// What is done about ticks that nobody was there for.
    pub missed: Missed,
    /// The job of each tick. Its due time, unique key and caller's id are the schedule's to say.
    pub job: NewJob,
    /// One of that name is replaced.
    pub replace: bool,
}

impl NewSchedule {
    /// This job at these times in UTC.
    pub fn new(cron: impl Into<String>, job: NewJob) -> NewSchedule {
        NewSchedule {
            name: None,
            cron: cron.into(),
            zone: "UTC".to_owned(),
            missed: Missed::default(),
            job,
            replace: false,
        }
    }

    /// Whether it makes sense, whatever the store and the policies are.
    pub fn check(&self) -> Result<(), EngineError> {
        self.read().map(drop)
    }

    fn read(&self) -> Result<(Cron, TimeZone), EngineError> {
        let cron = Cron::parse(&self.cron).map_err(ScheduleProblem::Cron)?;
        let time_zone = named_zone(&self.zone)?;
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        self.job.validate()?;
        Ok((cron, time_zone))
    }
}

/// A schedule.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// When.
    pub cron: Cron,
    /// In which time zone.
    pub zone: String,
    /// What is done about ticks that nobody was there for.
    pub missed: Missed,
    /// The job of each tick.
    pub job: NewJob,
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
    /// When it was added.
    pub created_at: Timestamp,
    /// The next tick; none while it is paused.
    pub next: Option<Timestamp>,
    /// The last tick that became a job.
    pub last: Option<Timestamp>,
    /// How many jobs came of it.
    pub fired: u64,
    /// How many ticks were missed and left; counted up to a bound at a time.
    pub skipped: u64,
    time_zone: TimeZone,
}

impl Schedule {
    /// Its next ticks, at most so many.
    pub fn upcoming(&self, most: usize) -> Vec<Timestamp> {
        let after = |at: &Timestamp| zone::next_after(&self.cron, &self.time_zone, *at);
        std::iter::successors(self.next, after).take(most).collect()
    }

    /// A moment as the clocks of its zone show it.
    pub fn in_its_zone(&self, at: Timestamp) -> String {
        zone::shown(at, &self.time_zone)
    }

    /// A moment as the clocks of this machine show it.
    pub fn locally(at: Timestamp) -> String {
        zone::shown(at, &TimeZone::system())
    }

    /// What the job of a tick is known by.
    pub fn caller_id(&self, tick: Timestamp) -> String {
        format!("{}@{tick}", self.name)
    }

    /// The job of a tick.
    fn job_of(&self, tick: Timestamp) -> NewJob {
        // Without a unique key: whoever may enqueue could take it beforehand, and the tick would go to that job. That a tick has
        // one job is the swap's doing.
        NewJob { caller_id: Some(self.caller_id(tick)), unique_key: None, run_at: None, ..self.job.clone() }
    }
}

/// Why a schedule cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleProblem {
    /// The expression is none.
    #[error(transparent)]
    Cron(#[from] BadCron),
    /// There is no such zone.
    #[error("there is no time zone {name:?}{}; names are those of the IANA, such as Asia/Tokyo", perhaps(.alike))]
    Zone {
        /// What was given.
        name: String,
        /// What may be meant.
        alike: Vec<String>,
    },
    /// The name is none.
    #[error(
        "{0:?} cannot name a schedule: ASCII letters, digits, dots, dashes and underscores can, up to 100 of them"
    )]
    Name(String),
    /// There is one of that name.
    #[error("there is a schedule {0:?} already; replace it, or take another name")]
    Taken(String),
    /// There are too many.
    #[error("there are {0} schedules already, which is the most")]
    TooMany(u32),
    /// What it carries is too long to be kept with it.
    #[error("the job of a schedule may have {most} bytes; this one has {bytes}")]
    TooLong {
        /// So many.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// There is none of that name.
    #[error("there is no schedule {0:?}")]
    Unknown(String),
    /// Others change it all the time.
    #[error("schedule {0:?} is changed by others all the time; try again")]
    Contended(String),
    /// It was written by a redrive that this one does not understand.
    #[error("schedule {name:?} cannot be read: {why}")]
    Unreadable {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
}

fn perhaps(alike: &[String]) -> String {
    if alike.is_empty() { String::new() } else { format!(" (perhaps {})", alike.join(" or ")) }
}

impl Engine {
    /// Adds a schedule. Its first tick is the first after now.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use redrive::engine::{Engine, NewSchedule, store::NewJob};
    ///
    /// let engine = Engine::open(dir.path().join("redrive.db"))?;
    /// let schedule = engine
    ///     .add_schedule(NewSchedule {
    ///         name: Some("morning".into()),
    ///         zone: "Asia/Tokyo".into(),
    ///         ..NewSchedule::new("0 6 * * *", NewJob::new("report", "{}"))
    ///     })
    ///     .await?;
    /// assert!(schedule.in_its_zone(schedule.next.unwrap()).ends_with("06:00:00 JST"));
    /// # Ok::<(), redrive::engine::EngineError>(())
    /// # }).unwrap();
    /// ```
    pub async fn add_schedule(&self, new: NewSchedule) -> Result<Schedule, EngineError> {
        let (cron, time_zone) = self.read_schedule(&new)?;
        let NewSchedule { name, zone, missed, job, replace, .. } = new;
        let made = name.is_none();
        let all = self.store().notices(SPACE.to_owned(), None, MOST).await?;
        for attempt in 0..TRIES {
            let name = name.clone().unwrap_or_else(|| made_name(&cron, attempt));
            let there = self.store().notice(SPACE.to_owned(), name.clone()).await?;
            let before = match &there {
                None if all.len() >= MOST as usize => return Err(ScheduleProblem::TooMany(MOST).into()),
                None => None,
                // What is replaced keeps its past: the same tick must not come twice.
                Some(notice) if replace => Stored::read(notice).ok(),
                Some(_) if made => continue,
                Some(_) => return Err(ScheduleProblem::Taken(name).into()),
            };
            let now = self.store_now().await?;
            let from = before.as_ref().and_then(|before| before.last).map_or(now, |last| last.max(now));
            let schedule = Schedule {
                next: zone::next_after(&cron, &time_zone, from),
                cron: cron.clone(),
                zone: zone.clone(),
                missed,
                job: job.clone(),
                paused_at: None,
                created_at: before.as_ref().map_or(now, |before| before.created_at),
                last: before.as_ref().and_then(|before| before.last),
                fired: before.as_ref().map_or(0, |before| before.fired),
                skipped: before.as_ref().map_or(0, |before| before.skipped),
                time_zone: time_zone.clone(),
                name,
            };
            let change = schedule.change(there.map(|notice| notice.version))?;
            if self.posted(change).await? {
                self.look_at_schedules_now();
                return Ok(schedule);
            }
            self.step_back(attempt).await;
        }
        Err(ScheduleProblem::Contended(name.unwrap_or_default()).into())
    }

    /// The name that a schedule without one gets.
    pub async fn free_schedule_name(&self, new: &NewSchedule) -> Result<String, EngineError> {
        let (cron, _) = self.read_schedule(new)?;
        for attempt in 0..TRIES {
            let name = made_name(&cron, attempt);
            if self.store().notice(SPACE.to_owned(), name.clone()).await?.is_none() {
                return Ok(name);
            }
        }
        Err(ScheduleProblem::Contended(made_name(&cron, 0)).into())
    }

    /// Whether such a schedule could be had, as far as that can be said without the store.
    pub fn check_schedule(&self, new: &NewSchedule) -> Result<(), EngineError> {
        self.read_schedule(new).map(drop)
    }

    fn read_schedule(&self, new: &NewSchedule) -> Result<(Cron, TimeZone), EngineError> {
        let read = new.read()?;
        self.policies().named(new.job.policy.as_deref())?;
        if let Some(overrides) = &new.job.overrides {
            JobOverrides::parse(overrides)?;
        }
        Ok(read)
    }

    /// The schedules by name, after this one, at most so many.
    pub async fn schedules(&self, after: Option<String>, limit: u32) -> Result<Vec<Schedule>, EngineError> {
        let notices = self.store().notices(SPACE.to_owned(), after, limit).await?;
        notices.iter().map(|notice| Stored::read(notice)?.into_schedule(&notice.name)).collect()
    }

    /// The schedule of that name.
    pub async fn schedule(&self, name: &str) -> Result<Option<Schedule>, EngineError> {
        let notice = self.store().notice(SPACE.to_owned(), name.to_owned()).await?;
        notice.map(|notice| Stored::read(&notice)?.into_schedule(&notice.name)).transpose()
    }

    /// Takes a schedule down; jobs that came of it stay. Whether there was one.
    pub async fn remove_schedule(&self, name: &str) -> Result<bool, EngineError> {
        for attempt in 0..TRIES {
            let Some(notice) = self.store().notice(SPACE.to_owned(), name.to_owned()).await? else {
                return Ok(false);
            };
            let change = NoticeChange {
                space: SPACE.to_owned(),
                name: name.to_owned(),
                seen: Some(notice.version),
                value: None,
                due_at: None,
            };
            if self.posted(change).await? {
                return Ok(true);
            }
            self.step_back(attempt).await;
        }
        Err(ScheduleProblem::Contended(name.to_owned()).into())
    }

    /// Pauses a schedule, or lets it go on with the first tick after now: what it missed meanwhile was not wanted. Whether that
    /// changed anything; nothing when there is no such schedule.
    pub async fn pause_schedule(&self, name: &str, paused: bool) -> Result<Option<bool>, EngineError> {
        for attempt in 0..TRIES {
            let Some(notice) = self.store().notice(SPACE.to_owned(), name.to_owned()).await? else {
                return Ok(None);
            };
            let mut schedule = Stored::read(&notice)?.into_schedule(&notice.name)?;
            if schedule.paused_at.is_some() == paused {
                return Ok(Some(false));
            }
            let now = self.store_now().await?;
            let from = schedule.last.map_or(now, |last| last.max(now));
            schedule.paused_at = paused.then_some(now);
            schedule.next =
                if paused { None } else { zone::next_after(&schedule.cron, &schedule.time_zone, from) };
            if self.posted(schedule.change(Some(notice.version))?).await? {
                self.look_at_schedules_now();
                return Ok(Some(true));
            }
            self.step_back(attempt).await;
        }
        Err(ScheduleProblem::Contended(name.to_owned()).into())
    }

    /// Enqueues the job of a schedule now, beside its ticks. Nothing when there is no such schedule.
    pub async fn run_schedule(&self, name: &str) -> Result<Option<JobId>, EngineError> {
        let Some(schedule) = self.schedule(name).await? else { return Ok(None) };
        let caller_id = Some(format!("{name}@now"));
        let job = NewJob { caller_id, unique_key: None, run_at: None, ..schedule.job };
        Ok(Some(self.enqueue(job).await?.id))
    }

    /// The job of a schedule's tick, as far as its events are kept.
    pub async fn job_of_tick(
        &self,
        schedule: &Schedule,
        tick: Timestamp,
    ) -> Result<Option<JobId>, EngineError> {
        let caller_id = Some(schedule.caller_id(tick));
        let filter = EventFilter { caller_id, ..EventFilter::default() };
        let events = self.store().events(filter, 1).await?;
        Ok(events.first().and_then(|event| event.job))
    }

    async fn posted(&self, change: NoticeChange) -> Result<bool, EngineError> {
        let posted = self.store().post(self.now(), vec![change], Vec::new(), Vec::new()).await?;
        Ok(matches!(posted, Posted::Done { .. }))
    }

    /// Somebody was faster: a short while, so that both do not meet again.
    async fn step_back(&self, attempt: u32) {
        let most = 10 * u64::from(attempt.min(10) + 1);
        let millis = self.rng().next_u64() % most;
        tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
    }
}

fn named_zone(name: &str) -> Result<TimeZone, ScheduleProblem> {
    zone::named(name).ok_or_else(|| ScheduleProblem::Zone { name: name.to_owned(), alike: zone::alike(name) })
}

fn check_name(name: &str) -> Result<(), ScheduleProblem> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(ScheduleProblem::Name(name.chars().take(NAME_CHARS).collect()))
}

/// A name for a schedule that was given none: its expression, as far as a name can hold it, and a number where that is taken.
fn made_name(cron: &Cron, attempt: u32) -> String {
    let kept = |c: char| match c {
        '*' | '?' => 'x',
        '/' => 'e',
        ',' => '.',
        c if c.is_ascii_alphanumeric() || c == '-' => c,
        _ => '_',
    };
    let name: String = cron.source().trim_start_matches('@').chars().map(kept).take(80).collect();
    if attempt == 0 { name } else { format!("{name}-{}", attempt + 1) }
}
