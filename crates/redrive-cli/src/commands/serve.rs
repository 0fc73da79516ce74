//! `serve`: the server on this store, a worker of its own beside it, and how both leave in good order.
//!
//! One process is one worker in the store: leases that are taken over HTTP are this worker's, and its loop keeps the store in
//! order. The first signal drains both, the second ends them; the store is closed when both are done. SIGHUP reads the
//! configuration again.

mod address;
mod changes;
mod notify;
mod plan;
mod push;
mod reload;
mod report;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redrive::engine::{
    ALERT_KIND, ALERT_QUEUE, AlertExecutor, CommandExecutor, Engine, EngineError, HttpExecutor, Shutdown,
    Worker, WorkerReport,
};
use redrive_policy::Config;
use redrive_server::{Drained, Server, Tls};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use super::enqueue::{EXEC, HTTP};
use super::opened::{self, Opened};
use super::signals::{SIGHUP, Signals};
use crate::args::{LogChoice, ServeArgs};
use crate::log::{Level, Log, LogWriter, Look, Shape, trace_into};
use crate::settings::Origin;
use crate::text::{say, text};
use crate::trouble::{ServeTrouble, Trouble};
use crate::{Exit, Stage};
use address::{Bound, Guarded, bind};
use notify::Manager;
use plan::Plan;
use reload::Reloads;

/// How much longer than that the rest may take: what is asked to end, and the last settlements.
const LAST_WAIT: Duration = Duration::from_secs(10);
/// How often it is looked whether the store answers, to say so.
const LOOK_AT_STORE: Duration = Duration::from_millis(500);

pub(super) fn run(args: &ServeArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let shape = match args.log {
        LogChoice::As(shape) => shape,
        LogChoice::Auto if stage.settings.stderr_is_terminal => Shape::Text,
        LogChoice::Auto => Shape::Json,
    };
    let (log, writer) = begin_log(shape, stage);
    let ended = serve_whole(args, &log, stage);
    let ended = match ended {
        // A collector reads every line, the last one too.
        Err(trouble) if shape == Shape::Json => {
            let lang = stage.settings.lang;
            let hint = trouble.hint(lang).unwrap_or_default();
            for message in trouble.messages(lang) {
                log.say(Level::Error, &message, &[("hint", &hint)]);
            }
            Ok(trouble.exit())
        }
        ended => ended,
    };
    writer.finish(log);
    ended
}

fn begin_log(shape: Shape, stage: &Stage<'_>) -> (Log, LogWriter) {
    let settings = &stage.settings;
    let least = match (settings.verbose, stage.talk.is_quiet()) {
        (true, _) => Level::Debug,
        (false, true) => Level::Warn,
        (false, false) => Level::Info,
    };
    let columns = settings.stderr_is_terminal.then_some(settings.width);
    let look = Look { shape, colour: settings.colour_talk, columns };
    let begun = Log::begin(look, least, std::io::stderr());
    trace_into(&begun.0);
    begun
}

fn serve_whole(args: &ServeArgs, log: &Log, stage: &Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let mut plan = Plan::new(args, &config, stage.settings.lang, &stage.env, &stage.cwd)?;
    tell_of_another_store(log, stage);
    let manager = Manager::found(&stage.env);
    manager.status(&say(plan.lang, "serve.opening"));
    let opened = opened::to_write(stage)?;
    let ended = serve_opened(&opened, &config, &mut plan, args, &manager, log, stage);
    let closed = opened.wait(opened.store.close());
    ended?;
    closed?;
    Ok(Exit::Done)
}

/// A service that fills another store than the one its file names looks well, and loses what others expect there: it is said.
fn tell_of_another_store(log: &Log, stage: &Stage<'_>) {
    let settings = &stage.settings;
    let (Some(_), Some(file)) = (&settings.store_not_used, settings.config_path()) else { return };
    let by: &dyn std::fmt::Display = match &settings.store.origin {
        Origin::Flag(name) | Origin::Env(name) => name,
        Origin::File(_) | Origin::Search | Origin::BuiltIn => return,
    };
    log.warn(&text(settings.lang, "serve.another-store", &[("by", by), ("file", &file.display())]), &[]);
}

fn serve_opened(
    opened: &Opened,
    config: &Config,
    plan: &mut Plan,
    args: &ServeArgs,
    manager: &Manager,
    log: &Log,
    stage: &Stage<'_>,
) -> Result<(), Trouble> {
    let engine = opened
        .engine_builder(config, stage)
        .on_escalation(report::on_escalation(log.clone(), plan.lang))
        .build()?;
    let tls = plan.tls.as_ref().map(|(cert, key)| Tls::load(cert, key)).transpose();
    let tls = tls.map_err(|trouble| Trouble::Serve(ServeTrouble::Tls(trouble)))?;
    let guarded = Guarded {
        tokens: opened.runtime.block_on(tokens_that_hold(&engine))?,
        tls,
        insecure_http: plan.insecure_http,
    };
    // Before anything is begun: whoever cannot listen has changed nothing.
    let bound = opened.runtime.block_on(bind(&plan.listen, &guarded))?;
    let own: Vec<SocketAddr> = bound.iter().map(|bound| bound.at).collect();
    plan.never_calls(&own);
    let server = Server::new(&engine, plan.settings.clone());
    let reloads = Reloads::new(&engine, &server, guarded.tls.clone(), own, (config, plan), args, stage);
    let running = Running {
        engine: &engine,
        server: &server,
        plan,
        guarded: &guarded,
        manager,
        log,
        reloads: &reloads,
    };
    opened.runtime.block_on(running.serve(bound))
}

/// How many tokens hold; nothing where there never was one.
async fn tokens_that_hold(engine: &Engine) -> Result<Option<usize>, Trouble> {
    if !engine.has_tokens().await? {
        return Ok(None);
    }
    let now = engine.now();
    Ok(Some(engine.tokens().await?.iter().filter(|token| token.holds(now)).count()))
}

/// A server that runs, and everything it is run with.
struct Running<'a> {
    engine: &'a Engine,
    server: &'a Server,
    plan: &'a Plan,
    guarded: &'a Guarded,
    manager: &'a Manager,
    log: &'a Log,
    reloads: &'a Reloads,
}

impl Running<'_> {
    async fn serve(&self, bound: Vec<Bound>) -> Result<(), Trouble> {
        let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
        let worker = self.worker().await?;
        self.server.present_as(worker.id());
        // Before anybody can connect: clients may take every file there is.
        let pushing = self.server.push(self.plan.push.clone())?;
        let shutdown = self.server.shutdown().clone();
        let begun = self.begun(&bound);
        let mut parts = JoinSet::new();
        for bound in bound {
            let (server, tls) = (self.server.clone(), self.guarded.tls.clone());
            parts.spawn(async move {
                let ended = match &tls {
                    Some(tls) => server.serve_tls(bound.listener, tls).await,
                    None => server.serve(bound.listener).await,
                };
                ended.map(|Drained { cut, .. }| cut).map_err(Trouble::Input)
            });
        }
        // It ends with the server, and what it has begun is finished.
        parts.spawn(async move {
            pushing.await;
            Ok(0)
        });
        self.log.info(&begun, &[("version", &env!("CARGO_PKG_VERSION"))]);
        self.manager.ready(&begun);
        let ended = self.watch(&mut signals, worker.run(&shutdown), parts).await;
        self.log.info(&say(self.plan.lang, "serve.ended"), &[]);
        ended
    }

    /// Waits for the end of all, and does what signals ask for.
    async fn watch(
        &self,
        signals: &mut Signals,
        working: impl Future<Output = Result<WorkerReport, EngineError>>,
        mut parts: JoinSet<Result<usize, Trouble>>,
    ) -> Result<(), Trouble> {
        let shutdown = self.server.shutdown();
        let mut working = std::pin::pin!(working);
        let mut worked: Option<Result<WorkerReport, EngineError>> = None;
        let mut served = Ok(());
        let mut cut = 0;
        let mut answers = true;
        let mut look = interval(LOOK_AT_STORE);
        let mut patience = std::pin::pin!(sleep_until(Instant::now()));
        let mut drains = false;
        while worked.is_none() || !parts.is_empty() {
            if shutdown.is_draining() && !drains {
                drains = true;
                self.manager.stopping(&say(self.plan.lang, "serve.draining"));
                patience.as_mut().reset(Instant::now() + self.plan.settings.drain_for + LAST_WAIT);
            }
            tokio::select! {
                biased;
                signal = signals.next() => self.signal(signal, shutdown).await,
                ended = &mut working, if worked.is_none() => {
                    // Without a worker nobody keeps the store in order: then it is better to end, and to be started again.
                    worked = Some(ended);
                    drain(shutdown);
                }
                Some(ended) = parts.join_next(), if !parts.is_empty() => {
                    match ended {
                        Ok(Ok(n)) => cut += n,
                        Ok(Err(trouble)) => served = Err(trouble),
                        Err(panicked) => self.log.say(Level::Error, "a part of the server broke", &[("why", &panicked)]),
                    }
                    drain(shutdown);
                }
                () = &mut patience, if drains && !shutdown.is_now() => shutdown.now(),
                _ = look.tick() => {
                    self.manager.alive();
                    if self.engine.store().answers() != answers {
                        answers = !answers;
                        let told = if answers { "serve.store-back" } else { "serve.store-lost" };
                        self.log.warn(&say(self.plan.lang, told), &[]);
                    }
                }
            }
        }
        if cut > 0 {
            self.log.warn(&text(self.plan.lang, "serve.cut", &[("n", &cut)]), &[]);
        }
        worked.transpose()?;
        served
    }

    async fn signal(&self, signal: i32, shutdown: &Shutdown) {
        let lang = self.plan.lang;
        if signal == SIGHUP {
            if shutdown.is_draining() {
                // Nobody will need it, and what runs may still finish.
                self.log.info(&say(lang, "serve.no-reload-now"), &[]);
                return;
            }
            self.manager.reloading();
            let told = self.reloads.reload(self.log, lang).await;
            self.manager.ready(&told);
            return;
        }
        let told = if shutdown.is_draining() { "serve.at-once" } else { "serve.draining" };
        self.log.info(&say(lang, told), &[]);
        shutdown.signal();
    }

    /// The worker that this process is.
    async fn worker(&self) -> Result<Worker, Trouble> {
        let label = format!("server {} (redrive {})", std::process::id(), env!("CARGO_PKG_VERSION"));
        let builder = self.engine.worker().label(label).grace(self.plan.settings.drain_for);
        if self.plan.concurrency == 0 {
            // It does no work of others, but tells what it sees itself once there is somebody to be told.
            let teller = Arc::new(AlertExecutor::new()?);
            let builder = builder.queues([ALERT_QUEUE]).concurrency(1).executor(ALERT_KIND, teller);
            return Ok(builder.register().await?);
        }
        // What the API's jobs may do is asked for each time: it may change.
        let server = self.server.clone();
        let builder = builder
            .queues(self.plan.queues.iter().cloned())
            .concurrency(self.plan.concurrency)
            .executor(EXEC, Arc::new(CommandExecutor::captured().listed_by(move || server.commands())))
            .executor(HTTP, Arc::new(HttpExecutor::new()?.and_guarded(self.server.guarded_calls()?)))
            .executor(ALERT_KIND, Arc::new(AlertExecutor::new()?))
            .observe(report::on_attempt(self.log.clone(), self.plan.lang));
        Ok(builder.register().await?)
    }

    /// One line that says where it listens and what protects it.
    fn begun(&self, bound: &[Bound]) -> String {
        let lang = self.plan.lang;
        let scheme = if self.guarded.tls.is_some() { "https" } else { "http" };
        let urls: Vec<String> = bound.iter().map(|bound| format!("{scheme}://{}", bound.at)).collect();
        let work = match self.plan.concurrency {
            0 => say(lang, "serve.api-only"),
            n => text(lang, "serve.work", &[("kinds", &format!("{EXEC}, {HTTP}")), ("n", &n)]),
        };
        let (urls, store) = (urls.join(", "), self.engine.store().location());
        let protection = self.guarded.in_words(lang);
        let values: [(&str, &dyn std::fmt::Display); 4] =
            [("urls", &urls), ("store", &store), ("protection", &protection), ("work", &work)];
        text(lang, "serve.begin", &values)
    }
}

/// Asks to finish, unless that was asked already.
fn drain(shutdown: &Shutdown) {
    if !shutdown.is_draining() {
        shutdown.signal();
    }
}
