//! Tokens that hold no more make room. That there ever was a token stays known: the newest of all is never forgotten, so that a store
//! which had one is never open again, whoever forgets at the same time.

use std::collections::HashMap;
use std::time::Duration;

use redrive_store::{EventStatus, NewEvent, Notice, NoticeChange, Posted, Timestamp};
use serde_json::json;

use super::{MOST, PAGE, Stored, USED};
use crate::engine::{Engine, EngineError};

/// How long a token that was revoked or has expired is still shown.
const SHOWN_FOR: Duration = Duration::from_hours(30 * 24);
/// How many are forgotten at a time.
const AT_ONCE: usize = 200;

impl Engine {
    /// Forgets tokens that ended long ago; others that have ended, too, when there is no room without it. How many tokens there are
    /// now.
    pub(super) async fn forget_ended_tokens(&self, now: Timestamp) -> Result<usize, EngineError> {
        let tokens = self.read_tokens().await?;
        let there = tokens.len();
        let gone = ended(tokens, now);
        if gone.is_empty() {
            return Ok(there);
        }
        let used = self.used_notices().await?;
        let ids: Vec<&str> = gone.iter().map(|notice| &*notice.name).collect();
        let event = NewEvent {
            event_type: "tokens_forgotten".to_owned(),
            source: "redrive".to_owned(),
            data: json!({ "tokens": ids }),
            importance: Some(3),
            status: Some(EventStatus::Success),
            ..NewEvent::default()
        };
        let with_use = gone.iter().flat_map(|notice| [Some(notice), used.get(&notice.name)]).flatten();
        let changes: Vec<NoticeChange> = with_use.map(taken_down).collect();
        match self.store().post(now, changes, Vec::new(), vec![event]).await? {
            Posted::Done { .. } => Ok(there - gone.len()),
            // Somebody else makes room.
            Posted::Outrun => Ok(self.read_tokens().await?.len()),
        }
    }

    /// When tokens were used last, by their ids.
    async fn used_notices(&self) -> Result<HashMap<String, Notice>, EngineError> {
        let (mut used, mut after) = (HashMap::new(), None);
        loop {
            let page = self.store().notices(USED.to_owned(), after, PAGE).await?;
            let full = page.len() >= PAGE as usize;
            after = page.last().map(|last| last.name.clone());
            used.extend(page.into_iter().map(|notice| (notice.name.clone(), notice)));
            if !full {
                return Ok(used);
            }
        }
    }
}

/// Those that can go: who ended first goes first, and the newest of all stays, however it is.
fn ended(tokens: Vec<(Notice, Stored)>, now: Timestamp) -> Vec<Notice> {
    let there = tokens.len();
    let newest = tokens.iter().map(|(notice, stored)| (stored.created_at, notice.name.clone())).max();
    let mut ended: Vec<(Timestamp, Notice)> = Vec::new();
    for (notice, stored) in tokens {
        let at = stored.revoked_at.into_iter().chain(stored.expires_at).min().map(Timestamp::from_millis);
        let is_newest = newest.as_ref().is_some_and(|(_, name)| *name == notice.name);
        if let Some(at) = at.filter(|at| *at <= now && !is_newest) {
            ended.push((at, notice));
        }
    }
    ended.sort_by(|(a, one), (b, other)| (a, &one.name).cmp(&(b, &other.name)));
    let long_ago = ended.iter().filter(|(at, _)| now.since(*at) >= SHOWN_FOR).count();
    let in_the_way = (there + 1).saturating_sub(MOST);
    ended.truncate(long_ago.max(in_the_way).min(AT_ONCE));
    ended.into_iter().map(|(_, notice)| notice).collect()
}

fn taken_down(notice: &Notice) -> NoticeChange {
    NoticeChange {
        space: notice.space.clone(),
        name: notice.name.clone(),
        seen: Some(notice.version),
        value: None,
        due_at: None,
    }
}
