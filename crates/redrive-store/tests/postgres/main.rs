//! PostgreSQL and the way to it fail under the store: cut wires, lost answers, contention, exhaustion, killed migrations, bloat
//! (reliability rows 36 and 38 to 42).
//!
//! What the store means is proved by the conformance suite; here it is what is left when things break.
// Test code outside of the test functions themselves: what goes wrong is a panic, what was found is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

mod bloat;
mod commit;
mod contended;
mod cut;
mod exhausted;
#[path = "../given/mod.rs"]
mod given;
mod ground;
mod keys;
mod migrated;
mod recovery;
mod tasks;
mod woken;
