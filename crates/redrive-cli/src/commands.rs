//! One file per verb. A command does its work and returns a value; what it says on the way goes to `talk`.

mod act;
mod alerts;
mod classify;
mod classify_corpus;
mod classify_jsonl;
mod complete;
mod completions;
mod config;
mod config_check;
mod config_parts;
mod demo;
mod desk;
mod detail;
mod dlq;
mod dlq_discard;
mod dlq_edit;
mod dlq_export;
mod dlq_groups;
mod dlq_import;
mod doctor;
mod enqueue;
mod escalated;
mod escalations;
mod events;
mod explain;
mod export;
mod failed;
mod files;
mod health;
mod idempotency;
mod ids;
mod import;
mod man;
mod metrics;
mod opened;
mod outbox;
mod paging;
mod policy_delays;
mod policy_explain;
mod policy_list;
mod policy_show;
mod policy_simulate;
mod probe;
mod prometheus;
mod proxy;
mod purge;
mod push;
mod queue;
mod redrive;
mod redrive_watch;
mod report;
mod retry;
mod retry_candidates;
mod review;
mod run;
mod run_key;
mod schedule;
mod serve;
mod signals;
mod snapshot;
mod status;
mod store;
mod store_copy;
mod store_keys;
mod targets;
mod task;
mod token;
mod told;
mod trace;
mod work;

use redrive_policy::PolicyWarning;

use crate::args::{
    Args, Command, ConfigCommand, DlqCommand, IdArg, JobRef, PolicyCommand, StoreCommand, StoredCommand,
    SubjectArg,
};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::View;
use crate::view::redriven::RedrivenView;
use crate::{Exit, Stage, help, render};

/// Runs the command that was asked for.
pub(crate) fn run(args: Args, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let group = |name: &str| vec![name.to_owned()];
    match args.command {
        None => {
            let view = status::bare(stage)?;
            shown(view.as_ref(), Exit::Done, stage)
        }
        Some(Command::Help { command }) => help::show(&command, stage),
        Some(Command::Stored(command)) => stored(command, stage),
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
            Some(PolicyCommand::Simulate(args)) => {
                policy_simulate::run(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
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
        Some(Command::Review(args)) => review::run(*args, stage),
        Some(Command::Snapshot { command }) => snapshot::run(command, stage),
        Some(Command::Demo(args)) => demo::run(&args, stage),
        Some(Command::Completions { shell }) => completions::run(&shell, stage),
        Some(Command::Man { out }) => man::run(out.as_deref(), stage),
        Some(Command::Complete { words }) => complete::run(&words, stage),
    }
}

/// Runs a command that works on the store.
fn stored(command: StoredCommand, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command {
        StoredCommand::Run(args) => run::run(&args, stage),
        StoredCommand::Work(args) => work::run(&args, stage),
        StoredCommand::Export(args) => export::run(&args, stage),
        StoredCommand::Import { files } => {
            import::run(&files, stage).and_then(|(view, exit)| shown(&view, exit, stage))
        }
        StoredCommand::Enqueue(args) => {
            enqueue::run(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        StoredCommand::Status => status::run(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        StoredCommand::Dlq { list, command } => match command.map(|command| *command) {
            Some(DlqCommand::Show(args)) => desk::show(args, &list, stage),
            Some(DlqCommand::Desk(command)) => desk::run(command, stage),
            Some(DlqCommand::List(args)) => {
                dlq::list(&args.or(*list), stage).and_then(|view| shown(&view, Exit::Done, stage))
            }
            None => dlq::list(&list, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        },
        StoredCommand::Explain { id } => each(id, stage, |id, stage| {
            explain::run(id, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }),
        StoredCommand::Retry(args) => each(args.id, stage, |id, stage| {
            retry::run(id, args.yes, args.why.as_deref(), stage).and_then(|ended| redriven(ended, stage))
        }),
        StoredCommand::Redrive(args) => redrive::run(&args, stage),
        StoredCommand::Events(args) => events::run(&args, stage),
        StoredCommand::Store { command } => match command {
            None => help::show(&["store".to_owned()], stage),
            Some(StoreCommand::Migrate) => store::migrate(stage),
            Some(StoreCommand::Check) => store::check(stage).and_then(|view| {
                let exit = if view.ok { Exit::Done } else { Exit::Failed };
                shown(&view, exit, stage)
            }),
            Some(StoreCommand::Backup { file }) => store::backup(&file, stage),
            Some(StoreCommand::Copy(args)) => {
                store_copy::run(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
            }
            Some(StoreCommand::Keygen(args)) => store_keys::keygen(&args, stage),
            Some(StoreCommand::RotateKey) => {
                store_keys::rotate(stage).and_then(|view| shown(&view, Exit::Done, stage))
            }
        },
        StoredCommand::Failed(args) => {
            failed::run(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        StoredCommand::RetryCandidates(args) => {
            retry_candidates::run(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        StoredCommand::Detail { id } => each(id, stage, |id, stage| {
            detail::run(id, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }),
        StoredCommand::Trace(args) => {
            let (latest, raw) = (args.latest, args.raw);
            match args.id {
                SubjectArg::Task(task) => trace::run_task(task, latest, raw, stage),
                SubjectArg::Other(id) => each(id, stage, |id, stage| trace::run(id, latest, raw, stage)),
            }
        }
        StoredCommand::Purge(args) => match purge::run(&args, stage)? {
            Some(view) => shown(&view, Exit::Done, stage),
            None => cancelled(stage),
        },
        StoredCommand::Queue { command } => queue::run(command, stage),
        StoredCommand::Targets { command } => targets::run(command, stage),
        StoredCommand::Task { command } => match command {
            None => help::show(&["task".to_owned()], stage),
            Some(command) => task::run(command, stage),
        },
        StoredCommand::Metrics(args) => {
            metrics::run(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        StoredCommand::Prometheus(args) => prometheus::run(&args, stage),
        StoredCommand::Escalations { list, command } => escalations::run(list, command, stage),
        StoredCommand::Idempotency { list, command } => idempotency::run(list, command, stage),
        StoredCommand::Outbox { command } => outbox::run(command, stage),
        StoredCommand::Proxy(args) => proxy::run(&args, stage),
        StoredCommand::Alerts { command } => alerts::run(command, stage),
        StoredCommand::Schedule { command } => schedule::run(command, stage),
        StoredCommand::Push { command } => push::run(command, stage),
        StoredCommand::Token { command } => token::run(command, stage),
        StoredCommand::Serve(args) => serve::run(&args, stage),
        StoredCommand::Health(args) => health::run(&args, stage),
        StoredCommand::Doctor(args) => {
            let (view, exit) = doctor::run(&args, stage);
            shown(&view, exit, stage)
        }
    }
}

/// Runs a command for each id that is meant: one, or those that stdin names. One that fails does not stop the others;
/// the answer is that some of it failed.
fn each(
    id: IdArg,
    stage: &mut Stage<'_>,
    mut run: impl FnMut(&JobRef, &mut Stage<'_>) -> Result<Exit, Trouble>,
) -> Result<Exit, Trouble> {
    let ids = match id {
        IdArg::One(id) => return run(&id, stage),
        IdArg::Stdin => ids::given(&[IdArg::Stdin], stage)?,
    };
    let (mut done, mut failed) = (0_usize, None);
    for id in &ids {
        match run(id, stage) {
            Ok(Exit::Done) => done += 1,
            Ok(exit) => failed = Some(exit),
            Err(trouble @ Trouble::Output(_)) => return Err(trouble),
            Err(trouble) => {
                stage.talk.trouble(&trouble);
                failed = Some(trouble.exit());
            }
        }
    }
    Ok(match failed {
        None => Exit::Done,
        Some(exit) if done == 0 => exit,
        Some(_) => Exit::Partly,
    })
}

/// What a person did not confirm is not done, and that is no failure.
// Every command ends like this.
#[allow(clippy::unnecessary_wraps)]
fn cancelled(stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let note = say(stage.settings.lang, "ask.cancelled");
    stage.talk.note(&note);
    Ok(Exit::Done)
}

/// Shows what was put back, if somebody confirmed it.
fn redriven(ended: (Option<RedrivenView>, Exit), stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match ended {
        (Some(view), exit) => shown(&view, exit, stage),
        (None, _) => cancelled(stage),
    }
}

/// Says what would be done and asks a person; where there is none, the command must have said `--yes`.
fn confirm(what: &str, command: &str, stage: &mut Stage<'_>) -> Result<bool, Trouble> {
    ask(what, "ask.go-on", command, stage)
}

/// The same with a question of its own. A program that wants JSON is not asked.
fn ask(what: &str, question: &str, command: &str, stage: &mut Stage<'_>) -> Result<bool, Trouble> {
    if !stage.stdin_is_terminal || stage.settings.form == Form::Json {
        return Err(Trouble::NeedsYes { what: what.to_owned(), command: command.to_owned() });
    }
    stage.talk.note(what);
    stage.talk.ask(&say(stage.settings.lang, question));
    let mut answer = Vec::new();
    let mut byte = [0];
    // Byte by byte: what stands behind the line is not ours to read.
    while answer.len() < 16 && stage.stdin.read(&mut byte).map_err(Trouble::Input)? == 1 && byte[0] != b'\n' {
        answer.push(byte[0]);
    }
    let answer = String::from_utf8_lossy(&answer).trim().to_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes" | "はい"))
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
