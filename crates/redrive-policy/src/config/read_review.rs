//! What output has to be like, as a file writes it (R-T4): the section `review` of the configuration, and the field of that
//! name in a plan.

use super::node::{Node, Value};
use super::read_policy::texts;
use crate::review::{Criterion, ReviewPlan};

/// What the table says; the shape has noted what is wrong with it.
pub(super) fn read(table: &Node) -> ReviewPlan {
    let list = |field: &str| table.get(field).map(texts).unwrap_or_default();
    ReviewPlan {
        criteria: list("criteria").iter().filter_map(|name| name.parse::<Criterion>().ok()).collect(),
        files: list("files"),
        whole_file: table.get("whole_file").and_then(Node::bool).unwrap_or_default(),
        omission_patterns: list("omission_patterns"),
        early_termination_patterns: list("early_termination_patterns"),
        todo_words: list("todo_words"),
        allow: list("allow"),
        test: table.get("test").map(command),
        lint: table.get("lint").map(command),
        types: table.get("types").map(command),
    }
}

/// The program and its arguments; one text is the shell's to read.
pub(super) fn command(node: &Node) -> Vec<String> {
    match &node.value {
        Value::Text(line) => ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
        _ => texts(node),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;

    fn parse(text: &str) -> Result<ReviewPlan, String> {
        let config = Config::parse(text, Format::Toml, "redrive.toml");
        config.map(|config| config.review).map_err(|error| error.to_string())
    }

    /// R-T4, R-T5: every part of a review can be configured; a command is a list or a line for the shell.
    #[test]
    fn a_review_is_read_whole() {
        assert_eq!(parse("").unwrap(), ReviewPlan::default());
        let text = "[review]\ncriteria = [\"Q2\", \"Q3\"]\nfiles = [\"a.md\"]\nwhole_file = true\n\
                    omission_patterns = ['\\bsnip\\b']\nearly_termination_patterns = [\"fin\"]\n\
                    todo_words = [\"LATER\"]\nallow = [\"^>\"]\ntest = \"make test | tee log\"\nlint = [\"npm\", \"run\", \"lint\"]\n\
                    types = [\"tsc\"]\n";
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let expected = ReviewPlan {
            criteria: vec![Criterion::Q2, Criterion::Q3],
            files: owned(&["a.md"]),
            whole_file: true,
            omission_patterns: owned(&[r"\bsnip\b"]),
            early_termination_patterns: owned(&["fin"]),
            todo_words: owned(&["LATER"]),
            allow: owned(&["^>"]),
            test: Some(owned(&["/bin/sh", "-c", "make test | tee log"])),
            lint: Some(owned(&["npm", "run", "lint"])),
            types: Some(owned(&["tsc"])),
        };
        assert_eq!(parse(text).unwrap(), expected);
    }

    /// R-T4: a pattern that does not compile, a criterion that needs a command and an empty command are named.
    #[test]
    fn a_bad_review_does_not_load() {
        for (text, words) in [
            ("[review]\nallow = [\"(\"]\n", ["review.allow[0]", "regular expression"]),
            ("[review]\ncriteria = [\"Q7\"]\n", ["review.criteria[0]", "Q6"]),
            ("[review]\ntest = []\n", ["review.test", "nothing is given"]),
            ("[review]\nwhole-file = true\n", ["review.whole-file", "whole_file"]),
        ] {
            let error = parse(text).unwrap_err();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
        }
    }
}
