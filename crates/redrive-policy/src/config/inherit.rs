//! Who extends whom: every policy of a file, each after the one that it builds on.
//!
//! `extends` names a preset or any other policy of the file, before or after it, and is `standard` where it
//! is not said; the file's own `standard` is its `retry` section. A policy that has a preset's name and
//! extends that name builds on the preset. Chains are followed with a stack of our own, so that a file with
//! a hundred thousand links is slow and not fatal.

use std::collections::{BTreeMap, HashMap};

use super::Notes;
use super::file::NOTHING;
use super::node::Node;
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_policy::read_policy;
use super::words::short;
use crate::cause::CauseSet;
use crate::nearest::nearest;
use crate::policy::{Policy, PolicySpec};
use crate::presets::{self, PRESETS};

/// A policy that the file speaks of.
#[derive(Clone, Copy)]
struct Draft<'a> {
    name: &'a str,
    node: &'a Node,
    is_retry: bool,
}

enum Base {
    Spec(Box<PolicySpec>),
    Draft(usize),
}

enum State {
    Untouched,
    Open,
    Done(Box<PolicySpec>),
}

/// The policies of a file by name.
pub(super) fn read_policies(file: &Node, notes: &mut Notes) -> BTreeMap<String, Policy> {
    let drafts = drafts(file, notes);
    let index: HashMap<&str, usize> = drafts.iter().enumerate().map(|(i, draft)| (draft.name, i)).collect();
    let mut states: Vec<State> = drafts.iter().map(|_| State::Untouched).collect();
    for start in 0..drafts.len() {
        let mut stack = vec![start];
        while let Some(&top) = stack.last() {
            if matches!(states[top], State::Done(_)) {
                stack.pop();
                continue;
            }
            states[top] = State::Open;
            let base = match base_of(&drafts[top], &index) {
                Some(Base::Spec(spec)) => spec,
                Some(Base::Draft(other)) => match &states[other] {
                    State::Done(spec) => spec.clone(),
                    State::Untouched => {
                        stack.push(other);
                        continue;
                    }
                    State::Open => {
                        note_cycle(&drafts, &stack, other, notes);
                        bare("standard")
                    }
                },
                None => {
                    note_unknown_base(&drafts, top, notes);
                    bare("standard")
                }
            };
            let draft = &drafts[top];
            let spec = draft.at(|path| read_policy(draft.name, draft.node, *base, path, notes));
            states[top] = State::Done(Box::new(spec));
            stack.pop();
        }
    }
    let specs = states.into_iter().filter_map(|state| match state {
        State::Done(spec) => Some(*spec),
        State::Untouched | State::Open => None,
    });
    specs.map(|spec| (spec.name.clone(), Policy::from(spec))).collect()
}

/// A single policy, outside of any file. It can extend presets only, its own name's included.
pub(super) fn read_alone(name: &str, node: &Node, notes: &mut Notes) -> PolicySpec {
    let extends = node.get("extends").and_then(Node::text).unwrap_or("standard");
    if let Some(preset) = Policy::preset(extends) {
        return read_policy(name, node, (*preset).clone(), &Path::Top, notes);
    }
    if extends != NOTHING {
        let (kind, expected) = unknown_policy(extends, PRESETS, Some(NOTHING));
        let at = node.get("extends").map_or(node.at, |extends| extends.at);
        notes.wrong.add(at, &Path::Top.field("extends"), kind, expected);
    }
    read_policy(name, node, *bare(name), &Path::Top, notes)
}

fn drafts<'a>(file: &'a Node, notes: &mut Notes) -> Vec<Draft<'a>> {
    let retry = file.get("retry").map(|node| Draft { name: "standard", node, is_retry: true });
    let mut drafts: Vec<Draft<'a>> = retry.into_iter().collect();
    for (name, node) in file.get("policies").map(Node::fields).unwrap_or_default() {
        let draft = Draft { name, node, is_retry: false };
        if retry.is_some() && name == "standard" {
            let expected = Expected::JustOne(vec!["retry".to_owned(), "policies.standard".to_owned()]);
            draft.at(|path| notes.wrong.add(node.at, path, ProblemKind::RetryIsStandard, expected));
        } else {
            drafts.push(draft);
        }
    }
    drafts
}

impl<'a> Draft<'a> {
    fn extends(&self) -> &'a str {
        self.node.get("extends").and_then(Node::text).unwrap_or("standard")
    }

    /// Does something at this policy's place in the file.
    fn at<T>(&self, act: impl FnOnce(&Path<'_>) -> T) -> T {
        if self.is_retry {
            act(&Path::Top.field("retry"))
        } else {
            act(&Path::Top.field("policies").field(self.name))
        }
    }

    fn note(&self, kind: ProblemKind, expected: Expected, notes: &mut Notes) {
        let at = self.node.get("extends").map_or(self.node.at, |extends| extends.at);
        self.at(|path| notes.wrong.add(at, &path.field("extends"), kind, expected));
    }
}

fn base_of(draft: &Draft<'_>, index: &HashMap<&str, usize>) -> Option<Base> {
    let name = draft.extends();
    if name == NOTHING {
        return Some(Base::Spec(bare("standard")));
    }
    let preset = || Policy::preset(name).map(|policy| Base::Spec(Box::new((*policy).clone())));
    let own = index.get(name).copied().map(Base::Draft);
    if name == draft.name { preset().or(own) } else { own.or_else(preset) }
}

/// 002's numbers without 002's entries for single causes.
pub(super) fn bare(name: &str) -> Box<PolicySpec> {
    Box::new(PolicySpec { entries: Vec::new(), ..presets::standard(name, CauseSet::NONE) })
}

fn note_cycle(drafts: &[Draft<'_>], stack: &[usize], back_to: usize, notes: &mut Notes) {
    // A way round of a thousand names helps nobody.
    const SHOWN: usize = 8;
    let round = stack.iter().skip_while(|i| **i != back_to);
    let mut names: Vec<String> = round.take(SHOWN).map(|i| short(drafts[*i].name)).collect();
    names.push(if names.len() == SHOWN { "…".to_owned() } else { short(drafts[back_to].name) });
    if let Some(last) = stack.last() {
        drafts[*last].note(ProblemKind::Cycle { names }, Expected::NoCycle, notes);
    }
}

fn note_unknown_base(drafts: &[Draft<'_>], top: usize, notes: &mut Notes) {
    let given = drafts[top].extends();
    let own = drafts.iter().map(|draft| draft.name).filter(|name| !PRESETS.contains(name));
    let known: Vec<&str> = PRESETS.iter().copied().chain(own).collect();
    let (kind, expected) = unknown_policy(given, &known, Some(NOTHING));
    drafts[top].note(kind, expected, notes);
}

/// A policy's name that nobody knows, and those that somebody does: in a file with thousands, the first few.
pub(super) fn unknown_policy(given: &str, known: &[&str], also: Option<&str>) -> (ProblemKind, Expected) {
    const SEARCHED: usize = 200;
    const SHOWN: usize = 24;
    let meant = nearest(given, known.iter().copied().take(SEARCHED)).map(str::to_owned);
    let kind = ProblemKind::UnknownName { given: format!("\"{}\"", short(given)), meant };
    let more = (known.len() > SHOWN).then_some("…");
    let names = known.iter().copied().take(SHOWN).chain(more).chain(also).map(short).collect();
    (kind, Expected::OneOf(names))
}
