//! Policies and operations that the tests of retries share (R-P13).
// Not every test file needs everything.
#![allow(dead_code, unreachable_pub)]

use std::cell::Cell;
use std::time::Duration;

use redrive::{Backoff, Cause, Curve, Fail, Policy, RetryError, RetryExt, fail};

pub fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `standard` without jitter and with this curve for every cause.
pub fn policy(curve: Curve, max_retries: u32) -> Policy {
    let mut spec = (*Policy::standard()).clone();
    spec.entries.clear();
    spec.max_retries = max_retries;
    spec.backoff = Backoff::new(curve).with_cap(seconds(3_600));
    spec.into()
}

pub fn at_once(max_retries: u32) -> Policy {
    policy(Curve::constant(Duration::ZERO), max_retries)
}

pub fn every(wait: Duration, max_retries: u32) -> Policy {
    policy(Curve::constant(wait), max_retries)
}

pub fn reset() -> Fail {
    fail(Cause::Network, "connection reset by peer")
}

/// Calls an operation that fails so often, and tells how often it was called.
pub async fn calls(
    failures: usize,
    cause: Cause,
    policy: &Policy,
) -> (usize, Result<usize, RetryError<Fail>>) {
    let made = Cell::new(0);
    let outcome = (|| async {
        made.set(made.get() + 1);
        if made.get() > failures { Ok(made.get()) } else { Err(fail(cause, "no")) }
    })
    .retry(policy)
    .await;
    (made.get(), outcome)
}

/// An error of one's own that knows nothing of redrive.
#[derive(Debug, thiserror::Error)]
#[error("upstream said {0}")]
pub struct Foreign(pub u16);
