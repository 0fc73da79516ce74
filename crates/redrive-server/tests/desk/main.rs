//! The desk over HTTP: dead letters, groups, redrives, tasks, escalations and policies, against a real server on either store.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dead_letters;
mod escalations;
mod groups;
mod keyed;
mod payloads;
mod policies;
mod reach;
mod redrives;
mod site;
mod tasks;
mod tenants;
