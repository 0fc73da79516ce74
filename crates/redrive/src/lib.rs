//! Retry in process, under one policy, with failures that are understood.
//!
//! A call that fails is not simply made again: its error is read for typed signals ([`IntoFailure`]), classified,
//! and decided on by a [`Policy`], which knows that a timeout is worth another try and a rejected key is not.
//!
//! ```
//! use redrive::{Cause, Policy, RetryExt, fail};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(async {
//! let mut calls = 0;
//! let answer = (|| {
//!     calls += 1;
//!     let outcome = if calls < 3 { Err(fail(Cause::Network, "connection reset")) } else { Ok(42) };
//!     async move { outcome }
//! })
//! .retry(Policy::standard())
//! .on_retry(|attempt, failure, delay| eprintln!("attempt {attempt}: {}; again in {delay:?}", failure.cause))
//! .await;
//! assert_eq!((answer.unwrap(), calls), (42, 3));
//! # });
//! ```
//!
//! Work that must survive the process is the durable `engine`'s (feature `engine`): jobs, workers, dead letters and
//! the event stream on a store.
//!
//! # Features
//! None is on by default. `anyhow`, `http`, `hyper`, `hyper-util`, `reqwest`, `rusqlite`, `serde_json`, `tokio-postgres` and
//! `toml` read typed signals out of the errors of the crate they are named after; `tower` and `reqwest-middleware`
//! add a layer and a client middleware over the same policy; `exec` runs a command and `http-call` makes an HTTP call as
//! one attempt of a job, and both tell an [`Outcome`]; `snapshot` keeps files as they are and puts them back (Linux).
//!
//! # Where things are
//! `inline` holds the whole logic without a clock or a future; [`Retry`] (futures) and [`RetryBlocking`] (blocking
//! calls) only drive it, and so do the tower layer `RetryLayer` (feature `tower`) and the HTTP client middleware
//! `RetryMiddleware` (feature `reqwest-middleware`). Other people's errors are read in `signals`, a feature per crate.
//! `exec` and `http_call` carry out one attempt each, and `outcome` holds what they tell.

mod attempt;
mod blocking;
mod bounded;
mod cancel;
mod chain;
mod chance;
#[cfg(feature = "reqwest-middleware")]
mod client;
#[cfg(feature = "engine")]
pub mod engine;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
mod exchange;
#[cfg(feature = "exec")]
mod exec;
mod fail;
#[cfg(doctest)]
mod guides;
mod hooks;
#[cfg(feature = "http-call")]
mod http_call;
mod inline;
mod into_failure;
#[cfg(feature = "tower")]
mod layer;
mod outcome;
#[cfg(any(feature = "exec", feature = "http-call", feature = "schedules"))]
mod packed;
#[cfg(feature = "engine")]
pub mod payload;
mod record;
mod retry;
#[cfg(feature = "exec")]
pub mod review;
mod secrets;
mod signals;
#[cfg(all(feature = "snapshot", target_os = "linux"))]
pub mod snapshot;
mod surroundings;
mod turns;
mod verbs;

pub use attempt::{Attempt, AttemptError, KEPT_ATTEMPTS, RetryError, Stop};
pub use blocking::{RetryBlocking, RetryBlockingExt, Sleeper, ThreadSleep};
pub use cancel::Cancel;
pub use chain::report_chain;
#[cfg(feature = "reqwest-middleware")]
pub use client::RetryMiddleware;
#[cfg(any(feature = "tower", feature = "reqwest-middleware"))]
pub use exchange::IDEMPOTENCY_KEY;
#[cfg(feature = "exec")]
pub use exec::{
    BadCommand, CommandSpec, DEFAULT_GRACE, Protected, Relay, Wiring, Writer, current_umask, run_command,
};
pub use fail::{Fail, fail};
pub use hooks::{Hooks, OnFailure, OnRetry, OnRetryAnswer, When};
#[cfg(feature = "http-call")]
pub use http_call::{
    BadCall, DEFAULT_CALL_TIMEOUT, Guard, GuardedCalls, HttpSpec, Inside, Looked, Lookup, Refused, call_http,
    http_client, inside_of_network, shown_webhook,
};
pub use into_failure::{AnyError, By, IntoFailure, Reporter, Typed};
#[cfg(feature = "tower")]
pub use layer::{Exchange, HttpRequests, Requests, RetryFuture, RetryLayer, RetryService};
pub use outcome::{Evidence, Executed, Outcome};
#[cfg(feature = "exec")]
pub use redrive_policy::plan::HintBy;
pub use retry::{Retry, RetryExt};
pub use secrets::redact;
#[cfg(feature = "http")]
pub use signals::http::{HttpFailure, retry_after};
#[cfg(feature = "reqwest")]
pub use signals::reqwest::ResponseExt;
pub use surroundings::Surroundings;

pub use redrive_policy::{
    Action, Backoff, Cause, CauseSet, Class, Classifier, Curve, Decision, Details, Failure, Jitter, Lang,
    Override, Policy, PolicySpec, Report, Rng, Strategy, SwitchStrategy, Verdict, Words,
};
