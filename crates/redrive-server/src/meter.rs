//! What the server does, in numbers: requests by route and status, how long they took, how many are under way.
//!
//! Counting is a few additions and no lock. Routes are those of the table, so that there are never more samples than routes,
//! whatever paths are asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::StatusCode;
use redrive::engine::{Exposition, Kind};

/// The bounds of durations, in milliseconds.
const BOUNDS_MS: [u64; 10] = [1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000];
/// Classes of status, from 1xx to 5xx.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The numbers of one route.
#[derive(Debug, Default)]
pub(crate) struct RouteMeter {
    classes: [AtomicU64; CLASSES.len()],
    buckets: [AtomicU64; BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
    under_way: AtomicU64,
}

/// A request that is under way. It is counted when it ends, also when its client goes away.
pub(crate) struct UnderWay {
    meter: Arc<RouteMeter>,
    began: Instant,
    /// Nothing: it was dropped before it was answered.
    status: Option<StatusCode>,
}

impl RouteMeter {
    pub(crate) fn begin(self: &Arc<RouteMeter>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay { meter: Arc::clone(self), began: Instant::now(), status: None }
    }

    fn answered(&self, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len()) - 1;
        self.classes[class].fetch_add(1, Ordering::Relaxed);
        let millis = took.as_millis();
        let bucket =
            BOUNDS_MS.iter().position(|bound| millis < u128::from(*bound)).unwrap_or(BOUNDS_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl UnderWay {
    pub(crate) fn ends(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.meter.under_way.fetch_sub(1, Ordering::Relaxed);
        if let Some(status) = self.status {
            self.meter.answered(status, self.began.elapsed());
        }
    }
}

/// The numbers of all routes.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    routes: std::sync::OnceLock<Vec<(String, String, Arc<RouteMeter>)>>,
    /// Requests that reached no route: unknown paths, and whom the front turned away.
    outside: Arc<RouteMeter>,
}

impl Meter {
    /// Meters for these routes, by method and path. Only the first router has them.
    pub(crate) fn meters(&self, routes: impl Iterator<Item = (String, String)>) -> Vec<Arc<RouteMeter>> {
        let made =
            self.routes.get_or_init(|| routes.map(|(method, path)| (method, path, Arc::default())).collect());
        made.iter().map(|(_, _, meter)| Arc::clone(meter)).collect()
    }

    pub(crate) fn outside(&self) -> &Arc<RouteMeter> {
        &self.outside
    }

    /// Writes everything that was asked for at least once.
    pub(crate) fn expose(&self, text: &mut Exposition, connections: usize) {
        let all: Vec<(&str, &str, &RouteMeter)> = self
            .routes
            .get()
            .into_iter()
            .flatten()
            .map(|(method, path, meter)| (method.as_str(), path.as_str(), &**meter))
            .chain([("any", "other", &*self.outside)])
            .collect();
        let count =
            |meter: &RouteMeter| meter.classes.iter().map(|class| class.load(Ordering::Relaxed)).sum::<u64>();
        let name = "redrive_http_requests_total";
        text.family(name, Kind::Counter, "Requests by route and class of status.");
        for (method, route, meter) in all.iter().filter(|(.., meter)| count(meter) > 0) {
            for (class, n) in CLASSES.iter().zip(&meter.classes) {
                let n = n.load(Ordering::Relaxed);
                if n > 0 {
                    text.sample(name, &[("method", method), ("route", route), ("status", class)], n);
                }
            }
        }
        let name = "redrive_http_request_duration_seconds";
        text.family(name, Kind::Histogram, "How long requests took, by route; long polls included.");
        for (method, route, meter) in all.iter().filter(|(.., meter)| count(meter) > 0) {
            let mut so_far = 0;
            let buckets: Vec<(u64, u64)> = BOUNDS_MS
                .iter()
                .zip(&meter.buckets)
                .map(|(bound, n)| {
                    so_far += n.load(Ordering::Relaxed);
                    (*bound, so_far)
                })
                .collect();
            let last = meter.buckets.last().map_or(0, |last| last.load(Ordering::Relaxed));
            let sum_ms = meter.sum_us.load(Ordering::Relaxed) / 1_000;
            text.histogram(name, &[("method", method), ("route", route)], &buckets, so_far + last, sum_ms);
        }
        let name = "redrive_http_requests_under_way";
        text.family(name, Kind::Gauge, "Requests that are being answered, by route; long polls wait there.");
        for (method, route, meter) in &all {
            let n = meter.under_way.load(Ordering::Relaxed);
            if n > 0 {
                text.sample(name, &[("method", method), ("route", route)], n);
            }
        }
        let name = "redrive_http_connections";
        text.family(name, Kind::Gauge, "Connections that are open.");
        text.sample(name, &[], connections as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive::engine::TextForm;

    /// R-C4, row 71: samples are by route, never by path; what is under way is counted once it ends.
    #[test]
    fn requests_are_counted_by_route() {
        let meter = Meter::default();
        let routes = [("GET".to_owned(), "/v1/jobs/{id}".to_owned())];
        let route = meter.meters(routes.into_iter()).remove(0);
        route.begin().ends(StatusCode::OK);
        route.begin().ends(StatusCode::NOT_FOUND);
        drop(route.begin());
        let waiting = route.begin();
        meter.outside().begin().ends(StatusCode::UNAUTHORIZED);
        let mut text = Exposition::new(TextForm::Prometheus);
        meter.expose(&mut text, 3);
        let text = text.into_text();
        let at = "{method=\"GET\",route=\"/v1/jobs/{id}\"";
        for line in [
            format!("redrive_http_requests_total{at},status=\"2xx\"}} 1\n"),
            format!("redrive_http_requests_total{at},status=\"4xx\"}} 1\n"),
            format!("redrive_http_request_duration_seconds_count{at}}} 2\n"),
            format!("redrive_http_requests_under_way{at}}} 1\n"),
            "redrive_http_requests_total{method=\"any\",route=\"other\",status=\"4xx\"} 1\n".to_owned(),
            "redrive_http_connections 3\n".to_owned(),
        ] {
            assert!(text.contains(&line), "{line}{text}");
        }
        drop(waiting);
    }
}
