//! The engine on the real embedded store, with a clock that moves only when it is told to.

mod batch;
mod events;
mod inline;
mod limits;
mod policy;
mod reaper;
mod support;
mod work;
