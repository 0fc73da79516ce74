//! The engine on the real embedded store, with a clock that moves only when it is told to.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod batch;
mod escalation;
mod events;
mod hostile;
mod inline;
mod limits;
mod losing;
mod policy;
mod reaper;
mod redrive_runs;
mod search;
mod secrets;
mod support;
#[cfg(feature = "tokens")]
mod tokens;
mod trace;
mod trace_task;
mod work;
