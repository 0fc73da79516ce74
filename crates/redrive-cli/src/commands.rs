//! One file per verb. A command does its work and returns a value; what it says on the way goes to `talk`.

mod classify;
mod classify_corpus;
mod classify_jsonl;
mod config;
mod config_check;
mod demo;
mod policy_delays;
mod policy_explain;
mod policy_list;
mod policy_show;

use redrive_policy::PolicyWarning;

use crate::args::{Args, Command, ConfigCommand, PolicyCommand};
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::View;
use crate::{Exit, Stage, help, render};

/// Runs the command that was asked for.
pub(crate) fn run(args: Args, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let group = |name: &str| vec![name.to_owned()];
    match args.command {
        None => help::show(&[], stage),
        Some(Command::Help { command }) => help::show(&command, stage),
        Some(Command::Classify(args)) if args.jsonl => classify_jsonl::run(stage),
        Some(Command::Classify(args)) if !args.corpus.is_empty() => {
            let (view, exit) = classify_corpus::run(&args.corpus, stage)?;
            shown(&view, exit, stage)
        }
        Some(Command::Classify(args)) => {
            let view = classify::run(&args, stage)?;
            shown(&view, Exit::Done, stage)
        }
        Some(Command::Policy { command }) => match command {
            None => help::show(&group("policy"), stage),
            Some(PolicyCommand::List) => {
                let view = policy_list::run(stage)?;
                shown(&view, Exit::Done, stage)
            }
            Some(PolicyCommand::Show { name }) => {
                let view = policy_show::run(&name, stage)?;
                shown(&view, Exit::Done, stage)
            }
            Some(PolicyCommand::Check { file }) => check(Some(&file), stage),
            Some(PolicyCommand::Explain(args)) => {
                let view = policy_explain::run(&args, stage)?;
                shown(&view, Exit::Done, stage)
            }
            Some(PolicyCommand::Delays(args)) => {
                let view = policy_delays::run(&args, stage)?;
                shown(&view, Exit::Done, stage)
            }
        },
        Some(Command::Config { command }) => match command {
            None => help::show(&group("config"), stage),
            Some(ConfigCommand::Show { origin }) => {
                let view = config::show(origin, stage)?;
                shown(&view, Exit::Done, stage)
            }
            Some(ConfigCommand::Check { file }) => check(file.as_deref(), stage),
            Some(ConfigCommand::Schema) => config::schema(stage),
        },
        Some(Command::Demo(args)) => demo::run(&args, stage),
    }
}

fn shown(view: &dyn View, exit: Exit, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    render::show(view, stage)?;
    Ok(exit)
}

fn check(file: Option<&std::path::Path>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let view = config_check::run(file, stage)?;
    let exit = if view.ok { Exit::Done } else { Exit::Failed };
    shown(&view, exit, stage)?;
    if !view.ok {
        let lang = stage.settings.lang;
        let message = text(lang, "config-check.broken", &[("file", &view.file), ("n", &view.problems.len())]);
        stage.talk.error(&message);
        stage.talk.hint(&say(lang, "trouble.hint.config"));
    }
    Ok(exit)
}

/// What is odd about a policy, in words.
fn policy_warning(warning: &PolicyWarning, lang: redrive_policy::Lang) -> String {
    match warning {
        PolicyWarning::InitialAboveCap { cap, .. } => {
            text(lang, "warning.initial-above-cap", &[("cap", &redrive_policy::human_duration(*cap))])
        }
    }
}

/// A `Retry-After` as a wait; what cannot be read is ignored, and the person is told.
fn retry_after(value: Option<&str>, stage: &mut Stage<'_>) -> Option<std::time::Duration> {
    let value = value?;
    let now = stage.now.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let wait = redrive_policy::parse_retry_after(value, now);
    if wait.is_none() {
        let value = crate::escape::beginning(value, 60);
        let note = text(stage.settings.lang, "note.retry-after-ignored", &[("value", &value)]);
        stage.talk.note(&note);
    }
    wait
}
