//! `__complete`: what may stand where the cursor is, asked by the shells while somebody types.
//!
//! Commands and flags come from the tree of arguments, ids and names from the store. It is silent, never fails, and gives
//! nothing rather than make anybody wait: a store that is locked, unreachable or not there has no candidates.

use std::ffi::OsString;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Arg, ArgAction, Command};
use redrive_policy::{Cause, skeleton};
use redrive_store::{EventStatus, GroupQuery, KeyQuery, KeyState, LetterFilter, StoreError, Timestamp};

use super::opened::{self, Opened};
use crate::escape::{cut, escape};
use crate::settings::place;
use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// The most that is offered.
const MOST: usize = 50;
/// The most letters that are looked at for ids that begin as typed.
const LOOKED_AT: u32 = 500;
/// How long the store has to answer.
const PATIENCE: Duration = Duration::from_millis(700);
/// How wide a description is.
const DESCRIBED: usize = 60;

/// Something that could be typed, and what it is.
type Candidate = (String, String);

/// What the word under the cursor may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Group,
    Run,
    Queue,
    Policy,
    Cause,
    EventStatus,
    Topic,
    Key,
    Endpoint,
    Schedule,
}

pub(super) fn run(words: &[OsString], stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut tree = crate::args::tree(stage.settings.lang);
    tree.build();
    for (value, description) in candidates(&tree, &words, stage).into_iter().take(MOST) {
        let description = cut(&escape(&description), DESCRIBED);
        // A name that could act on the terminal is nothing to complete with.
        if escape(&value) == value {
            writeln!(stage.stdout, "{value}\t{description}").map_err(Trouble::Output)?;
        }
    }
    Ok(Exit::Done)
}

/// Where the cursor stands.
struct Cursor<'a> {
    command: &'a Command,
    /// The names of the commands that lead there.
    path: Vec<&'a str>,
    /// The flag whose value is typed.
    flag: Option<&'a Arg>,
    /// How many values without a flag stand before it.
    positionals: usize,
    /// The store that the line names.
    store: Option<String>,
    /// Behind `--` stands somebody else's command.
    foreign: bool,
}

fn candidates(tree: &Command, words: &[String], stage: &Stage<'_>) -> Vec<Candidate> {
    let words = joined(words);
    let Some((typed, before)) = words.split_last() else { return Vec::new() };
    let cursor = walk(tree, before);
    if cursor.foreign {
        return Vec::new();
    }
    // `--queue=ma`: the value is offered with its flag.
    if let Some((flag, value)) = typed.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
        let Some(arg) = flag_named(cursor.command, flag) else { return Vec::new() };
        let values = values_of(arg, &cursor, value, stage);
        return values.into_iter().map(|(value, what)| (format!("{flag}={value}"), what)).collect();
    }
    if let Some(arg) = cursor.flag {
        return values_of(arg, &cursor, typed, stage);
    }
    if typed.starts_with('-') {
        return flags(cursor.command, typed);
    }
    let mut found = commands(cursor.command, typed);
    let positional = cursor.command.get_positionals().find(|arg| takes_more(arg, &cursor));
    if let Some(arg) = positional {
        found.extend(values_of(arg, &cursor, typed, stage));
    }
    found
}

/// bash takes `--queue=mail` apart into three words.
fn joined(words: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(words.len());
    let mut words = words.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let is_value = word == "=" && out.last().is_some_and(|flag| flag.starts_with("--"));
        if !is_value {
            out.push(word.clone());
        } else if words.peek().is_none() {
            out.push(String::new());
        }
    }
    out
}

fn walk<'a>(tree: &'a Command, words: &[String]) -> Cursor<'a> {
    let mut cursor =
        Cursor { command: tree, path: Vec::new(), flag: None, positionals: 0, store: None, foreign: false };
    for word in words {
        if let Some(flag) = cursor.flag.take() {
            if flag.get_id() == "store" {
                cursor.store = Some(word.clone());
            }
            // `enqueue --exec` takes the rest of the line.
            cursor.foreign |= flag.get_id() == "exec";
            continue;
        }
        if word == "--" {
            cursor.foreign = true;
        } else if let Some((flag, value)) = word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            if flag == "--store" {
                cursor.store = Some(value.to_owned());
            }
        } else if word.starts_with('-') {
            cursor.flag = flag_named(cursor.command, word).filter(|arg| takes_value(arg));
        } else if let Some(below) = cursor.command.find_subcommand(word) {
            cursor.command = below;
            cursor.path.push(below.get_name());
            cursor.positionals = 0;
        } else {
            cursor.positionals += 1;
        }
    }
    cursor
}

fn flag_named<'a>(command: &'a Command, written: &str) -> Option<&'a Arg> {
    let is = |arg: &&Arg| match written.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => written.chars().nth(1).is_some_and(|short| arg.get_short() == Some(short)),
    };
    command.get_arguments().find(is)
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn takes_more(arg: &Arg, cursor: &Cursor<'_>) -> bool {
    let many = matches!(arg.get_action(), ArgAction::Append);
    many || arg.get_index().is_some_and(|index| index > cursor.positionals)
}

fn commands(command: &Command, typed: &str) -> Vec<Candidate> {
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
    let about = |below: &Command| below.get_about().map(ToString::to_string).unwrap_or_default();
    shown
        .filter(|below| below.get_name().starts_with(typed))
        .map(|below| (below.get_name().to_owned(), about(below)))
        .collect()
}

fn flags(command: &Command, typed: &str) -> Vec<Candidate> {
    let help = |arg: &Arg| arg.get_help().map(ToString::to_string).unwrap_or_default();
    let long = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .filter_map(|arg| Some((arg.get_long()?, help(arg))));
    long.map(|(long, help)| (format!("--{long}"), help)).filter(|(flag, _)| flag.starts_with(typed)).collect()
}

/// What an argument's value may be; nothing when only the person knows.
fn values_of(arg: &Arg, cursor: &Cursor<'_>, typed: &str, stage: &Stage<'_>) -> Vec<Candidate> {
    let fixed: Vec<Candidate> =
        arg.get_possible_values().iter().map(|value| (value.get_name().to_owned(), String::new())).collect();
    let all = match kind_of(arg, &cursor.path) {
        None => fixed,
        Some(Kind::Cause) => {
            Cause::ALL.iter().map(|cause| (cause.name().to_owned(), String::new())).collect()
        }
        Some(Kind::EventStatus) => {
            EventStatus::ALL.iter().map(|status| (status.name().to_owned(), String::new())).collect()
        }
        Some(Kind::Policy) => match stage.settings.config() {
            Ok(config) => config.policy_names().into_iter().map(|name| (name, String::new())).collect(),
            Err(_) => Vec::new(),
        },
        Some(Kind::Topic) => {
            let mut tree = crate::args::tree(stage.settings.lang);
            tree.build();
            let topics = crate::topics::all(stage.settings.lang);
            let topics = topics.map(|(name, title)| (name.to_owned(), title.to_owned()));
            let mut all = commands(&tree, typed);
            all.extend(topics.filter(|(name, _)| tree.find_subcommand(name).is_none()));
            all
        }
        Some(kind) => live(kind, cursor, stage),
    };
    all.into_iter().filter(|(value, _)| value.starts_with(typed)).take(MOST).collect()
}

fn kind_of(arg: &Arg, path: &[&str]) -> Option<Kind> {
    let value =
        arg.get_value_names().and_then(<[_]>::first).map(clap::builder::Str::as_str).unwrap_or_default();
    match (value, arg.get_id().as_str()) {
        ("ID", "id" | "ids" | "job") => Some(Kind::Letter),
        ("FINGERPRINT", _) => Some(Kind::Group),
        ("REDRIVE", _) => Some(Kind::Run),
        (_, "queue") => Some(Kind::Queue),
        ("NAME", "name") if path.first() == Some(&"queue") => Some(Kind::Queue),
        ("NAME", "name") if path.first() == Some(&"policy") => Some(Kind::Policy),
        ("NAME", "name") if path.first() == Some(&"push") => Some(Kind::Endpoint),
        ("NAME", "name") if path.first() == Some(&"schedule") => Some(Kind::Schedule),
        (_, "policy") => Some(Kind::Policy),
        ("KEY|ID", _) => Some(Kind::Key),
        ("KEY", "key") if path.first() == Some(&"idempotency") => Some(Kind::Key),
        ("CAUSE", _) => Some(Kind::Cause),
        ("STATUS", _) => Some(Kind::EventStatus),
        ("COMMAND", _) if path == ["help"] => Some(Kind::Topic),
        _ => None,
    }
}

/// Candidates from the store. Asked on a thread of its own: whoever types does not wait for a lock or a network.
fn live(kind: Kind, cursor: &Cursor<'_>, stage: &Stage<'_>) -> Vec<Candidate> {
    let place = match &cursor.store {
        Some(url) => place(url, &stage.cwd),
        None => stage.settings.store_place(&stage.cwd),
    };
    let (Ok(place), Ok(keys)) = (place, stage.settings.keys(&stage.cwd)) else { return Vec::new() };
    let now = Timestamp::from_system(stage.now);
    let (answer, asked) = mpsc::channel();
    std::thread::spawn(move || {
        let found =
            opened::to_glance(&place, keys, PATIENCE, now).ok().and_then(|opened| ask(kind, &opened).ok());
        // Nobody may be waiting any more.
        let _ = answer.send(found.unwrap_or_default());
    });
    asked.recv_timeout(PATIENCE).unwrap_or_default()
}

fn ask(kind: Kind, opened: &Opened) -> Result<Vec<Candidate>, StoreError> {
    let store = &opened.store;
    opened.runtime.block_on(async {
        Ok(match kind {
            Kind::Letter => {
                let heads = store.letter_heads(LetterFilter::default(), LOOKED_AT, LOOKED_AT).await?.heads;
                let what = |cause: Cause, words: &str| format!("{}: {words}", cause.name());
                heads
                    .into_iter()
                    .map(|head| (head.id.to_string(), what(head.cause, &head.error_message)))
                    .collect()
            }
            Kind::Group => {
                let groups = store.groups(GroupQuery::default(), LOOKED_AT).await?;
                let what = |count: i64, sample: &str| format!("{count}× {}", skeleton(sample));
                groups
                    .into_iter()
                    .map(|group| (group.fingerprint, what(group.counts.letters, &group.sample)))
                    .collect()
            }
            Kind::Run => {
                let runs = store.runs(false, LOOKED_AT).await?;
                runs.into_iter().map(|run| (run.id.to_string(), run.state.name().to_owned())).collect()
            }
            Kind::Queue => {
                store.queues().await?.into_iter().map(|queue| (queue.name, String::new())).collect()
            }
            Kind::Key => {
                let keys = store.keys(KeyQuery { limit: LOOKED_AT, ..KeyQuery::default() }).await?;
                let what = |state: KeyState, endpoint: &str| format!("{}: {endpoint}", state.name());
                keys.into_iter().map(|one| (one.key, what(one.state, &one.endpoint))).collect()
            }
            Kind::Endpoint => {
                let Ok(engine) = opened.looker() else { return Ok(Vec::new()) };
                let endpoints = engine.push_endpoints().await.unwrap_or_default();
                endpoints.into_iter().map(|one| (one.name, one.queue)).collect()
            }
            Kind::Schedule => {
                let Ok(engine) = opened.looker() else { return Ok(Vec::new()) };
                let schedules = engine.schedules(None, LOOKED_AT).await.unwrap_or_default();
                let what = |cron: &str, zone: &str| format!("{cron} ({zone})");
                schedules.into_iter().map(|one| (one.name, what(one.cron.source(), &one.zone))).collect()
            }
            Kind::Policy | Kind::Cause | Kind::EventStatus | Kind::Topic => Vec::new(),
        })
    })
}
