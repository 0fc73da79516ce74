//! `events`: what happened, the newest last, and what happens from now on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_store::{Event, EventFilter, EventSeq, Order, Timestamp};

use super::opened::{self, Opened};
use crate::args::{EventsArgs, Since};
use crate::render::{self, json};
use crate::settings::Form;
use crate::trouble::Trouble;
use crate::view::event::EventLines;
use crate::{Exit, Stage};

/// How many events are shown unless a person says; and how many before those that are followed.
const DEFAULT_LIMIT: u32 = 100;
const BEFORE_FOLLOWING: u32 = 10;
/// How many are read at once while following.
const PAGE: u32 = 1_000;
/// How soon a Ctrl-C is noticed.
const NAP: Duration = Duration::from_millis(200);

pub(super) fn run(args: &EventsArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = if args.follow { Some(opened::to_read(stage)?) } else { opened::if_there(stage)? };
    let Some(opened) = opened else { return Ok(Exit::Done) };
    let filter = filter(args, opened.now);
    // Taken before anything is read, so that nothing falls between what was and what comes.
    let mut seen = if args.follow { last_place(&opened)? } else { EventSeq::default() };
    let limit = args.limit.unwrap_or(if args.follow { BEFORE_FOLLOWING } else { DEFAULT_LIMIT });
    let before = args.follow.then_some(EventSeq(seen.0.saturating_add(1)));
    let newest = EventFilter { order: Order::NewestFirst, before, ..filter.clone() };
    let looker = opened.looker()?;
    let mut search = looker.search_events(newest, args.filter.clone());
    let mut events = opened.runtime.block_on(search.next(limit))?;
    events.reverse();
    let mut teller = Teller::new(stage);
    teller.tell(&events, stage)?;
    if !args.follow {
        return Ok(Exit::Done);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Where no handler can be set, a signal ends the process as it ends any other; nothing is left behind.
        let _ = signal_hook::flag::register(signal, Arc::clone(&interrupted));
    }
    while !interrupted.load(Ordering::Relaxed) {
        let last = opened.wait(opened.store.wait_for_events(seen, NAP))?;
        while seen < last && !interrupted.load(Ordering::Relaxed) {
            // No further than the stream is complete: others may be writing behind it.
            let before = Some(EventSeq(last.0.saturating_add(1)));
            let next = EventFilter { order: Order::OldestFirst, after: Some(seen), before, ..filter.clone() };
            let events =
                opened.runtime.block_on(looker.search_events(next, args.filter.clone()).next(PAGE))?;
            teller.tell(&events, stage)?;
            let newest = events.last().map_or(seen, |event| event.seq);
            let full = u32::try_from(events.len()).is_ok_and(|len| len >= PAGE);
            seen = if full { newest } else { last };
        }
    }
    Ok(Exit::Interrupted)
}

/// The last place up to which the stream is complete.
fn last_place(opened: &Opened) -> Result<EventSeq, Trouble> {
    opened.wait(opened.store.wait_for_events(EventSeq::default(), Duration::ZERO))
}

fn filter(args: &EventsArgs, now: Timestamp) -> EventFilter {
    EventFilter {
        types: args.event_type.clone(),
        source: args.source.clone(),
        statuses: args.status.clone(),
        tags: args.tag.clone(),
        caller_id: args.caller_id.clone(),
        job: args.job,
        since: args.since.map(|since| match since {
            Since::Ago(ago) => now.before(ago),
            Since::At(at) => at,
        }),
        ..EventFilter::default()
    }
}

/// Shows events in the form that was asked for, as they come.
struct Teller {
    lines: EventLines,
}

impl Teller {
    fn new(stage: &Stage<'_>) -> Teller {
        let settings = &stage.settings;
        let reader = settings.reader();
        Teller { lines: EventLines::new(reader, (settings.form == Form::Rich).then_some(settings.width)) }
    }

    fn tell(&mut self, events: &[Event], stage: &mut Stage<'_>) -> Result<(), Trouble> {
        self.lines.make_room(events);
        for event in events {
            if stage.settings.form == Form::Json {
                json::write(event, stage.stdout, false).map_err(|error| Trouble::Output(error.into()))?;
                stage.stdout.write_all(b"\n").map_err(Trouble::Output)?;
            } else {
                let page = render::page(&self.lines.of(event), stage);
                stage.stdout.write_all(page.as_bytes()).map_err(Trouble::Output)?;
            }
        }
        stage.stdout.flush().map_err(Trouble::Output)
    }
}
