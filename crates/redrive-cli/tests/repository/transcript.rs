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
