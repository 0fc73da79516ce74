//! What is not allocated (issue 2, Speed): nothing on the success path, nothing from a typed signal to a decision.

use std::time::Duration;

use allocation_counter::measure;
use redrive::{Backoff, Classifier, Curve, IntoFailure, Policy, Report, RetryBlockingExt, RetryExt, Rng};
use redrive_policy::{History, decide};

struct Status(u16);

impl IntoFailure for Status {
    fn report(&self) -> Report<'_> {
        Report { http_status: Some(self.0), ..Report::default() }
    }
}

#[test]
fn success_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let policy = Policy::standard();
    let blocking = measure(|| assert!((|| Ok::<_, Status>(1)).retry_blocking(&policy).call().is_ok()));
    assert_eq!(blocking.count_total, 0);
    runtime.block_on(async {
        let mut future = std::pin::pin!((|| async { Ok::<_, Status>(1) }).retry(&policy));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let polled = measure(|| assert!(future.as_mut().poll(&mut context).is_ready()));
        assert_eq!(polled.count_total, 0);
    });
}

#[test]
fn a_typed_signal_becomes_a_decision_without_allocating() {
    let mut spec = (*Policy::standard()).clone();
    spec.backoff = Backoff::new(Curve::exponential(Duration::from_secs(1)));
    let (policy, mut rng) = (Policy::from(spec), Rng::seeded(1));
    let mut history = History::default();
    let mut decide_once = |status: u16| {
        let failure = Classifier::built_in().classify(&Status(status).report());
        let decision = decide(&policy, &failure, &history, &mut rng);
        history.record(&decision);
    };
    // The first one loads the rules.
    decide_once(503);
    for status in [503, 429, 408, 401, 404, 500] {
        assert_eq!(measure(|| decide_once(status)).count_total, 0, "{status}");
    }
}

/// R-P12: a typed error is read without allocating; its code is a name that is there already.
#[test]
fn reading_a_typed_signal_allocates_nothing() {
    use std::io::{Error, ErrorKind};
    let kind = Error::from(ErrorKind::ConnectionReset);
    let raw = Error::from_raw_os_error(104);
    let inner = Error::other(Error::from_raw_os_error(104));
    let policy = Policy::standard();
    let read = |error: &dyn IntoFailure, code: &str| {
        let reading = measure(|| assert_eq!(error.report().code.as_deref(), Some(code)));
        assert_eq!(reading.count_total, 0, "{code}");
        // The code decides, so the words are never written out.
        let whole = || {
            let failure = Classifier::built_in().classify(&error.report());
            assert!(decide(&policy, &failure, &History::default(), &mut Rng::seeded(1)).is_retry());
        };
        whole();
        assert_eq!(measure(whole).count_total, 0, "{code}, to the decision");
    };
    read(&kind, "ECONNRESET");
    if cfg!(target_os = "linux") {
        read(&raw, "ECONNRESET");
        read(&inner, "ECONNRESET");
    }
    #[cfg(feature = "rusqlite")]
    read(&rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(5), None), "SQLITE_BUSY");
}
