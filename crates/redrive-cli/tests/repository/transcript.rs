//! What a page shows of a terminal: its commands, and whether what they print is what stands below them.

use super::blocks;

/// The commands of a page with the lines that stand below each.
pub fn transcripts(page: &str) -> Vec<(String, Vec<String>)> {
    blocks(page, "console").iter().flat_map(|block| commands(block)).collect()
}

/// The commands of one block.
pub fn commands(block: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    let mut current: Option<(String, Vec<String>)> = None;
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            found.extend(current.replace((command.to_owned(), Vec::new())));
        } else if let Some((_, shown)) = &mut current {
            shown.push(line.trim_end().to_owned());
        }
    }
    found.extend(current);
    found
}

/// Whether the printed lines are the shown ones; a line `…` stands for any number of them.
pub fn matches(shown: &[String], printed: &[String]) -> bool {
    let equal = |shown: &[String], printed: &[String]| {
        shown.len() == printed.len()
            && shown.iter().zip(printed).all(|(shown, printed)| line_matches(shown, printed))
    };
    let Some(gap) = shown.iter().position(|line| line == "…") else { return equal(shown, printed) };
    let (before, after) = (&shown[..gap], &shown[gap + 1..]);
    printed.len() >= gap
        && equal(before, &printed[..gap])
        && (gap..=printed.len()).any(|from| matches(after, &printed[from..]))
}

/// Whether a printed line is the shown one; `…` inside it stands for what differs each time, such as a time.
pub fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

/// What was printed, as lines without what nobody sees at their ends.
pub fn lines(text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}

pub fn without_colour(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split("\x1b[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

/// A line without what differs from night to night: lengths of time, points in time, ids of events, rates, where the store is; and
/// without what follows from their widths, which is how long the lines around a table are.
pub fn timeless(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let word = word_without_time(word);
        // Of bars and borders one sign stands for many.
        let mut short: Vec<char> = word.chars().collect();
        short.dedup_by(|a, b| a == b && "─━█░".contains(*a));
        words.push(short.into_iter().collect());
    }
    words.join(" ")
}

fn word_without_time(word: &str) -> String {
    if word.starts_with("sqlite:") || word.starts_with("postgres://") || word.starts_with("postgresql://") {
        return "<store>".to_owned();
    }
    let mut out = String::new();
    let mut rest = word;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let starts_here = !before.is_ascii_alphanumeric() && before != '_';
        let taken = if starts_here { volatile(rest) } else { None };
        let (name, length) = taken.unwrap_or(("", first.len_utf8()));
        if name.is_empty() {
            out.push(first);
        } else {
            out.push_str(name);
        }
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    out
}

/// What differs each time and begins here, by the name that stands for it, and how long it is.
fn volatile(text: &str) -> Option<(&'static str, usize)> {
    let run = |of: &str| text.find(|c: char| !of.contains(c)).unwrap_or(text.len());
    if let Some(id) = text.strip_prefix("EVT-") {
        let length = id.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(id.len());
        return Some(("<event>", "EVT-".len() + length));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let point = run("0123456789-:.TZ");
    let shape: String = text[..point].chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    if shape.starts_with("9999-99-99") || shape.starts_with("99:99:99") {
        return Some(("<when>", point));
    }
    let rate = run("0123456789.");
    if text[rate..].starts_with("/s") {
        return Some(("<rate>", rate + 2));
    }
    // Parts such as 1m03s, 250ms, 2.5s, 3d.
    let mut length = 0;
    loop {
        let number = text[length..].find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(0);
        let after = &text[length + number..];
        let unit = ["ms", "s", "m", "h", "d"].into_iter().find(|unit| after.starts_with(unit));
        let (1.., Some(unit)) = (number, unit) else { break };
        length += number + unit.len();
    }
    let ends = !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
    (length > 0 && ends).then_some(("<long>", length))
}

/// As [`matches`], of lines that are [`timeless`].
pub fn alike(shown: &[String], printed: &[String]) -> bool {
    let timeless = |lines: &[String]| lines.iter().map(|line| timeless(line)).collect::<Vec<_>>();
    matches(&timeless(shown), &timeless(printed))
}
