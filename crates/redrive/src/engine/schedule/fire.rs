//! Ticks become jobs. Every engine that maintains the store looks; whoever posts first fires, and the others find the notice
//! changed. However many are due at once, all of them fire, by the clock that the store's processes share.
//!
//! Nothing is asked of the store before the next tick that is known, or for ten seconds, in which another process may have added a
//! schedule. A tick is never taken back: when the clock is set back, those that have fired do not fire again. Only when it turns
//! out that the last one lies more than a day ahead was the clock so wrong that it is better not believed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redrive_store::{EventStatus, NewEvent, NewJob, Notice, NoticeChange, Posted, StoreError, Timestamp};
use serde_json::json;

use super::stored::Stored;
use super::{Missed, SPACE, Schedule, zone};
use crate::engine::{Engine, EngineError};

/// How long nobody looks, at the most.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often all schedules are looked at for those that a wrong clock has led astray.
const LOOK_AT_ALL_EVERY: Duration = Duration::from_mins(5);
/// A tick that comes no later than this is not missed.
const ON_TIME: Duration = Duration::from_mins(1);
/// A last tick so far ahead was fired by a wrong clock.
const ASTRAY: Duration = Duration::from_hours(24);
/// The most schedules that are read at once, and how often they are read in one look.
const AT_ONCE: u32 = 500;
const MOST_PAGES: u32 = 64;
/// How long a look goes on to the next page; the rest is fired with the next maintenance.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// The most schedules in one transaction, and the most bytes of their jobs.
const TOGETHER: usize = 100;
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// The most jobs of one schedule in one transaction.
const MOST_TICKS: usize = 1_000;

/// When schedules are looked at next, on the steady clock.
#[derive(Debug, Default)]
pub(in crate::engine) struct ScheduleWatch {
    next: Mutex<(Duration, Option<Duration>)>,
}

impl ScheduleWatch {
    /// Whether it is time to look, and whether to look at all of them.
    fn is_time(&self, steady: Duration) -> (bool, bool) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if steady < next.0 {
            return (false, false);
        }
        let all = next.1.is_none_or(|last| steady.saturating_sub(last) >= LOOK_AT_ALL_EVERY);
        if all {
            next.1 = Some(steady);
        }
        // Until this look has found out when the next one is due, no other is made in this process.
        next.0 = steady.saturating_add(LOOK_EVERY);
        (true, all)
    }

    fn sleep_until(&self, steady: Duration) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.0 = next.0.min(steady);
    }
}

impl Engine {
    /// Looks at schedules with the next maintenance: one was added or changed here.
    pub(super) fn look_at_schedules_now(&self) {
        self.0.schedules.sleep_until(Duration::ZERO);
    }

    /// Fires what is due, if it is time to look. Answers how many jobs came of it.
    pub(in crate::engine) async fn fire_schedules(&self) -> Result<u64, EngineError> {
        let steady = self.clock().steady();
        let (looks, at_all) = self.0.schedules.is_time(steady);
        if !looks {
            return Ok(0);
        }
        let fired = self.look_at_schedules(steady, at_all).await;
        if fired.is_err() {
            self.look_at_schedules_now();
        }
        fired
    }

    async fn look_at_schedules(&self, steady: Duration, at_all: bool) -> Result<u64, EngineError> {
        let now = self.store_now().await?;
        if at_all {
            self.find_strays(now).await?;
        }
        let mut look = Look { now, fired: 0, stuck: 0, next_due: None };
        for _ in 0..MOST_PAGES {
            // What cannot be obeyed stays at the head, and must not hide the rest.
            let most = AT_ONCE.saturating_add(look.stuck);
            look.stuck = 0;
            let page = self.store().due_notices(now.after(LOOK_EVERY), SPACE.to_owned(), most).await?;
            let full = page.len() >= usize::try_from(most).unwrap_or(usize::MAX);
            let more = full && page.last().and_then(|last| last.due_at).is_some_and(|due| due <= now);
            let outrun = self.fire_page(&page, &mut look).await?;
            if !more && !outrun {
                if let Some(due) = look.next_due {
                    self.0.schedules.sleep_until(steady.saturating_add(due.since(now)));
                }
                return Ok(look.fired);
            }
            // Others of this worker's chores wait meanwhile.
            if self.clock().steady().saturating_sub(steady) >= LONGEST_LOOK {
                break;
            }
        }
        self.look_at_schedules_now();
        Ok(look.fired)
    }

    /// Fires what is due of a page, many in one transaction. Whether somebody else was faster with one of them: then it is read again.
    async fn fire_page(&self, page: &[Notice], look: &mut Look) -> Result<bool, EngineError> {
        let mut together = Together::default();
        for notice in page {
            if notice.due_at.is_none_or(|due| due > look.now) {
                look.next_due = look.next_due.into_iter().chain(notice.due_at).min();
                continue;
            }
            match Fire::of(notice, look.now) {
                Ok(Some(fire)) => together.push(fire),
                Ok(None) => look.stuck += 1,
                Err(error) => look.leave(&notice.name, &error),
            }
            if together.is_full() && self.post_ticks(std::mem::take(&mut together), look).await? {
                return Ok(true);
            }
        }
        self.post_ticks(together, look).await
    }

    /// Posts ticks together. One that cannot be obeyed must not stop the others: then each goes by itself.
    async fn post_ticks(&self, together: Together, look: &mut Look) -> Result<bool, EngineError> {
        let mut outrun = false;
        let Together { fires, .. } = together;
        match self.post_fires(&fires, look).await {
            Ok(was_outrun) => return Ok(was_outrun),
            Err(error) if error.may_pass() || error.outcome_is_unknown() => return Err(error.into()),
            Err(_) => {
                for fire in &fires {
                    match self.post_fires(std::slice::from_ref(fire), look).await {
                        Ok(was_outrun) => outrun |= was_outrun,
                        Err(error) if error.may_pass() || error.outcome_is_unknown() => {
                            return Err(error.into());
                        }
                        Err(error) => look.leave(&fire.change.name, &error.into()),
                    }
                }
            }
        }
        Ok(outrun)
    }

    /// Schedules with their next tick, and the jobs of this one, in one transaction. Whether somebody else was faster.
    async fn post_fires(&self, fires: &[Fire], look: &mut Look) -> Result<bool, StoreError> {
        if fires.is_empty() {
            return Ok(false);
        }
        let changes = fires.iter().map(|fire| fire.change.clone()).collect();
        let jobs: Vec<NewJob> = fires.iter().flat_map(|fire| fire.jobs.iter().cloned()).collect();
        let events = fires.iter().filter_map(|fire| fire.event.clone()).collect();
        let count = jobs.len() as u64;
        if self.store().post(look.now, changes, jobs, events).await? == Posted::Outrun {
            return Ok(true);
        }
        tracing::debug!(schedules = fires.len(), jobs = count, "schedules fired");
        look.fired += count;
        look.next_due = look.next_due.into_iter().chain(fires.iter().filter_map(|fire| fire.next)).min();
        Ok(false)
    }

    /// Schedules whose last tick lies far ahead go on from now.
    async fn find_strays(&self, now: Timestamp) -> Result<(), EngineError> {
        let mut after = None;
        loop {
            let page = self.store().notices(SPACE.to_owned(), after.take(), AT_ONCE).await?;
            for notice in &page {
                let Ok(mut schedule) =
                    Stored::read(notice).and_then(|stored| stored.into_schedule(&notice.name))
                else {
                    continue;
                };
                if schedule.next.is_none() || schedule.last.is_none_or(|last| last <= now.after(ASTRAY)) {
                    continue;
                }
                tracing::warn!(
                    schedule = schedule.name,
                    "its last tick lies ahead: the clock was wrong; it goes on from now"
                );
                schedule.last = None;
                schedule.next = zone::next_after(&schedule.cron, &schedule.time_zone, now);
                let change = schedule.change(Some(notice.version))?;
                self.store().post(now, vec![change], Vec::new(), Vec::new()).await?;
            }
            match page.last() {
                Some(last) if page.len() == AT_ONCE as usize => after = Some(last.name.clone()),
                _ => return Ok(()),
            }
        }
    }
}

/// What a look at the schedules has come to.
struct Look {
    /// By the store's clock.
    now: Timestamp,
    fired: u64,
    /// How many of the last page are due and stay so.
    stuck: u32,
    next_due: Option<Timestamp>,
}

impl Look {
    fn leave(&mut self, schedule: &str, error: &EngineError) {
        tracing::error!(schedule, %error, "a schedule does not fire");
        self.stuck = self.stuck.saturating_add(1);
    }
}

/// What one schedule does now.
struct Fire {
    change: NoticeChange,
    jobs: Vec<NewJob>,
    event: Option<NewEvent>,
    next: Option<Timestamp>,
}

impl Fire {
    /// The ticks of a schedule up to now; nothing when it has none.
    fn of(notice: &Notice, now: Timestamp) -> Result<Option<Fire>, EngineError> {
        let mut schedule = Stored::read(notice)?.into_schedule(&notice.name)?;
        let Some(due) = schedule.next else { return Ok(None) };
        let turn = turn(&schedule, due, now);
        let jobs: Vec<NewJob> = turn.ticks.iter().map(|tick| schedule.job_of(*tick)).collect();
        schedule.last = turn.ticks.last().copied().or(schedule.last);
        schedule.next = turn.next;
        schedule.fired += jobs.len() as u64;
        schedule.skipped += turn.skipped;
        let event = (turn.skipped > 0).then(|| missed_event(&schedule, &turn, due));
        let change = schedule.change(Some(notice.version))?;
        Ok(Some(Fire { change, jobs, event, next: schedule.next }))
    }
}

/// What goes into one transaction.
#[derive(Default)]
struct Together {
    fires: Vec<Fire>,
    jobs: usize,
    bytes: usize,
}

impl Together {
    fn push(&mut self, fire: Fire) {
        self.jobs += fire.jobs.len();
        self.bytes += fire.jobs.iter().map(|job| job.payload.len()).sum::<usize>();
        self.fires.push(fire);
    }

    fn is_full(&self) -> bool {
        self.fires.len() >= TOGETHER || self.jobs >= MOST_TICKS || self.bytes >= MOST_BYTES
    }
}

/// What is done about a schedule now.
struct Turn {
    /// These become jobs.
    ticks: Vec<Timestamp>,
    /// So many do not; counted up to a bound.
    skipped: u64,
    next: Option<Timestamp>,
}

/// `due` is its next tick, and has come.
fn turn(schedule: &Schedule, due: Timestamp, now: Timestamp) -> Turn {
    let after = |at: Timestamp| zone::next_after(&schedule.cron, &schedule.time_zone, at);
    let is_missed = |tick: Timestamp| now.since(tick) > ON_TIME;
    let mut ticks: Vec<Timestamp> = std::iter::successors(Some(due), |at| after(*at))
        .take_while(|tick| *tick <= now)
        .take(MOST_TICKS)
        .collect();
    let skipped = match schedule.missed {
        Missed::All => 0,
        Missed::Skip | Missed::Once => {
            let found = ticks.len();
            if found == MOST_TICKS {
                // There may be more than anybody wants to count; only the latest matter.
                ticks = latest(schedule, due, now);
            }
            if is_missed(due) {
                // Nobody was there: the latest stands for all, if it is wanted at all or has come just now.
                ticks.drain(..ticks.len().saturating_sub(1));
                ticks.retain(|tick| schedule.missed == Missed::Once || !is_missed(*tick));
            }
            found.saturating_sub(ticks.len()) as u64
        }
    };
    let done = match (schedule.missed, ticks.last()) {
        // What is left of them comes next.
        (Missed::All, Some(last)) => *last,
        _ => now.max(schedule.last.unwrap_or(now)),
    };
    Turn { next: after(done), ticks, skipped }
}

/// The ticks of the last minute, or else the one before that; from `due` on.
fn latest(schedule: &Schedule, due: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    const HOUR: u64 = 3_600;
    let after = |at: &Timestamp| zone::next_after(&schedule.cron, &schedule.time_zone, *at);
    for seconds in [60, HOUR, 24 * HOUR, 32 * 24 * HOUR, 400 * 24 * HOUR] {
        let from = now.before(Duration::from_secs(seconds)).max(due);
        let found = std::iter::successors(Some(from), after).skip(1).take_while(|tick| *tick <= now);
        if seconds == 60 {
            let found: Vec<Timestamp> = found.collect();
            if !found.is_empty() {
                return found;
            }
        } else if let Some(last) = found.last() {
            return vec![last];
        }
    }
    vec![due]
}

fn missed_event(schedule: &Schedule, turn: &Turn, due: Timestamp) -> NewEvent {
    NewEvent {
        event_type: "schedule_missed".to_owned(),
        source: "redrive".to_owned(),
        data: json!({
            "schedule": schedule.name,
            "missed": schedule.missed.name(),
            "from": due,
            "skipped": turn.skipped,
            "fired": turn.ticks.len(),
        }),
        importance: Some(3),
        status: Some(EventStatus::Success),
        ..NewEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cron, Missed};
    use super::*;

    fn schedule(cron: &str, missed: Missed) -> Schedule {
        Schedule {
            name: "tick".to_owned(),
            cron: Cron::parse(cron).unwrap(),
            zone: "UTC".to_owned(),
            missed,
            job: NewJob::new("report", "{}"),
            paused_at: None,
            created_at: Timestamp::default(),
            next: None,
            last: None,
            fired: 0,
            skipped: 0,
            time_zone: zone::named("UTC").unwrap(),
        }
    }

    fn check(cron: &str, missed: Missed, due: &str, now: &str, ticks: &[&str], skipped: u64, next: &str) {
        let day = |time: &str| format!("2026-11-15T{time}Z").parse::<Timestamp>().unwrap();
        let turn = turn(&schedule(cron, missed), day(due), day(now));
        let expected: Vec<Timestamp> = ticks.iter().map(|tick| day(tick)).collect();
        assert_eq!((turn.ticks, turn.skipped, turn.next), (expected, skipped, Some(day(next))), "{missed:?}");
    }

    /// Schedules: what nobody was there for is left, done once, or done each.
    #[test]
    fn missed_ticks_go_by_their_rule() {
        let (due, now, next) = ("06:00:00", "06:17:30", "06:20:00");
        check("*/5 * * * *", Missed::Skip, due, now, &[], 4, next);
        check("*/5 * * * *", Missed::Once, due, now, &["06:15:00"], 3, next);
        check(
            "*/5 * * * *",
            Missed::All,
            due,
            now,
            &["06:00:00", "06:05:00", "06:10:00", "06:15:00"],
            0,
            next,
        );
        // One of them has come just now.
        let now = "06:15:30";
        check("*/5 * * * *", Missed::Skip, due, now, &["06:15:00"], 3, next);
        check("*/5 * * * *", Missed::Once, due, now, &["06:15:00"], 3, next);
        // After more than a minute there is no burst of what came in the last one.
        check("*/5 * * * * *", Missed::Skip, "06:00:00", "06:01:12", &["06:01:10"], 14, "06:01:15");
        check("*/5 * * * * *", Missed::Once, "06:00:00", "06:01:12", &["06:01:10"], 14, "06:01:15");
        // Nothing is missed: each is its own job.
        let three = ["06:00:00", "06:00:01", "06:00:02"];
        for missed in Missed::ALL {
            check("* * * * * *", missed, "06:00:00", "06:00:02.500", &three, 0, "06:00:03");
        }
    }

    /// Schedules, rows 15 and 16: a year without anybody is bounded work, whatever the rule.
    #[test]
    fn a_year_of_missed_ticks_is_bounded() {
        let (due, now) = ("2025-11-15T06:00:00Z".parse().unwrap(), "2026-11-15T06:00:30Z".parse().unwrap());
        let once = turn(&schedule("* * * * *", Missed::Once), due, now);
        assert_eq!(once.ticks, ["2026-11-15T06:00:00Z".parse().unwrap()]);
        assert_eq!(once.skipped, 999);
        let all = turn(&schedule("* * * * *", Missed::All), due, now);
        assert_eq!((all.ticks.len(), all.next), (1_000, Some(due.after(Duration::from_mins(1_000)))));
        let skip = turn(&schedule("* * * * * *", Missed::Skip), due, now);
        assert_eq!((skip.ticks, skip.next), (vec![now], Some(now.after(Duration::from_secs(1)))));
        let rare = turn(&schedule("* * 5 * * *", Missed::Once), due, now);
        assert_eq!(rare.ticks, ["2026-11-15T05:59:59Z".parse().unwrap()]);
    }
}
