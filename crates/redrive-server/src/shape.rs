//! Stand-ins that say in the OpenAPI document what types of other crates look like as JSON, and the shape of lists.
//!
//! `#[schemars(with = "shape::Time")] at: Timestamp`

pub mod escalation;
pub mod group;
pub mod letter;
pub mod name;
pub mod policy;
pub mod redrive;
pub mod simulation;
pub mod task;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

macro_rules! stand_ins {
    ($($(#[$about:meta])* $name:ident = $schema:expr;)*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub enum $name {}

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )*};
}

stand_ins! {
    /// A point in time.
    Time = json_schema!({ "type": "string", "format": "date-time" });
    /// The id of a job and of the dead letter that it may become.
    JobId = json_schema!({ "type": "string", "pattern": "^(job_)?[0-9]{1,18}$", "examples": ["job_17"] });
    /// The id of an event.
    EventId = json_schema!({ "type": "string", "minLength": 1, "maxLength": 255 });
    /// The name of a queue, a kind, a policy; a key, or an id of the caller's. At most 255 bytes.
    Name = json_schema!({
        "type": "string", "minLength": 1, "maxLength": 255,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$",
    });
    /// Any JSON.
    Json = json_schema!(true);
    /// An object of any members.
    Object = json_schema!({ "type": "object", "additionalProperties": true });
}

/// Some of many.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// These.
    pub items: Vec<T>,
    /// Where the next ones begin: give it as `cursor`. Absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
