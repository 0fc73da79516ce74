//! Another server took over: what it had not copied is lost. That is said, and what was lost is not given out again.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::desk::Room;
use super::event::Append;
use super::fault::Fault;
use super::line::{Line, args, column};
use super::texts::sql;
use super::verb::verb;
use crate::event::{EventStatus, NewEvent};
use crate::time::Timestamp;

/// Operations are forgotten after an hour; what is nearly as old proves nothing by its absence.
const REMEMBERED_FOR: Duration = Duration::from_mins(50);

/// What a process committed last.
#[derive(Debug)]
pub(super) struct Last {
    operation: String,
    at: Instant,
}

/// Looks at a new connection: whether its server took over from another since somebody looked last. Then the numbers that the
/// old one may have given out are left out: a job's number is part of the key that its effects carry.
pub(super) async fn greet(line: &Line) -> Result<(), Fault> {
    // Not every service that speaks PostgreSQL's language knows of timelines.
    let read = match line.first(sql!("timeline_read"), args![]).await {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(()),
        Err(fault @ (Fault::Lost(_) | Fault::Again(_))) => return Err(fault),
        Err(Fault::Final(error)) => {
            tracing::debug!(%error, "the server does not tell its timeline");
            return Ok(());
        }
    };
    let (now, known): (String, Option<String>) = (column(&read, 0)?, column(&read, 1)?);
    if known.as_ref() == Some(&now) {
        return Ok(());
    }
    line.say("BEGIN").await?;
    let followed = follow(line, &now).await;
    line.say(if followed.is_ok() { "COMMIT" } else { "ROLLBACK" }).await?;
    if let Some(before) = followed? {
        tracing::warn!(%before, %now, "another database server took over; what it had not copied is lost");
    }
    Ok(())
}

/// One process takes note; the others find that it is done. Answers the timeline before, if there was one.
async fn follow(line: &Line, now: &str) -> Result<Option<String>, Fault> {
    let Some(row) = line.first(sql!("timeline_lock"), args![]).await? else { return Ok(None) };
    let known: Option<String> = column(&row, 0)?;
    if known.as_deref() == Some(now) {
        return Ok(None);
    }
    line.run(sql!("timeline_follow"), args![now]).await?;
    if known.is_some() {
        line.all(sql!("numbers_skip"), args![]).await?;
    }
    Ok(known)
}

impl Room {
    /// This was committed.
    pub(super) fn remember(&self, operation: String) {
        self.pool.note(true);
        *self.last.borrow_mut() = Some(Last { operation, at: Instant::now() });
    }

    /// After a lost connection: whether what this process committed last is still there. If not, it is told in the stream.
    pub(super) async fn look_back(&self, line: &Line) -> Result<(), Fault> {
        if !self.doubts.get() {
            return Ok(());
        }
        let last = self.last.borrow().as_ref().map(|last| (last.operation.clone(), last.at));
        let Some((operation, at)) = last.filter(|(_, at)| at.elapsed() < REMEMBERED_FOR) else {
            self.doubts.set(false);
            return Ok(());
        };
        let is_there = line.first(sql!("operation_find"), args![operation.as_str()]).await?.is_some();
        self.doubts.set(false);
        if is_there {
            return Ok(());
        }
        *self.last.borrow_mut() = None;
        let ago = at.elapsed();
        tracing::error!(?ago, "what was committed is gone: another server took over without it");
        self.tell_of_loss(ago);
        Ok(())
    }

    fn tell_of_loss(&self, ago: Duration) {
        let now = Timestamp::from_system(std::time::SystemTime::now());
        let event = NewEvent {
            event_type: "store_went_back".to_owned(),
            source: "redrive".to_owned(),
            data: json!({
                "what": "another database server took over without what was acknowledged last",
                "committed_at": now.before(ago),
                "process": std::process::id(),
            }),
            tags: vec!["data_loss".to_owned()],
            importance: Some(5),
            status: Some(EventStatus::Failed),
            ..NewEvent::default()
        };
        let (verb, told) = verb(Append { now, events: vec![event] });
        let Some(room) = self.itself() else { return };
        tokio::task::spawn_local(async move {
            Rc::clone(&room).carry_out(verb).await;
            if let Ok(Err(error)) = told.await {
                tracing::error!(%error, "the loss could not be written down");
            }
        });
    }
}
