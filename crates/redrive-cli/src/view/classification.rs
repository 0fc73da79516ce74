//! What one failure was found to be, which rule said so and why, and what a policy would do about it.

use redrive_policy::{
    Cause, Class, Decision, DecisionRecord, ErrorCategory, Explanation, FailureType, Lang, Verdict,
};
use serde::Serialize;

use super::decision::headline;
use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::escape::beginning;
use crate::text::{say, text};

/// What is quoted of a phrase that matched.
const MATCHED_CHARS: usize = 120;

/// One classification. The first six fields are the contract that `--jsonl` writes.
#[derive(Debug, Serialize)]
pub(crate) struct ClassificationView {
    schema: &'static str,
    cause: Cause,
    retry: bool,
    failure_type: FailureType,
    error_category: ErrorCategory,
    class: Class,
    rule: String,
    verdict: Verdict,
    reason: String,
    matched: Option<String>,
    others: Vec<OtherRule>,
    decision: DecisionRecord,
}

/// A rule that spoke up and was outdone.
#[derive(Debug, Serialize)]
struct OtherRule {
    rule: String,
    cause: Cause,
    level: i32,
}

impl ClassificationView {
    pub(crate) fn new(found: &Explanation, decision: &Decision, lang: Lang) -> ClassificationView {
        let failure = &found.failure;
        let others = found.others.iter().map(|(rule, cause, level)| OtherRule {
            rule: rule.clone(),
            cause: *cause,
            level: *level,
        });
        ClassificationView {
            schema: "redrive/classification.v1",
            cause: failure.cause,
            retry: failure.is_retryable(),
            failure_type: failure.cause.failure_type(),
            error_category: failure.cause.error_category(),
            class: failure.cause.class(),
            rule: failure.rule.to_string(),
            verdict: failure.verdict,
            reason: found.reason(lang).to_owned(),
            matched: found.matched.as_deref().map(|text| beginning(text.trim(), MATCHED_CHARS)),
            others: others.collect(),
            decision: decision.record(lang),
        }
    }
}

impl Page for ClassificationView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let key = |name: &str| say(lang, &format!("classify.{name}"));
        let (retry, tone) = if self.retry { ("yes", Tone::Good) } else { ("no", Tone::Bad) };
        let mut fields = vec![
            (key("cause"), Span::new(self.cause.name(), Tone::Strong)),
            (key("retry"), Span::new(say(lang, retry), tone)),
            (key("rule"), Span::plain(self.rule.clone())),
            (key("why"), Span::plain(self.reason.clone())),
        ];
        if let Some(matched) = &self.matched {
            fields.push((key("matched"), Span::plain(matched.clone())));
        }
        if reader.verbose {
            // Most rules name the cause and leave it at that.
            if self.verdict != Verdict::Unsaid {
                fields.push((key("verdict"), Span::plain(self.verdict.name())));
            }
            fields.push(("failure_type".to_owned(), Span::plain(self.failure_type.name())));
            fields.push(("error_category".to_owned(), Span::plain(self.error_category.name())));
            fields.push(("class".to_owned(), Span::plain(self.class.name())));
        }
        let under = text(lang, "classify.under", &[("policy", &self.decision.policy)]);
        fields.push((under, headline(&self.decision, reader)));
        fields.push((key("because"), Span::new(self.decision.reasoning.clone(), Tone::Dim)));
        let mut blocks = vec![Block::Fields(fields)];
        if reader.verbose && !self.others.is_empty() {
            let rows = self.others.iter().map(|other| {
                vec![
                    Span::plain(other.rule.clone()),
                    Span::plain(other.cause.name()),
                    Span::plain(other.level.to_string()),
                ]
            });
            let columns =
                vec![(key("rule"), Align::Left), (key("cause"), Align::Left), (key("level"), Align::Right)];
            blocks.push(Block::Gap);
            blocks.push(Block::Heading(key("others")));
            blocks.push(Block::Table(Table { columns, rows: rows.collect() }));
        }
        blocks
    }
}
