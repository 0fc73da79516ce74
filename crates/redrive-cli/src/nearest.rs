//! "Did you mean": the known name that is nearest to what was written.

/// The nearest of the names, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    // A third of the letters may be wrong. What is absurdly long is not a slip of the fingers.
    let limit = (written.chars().count() / 3).max(1);
    if limit > 20 {
        return None;
    }
    names
        .into_iter()
        .map(|name| (distance(&written, name), name))
        .filter(|(distance, name)| *distance <= limit || name.starts_with(&written) && written.len() > 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
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
    use redrive_policy::Cause;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_none() {
        for (written, meant) in [
            ("netwrok", Some("network")),
            ("rate-limit", Some("rate_limit")),
            ("Timeout", Some("timeout")),
            ("valid", Some("validation_error")),
            ("auth", Some("auth_error")),
            ("bananas", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, Cause::NAMES.iter().copied()), meant, "{written}");
        }
    }
}
