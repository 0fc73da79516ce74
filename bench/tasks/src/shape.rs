//! Plans to be measured: the same for everybody who measures.

use std::path::Path;

use redrive::CommandSpec;
use redrive_policy::plan::{CommandWork, HintBy, Plan, Recovery, Subtask, Work};
use redrive_store::NewJob;
use serde_json::Value;

/// How many dependencies each subtask has, where there are so many others before it.
const DEPENDENCIES: u32 = 5;

/// Who depends on whom, and what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Each depends on five that were chosen at random among those before it.
    Random,
    /// Each depends on the one before it.
    Chain,
    /// None depends on another.
    Apart,
    /// None depends on another, and each is a process.
    Commands,
}

impl Shape {
    pub fn named(name: &str) -> Option<Shape> {
        match name {
            "random" => Some(Shape::Random),
            "chain" => Some(Shape::Chain),
            "apart" => Some(Shape::Apart),
            "commands" => Some(Shape::Commands),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Shape::Random => "random, 5 each",
            Shape::Chain => "a chain",
            Shape::Apart => "apart",
            Shape::Commands => "apart, `true`",
        }
    }

    pub fn plan(self, subtasks: u32, parallel: u32) -> Plan {
        let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
        let subtasks = (0..subtasks).map(|number| self.subtask(number, &mut chance)).collect();
        Plan { name: "measured".to_owned(), parallel, queue: None, recovery: Recovery::default(), subtasks }
    }

    fn subtask(self, number: u32, chance: &mut u64) -> Subtask {
        let depends_on = match self {
            Shape::Random => some_before(number, chance),
            Shape::Chain => number.checked_sub(1).into_iter().collect(),
            Shape::Apart | Shape::Commands => Vec::new(),
        };
        let work = match self {
            Shape::Commands => Work::Command(CommandWork {
                argv: vec!["true".to_owned()],
                cwd: None,
                env: std::collections::BTreeMap::new(),
                stdin: None,
                hint: HintBy::Env,
            }),
            Shape::Random | Shape::Chain | Shape::Apart => {
                Work::Handler { kind: "nothing".to_owned(), payload: Value::from(number) }
            }
        };
        Subtask {
            id: Some(format!("step-{number}")),
            work,
            depends_on,
            blames: Vec::new(),
            timeout_ms: None,
            policy: None,
            overrides: None,
            snapshot: None,
            review: None,
            recovery: None,
        }
    }

    /// The same work as a job of its own.
    pub fn job(self, number: u32, folder: &Path) -> NewJob {
        match self {
            Shape::Commands => {
                let spec = CommandSpec {
                    argv: vec!["true".into()],
                    cwd: Some(folder.to_owned()),
                    ..CommandSpec::default()
                };
                NewJob::new("exec", spec.to_payload())
            }
            Shape::Random | Shape::Chain | Shape::Apart => {
                NewJob::new("nothing", number.to_string().into_bytes())
            }
        }
    }
}

fn some_before(number: u32, chance: &mut u64) -> Vec<u32> {
    let mut chosen = Vec::new();
    while chosen.len() < DEPENDENCIES.min(number) as usize {
        *chance ^= *chance << 13;
        *chance ^= *chance >> 7;
        *chance ^= *chance << 17;
        let one = u32::try_from(*chance % u64::from(number)).expect("below a u32");
        if !chosen.contains(&one) {
            chosen.push(one);
        }
    }
    chosen
}
