//! A single subtask of a plan: what it does, and what it takes from the plan where it is silent.

use std::collections::BTreeMap;

use serde_json::json;

use super::Notes;
use super::file::MAX_DELAY_MS;
use super::node::{Node, Value};
use super::path::Path;
use super::problem::{Expected, ProblemKind};
use super::read_backoff::duration;
use super::read_policy::{named, texts};
use super::read_review;
use super::task::TaskRetryOverride;
use super::words::shown;
use crate::plan::roots::{apart, plain};
use crate::plan::{CommandWork, HintBy, SnapshotPlan, Subtask, Work};
use crate::review::ReviewPlan;
use crate::size::parse_size;

/// What subtasks have that say nothing else.
pub(super) struct Defaults {
    timeout_ms: Option<u64>,
    policy: Option<String>,
    snapshot: Option<SnapshotPlan>,
    review: Option<ReviewPlan>,
}

impl Defaults {
    pub(super) fn read(plan: &Node, notes: &mut Notes) -> Defaults {
        Defaults {
            timeout_ms: timeout(plan, &Path::Top, notes),
            policy: plan.get("policy").and_then(Node::text).map(str::to_owned),
            snapshot: plan.get("snapshot").and_then(snapshot),
            review: plan.get("review").and_then(review),
        }
    }
}

/// Everything but what it depends on and blames, which takes the other subtasks to read.
pub(super) fn read_subtask(node: &Node, defaults: &Defaults, path: &Path<'_>, notes: &mut Notes) -> Subtask {
    let text = |field: &str| node.get(field).and_then(Node::text).map(str::to_owned);
    let work = read_work(node, path, notes);
    let is_command = matches!(work, Work::Command(_));
    if let Some(wish) = node.get("overrides") {
        // What is read is kept as it is written; only its mistakes and oddities are wanted.
        TaskRetryOverride::read_wish(Some(wish), &path.field("overrides"), notes);
    }
    Subtask {
        id: text("id"),
        depends_on: Vec::new(),
        blames: Vec::new(),
        timeout_ms: timeout(node, path, notes).or(defaults.timeout_ms),
        policy: text("policy").or_else(|| defaults.policy.clone()),
        overrides: node.get("overrides").map(Node::to_json),
        snapshot: match node.get("snapshot") {
            Some(own) => snapshot(own),
            None => defaults.snapshot.clone().filter(|_| is_command),
        },
        review: match node.get("review") {
            Some(own) => review(own),
            None => defaults.review.clone().filter(|_| is_command),
        },
        recovery: named(node, "recovery"),
        work,
    }
}

fn read_work(node: &Node, path: &Path<'_>, notes: &mut Notes) -> Work {
    if let Some(http) = node.get("http") {
        return Work::Http(read_http(http, &path.field("http"), notes));
    }
    if let Some(kind) = node.get("handler").and_then(Node::text) {
        let payload = node.get("payload").map_or(serde_json::Value::Null, Node::to_json);
        return Work::Handler { kind: kind.to_owned(), payload };
    }
    if let Some(Node { value: Value::List(argv), .. }) = node.get("command")
        && let Some(program) = argv.first().filter(|program| program.text() == Some(""))
    {
        let path = path.field("command");
        notes.wrong.add(
            program.at,
            &path.item(0),
            ProblemKind::Empty,
            Expected::Raw { min_chars: 1, max_chars: 4_096 },
        );
    }
    let argv = node.get("command").map(read_review::command).unwrap_or_default();
    if let Some(command) = node.get("command").filter(|_| is_script_with_hint(&argv)) {
        notes.wrong.add(command.at, &path.field("command"), ProblemKind::HintInScript, Expected::HintApart);
    }
    let variables = node.get("env").map(Node::fields).unwrap_or_default();
    let env: BTreeMap<String, String> =
        variables.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned()))).collect();
    Work::Command(CommandWork {
        argv,
        cwd: node.get("cwd").and_then(Node::text).map(str::to_owned),
        env,
        stdin: node.get("stdin").and_then(Node::text).map(str::to_owned),
        hint: named(node, "hint").unwrap_or(HintBy::Env),
    })
}

/// Whether a shell is given a script in which `{hint}` stands. What an attempt is told quotes the output of the one before,
/// and nobody's output may end up as commands.
fn is_script_with_hint(argv: &[String]) -> bool {
    const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "busybox"];
    let program = argv.first().and_then(|program| program.rsplit('/').next()).unwrap_or_default();
    let takes_script = |flag: &String| flag.starts_with('-') && !flag.starts_with("--") && flag.contains('c');
    let script = argv.iter().position(takes_script).and_then(|flag| argv.get(flag + 1));
    SHELLS.contains(&program) && script.is_some_and(|script| script.contains("{hint}"))
}

/// In the form of an http job's payload: headers are a list of pairs there.
fn read_http(node: &Node, path: &Path<'_>, notes: &mut Notes) -> serde_json::Value {
    let text = |field: &str| node.get(field).and_then(Node::text);
    let mut headers: Vec<serde_json::Value> = Vec::new();
    match node.get("headers").map(|headers| &headers.value) {
        Some(Value::Table(fields)) => {
            headers.extend(fields.iter().map(|(name, value)| json!([name, value.to_json()])));
        }
        Some(Value::List(pairs)) => {
            for (i, pair) in pairs.iter().enumerate() {
                if pair.items().len() > 2 {
                    let kind = ProblemKind::TooMany { given: pair.items().len() };
                    let path = path.field("headers");
                    notes.wrong.add(pair.at, &path.item(i), kind, Expected::UpTo { max: 2 });
                }
                headers.push(pair.to_json());
            }
        }
        _ => {}
    }
    let mut call = json!({"method": text("method").unwrap_or("GET"), "url": text("url").unwrap_or_default()});
    if !headers.is_empty() {
        call["headers"] = headers.into();
    }
    if let Some(body) = node.get("body") {
        call["body"] = body.to_json();
    }
    call
}

/// How long an attempt may take. None at all is a mistake: it would fail before it began.
fn timeout(node: &Node, path: &Path<'_>, notes: &mut Notes) -> Option<u64> {
    let given = duration(node, "timeout", "timeout")?;
    let millis = u64::try_from(given.as_millis()).ok()?;
    if millis == 0 {
        let at = node.get("timeout").map_or(node.at, |timeout| timeout.at);
        let kind = ProblemKind::TooSmall { given: node.get("timeout").map(shown).unwrap_or_default() };
        notes.wrong.add(at, &path.field("timeout"), kind, Expected::Duration { max_ms: MAX_DELAY_MS });
    }
    Some(millis)
}

/// `None` where it is turned off.
fn snapshot(node: &Node) -> Option<SnapshotPlan> {
    let roots = |roots: &Node| apart(&texts(roots).iter().map(|root| plain(root)).collect::<Vec<_>>());
    match &node.value {
        Value::Text(_) | Value::List(_) => {
            Some(SnapshotPlan { roots: roots(node), ..SnapshotPlan::default() })
        }
        Value::Table(_) => Some(SnapshotPlan {
            roots: node.get("roots").map(roots).unwrap_or_default(),
            ignore: node.get("ignore").map(texts).unwrap_or_default(),
            max_bytes: node.get("max_size").and_then(|size| match size.text() {
                Some(text) => parse_size(text).ok(),
                None => u64::try_from(size.whole()?).ok(),
            }),
            max_entries: node
                .get("max_files")
                .and_then(Node::whole)
                .and_then(|most| u64::try_from(most).ok()),
        }),
        _ => None,
    }
}

/// `None` where it is turned off. `true` is the review that the configuration describes, which an empty one stands for.
fn review(node: &Node) -> Option<ReviewPlan> {
    match &node.value {
        Value::Bool(true) => Some(ReviewPlan::default()),
        Value::Table(_) => Some(read_review::read(node)),
        _ => None,
    }
}
