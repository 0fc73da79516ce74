//! The text that Prometheus reads: families of samples, each with its help and its type, in one piece. Either in its own form
//! (version 0.0.4) or as OpenMetrics: the same names and numbers, and an end that tells that nothing is missing.

use std::fmt::Write;

/// In which form numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextForm {
    /// What Prometheus has always read.
    #[default]
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl TextForm {
    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        match self {
            TextForm::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            TextForm::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What kind of numbers a family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
///
/// ```
/// use redrive::engine::{Exposition, Kind, TextForm};
///
/// let mut text = Exposition::new(TextForm::OpenMetrics);
/// text.family("requests_total", Kind::Counter, "Requests.");
/// text.sample("requests_total", &[("route", "/livez")], 7_u64);
/// let expected = "# HELP requests Requests.\n# TYPE requests counter\nrequests_total{route=\"/livez\"} 7\n# EOF\n";
/// assert_eq!(text.into_text(), expected);
/// ```
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    form: TextForm,
}

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

impl Exposition {
    /// A text in this form.
    pub fn new(form: TextForm) -> Exposition {
        Exposition { text: String::new(), form }
    }

    /// Begins a family.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        // OpenMetrics calls a counter by its name without the ending that its samples have.
        let name = match (self.form, kind) {
            (TextForm::OpenMetrics, Kind::Counter) => name.strip_suffix("_total").unwrap_or(name),
            _ => name,
        };
        // In a help only these two are escaped; a quotation mark stays.
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {}", kind.name()));
    }

    /// One sample.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Into<Number>) {
        let labels = written(labels);
        self.line(format_args!("{name}{labels} {}", value.into().0));
    }

    /// A histogram: counts up to each bound in milliseconds, all together, and their sum.
    pub fn histogram(
        &mut self,
        name: &str,
        labels: Labels<'_>,
        up_to: &[(u64, u64)],
        count: u64,
        sum_ms: u64,
    ) {
        let own = written(labels);
        let bucket = |le: &str| {
            let all: Vec<(&str, &str)> = labels.iter().copied().chain([("le", le)]).collect();
            written(&all)
        };
        for (bound_ms, n) in up_to {
            let labels = bucket(&seconds(*bound_ms));
            self.line(format_args!("{name}_bucket{labels} {n}"));
        }
        let labels = bucket("+Inf");
        self.line(format_args!("{name}_bucket{labels} {count}"));
        self.line(format_args!("{name}_sum{own} {}", seconds(sum_ms)));
        self.line(format_args!("{name}_count{own} {count}"));
    }

    /// The whole text.
    pub fn into_text(mut self) -> String {
        if self.form == TextForm::OpenMetrics {
            self.line(format_args!("# EOF"));
        }
        self.text
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing into a text cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

/// A number as it is written.
#[derive(Debug)]
pub struct Number(String);

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
