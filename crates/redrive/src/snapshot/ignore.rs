//! Ignore rules in the manner of a `.gitignore`: the last rule that matches decides, `!` takes back, a slash at the front
//! or in the middle ties a rule to the root, one at the end means folders only. What is in an ignored folder is ignored.

use regex::bytes::{Regex, RegexBuilder};

use super::error::SnapshotError;
use super::fault::Fault;
use super::name::RelPath;

/// A pattern longer than this is a mistake.
const LONGEST_PATTERN: usize = 1_000;
/// So are more patterns than this.
const MOST_PATTERNS: usize = 10_000;

/// Rules in their order.
#[derive(Debug, Default)]
pub(crate) struct Rules(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    matches: Regex,
    takes_back: bool,
    folders_only: bool,
}

impl Rules {
    pub(crate) fn read<S: AsRef<str>>(lines: &[S]) -> Result<Rules, SnapshotError> {
        if lines.len() > MOST_PATTERNS {
            let pattern = lines[MOST_PATTERNS].as_ref().to_owned();
            return Err(SnapshotError::BadPattern { pattern, why: Fault::TooManyPatterns });
        }
        let rules = lines.iter().filter_map(|line| Rule::read(line.as_ref()).transpose());
        rules.collect::<Result<Vec<Rule>, SnapshotError>>().map(Rules)
    }

    /// Whether the rules ignore this entry, all of whose folders they let through.
    pub(crate) fn ignore(&self, path: &RelPath, is_folder: bool) -> bool {
        let speaks = |rule: &&Rule| (is_folder || !rule.folders_only) && rule.matches.is_match(path.bytes());
        self.0.iter().rev().find(speaks).is_some_and(|rule| !rule.takes_back)
    }

    /// Whether the rules ignore this entry or a folder that it is in.
    pub(crate) fn ignore_anywhere(&self, path: &RelPath, is_folder: bool) -> bool {
        path.ancestors().any(|folder| self.ignore(&folder, true)) || self.ignore(path, is_folder)
    }
}

impl Rule {
    /// The rule of one line; none for an empty line or a comment.
    fn read(line: &str) -> Result<Option<Rule>, SnapshotError> {
        let bad = |why| SnapshotError::BadPattern { pattern: line.chars().take(200).collect(), why };
        if line.len() > LONGEST_PATTERN {
            return Err(bad(Fault::PatternTooLong));
        }
        let mut pattern = without_trailing_blanks(line.strip_suffix('\r').unwrap_or(line));
        if pattern.is_empty() || pattern.starts_with('#') {
            return Ok(None);
        }
        let takes_back = pattern.starts_with('!');
        if takes_back {
            pattern = &pattern[1..];
        }
        let folders_only = pattern.ends_with('/');
        let pattern = pattern.strip_suffix('/').unwrap_or(pattern);
        let tied = pattern.contains('/');
        let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
        if pattern.is_empty() {
            return Err(bad(Fault::NamesNothing));
        }
        let body = as_regex(pattern).map_err(bad)?;
        let whole = if tied { format!(r"\A{body}\z") } else { format!(r"(?:\A|/){body}\z") };
        let matches = RegexBuilder::new(&whole).unicode(false).dot_matches_new_line(true).build();
        let matches = matches.map_err(|_| bad(Fault::TooComplex))?;
        Ok(Some(Rule { matches, takes_back, folders_only }))
    }
}

/// Blanks at the end do not count, unless the last one is escaped.
fn without_trailing_blanks(line: &str) -> &str {
    let trimmed = line.trim_end_matches([' ', '\t']);
    let backslashes = trimmed.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if backslashes % 2 == 1 && trimmed.len() < line.len() { &line[..=trimmed.len()] } else { trimmed }
}

fn as_regex(pattern: &str) -> Result<String, Fault> {
    let bytes = pattern.as_bytes();
    let mut regex = String::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let begins = at == 0 || bytes[at - 1] == b'/';
        if begins && rest == b"**" {
            // Everything below.
            regex.push_str(".+");
            break;
        }
        if begins && rest.starts_with(b"**/") {
            regex.push_str("(?:.*/)?");
            at += 3;
        } else if rest[0] == b'*' {
            regex.push_str("[^/]*");
            at += rest.iter().take_while(|byte| **byte == b'*').count();
        } else if rest[0] == b'?' {
            regex.push_str("[^/]");
            at += 1;
        } else if rest[0] == b'[' {
            at += class(rest, &mut regex)?;
        } else if rest[0] == b'\\' {
            let escaped = rest.get(1).ok_or(Fault::LastBackslash)?;
            literal(*escaped, &mut regex);
            at += 2;
        } else {
            literal(rest[0], &mut regex);
            at += 1;
        }
    }
    Ok(regex)
}

/// `[a-z]`, `[!a-z]`; answers how much of the pattern it is.
fn class(rest: &[u8], regex: &mut String) -> Result<usize, Fault> {
    let negated = matches!(rest.get(1), Some(b'!' | b'^'));
    let first = if negated { 2 } else { 1 };
    let mut members = Vec::new();
    let mut at = first;
    loop {
        match rest.get(at).ok_or(Fault::OpenClass)? {
            b']' if at > first => break,
            b'\\' => {
                members.push(*rest.get(at + 1).ok_or(Fault::LastBackslash)?);
                at += 2;
            }
            b'-' if at > first && rest.get(at + 1).is_some_and(|byte| *byte != b']') => {
                let from = *members.last().ok_or(Fault::BadRange)?;
                let to = match rest[at + 1] {
                    b'\\' => *rest.get(at + 2).ok_or(Fault::LastBackslash)?,
                    to => to,
                };
                if to < from {
                    return Err(Fault::BadRange);
                }
                members.extend(from..=to);
                at += if rest[at + 1] == b'\\' { 3 } else { 2 };
            }
            byte => {
                members.push(*byte);
                at += 1;
            }
        }
    }
    // A class never matches a slash, whichever way round it is.
    regex.push_str(if negated { "[^/" } else { "[" });
    members.retain(|byte| negated || *byte != b'/');
    if members.is_empty() {
        return Err(Fault::EmptyClass);
    }
    for byte in members {
        literal(byte, regex);
    }
    regex.push(']');
    Ok(at + 1)
}

fn literal(byte: u8, regex: &mut String) {
    use std::fmt::Write as _;
    // Writing to a string does not fail.
    let _infallible = write!(regex, r"\x{byte:02x}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[&str], path: &str, expected: bool) {
        let folder = path.ends_with('/');
        let rel = RelPath::new(path.trim_end_matches('/').as_bytes().to_vec()).unwrap();
        let ignored = Rules::read(rules).unwrap().ignore_anywhere(&rel, folder);
        assert_eq!(ignored, expected, "{rules:?} on {path}");
    }

    /// R-T3: the rules people know.
    #[test]
    fn rules_match_as_a_gitignore_does() {
        for (rules, path, expected) in [
            (&["*.o"][..], "a.o", true),
            (&["*.o"], "deep/er/a.o", true),
            (&["*.o"], "a.o/inside", true),
            (&["*.o"], "a.oo", false),
            (&["/target"], "target/", true),
            (&["/target"], "sub/target/", false),
            (&["target/"], "sub/target/", true),
            (&["target/"], "target", false),
            (&["target/"], "target/x", true),
            (&["a/b"], "a/b", true),
            (&["a/b"], "x/a/b", false),
            (&["**/b"], "x/a/b", true),
            (&["**/b"], "b", true),
            (&["a/**"], "a/x/y", true),
            (&["a/**"], "a/", false),
            (&["a/**/z"], "a/z", true),
            (&["a/**/z"], "a/b/c/z", true),
            (&["a/**/z"], "b/a/z", false),
            (&["a*z"], "a/z", false),
            (&["a**z"], "abcz", true),
            (&["?"], "ab", false),
            (&["?"], "a", true),
            (&["[a-c]x"], "bx", true),
            (&["[!a-c]x"], "bx", false),
            (&["[!a-c]x"], "dx", true),
            (&["[]]x"], "]x", true),
            (&["[a-]x"], "-x", true),
            (&["x[!a]y"], "x/y", false),
            (&["*.log", "!keep.log"], "keep.log", false),
            (&["*.log", "!keep.log"], "other.log", true),
            (&["!keep.log", "*.log"], "keep.log", true),
            (&["dir/", "!dir/keep"], "dir/keep", true),
            (&["# not a rule", "", "  "], "x", false),
            (&["\\#x"], "#x", true),
            (&["\\!x"], "!x", true),
            (&["x   "], "x", true),
            (&["x\\ "], "x ", true),
            (&["a.b"], "aXb", false),
            (&["日本*"], "日本語", true),
        ] {
            check(rules, path, expected);
        }
    }

    /// Reliability row 53: names that are no text are matched as bytes.
    #[test]
    fn names_that_are_no_text_are_matched() {
        let rules = Rules::read(&["*.tmp", "?x"]).unwrap();
        assert!(rules.ignore(&RelPath::new(b"\xff\xfe.tmp".to_vec()).unwrap(), false));
        assert!(rules.ignore(&RelPath::new(b"\xffx".to_vec()).unwrap(), false));
    }

    /// R-T3: a rule that would not do what it says is told.
    #[test]
    fn bad_patterns_are_named() {
        for bad in ["[abc", "x\\", "/", "!", "[z-a]", &"a".repeat(2_000)] {
            assert!(matches!(Rules::read(&[bad]), Err(SnapshotError::BadPattern { .. })), "{bad}");
        }
    }
}
