//! From a report to a failure (R-P3): the handler's own word, then the user's rules, then ours.
//!
//! Every piece of evidence — a code, a status, an exit code, a phrase — is a candidate with a level; the
//! highest wins, and of equals the later one, because the root of a trace stands last. Typed signals have
//! higher levels than phrases, except where a phrase is known to be the truth behind a vague status.

pub(crate) mod rules;
mod signal;
mod text;
mod user_rule;

use std::cell::RefCell;
use std::sync::LazyLock;

pub use rules::RuleSpec;
pub use user_rule::{RuleError, UserRule};

use crate::cause::Cause;
use crate::failure::{Code, Failure, Report, RuleId, Verdict, Words};
use crate::lang::Lang;
use rules::RuleBook;
use text::Normal;

/// Text longer than this is looked at from both ends only.
pub const TEXT_BOUND: usize = 16 * 1024;

/// The exit code that stands for a time limit.
const TIMED_OUT: i32 = 124;

/// How much less a hit counts when a later cause stands behind it.
const BEFORE_LAST_CAUSE: i32 = 25;
/// How much more the words of a machine-readable code count than the same words in prose.
const IN_CODE: i32 = 10;
/// How much less words count inside the name of an exception than in its message.
const IN_NAME: i32 = 8;
/// How much less a status counts that was read out of the text.
const STATUS_IN_TEXT: i32 = 8;

static BUILT_IN: LazyLock<Classifier> = LazyLock::new(|| Classifier { user: Vec::new() });

/// The built-in rules, read and compiled once. They are part of the program and a test loads them; were they broken
/// all the same, an empty book would call every failure unknown without a word, so it says so instead.
static BOOK: LazyLock<RuleBook> = LazyLock::new(|| {
    RuleBook::built_in().unwrap_or_else(|error| panic!("the built-in rules do not load: {error}"))
});

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// Buffers that are kept between calls, so that classifying allocates nothing once they have grown.
#[derive(Default)]
struct Scratch {
    normal: Normal,
    hits: rules::Hits,
}

/// Recognises failures.
///
/// ```
/// use redrive_policy::{Cause, Classifier, Report};
///
/// let failure = Classifier::built_in().classify(&Report::text("dial tcp 10.0.0.5:5000: connection refused"));
/// assert_eq!(failure.cause, Cause::Network);
/// assert_eq!(failure.rule.as_str(), "network.refused");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    user: Vec<UserRule>,
}

/// What one report was found to be, and what led there.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The failure.
    pub failure: Failure,
    /// The reason that the rule gives, in both languages.
    pub reason: (String, String),
    /// What the rule recognised: a status, a code or a phrase.
    pub matched: Option<String>,
    /// The other rules that spoke up, best first, with their levels.
    pub others: Vec<(String, Cause, i32)>,
}

impl Explanation {
    /// The reason in one language.
    pub fn reason(&self, lang: Lang) -> &str {
        match lang {
            Lang::En => &self.reason.0,
            Lang::Ja => &self.reason.1,
        }
    }
}

/// Where a candidate comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Source {
    Status(u16),
    ExitCode(i32),
    Signal(i32),
    Code,
    Text { start: usize, end: usize },
}

/// One rule's claim to be the right one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    rule: usize,
    level: i32,
    /// Where in the text it stands; typed signals stand before all text.
    at: usize,
    source: Source,
}

impl Classifier {
    /// The classifier with the built-in rules only.
    pub fn built_in() -> &'static Classifier {
        &BUILT_IN
    }

    /// A classifier that asks these rules before the built-in ones, in their order.
    pub fn with_user_rules(user: Vec<UserRule>) -> Classifier {
        Classifier { user }
    }

    /// Every built-in rule, for listing and documentation.
    pub fn built_in_rules() -> &'static [RuleSpec] {
        BOOK.specs()
    }

    /// Recognises a failure.
    pub fn classify(&self, report: &Report<'_>) -> Failure {
        if let Some((cause, verdict)) = report.said {
            return found(report, cause, verdict, RuleId::built_in("said"));
        }
        if !self.user.is_empty()
            && let Some(rule) = self.user_rule(report)
        {
            return found(report, rule.cause, rule.verdict, rule.id.clone());
        }
        let typed = typed_candidate(report);
        if let Some(candidate) = typed
            && (candidate.level >= rules::DECISIVE || matches!(report.words, Words::None))
        {
            return by_book(report, candidate.rule);
        }
        // Rendered before the buffers are taken: an error's own words may come from code that classifies.
        let words = report.words.render();
        let best = SCRATCH.with_borrow_mut(|scratch| read_text(report, &words, typed, scratch));
        match best {
            Some(candidate) => by_book(report, candidate.rule),
            None => found(report, Cause::Unknown, Verdict::Unsaid, RuleId::built_in("unknown")),
        }
    }

    /// Recognises a failure and tells how.
    pub fn explain(&self, report: &Report<'_>) -> Explanation {
        let failure = self.classify(report);
        let plain = |en: &str, ja: &str| (en.to_owned(), ja.to_owned());
        if failure.rule.as_str() == "said" && report.said.is_some() {
            let reason = plain("the handler itself said so", "処理自身がそう申告しました");
            return Explanation { failure, reason, matched: None, others: Vec::new() };
        }
        if let Some(rule) = self.user.iter().find(|rule| rule.id == failure.rule) {
            let reason = plain(&rule.reason, &rule.reason);
            return Explanation { failure, reason, matched: None, others: Vec::new() };
        }
        let words = report.words.render();
        SCRATCH.with_borrow_mut(|scratch| {
            let typed = typed_candidate(report);
            read_text(report, &words, typed, scratch);
            let mut all: Vec<Candidate> = scratch.hits.standing().copied().chain(typed).collect();
            all.sort_by_key(|candidate| std::cmp::Reverse((candidate.level, candidate.at)));
            let winner =
                all.iter().find(|candidate| BOOK.specs()[candidate.rule].id == failure.rule.as_str());
            let matched = winner.map(|candidate| match candidate.source {
                Source::Status(status) => format!("HTTP {status}"),
                Source::ExitCode(code) => format!("exit code {code}"),
                Source::Signal(signal) => format!("signal {signal}"),
                Source::Code => report.code.as_deref().unwrap_or_default().to_owned(),
                Source::Text { start, end } => scratch.normal.slice(start, end),
            });
            let reason = winner.map_or_else(
                || plain("nothing in it is known", "判断の手がかりがありません"),
                |candidate| BOOK.specs()[candidate.rule].reason.clone(),
            );
            let mut others: Vec<(String, Cause, i32)> = Vec::new();
            for candidate in &all {
                let spec = &BOOK.specs()[candidate.rule];
                if spec.id != failure.rule.as_str() && !others.iter().any(|(id, ..)| *id == spec.id) {
                    others.push((spec.id.clone(), spec.cause, candidate.level));
                }
            }
            Explanation { failure: failure.clone(), reason, matched, others }
        })
    }

    fn user_rule(&self, report: &Report<'_>) -> Option<&UserRule> {
        let words = report.words.render();
        let plain = text::without_ansi(&words);
        self.user.iter().find(|rule| rule.matches(report, &plain))
    }
}

/// The failure that a report turned out to be.
fn found(report: &Report<'_>, cause: Cause, verdict: Verdict, rule: RuleId) -> Failure {
    Failure {
        cause,
        verdict,
        rule,
        http_status: report.http_status,
        code: report.code.as_deref().and_then(Code::new),
        retry_after: report.retry_after,
        worker_died: false,
        details: report.details.clone(),
    }
}

/// The failure that a built-in rule stands for, with what only the whole report can tell.
fn by_book(report: &Report<'_>, rule: usize) -> Failure {
    let rule = BOOK.rule(rule);
    // A conflict with a Retry-After is one that passes: somebody else was faster (R-P12).
    if report.http_status == Some(409) && report.retry_after.is_some() && rule.cause == Cause::Integrity {
        return found(
            report,
            Cause::Contention,
            Verdict::Unsaid,
            RuleId::built_in("http.conflict-with-retry-after"),
        );
    }
    found(report, rule.cause, rule.verdict, rule.id.clone())
}

/// The best of the typed signals: code, status, signal, exit code.
fn typed_candidate(report: &Report<'_>) -> Option<Candidate> {
    let claim = |(rule, level): (usize, i32), source| Candidate { rule, level, at: 0, source };
    let code = report.code.as_deref().and_then(|code| BOOK.code(code)).map(|hit| claim(hit, Source::Code));
    let status =
        report.http_status.and_then(|status| Some(claim(BOOK.status(status)?, Source::Status(status))));
    let signal = report
        .signal
        .filter(|_| !report.killed_by_us)
        .and_then(|signal| Some(claim(BOOK.signal(signal)?, Source::Signal(signal))));
    let exit_code = report.exit_code.and_then(|code| {
        let (rule, level) = BOOK.exit_code(code)?;
        let level = match report.killed_by_us {
            false => level,
            // Who ended it for its time knows that for certain; any other code only echoes the blow.
            true if code == TIMED_OUT => rules::DECISIVE,
            true => return None,
        };
        Some(claim((rule, level), Source::ExitCode(code)))
    });
    [code, status, signal, exit_code].into_iter().flatten().max_by_key(|candidate| candidate.level)
}

/// Reads code and words, and gives the best candidate of all.
fn read_text(
    report: &Report<'_>,
    words: &str,
    typed: Option<Candidate>,
    scratch: &mut Scratch,
) -> Option<Candidate> {
    let Scratch { normal, hits } = scratch;
    normal.read(report.code.as_deref().unwrap_or_default(), text::both_ends(words), BOOK.vocabulary());
    hits.clear();
    BOOK.find_phrases(normal, hits);
    signal::statuses_in_text(normal, report, &BOOK, hits);
    signal::mail_replies(normal, report, &BOOK, hits);
    signal::numbered_errors(normal, report, &BOOK, hits);
    hits.standing()
        .filter(|candidate| may_speak(report.http_status, candidate))
        .copied()
        .chain(typed)
        .max_by_key(|candidate| (candidate.level, candidate.at))
}

/// Whether words may turn a status into this. A status that says "do not send this again" (R-P12) is not
/// talked into a retry, except for what such statuses are known to hide: a throttle behind 400, 401 or 403, a
/// lost race behind 409 and 412, and the same cause with a verdict of its own.
fn may_speak(status: Option<u16>, candidate: &Candidate) -> bool {
    let Some(status @ (400..=407 | 409..=422 | 424..=428 | 430..=499)) = status else { return true };
    let rule = BOOK.rule(candidate.rule);
    let would_retry = Failure { verdict: rule.verdict, ..Failure::of(rule.cause) }.is_retryable();
    let same_cause = BOOK.status(status).is_some_and(|(own, _)| BOOK.rule(own).cause == rule.cause);
    let hidden = match rule.cause {
        Cause::RateLimit => matches!(status, 400 | 401 | 403),
        Cause::Contention => matches!(status, 409 | 412),
        _ => false,
    };
    !would_retry || same_cause || hidden
}

#[cfg(test)]
mod tests;
