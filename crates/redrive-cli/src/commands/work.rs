//! `work`: a worker without a server, for the kinds exec and http.

use std::sync::Arc;
use std::time::Duration;

use redrive::Guard;
use redrive::engine::{ALERT_KIND, AlertExecutor, CommandExecutor, Engine, HttpExecutor, Shutdown};
use redrive_policy::{ServerConfig, human_duration};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::sleep;

use super::enqueue::{EXEC, HTTP};
use super::escalated::ToTell;
use super::files::{self, FilesToTell};
use super::opened;
use super::signals::{SIGINT, Signals};
use super::told::{End, Told};
use crate::args::WorkArgs;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::moment::rough;
use crate::{Exit, Stage};

pub(super) fn run(args: &WorkArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_write(stage)?;
    let to_tell = ToTell::new(config.escalate);
    let (engine, mut files) = files::heard(opened.engine_builder(&config, stage), "work");
    let engine = engine.on_escalation(to_tell.listener()).build()?;
    let ended = opened.runtime.block_on(work(&engine, args, &config.server, &to_tell, &mut files, stage));
    to_tell.rest(stage);
    let closed = opened.wait(opened.store.close());
    ended?;
    closed?;
    Ok(Exit::Done)
}

/// How often it is looked whether the store answers, to say so.
const LOOK_AT_STORE: Duration = Duration::from_millis(500);

/// How many redrives that are under way are told of at the end.
const OPEN_RUNS: u32 = 10;

async fn work(
    engine: &Engine,
    args: &WorkArgs,
    server: &ServerConfig,
    to_tell: &ToTell,
    files: &mut FilesToTell,
    stage: &mut Stage<'_>,
) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let (teller, mut told) = unbounded_channel();
    let worker = engine
        .worker()
        .queues(args.queue.iter().cloned())
        .concurrency(args.concurrency)
        .executor(EXEC, Arc::new(CommandExecutor::captured().listing(server.commands.iter().cloned())))
        .executor(HTTP, Arc::new(HttpExecutor::guarded_by(Guard::of(server))?))
        .executor(ALERT_KIND, Arc::new(AlertExecutor::new()?))
        .observe(move |report| {
            // Nobody listens only when this process is on its way out.
            let _ = teller.send(Told::of(report));
        })
        .register()
        .await?;
    if !args.until_empty {
        let queues = if args.queue.is_empty() { say(lang, "work.all-queues") } else { args.queue.join(", ") };
        stage.talk.note(&text(lang, "work.begin", &[("queues", &queues), ("n", &args.concurrency)]));
    }
    let shutdown = Shutdown::new();
    let mut answers = true;
    {
        let working = async {
            if args.until_empty {
                worker.run_until_empty(&shutdown).await
            } else {
                worker.run(&shutdown).await
            }
        };
        let mut working = std::pin::pin!(working);
        loop {
            tokio::select! {
                biased;
                Some(one) = files.next() => files.tell(&one, stage),
                Some(attempt) = told.recv() => tell(&attempt, to_tell, files, stage),
                () = sleep(LOOK_AT_STORE) => {
                    to_tell.others(stage);
                    if engine.store().answers() != answers {
                        answers = !answers;
                        stage.talk.note(&say(lang, if answers { "work.store-back" } else { "work.store-lost" }));
                    }
                }
                signal = signals.next() => {
                    if signal == SIGINT {
                        stage.talk.after_a_key();
                    }
                    if !shutdown.is_draining() {
                        stage.talk.note(&say(lang, "work.draining"));
                    }
                    shutdown.signal();
                }
                ended = &mut working => {
                    ended?;
                    break;
                }
            }
        }
    }
    files.rest(stage);
    while let Ok(attempt) = told.try_recv() {
        tell(&attempt, to_tell, files, stage);
    }
    // Who waits for a paused queue to be empty should know why it is over all the same.
    for lane in engine.store().status(engine.now()).await?.lanes {
        if lane.paused_at.is_some() && lane.ready > 0 {
            let left = [("queue", &lane.queue as &dyn std::fmt::Display), ("n", &lane.ready)];
            stage.talk.note(&text(lang, "work.paused", &left));
        }
    }
    if args.until_empty {
        // What they put back next waits for somebody else.
        for run in engine.redrive_runs(true, OPEN_RUNS).await? {
            stage.talk.note(&text(lang, "redrive.goes-on", &[("id", &run.id)]));
        }
    }
    Ok(())
}

/// One line for each attempt that is over.
fn tell(attempt: &Told, to_tell: &ToTell, files: &mut FilesToTell, stage: &mut Stage<'_>) {
    if !matches!(attempt.end, End::Retrying { .. } | End::Uncounted) {
        files.forget(attempt.id);
    }
    let lang = stage.settings.lang;
    let who: [(&str, &dyn std::fmt::Display); 3] =
        [("id", &attempt.id), ("name", &attempt.name), ("n", &attempt.attempt)];
    let line = match &attempt.end {
        End::Succeeded { took, .. } => {
            text(lang, "work.succeeded", &[who[0], who[1], who[2], ("took", &rough(*took))])
        }
        End::Retrying { failed, delay, .. } => text(
            lang,
            "work.retrying",
            &[
                who[0],
                who[1],
                who[2],
                ("what", &failed.what(lang)),
                ("cause", &failed.cause(lang)),
                ("delay", &human_duration(*delay)),
            ],
        ),
        End::Dead { failed, reason } => text(
            lang,
            "work.dead",
            &[
                who[0],
                who[1],
                who[2],
                ("what", &failed.what(lang)),
                ("cause", &failed.cause(lang)),
                ("why", &say(lang, &format!("letter.reason.{}", reason.name()))),
            ],
        ),
        End::Cancelled { .. } => text(lang, "work.cancelled", &who),
        End::Uncounted => return,
    };
    stage.talk.narrate(&line);
    if matches!(attempt.end, End::Dead { .. }) {
        to_tell.about(&attempt.id.to_string(), stage);
    }
}
