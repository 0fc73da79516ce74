//! Review of output (R-T4, R-T5): is it whole, is it finished, does it claim only what is there?
//!
//! Pure: what was found on disk and what commands said comes in as [`Material`]. A [`Reviewer`] reads the output once, line
//! by line, and its [`Judgment`] names each finding with its line and an excerpt, says which failure it is, and how the
//! next attempt is to be told. Where it is in doubt it passes: a false alarm rejects good work.

mod claims;
mod document;
mod done;
mod ending;
mod finding;
mod judgment;
mod language;
mod lexer;
mod marks;
mod material;
mod omission;
mod patterns;
mod remark;
mod scan;
mod stub;
mod talk;
#[cfg(test)]
mod tests;

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, named_enum};
use document::{read_document, read_file};
use language::Language;
use scan::{Of, Scan};

pub use claims::{Claim, MAX_CLAIMS};
pub use finding::{EXCERPT_CHARS, Finding, What};
pub use judgment::{Judgment, TOLD};
pub use material::{CheckRun, FileSeen, FileState, Material};

named_enum! {
    /// A criterion of a review.
    Criterion {
        /// Files that are claimed or expected exist.
        Q1 = "Q1",
        /// Nothing is left to be done: TODO, FIXME, TBD, HACK, XXX.
        Q2 = "Q2",
        /// Nothing is left out.
        Q3 = "Q3",
        /// Nothing is broken off or unbalanced.
        Q4 = "Q4",
        /// There is something to show for it.
        Q5 = "Q5",
        /// It is not called done before there is.
        Q6 = "Q6",
        /// The tests pass.
        Q7 = "Q7",
        /// The linter is content.
        Q8 = "Q8",
        /// The types check.
        Q9 = "Q9",
    }
}

impl Criterion {
    /// The criteria that a review judges by itself, without a command.
    pub const OF_OUTPUT: &'static [&'static str] = &["Q1", "Q2", "Q3", "Q4", "Q5", "Q6"];
}

/// What an output has to be like, as a plan or the command line says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ReviewPlan {
    /// Which of Q1 to Q6 are asked; empty: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// Files that must exist afterwards, from where the work runs. They are reviewed like output.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// A whole file was asked for: a fragment is not enough.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole_file: bool,
    /// More markers of something left out, as regular expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub omission_patterns: Vec<String>,
    /// More ways to say that it is done, as regular expressions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub early_termination_patterns: Vec<String>,
    /// More words that mark what is left to do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub todo_words: Vec<String>,
    /// What is no finding although it looks like one, as regular expressions over the line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Q7: a command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test: Option<Vec<String>>,
    /// Q8: a command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lint: Option<Vec<String>>,
    /// Q9: a command that must succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
}

impl fmt::Display for ReviewPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<&str> = self.criteria.iter().copied().map(Criterion::name).collect();
        f.write_str(&if named.is_empty() { "Q1–Q6".to_owned() } else { named.join(", ") })
    }
}

/// A pattern that cannot be used.
#[derive(Debug, Clone, PartialEq)]
pub struct ReviewError {
    /// The field of the plan.
    pub field: &'static str,
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub source: regex::Error,
}

impl fmt::Display for ReviewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} is not a regular expression", self.field, self.pattern)
    }
}

impl std::error::Error for ReviewError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl ReviewPlan {
    /// A reviewer for this plan, with every pattern compiled.
    ///
    /// ```
    /// use redrive_policy::Cause;
    /// use redrive_policy::review::{Material, ReviewPlan};
    ///
    /// let reviewer = ReviewPlan::default().reviewer().unwrap();
    /// let judgment = reviewer.review(&Material::of_output(b"fn main() {\n    // ...\n}\n"));
    /// assert_eq!(judgment.cause(), Some(Cause::Incomplete));
    /// assert_eq!(judgment.findings[0].line, Some(2));
    /// ```
    pub fn reviewer(&self) -> Result<Reviewer, ReviewError> {
        let words: Vec<String> = self.todo_words.iter().map(|word| whole_word(word)).collect();
        let words = match words.join("|") {
            none if none.is_empty() => None,
            any => Some(compiled("todo_words", &format!("(?i)(?:{any})"))?),
        };
        let all = |field, patterns: &[String]| {
            patterns
                .iter()
                .map(|pattern| compiled(field, pattern))
                .collect::<Result<Vec<Regex>, ReviewError>>()
        };
        Ok(Reviewer {
            omission: all("omission_patterns", &self.omission_patterns)?,
            done: all("early_termination_patterns", &self.early_termination_patterns)?,
            allow: all("allow", &self.allow)?,
            words,
            plan: self.clone(),
        })
    }
}

/// A word as a pattern: it ends where its letters end, also between letters of another script.
fn whole_word(word: &str) -> String {
    let edge = |c: Option<char>| {
        if c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') { r"(?-u:\b)" } else { "" }
    };
    format!("{}{}{}", edge(word.chars().next()), regex::escape(word), edge(word.chars().next_back()))
}

fn compiled(field: &'static str, pattern: &str) -> Result<Regex, ReviewError> {
    Regex::new(pattern).map_err(|source| ReviewError { field, pattern: pattern.to_owned(), source })
}

/// Judges output under a plan.
#[derive(Debug, Clone)]
pub struct Reviewer {
    plan: ReviewPlan,
    omission: Vec<Regex>,
    done: Vec<Regex>,
    allow: Vec<Regex>,
    words: Option<Regex>,
}

impl Reviewer {
    fn asks(&self, criterion: Criterion) -> bool {
        self.plan.criteria.is_empty() || self.plan.criteria.contains(&criterion)
    }

    fn allows(&self, line: &str) -> bool {
        self.allow.iter().any(|pattern| pattern.is_match(line))
    }

    /// The files that an output claims to have made or changed: who looks them up tells the review in [`Material::files`].
    pub fn claims(&self, material: &Material<'_>) -> Vec<Claim> {
        let is_code = material.name.and_then(Language::of_file).is_some();
        if is_code || ![Criterion::Q1, Criterion::Q5, Criterion::Q6].iter().any(|asked| self.asks(*asked)) {
            return Vec::new();
        }
        if self.is_no_text(material) {
            return Vec::new();
        }
        let text = material::readable(material.output);
        let mut scan = Scan::new(self, Of::Output, None, false, true);
        read_document(&text, &mut scan);
        let allowed: Vec<u32> = document::numbered(&text)
            .filter(|(_, line)| !self.allow.is_empty() && self.allows(line))
            .map(|(number, _)| number)
            .collect();
        scan.claims.found.retain(|claim| allowed.binary_search(&claim.line).is_err());
        scan.claims.found
    }

    /// Whether the words of an output are not judged, because it has none: a mark in noise is an accident. Where Q4 is not
    /// asked, a text with a stray byte is still read, so that it does not pass unseen.
    fn is_no_text(&self, material: &Material<'_>) -> bool {
        let is_broken = material::encoding(material.output, true).is_some();
        is_broken && (self.asks(Criterion::Q4) || material.output.contains(&0))
    }

    /// Judges what was produced.
    pub fn review(&self, material: &Material<'_>) -> Judgment {
        let mut found = Found::default();
        let is_no_text = self.is_no_text(material);
        let text = if is_no_text { "".into() } else { material::readable(material.output) };
        let is_empty = !is_no_text && text.trim().is_empty();
        let cut_by_us = material.total_bytes > material.output.len() as u64;
        if is_empty && !material.files.iter().any(FileSeen::is_delivered) {
            found.findings.push(Finding::new(Criterion::Q4, What::Empty));
        }
        if self.asks(Criterion::Q4) {
            if cut_by_us {
                found.findings.push(Finding::new(Criterion::Q4, What::TooLong));
            }
            found.findings.extend(material::encoding(material.output, cut_by_us));
        }
        let expects_files = material.files.iter().any(|file| file.expected);
        let shown =
            self.read_output(&text, material, !cut_by_us, self.plan.whole_file && !expects_files, &mut found);
        self.read_files(material, &mut found);
        if is_no_text {
            // Noise says neither that it is done nor that it is not; files are still owed.
            let shown = done::Shown::of_noise();
            self.weigh_evidence(&text, material, &shown, &mut found);
        } else if !is_empty {
            self.weigh_evidence(&text, material, &shown, &mut found);
        }
        for run in material.checks.iter().filter(|run| !run.ok) {
            found.findings.push(run.finding());
        }
        found.findings.sort_by_key(|finding| {
            (finding.what != What::NotText, finding.criterion, finding.file.is_some())
        });
        let claimed = material.files.iter().filter(|file| !file.expected).count();
        Judgment { outside: found.outside, ..Judgment::of(found.findings, found.more, claimed, &text) }
    }

    fn read_output(
        &self,
        text: &str,
        material: &Material<'_>,
        end_is_there: bool,
        whole_file: bool,
        found: &mut Found,
    ) -> done::Shown {
        let language = material.name.and_then(Language::of_file);
        let of = if language.is_some() { Of::File } else { Of::Output };
        let mut scan = Scan::new(self, of, None, whole_file, end_is_there);
        match language {
            Some(language) => read_file(text, language, &mut scan),
            None => read_document(text, &mut scan),
        }
        scan.end_parts();
        if self.asks(Criterion::Q4) && end_is_there && scan.has_no(What::OpenFence) {
            let end = match language {
                Some(language) => ending::code(text, language),
                None if scan.ends_in_prose => ending::prose(text),
                None => None,
            };
            if let Some((number, from, to)) = end.filter(|_| scan.has_no(What::OpenAtEnd)) {
                scan.add_at(Criterion::Q4, What::Dangling, number, Some((from, to)));
            } else if language.is_none()
                && !scan.has_fences
                && let Some(line) = ending::bare_code(text)
            {
                scan.add_at(Criterion::Q4, What::OpenAtEnd, line, None);
            }
        }
        found.take(&mut scan, text, |line| self.allows(line));
        scan.shown
    }

    /// Q1, and what is in the files that were expected or made.
    fn read_files(&self, material: &Material<'_>, found: &mut Found) {
        for file in material.files {
            let about =
                |criterion, what| Finding { file: Some(file.path.clone()), ..Finding::new(criterion, what) };
            let missing = match file.state {
                FileState::Exists => None,
                FileState::Missing => Some(What::MissingFile),
                FileState::Outside => Some(What::OutsideFile),
            };
            if let Some(what) = missing {
                if self.asks(Criterion::Q1) {
                    found.findings.push(about(Criterion::Q1, what));
                }
                continue;
            }
            let Some(content) = file.content.as_deref().filter(|_| file.expected || file.created) else {
                continue;
            };
            if content.contains(&0) {
                continue;
            }
            let text = material::readable(content);
            let is_whole = file.total_bytes <= content.len() as u64;
            if text.trim().is_empty() && file.expected && !file.may_be_empty() && self.asks(Criterion::Q5) {
                found.findings.push(about(Criterion::Q5, What::EmptyFile));
                continue;
            }
            let whole_file = self.plan.whole_file && file.expected;
            let mut scan = Scan::new(self, Of::File, Some(&file.path), whole_file, is_whole);
            match Language::of_file(&file.path) {
                Some(language) => read_file(&text, language, &mut scan),
                None => read_document(&text, &mut scan),
            }
            if let Some(language) = Language::of_file(&file.path)
                && self.asks(Criterion::Q4)
                && is_whole
                && scan.has_no(What::OpenAtEnd)
                && let Some((number, from, to)) = ending::code(&text, language)
            {
                scan.add_at(Criterion::Q4, What::Dangling, number, Some((from, to)));
            }
            found.take(&mut scan, &text, |line| self.allows(line));
        }
    }

    /// Q5 and Q6.
    fn weigh_evidence(&self, text: &str, material: &Material<'_>, shown: &done::Shown, found: &mut Found) {
        if material.name.and_then(Language::of_file).is_some() {
            return;
        }
        let is_delivered = material.files.iter().any(FileSeen::is_delivered);
        if self.asks(Criterion::Q5)
            && !is_delivered
            && let Some((number, line, cause)) = talk::error_of_a_tool(text)
            && !self.allows(line)
        {
            found.outside = cause;
            found.findings.push(Finding::new(Criterion::Q5, What::ToolError).at(number, line, 0, line.len()));
            return;
        }
        let files_show = material.files.iter().any(|file| file.state == FileState::Exists)
            || material.changed_files.is_some_and(|changed| changed > 0);
        if files_show {
            return;
        }
        // What is only a mark of something missing is judged as that.
        let says_nothing =
            !shown.says_more && !found.findings.iter().any(|finding| finding.what.is_incomplete());
        if self.asks(Criterion::Q5) && (!material.files.is_empty() || says_nothing) {
            let talk = shown.talk.line.filter(|_| says_nothing);
            let line = talk.and_then(|number| Some((number, text.lines().nth(number as usize - 1)?)));
            let finding = Finding::new(Criterion::Q5, What::NoEvidence);
            found.findings.push(match line {
                Some((_, line)) if self.allows(line) => return,
                Some((number, line)) => finding.at(number, line, 0, line.len()),
                None => finding,
            });
        }
        let Some((number, from, to, closes)) = shown.done.filter(|_| self.asks(Criterion::Q6)) else {
            return;
        };
        let work_shows = material.files.is_empty() && shown.work;
        let is_long_answer = material.files.is_empty() && closes && shown.prose_bytes >= LONG_ANSWER;
        if !work_shows && !is_long_answer {
            let line = text.lines().nth(number as usize - 1).unwrap_or_default();
            found
                .findings
                .push(Finding::new(Criterion::Q6, What::EarlyTermination).at(number, line, from, to));
        }
    }
}

/// So much prose is an answer, which may be closed with "that is all".
const LONG_ANSWER: usize = 200;

/// What was found so far.
#[derive(Default)]
struct Found {
    findings: Vec<Finding>,
    more: usize,
    /// What kept the work from being done, where the output is nothing but that.
    outside: Option<Cause>,
}

impl Found {
    /// Takes what a scan has found, and shows the lines that it only numbered.
    fn take(&mut self, scan: &mut Scan<'_>, text: &str, is_allowed: impl Fn(&str) -> bool) {
        self.more += scan.more();
        let mut findings = std::mem::take(&mut scan.findings);
        let mut unseen: Vec<&mut Finding> = findings
            .iter_mut()
            .filter(|finding| finding.excerpt.is_empty() && finding.line.is_some())
            .collect();
        unseen.sort_by_key(|finding| finding.line);
        let mut lines = document::numbered(text).peekable();
        let mut allowed = Vec::new();
        for finding in unseen {
            while lines.next_if(|(number, _)| Some(*number) < finding.line).is_some() {}
            if let Some((number, line)) = lines.peek() {
                let (from, to) = finding.mark.unwrap_or((0, line.len()));
                if is_allowed(line) {
                    allowed.push((finding.criterion, *number));
                }
                let shown = Finding::new(finding.criterion, finding.what).at(*number, line, from, to);
                (finding.excerpt, finding.mark) = (shown.excerpt, shown.mark);
            }
        }
        findings
            .retain(|finding| finding.line.is_none_or(|line| !allowed.contains(&(finding.criterion, line))));
        self.findings.append(&mut findings);
    }
}
