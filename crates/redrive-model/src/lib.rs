//! A model of the lease protocol, in the tests of this crate: a crate of its own so that it alone is built for speed.
//!
//! It calls `redrive_store::protocol`, which the stores call, and the policy that the engine calls. docs/model.md says what it looks at.
