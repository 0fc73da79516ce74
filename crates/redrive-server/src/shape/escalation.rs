//! Escalations as JSON: what waits for a person. `escalations --json` writes the same.

use redrive::engine::EscalationItem;
use redrive_policy::{EscalateSettings, EscalationLevel, EscalationReport, Lang, ReasonType};
use redrive_store::{TaskState, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::letter::without_output;
use super::{Json, Time, name};

/// An escalation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Escalation {
    /// The task or the letter.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// When.
    #[schemars(with = "Time")]
    pub escalated_at: Timestamp,
    /// How its task ended; null for a letter.
    #[schemars(with = "Option<name::TaskStanding>")]
    pub task_state: Option<TaskState>,
    /// From 1 to 5, who has to deal with it.
    #[schemars(with = "name::Level")]
    pub level: EscalationLevel,
    /// The kind of reason.
    #[schemars(with = "Option<name::EscalationReason>")]
    pub reason_type: Option<ReasonType>,
    /// What a person is told.
    pub user_message: String,
    /// When somebody has seen it.
    #[schemars(with = "Option<Time>")]
    pub acknowledged_at: Option<Timestamp>,
    /// What that person said.
    pub note: Option<String>,
}

/// The report of an escalation in that language, whatever it was written in.
pub fn report_in(item: &EscalationItem, lang: Lang) -> Option<EscalationReport> {
    let report = item.report.clone()?;
    Some(report.in_lang(&item.name, &EscalateSettings::default(), lang))
}

impl Escalation {
    /// In the words of this language, whatever the report was written in.
    pub fn new(item: &EscalationItem, lang: Lang) -> Escalation {
        let seen = item.acknowledged.as_ref();
        let report = report_in(item, lang);
        Escalation {
            id: item.id.to_string(),
            name: item.name.clone(),
            escalated_at: item.escalated_at,
            task_state: item.task_state,
            level: item.level,
            reason_type: item.reason_type,
            user_message: report.map_or_else(|| item.user_message.clone(), |report| report.user_message),
            acknowledged_at: seen.map(|seen| seen.at),
            note: seen.and_then(|seen| seen.note.clone()),
        }
    }
}

/// An escalation with its report.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EscalationWhole {
    /// The escalation.
    #[serde(flatten)]
    pub line: Escalation,
    /// The report of 002 §4.2; null where there is none. What attempts wrote is told to tokens that may see payloads.
    #[schemars(with = "Json")]
    pub report: Value,
}

impl EscalationWhole {
    /// In the words of this language, with what attempts wrote or without.
    pub fn new(item: &EscalationItem, lang: Lang, with_output: bool) -> EscalationWhole {
        let report = report_in(item, lang);
        let report = if with_output {
            report.and_then(|report| serde_json::to_value(report).ok()).unwrap_or(Value::Null)
        } else {
            without_output(report)
        };
        EscalationWhole { line: Escalation::new(item, lang), report }
    }
}
