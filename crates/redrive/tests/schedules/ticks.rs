//! What one engine does with its schedules.

use std::time::Duration;

use redrive::engine::{EngineError, Missed, NewSchedule, Schedule, ScheduleProblem};
use redrive_store::{EventFilter, JobState, NewJob};

use crate::world::{Keeper, Place, at, report, run, ticks};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// Schedules: a tick becomes a job that knows which tick it is of; the schedule says what comes next and what came last.
#[test]
fn a_tick_becomes_a_job() {
    run(async {
        for place in Place::each() {
            let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
            let new = NewSchedule {
                zone: "Asia/Tokyo".to_owned(),
                job: NewJob {
                    queue: "reports".to_owned(),
                    priority: 7,
                    ..NewJob::new("report", "{\"n\":1}")
                },
                ..report("2 21 * * *")
            };
            let added = keeper.engine.add_schedule(new).await.unwrap();
            assert_eq!(added.next, Some(at("2026-11-15T12:02:00Z")));
            assert_eq!(added.in_its_zone(added.next.unwrap()), "2026-11-15 21:02:00 JST");
            assert_eq!(keeper.pass(SECOND).await, 0);
            assert_eq!(keeper.pass(MINUTE + 28 * SECOND).await, 0, "a second is left");
            assert_eq!(keeper.pass(SECOND).await, 1);
            assert_eq!(keeper.pass(SECOND).await, 0);
            let schedule = keeper.engine.schedule("report").await.unwrap().unwrap();
            assert_eq!((schedule.next, schedule.fired), (Some(at("2026-11-16T12:02:00Z")), 1));
            let last = schedule.last.unwrap();
            assert_eq!(last, at("2026-11-15T12:02:00Z"));
            let job = keeper.engine.job_of_tick(&schedule, last).await.unwrap().expect("its job");
            let record = keeper.engine.store().job(job).await.unwrap().unwrap();
            let job = record.job.unwrap();
            assert_eq!(job.caller_id.as_deref(), Some("report@2026-11-15T12:02:00.000Z"));
            assert_eq!(
                (job.queue.as_str(), job.priority, job.payload),
                ("reports", 7, b"{\"n\":1}".to_vec())
            );
        }
    });
}

/// Schedules: what was missed goes by its rule, and the stream tells of what was left.
#[test]
fn missed_ticks_go_by_their_rule() {
    run(async {
        for place in Place::each() {
            for (missed, jobs) in [(Missed::Skip, 0), (Missed::Once, 1), (Missed::All, 7)] {
                let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
                let name = format!("every-{}", missed.name());
                let new = NewSchedule { name: Some(name.clone()), missed, ..report("*/10 * * * *") };
                keeper.engine.add_schedule(new).await.unwrap();
                assert_eq!(keeper.pass(75 * MINUTE).await, jobs, "{missed:?}");
                let schedule = keeper.engine.schedule(&name).await.unwrap().unwrap();
                assert_eq!(schedule.next, Some(at("2026-11-15T13:20:00Z")));
                assert_eq!(schedule.skipped, 7 - jobs, "{missed:?}");
            }
            let keeper = Keeper::new(place.store().await, "2026-11-15T14:00:30Z").await;
            let filter = EventFilter { types: vec!["schedule_missed".to_owned()], ..EventFilter::default() };
            let told = keeper.engine.query(filter, 10).await.unwrap();
            assert_eq!(told.len(), 2, "skip and once");
            assert_eq!(told[0].data["skipped"], 6);
        }
    });
}

/// Schedules, rows 15 and 16: a clock that is set back fires nothing again; one that was a year ahead does not silence a
/// schedule for a year; and while a jump is fresh nothing fires.
#[test]
fn a_clock_that_jumps_doubles_nothing_and_silences_nothing() {
    run(async {
        for place in Place::each() {
            let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
            keeper.engine.add_schedule(report("* * * * *")).await.unwrap();
            assert_eq!(keeper.pass(MINUTE).await, 1);
            // Half an hour back: what has fired stays fired, and the next tick comes when it is due.
            keeper.clock.jump_to(at("2026-11-15T11:30:30Z"));
            for _ in 0..30 {
                assert_eq!(keeper.pass(MINUTE).await, 0);
            }
            assert_eq!(keeper.pass(2 * MINUTE).await, 1);
            assert!(ticks(&keeper.engine).await.values().all(|count| *count == 1));
            // A year ahead: not at once, since it may be a mistake that is mended in a moment.
            keeper.clock.jump_to(at("2027-11-15T12:00:30Z"));
            assert_eq!(keeper.look().await, 0);
            assert_eq!(keeper.pass(10 * SECOND).await, 0);
            assert_eq!(keeper.pass(MINUTE).await, 1, "all that was missed is one job");
            // And back: the schedule goes on from now, although its last tick lies a year ahead.
            keeper.clock.jump_to(at("2026-11-15T12:10:30Z"));
            assert_eq!(keeper.look().await, 0);
            let mut jobs = 0;
            for _ in 0..8 {
                jobs += keeper.pass(MINUTE).await;
            }
            assert!(jobs >= 2, "{jobs}");
            let schedule = keeper.engine.schedule("report").await.unwrap().unwrap();
            assert!(schedule.next.unwrap() < at("2026-11-15T12:30:00Z"), "{:?}", schedule.next);
        }
    });
}

/// Schedules: a schedule is paused, goes on without what it missed, runs now, is replaced with its past, and goes.
#[test]
fn a_schedule_is_operated() {
    run(async {
        for place in Place::each() {
            let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
            let engine = &keeper.engine;
            engine.add_schedule(NewSchedule { missed: Missed::All, ..report("* * * * *") }).await.unwrap();
            assert_eq!(engine.pause_schedule("report", true).await.unwrap(), Some(true));
            assert_eq!(engine.pause_schedule("report", true).await.unwrap(), Some(false));
            assert_eq!(keeper.pass(10 * MINUTE).await, 0);
            assert_eq!(engine.pause_schedule("report", false).await.unwrap(), Some(true));
            assert_eq!(keeper.look().await, 0);
            assert_eq!(keeper.pass(MINUTE).await, 1);
            let now = engine.run_schedule("report").await.unwrap().unwrap();
            assert!(matches!(engine.store().job(now).await.unwrap().unwrap().state, JobState::Ready { .. }));
            let taken = engine.add_schedule(report("0 6 * * *")).await.unwrap_err();
            assert!(matches!(taken, EngineError::Schedule(ScheduleProblem::Taken(_))), "{taken}");
            let new = NewSchedule { replace: true, ..report("0 6 * * *") };
            let replaced: Schedule = engine.add_schedule(new).await.unwrap();
            assert_eq!((replaced.fired, replaced.next), (1, Some(at("2026-11-16T06:00:00Z"))));
            let unnamed = NewSchedule { name: None, ..report("0 6 * * *") };
            assert_eq!(engine.add_schedule(unnamed.clone()).await.unwrap().name, "0_6_x_x_x");
            assert_eq!(engine.add_schedule(unnamed).await.unwrap().name, "0_6_x_x_x-2");
            assert_eq!(engine.schedules(None, 10).await.unwrap().len(), 3);
            assert!(engine.remove_schedule("report").await.unwrap());
            assert!(!engine.remove_schedule("report").await.unwrap());
            assert_eq!(engine.run_schedule("report").await.unwrap(), None);
        }
    });
}

/// Schedules: what cannot be obeyed is refused where somebody can still correct it.
#[test]
fn what_cannot_be_obeyed_is_refused() {
    run(async {
        let place = Place::Sqlite(tempfile::tempdir().unwrap());
        let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
        let refused =
            |new: NewSchedule| async { keeper.engine.add_schedule(new).await.unwrap_err().to_string() };
        let never = refused(report("0 6 31 2 *")).await;
        assert!(never.contains("no day ever fits"), "{never}");
        let zone = refused(NewSchedule { zone: "Tokyo".to_owned(), ..report("@daily") }).await;
        assert!(zone.contains("perhaps Asia/Tokyo"), "{zone}");
        let name = refused(NewSchedule { name: Some("a b".to_owned()), ..report("@daily") }).await;
        assert!(name.contains("cannot name a schedule"), "{name}");
        let job = NewJob { policy: Some("nobody".to_owned()), ..NewJob::new("report", "{}") };
        let policy = refused(NewSchedule { job, ..report("@daily") }).await;
        assert!(policy.contains("no policy called \"nobody\""), "{policy}");
        let job = NewJob::new("report", vec![b'x'; 300_000]);
        let long = refused(NewSchedule { job, ..report("@daily") }).await;
        assert!(long.contains("may have 262144 bytes"), "{long}");
        assert!(keeper.engine.schedules(None, 10).await.unwrap().is_empty());
    });
}

/// Schedules: nothing is asked of the store before the next tick that is known, or for ten seconds.
#[test]
fn nobody_looks_before_it_is_time() {
    run(async {
        let place = Place::Sqlite(tempfile::tempdir().unwrap());
        let store = place.store().await;
        let keeper = Keeper::new(store.clone(), "2026-11-15T12:00:30Z").await;
        assert_eq!(keeper.look().await, 0);
        // Added by another process, it is found within ten seconds.
        let other = Keeper::new(store, "2026-11-15T12:00:30Z").await;
        other.engine.add_schedule(report("* * * * * *")).await.unwrap();
        let mut looks = Vec::new();
        for _ in 0..12 {
            looks.push(keeper.pass(SECOND).await);
        }
        assert_eq!(looks, [0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 1, 1]);
    });
}
