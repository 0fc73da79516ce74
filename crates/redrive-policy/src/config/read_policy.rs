//! Policies as a file writes them: what each says, laid over what it extends.
//!
//! Sections are read leniently, since their shape has been checked: a value of the wrong shape is skipped
//! here and has been reported there, so that one mistake makes one problem.

use std::sync::Arc;

use super::Notes;
use super::file::ANY;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff;
use crate::cause::{Cause, CauseSet, FailureType};
use crate::policy::{Entry, PolicySpec};

/// The policy of that name: what the node says, and for the rest what `base` says.
pub(super) fn read_policy(
    name: &str,
    node: &Node,
    base: PolicySpec,
    path: &Path<'_>,
    notes: &mut Notes,
) -> PolicySpec {
    let mut spec = PolicySpec { name: name.to_owned(), ..base };
    if let Some(max_retries) = retries(node) {
        spec.max_retries = max_retries;
    }
    for field in ["default_backoff", "backoff"] {
        if let Some(backoff) = node.get(field) {
            spec.backoff = read_backoff::read_over(backoff, &spec.backoff, &path.field(field), notes);
        }
    }
    choose_causes(node, &mut spec);
    if let Some(own) = node.get("cause_specific") {
        let own = read_entries(own, &spec, &path.field("cause_specific"), notes);
        spec.entries = lay_over(own, spec.entries);
    }
    if let Some(budget) = node.get("crash_budget").and_then(count) {
        spec.crash_budget = budget;
    }
    if let Some(limit) = read_backoff::duration(node, "max_retry_after_ms", "max_retry_after") {
        spec.max_retry_after = limit;
    }
    if let Some(choice) = named(node, "on_long_retry_after") {
        spec.on_long_retry_after = choice;
    }
    spec.forced_max_retries = node.get("forced_max_retries").and_then(count).or(spec.forced_max_retries);
    // "No retries" means none for any cause (R-P8), unless this very table gives some cause its own number.
    if retries(node) == Some(0) && node.get("cause_specific").is_none() {
        spec.forced_max_retries = Some(0);
    }
    spec
}

/// Which causes are retried, and which never: `never` beats every list, a cause that is named beats a
/// `never` that was inherited, and `any` beats nothing — a person's word is not overruled by a joker.
fn choose_causes(node: &Node, spec: &mut PolicySpec) {
    let list = node.get("retryable_failures").map(causes);
    let also = node.get("retry_on").map(causes);
    let never = node.get("never").map(causes);
    if list.is_none() && also.is_none() && never.is_none() {
        return;
    }
    let any =
        node.get("retry_on").is_some_and(|also| also.items().iter().any(|item| item.text() == Some(ANY)));
    let named = list.unwrap_or_default().union(also.unwrap_or_default());
    spec.never = never.unwrap_or_else(|| spec.never.minus(named));
    let retried =
        list.unwrap_or(spec.retry_on).union(named).union(if any { CauseSet::ALL } else { CauseSet::NONE });
    spec.retry_on = retried.minus(spec.never);
}

/// What a file says about single causes, the most particular first: narrowed by code, then by cause, then
/// by failure type.
pub(super) fn read_entries(node: &Node, spec: &PolicySpec, path: &Path<'_>, notes: &mut Notes) -> Vec<Entry> {
    let mut ranked: Vec<((bool, bool), Entry)> = Vec::new();
    let mut seen: [CauseSet; 2] = [CauseSet::NONE; 2];
    let mut add = |node: &Node, (set, by_type): (CauseSet, bool), path: &Path<'_>, notes: &mut Notes| {
        let entry = read_entry(node, set, spec, path, notes);
        if entry.codes.is_empty() {
            let seen = &mut seen[usize::from(by_type)];
            let again = set.minus(set.minus(*seen));
            if !again.is_empty() {
                let causes = again.iter().map(|cause| cause.name().to_owned()).collect();
                notes.odd.add(node.at, path, ProblemKind::Shadowed { causes }, Expected::Once);
            }
            *seen = seen.union(set);
        }
        ranked.push(((entry.codes.is_empty(), by_type), entry));
    };
    match &node.value {
        Value::List(items) => {
            for (i, item) in items.iter().enumerate() {
                let by_type = item.get("failure_type");
                let set = by_type.or_else(|| item.get("cause")).map(causes).unwrap_or_default();
                add(item, (set, by_type.is_some()), &path.item(i), notes);
            }
        }
        _ => {
            for (key, item) in node.fields() {
                let set = causes_named(key);
                add(item, (set, key.parse::<FailureType>().is_ok()), &path.field(key), notes);
            }
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, entry)| entry).collect()
}

fn read_entry(node: &Node, causes: CauseSet, spec: &PolicySpec, path: &Path<'_>, notes: &mut Notes) -> Entry {
    let codes = node.get("codes").map(texts).unwrap_or_default();
    let backoff = node
        .get("backoff")
        .map(|backoff| read_backoff::read_alone(backoff, spec.backoff.cap, &path.field("backoff"), notes));
    let modification_hint = node.get("modification_hint").and_then(Node::text).map(Arc::from);
    Entry { causes, codes, max_retries: retries(node), backoff, modification_hint }
}

/// The file's entries before the inherited ones, which keep only the causes that the file is silent about.
pub(super) fn lay_over(own: Vec<Entry>, inherited: Vec<Entry>) -> Vec<Entry> {
    let spoken_of = own
        .iter()
        .filter(|entry| entry.codes.is_empty())
        .fold(CauseSet::NONE, |set, entry| set.union(entry.causes));
    let left = inherited
        .into_iter()
        .map(|entry| Entry { causes: entry.causes.minus(spoken_of), ..entry })
        .filter(|entry| !entry.causes.is_empty());
    let mut entries: Vec<Entry> = own.into_iter().chain(left).collect();
    entries.sort_by_key(|entry| entry.codes.is_empty());
    entries
}

/// The number of retries, in whichever of its three ways it is said.
pub(super) fn retries(node: &Node) -> Option<u32> {
    let retries = node.get("max_retries").or_else(|| node.get("default_max_retries"));
    match (retries, node.get("max_attempts")) {
        (Some(retries), _) => count(retries),
        (None, Some(attempts)) => u32::try_from(attempts.whole()?.checked_sub(1)?).ok(),
        (None, None) => None,
    }
}

fn count(node: &Node) -> Option<u32> {
    u32::try_from(node.whole()?).ok()
}

/// The causes that a name or a list of names stands for.
pub(super) fn causes(node: &Node) -> CauseSet {
    let names = node.items().iter().filter_map(Node::text);
    names.fold(CauseSet::NONE, |set, name| set.union(causes_named(name)))
}

fn causes_named(name: &str) -> CauseSet {
    match (name.parse::<FailureType>(), name.parse::<Cause>()) {
        (Ok(failure_type), _) => CauseSet::of_failure_type(failure_type),
        (_, Ok(cause)) => CauseSet::of(&[cause]),
        _ => CauseSet::NONE,
    }
}

pub(super) fn texts(node: &Node) -> Vec<String> {
    node.items().iter().filter_map(Node::text).map(str::to_owned).collect()
}

/// The value of a field that holds one of the names of an enum.
pub(super) fn named<T: std::str::FromStr>(node: &Node, field: &str) -> Option<T> {
    node.get(field).and_then(Node::text)?.parse().ok()
}
