//! `serve`: the server on this store, a worker of its own beside it, and how both leave in good order.
//!
//! One process is one worker in the store: leases that are taken over HTTP are this worker's, and its loop keeps the store in
//! order. The first signal drains both, the second ends them; the store is closed when both are done.

mod address;

use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{CommandExecutor, Engine, EngineError, HttpExecutor, Shutdown, Worker, WorkerReport};
use redrive_policy::Lang;
use redrive_server::{Server, ServerSettings};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::enqueue::{EXEC, HTTP};
use super::opened;
use super::signals::Signals;
use crate::args::{LogChoice, ServeArgs};
use crate::log::{Level, Log, Shape, trace_into};
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::{Exit, Stage};
use address::{Bound, bind};

/// Where it listens when nobody says so: nobody else can reach that.
const DEFAULT_LISTEN: &str = "127.0.0.1:7411";
/// How many jobs it runs itself when nobody says so.
const DEFAULT_CONCURRENCY: usize = 8;
/// How long what runs may take at the end when nobody says so.
const DEFAULT_DRAIN: Duration = Duration::from_secs(30);
/// How often it is looked whether the store answers, to say so.
const LOOK_AT_STORE: Duration = Duration::from_millis(500);

pub(super) fn run(args: &ServeArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let addresses = match args.listen.as_slice() {
        [] => vec![DEFAULT_LISTEN.to_owned()],
        given => given.to_vec(),
    };
    let opened = opened::to_write(stage)?;
    // Before anything is begun: whoever cannot listen has changed nothing.
    let bound = opened.runtime.block_on(bind(&addresses))?;
    let engine = opened.engine(&config, stage)?;
    let server = Server::new(&engine, ServerSettings::default());
    let (log, writer) = begin_log(args, stage);
    let plan = Plan {
        concurrency: args.concurrency.unwrap_or(DEFAULT_CONCURRENCY),
        queues: args.queue.clone(),
        drain_for: args.drain_for.unwrap_or(DEFAULT_DRAIN),
        lang: stage.settings.lang,
    };
    let ended = opened.runtime.block_on(serve(&engine, &server, bound, &plan, &log));
    let closed = opened.wait(opened.store.close());
    writer.finish(log);
    ended?;
    closed?;
    Ok(Exit::Done)
}

/// What was asked for.
struct Plan {
    concurrency: usize,
    queues: Vec<String>,
    drain_for: Duration,
    lang: Lang,
}

fn begin_log(args: &ServeArgs, stage: &Stage<'_>) -> (Log, crate::log::LogWriter) {
    let settings = &stage.settings;
    let shape = match args.log {
        LogChoice::As(shape) => shape,
        LogChoice::Auto if settings.stderr_is_terminal => Shape::Text,
        LogChoice::Auto => Shape::Json,
    };
    let least = match (settings.verbose, stage.talk.is_quiet()) {
        (true, _) => Level::Debug,
        (false, true) => Level::Warn,
        (false, false) => Level::Info,
    };
    let begun = Log::begin(shape, settings.colour_talk, least, std::io::stderr());
    trace_into(&begun.0);
    begun
}

async fn serve(
    engine: &Engine,
    server: &Server,
    bound: Vec<Bound>,
    plan: &Plan,
    log: &Log,
) -> Result<(), Trouble> {
    let lang = plan.lang;
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let worker = worker(engine, plan).await?;
    server.present_as(worker.id());
    let shutdown = server.shutdown().clone();
    let urls: Vec<String> = bound.iter().map(|bound| format!("http://{}", bound.at)).collect();
    begin(engine, &urls.join(", "), plan, log);

    let mut listeners = JoinSet::new();
    for bound in bound {
        let server = server.clone();
        listeners.spawn(async move { server.serve(bound.listener).await });
    }
    let mut working = std::pin::pin!(worker.run(&shutdown));
    let mut worked: Option<Result<WorkerReport, EngineError>> = None;
    let mut listened: Result<(), Trouble> = Ok(());
    let mut answers = true;
    while worked.is_none() || !listeners.is_empty() {
        tokio::select! {
            biased;
            _ = signals.next() => {
                log.info(&say(lang, if shutdown.is_draining() { "serve.at-once" } else { "serve.draining" }), &[]);
                shutdown.signal();
            }
            ended = &mut working, if worked.is_none() => {
                // Without a worker nobody keeps the store in order: then it is better to end, and to be started again.
                worked = Some(ended);
                drain(&shutdown);
            }
            Some(ended) = listeners.join_next(), if !listeners.is_empty() => {
                if let Ok(Err(error)) = ended {
                    listened = Err(Trouble::Input(error));
                }
                drain(&shutdown);
            }
            () = sleep(LOOK_AT_STORE) => {
                if engine.store().answers() != answers {
                    answers = !answers;
                    log.warn(&say(lang, if answers { "serve.store-back" } else { "serve.store-lost" }), &[]);
                }
            }
        }
    }
    log.info(&say(lang, "serve.ended"), &[]);
    if let Some(worked) = worked {
        worked?;
    }
    listened
}

/// Asks to finish, unless that was asked already.
fn drain(shutdown: &Shutdown) {
    if !shutdown.is_draining() {
        shutdown.signal();
    }
}

/// The worker that this process is.
async fn worker(engine: &Engine, plan: &Plan) -> Result<Worker, Trouble> {
    let builder = engine.worker().label(format!("server {}", std::process::id())).grace(plan.drain_for);
    if plan.concurrency == 0 {
        return Ok(builder.only_present().register().await?);
    }
    let builder = builder
        .queues(plan.queues.iter().cloned())
        .concurrency(plan.concurrency)
        .executor(EXEC, Arc::new(CommandExecutor::captured()))
        .executor(HTTP, Arc::new(HttpExecutor::new()?));
    Ok(builder.register().await?)
}

/// One line that says where it listens and what protects it.
fn begin(engine: &Engine, urls: &str, plan: &Plan, log: &Log) {
    let lang = plan.lang;
    let work = match plan.concurrency {
        0 => say(lang, "serve.api-only"),
        n => text(lang, "serve.work", &[("kinds", &format!("{EXEC}, {HTTP}")), ("n", &n)]),
    };
    let store = engine.store().location();
    let protection = say(lang, "serve.open");
    let values: [(&str, &dyn std::fmt::Display); 4] =
        [("urls", &urls), ("store", &store), ("protection", &protection), ("work", &work)];
    log.info(
        &text(lang, "serve.begin", &values),
        &[("listen", &urls), ("version", &env!("CARGO_PKG_VERSION"))],
    );
}
