//! Delays as a file writes them.
//!
//! A policy's own backoff takes what it does not say from the policy it extends; a cause's backoff stands
//! for itself (R-P7). Both are read into the same fields first.

use std::time::Duration;

use super::Notes;
use super::file::LIST;
use super::node::Node;
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use crate::backoff::{Backoff, Curve, Multiplier};
use crate::duration::{human_duration, parse_duration};
use crate::jitter::{Factor, Jitter};
use crate::policy::{CurveKind, Override};

/// What a backoff in a file says; nothing is filled in.
#[derive(Debug, Default)]
pub(super) struct BackoffFields {
    curve: Option<String>,
    delays: Option<Vec<Duration>>,
    initial: Option<Duration>,
    increment: Option<Duration>,
    multiplier: Option<Multiplier>,
    cap: Option<Duration>,
    jitter: Option<Jitter>,
}

impl BackoffFields {
    pub(super) fn read(node: &Node) -> BackoffFields {
        let delays = either(node, "delays_ms", "delays");
        BackoffFields {
            // Delays and no type can only mean a list.
            curve: node
                .get("type")
                .and_then(Node::text)
                .or(delays.is_some().then_some(LIST))
                .map(str::to_owned),
            delays: delays.map(|delays| delays.items().iter().filter_map(any_duration).collect()),
            initial: duration(node, "initial_delay_ms", "initial_delay"),
            increment: duration(node, "increment_ms", "increment"),
            multiplier: node.get("multiplier").and_then(Node::number_value).and_then(Multiplier::new),
            cap: duration(node, "max_delay_ms", "max_delay"),
            jitter: node.get("jitter").and_then(jitter),
        }
    }

    /// As somebody's wish for single fields.
    pub(super) fn to_override(&self) -> Override {
        Override {
            curve: self.curve.as_deref().and_then(curve_kind),
            initial: self.initial,
            multiplier: self.multiplier,
            increment: self.increment,
            cap: self.cap,
            jitter: self.jitter,
            ..Override::default()
        }
    }

    /// The delays of a policy: what is not said is as in `base`.
    fn over(&self, base: &Backoff) -> Backoff {
        let mut backoff = self.to_override().apply_to(base);
        if self.curve.as_deref() == Some(LIST) {
            backoff.curve = self.list();
        }
        backoff
    }

    /// The delays of a cause: what is not said has the plainest value, the cap alone is the policy's.
    fn alone(&self, cap_of_policy: Duration) -> Backoff {
        let initial = self.initial.unwrap_or_default();
        let curve = match self.curve.as_deref().and_then(curve_kind) {
            Some(CurveKind::Exponential) => {
                Curve::Exponential { initial, multiplier: self.multiplier.unwrap_or(Multiplier::TWO) }
            }
            Some(CurveKind::Linear) => Curve::linear(initial, self.increment.unwrap_or(initial)),
            Some(CurveKind::Constant) => Curve::constant(initial),
            Some(CurveKind::Fibonacci) => Curve::fibonacci(initial),
            None => self.list(),
        };
        Backoff { curve, jitter: self.jitter.unwrap_or(Jitter::None), cap: self.cap.unwrap_or(cap_of_policy) }
    }

    fn list(&self) -> Curve {
        Curve::List(self.delays.as_deref().unwrap_or_default().into())
    }
}

/// The delays of a policy that extends another.
pub(super) fn read_over(node: &Node, base: &Backoff, path: &Path<'_>, notes: &mut Notes) -> Backoff {
    let backoff = BackoffFields::read(node).over(base);
    note_oddities(node, &backoff, path, notes);
    backoff
}

/// The delays of a cause.
pub(super) fn read_alone(
    node: &Node,
    cap_of_policy: Duration,
    path: &Path<'_>,
    notes: &mut Notes,
) -> Backoff {
    let backoff = BackoffFields::read(node).alone(cap_of_policy);
    note_oddities(node, &backoff, path, notes);
    backoff
}

/// What works, but hardly as meant: fields that the curve does not look at, and a cap below the first delay.
fn note_oddities(node: &Node, backoff: &Backoff, path: &Path<'_>, notes: &mut Notes) {
    let idle: &[&str] = match backoff.curve {
        Curve::Exponential { .. } => &["increment_ms", "increment", "delays_ms", "delays"],
        Curve::Linear { .. } => &["multiplier", "delays_ms", "delays"],
        Curve::Constant { .. } | Curve::Fibonacci { .. } => {
            &["multiplier", "increment_ms", "increment", "delays_ms", "delays"]
        }
        Curve::List(_) | Curve::Own(_) => {
            &["initial_delay_ms", "initial_delay", "multiplier", "increment_ms", "increment"]
        }
    };
    for (name, field) in node.fields().iter().filter(|(name, _)| idle.contains(&name.as_str())) {
        let kind = ProblemKind::NoEffect { curve: backoff.curve.name().to_owned() };
        notes.odd.add(field.at, &path.field(name), kind, Expected::Nothing);
    }
    if backoff.starts_above_cap() {
        let initial = human_duration(backoff.clone().with_cap(Duration::MAX).nominal(0));
        let cap = human_duration(backoff.cap);
        let kind = ProblemKind::InitialAboveCap { initial, cap: cap.clone() };
        notes.odd.add(node.at, path, kind, Expected::AtMost(cap));
    }
}

fn curve_kind(name: &str) -> Option<CurveKind> {
    // 002 says "fixed" where the rest of the world says "constant".
    if name == "fixed" { Some(CurveKind::Constant) } else { name.parse().ok() }
}

fn jitter(node: &Node) -> Option<Jitter> {
    if let Some(factor) = node.number_value() {
        // ± 0 is no jitter, and says so.
        return Factor::new(factor).map(|factor| match factor.as_f64() {
            0.0 => Jitter::None,
            _ => Jitter::PlusMinus(factor),
        });
    }
    match node.text() {
        Some("none") => return Some(Jitter::None),
        Some("full") => return Some(Jitter::Full),
        Some("decorrelated") => return Some(Jitter::Decorrelated),
        _ => {}
    }
    let factor = node.get("factor").and_then(Node::number_value).and_then(Factor::new)?;
    match node.get("mode").and_then(Node::text)? {
        "plus_minus" => Some(Jitter::PlusMinus(factor)),
        "additive" => Some(Jitter::Additive(factor)),
        _ => None,
    }
}

fn either<'a>(node: &'a Node, one: &str, other: &str) -> Option<&'a Node> {
    node.get(one).or_else(|| node.get(other))
}

/// A duration that is written in whole milliseconds under one name and with a unit under another.
pub(super) fn duration(node: &Node, in_millis: &str, with_unit: &str) -> Option<Duration> {
    either(node, in_millis, with_unit).and_then(any_duration)
}

fn any_duration(node: &Node) -> Option<Duration> {
    match node.text() {
        Some(text) => parse_duration(text).ok(),
        None => node.whole().and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis),
    }
}
