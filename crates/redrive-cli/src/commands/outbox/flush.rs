//! `outbox flush`: sends what is pending, once or for as long as somebody wants, and tells of each send.

use std::collections::BTreeMap;

use redrive::engine::Shutdown;
use redrive_idempotency::outbox::{Flushed, ItemId, Outbox, SendReport, SendResult};
use redrive_policy::human_duration;
use redrive_store::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::super::opened::{self, Opened};
use super::super::shown;
use super::super::signals::{SIGINT, Signals};
use crate::args::OutboxFlushArgs;
use crate::render::json;
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::moment::rough;
use crate::view::outbox::FlushedView;
use crate::{Exit, Stage};

pub(super) fn run(args: &OutboxFlushArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let policy = args.policy.as_deref();
    let policy = policy.map(|name| stage.settings.policy(&config, Some(name))).transpose()?;
    // Whoever waits for what comes may be the first one here.
    let opened = if args.watch { Some(opened::to_write(stage)?) } else { opened::if_there(stage)? };
    let Some(opened) = opened else {
        let view = FlushedView::new(Flushed::default(), Vec::new(), Timestamp::from_system(stage.now));
        return shown(&view, Exit::Nothing, stage);
    };
    let engine = opened.engine(&config, stage)?;
    let (teller, told) = unbounded_channel();
    let mut outbox =
        Outbox::new(&engine)?.max_sends(args.max_sends).patience(args.wait).timeout(args.timeout).observe(
            move |report| {
                // Nobody listens only when this process is on its way out.
                let _ = teller.send((report.clone(), Timestamp::from_system(std::time::SystemTime::now())));
            },
        );
    if let Some(policy) = policy {
        outbox = outbox.policy(policy);
    }
    if let Some(lane) = &args.lane {
        outbox = outbox.only_lane(lane.clone());
    }
    let ended = opened.runtime.block_on(send(&outbox, args, told, stage));
    ended.and_then(|(flushed, items)| finish(args, flushed, items, &opened, stage))
}

fn finish(
    args: &OutboxFlushArgs,
    flushed: Flushed,
    items: Vec<SendReport>,
    opened: &Opened,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    opened.wait(opened.store.close())?;
    let exit = match &flushed {
        // Somebody ended it, as one does.
        _ if args.watch => Exit::Done,
        flushed if flushed.is_nothing() => Exit::Nothing,
        flushed if flushed.is_all_sent() => Exit::Done,
        _ => Exit::Partly,
    };
    if args.watch && stage.settings.form == Form::Json {
        return Ok(exit);
    }
    let now = Timestamp::from_system(std::time::SystemTime::now());
    shown(&FlushedView::new(flushed, items, now), exit, stage)
}

type Told = (SendReport, Timestamp);

async fn send(
    outbox: &Outbox,
    args: &OutboxFlushArgs,
    mut told: UnboundedReceiver<Told>,
    stage: &mut Stage<'_>,
) -> Result<(Flushed, Vec<SendReport>), Trouble> {
    let lang = stage.settings.lang;
    let mut signals = Signals::listen().map_err(Trouble::NoRuntime)?;
    if args.watch {
        stage.talk.note(&say(lang, "outbox.watching"));
    }
    let shutdown = Shutdown::new();
    let mut items = BTreeMap::new();
    let sending =
        async { if args.watch { outbox.run(&shutdown).await } else { outbox.flush_until(&shutdown).await } };
    let mut sending = std::pin::pin!(sending);
    let flushed = loop {
        tokio::select! {
            biased;
            Some(report) = told.recv() => tell(report, args.watch, &mut items, stage)?,
            signal = signals.next() => {
                if signal == SIGINT {
                    stage.talk.after_a_key();
                }
                if !shutdown.is_draining() {
                    stage.talk.note(&say(lang, "outbox.draining"));
                }
                shutdown.signal();
            }
            flushed = &mut sending => break flushed,
        }
    };
    while let Ok(report) = told.try_recv() {
        tell(report, args.watch, &mut items, stage)?;
    }
    Ok((flushed?, items.into_values().collect()))
}

/// A line for people; while watching, a line of JSON for machines. Else they get everything in the end.
fn tell(
    (report, at): Told,
    watch: bool,
    items: &mut BTreeMap<ItemId, SendReport>,
    stage: &mut Stage<'_>,
) -> Result<(), Trouble> {
    stage.talk.narrate(&line(&report, at, stage));
    if !watch {
        items.insert(report.id, report);
        return Ok(());
    }
    if stage.settings.form == Form::Json {
        json::write(&report, stage.stdout, false).map_err(|error| Trouble::Output(error.into()))?;
        stage.stdout.write_all(b"\n").and_then(|()| stage.stdout.flush()).map_err(Trouble::Output)?;
    }
    Ok(())
}

fn line(report: &SendReport, at: Timestamp, stage: &Stage<'_>) -> String {
    let lang = stage.settings.lang;
    let call = format!("{} {}", report.method, report.place);
    // What the far side said may end as a sentence does; ours goes on behind it.
    let last = report.last.as_deref().unwrap_or("-").trim_end_matches(['.', '。']);
    let status = report.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let (key, wait) = match report.result {
        // Something is said of it only when an earlier send has done it.
        SendResult::Sent if report.last.is_some() => ("sent-before", None),
        SendResult::Sent => ("sent", None),
        SendResult::Again { not_before } => ("again", Some(not_before)),
        SendResult::Underway { not_before } => ("underway", Some(not_before)),
        SendResult::NotReached => ("not-reached", None),
        SendResult::LetGo => ("let-go", None),
        SendResult::Failed => ("failed", None),
    };
    let wait = wait.map(|not_before| human_duration(not_before.since(at))).unwrap_or_default();
    text(
        lang,
        &format!("outbox.told.{key}"),
        &[
            ("id", &report.id),
            ("call", &call),
            ("last", &last),
            ("status", &status),
            ("n", &report.sends),
            ("wait", &wait),
            ("took", &rough(report.took)),
        ],
    )
}
