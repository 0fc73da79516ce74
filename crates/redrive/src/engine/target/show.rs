//! Targets as people see them, and what people may do to them: limit them, and forget what is held against them.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_policy::protection::{ParkedWhy, Phase, Protection, Rate, Standing, TargetState, reset};
use redrive_store::{JobRecord, JobState, NoticeChange, Posted, Timestamp};
use serde::{Deserialize, Serialize};

use super::{LIMITS, STATES};
use crate::engine::{Engine, EngineError};

/// How many notices are read at a time.
const PAGE: u32 = 500;
/// The most targets that somebody may limit.
const MOST_LIMITS: usize = 10_000;
/// How often a change is tried that others outrun.
const TRIES: u32 = 8;

/// Limits that somebody has set while everything runs. What is absent stays as the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetLimits {
    /// How many calls may begin in a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many of them may come at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// How many calls may run at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// A target as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TargetView {
    /// Its name: `host:api.example.com`, `queue:mail`, `key:tenant-7`.
    pub name: String,
    /// Where its breaker stands.
    pub phase: Phase,
    /// What is known of it now.
    pub standing: Standing,
    /// How it is protected.
    pub protection: Protection,
    /// What somebody has set.
    pub limits: Option<TargetLimits>,
    /// How often work was parked for it.
    pub parked_total: u64,
    /// How often its breaker opened.
    pub opened_total: u64,
    /// When something was last written about it.
    pub changed_at: Option<Timestamp>,
}

impl TargetView {
    /// When it is tried again, while nobody calls it.
    pub fn next_at(&self) -> Option<Timestamp> {
        self.standing.next_at.map(Timestamp::from_millis)
    }

    /// Why nobody calls it, or few do.
    pub fn why(&self) -> Option<&ParkedWhy> {
        match &self.phase {
            Phase::Open { why, .. } | Phase::HalfOpen { why, .. } => Some(why),
            Phase::Ramp { .. } => Some(&ParkedWhy::Recovering),
            Phase::Closed => None,
        }
    }
}

/// Where a parked job waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedJob {
    /// For which target.
    pub target: String,
    /// Until when.
    pub until: Timestamp,
    /// Why.
    pub why: ParkedWhy,
}

impl ParkedJob {
    /// What an event of type `job_parked` tells.
    pub fn of(data: &serde_json::Value) -> Option<ParkedJob> {
        Some(ParkedJob {
            target: data.get("target")?.as_str()?.to_owned(),
            until: data.get("until")?.as_str()?.parse().ok()?,
            why: serde_json::from_value(data.clone()).ok()?,
        })
    }
}

impl Engine {
    /// How the target of this name is protected now.
    pub fn protection_of(&self, target: &str) -> Protection {
        self.targets_known().rules().of(target)
    }

    /// Reads the limits again that were set while everything runs, also by others, so that [`Engine::protection_of`] knows them.
    pub async fn refresh_limits(&self) -> Result<(), EngineError> {
        self.read_limits(true).await
    }

    /// The targets that something is known of, or is set for, by name, after this one.
    pub async fn targets(&self, after: Option<String>, limit: u32) -> Result<Vec<TargetView>, EngineError> {
        self.read_limits(true).await?;
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let notices = self.store().notices(STATES.to_owned(), after.clone(), limit).await?;
        let last =
            (notices.len() >= wanted).then(|| notices.last().map(|notice| notice.name.clone())).flatten();
        let mut found: BTreeMap<String, Option<(TargetState, Timestamp)>> = BTreeMap::new();
        for notice in notices {
            let state = serde_json::from_str(&notice.value).unwrap_or_default();
            found.insert(notice.name, Some((state, notice.changed_at)));
        }
        let rules = self.targets_known().rules();
        let set = rules.limits.keys().chain(rules.config.named.keys());
        let between = |name: &&String| {
            after.as_ref().is_none_or(|after| *name > after) && last.as_ref().is_none_or(|last| *name <= last)
        };
        for name in set.filter(between) {
            found.entry(name.clone()).or_insert(None);
        }
        let now = self.store_now().await?;
        Ok(found.into_iter().take(wanted).map(|(name, state)| self.target_view(name, state, now)).collect())
    }

    /// One target; also one that nothing is known of yet, if anything protects it.
    pub async fn target(&self, name: &str) -> Result<Option<TargetView>, EngineError> {
        self.read_limits(true).await?;
        let notice = self.store().notice(STATES.to_owned(), name.to_owned()).await?;
        let state =
            notice.map(|notice| (serde_json::from_str(&notice.value).unwrap_or_default(), notice.changed_at));
        let known = state.is_some() || !self.protection_of(name).is_nothing();
        let now = self.store_now().await?;
        Ok(known.then(|| self.target_view(name.to_owned(), state, now)))
    }

    /// A target of which nothing is known: it is well.
    pub fn unknown_target(&self, name: &str) -> TargetView {
        self.target_view(name.to_owned(), None, self.now())
    }

    pub(super) fn target_view(
        &self,
        name: String,
        state: Option<(TargetState, Timestamp)>,
        now: Timestamp,
    ) -> TargetView {
        let rules = self.targets_known().rules();
        let protection = rules.of(&name);
        let limits = rules.limits.get(&name).copied();
        let (changed_at, state) = match state {
            Some((state, at)) => (Some(at), state),
            None => (None, TargetState::default()),
        };
        let standing = state.standing(&protection, now.millis());
        let TargetState { phase, parked_total, opened_total, .. } = state;
        TargetView { name, phase, standing, protection, limits, parked_total, opened_total, changed_at }
    }

    /// Sets limits of a target for all processes on the store; none of them, and the configuration's hold again.
    pub async fn limit_target(&self, name: &str, limits: TargetLimits) -> Result<(), EngineError> {
        if !is_target(name) {
            return Err(EngineError::BadTarget(name.chars().take(80).collect()));
        }
        for _ in 0..TRIES {
            let seen = self.store().notice(LIMITS.to_owned(), name.to_owned()).await?;
            let value = if limits == TargetLimits::default() {
                None
            } else {
                Some(serde_json::to_string(&limits).map_err(EngineError::Payload)?)
            };
            let change = NoticeChange {
                space: LIMITS.to_owned(),
                name: name.to_owned(),
                seen: seen.map(|notice| notice.version),
                value,
                due_at: None,
            };
            let posted = self.store().post(self.now(), vec![change], Vec::new(), Vec::new()).await?;
            if posted != Posted::Outrun {
                return self.read_limits(true).await;
            }
        }
        Err(EngineError::Outrun(name.to_owned()))
    }

    /// Forgets what is held against a target: calls pass again. What is parked keeps its times.
    pub async fn reset_target(&self, name: &str) -> Result<bool, EngineError> {
        if self.store().notice(STATES.to_owned(), name.to_owned()).await?.is_none() {
            return Ok(false);
        }
        let names = [Arc::from(name)];
        let forget = |swap: &mut super::swap::Swap, _: &mut redrive_policy::Rng| {
            if let Some(state) = swap.state(name) {
                reset(state);
            }
        };
        match self.swap_targets(&names, forget).await? {
            ((), true) => Ok(true),
            ((), false) => Err(EngineError::Outrun(name.to_owned())),
        }
    }

    pub(super) async fn all_limits(&self) -> Result<BTreeMap<String, TargetLimits>, EngineError> {
        let mut limits = BTreeMap::new();
        let mut after = None;
        loop {
            let page = self.store().notices(LIMITS.to_owned(), after, PAGE).await?;
            let full = page.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX);
            after = page.last().map(|notice| notice.name.clone());
            for notice in page {
                match serde_json::from_str(&notice.value) {
                    Ok(set) => drop(limits.insert(notice.name, set)),
                    Err(error) => tracing::warn!(target = %notice.name, %error, "a limit cannot be read"),
                }
            }
            if !full || limits.len() >= MOST_LIMITS {
                return Ok(limits);
            }
        }
    }

    /// Where a job waits, if its target is protected and it may not go now.
    pub async fn parked(&self, job: &JobRecord) -> Result<Option<ParkedJob>, EngineError> {
        let JobState::Ready { run_at, .. } = job.state else { return Ok(None) };
        if run_at <= self.store_now().await? {
            return Ok(None);
        }
        let latest = self.store().causality(job.event, 1).await?;
        let told = latest.iter().find(|event| event.event_type == "job_parked");
        Ok(told.and_then(|event| ParkedJob::of(&event.data)))
    }
}

/// Whether a text names a target.
///
/// ```
/// use redrive::engine::is_target;
/// assert!(is_target("queue:mail") && !is_target("mail") && !is_target("host:"));
/// ```
pub fn is_target(name: &str) -> bool {
    let named = ["host:", "queue:", "key:"].iter().find_map(|kind| name.strip_prefix(kind));
    named.is_some_and(|rest| !rest.is_empty()) && name.len() <= 250 && !name.chars().any(char::is_control)
}
