//! What a review is given: the output, the files that were looked up, and what commands said.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::finding::{Finding, What};
use super::patterns::regex;
use super::{Claim, Criterion};

/// What was produced, as far as somebody looked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Material<'a> {
    /// What was written to stdout, from its beginning; need not be UTF-8.
    pub output: &'a [u8],
    /// How much was written; more than `output` holds when not all was kept.
    pub total_bytes: u64,
    /// The name of the file that `output` is the content of; nothing when it is what somebody said.
    pub name: Option<&'a str>,
    /// Files that are claimed or expected, looked up.
    pub files: &'a [FileSeen],
    /// How many files have changed since the work began, when somebody counted.
    pub changed_files: Option<usize>,
    /// What commands said.
    pub checks: &'a [CheckRun],
}

impl<'a> Material<'a> {
    /// An output, all of it, and nothing else.
    pub fn of_output(output: &'a [u8]) -> Material<'a> {
        Material { output, total_bytes: output.len() as u64, ..Material::default() }
    }
}

/// A file that was looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSeen {
    /// As it was claimed or expected.
    pub path: String,
    /// The plan expects it; otherwise the output claims it.
    pub expected: bool,
    /// The output claims to have made it. What a changed file held before is not judged.
    pub created: bool,
    /// What was found.
    pub state: FileState,
    /// Its beginning, where it was read.
    pub content: Option<Vec<u8>>,
    /// How long it is.
    pub total_bytes: u64,
}

/// What was found where a file should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Something is there.
    Exists,
    /// Nothing is.
    Missing,
    /// It lies outside of where the work runs, and nobody looked.
    Outside,
}

impl FileSeen {
    /// A file that the plan expects, not looked up yet.
    pub fn expected(path: &str) -> FileSeen {
        FileSeen { expected: true, ..FileSeen::named(path) }
    }

    /// A file that the output claims, not looked up yet.
    pub fn claimed(claim: &Claim) -> FileSeen {
        FileSeen { created: claim.created, ..FileSeen::named(&claim.path) }
    }

    fn named(path: &str) -> FileSeen {
        FileSeen {
            path: path.to_owned(),
            expected: false,
            created: false,
            state: FileState::Missing,
            content: None,
            total_bytes: 0,
        }
    }

    /// The plan asked for it and something is in it.
    pub(super) fn is_delivered(&self) -> bool {
        self.expected && self.state == FileState::Exists && self.total_bytes > 0
    }

    /// Files that say something by being there.
    pub(super) fn may_be_empty(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        matches!(name, "__init__.py" | ".gitkeep" | ".keep" | "py.typed" | ".nojekyll" | ".npmignore")
    }
}

/// What became of a command of Q7, Q8 or Q9.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRun {
    /// Which one.
    pub criterion: Criterion,
    /// It succeeded.
    pub ok: bool,
    /// The end of what it wrote.
    pub tail: String,
}

impl CheckRun {
    pub(super) fn finding(&self) -> Finding {
        let mut finding = Finding::new(self.criterion, What::CheckFailed);
        let line = said_last(&self.tail);
        if !line.is_empty() {
            let excerpt = Finding::new(self.criterion, What::CheckFailed).at(1, line, 0, 0).excerpt;
            finding.excerpt = excerpt;
        }
        finding
    }
}

/// The line of a command's output that says most: the last that speaks of an error, or else the last.
fn said_last(tail: &str) -> &str {
    static TROUBLE: LazyLock<Regex> = LazyLock::new(|| {
        regex(r"(?i)\b(?:error|fail(?:ed|ure)?|panicked|assert\w*|expected|exception|fatal)\b|エラー|失敗")
    });
    let lines = || tail.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().rfind(|line| TROUBLE.is_match(line)).or_else(|| lines().next_back()).unwrap_or_default()
}

/// The text as a person would see it: invalid bytes replaced, colours and other sequences of terminals taken out.
pub(super) fn readable(output: &[u8]) -> Cow<'_, str> {
    static ESCAPES: LazyLock<Regex> =
        LazyLock::new(|| regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])"));
    let text = String::from_utf8_lossy(output);
    if !output.contains(&0x1b) {
        return text;
    }
    Cow::Owned(ESCAPES.replace_all(&text, "").into_owned())
}

/// What is wrong with the bytes: broken off within the last character, or not text.
pub(super) fn encoding(output: &[u8], cut_by_us: bool) -> Option<Finding> {
    let error = std::str::from_utf8(output).err()?;
    let at = error.valid_up_to();
    if error.error_len().is_none() {
        return (!cut_by_us).then(|| Finding::new(Criterion::Q4, What::BrokenCharacter));
    }
    let line = output[..at].split(|byte| *byte == b'\n').count();
    let mut finding = Finding::new(Criterion::Q4, What::NotText);
    finding.line = u32::try_from(line).ok();
    Some(finding)
}
