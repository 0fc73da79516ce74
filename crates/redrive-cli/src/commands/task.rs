//! `task run PLAN`, `task resume`, `task status`, `task cancel`, `task check`, `task schema`: work in dependent steps.
//!
//! A task is stored before its first step begins. This process then moves it on and runs its steps, while anybody may look;
//! when it dies, the task is still there, and `task resume` or any worker goes on with it.

mod shown;
mod watch;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use redrive::current_umask;
use redrive::engine::{Engine, TaskRequest, check_plan};
use redrive_policy::plan::Plan;
use redrive_policy::review::ReviewPlan;
use redrive_policy::{Config, EscalateSettings, Format};
use redrive_store::{Origin, Task, TaskId, TaskState, Timestamp};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::act;
use super::opened::{self, Opened};
use super::shown as show;
use crate::args::{TaskCommand, TaskRunArgs};
use crate::settings::Form;
use crate::text::text;
use crate::trouble::{TaskTrouble, Trouble, placed};
use crate::view::task::{TaskChangedView, TaskView, TasksView};
use crate::{Exit, Stage, render};

/// How many tasks of one plan may be started at the same moment.
const MOST_AT_ONCE: u32 = 100;
/// The largest plan that is read.
const MAX_PLAN: u64 = 16 << 20;
/// How many tasks are listed.
const LISTED: u32 = 50;

pub(super) fn run(command: TaskCommand, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command {
        TaskCommand::Run(args) => start(&args, stage),
        TaskCommand::Resume { which, why } => resume(&which, why.as_deref(), stage),
        TaskCommand::Status { which: Some(which), .. } => status(&which, stage),
        TaskCommand::Status { which: None, all } => list(all, stage),
        TaskCommand::Cancel { which, why } => cancel(&which, why.as_deref(), stage),
        TaskCommand::Check { plan } => check(&plan, stage),
        TaskCommand::Schema => schema(stage),
    }
}

/// A plan, and where it is.
struct Read {
    plan: Plan,
    place: String,
    base: PathBuf,
}

/// Reads a plan; what is odd about it is told.
fn read(file: &Path, stage: &mut Stage<'_>) -> Result<Read, Trouble> {
    let unreadable = |source| Trouble::Task(TaskTrouble::Unreadable { path: file.to_owned(), source });
    let path = stage.cwd.join(file);
    let source = source(&path).map_err(unreadable)?;
    let path = path.canonicalize().map_err(unreadable)?;
    let name = file.display().to_string();
    let (mut plan, warnings) = Plan::parse(&source, format_of(&path), &name)
        .map_err(|error| Trouble::Task(TaskTrouble::BadPlan(error)))?;
    for warning in warnings {
        stage.talk.warning(&placed(&name, &warning, stage.settings.lang));
    }
    if plan.name.is_empty() {
        plan.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    let base = path.parent().map(Path::to_owned).unwrap_or_default();
    Ok(Read { plan, place: path.to_string_lossy().into_owned(), base })
}

/// The text of a plan. What is no file is not waited for.
fn source(path: &Path) -> io::Result<String> {
    let found = std::fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    if found.len() > MAX_PLAN {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {MAX_PLAN} bytes"),
        ));
    }
    let bytes = std::fs::read(path)?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is not UTF-8"))
    })
}

/// What only the configuration and the engine can tell about a plan, before anything is stored.
fn check_by_config(plan: &Plan, file: &Path, config: &Config, stage: &Stage<'_>) -> Result<(), Trouble> {
    let unfit = |number: u32, why: String| {
        let subtask = plan.name_of(number);
        Trouble::Task(TaskTrouble::Unfit { plan: file.to_owned(), subtask, why })
    };
    for (number, subtask) in (0..).zip(&plan.subtasks) {
        if let Err(trouble) = stage.settings.policy(config, subtask.policy.as_deref()) {
            return Err(unfit(number, trouble.messages(stage.settings.lang).join("; ")));
        }
    }
    check_plan(plan).map_err(|(number, error)| unfit(number, error.to_string()))
}

/// An engine that tells what happens to files.
fn furnished(
    opened: &Opened,
    config: &Config,
    stage: &Stage<'_>,
) -> Result<(Engine, UnboundedReceiver<watch::FilesOf>), Trouble> {
    let (teller, files) = unbounded_channel();
    let engine = opened
        .engine_builder(config, stage)
        .on_files(move |_, source, news| {
            // Nobody listens only when this process is on its way out.
            let _ = teller.send((source.to_owned(), news.clone()));
        })
        .build()?;
    Ok((engine, files))
}

fn start(args: &TaskRunArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let Read { mut plan, place, base } = read(&args.plan, stage)?;
    if let Some(parallel) = args.parallel {
        plan.parallel = u32::try_from(parallel).unwrap_or(u32::MAX);
    }
    let config = stage.settings.config()?;
    plan.review_by(&config.review);
    check_by_config(&plan, &args.plan, &config, stage)?;
    let opened = opened::to_write(stage)?;
    let (engine, mut files) = furnished(&opened, &config, stage)?;
    let open = opened.wait(opened.store.tasks(true, Some(&place), 1))?;
    if let Some(task) = open.first().filter(|_| !args.again) {
        let file = args.plan.clone();
        return Err(Trouble::Task(TaskTrouble::UnderWay { id: task.id, plan: file }));
    }
    let (umask, origin) = (current_umask(), Origin::Local);
    let request = TaskRequest { plan, place: Some(place.clone()), base, umask, origin };
    let id = opened.runtime.block_on(engine.start_task(request))?;
    if !args.again {
        // Of two that were started at the same moment, the first one goes on.
        let open = opened.wait(opened.store.tasks(true, Some(&place), MOST_AT_ONCE))?;
        if let Some(first) = open.iter().map(|task| task.id).filter(|other| *other < id).min() {
            opened.runtime.block_on(engine.cancel_task(id, "another one was started at the same moment"))?;
            opened.runtime.block_on(watch::until_over(&engine, id))?;
            return Err(Trouble::Task(TaskTrouble::UnderWay { id: first, plan: args.plan.clone() }));
        }
    }
    if args.detach {
        opened.wait(opened.store.close())?;
        stage.talk.note(&text(stage.settings.lang, "task.detached", &[("id", &id)]));
        render::show(&TaskChangedView::new(id, TaskState::Running), stage)?;
        return Ok(Exit::Done);
    }
    watched(&opened, &engine, id, config.escalate, &mut files, stage)
}

fn resume(which: &OsStr, why: Option<&str>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let (engine, mut files) = furnished(&opened, &config, stage)?;
    let task = find(&opened, which, stage)?;
    let lang = stage.settings.lang;
    if task.state == TaskState::Succeeded {
        stage.talk.note(&text(lang, "task.succeeded-already", &[("id", &task.id)]));
        return Ok(Exit::Done);
    }
    let plan = engine.plan_of(&task)?;
    if let Some(place) = task.place.as_ref().filter(|place| is_another(place, plan, &config.review)) {
        stage.talk.warning(&text(lang, "task.plan-changed", &[("place", place), ("id", &task.id)]));
    }
    act::record(&opened, &engine, "task.resume", task.id.to_string(), why, stage)?;
    opened.runtime.block_on(engine.resume_task(task.id))?;
    watched(&opened, &engine, task.id, config.escalate, &mut files, stage)
}

/// Whether the file now says something else than the plan that a task was started with; how many run at a time aside. A file
/// that is gone or broken says nothing.
fn is_another(place: &str, mut begun: Plan, reviewed_by: &ReviewPlan) -> bool {
    let path = Path::new(place);
    let Ok(source) = source(path) else { return false };
    let Ok((mut now, _)) = Plan::parse(&source, format_of(path), place) else { return false };
    now.review_by(reviewed_by);
    now.parallel = begun.parallel;
    // The name of a nameless plan is its file's, in words that depend on how it was called.
    begun.name.clone_from(&now.name);
    begun != now
}

fn format_of(path: &Path) -> Format {
    if path.extension() == Some(OsStr::new("json")) { Format::Json } else { Format::Toml }
}

/// Moves a task on until it is over, and tells how it ended.
fn watched(
    opened: &Opened,
    engine: &Engine,
    id: TaskId,
    escalate: EscalateSettings,
    files: &mut UnboundedReceiver<watch::FilesOf>,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let ended = opened.runtime.block_on(watch::run(engine, id, files, stage));
    let exit = match ended {
        Ok(Some(signal)) => {
            let line = text(stage.settings.lang, "task.interrupted", &[("id", &id)]);
            stage.talk.narrate(&line);
            Ok(Exit::Command(u8::try_from(128 + signal).unwrap_or(1)))
        }
        Ok(None) => end(opened, engine, id, escalate, stage),
        Err(trouble) => {
            stage.talk.note(&text(stage.settings.lang, "task.stored", &[("id", &id)]));
            Err(trouble)
        }
    };
    // What was acknowledged is safe; closing only tidies up.
    let _ = opened.wait(opened.store.close());
    exit
}

/// The last words, and the exit code.
fn end(
    opened: &Opened,
    engine: &Engine,
    id: TaskId,
    escalate: EscalateSettings,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    let view = view(opened, engine, id)?;
    watch::last_words(&view, escalate, stage);
    let exit = match view.state {
        TaskState::Succeeded => Exit::Done,
        TaskState::Partial => Exit::Partly,
        TaskState::Escalated | TaskState::Cancelled | TaskState::Running => Exit::Failed,
    };
    if stage.settings.form == Form::Json {
        render::show(&view, stage)?;
    }
    Ok(exit)
}

fn status(which: &OsStr, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let task = find(&opened, which, stage)?;
    let view = view(&opened, &opened.looker()?, task.id)?;
    show(&view, Exit::Done, stage)
}

fn list(all: bool, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let Some(opened) = opened::if_there(stage)? else {
        return show(&TasksView::new(Vec::new(), now(stage)), Exit::Done, stage);
    };
    let tasks = opened.wait(opened.store.tasks(!all, None, LISTED))?;
    // Whoever has nothing under way wants to see what was last.
    let tasks =
        if tasks.is_empty() && !all { opened.wait(opened.store.tasks(false, None, LISTED))? } else { tasks };
    show(&TasksView::new(tasks, now(stage)), Exit::Done, stage)
}

fn cancel(which: &OsStr, why: Option<&str>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let task = find(&opened, which, stage)?;
    if task.state == TaskState::Running {
        act::record(&opened, &engine, "task.cancel", task.id.to_string(), why, stage)?;
    } else {
        act::refused(&opened, &engine, "task.cancel", task.id.to_string(), why, stage)?;
    }
    let lang = stage.settings.lang;
    let why = why.map_or_else(|| text(lang, "task.cancel-why", &[]), str::to_owned);
    if !opened.runtime.block_on(engine.cancel_task(task.id, &why))? {
        stage.talk.note(&text(lang, "task.over-already", &[("id", &task.id)]));
        return Ok(Exit::Nothing);
    }
    opened.runtime.block_on(watch::until_over(&engine, task.id))?;
    opened.wait(opened.store.close())?;
    show(&TaskChangedView::new(task.id, TaskState::Cancelled), Exit::Done, stage)
}

fn check(file: &Path, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let Read { plan, .. } = read(file, stage)?;
    let config = stage.settings.config()?;
    check_by_config(&plan, file, &config, stage)?;
    show(&TaskView::of_plan(&plan), Exit::Done, stage)
}

fn schema(stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let text = serde_json::to_string_pretty(&Plan::schema()).unwrap_or_default();
    writeln!(stage.stdout, "{text}").map_err(Trouble::Output)?;
    Ok(Exit::Done)
}

/// The task that a person means: by its id, or the newest of a plan.
fn find(opened: &Opened, which: &OsStr, stage: &Stage<'_>) -> Result<Task, Trouble> {
    let unknown = || {
        let which = which.to_string_lossy().into_owned();
        Trouble::Task(TaskTrouble::Unknown { which, store: opened.store.location() })
    };
    if let Some(id) = which.to_str().and_then(|text| text.parse::<TaskId>().ok()) {
        return opened.wait(opened.store.task(id))?.ok_or_else(unknown);
    }
    let path = stage.cwd.join(which);
    let place = path.canonicalize().unwrap_or(path).to_string_lossy().into_owned();
    opened.wait(opened.store.tasks(false, Some(&place), 1))?.into_iter().next().ok_or_else(unknown)
}

fn view(opened: &Opened, engine: &Engine, id: TaskId) -> Result<TaskView, Trouble> {
    let story = opened.runtime.block_on(engine.task_story(id))?;
    Ok(TaskView::new(&story, engine.now()))
}

fn now(stage: &Stage<'_>) -> Timestamp {
    Timestamp::from_system(stage.now)
}
