//! A plan as a file writes it becomes a [`Plan`] (R-T1), or errors that name the place.
//!
//! The shape is checked as that of a configuration is. What no shape can say is noted here: ids that must be unique,
//! dependencies that must exist and lead nowhere back, faults that can only lie upstream. Each step grows with the
//! size of the file and no faster.

use std::collections::{HashMap, HashSet};

use super::node::{Node, Value};
use super::path::Path;
use super::plan_file::{AUTO, PLAN};
use super::problem::{ConfigError, Expected, Problem, ProblemKind};
use super::read_policy::named;
use super::read_subtask::{Defaults, read_subtask};
use super::shape::Shape;
use super::words::short;
use super::{Format, Notes, check, schema};
use crate::graph::{Graph, Links};
use crate::nearest::nearest;
use crate::plan::roots::sharing;
use crate::plan::{DEFAULT_PARALLEL, MAX_SUBTASKS, Plan, Recovery, Subtask};

/// What a plan is called when neither it nor its file has a name.
const NAMELESS: &str = "task";
/// How many ids an error lists before it just says what they are.
const LISTED_IDS: usize = 12;
/// How many names are compared with misspelt ones, all in all. Past that nobody is told what they meant.
const COMPARED: usize = 300_000;

impl Plan {
    /// Reads a plan, and says what is odd about it. `file` is the name that errors blame, and without its ending what
    /// the plan is called unless it says so itself.
    ///
    /// ```
    /// use redrive_policy::{Format, plan::Plan};
    ///
    /// let source = "[[subtasks]]\nid = 'build'\ncommand = 'make'\n\n[[subtasks]]\nid = 'test'\ncommand = 'make test'\n";
    /// let (plan, warnings) = Plan::parse(source, Format::Toml, "release.toml").unwrap();
    /// assert_eq!((plan.name.as_str(), plan.subtasks.len(), warnings.len()), ("release", 2, 0));
    ///
    /// let wrong = format!("{source}depends_on = 'bild'\n");
    /// assert_eq!(
    ///     Plan::parse(&wrong, Format::Toml, "release.toml").unwrap_err().to_string(),
    ///     "release.toml:8:1: subtasks[1].depends_on: \"bild\" is no subtask (did you mean build?); allowed: build"
    /// );
    /// ```
    pub fn parse(source: &str, format: Format, file: &str) -> Result<(Plan, Vec<Problem>), ConfigError> {
        let failed = |problems| ConfigError { file: file.to_owned(), problems };
        let node = match Node::parse(source, format) {
            Ok(Some(node)) => node,
            // Nothing at all is a table with nothing in it, whose fields are then missed by name.
            Ok(None) => Node::from_json(&serde_json::json!({})),
            Err(problem) => return Err(failed(vec![*problem])),
        };
        let mut notes = Notes::default();
        let plan = read(&node, file, &mut notes);
        check::check(&node, &Shape::Table(&PLAN), &Path::Top, &mut notes.wrong);
        if notes.wrong.is_empty() {
            Ok((plan, notes.odd.placed(source, format)))
        } else {
            Err(failed(notes.wrong.placed(source, format)))
        }
    }

    /// The JSON Schema (draft 2020-12) of a plan.
    pub fn schema() -> serde_json::Value {
        schema::schema_of(&PLAN, "redrive plan")
    }
}

fn read(node: &Node, file: &str, notes: &mut Notes) -> Plan {
    let field = if node.get("subtasks").is_some() { "subtasks" } else { "subtask" };
    let items: &[Node] = match node.get(field).map(|list| &list.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    };
    let top = Path::Top.field(field);
    if let (Some(list), true) = (node.get(field), items.len() > MAX_SUBTASKS) {
        let kind = ProblemKind::TooMany { given: items.len() };
        notes.wrong.add(list.at, &top, kind, Expected::UpTo { max: MAX_SUBTASKS });
        return Plan {
            name: String::new(),
            parallel: 1,
            queue: None,
            recovery: Recovery::default(),
            subtasks: Vec::new(),
        };
    }
    let text = |field: &str| node.get(field).and_then(Node::text).map(str::to_owned);
    let defaults = Defaults::read(node, notes);
    let numbered = items.iter().enumerate();
    let mut subtasks: Vec<Subtask> =
        numbered.map(|(i, item)| read_subtask(item, &defaults, &top.item(i), notes)).collect();
    Names::read(items, &top, notes).link(&mut subtasks, notes);
    let parallel = node.get("parallel").and_then(Node::whole).and_then(|whole| u32::try_from(whole).ok());
    Plan {
        name: text("name").unwrap_or_else(|| name_of(file)),
        parallel: parallel.unwrap_or(DEFAULT_PARALLEL),
        queue: text("queue"),
        recovery: node.get("recovery").map(read_recovery).unwrap_or_default(),
        subtasks,
    }
}

/// The file's name without its folder and its ending.
fn name_of(file: &str) -> String {
    let stem = std::path::Path::new(file).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if stem.is_empty() || stem == "-" { NAMELESS.to_owned() } else { stem.to_owned() }
}

fn read_recovery(node: &Node) -> Recovery {
    let default = Recovery::default();
    let rounds = node.get("rounds").and_then(Node::whole).and_then(|whole| u32::try_from(whole).ok());
    Recovery {
        strategy: named(node, "strategy").filter(|_| node.get("strategy").and_then(Node::text) != Some(AUTO)),
        rounds: rounds.unwrap_or(default.rounds),
        on_escalate: named(node, "on_escalate").unwrap_or(default.on_escalate),
    }
}

/// The subtasks of a file and what they are called.
struct Names<'a> {
    items: &'a [Node],
    top: &'a Path<'a>,
    called: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl<'a> Names<'a> {
    /// Notes ids that are taken.
    fn read(items: &'a [Node], top: &'a Path<'a>, notes: &mut Notes) -> Names<'a> {
        let mut called = Vec::with_capacity(items.len());
        let mut numbers: HashMap<String, u32> = HashMap::with_capacity(items.len());
        for (i, item) in (0_u32..).zip(items) {
            let path = top.item(i as usize);
            let id = item.get("id").filter(|id| id.text().is_some());
            let name = match id.and_then(Node::text) {
                Some(id) => id.to_owned(),
                None => Plan::unnamed(i),
            };
            let (at, path) = id.map_or((item.at, path), |id| (id.at, path.field("id")));
            if let Some(first) = numbers.get(&name) {
                let first_path = top.item(*first as usize);
                let has_id = items[*first as usize].get("id").is_some();
                let first = if has_id { first_path.field("id").to_string() } else { first_path.to_string() };
                let kind = ProblemKind::SameId { id: short(&name), first };
                notes.wrong.add(at, &path, kind, Expected::Once);
            } else {
                numbers.insert(name.clone(), i);
            }
            if id.is_some() && is_ours(&name) {
                let expected = Expected::AnyNameBut(vec!["task-<n>-sub-<n>".to_owned()]);
                notes.wrong.add(at, &path, ProblemKind::Reserved { name: name.clone() }, expected);
            }
            called.push(name);
        }
        Names { items, top, called, numbers }
    }

    /// Turns names into numbers and notes those that lead nowhere, back, or astray.
    fn link(&self, subtasks: &mut [Subtask], notes: &mut Notes) {
        let mut compared = 0;
        let mut blames: Vec<(u32, u32, usize)> = Vec::new();
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (i, subtask) in (0_u32..).zip(subtasks.iter_mut()) {
            let field = self.dependency_field(i);
            for (j, to) in self.resolve(i, field, &mut compared, notes) {
                if to == i {
                    let kind = ProblemKind::WaitsForItself { id: self.shown(i) };
                    self.add(i, field, j, kind, Expected::NoCircle, notes);
                } else {
                    edges.push((i, to));
                    subtask.depends_on.push(to);
                }
            }
            for (j, to) in self.resolve(i, "blames", &mut compared, notes) {
                blames.push((i, to, j));
                subtask.blames.push(to);
            }
        }
        match Graph::of_links(Links::new(subtasks.len(), edges)) {
            Err(circles) => circles.iter().for_each(|circle| self.note_circle(circle, notes)),
            Ok(graph) => {
                let pairs: Vec<(u32, u32)> = blames.iter().map(|(from, to, _)| (*from, *to)).collect();
                for stranger in graph.strangers(&pairs) {
                    let (from, to, j) = blames[stranger];
                    let kind = ProblemKind::BlamesStranger { id: self.shown(from), blamed: self.shown(to) };
                    self.add(from, "blames", j, kind, Expected::Dependency, notes);
                }
                self.note_sharing(&graph, subtasks, notes);
            }
        }
    }

    /// The numbers that a field of `i` names, each once, with where it stands in the field.
    fn resolve(&self, i: u32, field: &str, compared: &mut usize, notes: &mut Notes) -> Vec<(usize, u32)> {
        let Some(node) = self.items[i as usize].get(field) else { return Vec::new() };
        let mut seen = HashSet::new();
        let mut numbers = Vec::new();
        for (j, item) in node.items().iter().enumerate() {
            let Some(name) = item.text() else { continue };
            match self.numbers.get(name) {
                Some(to) if seen.insert(*to) => numbers.push((j, *to)),
                Some(_) => {
                    let kind = ProblemKind::GivenTwice { name: short(name) };
                    let path = self.top.item(i as usize);
                    notes.odd.add(item.at, &path.field(field).item(j), kind, Expected::Once);
                }
                None => {
                    *compared += self.called.len();
                    let others = || self.called.iter().filter(|other| **other != self.called[i as usize]);
                    let meant = (*compared <= COMPARED)
                        .then(|| nearest(name, others().map(String::as_str)).map(str::to_owned));
                    let listed = if self.called.len() <= LISTED_IDS + 1 {
                        others().cloned().collect()
                    } else {
                        Vec::new()
                    };
                    let given = format!("\"{}\"", short(name));
                    let kind = ProblemKind::NoSubtask { given, meant: meant.flatten() };
                    self.add(i, field, j, kind, Expected::OtherSubtask(listed), notes);
                }
            }
        }
        numbers
    }

    /// Notes something about the item of a field, or about its only value.
    fn add(&self, i: u32, field: &str, j: usize, kind: ProblemKind, expected: Expected, notes: &mut Notes) {
        let path = self.top.item(i as usize);
        let path = path.field(field);
        let Some(node) = self.items[i as usize].get(field) else { return };
        match &node.value {
            Value::List(items) => {
                notes.wrong.add(items.get(j).map_or(node.at, |item| item.at), &path.item(j), kind, expected);
            }
            _ => notes.wrong.add(node.at, &path, kind, expected),
        }
    }

    fn note_circle(&self, circle: &[u32], notes: &mut Notes) {
        let [from, to, ..] = *circle else { return };
        let field = self.dependency_field(from);
        let items = self.items[from as usize].get(field).map(Node::items).unwrap_or_default();
        let name = Some(self.called[to as usize].as_str());
        let j = items.iter().position(|item| item.text() == name).unwrap_or_default();
        let names = circle.iter().map(|i| self.shown(*i)).collect();
        self.add(from, field, j, ProblemKind::Circle { names }, Expected::NoCircle, notes);
    }

    /// One warning is enough: it says what happens, whatever the number of pairs.
    fn note_sharing(&self, graph: &Graph, subtasks: &[Subtask], notes: &mut Notes) {
        let roots_of: Vec<(u32, &[String])> = (0_u32..)
            .zip(subtasks)
            .filter_map(|(i, subtask)| Some((i, subtask.snapshot.as_ref()?.roots.as_slice())))
            .collect();
        let Some((first, second, root)) = sharing(graph, &roots_of) else { return };
        let root = format!("\"{}\"", short(root));
        let both = Box::new([first, second].map(|i| self.shown(i)));
        let kind = ProblemKind::SharedFiles { root, both };
        let item = &self.items[second as usize];
        let path = self.top.item(second as usize);
        let (at, path) = item.get("snapshot").map_or((item.at, path), |own| (own.at, path.field("snapshot")));
        notes.odd.add(at, &path, kind, Expected::OwnFiles);
    }

    fn dependency_field(&self, i: u32) -> &'static str {
        let item = &self.items[i as usize];
        if item.get("depends_on").is_none() && item.get("dependencies").is_some() {
            "dependencies"
        } else {
            "depends_on"
        }
    }

    fn shown(&self, i: u32) -> String {
        short(&self.called[i as usize])
    }
}

/// Whether a name has the form that subtasks without one get in the store.
fn is_ours(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix("task-").and_then(|rest| rest.split_once("-sub-"));
    numbers.is_some_and(|(task, subtask)| digits(task) && digits(subtask))
}
