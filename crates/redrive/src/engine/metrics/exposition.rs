//! The text that Prometheus reads (version 0.0.4): families of samples, each with its help and its type, in one piece.

use std::fmt::Write;

/// What kind of numbers a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// They only grow, or begin anew.
    Counter,
    /// They go up and down.
    Gauge,
    /// Counts of what is no larger than each bound.
    Histogram,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A text in the making. Whoever writes a family writes all of it before the next.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// Begins a family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        // In a help only these two are escaped; a quotation mark stays.
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", kind.name()));
    }

    /// One sample.
    pub(super) fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Into<Number>) {
        let labels = written(labels);
        self.line(format_args!("{name}{labels} {}", value.into().0));
    }

    /// A histogram without labels: counts up to each bound in milliseconds, all together, and their sum.
    pub(super) fn histogram(&mut self, name: &str, up_to: &[(u64, u64)], count: u64, sum_ms: u64) {
        for (bound_ms, n) in up_to {
            let le = seconds(*bound_ms);
            self.line(format_args!("{name}_bucket{{le=\"{le}\"}} {n}"));
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        self.line(format_args!("{name}_sum {}", seconds(sum_ms)));
        self.line(format_args!("{name}_count {count}"));
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a text cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// A number as it is written.
pub(super) struct Number(String);

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number(number.to_string())
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        // Rust writes `inf`, Prometheus reads `+Inf`; ratios are never that, and a text that cannot be read helps nobody.
        Number(if number.is_finite() { number.to_string() } else { "NaN".to_owned() })
    }
}

/// Milliseconds as seconds, exactly.
pub(super) fn seconds(millis: u64) -> String {
    let (whole, rest) = (millis / 1_000, millis % 1_000);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{rest:03}").trim_end_matches('0').to_owned()
}

fn written(labels: Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

/// A label's value: any text, with what would end it written otherwise.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C4: whatever a queue is called, the text stays readable.
    #[test]
    fn values_of_labels_are_escaped_and_seconds_are_exact() {
        let mut text = Exposition::default();
        text.family("redrive_jobs", Kind::Gauge, "a \\ and\nb");
        text.sample("redrive_jobs", &[("queue", "a\"b\\c\nd"), ("kind", "日本")], 7_u64);
        text.sample("redrive_jobs", &[], 0.5);
        assert_eq!(
            text.into_text(),
            "# HELP redrive_jobs a \\\\ and\\nb\n# TYPE redrive_jobs gauge\n\
             redrive_jobs{queue=\"a\\\"b\\\\c\\nd\",kind=\"日本\"} 7\nredrive_jobs 0.5\n"
        );
        assert_eq!(
            [0, 1, 15, 1_000, 1_023, 90_500].map(seconds),
            ["0", "0.001", "0.015", "1", "1.023", "90.5"]
        );
    }
}
