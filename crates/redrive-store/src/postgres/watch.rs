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
/// How soon after a look the next may be made because a time has come, or because others have told something.
const LOOK_BEHIND: Duration = Duration::from_millis(5);
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(50);
/// How long we believe to be alone after a look that said so, while we would hear who comes.
const ALONE_FOR: Duration = Duration::from_millis(1_500);
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
    let (mut next_look, mut looked_at) = (Instant::now(), None::<Instant>);
    let (mut counted_at, mut between_looks) = (None, LOOK_BEHIND);
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
            // When the next one behind it is due is not known, and whoever gets this one is about to ask.
            room.parked.borrow_mut().forget_when();
        }
        if room.look_soon.replace(false) {
            room.parked.borrow_mut().forget_when();
            between_looks = LOOK_FOR_OTHERS;
        }
        if room.parked.borrow().wants_a_look() {
            next_look = next_look.min(looked_at.map_or(now, |at| at + between_looks));
        }
        if next_look <= now {
            if ear.as_ref().is_none_or(Line::is_closed) {
                hears.set(false);
                ear = listen(&room, &hears).await;
            }
            let counts = counted_at.is_none_or(|at: Instant| at.elapsed() >= LOOK_WHEN_HEARING);
            counted_at = if counts { Some(Instant::now()) } else { counted_at };
            if let Err(fault) = look(&room, counts.then(|| hears.get())).await {
                tracing::debug!(?fault, "could not look for work");
            }
            let pause = if hears.get() { LOOK_WHEN_HEARING } else { LOOK_WHEN_DEAF };
            (looked_at, between_looks) = (Some(Instant::now()), LOOK_BEHIND);
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
            // It may be about work whose time has not come.
            room.look_soon();
            // Somebody is there, and has not heard what we thought that nobody needs.
            if room.alone_until.take().is_some() {
                room.wake_herald.notify_one();
            }
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

/// Whether something is due for those who wait, and when something will be. Whether others are there is looked at if it is said
/// whether we would hear them come.
async fn look(room: &Room, hears: Option<bool>) -> Result<(), Fault> {
    let line = room.pool.line().await?;
    let looked = look_with(room, &line, hears).await;
    if let Err(Fault::Lost(_)) = &looked {
        line.discard();
        room.pool.note(false);
    }
    looked
}

async fn look_with(room: &Room, line: &Line, hears: Option<bool>) -> Result<(), Fault> {
    room.counted.looks.fetch_add(1, Ordering::Relaxed);
    learn_lanes(line, &room.memory).await?;
    let places = room.parked.borrow_mut().places(&room.memory.borrow());
    let callers = || room.parked.borrow().all().map(LeaseCall::callers_now).max().unwrap_or_default();
    let now = (room.clock == Clock::Caller).then(|| callers().millis());
    let Some(row) = line.first(sql!("ready_next"), args![places, now]).await? else { return Ok(()) };
    let (first, later, now): (Option<i64>, Option<i64>, i64) =
        (column(&row, 0)?, column(&row, 1)?, column(&row, 2)?);
    if let Some(hears) = hears {
        let workers = line.first(sql!("worker_count"), args![None::<i64>]).await?;
        let workers: i64 = workers.map_or(Ok(0), |row| column(&row, 0))?;
        let alone = hears
            && !has_its_own_time(room)
            && workers <= i64::try_from(room.own_workers()).unwrap_or(i64::MAX);
        room.alone_until.set(alone.then(|| Instant::now() + ALONE_FOR));
        if !alone && room.news.get() {
            room.wake_herald.notify_one();
        }
    }
    if first.is_some_and(|first| first <= now) {
        room.look_again();
    }
    if let Some(later) = later {
        let due = Instant::now() + Timestamp::from_millis(later).since(Timestamp::from_millis(now));
        room.next_due.set(Some(room.next_due.get().map_or(due, |known| known.min(due))));
    }
    Ok(())
}

/// Tells other processes that there is work, never more often than they need. Whoever is alone tells nobody: as long as it was so a
/// moment ago and we would have heard who came, or as the database says in the moment of telling.
pub(super) async fn herald(room: Rc<Room>) {
    while !room.is_closing() {
        room.wake_herald.notified().await;
        let alone = room.alone_until.get().is_some_and(|until| until > Instant::now());
        if room.news.get() && !alone {
            tell_others(&room).await;
            tokio::time::sleep(BETWEEN_NEWS).await;
        }
    }
}

/// Whether callers make time pass by themselves: then nobody's presence can be told by the database's clock.
fn has_its_own_time(room: &Room) -> bool {
    room.clock == Clock::Caller
}

/// One word to other processes, if there are any. When it is not heard, they find the work by looking.
async fn tell_others(room: &Room) {
    room.news.set(false);
    let own = if has_its_own_time(room) { -1 } else { i64::try_from(room.own_workers()).unwrap_or(i64::MAX) };
    let told = async {
        let line = room.pool.line().await?;
        line.run(sql!("notify_others"), args![room.store_id.to_string(), own]).await
    };
    if let Err(fault) = told.await {
        tracing::debug!(?fault, "could not tell of new work");
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
