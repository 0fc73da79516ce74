//! One decision, why it was taken, and what the next retries would bring.

use std::time::Duration;

use redrive_policy::{DecisionKind, DecisionRecord, RuleId, human_duration};
use serde::Serialize;

use super::backoff::{range_in_words, short};
use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::text::{say, text};

/// A decision. JSON: the record of 002 §2.2 and nothing else.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct DecisionView {
    pub(crate) record: DecisionRecord,
    #[serde(skip)]
    pub(crate) ladder: Vec<Rung>,
    /// The rule that found the cause, unless the cause was given.
    #[serde(skip)]
    pub(crate) found_by: Option<RuleId>,
    /// How many rungs were left out.
    #[serde(skip)]
    pub(crate) left_out: u32,
}

/// What happens at one retry count.
#[derive(Debug)]
pub(crate) struct Rung {
    pub(crate) retry_count: u32,
    pub(crate) decision: DecisionKind,
    /// The wait before the next attempt, from the least to the most.
    pub(crate) wait: Option<(Duration, Duration)>,
    /// The most that will have been waited by then.
    pub(crate) total: Duration,
}

/// The colour of a decision.
pub(crate) const fn tone(decision: DecisionKind) -> Tone {
    match decision {
        DecisionKind::Pass => Tone::Good,
        DecisionKind::Retry => Tone::Warn,
        DecisionKind::Escalate => Tone::Bad,
    }
}

/// A decision on one line: `RETRY in 20.3s`.
pub(crate) fn headline(record: &DecisionRecord, reader: Reader) -> Span {
    let words = match record.delay_ms {
        Some(ms) => text(
            reader.lang,
            "decision.retry-in",
            &[("decision", &record.decision), ("delay", &human_duration(Duration::from_millis(ms)))],
        ),
        None => record.decision.to_string(),
    };
    Span::new(words, tone(record.decision))
}

impl Page for DecisionView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let record = &self.record;
        let cause = record.cause.map_or("", redrive_policy::Cause::name);
        let found_by =
            self.found_by.as_ref().map_or_else(|| say(lang, "decision.given"), ToString::to_string);
        let mut fields = vec![
            (say(lang, "decision.decision"), headline(record, reader)),
            (
                say(lang, "decision.cause"),
                Span::new(
                    text(lang, "decision.cause-by", &[("cause", &cause), ("rule", &found_by)]),
                    Tone::Strong,
                ),
            ),
            (say(lang, "decision.policy"), Span::plain(record.policy.clone())),
            (
                say(lang, "decision.retries"),
                Span::plain(text(
                    lang,
                    "decision.retries-of",
                    &[("count", &record.current_retry_count), ("max", &record.max_retries)],
                )),
            ),
            (say(lang, "decision.why"), Span::plain(record.reasoning.clone())),
        ];
        if let Some(reason) = &record.escalate_reason {
            fields.push((say(lang, "decision.reason"), Span::plain(reason.clone())));
        }
        if let Some(hint) = &record.modification_hint {
            fields.push((say(lang, "decision.hint"), Span::plain(hint.clone())));
        }
        let mut blocks = vec![Block::Fields(fields)];
        if !self.ladder.is_empty() {
            blocks.push(Block::Gap);
            blocks.push(Block::Heading(say(lang, "decision.ladder")));
            blocks.push(Block::Table(self.ladder_table(reader)));
        }
        if self.left_out > 0 {
            let more = text(lang, "decision.left-out", &[("n", &self.left_out)]);
            blocks.push(Block::Text(vec![Span::new(more, Tone::Dim)]));
        }
        blocks
    }
}

impl DecisionView {
    fn ladder_table(&self, reader: Reader) -> Table {
        let lang = reader.lang;
        let rows = self.ladder.iter().map(|rung| {
            let here = rung.retry_count == self.record.current_retry_count;
            vec![
                Span::plain(if here { ">" } else { "" }),
                Span::plain(rung.retry_count.to_string()),
                Span::new(rung.decision.to_string(), tone(rung.decision)),
                Span::plain(rung.wait.map_or_else(|| "-".to_owned(), range_in_words)),
                Span::new(short(rung.total), Tone::Dim),
            ]
        });
        Table {
            columns: vec![
                (String::new(), Align::Left),
                (say(lang, "decision.retry-count"), Align::Right),
                (say(lang, "decision.decision"), Align::Left),
                (say(lang, "decision.wait"), Align::Right),
                (say(lang, "decision.at-most"), Align::Right),
            ],
            rows: rows.collect(),
        }
    }
}
