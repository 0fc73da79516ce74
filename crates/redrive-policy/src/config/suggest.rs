//! "Did you mean …?": the known name that is nearest to what was written.

/// The nearest of the known names, unless all of them are far off.
pub(super) fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const LONGEST: usize = 64;
    if given.is_empty() || given.chars().count() > LONGEST {
        return None;
    }
    let plain = |text: &str| -> Vec<char> {
        text.chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect()
    };
    let written = plain(given);
    known
        .into_iter()
        .map(|name| (distance(&written, &plain(name)), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name.to_owned())
}

/// How many letters must be added, dropped, exchanged or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, to) in b.iter().enumerate() {
            let exchanged = last[j] + usize::from(from != to);
            let mut best = exchanged.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *to && b[j - 1] == *from {
                best = best.min(before_last[j - 1] + 1);
            }
            row[j + 1] = best;
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_hand_is_understood() {
        let known = ["network", "rate_limit", "RATE_LIMIT", "max_retries", "jitter"];
        for (given, meant) in [
            ("netwrok", Some("network")),
            ("rate-limit", Some("rate_limit")),
            ("max_retrys", Some("max_retries")),
            ("Jitter", Some("jitter")),
            ("database", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, known).as_deref(), meant, "{given:?}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), known), None);
    }
}
