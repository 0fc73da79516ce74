//! Tasks of dependent subtasks (R-T1, R-T2, R-T3) on the real stores: what is promised holds on SQLite and on PostgreSQL
//! alike, whoever moves a task on, and whenever one of them dies.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod child;
mod drivers;
mod files;
mod killed;
mod order;
mod people;
mod secrets;
mod settings;
mod support;
