//! What the proxy is doing right now, and what it has done since it began: for its metrics and for its end.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::Notify;

/// What is counted while the proxy runs.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) connections: Gauge,
    pub(super) guarded: Gauge,
    pub(super) passing: Gauge,
    pub(super) tunnels: Gauge,
    pub(super) retried: AtomicU64,
    pub(super) unreachable: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) timed_out: AtomicU64,
    /// Whether the last try to reach the service failed.
    pub(super) is_down: AtomicBool,
    /// Whether somebody was told that the store cannot be asked.
    pub(super) store_is_down: AtomicBool,
    pub(super) is_draining: AtomicBool,
}

/// How many there are, and how many there were.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    now: AtomicU64,
    ever: AtomicU64,
    over: Notify,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct One(Arc<Live>, fn(&Live) -> &Gauge);

impl Drop for One {
    fn drop(&mut self) {
        let gauge = (self.1)(&self.0);
        if gauge.now.fetch_sub(1, Ordering::AcqRel) == 1 {
            gauge.over.notify_waiters();
        }
    }
}

/// One more of these.
pub(super) fn one(live: &Arc<Live>, of: fn(&Live) -> &Gauge) -> One {
    let gauge = of(live);
    gauge.now.fetch_add(1, Ordering::AcqRel);
    gauge.ever.fetch_add(1, Ordering::Relaxed);
    One(Arc::clone(live), of)
}

impl Gauge {
    pub(super) fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    /// Waits until there is none.
    pub(super) async fn over(&self) {
        loop {
            let over = self.over.notified();
            tokio::pin!(over);
            over.as_mut().enable();
            if self.now() == 0 {
                return;
            }
            over.await;
        }
    }
}

impl Live {
    /// Nothing is under way any more.
    pub(super) async fn over(&self) {
        self.connections.over().await;
        self.guarded.over().await;
        self.tunnels.over().await;
    }

    /// As Prometheus reads it.
    pub(super) fn page(&self, held: usize) -> String {
        let mut page = String::new();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, u64)]| {
            let name = format!("redrive_proxy_{name}");
            // Writing to a string cannot fail.
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(page, "{name}{labels} {value}");
            }
        };
        family("connections", "gauge", "Clients that are connected.", &[("", self.connections.now())]);
        family(
            "requests_in_flight",
            "gauge",
            "Requests that are under way.",
            &[(r#"{kind="keyed"}"#, self.guarded.now()), (r#"{kind="passing"}"#, self.passing.now())],
        );
        family("tunnels", "gauge", "Connections that changed their protocol.", &[("", self.tunnels.now())]);
        let held = u64::try_from(held).unwrap_or(u64::MAX);
        family("keys_held", "gauge", "Keys whose requests are being run by this proxy.", &[("", held)]);
        family(
            "requests_total",
            "counter",
            "Requests since this proxy began.",
            &[
                (r#"{kind="keyed"}"#, count(&self.guarded.ever)),
                (r#"{kind="passing"}"#, count(&self.passing.ever)),
            ],
        );
        family(
            "upstream_retries_total",
            "counter",
            "Requests with a key that were sent to the service again.",
            &[("", count(&self.retried))],
        );
        family(
            "upstream_failures_total",
            "counter",
            "Tries that the service did not answer.",
            &[
                (r#"{kind="unreachable"}"#, count(&self.unreachable)),
                (r#"{kind="lost"}"#, count(&self.lost)),
                (r#"{kind="timeout"}"#, count(&self.timed_out)),
            ],
        );
        let is_up = u64::from(!self.is_down.load(Ordering::Relaxed));
        family("upstream_up", "gauge", "Whether the service was reached when last tried.", &[("", is_up)]);
        page
    }
}
