//! Alerts: how each rule stands, what is silenced, and who is told.

use std::time::Duration;

use redrive::engine::{AlertReport, AlertStatus, AlertUnit, Silence};
use redrive_policy::Severity;
use redrive_store::{JobId, Timestamp};
use serde::Serialize;

use super::block::{Column, Listing};
use super::moment::{date_time, rough, when};
use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

/// No length of time that is shown is longer: a thousand years.
const MOST_SECONDS: f64 = 31_557_600_000.0;

/// JSON: `redrive/alerts.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct AlertsView {
    schema: &'static str,
    firing: bool,
    rules: Vec<RuleItem>,
    off: Vec<&'static str>,
    silences: Vec<SilenceItem>,
    receivers: Vec<ReceiverItem>,
    #[serde(skip)]
    now: Timestamp,
    /// Only what is wrong is shown.
    #[serde(skip)]
    brief: bool,
}

#[derive(Debug, Serialize)]
struct RuleItem {
    rule: &'static str,
    severity: &'static str,
    firing: bool,
    value: Option<f64>,
    threshold: f64,
    unit: &'static str,
    samples: Option<u64>,
    since: Option<Timestamp>,
    told_at: Option<Timestamp>,
    silenced_until: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize)]
struct SilenceItem {
    id: String,
    rule: Option<String>,
    group: Option<String>,
    until: Timestamp,
    why: Option<String>,
    by: String,
}

#[derive(Debug, Serialize)]
struct ReceiverItem {
    name: String,
    to: String,
}

impl From<Silence> for SilenceItem {
    fn from(silence: Silence) -> SilenceItem {
        let Silence { id, rule, group, until, why, by } = silence;
        SilenceItem { id, rule, group, until, why, by }
    }
}

impl RuleItem {
    fn new(status: AlertStatus) -> RuleItem {
        let finding = status.finding;
        RuleItem {
            rule: finding.rule.name(),
            severity: finding.rule.severity().name(),
            firing: finding.firing,
            value: finding.value.map(|value| (value * 100.0).round() / 100.0),
            threshold: finding.threshold,
            unit: match finding.rule.unit() {
                AlertUnit::Count => "count",
                AlertUnit::Percent => "percent",
                AlertUnit::Millis => "ms",
            },
            samples: finding.samples,
            since: status.since,
            told_at: status.told_at,
            silenced_until: status.silence.map(|silence| silence.until),
        }
    }

    fn number(&self, number: f64) -> String {
        match self.unit {
            "percent" => format!("{number} %"),
            // A value and its threshold stand side by side, and are read in the same way.
            "ms" => rough(Duration::from_secs_f64((number / 1_000.0).clamp(0.0, MOST_SECONDS))),
            _ => number.round().to_string(),
        }
    }

    fn state(&self, reader: Reader) -> Span {
        let (key, tone) = match (self.firing, self.silenced_until, self.severity) {
            (true, Some(_), _) => ("silenced", Tone::Warn),
            (true, None, severity) if severity == Severity::Critical.name() => ("critical", Tone::Bad),
            (true, None, _) => ("warning", Tone::Warn),
            (false, ..) if self.value.is_none() => ("no-data", Tone::Dim),
            (false, ..) => ("fine", Tone::Good),
        };
        Span::new(say(reader.lang, &format!("alerts.state.{key}")), tone)
    }
}

impl AlertsView {
    pub(crate) fn new(report: AlertReport, now: Timestamp) -> AlertsView {
        AlertsView {
            schema: "redrive/alerts.v1",
            firing: report.is_firing(),
            off: report.off.iter().map(|rule| rule.name()).collect(),
            rules: report.rules.into_iter().map(RuleItem::new).collect(),
            silences: report.silences.into_iter().map(SilenceItem::from).collect(),
            receivers: report.receivers.into_iter().map(|(name, to)| ReceiverItem { name, to }).collect(),
            now,
            brief: false,
        }
    }

    /// Only the rules that find something.
    pub(crate) fn only_firing(mut self) -> AlertsView {
        self.rules.retain(|rule| rule.firing);
        self.brief = true;
        self
    }

    /// Whether something is wrong that nobody has silenced.
    pub(crate) fn is_heard(&self) -> bool {
        self.rules.iter().any(|rule| rule.firing && rule.silenced_until.is_none())
    }
}

impl Page for AlertsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let word = |key: &str| say(lang, &format!("alerts.{key}"));
        if self.rules.is_empty() && self.brief {
            return vec![Block::Text(vec![Span::new(word("nothing"), Tone::Good)])];
        }
        let columns = vec![
            Column::left(word("rule")),
            Column::left(word("how")),
            Column::right(word("value")),
            Column::right(word("threshold")),
            Column::right(word("samples")).rank(2),
            Column::left(word("since")).rank(1),
        ];
        let row = |item: &RuleItem| {
            vec![
                Span::new(item.rule, Tone::Strong),
                item.state(reader),
                Span::plain(item.value.map_or_else(|| "-".to_owned(), |value| item.number(value))),
                Span::plain(item.number(item.threshold)),
                Span::plain(item.samples.map_or_else(|| "-".to_owned(), |samples| samples.to_string())),
                Span::plain(item.since.map_or_else(|| "-".to_owned(), |since| when(since, self.now, reader))),
            ]
        };
        let rows = self.rules.iter().map(row).collect();
        let mut blocks = vec![Block::Listing(Listing { columns, rows })];
        let line = |words: String, tone: Tone| Block::Text(vec![Span::new(words, tone)]);
        for silence in &self.silences {
            let until = date_time(silence.until);
            let why = silence.why.clone().unwrap_or_else(|| "-".to_owned());
            let values: [(&str, &dyn std::fmt::Display); 4] =
                [("id", &silence.id), ("until", &until), ("by", &silence.by), ("why", &why)];
            blocks.push(line(text(lang, "alerts.silenced", &values), Tone::Warn));
        }
        if self.brief {
            return blocks;
        }
        if !self.off.is_empty() {
            blocks.push(line(text(lang, "alerts.off", &[("rules", &self.off.join(", "))]), Tone::Dim));
        }
        if self.receivers.is_empty() {
            blocks.push(line(word("nobody"), Tone::Warn));
        }
        for receiver in &self.receivers {
            let told = text(lang, "alerts.told", &[("name", &receiver.name), ("to", &receiver.to)]);
            blocks.push(line(told, Tone::Plain));
        }
        blocks
    }
}

/// Tests that are on their way. JSON: `redrive/alerts_tested.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct TestedView {
    schema: &'static str,
    items: Vec<TestItem>,
}

#[derive(Debug, Serialize)]
struct TestItem {
    receiver: String,
    job: String,
}

impl TestedView {
    pub(crate) fn new(sent: Vec<(String, JobId)>) -> TestedView {
        let items = sent.into_iter().map(|(receiver, job)| TestItem { receiver, job: job.to_string() });
        TestedView { schema: "redrive/alerts_tested.v1", items: items.collect() }
    }
}

impl Page for TestedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = |item: &TestItem| {
            let values: [(&str, &dyn std::fmt::Display); 2] = [("name", &item.receiver), ("id", &item.job)];
            Block::Text(vec![Span::plain(text(reader.lang, "alerts.tested", &values))])
        };
        self.items.iter().map(line).collect()
    }
}

/// What is silenced, or no more. JSON: `redrive/alerts_silenced.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct SilencedView {
    schema: &'static str,
    silenced: bool,
    #[serde(flatten)]
    silence: SilenceItem,
}

impl SilencedView {
    pub(crate) fn begun(silence: Silence) -> SilencedView {
        SilencedView { schema: "redrive/alerts_silenced.v1", silenced: true, silence: silence.into() }
    }

    pub(crate) fn ended(silence: Silence) -> SilencedView {
        SilencedView { silenced: false, ..SilencedView::begun(silence) }
    }
}

impl Page for SilencedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let key = if self.silenced { "alerts.now-silenced" } else { "alerts.now-heard" };
        let until = date_time(self.silence.until);
        let line = text(reader.lang, key, &[("id", &self.silence.id), ("until", &until)]);
        vec![Block::Text(vec![Span::plain(line)])]
    }
}
