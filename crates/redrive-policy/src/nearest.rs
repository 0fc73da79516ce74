//! "Did you mean": the known name that is nearest to what was written.

/// The nearest of the names, if one is near enough to be what was meant.
///
/// ```
/// use redrive_policy::nearest;
/// assert_eq!(nearest("netwrok", ["network", "timeout"]), Some("network"));
/// assert_eq!(nearest("bananas", ["network", "timeout"]), None);
/// ```
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = plain(written);
    // A third of the letters may be wrong. What is absurdly long is not a slip of the fingers.
    let limit = (written.len() / 3).max(1);
    if limit > 20 {
        return None;
    }
    names
        .into_iter()
        .map(|name| (plain(name), name))
        .map(|(letters, name)| (distance(&written, &letters), letters.starts_with(&written), name))
        .filter(|(distance, begins, _)| *distance <= limit || *begins && written.len() > 2)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(.., name)| name)
}

/// Letters as they are compared: neither case nor the sign between words counts.
fn plain(text: &str) -> Vec<char> {
    text.to_lowercase().chars().map(|c| if c == '-' || c == ' ' { '_' } else { c }).collect()
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut two_ago: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(two_ago[j - 2] + 1);
            }
            row.push(best);
        }
        two_ago = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;

    /// R-C2: what was probably meant is said.
    #[test]
    fn a_slip_finds_its_name_and_nonsense_none() {
        let known = Cause::NAMES.iter().copied().chain(["max_retries", "jitter"]);
        for (written, meant) in [
            ("netwrok", Some("network")),
            ("rate-limit", Some("rate_limit")),
            ("Timeout", Some("timeout")),
            ("valid", Some("validation_error")),
            ("auth", Some("auth_error")),
            ("max_retrys", Some("max_retries")),
            ("Jitter", Some("jitter")),
            ("bananas", None),
            ("", None),
            (&"x".repeat(10_000), None),
        ] {
            assert_eq!(nearest(written, known.clone()), meant, "{written}");
        }
    }
}
