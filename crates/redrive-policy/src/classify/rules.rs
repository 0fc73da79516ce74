//! Rules as data: the built-in book, compiled once.
//!
//! A rule has phrases and codes, a level, a verdict, a reason in two languages, and examples that the tests run.
//! All phrases of all rules are found in one pass by one automaton.

use std::collections::{HashMap, HashSet};
use std::fmt;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde::Deserialize;

use super::text::Normal;
use super::{BEFORE_LAST_CAUSE, Candidate, IN_CODE, IN_NAME, Source};
use crate::cause::Cause;
use crate::failure::{RuleId, Verdict};

/// The files of the book, by the cause they speak of.
const FILES: &[(&str, &str)] = &[
    ("signals", include_str!("../../rules/signals.toml")),
    ("network", include_str!("../../rules/network.toml")),
    ("timeout", include_str!("../../rules/timeout.toml")),
    ("rate_limit", include_str!("../../rules/rate_limit.toml")),
    ("api_error", include_str!("../../rules/api_error.toml")),
    ("contention", include_str!("../../rules/contention.toml")),
    ("auth_error", include_str!("../../rules/auth_error.toml")),
    ("validation_error", include_str!("../../rules/validation_error.toml")),
    ("integrity", include_str!("../../rules/integrity.toml")),
    ("not_found", include_str!("../../rules/not_found.toml")),
    ("configuration", include_str!("../../rules/configuration.toml")),
    ("resource_exhausted", include_str!("../../rules/resource_exhausted.toml")),
    ("cancelled", include_str!("../../rules/cancelled.toml")),
    ("unknown", include_str!("../../rules/unknown.toml")),
];

/// Above this level no text is read any more: nothing in it could win.
pub(crate) const DECISIVE: i32 = 98;

/// The parts of a phrase with a `*` in it may stand this many bytes apart.
const MAX_GAP: usize = 90;

/// How far a rule goes in a contest with others. A phrase of several words counts a little more.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Level {
    Named(LevelName),
    Exact(i32),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelName {
    /// A word that says something only when nothing else does.
    Weak,
    /// A wording that many systems share.
    Plain,
    /// A wording that means one thing.
    Strong,
    /// The truth behind a vague status.
    Exact,
}

impl Level {
    const fn value(self) -> i32 {
        match self {
            Level::Named(LevelName::Weak) => 30,
            Level::Named(LevelName::Plain) => 50,
            Level::Named(LevelName::Strong) => 70,
            Level::Named(LevelName::Exact) => 88,
            Level::Exact(value) => value,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rule: Vec<RawRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    id: String,
    cause: Cause,
    level: Level,
    retry: Option<bool>,
    reason: RawReason,
    /// How far a typed code of this rule goes, where that is not very far.
    code_level: Option<i32>,
    #[serde(default)]
    phrases: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default)]
    status: Vec<u16>,
    #[serde(default)]
    exit_code: Vec<i32>,
    #[serde(default)]
    signal: Vec<i32>,
    #[serde(default)]
    examples: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReason {
    en: String,
    ja: String,
}

/// A built-in rule as it can be shown.
#[derive(Debug, Clone)]
pub struct RuleSpec {
    /// Its id, which a failure carries.
    pub id: String,
    /// What it recognises.
    pub cause: Cause,
    /// Its own word on retrying.
    pub verdict: Verdict,
    /// How far it goes in a contest with others.
    pub level: i32,
    /// Why, in English and Japanese.
    pub reason: (String, String),
    /// Messages that it recognises.
    pub examples: Vec<String>,
    /// Messages that look alike and that it must leave alone.
    pub not: Vec<String>,
}

/// A rule while classifying.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) id: RuleId,
    pub(crate) cause: Cause,
    pub(crate) verdict: Verdict,
}

#[derive(Debug)]
struct Phrase {
    rule: usize,
    level: i32,
    /// Where its progress is kept, and how many parts it has.
    first_slot: usize,
    parts: usize,
    /// A single word counts only where it stands alone, not as part of a name.
    single_word: bool,
    role: Role,
}

/// What a phrase is to its rule.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    /// Words that the rule recognises.
    Words,
    /// A code that was printed; it counts only as a whole identifier.
    Code,
    /// Words that silence the rule.
    Veto,
}

/// Codes that leave open what happened: words are read beside them.
const OPEN_CODES: &[&str] = &[
    "ENOENT",
    "ENOTFOUND",
    "ECONNABORTED",
    "EEXIST",
    "EINVAL",
    "EAGAIN",
    "EIO",
    "EHOSTDOWN",
    "SQLITE_ERROR",
];

/// Whether a code says all: the error numbers of systems and of `SQLite` do, as far as they are not vague.
fn is_decisive(code: &str) -> bool {
    let errno =
        code.starts_with('E') && code.len() >= 4 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    (errno || code.starts_with("SQLITE_")) && !OPEN_CODES.contains(&code)
}

/// Whether a code, met in prose, is that code and no ordinary word.
fn is_spelled(code: &str) -> bool {
    let letters = code.bytes().filter(u8::is_ascii_alphabetic).count();
    let humps = code.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
    let one_word = !code.contains(['_', '-', '.']) && (humps == 0 || humps + 1 == code.len());
    let errno = code.starts_with('E') && code.len() > 4 && humps + 1 == code.len();
    letters >= 3
        && (!one_word || errno || code.starts_with("WSA") || code.bytes().any(|b| b.is_ascii_digit()))
}

/// The built-in rules, ready to be searched.
#[derive(Debug, Default)]
pub(crate) struct RuleBook {
    specs: Vec<RuleSpec>,
    rules: Vec<Rule>,
    phrases: Vec<Phrase>,
    slots: usize,
    /// For each needle of the automaton: the phrases it is a part of, and which part.
    uses: Vec<Vec<(usize, usize)>>,
    automaton: Option<AhoCorasick>,
    codes: HashMap<String, (usize, i32)>,
    status: HashMap<u16, (usize, i32)>,
    exit_codes: HashMap<i32, (usize, i32)>,
    signals: HashMap<i32, (usize, i32)>,
    ids: HashMap<&'static str, usize>,
    vocabulary: HashSet<Vec<u8>>,
}

/// A book that cannot be read.
#[derive(Debug)]
pub(crate) struct BookError(pub(crate) String);

impl fmt::Display for BookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RuleBook {
    pub(crate) fn built_in() -> Result<RuleBook, BookError> {
        let mut raw = Vec::new();
        for (name, source) in FILES {
            let file: RuleFile =
                toml::from_str(source).map_err(|error| BookError(format!("rules/{name}.toml: {error}")))?;
            raw.extend(file.rule);
        }
        RuleBook::compile(raw)
    }

    fn compile(raw: Vec<RawRule>) -> Result<RuleBook, BookError> {
        let mut book = RuleBook::default();
        let mut needles: Vec<Vec<u8>> = Vec::new();
        let mut needle_ids: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut normal = Normal::default();
        let mut wrong = Vec::new();
        for rule in raw {
            let index = book.rules.len();
            let level = rule.level.value();
            // The book lives as long as the program, and so do the names of its rules.
            let id: &'static str = Box::leak(rule.id.clone().into_boxed_str());
            if book.ids.insert(id, index).is_some() {
                wrong.push(format!("two rules are called {id}"));
            }
            wrong.extend(
                book.enter_signals(&rule, index, level)
                    .map(|clash| format!("{id}: {clash} belongs to another rule already")),
            );
            let phrases = rule.phrases.iter().map(|phrase| (phrase, Role::Words));
            let codes = rule.codes.iter().filter(|code| is_spelled(code)).map(|code| (code, Role::Code));
            let vetoes = rule.unless.iter().map(|phrase| (phrase, Role::Veto));
            for (text, role) in phrases.chain(codes).chain(vetoes) {
                let parts: Vec<Vec<u8>> = text.split(" * ").map(|part| normal.needle(part)).collect();
                // A mask that nobody wrote would match any name.
                let masked = !text.contains(['~', ':']) && parts.iter().any(|part| part.contains(&b'~'));
                if masked || parts.iter().any(|part| part.is_empty() || part == b" ~ ") {
                    if role == Role::Code {
                        continue;
                    }
                    wrong.push(format!("{id}: phrase {text:?} has a part that says nothing"));
                    continue;
                }
                let words: usize = parts
                    .iter()
                    .map(|part| part.split(|b| *b == b' ').filter(|word| !word.is_empty()).count())
                    .sum();
                let phrase = book.phrases.len();
                let bonus = i32::try_from(words.min(8)).unwrap_or(8);
                book.phrases.push(Phrase {
                    rule: index,
                    level: bonus + if role == Role::Code { rule.code_level.unwrap_or(level) } else { level },
                    first_slot: book.slots,
                    parts: parts.len(),
                    single_word: words == 1 && parts[0].is_ascii(),
                    role,
                });
                book.slots += parts.len();
                for (number, part) in parts.into_iter().enumerate() {
                    for word in part.split(|b| *b == b' ').filter(|word| word.len() > 1) {
                        book.vocabulary.insert(word.to_vec());
                    }
                    let needle = *needle_ids.entry(part.clone()).or_insert_with(|| {
                        needles.push(part);
                        book.uses.push(Vec::new());
                        needles.len() - 1
                    });
                    book.uses[needle].push((phrase, number));
                }
            }
            book.rules.push(Rule {
                id: RuleId::built_in(id),
                cause: rule.cause,
                verdict: Verdict::from_retry(rule.retry),
            });
            book.specs.push(RuleSpec {
                id: rule.id,
                cause: rule.cause,
                verdict: Verdict::from_retry(rule.retry),
                level,
                reason: (rule.reason.en, rule.reason.ja),
                examples: rule.examples,
                not: rule.not,
            });
        }
        if !wrong.is_empty() {
            return Err(BookError(wrong.join("\n")));
        }
        book.automaton = Some(
            AhoCorasick::builder()
                .match_kind(MatchKind::Standard)
                .kind(Some(AhoCorasickKind::ContiguousNFA))
                .build(&needles)
                .map_err(|error| BookError(error.to_string()))?,
        );
        Ok(book)
    }

    /// Enters the typed signals of a rule; gives one that another rule has already.
    fn enter_signals(&mut self, rule: &RawRule, index: usize, level: i32) -> Option<String> {
        let mut clash = None;
        for code in &rule.codes {
            // Numbers mean different things to different systems, so prose beats them more easily.
            let is_number = code.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            let code_level = rule.code_level.unwrap_or(match () {
                () if is_number => 68,
                () if is_decisive(code) => DECISIVE,
                () => level.max(94),
            });
            let before = self.codes.insert(code.to_ascii_lowercase(), (index, code_level));
            if let Some((other, _)) = before.filter(|(other, _)| *other != index) {
                clash = Some(format!("code {code} (of {})", self.specs[other].id));
            }
        }
        for status in &rule.status {
            if self.status.insert(*status, (index, level)).is_some() {
                clash = Some(format!("status {status}"));
            }
        }
        for exit_code in &rule.exit_code {
            self.exit_codes.insert(*exit_code, (index, level));
        }
        for signal in &rule.signal {
            self.signals.insert(*signal, (index, level));
        }
        clash
    }

    pub(crate) fn specs(&self) -> &[RuleSpec] {
        &self.specs
    }

    pub(crate) fn rule(&self, index: usize) -> &Rule {
        &self.rules[index]
    }

    pub(crate) fn vocabulary(&self) -> &HashSet<Vec<u8>> {
        &self.vocabulary
    }

    /// The rule of that id, for signals that are computed rather than looked up.
    pub(crate) fn by_id(&self, id: &str) -> Option<usize> {
        self.ids.get(id).copied()
    }

    pub(crate) fn status(&self, status: u16) -> Option<(usize, i32)> {
        let class = || {
            let id = match status {
                400..=499 => "http.client-error",
                500..=599 => "http.server-error",
                _ => return None,
            };
            Some((self.by_id(id)?, 70))
        };
        self.status.get(&status).copied().or_else(class)
    }

    pub(crate) fn exit_code(&self, code: i32) -> Option<(usize, i32)> {
        self.exit_codes.get(&code).copied()
    }

    pub(crate) fn signal(&self, signal: i32) -> Option<(usize, i32)> {
        self.signals.get(&signal).copied()
    }

    /// The rule for a machine-readable code: by name, or by the class of an SQLSTATE.
    pub(crate) fn code(&self, code: &str) -> Option<(usize, i32)> {
        let mut lower = [0u8; 64];
        let code = code.trim();
        let bytes = lower.get_mut(..code.len())?;
        bytes.copy_from_slice(code.as_bytes());
        bytes.make_ascii_lowercase();
        let key = std::str::from_utf8(bytes).ok()?;
        self.codes.get(key).copied().or_else(|| self.sqlstate(code))
    }

    fn sqlstate(&self, code: &str) -> Option<(usize, i32)> {
        let bytes = code.as_bytes();
        let shape = bytes.len() == 5
            && bytes.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
            && bytes[..2].iter().any(u8::is_ascii_digit);
        if !shape {
            return None;
        }
        let (id, level) = match &code[..2] {
            "08" => ("sql.connection", 90),
            "40" => ("sql.rollback", 90),
            "23" => ("sql.constraint", 90),
            "28" => ("sql.authorization", 90),
            "22" | "42" | "21" | "26" | "34" => ("sql.statement", 86),
            "53" => ("sql.resources", 70),
            "57" => ("sql.intervention", 70),
            "58" => ("sql.system", 60),
            _ => return None,
        };
        // Five digits may be anybody's number; a letter in it makes it a state for sure.
        let level = if bytes.iter().all(u8::is_ascii_digit) { level - 12 } else { level };
        Some((self.by_id(id)?, level))
    }

    /// Finds every phrase in one pass.
    pub(crate) fn find_phrases(&self, normal: &Normal, hits: &mut Hits) {
        let Some(automaton) = &self.automaton else { return };
        hits.begin(self.slots);
        let text = normal.text();
        for found in automaton.find_overlapping_iter(text) {
            let (start, end) = (found.start(), found.end());
            for &(phrase, part) in &self.uses[found.pattern().as_usize()] {
                let phrase = &self.phrases[phrase];
                if phrase.parts > 1 {
                    let slot = phrase.first_slot + part;
                    if part > 0 {
                        let previous = hits.reached(slot - 1);
                        // Needles share the space between them, hence the one byte of overlap.
                        if previous == 0 || start + 1 < previous || start.saturating_sub(previous) > MAX_GAP {
                            continue;
                        }
                        if text[previous.min(start)..start].contains(&b'|') {
                            continue;
                        }
                    }
                    hits.reach(slot, end);
                    if part + 1 < phrase.parts {
                        continue;
                    }
                } else if !normal.counts(start, end, phrase.single_word, phrase.role == Role::Code) {
                    continue;
                }
                if phrase.role == Role::Veto {
                    hits.vetoed.push(phrase.rule);
                    continue;
                }
                // The name of an exception is less telling than what it says.
                let in_name = phrase.role == Role::Words && normal.in_name(start, end);
                hits.found.push(Candidate {
                    rule: phrase.rule,
                    level: phrase.level + normal.weight(start, end) - if in_name { IN_NAME } else { 0 },
                    at: end,
                    source: Source::Text { start, end },
                });
            }
        }
        let vetoed = &hits.vetoed;
        hits.found.retain(|candidate| !vetoed.contains(&candidate.rule));
    }
}

impl Normal {
    /// How much more or less a hit counts for where it stands.
    fn weight(&self, start: usize, end: usize) -> i32 {
        if end <= self.code_end() {
            IN_CODE
        } else if start + 1 < self.last_cause() {
            -BEFORE_LAST_CAUSE
        } else {
            0
        }
    }
}

/// The claims that were found in one text.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    found: Vec<Candidate>,
    vetoed: Vec<usize>,
    /// How far each part of a phrase was found, and for which text: marks of earlier texts do not count, so
    /// nothing has to be wiped between texts.
    reached: Vec<(u32, usize)>,
    text: u32,
}

impl Hits {
    pub(crate) fn clear(&mut self) {
        self.found.clear();
        self.vetoed.clear();
    }

    fn begin(&mut self, slots: usize) {
        self.text = self.text.wrapping_add(1);
        if self.text == 0 || self.reached.len() != slots {
            self.text = 1;
            self.reached.clear();
            self.reached.resize(slots, (0, 0));
        }
    }

    fn reached(&self, slot: usize) -> usize {
        let (text, end) = self.reached[slot];
        if text == self.text { end } else { 0 }
    }

    fn reach(&mut self, slot: usize, end: usize) {
        self.reached[slot] = (self.text, end);
    }

    pub(crate) fn push(&mut self, rule: usize, level: i32, at: usize, source: Source) {
        self.found.push(Candidate { rule, level, at, source });
    }

    pub(crate) fn standing(&self) -> impl Iterator<Item = &Candidate> {
        self.found.iter()
    }
}
