//! What a retry costs beside its peers, in one run: the first attempt succeeds, or three fail without a delay.
//!
//! `bench-retry`               the table in nanoseconds, each figure the median of seven runs
//! `bench-retry allocations`   what is allocated on the way from a typed signal to a decision
//! `bench-retry CASE N`        N rounds of one case, for an instruction counter; `bench-retry cases` lists them
//!
//! Peers are told nothing about their errors and retry all of them. redrive reads the status out of the error,
//! classifies it, decides by cause, and keeps every attempt.

use std::cell::Cell;
use std::future::ready;
use std::hint::black_box;
use std::time::{Duration, Instant};

use backon::{BlockingRetryable, ConstantBuilder, ExponentialBuilder, Retryable};
use redrive::{
    Backoff, Cause, Classifier, Curve, Failure, IntoFailure, Jitter, Policy, Report, RetryBlockingExt,
    RetryExt, RetryLayer, Rng,
};
use redrive_policy::{Factor, History, decide};
use tower::{Layer, Service, ServiceExt};

/// An error with a typed signal and nothing else.
#[derive(Debug, Clone, Copy)]
struct Status(u16);

impl IntoFailure for Status {
    #[inline]
    fn report(&self) -> Report<'_> {
        Report { http_status: Some(self.0), ..Report::default() }
    }
}

thread_local!(static CALLS: Cell<u32> = const { Cell::new(0) });

/// Fails so often, then succeeds and starts over.
#[inline]
fn attempt(failures: u32) -> Result<u32, Status> {
    CALLS.with(|calls| {
        let n = calls.get() + 1;
        if n > failures {
            calls.set(0);
            Ok(black_box(n))
        } else {
            calls.set(n);
            Err(black_box(Status(503)))
        }
    })
}

/// Three retries of everything, for `tower::retry`.
#[derive(Clone)]
struct Three(u32);

impl tower::retry::Policy<u32, u32, Status> for Three {
    type Future = std::future::Ready<()>;
    fn retry(&mut self, _: &mut u32, outcome: &mut Result<u32, Status>) -> Option<Self::Future> {
        (outcome.is_err() && self.0 > 0).then(|| {
            self.0 -= 1;
            ready(())
        })
    }
    fn clone_request(&mut self, request: &u32) -> Option<u32> {
        Some(*request)
    }
}

/// `standard` with three retries of everything transient and this backoff.
fn policy(backoff: Backoff) -> Policy {
    let mut spec = (*Policy::standard()).clone();
    spec.backoff = backoff;
    spec.into()
}

fn at_once() -> Policy {
    policy(Backoff::new(Curve::constant(Duration::ZERO)))
}

const CASES: &[&str] = &[
    "hand-written loop",
    "redrive async",
    "redrive blocking",
    "redrive tower layer",
    "backon async, no sleep",
    "backon async, exponential + jitter, no sleep",
    "backon blocking, no sleep",
    "backon async, tokio sleep",
    "tower::retry",
    "tokio-retry",
];

/// Cases whose zero delay waits for tokio's next millisecond.
const TICKING: &[&str] = &["backon async, tokio sleep", "tokio-retry"];

async fn run(case: &str, failures: u32, n: u64) {
    let constant = ConstantBuilder::default().with_delay(Duration::ZERO).with_max_times(3);
    match case {
        "hand-written loop" => {
            for _ in 0..n {
                let mut left = 3;
                let outcome = loop {
                    match async { attempt(failures) }.await {
                        Ok(value) => break Ok(value),
                        Err(error) if left == 0 => break Err(error),
                        Err(_) => left -= 1,
                    }
                };
                black_box(outcome).unwrap();
            }
        }
        "redrive async" => {
            let policy = at_once();
            for _ in 0..n {
                black_box(RetryExt::retry(|| async { attempt(failures) }, &policy).await).unwrap();
            }
        }
        "redrive blocking" => {
            let policy = at_once();
            for _ in 0..n {
                black_box((|| attempt(failures)).retry_blocking(&policy).call()).unwrap();
            }
        }
        "redrive tower layer" => {
            let inner = tower::service_fn(move |_: u32| async move { attempt(failures) });
            let mut service = RetryLayer::new(at_once()).layer(inner);
            for i in 0..n {
                black_box(service.ready().await.unwrap().call(i as u32).await).unwrap();
            }
        }
        "backon async, no sleep" => {
            for _ in 0..n {
                black_box(
                    Retryable::retry(|| async { attempt(failures) }, constant).sleep(|_| ready(())).await,
                )
                .unwrap();
            }
        }
        "backon async, exponential + jitter, no sleep" => {
            let exponential = ExponentialBuilder::default().with_jitter().with_max_times(3);
            for _ in 0..n {
                black_box(
                    Retryable::retry(|| async { attempt(failures) }, exponential).sleep(|_| ready(())).await,
                )
                .unwrap();
            }
        }
        "backon blocking, no sleep" => {
            for _ in 0..n {
                black_box(BlockingRetryable::retry(|| attempt(failures), constant).sleep(|_| ()).call())
                    .unwrap();
            }
        }
        "backon async, tokio sleep" => {
            for _ in 0..n {
                black_box(Retryable::retry(|| async { attempt(failures) }, constant).await).unwrap();
            }
        }
        "tower::retry" => {
            let inner = tower::service_fn(move |_: u32| async move { attempt(failures) });
            let mut service = tower::retry::Retry::new(Three(3), inner);
            for i in 0..n {
                black_box(service.ready().await.unwrap().call(i as u32).await).unwrap();
            }
        }
        "tokio-retry" => {
            let strategy = tokio_retry::strategy::FixedInterval::from_millis(0).take(3);
            for _ in 0..n {
                let retry = tokio_retry::Retry::start(strategy.clone(), || async { attempt(failures) });
                black_box(retry.await).unwrap();
            }
        }
        _ => unreachable!("no case {case}"),
    }
}

/// 200 bytes of a trace as they come.
const MESSAGE: &str = "2026-11-15T08:00:00Z ERROR worker-7 sync: could not push page 1042 to the index: \
    request to https://index.example.net/v1/pages failed: dial tcp 10.0.0.5:443: connect: connection refused (os error 111), will try again";

const PARTS: &[&str] = &[
    "decide()",
    "decide(), exponential ± 20 %",
    "classify a status",
    "classify 200 bytes",
    "signal to decision",
];

fn run_part(part: &str, n: u64) {
    let (plain, mut rng, history) = (at_once(), Rng::seeded(1), History::default());
    let jittered = Backoff::new(Curve::exponential(Duration::from_secs(1)))
        .with_jitter(Jitter::PlusMinus(Factor::percent(20)));
    let jittered = policy(jittered);
    let failure = Failure::of(Cause::ApiError);
    let classifier = Classifier::built_in();
    let text = Report::text(&MESSAGE[..200]);
    for _ in 0..n {
        match part {
            "decide()" => drop(black_box(decide(&plain, black_box(&failure), &history, &mut rng))),
            "decide(), exponential ± 20 %" => {
                drop(black_box(decide(&jittered, black_box(&failure), &History::retries(2), &mut rng)));
            }
            "classify a status" => drop(black_box(classifier.classify(&black_box(Status(503)).report()))),
            "classify 200 bytes" => drop(black_box(classifier.classify(black_box(&text)))),
            "signal to decision" => {
                let failure = classifier.classify(&black_box(Status(503)).report());
                drop(black_box(decide(&jittered, &failure, &history, &mut rng)));
            }
            _ => unreachable!("no part {part}"),
        }
    }
}

/// The median of seven runs, in nanoseconds per round.
fn median(n: u64, mut work: impl FnMut(u64)) -> f64 {
    work(n / 10 + 1);
    let mut runs: Vec<f64> = (0..7)
        .map(|_| {
            let began = Instant::now();
            work(n);
            began.elapsed().as_nanos() as f64 / n as f64
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[3]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {
            println!("{:<46} {:>12} {:>16}", "ns per call", "success", "three failures");
            for case in CASES {
                let [success, failing] = [0, 3].map(|failures| {
                    let n = if failures > 0 && TICKING.contains(case) { 100 } else { 1_000_000 };
                    median(n, |n| runtime.block_on(run(case, failures, n)))
                });
                println!("{case:<46} {success:>12.1} {failing:>16.1}");
            }
            println!();
            for part in PARTS {
                println!("{part:<46} {:>12.1}", median(500_000, |n| run_part(part, n)));
            }
        }
        ["allocations"] => {
            for part in PARTS {
                run_part(part, 10);
                // The difference of two lengths, so that what is allocated once before the rounds cancels out.
                let count = |n| allocation_counter::measure(|| run_part(part, n)).count_total;
                let more = count(2_000) - count(1_000);
                println!("{part:<46} {more:>6} allocations in 1000 rounds");
            }
        }
        ["cases"] => {
            for case in CASES {
                println!("{case}:0");
                if !TICKING.contains(case) {
                    println!("{case}:3");
                }
            }
            PARTS.iter().for_each(|part| println!("{part}"));
        }
        [case, n] => {
            let n = n.parse().unwrap();
            match case.rsplit_once(':').and_then(|(name, failures)| Some((name, failures.parse().ok()?))) {
                Some((name, failures)) if CASES.contains(&name) => runtime.block_on(run(name, failures, n)),
                _ => run_part(case, n),
            }
        }
        _ => eprintln!("usage: bench-retry [cases | allocations | CASE N]"),
    }
}
