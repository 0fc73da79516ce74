//! guarded
