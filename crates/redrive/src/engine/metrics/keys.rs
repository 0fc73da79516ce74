//! How idempotency keys are used (R-C4, 004 §6): how many requests bring one, how many of those come again, and what became of them.
//!
//! A store that never saw a key has nothing to tell about keys, and says nothing.

use redrive_store::Metric;
use serde::Serialize;

use super::exposition::{Exposition, Kind};
use super::{Sums, percent};

/// How keys were used in a period, and where they stand now.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct KeyUse {
    /// Requests that are guarded, with or without a key.
    pub guarded: u64,
    /// Those that came with a key.
    pub used: u64,
    /// In percent of those that are guarded.
    pub use_rate: Option<f64>,
    /// Those that were run.
    pub taken: u64,
    /// Those that were answered from a record.
    pub replayed: u64,
    /// Those that were refused while the first was running.
    pub in_flight: u64,
    /// Those that came again, so replayed or refused meanwhile, in percent of those with a key.
    pub duplicate_rate: Option<f64>,
    /// Keys that came with another request.
    pub mismatched: u64,
    /// Those that were refused because nobody knows how the first ended.
    pub refused_unknown: u64,
    /// Keys that became free again because their answer is not kept.
    pub released: u64,
    /// In progress now.
    pub in_progress: u64,
    /// Outcomes that nobody knows now.
    pub unknown_outcomes: u64,
}

impl KeyUse {
    /// What was counted, and where keys stand; nothing when there is nothing to tell.
    pub(super) fn of(sums: &Sums, (in_progress, unknown_outcomes): (u64, u64)) -> Option<KeyUse> {
        let [guarded, used, taken, replayed] =
            [Metric::KeysGuarded, Metric::KeysUsed, Metric::KeysTaken, Metric::KeysReplayed]
                .map(|metric| sums.get(metric));
        let in_flight = sums.get(Metric::KeysInFlight);
        let was_used = [used, in_progress, unknown_outcomes].into_iter().any(|n| n > 0);
        was_used.then(|| KeyUse {
            guarded,
            used,
            use_rate: percent(used, guarded),
            taken,
            replayed,
            in_flight,
            duplicate_rate: percent(replayed.saturating_add(in_flight), used),
            mismatched: sums.get(Metric::KeysMismatched),
            refused_unknown: sums.get(Metric::KeysUnknown),
            released: sums.get(Metric::KeysReleased),
            in_progress,
            unknown_outcomes,
        })
    }

    /// The same for Prometheus.
    pub(super) fn expose(&self, text: &mut Exposition) {
        let counters = [
            (
                "redrive_idempotency_guarded_total",
                "Requests that are guarded, with or without a key.",
                self.guarded,
            ),
            ("redrive_idempotency_used_total", "Guarded requests that came with a key.", self.used),
            ("redrive_idempotency_taken_total", "Requests with a key that were run.", self.taken),
            (
                "redrive_idempotency_replayed_total",
                "Requests that were answered from a record.",
                self.replayed,
            ),
            (
                "redrive_idempotency_in_flight_total",
                "Requests that were refused while the first was running.",
                self.in_flight,
            ),
            ("redrive_idempotency_mismatched_total", "Keys that came with another request.", self.mismatched),
            (
                "redrive_idempotency_unknown_total",
                "Requests that were refused because nobody knows how the first ended.",
                self.refused_unknown,
            ),
            (
                "redrive_idempotency_released_total",
                "Keys that became free again because their answer is not kept.",
                self.released,
            ),
        ];
        for (name, help, n) in counters {
            text.family(name, Kind::Counter, help);
            text.sample(name, &[], n);
        }
        let gauges = [
            ("redrive_idempotency_in_progress", "Keys whose request is being run.", self.in_progress),
            (
                "redrive_idempotency_unknown_outcomes",
                "Keys of which nobody knows the outcome.",
                self.unknown_outcomes,
            ),
        ];
        for (name, help, n) in gauges {
            text.family(name, Kind::Gauge, help);
            text.sample(name, &[], n);
        }
    }
}

/// Whether something is counted of keys, which belong to no queue.
pub(super) fn is_of_keys(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::KeysGuarded
            | Metric::KeysUsed
            | Metric::KeysTaken
            | Metric::KeysReplayed
            | Metric::KeysMismatched
            | Metric::KeysInFlight
            | Metric::KeysUnknown
            | Metric::KeysReleased
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use redrive_store::{KeyCounts, MetricCount};

    fn sums(counts: KeyCounts) -> Sums {
        let count = |(metric, n)| MetricCount { hour: None, queue: None, metric, n };
        Sums::of(&counts.metrics().map(count))
    }

    /// R-C4, 004 §6: rates of use and of duplicates; nothing to tell where no key was ever seen.
    #[test]
    fn rates_are_of_what_they_say() {
        assert_eq!(KeyUse::of(&sums(KeyCounts::default()), (0, 0)), None);
        assert_eq!(KeyUse::of(&sums(KeyCounts { guarded: 9, ..KeyCounts::default() }), (0, 0)), None);
        let counts = KeyCounts {
            guarded: 200,
            keyed: 100,
            taken: 60,
            replayed: 25,
            mismatched: 4,
            in_flight: 5,
            unknown: 6,
            released: 7,
        };
        let of = KeyUse::of(&sums(counts), (2, 1)).unwrap();
        assert_eq!((of.use_rate, of.duplicate_rate), (Some(50.0), Some(30.0)));
        assert_eq!((of.taken, of.mismatched, of.refused_unknown, of.released), (60, 4, 6, 7));
        assert_eq!((of.in_progress, of.unknown_outcomes), (2, 1));
        // Asked long after: only where keys stand is left to tell.
        let later = KeyUse::of(&sums(KeyCounts::default()), (0, 3)).unwrap();
        assert_eq!((later.duplicate_rate, later.unknown_outcomes), (None, 3));
    }

    /// R-C4: every count has its own sample, with help and type.
    #[test]
    fn every_count_is_exposed_once() {
        let counts = KeyCounts {
            guarded: 11,
            keyed: 12,
            taken: 13,
            replayed: 14,
            mismatched: 15,
            in_flight: 16,
            unknown: 17,
            released: 18,
        };
        let mut text = Exposition::default();
        KeyUse::of(&sums(counts), (19, 20)).unwrap().expose(&mut text);
        let text = text.into_text();
        for (name, kind, n) in [
            ("guarded_total", "counter", 11),
            ("used_total", "counter", 12),
            ("taken_total", "counter", 13),
            ("replayed_total", "counter", 14),
            ("mismatched_total", "counter", 15),
            ("in_flight_total", "counter", 16),
            ("unknown_total", "counter", 17),
            ("released_total", "counter", 18),
            ("in_progress", "gauge", 19),
            ("unknown_outcomes", "gauge", 20),
        ] {
            let sample =
                format!("# TYPE redrive_idempotency_{name} {kind}\nredrive_idempotency_{name} {n}\n");
            assert!(text.contains(&sample), "{sample}{text}");
        }
    }
}
