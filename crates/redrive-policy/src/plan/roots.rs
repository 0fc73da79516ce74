//! Folders that snapshots keep, as a plan writes them: which overlap, and who must not work there at the same time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;

use crate::graph::Graph;

/// The folder of the plan itself, in which every other root is.
const HERE: &str = ".";

/// Whether two subtasks with these roots would put back each other's files: two roots are equal, or one is inside the
/// other. Roots are as a plan holds them: without `.`, `..` and double slashes, except for `.` itself.
///
/// ```
/// use redrive_policy::plan::conflicts;
///
/// let roots = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
/// assert!(conflicts(&roots(&["src"]), &roots(&["docs", "src/auth"])));
/// assert!(!conflicts(&roots(&["src"]), &roots(&["src-gen"])));
/// assert!(conflicts(&roots(&["."]), &roots(&["docs"])));
/// ```
pub fn conflicts(a: &[String], b: &[String]) -> bool {
    let all: HashSet<&str> = b.iter().map(String::as_str).collect();
    let above: HashSet<&str> = b.iter().flat_map(|root| around(root)).collect();
    a.iter().any(|root| above.contains(root.as_str()) || around(root).any(|outer| all.contains(outer)))
}

/// The root as it is kept: `./src//a/` is `src/a`.
pub(crate) fn plain(root: &str) -> String {
    let parts: Vec<&str> = root.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() { HERE.to_owned() } else { parts.join("/") }
}

/// Each root once, and none that is inside another.
pub(crate) fn apart(roots: &[String]) -> Vec<String> {
    let all: HashSet<&str> = roots.iter().map(String::as_str).collect();
    let mut seen = HashSet::new();
    let inside = |root: &str| around(root).any(|outer| outer != root && all.contains(outer));
    roots.iter().filter(|root| seen.insert(root.as_str()) && !inside(root)).cloned().collect()
}

/// The root and every folder that it is in, as roots.
pub(crate) fn around(root: &str) -> impl Iterator<Item = &str> {
    let ends = root.match_indices('/').map(|(end, _)| end).chain([root.len()]);
    let named = ends.map(move |end| &root[..end]).filter(|outer| *outer != HERE);
    [HERE].into_iter().chain(named)
}

/// The first of these roots that is inside the folder.
pub(crate) fn inside<'a, T>(roots: &'a BTreeMap<String, T>, folder: &str) -> Option<&'a String> {
    if folder == HERE {
        return roots.keys().next();
    }
    let begin = format!("{folder}/");
    let next = roots.range::<str, _>((Bound::Included(begin.as_str()), Bound::Unbounded)).next();
    next.map(|(root, _)| root).filter(|root| root.starts_with(&begin))
}

/// Two subtasks that share files and could run at the same time, and the root of the second; the first such pair.
///
/// Whether a set of subtasks is one after the other, whatever the way, shows between neighbours: sorted by the graph's
/// order, each must depend on the one before. So every root asks about its neighbours only, and no pair is asked twice.
pub(crate) fn sharing<'a>(graph: &Graph, roots_of: &[(u32, &'a [String])]) -> Option<(u32, u32, &'a str)> {
    let mut by_root: HashMap<&str, Vec<u32>> = HashMap::new();
    let mut in_order: Vec<&(u32, &[String])> = roots_of.iter().collect();
    in_order.sort_unstable_by_key(|(i, _)| graph.place(*i));
    for (i, roots) in in_order {
        for root in *roots {
            by_root.entry(root).or_default().push(*i);
        }
    }
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut shared: Vec<&'a str> = Vec::new();
    for (i, roots) in roots_of {
        for root in *roots {
            for outer in around(root) {
                let Some(others) = by_root.get(outer) else { continue };
                let own = graph.place(*i);
                let at = others.partition_point(|other| graph.place(*other) < own);
                let before = at.checked_sub(1).map(|before| (*i, others[before]));
                let after = others[at..].iter().find(|other| **other != *i).map(|after| (*after, *i));
                for pair in [before, after].into_iter().flatten() {
                    pairs.push(pair);
                    shared.push(root);
                }
            }
        }
    }
    let stranger = graph.first_stranger(pairs.iter().copied())?;
    let (later, earlier) = pairs[stranger];
    Some((earlier, later, shared[stranger]))
}
