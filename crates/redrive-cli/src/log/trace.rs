//! What the crates below trace becomes lines of the log. Spans are not followed: nothing here opens any.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::{Level, Log};

/// From here on traces of this process are lines of this log. The first log wins.
pub(crate) fn trace_into(log: &Log) {
    // Another one is there already only in tests, which do not look at traces.
    let _ = tracing::subscriber::set_global_default(Tracer { log: log.clone(), spans: AtomicU64::new(1) });
}

struct Tracer {
    log: Log,
    spans: AtomicU64,
}

impl Subscriber for Tracer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let level = level_of(*metadata.level());
        // Of other people's crates only what is wrong: what else they say may hold anything.
        let ours = metadata.target().starts_with("redrive");
        level.is_some_and(|level| self.log.is_on(level) && (ours || level >= Level::Warn))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(level) = level_of(*event.metadata().level()) else { return };
        let mut seen = Seen::default();
        event.record(&mut seen);
        let fields: Vec<(&str, &dyn fmt::Display)> =
            seen.fields.iter().map(|(name, value)| (*name, value as &dyn fmt::Display)).collect();
        self.log.say(level, &seen.message, &fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn level_of(level: tracing::Level) -> Option<Level> {
    match level {
        tracing::Level::ERROR => Some(Level::Error),
        tracing::Level::WARN => Some(Level::Warn),
        tracing::Level::INFO => Some(Level::Info),
        tracing::Level::DEBUG => Some(Level::Debug),
        _ => None,
    }
}

#[derive(Default)]
struct Seen {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }
}

impl Seen {
    fn put(&mut self, field: &Field, value: String) {
        if field.name() == "message" {
            self.message = value;
        } else {
            self.fields.push((field.name(), value));
        }
    }
}
