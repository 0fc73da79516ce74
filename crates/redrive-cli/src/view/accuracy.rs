//! How often the classifier is right: on all entries of a corpus, and on the third that was held out.

use std::collections::BTreeMap;

use redrive_policy::{Cause, Lang};
use serde::Serialize;

use super::{Align, Block, Page, Reader, Span, Table, Tone};
use crate::escape::beginning;
use crate::text::{say, text};

/// What is quoted of a message that was missed.
const QUOTED_CHARS: usize = 120;

/// One labelled message and what was made of it; pairs are (expected, got).
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) id: String,
    pub(crate) held_out: bool,
    pub(crate) tricky: bool,
    pub(crate) cause: (Cause, Cause),
    pub(crate) retry: (bool, bool),
    pub(crate) rule: String,
    pub(crate) text: String,
}

impl Judged {
    fn is_right(&self) -> bool {
        self.cause.0 == self.cause.1 && self.retry.0 == self.retry.1
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct AccuracyView {
    schema: &'static str,
    unreadable_lines: usize,
    all: Figures,
    held_out: Figures,
    confusion: Vec<Confusion>,
    misses: Vec<Miss>,
}

/// The figures of one set of entries.
#[derive(Debug, Serialize)]
struct Figures {
    entries: usize,
    retry_right: usize,
    retry_right_percent: f64,
    cause_right: usize,
    cause_right_percent: f64,
    /// Of the failures that must not be retried, those that are.
    must_not_retry: usize,
    wrongly_retried: usize,
    wrongly_retried_percent: f64,
    tricky: usize,
    tricky_retry_right: usize,
    causes: Vec<CauseFigures>,
}

#[derive(Debug, Serialize)]
struct CauseFigures {
    cause: Cause,
    entries: usize,
    right: usize,
    /// How often the answer was this cause.
    answered: usize,
    precision_percent: f64,
    recall_percent: f64,
}

/// One cause taken for another, and how often.
#[derive(Debug, Serialize)]
struct Confusion {
    expected: Cause,
    got: Cause,
    count: usize,
}

/// An entry that was answered wrongly.
#[derive(Debug, Serialize)]
struct Miss {
    id: String,
    expected_cause: Cause,
    got_cause: Cause,
    expected_retry: bool,
    got_retry: bool,
    rule: String,
    held_out: bool,
    text: String,
}

impl AccuracyView {
    pub(crate) fn new(judged: Vec<Judged>, unreadable_lines: usize) -> AccuracyView {
        AccuracyView {
            schema: "redrive/accuracy.v1",
            unreadable_lines,
            all: figures(&judged.iter().collect::<Vec<_>>()),
            held_out: figures(&judged.iter().filter(|entry| entry.held_out).collect::<Vec<_>>()),
            confusion: confusion(&judged),
            misses: judged.into_iter().filter(|entry| !entry.is_right()).map(miss).collect(),
        }
    }
}

/// Every wrong cause, the most frequent mistake first.
fn confusion(judged: &[Judged]) -> Vec<Confusion> {
    let mut counts: BTreeMap<(Cause, Cause), usize> = BTreeMap::new();
    for (expected, got) in judged.iter().map(|entry| entry.cause).filter(|(expected, got)| expected != got) {
        *counts.entry((expected, got)).or_default() += 1;
    }
    let mut confusion: Vec<Confusion> =
        counts.into_iter().map(|((expected, got), count)| Confusion { expected, got, count }).collect();
    confusion.sort_by_key(|mistake| std::cmp::Reverse(mistake.count));
    confusion
}

fn miss(entry: Judged) -> Miss {
    Miss {
        id: entry.id,
        expected_cause: entry.cause.0,
        got_cause: entry.cause.1,
        expected_retry: entry.retry.0,
        got_retry: entry.retry.1,
        rule: entry.rule,
        held_out: entry.held_out,
        text: beginning(&entry.text, QUOTED_CHARS),
    }
}

fn figures(entries: &[&Judged]) -> Figures {
    let count = |wanted: &dyn Fn(&Judged) -> bool| entries.iter().filter(|entry| wanted(entry)).count();
    let total = entries.len();
    let retry_right = count(&|entry| entry.retry.0 == entry.retry.1);
    let cause_right = count(&|entry| entry.cause.0 == entry.cause.1);
    let must_not_retry = count(&|entry| !entry.retry.0);
    let wrongly_retried = count(&|entry| !entry.retry.0 && entry.retry.1);
    let causes = Cause::ALL.iter().filter_map(|cause| {
        let entries = count(&|entry| entry.cause.0 == *cause);
        let answered = count(&|entry| entry.cause.1 == *cause);
        let right = count(&|entry| entry.cause == (*cause, *cause));
        (entries + answered > 0).then(|| CauseFigures {
            cause: *cause,
            entries,
            right,
            answered,
            precision_percent: percent(right, answered),
            recall_percent: percent(right, entries),
        })
    });
    Figures {
        entries: total,
        retry_right,
        retry_right_percent: percent(retry_right, total),
        cause_right,
        cause_right_percent: percent(cause_right, total),
        must_not_retry,
        wrongly_retried,
        wrongly_retried_percent: percent(wrongly_retried, must_not_retry),
        tricky: count(&|entry| entry.tricky),
        tricky_retry_right: count(&|entry| entry.tricky && entry.retry.0 == entry.retry.1),
        causes: causes.collect(),
    }
}

/// A share in per cent to two places; of nothing, nothing.
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    // A corpus has far fewer entries than a float has digits.
    #[allow(clippy::cast_precision_loss)]
    let share = part as f64 * 100.0 / whole as f64;
    (share * 100.0).round() / 100.0
}

impl Page for AccuracyView {
    fn blocks(&self, reader: Reader) -> Vec<Block> {
        let lang = reader.lang;
        let mut blocks = vec![
            Block::Table(self.summary(lang)),
            Block::Gap,
            Block::Heading(say(lang, "corpus.by-cause")),
            Block::Table(self.by_cause(lang)),
        ];
        if !self.confusion.is_empty() {
            blocks.push(Block::Gap);
            blocks.push(Block::Heading(say(lang, "corpus.confusion")));
            blocks.push(Block::Table(self.confusion_table(lang)));
        }
        if reader.verbose && !self.misses.is_empty() {
            blocks.push(Block::Gap);
            blocks.push(Block::Heading(text(lang, "corpus.misses", &[("n", &self.misses.len())])));
            blocks.extend(self.misses.iter().flat_map(|miss| miss.blocks(lang)));
        }
        blocks
    }
}

impl AccuracyView {
    /// Each figure beside the one on the held-out third.
    fn summary(&self, lang: Lang) -> Table {
        let share = |part: usize, whole: usize, percent: f64, good: bool| {
            let tone = if good { Tone::Good } else { Tone::Warn };
            Span::new(format!("{percent:.1} % ({part}/{whole})"), tone)
        };
        let both = |cell: &dyn Fn(&Figures) -> Span| [cell(&self.all), cell(&self.held_out)];
        let row = |key: &str, [all, held_out]: [Span; 2]| {
            vec![Span::plain(say(lang, &format!("corpus.{key}"))), all, held_out]
        };
        Table {
            columns: vec![
                (String::new(), Align::Left),
                (say(lang, "corpus.all"), Align::Right),
                (say(lang, "corpus.held-out"), Align::Right),
            ],
            rows: vec![
                row("entries", both(&|f| Span::plain(f.entries.to_string()))),
                row(
                    "retry-right",
                    both(&|f| {
                        share(f.retry_right, f.entries, f.retry_right_percent, f.retry_right_percent >= 97.0)
                    }),
                ),
                row(
                    "cause-right",
                    both(&|f| {
                        share(f.cause_right, f.entries, f.cause_right_percent, f.cause_right_percent >= 92.0)
                    }),
                ),
                row(
                    "wrongly-retried",
                    both(&|f| {
                        let good = f.wrongly_retried_percent <= 2.0;
                        share(f.wrongly_retried, f.must_not_retry, f.wrongly_retried_percent, good)
                    }),
                ),
                row(
                    "tricky",
                    both(&|f| {
                        let percent = percent(f.tricky_retry_right, f.tricky);
                        share(f.tricky_retry_right, f.tricky, percent, percent >= 97.0)
                    }),
                ),
            ],
        }
    }

    fn by_cause(&self, lang: Lang) -> Table {
        let rows = self.all.causes.iter().map(|cause| {
            vec![
                Span::plain(cause.cause.name()),
                Span::plain(cause.entries.to_string()),
                Span::plain(cause.right.to_string()),
                Span::plain(format!("{:.1} %", cause.precision_percent)),
                Span::plain(format!("{:.1} %", cause.recall_percent)),
            ]
        });
        let columns =
            ["right", "precision", "recall"].map(|key| (say(lang, &format!("corpus.{key}")), Align::Right));
        let mut all = vec![(say(lang, "corpus.cause"), Align::Left), ("n".to_owned(), Align::Right)];
        all.extend(columns);
        Table { columns: all, rows: rows.collect() }
    }

    fn confusion_table(&self, lang: Lang) -> Table {
        let rows = self.confusion.iter().map(|mistake| {
            vec![
                Span::plain(mistake.expected.name()),
                Span::new(mistake.got.name(), Tone::Bad),
                Span::plain(mistake.count.to_string()),
            ]
        });
        Table {
            columns: vec![
                (say(lang, "corpus.expected"), Align::Left),
                (say(lang, "corpus.got"), Align::Left),
                ("n".to_owned(), Align::Right),
            ],
            rows: rows.collect(),
        }
    }
}

impl Miss {
    /// What was expected and what was answered, and the message under it.
    fn blocks(&self, lang: Lang) -> [Block; 2] {
        let answer = |cause: Cause, retry: bool| {
            format!("{cause} {}", say(lang, if retry { "corpus.retry" } else { "corpus.no-retry" }))
        };
        let got = text(
            lang,
            "corpus.miss",
            &[
                ("expected", &answer(self.expected_cause, self.expected_retry)),
                ("got", &answer(self.got_cause, self.got_retry)),
                ("rule", &self.rule),
            ],
        );
        [
            Block::Text(vec![Span::new(format!("{}  ", self.id), Tone::Strong), Span::plain(got)]),
            Block::Text(vec![Span::new(format!("    {}", self.text), Tone::Dim)]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_count_what_they_say() {
        let entry = |expected, got, retry| Judged {
            id: String::new(),
            held_out: false,
            tricky: false,
            cause: (expected, got),
            retry,
            rule: String::new(),
            text: String::new(),
        };
        let entries = [
            entry(Cause::Network, Cause::Network, (true, true)),
            entry(Cause::AuthError, Cause::Network, (false, true)),
            entry(Cause::AuthError, Cause::AuthError, (false, false)),
        ];
        let figures = figures(&entries.iter().collect::<Vec<_>>());
        assert_eq!((figures.retry_right, figures.cause_right), (2, 2));
        assert_eq!((figures.wrongly_retried, figures.must_not_retry), (1, 2));
        assert!((figures.wrongly_retried_percent - 50.0).abs() < f64::EPSILON);
        let network = &figures.causes[0];
        assert_eq!((network.entries, network.answered, network.right), (1, 2, 1));
    }
}
