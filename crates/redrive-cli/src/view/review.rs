//! What a review found in each file: the criterion, the line, and what stands there.

use redrive_policy::review::{Criterion, Finding, Judgment, What};
use redrive_policy::{Cause, Failure, FailureType, Hint, Lang};
use serde::Serialize;

use super::{Block, Page, Reader, Span, Tone};
use crate::text::{say, text};

#[derive(Debug, Serialize)]
pub(crate) struct ReviewView {
    schema: &'static str,
    passed: bool,
    items: Vec<ReviewItem>,
}

/// One file, or the commands.
#[derive(Debug, Serialize)]
pub(crate) struct ReviewItem {
    /// Nothing for what commands say about all files.
    file: Option<String>,
    pub(crate) passed: bool,
    cause: Option<Cause>,
    failure_type: Option<FailureType>,
    findings: Vec<FindingView>,
    /// How many more there are.
    more: usize,
    /// What the next attempt would be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    criterion: Criterion,
    what: What,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    line: Option<u32>,
    excerpt: String,
    message: String,
    #[serde(skip)]
    mark: Option<(usize, usize)>,
}

impl ReviewView {
    pub(crate) fn new(mut items: Vec<ReviewItem>, with_hints: bool) -> ReviewView {
        if !with_hints {
            for item in &mut items {
                item.hint = None;
            }
        }
        ReviewView { schema: "redrive/review.v1", passed: items.iter().all(|item| item.passed), items }
    }
}

impl ReviewItem {
    pub(crate) fn new(file: String, judgment: Judgment, lang: Lang) -> ReviewItem {
        ReviewItem { file: Some(file), ..ReviewItem::of_checks(judgment, lang) }
    }

    /// What commands say, which is about no file in particular.
    pub(crate) fn of_checks(judgment: Judgment, lang: Lang) -> ReviewItem {
        let cause = judgment.cause();
        let hint = cause.and_then(|cause| {
            let failure = Failure { details: Some(judgment.details(lang).into()), ..Failure::of(cause) };
            Hint::for_failure(&failure, None).map(|hint| hint.render(lang))
        });
        ReviewItem {
            file: None,
            passed: judgment.passed(),
            cause,
            failure_type: cause.map(Cause::failure_type),
            more: judgment.more,
            findings: judgment.findings.into_iter().map(|finding| FindingView::new(finding, lang)).collect(),
            hint,
        }
    }
}

impl FindingView {
    fn new(finding: Finding, lang: Lang) -> FindingView {
        FindingView {
            message: finding.message(lang),
            criterion: finding.criterion,
            what: finding.what,
            file: finding.file,
            line: finding.line,
            excerpt: finding.excerpt,
            mark: finding.mark,
        }
    }

    fn blocks(&self, lang: Lang) -> Vec<Block> {
        let line = self.line.map(|line| text(lang, "review.line", &[("line", &line)])).unwrap_or_default();
        let file = self.file.as_deref().filter(|_| self.line.is_some()).unwrap_or_default();
        let place: Vec<&str> = [file, &line].into_iter().filter(|part| !part.is_empty()).collect();
        let mut head = vec![
            Span::new(format!("  {}  ", self.criterion), Tone::Strong),
            Span::plain(self.message.clone()),
        ];
        if !place.is_empty() {
            head.push(Span::new(format!("  {}", place.join(" ")), Tone::Dim));
        }
        let mut blocks = vec![Block::Text(head)];
        if !self.excerpt.is_empty() {
            blocks.push(Block::Text(self.marked()));
        }
        blocks
    }

    /// The excerpt with the place that it is about between marks, so that it is seen without colour too.
    fn marked(&self) -> Vec<Span> {
        let (from, to) = self.mark.filter(|(from, to)| from < to).unwrap_or((0, 0));
        let part =
            |from: usize, to: usize| self.excerpt.chars().skip(from).take(to - from).collect::<String>();
        let length = self.excerpt.chars().count();
        if to == 0 || (from, to) == (0, length) {
            return vec![Span::new(format!("      {}", self.excerpt), Tone::Warn)];
        }
        vec![
            Span::plain(format!("      {}", part(0, from))),
            Span::new(format!("›{}‹", part(from, to)), Tone::Warn),
            Span::plain(part(to, length)),
        ]
    }
}

impl Page for ReviewView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks = Vec::new();
        for item in &self.items {
            let name = item.file.clone().unwrap_or_else(|| say(lang, "review.checks"));
            let name = if name == "-" { say(lang, "review.stdin") } else { name };
            let (verdict, tone) = match item.failure_type {
                None => (say(lang, "review.passed"), Tone::Good),
                Some(kind) => (text(lang, "review.rejected", &[("kind", &kind)]), Tone::Bad),
            };
            blocks.push(Block::Text(vec![
                Span::new(name, Tone::Strong),
                Span::plain(": "),
                Span::new(verdict, tone),
            ]));
            blocks.extend(item.findings.iter().flat_map(|finding| finding.blocks(lang)));
            if item.more > 0 {
                let more = text(lang, "review.more", &[("n", &item.more)]);
                blocks.push(Block::Text(vec![Span::new(format!("  {more}"), Tone::Dim)]));
            }
        }
        blocks
    }
}
