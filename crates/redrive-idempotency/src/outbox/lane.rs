//! Sending from one lane: the first of its items, again and again, until nothing is pending or nothing more can be sent now.

use std::time::Duration;

use redrive::engine::Shutdown;
use redrive::{Executed, HttpSpec, Outcome, Surroundings, call_http};
use redrive_store::{ItemQuery, ItemState, NextSend, OutboxItem, SendEnd, Timestamp};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::answer::{self, Answer, Meaning};
use super::flush::LeftWhy;
use super::hold::Held;
use super::{ItemId, Outbox, OutboxError, call_of};

/// How often it is asked for a lane that somebody else has.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// The longest pause between two questions about a send that is under way, unless the far side wants a longer one.
const ASK_AT_LEAST: Duration = Duration::from_secs(15);

/// One send of an item, as observers see it. It holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SendReport {
    /// The item.
    pub id: ItemId,
    /// Its lane.
    pub lane: String,
    /// Its key.
    pub key: String,
    /// How it is called.
    pub method: String,
    /// Where, as far as that may be shown.
    #[serde(rename = "url")]
    pub place: String,
    /// The sends that count so far.
    pub sends: u32,
    /// What came of this one.
    #[serde(flatten)]
    pub result: SendResult,
    /// The status of the answer.
    pub status: Option<u16>,
    /// What is known about it, in words.
    pub last: Option<String>,
    /// How long it took.
    #[serde(skip)]
    pub took: Duration,
}

/// What came of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum SendResult {
    /// It is done.
    Sent,
    /// It is sent again, not before this time.
    Again {
        /// When.
        not_before: Timestamp,
    },
    /// An earlier send of it is being worked on; it is asked again, not before this time. It does not count.
    Underway {
        /// When.
        not_before: Timestamp,
    },
    /// The far side was not reached. It does not count, and the lane waits for the next flush.
    NotReached,
    /// The sender was asked to end at once, and nobody knows what became of it. It is sent again.
    LetGo,
    /// It is not sent again by itself.
    Failed,
}

/// What sending from a lane came to.
#[derive(Debug, Default)]
pub(super) struct LaneRun {
    pub(super) sent: u64,
    pub(super) failed: u64,
    /// Why something is left in it, if something is.
    pub(super) left: Option<LeftWhy>,
    underway: Underway,
}

impl LaneRun {
    /// Nothing was sent, for this reason.
    pub(super) fn left(why: LeftWhy) -> LaneRun {
        LaneRun { left: Some(why), ..LaneRun::default() }
    }
}

/// What waiting for a far side that is still at an earlier send has come to. Such an answer uses up no send, so this has an end of its own.
#[derive(Debug, Default)]
struct Underway {
    /// Asking and pausing, in sum over the lane.
    waited: Duration,
    /// The last pause; the next one is twice as long.
    pause: Duration,
}

impl Underway {
    /// The pause before the far side is asked again, which took so long to answer and wants to be left alone for so long; and whether
    /// that is within the patience.
    fn pause(&mut self, took: Duration, wanted: Duration, patience: Duration) -> (Duration, bool) {
        self.waited += took;
        let left = patience.saturating_sub(self.waited);
        let pause = wanted.max((self.pause * 2).min(ASK_AT_LEAST).min(left));
        self.pause = pause;
        self.waited += pause;
        (pause, pause <= left)
    }
}

/// How one step ended.
enum Step {
    /// There may be more.
    Next,
    /// That is all for now.
    Stop(LeftWhy),
    /// Nothing is pending.
    Empty,
}

/// Sends what a lane has. Items whose time comes within the patience are waited for.
pub(super) async fn send(
    outbox: &Outbox,
    lane: &str,
    patience: Duration,
    shutdown: &Shutdown,
) -> Result<LaneRun, OutboxError> {
    let mut run = LaneRun::default();
    let held = match take(outbox, lane, patience, shutdown).await? {
        Ok(held) => held,
        Err(why) => {
            run.left = why;
            return Ok(run);
        }
    };
    let ended = loop {
        match step(outbox, lane, &held, patience, shutdown, &mut run).await {
            Ok(Step::Next) => {}
            Ok(Step::Stop(why)) => break Ok(Some(why)),
            Ok(Step::Empty) => break Ok(None),
            Err(error) => break Err(error),
        }
    };
    let left = held.leave().await;
    run.left = ended?;
    left?;
    Ok(run)
}

/// The lane, when it is ours; or why nothing can be sent from it, if there is something.
async fn take(
    outbox: &Outbox,
    lane: &str,
    patience: Duration,
    shutdown: &Shutdown,
) -> Result<Result<Held, Option<LeftWhy>>, OutboxError> {
    // A holder that died is silent for so long before the lane is free.
    let until = Instant::now() + patience.max(outbox.hold_for + ASK_AGAIN * 2);
    loop {
        // Looked at before it is held: a lane that waits costs nobody a write.
        let Some(first) = first(outbox, lane).await? else { return Ok(Err(None)) };
        if first.not_before > outbox.engine.now().after(patience) {
            return Ok(Err(Some(LeftWhy::NotBefore { at: first.not_before })));
        }
        if shutdown.is_draining() {
            return Ok(Err(Some(LeftWhy::Stopped)));
        }
        if let Some(held) = Held::take(outbox, lane).await? {
            return Ok(Ok(held));
        }
        if Instant::now() >= until {
            return Ok(Err(Some(LeftWhy::HeldByAnother)));
        }
        tokio::select! {
            () = shutdown.draining() => {}
            () = sleep(ASK_AGAIN.min(outbox.hold_for / 4)) => {}
        }
    }
}

async fn first(outbox: &Outbox, lane: &str) -> Result<Option<OutboxItem>, OutboxError> {
    let query =
        ItemQuery { state: Some(ItemState::Pending), lane: Some(lane.to_owned()), after: None, limit: 1 };
    Ok(outbox.engine.store().items(query).await?.pop())
}

async fn step(
    outbox: &Outbox,
    lane: &str,
    held: &Held,
    patience: Duration,
    shutdown: &Shutdown,
    run: &mut LaneRun,
) -> Result<Step, OutboxError> {
    if shutdown.is_draining() {
        return Ok(first(outbox, lane).await?.map_or(Step::Empty, |_| Step::Stop(LeftWhy::Stopped)));
    }
    let (engine, store) = (&outbox.engine, outbox.engine.store());
    let Some(next) = first(outbox, lane).await? else { return Ok(Step::Empty) };
    if next.sends >= outbox.max_sends {
        // Its last send was begun and never ended: whoever made it died.
        let words =
            format!("sent {} times, and the last sender ended before there was an answer", next.sends);
        let answer = Answer { meaning: Meaning::Failed, status: None, words: Some(words) };
        return end(outbox, held, &next, (answer, Duration::ZERO), patience, run).await;
    }
    match store.begin_send(engine.now(), lane.to_owned(), held.holder).await? {
        NextSend::Item(item) => {
            let answered = send_one(outbox, &item, shutdown).await;
            end(outbox, held, &item, answered, patience, run).await
        }
        NextSend::NotBefore(at) if at > engine.now().after(patience) => {
            Ok(Step::Stop(LeftWhy::NotBefore { at }))
        }
        NextSend::NotBefore(at) => {
            let wait = at.since(engine.now()).max(Duration::from_millis(1));
            tokio::select! {
                () = shutdown.draining() => {}
                () = sleep(wait) => {}
            }
            Ok(Step::Next)
        }
        NextSend::Empty => Ok(Step::Empty),
        NextSend::NotOurs => Ok(Step::Stop(LeftWhy::HeldByAnother)),
    }
}

/// Makes the call, once.
async fn send_one(outbox: &Outbox, item: &OutboxItem, shutdown: &Shutdown) -> (Answer, Duration) {
    let spec = match call_of(item) {
        Ok(spec) => spec,
        // Somebody else wrote it: this one would not have let it in.
        Err(error) => {
            let answer = Answer { meaning: Meaning::Failed, status: None, words: Some(error.to_string()) };
            return (answer, Duration::ZERO);
        }
    };
    let around = Surroundings {
        idempotency_key: Some(item.key.clone()),
        timeout: Some(outbox.timeout),
        ..Surroundings::new(ItemId(item.id).to_string(), item.sends)
    };
    let began = Instant::now();
    let executed = tokio::select! {
        biased;
        executed = call_http(&outbox.client, &spec, &around) => executed,
        () = shutdown.ending_now() => {
            Executed::silent(Outcome::Cancelled("asked to end at once".to_owned()), began.elapsed())
        }
    };
    let answer = answer::read(&executed, item.sends, &outbox.sending_policy(), &outbox.engine);
    (answer, executed.elapsed)
}

/// Writes down what a send came to, and tells of it.
async fn end(
    outbox: &Outbox,
    held: &Held,
    item: &OutboxItem,
    (answer, took): (Answer, Duration),
    patience: Duration,
    run: &mut LaneRun,
) -> Result<Step, OutboxError> {
    let now = outbox.engine.now();
    let mut given_up = None;
    let (end, result) = match answer.meaning {
        Meaning::Done => (SendEnd::Sent, SendResult::Sent),
        Meaning::Again(delay) => {
            let not_before = now.after(delay);
            (SendEnd::Again(not_before), SendResult::Again { not_before })
        }
        Meaning::Underway(wanted) => {
            let (pause, within) = run.underway.pause(took, wanted, patience);
            let not_before = now.after(pause);
            given_up = (!within).then_some(LeftWhy::Underway { at: not_before });
            (SendEnd::NeverLeft(not_before), SendResult::Underway { not_before })
        }
        Meaning::NotReached => (SendEnd::NeverLeft(now), SendResult::NotReached),
        Meaning::LetGo => (SendEnd::Again(now), SendResult::LetGo),
        Meaning::Failed => (SendEnd::Failed, SendResult::Failed),
    };
    let (words, status) = (answer.words.clone(), answer.status);
    if !outbox.engine.store().end_send(now, item.id, held.holder, end, words.clone(), status).await? {
        // It is sent again by whoever holds the lane now, with the same key.
        return Ok(Step::Stop(LeftWhy::HeldByAnother));
    }
    let uncounted = matches!(result, SendResult::Underway { .. } | SendResult::NotReached);
    let call = call_of(item).unwrap_or_else(|_| HttpSpec::new("", ""));
    let report = SendReport {
        id: ItemId(item.id),
        lane: item.lane.clone(),
        key: item.key.clone(),
        place: call.place(),
        method: call.method,
        sends: item.sends.saturating_sub(u32::from(uncounted)),
        result,
        status,
        last: words,
        took,
    };
    if let Some(observer) = &outbox.observer {
        observer(&report);
    }
    if matches!(result, SendResult::Sent | SendResult::Failed) {
        // The next one is asked about soon at first.
        run.underway.pause = Duration::ZERO;
    }
    match result {
        SendResult::Sent => run.sent += 1,
        SendResult::Failed => run.failed += 1,
        SendResult::NotReached => {
            return Ok(Step::Stop(LeftWhy::NotReached { last: report.last.unwrap_or_default() }));
        }
        SendResult::Again { .. } | SendResult::Underway { .. } | SendResult::LetGo => {}
    }
    Ok(given_up.map_or(Step::Next, Step::Stop))
}
