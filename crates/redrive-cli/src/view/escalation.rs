//! What waits for a person: the list, and one of them with its whole report (R-T7, R-T8, R-T10).

use std::ops::Deref;

use redrive::engine::{EscalationId, EscalationItem};
use redrive_policy::{EscalationReport, Lang, one_line};
use redrive_server::shape::escalation::{Escalation, report_in};
use redrive_store::Timestamp;
use serde::Serialize;

use super::badge::Badge;
use super::level;
use super::moment::{date_time, rough, when};
use super::{Align, Block, Column, Listing, Page, Reader, Span, Table, Tone};
use crate::escape::beginning;
use crate::text::{own, say, text};

/// What a row shows of a message.
const MESSAGE_CHARS: usize = 200;

/// One escalation. JSON: what the API tells of it.
#[derive(Debug, Serialize)]
pub(crate) struct EscalationLine {
    #[serde(flatten)]
    line: Escalation,
    #[serde(skip)]
    id: EscalationId,
    #[serde(skip)]
    last_failure: String,
}

impl Deref for EscalationLine {
    type Target = Escalation;

    fn deref(&self) -> &Escalation {
        &self.line
    }
}

impl EscalationLine {
    /// In the words of this language, whatever the report was written in.
    pub(crate) fn new(item: &EscalationItem, lang: Lang) -> EscalationLine {
        let last = report_in(item, lang).map(|report| report.failure_summary.last_failure.message);
        EscalationLine {
            line: Escalation::new(item, lang),
            id: item.id,
            last_failure: last.unwrap_or_default(),
        }
    }

    /// What is said of it in a row: what went wrong, or else what a person is told.
    fn in_short(&self, lang: Lang) -> String {
        let issue = one_line(&own(lang, &self.last_failure));
        beginning(&if issue.is_empty() { one_line(&self.user_message) } else { issue }, MESSAGE_CHARS)
    }

    fn tone(&self) -> Tone {
        if self.level.is_manual() { Tone::Bad } else { Tone::Warn }
    }
}

/// The newest first. JSON: `redrive/escalations.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct EscalationsView {
    pub(crate) schema: &'static str,
    pub(crate) items: Vec<EscalationLine>,
    /// The place of the last one, if there may be more behind it: `--after` takes it.
    pub(crate) next: Option<String>,
    /// The command for those behind it.
    #[serde(skip)]
    pub(crate) next_page: Option<String>,
    /// With those that somebody has seen.
    #[serde(skip)]
    pub(crate) all: bool,
    #[serde(skip)]
    pub(crate) now: Timestamp,
}

impl Page for EscalationsView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let word = |key: &str| say(lang, &format!("escalation.{key}"));
        let more = self.next_page.as_ref().map(|command| {
            let more = text(lang, "letter.more", &[("n", &self.items.len()), ("command", command)]);
            Block::Text(vec![Span::new(more, Tone::Dim)])
        });
        if self.items.is_empty() {
            let none = Block::Text(vec![Span::new(word("none"), Tone::Good)]);
            return std::iter::once(none).chain(more).collect();
        }
        let mut columns = vec![
            Column::left(word("id")),
            Column::left(word("name")).cut_to(12).rank(2),
            Column::right(word("when")).rank(3),
            Column::left(say(lang, "level.heading")).cut_to(1).rank(1),
        ];
        if self.all {
            columns.push(Column::left(word("state")));
        }
        columns.push(Column::left(word("issue")).cut_to(20));
        let row = |item: &EscalationLine| {
            let mut row = vec![
                Span::new(item.id.to_string(), Tone::Strong),
                Span::plain(item.name.clone()),
                Span::new(when(item.escalated_at, self.now, reader), Tone::Dim),
                Span::new(level::in_words(item.level, lang), item.tone()),
            ];
            if self.all {
                let badge = if item.acknowledged_at.is_some() { Badge::Acknowledged } else { Badge::Open };
                row.push(badge.span(lang));
            }
            row.push(Span::plain(item.in_short(lang)));
            row
        };
        let listing = Listing { columns, rows: self.items.iter().map(row).collect() };
        let next = Block::Text(vec![Span::new(word("next"), Tone::Dim)]);
        std::iter::once(Block::Listing(listing)).chain(more).chain([next]).collect()
    }
}

/// One escalation: what a person is told, and the report behind it. JSON: `redrive/escalation.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct EscalationView {
    schema: &'static str,
    #[serde(flatten)]
    line: EscalationLine,
    report: Option<EscalationReport>,
    #[serde(skip)]
    now: Timestamp,
}

impl EscalationView {
    pub(crate) fn new(item: &EscalationItem, lang: Lang, now: Timestamp) -> EscalationView {
        EscalationView {
            schema: "redrive/escalation.v1",
            line: EscalationLine::new(item, lang),
            report: report_in(item, lang),
            now,
        }
    }

    fn facts(&self, reader: Reader) -> Vec<(String, Span)> {
        let (lang, line) = (reader.lang, &self.line);
        let word = |key: &str| say(lang, &format!("escalation.{key}"));
        let mut facts = vec![
            (word("id"), Span::new(line.id.to_string(), Tone::Strong)),
            (word("when"), Span::plain(when(line.escalated_at, self.now, reader))),
            (say(lang, "level.heading"), Span::new(level::in_words(line.level, lang), line.tone())),
        ];
        if let Some(report) = &self.report {
            let reason = &report.reason;
            let said = format!("{} · {}", reason.reason_type, reason.description);
            facts.push((word("reason"), Span::plain(said)));
            if let Some(fatal) = report.fatal_error {
                facts.push((word("entry"), Span::plain(fatal.name())));
            }
            if let Some(subtask) = &report.subtask_id {
                facts.push((word("subtask"), Span::plain(subtask.clone())));
            }
            let attempts = report.failure_summary.total_attempts.to_string();
            facts.push((word("attempts"), Span::plain(attempts)));
            facts.push((word("trace"), Span::plain(report.debug_info.trace_file.clone())));
        }
        let seen = match line.acknowledged_at {
            Some(at) => {
                let note = line.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
                Span::new(format!("{}{note}", when(at, self.now, reader)), Tone::Good)
            }
            None => Span::new(word("unseen"), Tone::Warn),
        };
        facts.push((word("seen"), seen));
        facts
    }

    fn attempts(report: &EscalationReport, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        if report.debug_info.retry_history.is_empty() {
            return Vec::new();
        }
        let columns = [
            ("attempt", Align::Right),
            ("ended", Align::Left),
            ("took", Align::Right),
            ("cause", Align::Left),
        ];
        let mut columns = columns.map(|(key, align)| (say(lang, &format!("story.{key}")), align)).to_vec();
        columns.push((say(lang, "escalation.error"), Align::Left));
        let row = |attempt: &redrive_policy::RetryAttempt| {
            let at: Option<Timestamp> = attempt.timestamp.parse().ok();
            vec![
                Span::plain(attempt.attempt_number.to_string()),
                Span::new(at.map_or_else(|| attempt.timestamp.clone(), date_time), Tone::Dim),
                Span::plain(rough(std::time::Duration::from_millis(attempt.duration_ms))),
                Span::plain(attempt.cause.name()),
                Span::plain(beginning(&own(lang, &attempt.error_message), MESSAGE_CHARS)),
            ]
        };
        let rows = report.debug_info.retry_history.iter().map(row).collect();
        vec![Block::Gap, Block::Heading(say(lang, "letter.attempts")), Block::Table(Table { columns, rows })]
    }
}

impl Page for EscalationView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        // The words for a person first, as they were sent.
        let issue = &self.line.last_failure;
        let words = self.line.user_message.replace(issue, &own(lang, issue));
        let mut blocks: Vec<Block> = words
            .lines()
            .map(|line| if line.is_empty() { Block::Gap } else { Block::Text(vec![Span::plain(line)]) })
            .collect();
        blocks.extend([Block::Gap, Block::Fields(self.facts(reader))]);
        if let Some(report) = &self.report {
            blocks.extend(EscalationView::attempts(report, reader));
            let list = |heading: &str, lines: &[String]| {
                if lines.iter().all(|line| line.trim().is_empty()) {
                    return Vec::new();
                }
                let lines = lines.iter().map(|line| Block::Text(vec![Span::plain(format!("  {line}"))]));
                let heading = Block::Heading(say(lang, heading));
                [Block::Gap, heading].into_iter().chain(lines).collect::<Vec<_>>()
            };
            blocks.extend(list("letter.actions", &report.recommended_actions));
            blocks.extend(list("escalation.logs", &report.debug_info.relevant_logs));
        }
        let key = match self.line.id {
            EscalationId::Task(_) => "escalation.next-task",
            EscalationId::Letter(_) => "escalation.next-letter",
        };
        let next = text(lang, key, &[("id", &self.line.id)]);
        blocks.extend([Block::Gap, Block::Text(vec![Span::new(next, Tone::Strong)])]);
        blocks
    }
}

/// That somebody has seen them. JSON: `redrive/acknowledged.v1`.
#[derive(Debug, Serialize)]
pub(crate) struct AcknowledgedView {
    schema: &'static str,
    acknowledged: Vec<String>,
}

impl AcknowledgedView {
    pub(crate) fn new(acknowledged: Vec<String>) -> AcknowledgedView {
        AcknowledgedView { schema: "redrive/acknowledged.v1", acknowledged }
    }
}

impl Page for AcknowledgedView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let line = |id: &String| {
            Block::Text(vec![Span::plain(text(reader.lang, "escalation.acked", &[("id", id)]))])
        };
        self.acknowledged.iter().map(line).collect()
    }
}
