//! The API as a client meets it: a real server on a free port, on both stores where it matters.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod site;

mod events;
mod frame;
mod idempotency;
mod jobs;
mod keys;
mod openapi;
mod queues;
mod reach;
mod schedules;
mod targets;
