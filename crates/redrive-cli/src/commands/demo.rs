//! `demo`: the real thing in small. A server, a worker and a store of their own, orders that are HTTP calls to a flaky upstream
//! on this machine, and a script that changes the upstream's mood. Everything that is told is read from the store's events.

mod screen;
mod script;
mod story;
mod upstream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive::HttpSpec;
use redrive::engine::{Act, Canary, Engine, EngineError, HttpExecutor, RedriveRequest, Which, WorkerReport};
use redrive_policy::{Config, Format, Lang};
use redrive_server::{Server, ServerSettings};
use redrive_store::{EventFilter, EventSeq, NewJob, Order, Sqlite, SqliteOptions, Store};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::{MissedTickBehavior, interval};

use super::enqueue::HTTP;
use super::signals::Signals;
use crate::args::DemoArgs;
use crate::settings::Form;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::{Block, Span, Tone};
use crate::{Exit, Stage};
use screen::{Screen, Standing, data};
use script::{ACTS, Pace, configuration, order};
use story::Story;
use upstream::Upstream;

/// What is left for starting up and the summary.
const MARGIN: Duration = Duration::from_millis(400);
/// How often the script is looked at.
const BEAT: Duration = Duration::from_millis(50);
/// How many beats are told together.
const TOLD_EVERY: u32 = 8;
/// The most events that are read at once.
const PAGE: u32 = 1_000;
/// The queue of the orders.
const QUEUE: &str = "orders";
/// How many calls are made at a time.
const CONCURRENCY: usize = 8;
/// How long what runs may take at the end.
const GRACE: Duration = Duration::from_millis(500);

pub(super) fn run(args: &DemoArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let folder = Folder::make(args.keep.as_deref(), stage)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("redrive")
        .enable_all()
        .build()
        .map_err(Trouble::NoRuntime)?;
    let played = runtime.block_on(play(args, &folder, stage));
    // What hangs on in the upstream is nobody's loss.
    runtime.shutdown_timeout(Duration::from_millis(200));
    let exit = played?;
    next_steps(&folder, stage)?;
    Ok(exit)
}

/// Where the show's store is.
struct Folder {
    path: PathBuf,
    keep: bool,
}

impl Folder {
    fn make(keep: Option<&Path>, stage: &Stage<'_>) -> Result<Folder, Trouble> {
        let temporary = || {
            let name = format!("redrive-demo-{}-{:08x}", std::process::id(), stage.entropy() & 0xffff_ffff);
            std::env::temp_dir().join(name)
        };
        let path = keep.map_or_else(temporary, |path| stage.cwd.join(path));
        let unwritable = |source| Trouble::Unwritable { path: path.clone(), source };
        if path.join("redrive.db").exists() {
            return Err(Trouble::Exists { path: path.join("redrive.db") });
        }
        std::fs::create_dir_all(&path).map_err(unwritable)?;
        Ok(Folder { path, keep: keep.is_some() })
    }

    fn store(&self) -> PathBuf {
        self.path.join("redrive.db")
    }

    fn config(&self) -> PathBuf {
        self.path.join("redrive.toml")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.keep {
            // It is in the folder for temporary things: what cannot be taken away goes with the rest there.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

async fn play(args: &DemoArgs, folder: &Folder, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    let pace = Pace::of(args.lasts.saturating_sub(MARGIN));
    let timeout = pace.played(Duration::from_millis(600));
    let upstream = Upstream::start(timeout * 2).await.map_err(Trouble::NoRuntime)?;
    let written = configuration(upstream.at, &folder.store(), pace);
    std::fs::write(folder.config(), &written)
        .map_err(|source| Trouble::Unwritable { path: folder.config(), source })?;
    let config = Config::parse(&written, Format::Toml, "redrive.toml").map_err(Trouble::BrokenConfig)?;
    let store: Arc<dyn Store> =
        Arc::new(Sqlite::open(&folder.store(), SqliteOptions { create: true, ..SqliteOptions::default() })?);
    let engine = Engine::builder(Arc::clone(&store))
        .config(&config)
        .default_policy("demo")
        .lang(stage.settings.lang)
        .seed(args.seed)
        .build()?;
    let server = Server::new(&engine, ServerSettings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(Trouble::NoRuntime)?;
    let url = format!("http://{}", listener.local_addr().map_err(Trouble::NoRuntime)?);
    let worker = engine
        .worker()
        .label("demo")
        .concurrency(CONCURRENCY)
        .grace(GRACE)
        .executor(HTTP, Arc::new(HttpExecutor::new()?))
        .register()
        .await?;
    server.present_as(worker.id());
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve(listener).await.map(drop) }
    });
    let mut screen = Screen::new(stage);
    introduce(&mut screen, &upstream, &url, folder, stage)?;
    let mut show = Show {
        engine: &engine,
        upstream: &upstream,
        lang: stage.settings.lang,
        pace,
        lasts: args.lasts.saturating_sub(MARGIN),
        timeout,
        began: Instant::now(),
        story: Story::default(),
        screen,
        seen: EventSeq::default(),
        orders: 0,
        played: Vec::new(),
    };
    let shutdown = server.shutdown().clone();
    let mut working = std::pin::pin!(worker.run(&shutdown));
    let interrupted = show.go_on(&mut signals, working.as_mut(), stage).await?;
    shutdown.signal();
    working.await?;
    // The listener ends with the worker; what a client still wants is told by the closed connection.
    let _ = serving.await;
    show.hear().await?;
    show.tell(stage)?;
    let Show { mut screen, story, played, .. } = show;
    screen.summary(&story, &played, stage)?;
    store.close().await?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

fn introduce(
    screen: &mut Screen,
    upstream: &Upstream,
    url: &str,
    folder: &Folder,
    stage: &mut Stage<'_>,
) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    let at = upstream.at;
    data(
        &serde_json::json!({ "kind": "begin", "server": url, "upstream": format!("http://{at}"), "config": folder.config() }),
        stage,
    )?;
    let config = folder.config().display().to_string();
    let values: [(&str, &dyn std::fmt::Display); 3] = [("url", &url), ("upstream", &at), ("config", &config)];
    let dim = |key: &str| Block::Text(vec![Span::new(text(lang, key, &values), Tone::Dim)]);
    screen.write(
        &[
            Block::Heading(text(lang, "demo.title", &values)),
            dim("demo.cast"),
            dim("demo.look"),
            dim("demo.meddle"),
        ],
        stage,
    )
}

/// The show as it goes on.
struct Show<'a> {
    engine: &'a Engine,
    upstream: &'a Upstream,
    lang: Lang,
    pace: Pace,
    lasts: Duration,
    /// How long the upstream may take.
    timeout: Duration,
    began: Instant,
    story: Story,
    screen: Screen,
    /// The last event that was heard.
    seen: EventSeq,
    /// How many orders came so far.
    orders: u64,
    /// The acts that were begun, counted through all rounds.
    played: Vec<usize>,
}

impl Show<'_> {
    /// Plays until it is over; answers whether somebody wanted that before its time.
    async fn go_on<W>(
        &mut self,
        signals: &mut Signals,
        mut working: std::pin::Pin<&mut W>,
        stage: &mut Stage<'_>,
    ) -> Result<bool, Trouble>
    where
        W: Future<Output = Result<WorkerReport, EngineError>>,
    {
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut beats = 0_u32;
        loop {
            tokio::select! {
                biased;
                _ = signals.next() => return Ok(true),
                ended = working.as_mut() => {
                    ended?;
                    return Ok(true);
                }
                _ = beat.tick() => {}
            }
            let at = self.began.elapsed();
            if at >= self.lasts {
                return Ok(false);
            }
            self.script(at, stage).await?;
            self.traffic(at).await?;
            self.hear().await?;
            beats += 1;
            if beats.is_multiple_of(TOLD_EVERY) || self.screen.is_live() && beats.is_multiple_of(2) {
                let lines_too = beats.is_multiple_of(TOLD_EVERY);
                self.show(lines_too, stage)?;
            }
        }
    }

    /// Begins the next act when it is time.
    async fn script(&mut self, at: Duration, stage: &mut Stage<'_>) -> Result<(), Trouble> {
        let number = self.pace.act(at);
        if self.played.last() == Some(&number) {
            return Ok(());
        }
        self.tell(stage)?;
        self.played.push(number);
        self.story.begin_act();
        let act = &ACTS[number % ACTS.len()];
        self.upstream.set(act.mood);
        self.screen.act(at, number, stage)?;
        if act.redrives {
            self.redrive().await?;
        }
        Ok(())
    }

    /// Puts back what died of the lost key, as a person would: in steps that are judged.
    async fn redrive(&self) -> Result<(), Trouble> {
        let request = RedriveRequest {
            canary: Some(Canary::default()),
            wanted_by: "demo".to_owned(),
            ..RedriveRequest::new(Which::Where("cause=auth_error".to_owned()))
        };
        if self.engine.preview_redrive(&request).await?.count > 0 {
            let act = Act {
                who: "demo".to_owned(),
                act: "redrive.begin".to_owned(),
                target: "cause=auth_error".to_owned(),
                why: Some("the API key is renewed".to_owned()),
            };
            self.engine.record_act(act).await?;
            self.engine.start_redrive(request).await?;
        }
        Ok(())
    }

    /// The orders that have come by now.
    async fn traffic(&mut self, at: Duration) -> Result<(), Trouble> {
        let due = self.pace.orders(at);
        let jobs: Vec<NewJob> = (self.orders..due).map(|number| self.job(number)).collect();
        self.orders = due.max(self.orders);
        if !jobs.is_empty() {
            self.engine.store().enqueue(self.engine.now(), jobs).await?;
        }
        Ok(())
    }

    fn job(&self, number: u64) -> NewJob {
        let spec = HttpSpec {
            headers: vec![("content-type".into(), "application/json".into())],
            body: Some(order(number).into_bytes()),
            ..HttpSpec::new("POST", format!("http://{}/orders", self.upstream.at))
        };
        NewJob {
            queue: QUEUE.to_owned(),
            caller_id: Some(format!("order-{number}")),
            source: format!("order {number}"),
            timeout: Some(self.timeout),
            ..NewJob::new(HTTP, spec.to_payload())
        }
    }

    /// Takes in what has happened since the last time.
    async fn hear(&mut self) -> Result<(), Trouble> {
        let store = self.engine.store();
        let last = store.wait_for_events(self.seen, Duration::ZERO).await?;
        while self.seen < last {
            let before = Some(EventSeq(last.0.saturating_add(1)));
            let filter = EventFilter {
                order: Order::OldestFirst,
                after: Some(self.seen),
                before,
                ..EventFilter::default()
            };
            let events = store.events(filter, PAGE).await?;
            let at = self.began.elapsed();
            for event in &events {
                self.story.hear(event, at, self.lang);
            }
            let full = u32::try_from(events.len()).is_ok_and(|len| len >= PAGE);
            self.seen = events.last().filter(|_| full).map_or(last, |event| event.seq);
        }
        Ok(())
    }

    fn tell(&mut self, stage: &mut Stage<'_>) -> Result<(), Trouble> {
        self.show(true, stage)
    }

    /// Shows how it stands, and the lines since the last time if it is time for them.
    fn show(&mut self, lines_too: bool, stage: &mut Stage<'_>) -> Result<(), Trouble> {
        let lines = if lines_too { self.story.lines() } else { Vec::new() };
        let standing = Standing {
            at: self.began.elapsed().min(self.lasts),
            lasts: self.lasts,
            mood: self.upstream.mood(),
            by_hand: self.upstream.is_by_hand(),
            now: self.story.now(),
        };
        self.screen.tell(&lines, &standing, stage)
    }
}

/// What to type next.
fn next_steps(folder: &Folder, stage: &mut Stage<'_>) -> Result<(), Trouble> {
    if stage.settings.form == Form::Json {
        return Ok(());
    }
    let lang = stage.settings.lang;
    let config = folder.config().display().to_string();
    let key = if folder.keep { "demo.next-kept" } else { "demo.next" };
    let page = crate::render::page(
        &[Block::Text(vec![Span::new(text(lang, key, &[("config", &config)]), Tone::Dim)])],
        stage,
    );
    stage.stdout.write_all(page.as_bytes()).and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)
}
