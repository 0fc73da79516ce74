//! What differs between two texts, line by line. Only lines that changed are told: what surrounds them may be secret.

/// Beyond so many pairs of lines a change is told as a whole.
const MOST_PAIRS: usize = 4_000_000;

/// Whether a line went or came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It went.
    Removed,
    /// It came.
    Added,
}

/// Lines that changed in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The first line there before, and the first line there after, from 1.
    pub at: (usize, usize),
    /// What went, and what came.
    pub lines: Vec<(Change, String)>,
}

impl Hunk {
    /// `@@ -3,2 +3 @@`, as patches write it.
    pub fn heading(&self) -> String {
        let count = |change: Change| self.lines.iter().filter(|(one, _)| *one == change).count();
        let side = |at: usize, count: usize| match count {
            // Of nothing, the line before is named.
            0 => format!("{},0", at - 1),
            1 => at.to_string(),
            _ => format!("{at},{count}"),
        };
        format!(
            "@@ -{} +{} @@",
            side(self.at.0, count(Change::Removed)),
            side(self.at.1, count(Change::Added))
        )
    }
}

/// What makes one text of the other.
pub fn changes(old: &str, new: &str) -> Vec<Hunk> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - before;
    let after = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[before..old.len() - after], &new[before..new.len() - after]);
    let mut hunks = Vec::new();
    let (mut i, mut j) = (0, 0);
    for (kept_old, kept_new) in kept(old, new).into_iter().chain([(old.len(), new.len())]) {
        let removed = old[i..kept_old].iter().map(|line| (Change::Removed, (*line).to_owned()));
        let added = new[j..kept_new].iter().map(|line| (Change::Added, (*line).to_owned()));
        let lines: Vec<_> = removed.chain(added).collect();
        if !lines.is_empty() {
            hunks.push(Hunk { at: (before + i + 1, before + j + 1), lines });
        }
        (i, j) = (kept_old + 1, kept_new + 1);
    }
    hunks
}

/// The places of lines that both have, in order: as many as possible.
fn kept(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    if old.is_empty() || new.is_empty() || old.len().saturating_mul(new.len()) > MOST_PAIRS {
        return Vec::new();
    }
    // How many lines the rests from here on share.
    let mut shared = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            shared[i * width + j] = if old[i] == new[j] {
                shared[(i + 1) * width + j + 1] + 1
            } else {
                shared[(i + 1) * width + j].max(shared[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut kept) = (0, 0, Vec::new());
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            kept.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if shared[(i + 1) * width + j] >= shared[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(old: &str, new: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for hunk in changes(old, new) {
            lines.push(hunk.heading());
            lines.extend(hunk.lines.into_iter().map(|(change, line)| match change {
                Change::Removed => format!("-{line}"),
                Change::Added => format!("+{line}"),
            }));
        }
        lines
    }

    /// R-D8: the diff of an edit, without a line that stayed.
    #[test]
    fn only_lines_that_changed_are_told() {
        assert_eq!(told("a\nb\nc", "a\nB\nc"), ["@@ -2 +2 @@", "-b", "+B"]);
        assert_eq!(told("a\nc", "a\nb\nc"), ["@@ -1,0 +2 @@", "+b"]);
        assert_eq!(told("a\nb\nc", "a\nc"), ["@@ -2 +1,0 @@", "-b"]);
        assert_eq!(
            told("a\nx\nb\ny\nc", "A\nx\nb\nY\nc"),
            ["@@ -1 +1 @@", "-a", "+A", "@@ -4 +4 @@", "-y", "+Y"]
        );
        assert_eq!(told("same", "same"), [""; 0]);
        assert_eq!(told("", "new"), ["@@ -0,0 +1 @@", "+new"]);
    }

    proptest! {
        /// R-D8: with what is told, one text becomes the other.
        #[test]
        fn changes_lead_from_one_text_to_the_other(
            old in prop::collection::vec("[ab]{0,2}", 0..12),
            new in prop::collection::vec("[ab]{0,2}", 0..12),
        ) {
            let end = |lines: &[String]| lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
            let mut result = old.clone();
            for hunk in changes(&end(&old), &end(&new)).into_iter().rev() {
                let removed = hunk.lines.iter().filter(|(change, _)| *change == Change::Removed).count();
                let added = hunk.lines.into_iter().filter(|(change, _)| *change == Change::Added);
                result.splice(hunk.at.0 - 1..hunk.at.0 - 1 + removed, added.map(|(_, line)| line));
            }
            prop_assert_eq!(result, new);
        }
    }
}
