//! Running a task while somebody watches: its steps run here, what they write is shown line by line, and a line of ours
//! says what began, what failed and why, what is done better next time, and what was put back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{
    CommandExecutor, Driver, Engine, FileNews, HttpExecutor, Shutdown, TASK_QUEUE, TaskNews,
};
use redrive::{Wiring, Writer};
use redrive_policy::plan::Work;
use redrive_policy::{EscalateSettings, human_duration};
use redrive_store::{SubtaskState, TaskId, TaskState};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::shown::Shown;
use crate::Stage;
use crate::commands::enqueue::{EXEC, HTTP};
use crate::commands::signals::{SIGINT, Signals};
use crate::commands::told::{End, Told};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::moment::rough;
use crate::view::task::TaskView;

/// How long a step that is asked to end may take: it is then killed, and there is time to put its files back.
const GRACE: Duration = Duration::from_secs(2);
/// How much of a hint is shown.
const HINT_LINES: usize = 12;

/// Runs a task until it is over, whoever ends it; the signal that interrupted it, if one did.
pub(super) async fn run(
    engine: &Engine,
    id: TaskId,
    files: &mut UnboundedReceiver<FilesOf>,
    stage: &mut Stage<'_>,
) -> Result<Option<i32>, Trouble> {
    let lang = stage.settings.lang;
    let task = engine.store().task(id).await?.ok_or(redrive::engine::EngineError::UnknownTask(id))?;
    let plan = engine.plan_of(&task)?;
    let key = if task.subtasks == 1 { "task.begin-one" } else { "task.begin" };
    let line = text(
        lang,
        key,
        &[("id", &id), ("name", &task.name), ("n", &task.subtasks), ("parallel", &plan.parallel)],
    );
    stage.talk.narrate(&line);
    let elsewhere = plan.subtasks.iter().filter_map(|subtask| match &subtask.work {
        Work::Handler { kind, .. } => Some(kind.as_str()),
        Work::Command(_) | Work::Http(_) => None,
    });
    let elsewhere: BTreeSet<&str> = elsewhere.collect();
    if !elsewhere.is_empty() {
        let kinds: Vec<&str> = elsewhere.into_iter().collect();
        stage.talk.note(&text(lang, "task.handlers", &[("kinds", &kinds.join(", "))]));
    }
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let (teller, mut told) = unbounded_channel();
    let changed = Arc::new(Notify::new());
    let wake = Arc::clone(&changed);
    let caller = id.to_string();
    let worker = engine
        .worker()
        .queues([plan.queue.as_deref().unwrap_or(TASK_QUEUE)])
        .keeps_its_own()
        .concurrency(plan.parallel as usize)
        // Who wants it to end does not want to wait for what runs.
        .grace(Duration::ZERO)
        .executor(EXEC, Arc::new(wired(stage)))
        .executor(HTTP, Arc::new(HttpExecutor::new()?))
        .observe(move |report| {
            if report.leased.job.caller_id.as_deref() == Some(&caller) {
                // Nobody listens only when this process is on its way out.
                let _ = teller.send(Told::of(report));
            }
            wake.notify_one();
        })
        .register()
        .await?;
    let mut driver = engine.task_driver(id, worker.id().0, Some(worker.id()));
    let shutdown = Shutdown::new();
    let (sender, mut news) = unbounded_channel();
    let mut interrupted = None;
    {
        let mut working = std::pin::pin!(worker.run(&shutdown));
        let mut driving = std::pin::pin!(drive(&mut driver, &changed, &sender));
        let mut over = false;
        loop {
            tokio::select! {
                biased;
                Some((name, one)) = files.recv() => tell_files(&name, &one, stage),
                Some(attempt) = told.recv() => tell(&attempt, stage),
                Some(one) = news.recv() => tell_news(&one, stage),
                signal = signals.next() => {
                    if signal == SIGINT {
                        stage.talk.after_a_key();
                    }
                    if interrupted.is_none() {
                        stage.talk.note(&say(lang, "task.stopping"));
                    }
                    interrupted = Some(signal);
                    shutdown.signal();
                }
                ended = &mut driving, if !over => {
                    ended?;
                    over = true;
                    shutdown.signal();
                }
                ended = &mut working => {
                    ended?;
                    break;
                }
            }
        }
        // What was begun last may be over by now.
        if over {
            interrupted = None;
        }
    }
    if let Some(signal) = interrupted {
        // Nobody else shall go on with what somebody has stopped.
        engine.cancel_task(id, &text(lang, "task.interrupted-why", &[("signal", &signal)])).await?;
        drive(&mut driver, &changed, &sender).await?;
    }
    driver.leave().await?;
    while let Ok((name, one)) = files.try_recv() {
        tell_files(&name, &one, stage);
    }
    while let Ok(attempt) = told.try_recv() {
        tell(&attempt, stage);
    }
    while let Ok(one) = news.try_recv() {
        tell_news(&one, stage);
    }
    Ok(interrupted)
}

/// Takes turns until the task is over.
async fn drive(
    driver: &mut Driver,
    changed: &Notify,
    news: &UnboundedSender<TaskNews>,
) -> Result<TaskState, redrive::engine::EngineError> {
    let mut waits = false;
    loop {
        let turn = driver.turn().await?;
        for one in turn.news {
            let _ = news.send(one);
        }
        if turn.elsewhere && !std::mem::replace(&mut waits, true) {
            let _ = news.send(TaskNews::Elsewhere);
        }
        let Some(again_in) = turn.again_in else { return Ok(turn.state) };
        tokio::select! {
            () = sleep(again_in) => {}
            () = changed.notified() => {}
        }
    }
}

/// Moves a task on until it is over, for somebody who does not watch. Whoever has it goes first.
pub(super) async fn until_over(
    engine: &Engine,
    id: TaskId,
) -> Result<TaskState, redrive::engine::EngineError> {
    let mut driver = engine.task_driver(id, i64::from(std::process::id()), None);
    let (sender, _news) = unbounded_channel();
    drive(&mut driver, &Notify::new(), &sender).await
}

/// How steps are connected to the terminal: what they write comes line by line, with their names.
fn wired(stage: &Stage<'_>) -> CommandExecutor {
    if stage.settings.form == Form::Json || stage.talk.is_quiet() {
        return CommandExecutor::wired(|| Wiring { grace: Some(GRACE), ..Wiring::captured() });
    }
    CommandExecutor::wired_by(|running| {
        let name = &running.job.source;
        let stdout: Writer = Box::new(Shown::new(name, tokio::io::stdout()));
        let stderr: Writer = Box::new(Shown::new(name, tokio::io::stderr()));
        Wiring { stdout: Some(stdout), stderr: Some(stderr), grace: Some(GRACE), ..Wiring::captured() }
    })
}

/// One line for an attempt that is over, and what the next one is told.
fn tell(attempt: &Told, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    let (name, n) = (&attempt.name, attempt.attempt);
    match &attempt.end {
        End::Succeeded { took, .. } => {
            let key = if n > 1 { "task.step-succeeded-after" } else { "task.step-succeeded" };
            let line = text(lang, key, &[("name", name), ("n", &n), ("took", &rough(*took))]);
            stage.talk.narrate(&line);
        }
        End::Retrying { failed, delay, hint } => {
            let next = n.saturating_add(1);
            let all = next.saturating_add(failed.max.saturating_sub(failed.retry));
            let line = text(
                lang,
                "task.step-retrying",
                &[
                    ("name", name),
                    ("n", &n),
                    ("what", &failed.what(lang)),
                    ("cause", &failed.cause(lang)),
                    ("delay", &human_duration(*delay)),
                    ("next", &next),
                    ("all", &all),
                ],
            );
            stage.talk.narrate(&line);
            if let Some(hint) = hint {
                stage.talk.narrate(&text(lang, "task.step-hint", &[("name", name)]));
                stage.talk.quoted(hint, HINT_LINES);
            }
        }
        End::Dead { failed, .. } => {
            let line = text(
                lang,
                "task.step-dead",
                &[
                    ("name", name),
                    ("n", &n),
                    ("what", &failed.what(lang)),
                    ("cause", &failed.cause(lang)),
                    ("why", &failed.why(lang)),
                ],
            );
            stage.talk.narrate(&line);
        }
        End::Cancelled { .. } => stage.talk.narrate(&text(lang, "task.step-cancelled", &[("name", name)])),
        End::Uncounted => {}
    }
}

/// What happened to the files of a step, and its name.
pub(super) type FilesOf = (String, FileNews);

/// One line for what happened to the files of a step.
fn tell_files(name: &str, news: &FileNews, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    match news {
        FileNews::PutBack { restored, aside } => {
            let values: [(&str, &dyn std::fmt::Display); 3] =
                [("name", &name), ("restored", restored), ("aside", aside)];
            stage.talk.narrate(&text(lang, "task.restored", &values));
        }
        FileNews::Unprotected { why } => {
            stage.talk.warning(&text(lang, "task.unprotected", &[("name", &name), ("why", why)]));
        }
        _ => {}
    }
}

/// One line for what was done with the task.
fn tell_news(news: &TaskNews, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    let line = match news {
        TaskNews::Elsewhere => say(lang, "task.waiting"),
        TaskNews::Begun { subtask } => text(lang, "task.step-begins", &[("name", subtask)]),
        TaskNews::Over { subtask, state: SubtaskState::Skipped } => {
            text(lang, "task.step-skipped", &[("name", subtask)])
        }
        // Its last attempt has told.
        TaskNews::Over { .. } => return,
        TaskNews::Recovering { strategy, failed, undone, .. } => {
            let key = format!("task.recovering.{}", strategy.name().to_lowercase().replace('_', "-"));
            let undone: &dyn std::fmt::Display = &undone.join(", ");
            text(lang, &key, &[("failed", &failed.join(", ")), ("undone", undone)])
        }
        TaskNews::Restored { subtask, restored, aside } => {
            text(lang, "task.restored", &[("name", subtask), ("restored", restored), ("aside", aside)])
        }
        TaskNews::NotRestored { subtask, why } => {
            text(lang, "task.not-restored", &[("name", subtask), ("why", why)])
        }
    };
    stage.talk.narrate(&line);
}

/// How the task ended, in a few lines: what, why, what to type next.
pub(super) fn last_words(view: &TaskView, escalate: EscalateSettings, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    let key = format!("task.ended.{}", view.state.name());
    let took = view.took.map(|took| human_duration(round(took))).unwrap_or_default();
    let line = text(
        lang,
        &key,
        &[
            ("id", &view.id),
            ("name", &view.name),
            ("done", &view.done()),
            ("n", &view.total()),
            ("took", &took),
        ],
    );
    stage.talk.narrate(&line);
    if let Some(message) = view.message.as_ref().filter(|_| escalate.notify_immediately) {
        stage.talk.quoted(message, usize::MAX);
    }
    let next = match view.state {
        TaskState::Succeeded | TaskState::Running => return,
        TaskState::Partial | TaskState::Escalated => "task.next",
        // Nobody was told: there is no report to look at.
        TaskState::Cancelled => "task.next-cancelled",
    };
    stage.talk.narrate(&text(lang, next, &[("id", &view.id)]));
}

/// As exact as a person wants it: whole milliseconds, tenths of a second, or seconds.
fn round(took: Duration) -> Duration {
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let unit = match millis {
        0..1_000 => 1,
        1_000..10_000 => 100,
        _ => 1_000,
    };
    Duration::from_millis(millis / unit * unit)
}
