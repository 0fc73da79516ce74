//! Silences: what people know already is not told for a while.

use std::time::Duration;

use redrive_store::{Notice, NoticeChange, Posted, Timestamp};
use serde::{Deserialize, Serialize};

use super::{AlertProblem, AlertRule};
use crate::engine::{Engine, EngineError};

const SPACE: &str = "silence";
/// The most silences at a time.
const MOST: u32 = 1_000;
/// The most characters of a reason.
const WHY_CHARS: usize = 1_000;
/// How often a change is tried when others change the same.
const TRIES: u32 = 10;

/// What is not told for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSilence {
    /// A rule, or the fingerprint of a group or its beginning.
    pub of: String,
    /// For how long.
    pub lasts: Duration,
    /// Why.
    pub why: Option<String>,
    /// Who wants it.
    pub by: String,
}

/// What is not told until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silence {
    /// What it is known by.
    #[serde(skip)]
    pub id: String,
    /// The rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The fingerprint of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Until when.
    pub until: Timestamp,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who wanted it.
    pub by: String,
}

impl Silence {
    /// Whether it covers a rule at this time.
    pub fn covers_rule(&self, rule: AlertRule, now: Timestamp) -> bool {
        self.until > now && self.rule.as_deref() == Some(rule.name())
    }

    /// Whether it covers a group at this time.
    pub fn covers_group(&self, fingerprint: &str, now: Timestamp) -> bool {
        self.until > now && self.group.as_deref() == Some(fingerprint)
    }

    fn read(notice: &Notice) -> Result<Silence, EngineError> {
        let silence: Silence = serde_json::from_str(&notice.value)
            .map_err(|error| AlertProblem::Unreadable(error.to_string()))?;
        Ok(Silence { id: notice.name.clone(), ..silence })
    }
}

impl Engine {
    /// What is silenced now. A silence that cannot be read silences nothing: it is said once, and the others hold.
    pub async fn silences(&self) -> Result<Vec<Silence>, EngineError> {
        let now = self.store_now().await?;
        let notices = self.store().notices(SPACE.to_owned(), None, MOST).await?;
        let read = |notice: &Notice| {
            let silence = Silence::read(notice);
            silence.inspect_err(|why| self.say_unreadable(notice, why, "it silences nothing")).ok()
        };
        Ok(notices.iter().filter_map(read).filter(|silence| silence.until > now).collect())
    }

    /// Silences a rule or a group for a while. One of the same is replaced.
    pub async fn silence_alerts(&self, new: NewSilence) -> Result<Silence, EngineError> {
        let now = self.store_now().await?;
        let rule = AlertRule::from_name(&new.of).map(|rule| rule.name().to_owned());
        let group = match &rule {
            Some(_) => None,
            None => Some(self.silenced_group(&new.of).await?),
        };
        let why = new.why.map(|why| crate::secrets::redact(&why).chars().take(WHY_CHARS).collect());
        let id = rule.clone().or_else(|| group.clone()).unwrap_or_default();
        let silence = Silence { id, rule, group, until: now.after(new.lasts), why, by: new.by };
        let value = serde_json::to_string(&silence).map_err(EngineError::Payload)?;
        self.forget_old_silences(now).await?;
        for _ in 0..TRIES {
            let there = self.store().notice(SPACE.to_owned(), silence.id.clone()).await?;
            let change = NoticeChange {
                space: SPACE.to_owned(),
                name: silence.id.clone(),
                seen: there.map(|notice| notice.version),
                value: Some(value.clone()),
                due_at: Some(silence.until),
            };
            if let Posted::Done { .. } = self.store().post(now, vec![change], Vec::new(), Vec::new()).await? {
                return Ok(silence);
            }
        }
        Err(AlertProblem::NoSilence(silence.id).into())
    }

    /// Takes a silence back. Whether there was one.
    pub async fn end_silence(&self, id: &str) -> Result<bool, EngineError> {
        for _ in 0..TRIES {
            let Some(notice) = self.store().notice(SPACE.to_owned(), id.to_owned()).await? else {
                return Ok(false);
            };
            let now = self.store_now().await?;
            let over = notice.due_at.is_some_and(|until| until <= now);
            if self.take_down(notice).await? {
                return Ok(!over);
            }
        }
        Ok(false)
    }

    async fn silenced_group(&self, of: &str) -> Result<String, EngineError> {
        if let crate::engine::Named::One(group) = self.group_named(&of.to_lowercase()).await? {
            return Ok(group.fingerprint);
        }
        let known = AlertRule::ALL.map(|rule| rule.name().to_owned()).to_vec();
        Err(AlertProblem::NotSilenceable { name: of.chars().take(100).collect(), known }.into())
    }

    async fn forget_old_silences(&self, now: Timestamp) -> Result<(), EngineError> {
        for notice in self.store().due_notices(now, SPACE.to_owned(), MOST).await? {
            // Whoever was faster has taken it down, or renewed it.
            self.take_down(notice).await?;
        }
        let there = self.store().notices(SPACE.to_owned(), None, MOST).await?.len();
        if there >= MOST as usize { Err(AlertProblem::TooManySilences(MOST).into()) } else { Ok(()) }
    }

    async fn take_down(&self, notice: Notice) -> Result<bool, EngineError> {
        let change = NoticeChange {
            space: notice.space,
            name: notice.name,
            seen: Some(notice.version),
            value: None,
            due_at: None,
        };
        let posted = self.store().post(self.now(), vec![change], Vec::new(), Vec::new()).await?;
        Ok(matches!(posted, Posted::Done { .. }))
    }
}
