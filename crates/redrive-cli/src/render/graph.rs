//! Things that depend on one another, drawn from top to bottom: a tree where it is one, else lanes that part and meet.
//! What would need too many lanes is a list in which each names what it waits for.

use super::table::tinted;
use crate::escape::{cut, escape, pad, width};
use crate::view::{Graph, GraphNode};

/// More lanes than this are no drawing any more.
const MOST_LANES: usize = 10;
/// A name leaves this much to what is said about it.
const LEFT_FOR_NOTE: usize = 30;
/// How many that somebody waits for are named in a list.
const NAMED: usize = 3;

/// The whole graph, a line for each node and some between them.
pub(super) fn graph(graph: &Graph, columns: usize, colour: bool) -> String {
    let after = reduced(graph);
    let rows = if after.iter().all(|after| after.len() <= 1) {
        tree(&after)
    } else {
        lanes(&after).unwrap_or_else(|| listed(&after))
    };
    // What stands before a name is as wide as its row; names begin in one column unless it is a tree.
    let stem = rows.iter().map(|row| row.before.chars().count()).max().unwrap_or(0);
    let ragged = rows.iter().any(|row| row.ragged);
    let head = |row: &Row| {
        let name = row.node.map_or(String::new(), |node| escape(&graph.nodes[node].name).into_owned());
        let before = if ragged { row.before.clone() } else { pad(&row.before, stem) };
        (before, name)
    };
    let room = columns.saturating_sub(LEFT_FOR_NOTE).max(12);
    let widest = rows.iter().map(head).map(|(before, name)| width(&before) + 1 + width(&name)).max();
    let widest = widest.unwrap_or(0).min(room);
    let states = graph.nodes.iter().map(|node| width(&escape(&node.state.text))).max().unwrap_or(0);
    let lines = rows.iter().map(|row| {
        let (before, name) = head(row);
        let Some(node) = row.node.map(|node| &graph.nodes[node]) else {
            return before.trim_end().to_owned();
        };
        let name = cut(&name, widest.saturating_sub(width(&before) + 1).max(4));
        let gap = " ".repeat(widest.saturating_sub(width(&before) + 1 + width(&name)));
        let said = said(node, row, graph);
        let left = columns.saturating_sub(widest + 2);
        let state = cut(&escape(&node.state.text), left);
        // Notes begin in one column; where no state is told they take its place.
        let apart = if states == 0 { 0 } else { states.saturating_sub(width(&state)) + 2 };
        let said = cut(&said, left.saturating_sub(width(&state) + apart));
        let said = if said.is_empty() { said } else { format!("{}{said}", " ".repeat(apart)) };
        let before = marked(&before, node, colour);
        format!("{before} {name}{gap}  {}{said}", tinted(&state, node.state.tone, colour))
            .trim_end()
            .to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The mark of a node in its colour, among lines that have none.
fn marked(before: &str, node: &GraphNode, colour: bool) -> String {
    let mark = node.mark.to_string();
    match before.split_once(MARK) {
        Some((left, right)) => format!("{left}{}{right}", tinted(&mark, node.state.tone, colour)),
        None => before.to_owned(),
    }
}

fn said(node: &GraphNode, row: &Row, graph: &Graph) -> String {
    let own = escape(&node.note).into_owned();
    if row.after.is_empty() {
        return own;
    }
    let names: Vec<String> =
        row.after.iter().take(NAMED).map(|after| escape(&graph.nodes[*after].name).into_owned()).collect();
    let more = if row.after.len() > NAMED { ", …" } else { "" };
    let after = format!("← {}{more}", names.join(", "));
    if own.is_empty() { after } else { format!("{own} {after}") }
}

/// Stands for the mark of a node among the lines of a drawing, which have none.
const MARK: char = '*';

/// A line of the drawing.
#[derive(Debug, Default)]
struct Row {
    before: String,
    node: Option<usize>,
    /// What it waits for, where no line shows it.
    after: Vec<usize>,
    /// The name follows at once, wherever that is.
    ragged: bool,
}

impl Row {
    fn of(node: usize, before: String) -> Row {
        Row { before, node: Some(node), ..Row::default() }
    }

    fn line(cells: &str) -> Row {
        Row { before: cells.trim_end().to_owned(), ..Row::default() }
    }
}

/// What each waits for, without what it waits for anyway by way of another.
fn reduced(graph: &Graph) -> Vec<Vec<usize>> {
    let count = graph.nodes.len();
    let mut reach: Vec<Vec<bool>> = vec![vec![false; count]; count];
    let mut after = vec![Vec::new(); count];
    let given: Vec<Vec<usize>> = graph
        .nodes
        .iter()
        .map(|node| {
            let mut after: Vec<usize> = node.after.iter().copied().filter(|after| *after < count).collect();
            after.sort_unstable();
            after.dedup();
            after
        })
        .collect();
    for node in ordered(&given) {
        let direct = &given[node];
        after[node] =
            direct.iter().copied().filter(|one| !direct.iter().any(|other| reach[*other][*one])).collect();
        for one in direct {
            let beyond = reach[*one].clone();
            for (known, new) in reach[node].iter_mut().zip(beyond) {
                *known |= new;
            }
            reach[node][*one] = true;
        }
    }
    after
}

/// Everything behind what it waits for, otherwise as it was written. What waits for itself is left out; a plan has none.
fn ordered(after: &[Vec<usize>]) -> Vec<usize> {
    let mut missing: Vec<usize> = after.iter().map(Vec::len).collect();
    let dependents = dependents(after);
    let mut ready: std::collections::BTreeSet<usize> =
        missing.iter().enumerate().filter(|(_, missing)| **missing == 0).map(|(node, _)| node).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(node) = ready.pop_first() {
        order.push(node);
        for next in &dependents[node] {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.insert(*next);
            }
        }
    }
    order
}

fn dependents(after: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut dependents = vec![Vec::new(); after.len()];
    for (node, after) in after.iter().enumerate() {
        for one in after {
            dependents[*one].push(node);
        }
    }
    dependents
}

/// Branches below branches.
fn tree(after: &[Vec<usize>]) -> Vec<Row> {
    let dependents = dependents(after);
    let roots: Vec<usize> = (0..after.len()).filter(|node| after[*node].is_empty()).collect();
    let mut rows = Vec::with_capacity(after.len());
    // From behind, so that the first is taken first: the node, what stands before its branch, and the branch.
    let mut open: Vec<(usize, String, &str)> =
        roots.into_iter().rev().map(|root| (root, String::new(), "")).collect();
    while let Some((node, before, branch)) = open.pop() {
        let row = Row::of(node, format!("{before}{branch}{MARK}"));
        rows.push(Row { ragged: true, ..row });
        let below = match branch {
            "├─ " => format!("{before}│  "),
            "└─ " => format!("{before}   "),
            _ => before,
        };
        let last = dependents[node].last();
        for next in dependents[node].iter().rev() {
            open.push((*next, below.clone(), if Some(next) == last { "└─ " } else { "├─ " }));
        }
    }
    rows
}

/// One below the other, each with what it waits for.
fn listed(after: &[Vec<usize>]) -> Vec<Row> {
    let rows = ordered(after).into_iter().map(|node| {
        let row = Row::of(node, MARK.to_string());
        Row { after: after[node].clone(), ..row }
    });
    rows.collect()
}

/// Lanes that part below a node and meet above another; nothing when there would be too many of them.
fn lanes(after: &[Vec<usize>]) -> Option<Vec<Row>> {
    let dependents = dependents(after);
    let mut lanes: Vec<Option<usize>> = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    // The lane in which nothing goes on below the last node.
    let mut ended = None;
    for node in ordered(after) {
        let lane =
            lanes.iter().position(|target| *target == Some(node)).unwrap_or_else(|| free(&mut lanes, 0));
        if after[node].is_empty() && ended == Some(lane) {
            // One below the other would look as if the one waited for the other.
            rows.push(Row::line(&cells(&lanes, |i| if lanes[i].is_some() { '│' } else { ' ' })));
        }
        lanes[lane] = Some(node);
        let drawn = cells(&lanes, |i| match lanes[i] {
            _ if i == lane => MARK,
            Some(_) => '│',
            None => ' ',
        });
        rows.push(Row::of(node, drawn));
        lanes[lane] = None;
        let parted = part(&mut lanes, lane, &dependents[node]);
        if lanes.len() > MOST_LANES {
            return None;
        }
        ended = lanes.get(lane).is_none_or(Option::is_none).then_some(lane);
        if let Some(parted) = parted {
            ended = None;
            rows.push(parted);
        }
        while lanes.last() == Some(&None) {
            lanes.pop();
        }
    }
    Some(rows)
}

/// Leads from a node to what waits for it: down its own lane, into lanes that lead there already, and into new ones.
fn part(lanes: &mut Vec<Option<usize>>, from: usize, to: &[usize]) -> Option<Row> {
    let (mut joined, mut new) = (Vec::new(), Vec::new());
    for target in to {
        if let Some(lane) = lanes.iter().position(|known| known == &Some(*target)) {
            joined.push(lane);
        } else if lanes[from].is_none() {
            lanes[from] = Some(*target);
        } else {
            let lane = free(lanes, from + 1);
            lanes[lane] = Some(*target);
            new.push(lane);
        }
    }
    let others = || joined.iter().chain(&new).copied();
    let (first, last) = (others().min()?.min(from), others().max()?.max(from));
    let goes_on = lanes[from].is_some();
    let symbol = |i: usize| {
        let (left, right) = (i > first, i < last);
        match lanes[i] {
            _ if i == from => match (goes_on, left, right) {
                (true, true, true) => '┼',
                (true, true, false) => '┤',
                (true, false, _) => '├',
                (false, true, true) => '┴',
                (false, true, false) => '╯',
                (false, false, _) => '╰',
            },
            _ if joined.contains(&i) => match (left, right) {
                (true, true) => '┼',
                (true, false) => '┤',
                (false, _) => '├',
            },
            _ if new.contains(&i) => match (left, right) {
                (true, true) => '┬',
                (true, false) => '╮',
                (false, _) => '╭',
            },
            Some(_) => '│',
            None if left && right => '─',
            None => ' ',
        }
    };
    let mut drawn = String::new();
    for i in 0..lanes.len() {
        drawn.push(symbol(i));
        drawn.push(if i >= first && i < last { '─' } else { ' ' });
    }
    Some(Row::line(&drawn))
}

/// A lane that nobody uses, from there on.
fn free(lanes: &mut Vec<Option<usize>>, from: usize) -> usize {
    let known = lanes.iter().skip(from).position(Option::is_none).map(|place| place + from);
    known.unwrap_or_else(|| {
        lanes.push(None);
        lanes.len() - 1
    })
}

fn cells(lanes: &[Option<usize>], cell: impl Fn(usize) -> char) -> String {
    let drawn: String = (0..lanes.len()).flat_map(|i| [cell(i), ' ']).collect();
    drawn.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Span, Tone};

    /// The drawing of nodes that are named by a letter each, with what they wait for behind it.
    fn drawn(nodes: &str) -> String {
        let letters: Vec<&str> = nodes.split_whitespace().collect();
        let place = |letter: char| letters.iter().position(|node| node.starts_with(letter)).unwrap();
        let nodes = letters.iter().map(|node| GraphNode {
            name: node[..1].to_owned(),
            mark: '*',
            state: Span::new("", Tone::Plain),
            note: String::new(),
            after: node[1..].chars().map(place).collect(),
        });
        let graph = Graph { labels: Default::default(), nodes: nodes.collect() };
        super::graph(&graph, 80, false)
    }

    fn check(nodes: &str, drawing: &[&str]) {
        assert_eq!(drawn(nodes).lines().collect::<Vec<_>>(), drawing, "{nodes}");
    }

    /// R-T1: what branches is a tree.
    #[test]
    fn a_tree_is_drawn_as_one() {
        check("a ba ca dc", &["* a", "├─ * b", "└─ * c", "   └─ * d"]);
        check("a b", &["* a", "* b"]);
        // What is waited for anyway draws no line.
        check("a ba cab", &["* a", "└─ * b", "   └─ * c"]);
    }

    /// R-T1: a diamond parts and meets.
    #[test]
    fn a_diamond_is_drawn_as_one() {
        check("a ba ca dbc", &["*   a", "├─╮", "* │ b", "│ * c", "├─╯", "*   d"]);
    }

    /// R-T1: lines that cross do not meet, and what stands below another without waiting for it stands apart.
    #[test]
    fn lines_cross_and_join_where_they_should() {
        check(
            "a ba ca da ebc fd",
            &["*     a", "├─┬─╮", "* │ │ b", "│ * │ c", "├─╯ │", "│   * d", "*   │ e", "    * f"],
        );
        check(
            "a b cab d ed fd gef",
            &["*   a", "│ * b", "├─╯", "*   c", "", "*   d", "├─╮", "* │ e", "│ * f", "├─╯", "*   g"],
        );
        // The line from b to d passes under the one that leads to e.
        check(
            "a b c dab eac fde",
            &[
                "*     a",
                "├─╮",
                "│ │ * b",
                "├─│─╯",
                "│ │ * c",
                "│ ├─╯",
                "* │   d",
                "│ *   e",
                "├─╯",
                "*     f",
            ],
        );
    }

    /// R-T1: what is too wide to draw is listed, each with what it waits for.
    #[test]
    fn what_is_too_wide_is_listed() {
        let leaves: Vec<String> = ('b'..='m').map(|leaf| format!("{leaf}a")).collect();
        let joined: String = ('b'..='m').collect();
        let drawing = drawn(&format!("a {} z{joined}", leaves.join(" ")));
        assert!(!drawing.contains('├'), "{drawing}");
        assert_eq!(drawing.lines().last(), Some("* z  ← b, c, d, …"));
    }
}
