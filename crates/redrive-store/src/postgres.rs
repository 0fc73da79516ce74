//! The store for many machines: one PostgreSQL database, any number of processes.
//!
//! A thread of its own talks to the database over a few connections. Callers' verbs are gathered into one transaction and
//! answered after its commit; leases are taken with `SKIP LOCKED`, the database's clock decides what is due, and `NOTIFY` is
//! only a hint: polling is the truth. No superuser, no extension, no session state, so a pooler in between is welcome.

mod batch;
mod fault;
mod leasable;
mod line;
mod memory;
mod texts;
mod tx;
mod verb;
