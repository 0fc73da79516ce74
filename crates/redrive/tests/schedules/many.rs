//! Very many schedules that are due in the same moment.

use std::time::Duration;

use redrive::engine::Missed;
use redrive_store::{EventFilter, NoticeChange, Posted, Timestamp};

use crate::world::{Keeper, Place, at, report, run};

const SECOND: Duration = Duration::from_secs(1);

/// More of the schedule that is there, under other names.
async fn copy(keeper: &Keeper, of: &str, names: impl Iterator<Item = String>, due: Option<Timestamp>) {
    let store = keeper.engine.store();
    let there = store.notice("schedule".to_owned(), of.to_owned()).await.unwrap().unwrap();
    let change = |name: String| NoticeChange {
        space: "schedule".to_owned(),
        name,
        seen: None,
        value: Some(there.value.clone()),
        due_at: due.or(there.due_at),
    };
    let changes: Vec<NoticeChange> = names.map(change).collect();
    for some in changes.chunks(500) {
        let posted = store.post(keeper.engine.now(), some.to_vec(), Vec::new(), Vec::new()).await.unwrap();
        assert!(matches!(posted, Posted::Done { .. }));
    }
}

/// Schedules: more than are read at once are due in the same second, and all of them fire in that second, minute by minute. No tick
/// is lost, whatever the rule for what was missed, since somebody was there all the time.
#[test]
fn very_many_schedules_fire_together() {
    run(async {
        for place in Place::each() {
            let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
            let new = redrive::engine::NewSchedule { missed: Missed::Skip, ..report("* * * * *") };
            keeper.engine.add_schedule(new).await.unwrap();
            copy(&keeper, "report", (1..1_700).map(|number| format!("report-{number}")), None).await;
            for minute in 1..=2 {
                assert_eq!(keeper.pass(29 * SECOND).await, 0);
                assert_eq!(keeper.pass(SECOND).await, 1_700, "minute {minute}");
                assert_eq!(keeper.pass(30 * SECOND).await, 0);
            }
            let types = vec!["schedule_missed".to_owned()];
            let filter = EventFilter { types, ..EventFilter::default() };
            assert_eq!(keeper.engine.query(filter, 10).await.unwrap().len(), 0);
        }
    });
}

/// Schedules: however many cannot be read, the others fire.
#[test]
fn schedules_that_cannot_be_read_hide_no_others() {
    run(async {
        for place in Place::each() {
            let keeper = Keeper::new(place.store().await, "2026-11-15T12:00:30Z").await;
            keeper.engine.add_schedule(report("* * * * *")).await.unwrap();
            let store = keeper.engine.store();
            let broken = |number: i32| NoticeChange {
                space: "schedule".to_owned(),
                name: format!("a-{number}"),
                seen: None,
                value: Some("\"written by another redrive\"".to_owned()),
                due_at: Some(at("2026-11-15T12:00:00Z")),
            };
            let changes = (0..600).map(broken).collect();
            store.post(keeper.engine.now(), changes, Vec::new(), Vec::new()).await.unwrap();
            assert_eq!(keeper.pass(30 * SECOND).await, 1);
            assert_eq!(keeper.pass(60 * SECOND).await, 1);
        }
    });
}
