//! Hearing of others' work, telling them of ours, and adding up the counters.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::desk::Room;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::memory::learn_lanes;
use super::operation::LeaseCall;
use super::texts::sql;
use super::tx::Clock;
use crate::time::Timestamp;

/// How often we look for others' work while we hear of it, as far as we know.
const LOOK_WHEN_HEARING: Duration = Duration::from_secs(1);
/// How often we look while we hear nothing: a pooler may keep notifications from us.
const LOOK_WHEN_DEAF: Duration = Duration::from_millis(100);
/// How long between two notifications: one tells as much as many.
const BETWEEN_NEWS: Duration = Duration::from_millis(5);
/// How often the counters are added up while there is something to add.
const BETWEEN_FOLDS: Duration = Duration::from_secs(1);
/// How many of these rounds pass until old operations are forgotten: looking for them reads all of them.
const ROUNDS_BETWEEN_FORGETTING: u64 = 300;

/// Looks for work on behalf of those who wait: when its time has come, and every so often.
pub(super) async fn watch(room: Rc<Room>) {
    let hears = Rc::new(Cell::new(false));
    let mut ear: Option<Line> = None;
    let mut next_look = Instant::now();
    while !room.is_closing() {
        room.dismiss_the_impatient();
        let now = Instant::now();
        let Some(next_walk) = room.parked.borrow().next_walk() else {
            room.wake_watch.notified().await;
            continue;
        };
        if room.next_due.get().is_some_and(|due| due <= now) {
            room.next_due.set(None);
            room.look_again();
        }
        if next_look <= now {
            if ear.as_ref().is_none_or(Line::is_closed) {
                hears.set(false);
                ear = listen(&room, &hears).await;
            }
            if let Err(fault) = look(&room).await {
                tracing::debug!(?fault, "could not look for work");
            }
            let pause = if hears.get() { LOOK_WHEN_HEARING } else { LOOK_WHEN_DEAF };
            next_look = Instant::now() + pause;
        }
        let until = [Some(next_look), room.next_due.get(), Some(next_walk)].into_iter().flatten().min();
        let nap = tokio::time::sleep_until(until.unwrap_or(next_look).into());
        tokio::select! {
            () = nap => {}
            () = room.wake_watch.notified() => {}
        }
    }
}

/// Opens an ear for others' news. Whether it hears is found out by a word to ourselves.
async fn listen(room: &Rc<Room>, hears: &Rc<Cell<bool>>) -> Option<Line> {
    let (weak, told) = (Rc::downgrade(room), Rc::clone(hears));
    let store = room.store_id.to_string();
    let on_news = move |about: &str| {
        told.set(true);
        if about == store
            && let Some(room) = weak.upgrade()
        {
            room.lanes_are_stale.set(true);
            room.look_again();
        }
    };
    let opened = async {
        let ear = room.pool.address().listen(room.pool.texts(), on_news).await?;
        ear.say("LISTEN redrive_ready").await?;
        let line = room.pool.line().await?;
        line.run(sql!("notify"), args![room.store_id.to_string()]).await?;
        Ok::<Line, Fault>(ear)
    };
    match opened.await {
        Ok(ear) => Some(ear),
        Err(fault) => {
            tracing::debug!(?fault, "cannot listen; looking every so often");
            None
        }
    }
}

/// Whether something is due for those who wait, and when something will be.
async fn look(room: &Room) -> Result<(), Fault> {
    let line = room.pool.line().await?;
    let looked = look_with(room, &line).await;
    if let Err(Fault::Lost(_)) = &looked {
        line.discard();
        room.pool.note(false);
    }
    looked
}

async fn look_with(room: &Room, line: &Line) -> Result<(), Fault> {
    room.counted.looks.fetch_add(1, Ordering::Relaxed);
    learn_lanes(line, &room.memory).await?;
    let places = room.parked.borrow_mut().places(&room.memory.borrow());
    let Some(row) = line.first(sql!("ready_next"), args![places]).await? else { return Ok(()) };
    let (next, database_now): (Option<i64>, i64) = (column(&row, 0)?, column(&row, 1)?);
    let workers = line.first(sql!("worker_count"), args![None::<i64>]).await?;
    let workers: i64 = workers.map_or(Ok(0), |row| column(&row, 0))?;
    room.has_company.set(workers > i64::try_from(room.own_workers()).unwrap_or(i64::MAX));
    let Some(next) = next else { return Ok(()) };
    let now = match room.clock {
        Clock::Database => Timestamp::from_millis(database_now),
        Clock::Caller => room.parked.borrow().all().map(LeaseCall::callers_now).max().unwrap_or_default(),
    };
    let next = Timestamp::from_millis(next);
    if next <= now {
        room.look_again();
    } else {
        let due = Instant::now() + next.since(now);
        room.next_due.set(Some(room.next_due.get().map_or(due, |known| known.min(due))));
    }
    Ok(())
}

/// Tells other processes that there is work, never more often than they need.
pub(super) async fn herald(room: Rc<Room>) {
    while !room.is_closing() {
        room.wake_herald.notified().await;
        if room.news.get() && room.has_company.get() {
            tell(&room).await;
            tokio::time::sleep(BETWEEN_NEWS).await;
        }
    }
}

/// One word to everybody. When it is not heard, they find the work by looking.
pub(super) async fn tell(room: &Room) {
    room.news.set(false);
    let told = async {
        let line = room.pool.line().await?;
        line.run(sql!("notify"), args![room.store_id.to_string()]).await
    };
    if let Err(fault) = told.await {
        tracing::debug!(?fault, "could not tell of new work");
    }
}

/// Adds up the counters' changes, so that they stay few.
pub(super) async fn fold(room: Rc<Room>) {
    let mut rounds: u64 = 0;
    while !room.is_closing() {
        tokio::time::sleep(BETWEEN_FOLDS).await;
        if room.to_fold.replace(false) {
            room.add_up(rounds.is_multiple_of(ROUNDS_BETWEEN_FORGETTING)).await;
            rounds += 1;
        }
    }
}
