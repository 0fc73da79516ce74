//! A message: what somebody is told, as data. Its words are a template's, in the receiver's language.

use std::time::Duration;

use redrive_policy::{AlertReceiver, AlertSettings, Cause, CauseSet, Override, Severity};
use redrive_store::{EventStatus, Group, NewEvent, NewJob, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::rules::{AlertUnit, Finding};
use super::{ALERT_KIND, ALERT_QUEUE};
use crate::engine::{Engine, overrides_to_json};

/// How long one try of a delivery may take.
const WITHIN: Duration = Duration::from_secs(30);
/// Before other work.
const PRIORITY: i32 = 90;
/// The most characters of an error's words.
const SAMPLE_CHARS: usize = 300;

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum What {
    /// Something is wrong.
    Fired,
    /// Dead letters of another kind.
    Group,
    /// More dead letters of the same kinds.
    Summary,
    /// It still is.
    Repeated,
    /// It is over.
    Resolved,
    /// Nothing: somebody wants to see whether messages arrive.
    Test,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            What::Fired => "fired",
            What::Group => "group",
            What::Summary => "summary",
            What::Repeated => "repeated",
            What::Resolved => "resolved",
            What::Test => "test",
        }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) what: What,
    pub(super) rule: Option<String>,
    pub(super) severity: String,
    /// In the rule's unit.
    pub(super) value: Option<f64>,
    pub(super) threshold: Option<f64>,
    pub(super) unit: Option<String>,
    pub(super) samples: Option<u64>,
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    /// How many letters have come since the last message.
    pub(super) more: Option<u64>,
    pub(super) groups: Vec<GroupNote>,
}

/// A group as it is told of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct GroupNote {
    pub(super) fingerprint: String,
    pub(super) cause: String,
    pub(super) error_type: String,
    pub(super) sample: String,
    pub(super) letters: i64,
    pub(super) first_seen: Timestamp,
    pub(super) last_seen: Timestamp,
}

impl GroupNote {
    /// The most groups in one message.
    pub(super) const MOST: usize = 10;

    pub(super) fn of(group: &Group) -> GroupNote {
        // Redacted when it was captured, and once more: a message leaves the house.
        let sample = crate::secrets::redact(&group.sample);
        let line = |c: char| if c.is_control() { ' ' } else { c };
        GroupNote {
            fingerprint: group.fingerprint.clone(),
            cause: group.cause.name().to_owned(),
            error_type: group.error_type.chars().map(line).take(SAMPLE_CHARS).collect(),
            sample: sample.chars().map(line).take(SAMPLE_CHARS).collect(),
            letters: group.counts.letters,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
        }
    }
}

/// What the job of a message carries: nothing that is a secret.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Delivery {
    pub(super) receiver: String,
    pub(super) message: Message,
}

impl Message {
    pub(super) fn of(what: What, finding: &Finding, since: Timestamp, at: Timestamp) -> Message {
        let unit = match finding.rule.unit() {
            AlertUnit::Count => "count",
            AlertUnit::Percent => "percent",
            AlertUnit::Millis => "ms",
        };
        Message {
            what,
            rule: Some(finding.rule.name().to_owned()),
            severity: finding.rule.severity().name().to_owned(),
            value: finding.value.map(rounded),
            threshold: Some(finding.threshold),
            unit: Some(unit.to_owned()),
            samples: finding.samples,
            since,
            at,
            more: None,
            groups: Vec::new(),
        }
    }

    pub(super) fn test(now: Timestamp) -> Message {
        Message {
            what: What::Test,
            rule: None,
            severity: Severity::Warning.name().to_owned(),
            value: None,
            threshold: None,
            unit: None,
            samples: None,
            since: now,
            at: now,
            more: None,
            groups: Vec::new(),
        }
    }

    /// Whether it says that something is over: all of it, or a flood of letters.
    fn is_of_an_end(&self) -> bool {
        self.what == What::Resolved || (self.what == What::Summary && self.more == Some(0))
    }

    /// Whether a receiver wants to hear of it; rules that are not bad enough for it are none of its business anyway.
    pub(super) fn is_for(&self, receiver: &AlertReceiver) -> bool {
        receiver.resolved || !self.is_of_an_end()
    }

    /// The job that delivers it.
    pub(super) fn job(&self, to: &AlertReceiver, settings: &AlertSettings, engine: &Engine) -> NewJob {
        let delivery = Delivery { receiver: to.name.clone(), message: self.clone() };
        let rule = self.rule.as_deref().unwrap_or("test");
        let id = format!("alert:{rule}:{}:{}:{}", self.what.name(), self.at.millis(), to.name);
        // Tests may be sent twice within a millisecond.
        let key = match self.what {
            What::Test => format!("{id}:{:x}", engine.rng().next_u64()),
            _ => id.clone(),
        };
        // Whoever has no policy of its own for this tries for about an hour.
        let patience = Override {
            max_retries: Some(12),
            initial: Some(Duration::from_secs(2)),
            cap: Some(Duration::from_mins(10)),
            retry_on: CauseSet::of(&[Cause::Unknown]),
            ..Override::default()
        };
        NewJob {
            queue: ALERT_QUEUE.to_owned(),
            priority: PRIORITY,
            caller_id: Some(id),
            idempotency_key: Some(key),
            policy: settings.policy.clone(),
            overrides: if settings.policy.is_none() { overrides_to_json(&patience) } else { None },
            timeout: Some(WITHIN),
            source: ALERT_QUEUE.to_owned(),
            // Texts, numbers and lists always become JSON.
            ..NewJob::new(ALERT_KIND, serde_json::to_vec(&delivery).unwrap_or_default())
        }
    }

    /// What the stream tells of it, and of who is told.
    pub(super) fn event(&self, to: &[String]) -> NewEvent {
        let groups: Vec<&str> = self.groups.iter().map(|group| group.fingerprint.as_str()).collect();
        NewEvent {
            event_type: format!("alert_{}", self.what.name()),
            source: ALERT_QUEUE.to_owned(),
            data: json!({
                "rule": self.rule,
                "severity": self.severity,
                "value": self.value,
                "threshold": self.threshold,
                "unit": self.unit,
                "since": self.since,
                "more": self.more,
                "groups": groups,
                "to": to,
            }),
            importance: Some(4),
            status: Some(EventStatus::Success),
            ..NewEvent::default()
        }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
