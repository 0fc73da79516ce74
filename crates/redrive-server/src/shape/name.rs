//! Names that stand for one of a few things, as the description of the API lists them.

use std::borrow::Cow;

use redrive::engine::Standing;
use redrive_policy::{FatalError, ReasonType};
use redrive_store::{GroupState, LetterReason, RunState, SubtaskState, TaskState};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Declares a stand-in for each kind of names: what it is called, and which there are.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $names:expr;)+) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;

            impl JsonSchema for $name {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    let names: Vec<&str> = $names;
                    json_schema!({ "type": "string", "enum": names })
                }
            }
        )+
    };
}

names! {
    /// What a failure was.
    Cause = redrive_policy::Cause::NAMES.to_vec();
    /// 000's view of a cause.
    ErrorCategory = redrive_policy::ErrorCategory::NAMES.to_vec();
    /// 002's view of a cause.
    FailureType = redrive_policy::FailureType::NAMES.to_vec();
    /// 003's view of a cause.
    Class = redrive_policy::Class::NAMES.to_vec();
    /// Why a letter was set aside.
    Reason = LetterReason::ALL.iter().map(|reason| reason.name()).collect();
    /// Where a group stands.
    State = GroupState::ALL.iter().map(|state| state.name()).collect();
    /// Where a redrive stands.
    RedriveState = RunState::ALL.iter().map(|state| state.name()).collect();
    /// Where a task stands.
    TaskStanding = TaskState::ALL.iter().map(|state| state.name()).collect();
    /// Where a subtask is counted.
    SubtaskCounted = SubtaskState::ALL.iter().map(|state| state.name()).collect();
    /// Where a subtask stands.
    SubtaskStanding = Standing::ALL.iter().map(|standing| standing.name()).collect();
    /// The kind of reason for an escalation.
    EscalationReason = ReasonType::NAMES.to_vec();
    /// An entry of the catalogue of fatal errors.
    Fatal = FatalError::NAMES.to_vec();
    /// What a policy decides.
    Verdict = vec!["PASS", "RETRY", "ESCALATE"];
    /// How delays grow.
    Curve = vec!["exponential", "linear", "constant", "fibonacci"];
}

/// From 1 to 5, who has to deal with a failure: automatic retry, dead letter and alert, analysis, code fix, data fix.
#[derive(Debug)]
pub struct Level;

impl JsonSchema for Level {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Level".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": 5 })
    }
}
