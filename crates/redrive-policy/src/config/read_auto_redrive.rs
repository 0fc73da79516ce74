//! Rules of automatic recovery as a file writes them (R-D11). What their filters and rates mean is the engine's to say,
//! which refuses a rule that it cannot obey before any work begins.

use std::collections::HashSet;
use std::time::Duration;

use super::Notes;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff::duration;
use super::words::short;

/// How long after one redrive by a rule the next may begin, unless it says otherwise.
const EVERY: Duration = Duration::from_mins(5);
/// How often a letter is put back by a rule, unless it says otherwise.
const MAX_REDRIVES: u32 = 3;

/// A rule by which workers put dead letters back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoRedrive {
    /// Its name, which its redrives carry.
    pub name: String,
    /// Which letters, as a filter.
    pub filter: String,
    /// How long after one redrive by this rule the next may begin.
    pub every: Duration,
    /// How many letters come back, such as `10/s`.
    pub rate: Option<String>,
    /// How many letters one redrive takes.
    pub limit: Option<u64>,
    /// In steps, each judged before the next.
    pub canary: bool,
    /// A letter that was put back so often stays where it is.
    pub max_redrives: u32,
}

impl AutoRedrive {
    /// A rule of this name for these letters; the rest as when a file does not say it.
    pub fn new(name: impl Into<String>, filter: impl Into<String>) -> AutoRedrive {
        AutoRedrive {
            name: name.into(),
            filter: filter.into(),
            every: EVERY,
            rate: None,
            limit: None,
            canary: true,
            max_redrives: MAX_REDRIVES,
        }
    }
}

/// The rules of a file, in its order.
pub(super) fn read(file: &Node, notes: &mut Notes) -> Vec<AutoRedrive> {
    let Some(Value::List(items)) = file.get("auto_redrive").map(|rules| &rules.value) else {
        return Vec::new();
    };
    let mut names = HashSet::new();
    let mut rules = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let name = item.get("name").and_then(Node::text);
        if let Some(name) = name
            && !names.insert(name)
        {
            let path = Path::Top.field("auto_redrive");
            let at = item.get("name").map_or(item.at, |node| node.at);
            let kind = ProblemKind::GivenTwice { name: short(name) };
            notes.wrong.add(at, &path.item(i).field("name"), kind, Expected::Once);
        }
        rules.extend(read_one(item));
    }
    rules
}

/// `None` for a rule that cannot be read; the shape has said why.
fn read_one(node: &Node) -> Option<AutoRedrive> {
    let text = |field: &str| node.get(field).and_then(Node::text);
    let whole = |field: &str| node.get(field).and_then(Node::whole);
    let mut rule = AutoRedrive::new(text("name")?, text("where")?);
    rule.every = duration(node, "every", "every").unwrap_or(rule.every);
    rule.rate = text("rate").map(str::to_owned);
    rule.limit = whole("limit").and_then(|limit| u64::try_from(limit).ok());
    rule.canary = node.get("canary").and_then(Node::bool).unwrap_or(rule.canary);
    let most = whole("max_redrives").and_then(|most| u32::try_from(most).ok());
    rule.max_redrives = most.unwrap_or(rule.max_redrives);
    Some(rule)
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Format};
    use super::*;

    fn parse(text: &str) -> Result<Vec<AutoRedrive>, String> {
        let config = Config::parse(text, Format::Toml, "redrive.toml");
        config.map(|config| config.auto_redrive).map_err(|error| error.to_string())
    }

    /// R-D11: what a rule does not say has its default; what it says holds.
    #[test]
    fn a_rule_is_read_with_its_defaults() {
        let rules = parse("[[auto_redrive]]\nname = \"net\"\nwhere = \"cause=network\"\n").unwrap();
        assert_eq!(rules, [AutoRedrive::new("net", "cause=network")]);
        let text = "[[auto_redrive]]\nname = \"net\"\nwhere = \"cause=network\"\nevery = \"30s\"\nrate = \"10/s\"\n\
                    limit = 7\ncanary = false\nmax_redrives = 1\n";
        let expected = AutoRedrive {
            every: Duration::from_secs(30),
            rate: Some("10/s".to_owned()),
            limit: Some(7),
            canary: false,
            max_redrives: 1,
            ..AutoRedrive::new("net", "cause=network")
        };
        assert_eq!(parse(text).unwrap(), [expected]);
    }

    /// R-D11: a rule that says too little, or the same name twice, does not load.
    #[test]
    fn a_bad_rule_does_not_load() {
        let error = parse("[[auto_redrive]]\nname = \"net\"\n").unwrap_err();
        assert!(error.contains("auto_redrive[0]") && error.contains("where"), "{error}");
        let twice = "[[auto_redrive]]\nname = \"a\"\nwhere = \"cause=network\"\n".repeat(2);
        let error = parse(&twice).unwrap_err();
        assert!(error.contains("auto_redrive[1].name"), "{error}");
    }
}
