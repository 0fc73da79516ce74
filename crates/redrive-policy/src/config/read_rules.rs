//! Rules as a file writes them. One that does not load is an error here, never at run time (R-P3).

use std::collections::HashSet;

use super::Notes;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_policy::{named, texts};
use super::words::short;
use crate::classify::UserRule;

/// The rules of a file, in its order.
pub(super) fn read_rules(file: &Node, notes: &mut Notes) -> Vec<UserRule> {
    let Some(Value::List(items)) = file.get("rules").map(|rules| &rules.value) else { return Vec::new() };
    let mut ids = HashSet::new();
    let mut rules = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let id = item.get("id").and_then(Node::text);
        if let Some(id) = id
            && !ids.insert(id)
        {
            let path = Path::Top.field("rules");
            let at = item.get("id").map_or(item.at, |node| node.at);
            let kind = ProblemKind::GivenTwice { name: short(id) };
            notes.wrong.add(at, &path.item(i).field("id"), kind, Expected::Once);
        }
        rules.extend(id.and_then(|id| read_rule(id, item)));
    }
    rules
}

/// `None` for a rule that cannot be read; the shape has said why.
fn read_rule(id: &str, node: &Node) -> Option<UserRule> {
    let reason = node.get("reason").and_then(Node::text).unwrap_or_default();
    let mut rule = UserRule::new(id, named(node, "cause")?, node.get("retry").and_then(Node::bool), reason)
        .with_status(numbers(node, "status"))
        .with_exit_code(numbers(node, "exit_code"))
        .with_code(node.get("code").map(texts).unwrap_or_default());
    for pattern in node.get("regex").map(texts).unwrap_or_default() {
        rule = rule.with_regex(&pattern).ok()?;
    }
    Some(rule)
}

fn numbers<T: TryFrom<i128>>(node: &Node, field: &str) -> Vec<T> {
    let items = node.get(field).map(Node::items).unwrap_or_default();
    items.iter().filter_map(|item| T::try_from(item.whole()?).ok()).collect()
}
