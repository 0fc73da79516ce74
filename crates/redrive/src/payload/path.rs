//! A place in JSON: `a.b[0].c`; keys that hold a dot or a bracket stand in quotation marks: `a."b.c"`, `a["b.c"]`.

use std::fmt::Write;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A member of an object.
    Key(String),
    /// A place in a list, from 0.
    Index(usize),
}

/// Why a path leads nowhere. A step is counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathTrouble {
    /// It is no path.
    Syntax,
    /// It goes on with a key where there is no object.
    NoObject {
        /// Where.
        step: usize,
    },
    /// It goes on with a number where there is no list.
    NoList {
        /// Where.
        step: usize,
    },
    /// The list is not so long.
    NoIndex {
        /// Where.
        step: usize,
        /// How long it is.
        len: usize,
    },
    /// There is nothing there.
    Missing {
        /// Where.
        step: usize,
    },
}

/// Reads a path.
pub fn parse(text: &str) -> Result<Vec<Step>, PathTrouble> {
    let mut rest = text.trim();
    let mut steps = Vec::new();
    // As jq writes it, with a dot first.
    rest = rest.strip_prefix('.').unwrap_or(rest);
    loop {
        if let Some(inside) = rest.strip_prefix('[') {
            let (step, after) = if inside.starts_with('"') {
                let (key, after) = quoted(inside)?;
                (Step::Key(key), after)
            } else {
                let end = inside.find(']').ok_or(PathTrouble::Syntax)?;
                let index = inside[..end].trim().parse().map_err(|_| PathTrouble::Syntax)?;
                (Step::Index(index), &inside[end..])
            };
            steps.push(step);
            rest = after.strip_prefix(']').ok_or(PathTrouble::Syntax)?;
        } else if rest.starts_with('"') {
            let (key, after) = quoted(rest)?;
            steps.push(Step::Key(key));
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err(PathTrouble::Syntax);
            }
            steps.push(Step::Key(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = match rest.as_bytes().first() {
            None => return Ok(steps),
            Some(b'[') => rest,
            Some(b'.') => &rest[1..],
            Some(_) => return Err(PathTrouble::Syntax),
        };
    }
}

/// A key in quotation marks, written as JSON writes a text, and what follows it.
fn quoted(text: &str) -> Result<(String, &str), PathTrouble> {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    let (end, _) = end.ok_or(PathTrouble::Syntax)?;
    let key = serde_json::from_str(&text[..=end]).map_err(|_| PathTrouble::Syntax)?;
    Ok((key, &text[end + 1..]))
}

/// A path up to and with this step, for people.
pub fn up_to(steps: &[Step], last: usize) -> String {
    let mut out = String::new();
    for step in steps.iter().take(last + 1) {
        match step {
            Step::Key(key) => {
                out.push_str(if out.is_empty() { "" } else { "." });
                out.push_str(key);
            }
            Step::Index(index) => {
                // Writing into a text cannot fail.
                let _ = write!(out, "[{index}]");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D8: paths as people write them, and what is none.
    #[test]
    fn paths_are_read() {
        let key = |text: &str| Step::Key(text.to_owned());
        assert_eq!(parse("a.b[0].c"), Ok(vec![key("a"), key("b"), Step::Index(0), key("c")]));
        assert_eq!(parse(r#"."a.b"["c]"][1]"#), Ok(vec![key("a.b"), key("c]"), Step::Index(1)]));
        assert_eq!(parse("住所.番地"), Ok(vec![key("住所"), key("番地")]));
        for bad in ["", ".", "a.", "a..b", "a[", "a[x]", "a[-1]", "a[0]b", "\"a", "a[\"b]", "[]"] {
            assert_eq!(parse(bad), Err(PathTrouble::Syntax), "{bad}");
        }
        assert_eq!(up_to(&parse("a.b[0].c").unwrap(), 2), "a.b[0]");
    }
}
