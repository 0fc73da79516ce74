//! `demo`: a short, honest show. A seeded upstream fails with real error texts; every failure really passes
//! classify → decide, and the waits are those of the policy, only played faster so that the show fits its time.

mod script;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redrive_policy::{Lang, human_duration};

use crate::args::DemoArgs;
use crate::escape::{beginning, pad};
use crate::render::{self, json};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::{Align, Block, Span, Table, Tone};
use crate::{Exit, Stage};
use script::{Ending, Event, Happened};

/// What is left for starting up and the summary.
const MARGIN: Duration = Duration::from_millis(400);
/// How soon a Ctrl-C is noticed.
const NAP: Duration = Duration::from_millis(25);

pub(super) fn run(args: &DemoArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let started = Instant::now();
    let config = stage.settings.config()?;
    let policy = stage.settings.policy(&config, None)?;
    let works = world::works(args.seed);
    let events = script::play_out(&works, &config.classifier(), &policy, args.seed, stage.settings.lang);
    let whole = events.last().map_or(Duration::ZERO, |event| event.at);
    // Faster than life when time is short; never slower.
    let speed = whole.as_secs_f64() / args.lasts.saturating_sub(MARGIN).as_secs_f64().max(0.001);
    let speed = speed.max(1.0);

    let interrupted = Arc::new(AtomicBool::new(false));
    // Where no handler can be set, Ctrl-C ends the process as it ends any other; nothing is left behind.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted));

    introduce(&policy.name, works.len(), speed, stage)?;
    let mut shown = 0;
    for event in &events {
        let due = started + event.at.div_f64(speed);
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if interrupted.load(Ordering::Relaxed) {
                break;
            }
            thread::sleep(left.min(NAP));
        }
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        tell(event, &works, speed, stage)?;
        shown += 1;
    }
    sum_up(&events[..shown], &works, started.elapsed(), stage)?;
    Ok(if shown < events.len() { Exit::Interrupted } else { Exit::Done })
}

/// The name of a piece of work.
fn name(work: &world::Work, lang: Lang) -> String {
    say(lang, &format!("demo.work.{}", work.id))
}

fn introduce(policy: &str, works: usize, speed: f64, stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    if stage.settings.form == Form::Json {
        return Ok(());
    }
    let mut blocks = vec![Block::Heading(text(lang, "demo.title", &[("n", &works), ("policy", &policy)]))];
    let pace = if speed > 1.05 {
        text(lang, "demo.faster", &[("speed", &format!("{speed:.1}"))])
    } else {
        say(lang, "demo.real-time")
    };
    blocks.push(Block::Text(vec![Span::new(pace, Tone::Dim)]));
    blocks.push(Block::Gap);
    write(&blocks, stage)
}

/// Says what happened, as it happens.
fn tell(event: &Event, works: &[world::Work], speed: f64, stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    let work = &works[event.work];
    if stage.settings.form == Form::Json {
        let line = event.as_json(work.id);
        json::write(&line, stage.stdout, false).map_err(|error| Trouble::Output(error.into()))?;
        stage.stdout.write_all(b"\n").and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)?;
        return Ok(());
    }
    let rich = stage.settings.form == Form::Rich;
    let mark = |fancy: &str, ascii: &str| if rich { fancy.to_owned() } else { ascii.to_owned() };
    let time = format!("{:>6.1}s ", event.at.as_secs_f64());
    let widest = works.iter().map(|work| crate::escape::width(&name(work, lang))).max().unwrap_or(0);
    let who = format!("{} #{}  ", pad(&name(work, lang), widest), event.attempt);
    let indent = " ".repeat(9);
    let mut blocks = Vec::new();
    match &event.happened {
        Happened::Succeeded => blocks.push(Block::Text(vec![
            Span::new(time, Tone::Dim),
            Span::new(mark("✓ ", "ok "), Tone::Good),
            Span::new(who, Tone::Strong),
            Span::new(say(lang, "demo.succeeded"), Tone::Good),
        ])),
        Happened::Failed { said, found, record } => {
            let room = stage.settings.width.saturating_sub(widest + 20).max(20);
            blocks.push(Block::Text(vec![
                Span::new(time, Tone::Dim),
                Span::new(mark("✗ ", "x  "), Tone::Bad),
                Span::new(who, Tone::Strong),
                Span::plain(beginning(&crate::escape::escape(said), room)),
            ]));
            blocks.push(Block::Text(vec![
                Span::plain(indent.clone()),
                Span::new(found.failure.cause.name(), Tone::Strong),
                Span::new(format!(" ({}): ", found.failure.rule), Tone::Dim),
                Span::plain(found.reason(lang).to_owned()),
            ]));
            let next = if let Some(delay) = record.delay_ms.map(Duration::from_millis) {
                let here = Duration::from_millis(redrive_policy::round_to_millis(delay.div_f64(speed)));
                let key = if speed > 1.05 { "demo.retry-faster" } else { "demo.retry" };
                let next =
                    text(lang, key, &[("delay", &human_duration(delay)), ("here", &human_duration(here))]);
                Span::new(format!("{}{next}", mark("↻ ", "-> ")), Tone::Warn)
            } else {
                let reason = record.escalate_reason.clone().unwrap_or_default();
                let next = text(lang, "demo.set-aside", &[("reason", &reason)]);
                Span::new(format!("{}{next}", mark("■ ", "!! ")), Tone::Bad)
            };
            blocks.push(Block::Text(vec![Span::plain(indent), next]));
        }
    }
    write(&blocks, stage)
}

/// What became of each piece of work.
fn sum_up(
    events: &[Event],
    works: &[world::Work],
    took: Duration,
    stage: &mut Stage<'_>,
) -> Result<(), Trouble> {
    let lang = stage.settings.lang;
    if stage.settings.form == Form::Json {
        return Ok(());
    }
    let endings: Vec<Ending> = (0..works.len()).map(|work| Ending::of(work, events)).collect();
    let rows = endings.iter().zip(works).map(|(ending, work)| {
        let (key, tone) = match (ending.succeeded, ending.set_aside) {
            (true, _) => ("demo.outcome.succeeded", Tone::Good),
            (false, true) => ("demo.outcome.set-aside", Tone::Bad),
            (false, false) => ("demo.outcome.cut-short", Tone::Dim),
        };
        vec![
            Span::plain(name(work, lang)),
            Span::plain(ending.attempts.to_string()),
            Span::plain(ending.cause.map_or("-", redrive_policy::Cause::name)),
            Span::plain(human_duration(ending.waited)),
            Span::new(say(lang, key), tone),
        ]
    });
    let columns = [
        ("work-name", Align::Left),
        ("attempts", Align::Right),
        ("last-cause", Align::Left),
        ("waited", Align::Right),
        ("outcome-heading", Align::Left),
    ];
    let table = Table {
        columns: columns.map(|(key, align)| (say(lang, &format!("demo.{key}")), align)).to_vec(),
        rows: rows.collect(),
    };
    let succeeded = endings.iter().filter(|ending| ending.succeeded).count();
    let set_aside = endings.iter().filter(|ending| ending.set_aside).count();
    let summary = text(
        lang,
        "demo.summary",
        &[
            ("succeeded", &succeeded),
            ("set_aside", &set_aside),
            ("seconds", &format!("{:.1}", took.as_secs_f64())),
        ],
    );
    write(
        &[
            Block::Gap,
            Block::Table(table),
            Block::Text(vec![Span::plain(summary)]),
            Block::Text(vec![Span::new(say(lang, "demo.next"), Tone::Dim)]),
        ],
        stage,
    )
}

fn write(blocks: &[Block], stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let page = render::page(blocks, stage);
    stage.stdout.write_all(page.as_bytes()).and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)
}
