//! `outbox`: what cannot be sent now is kept, and sent when the network is there (R-I7).

mod flush;

use redrive::HttpSpec;
use redrive_idempotency::outbox::{Call, ItemId, Outbox, Queued};
use redrive_store::{ItemQuery, ItemState, Timestamp};

use super::enqueue::read_body;
use super::opened::{self, Opened};
use super::paging::NextPage;
use super::{cancelled, confirm, shown};
use crate::args::{OutboxAddArgs, OutboxCommand, OutboxListArgs};
use crate::text::{say, text};
use crate::trouble::{OutboxTrouble, Trouble};
use crate::view::outbox::{AddedView, ItemLine, ItemView, ItemsMovedView, OutboxView};
use crate::{Exit, Stage};

/// How many are listed unless a person says.
const DEFAULT_LIMIT: u32 = 100;

pub(super) fn run(command: Option<OutboxCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or_else(|| OutboxCommand::List(OutboxListArgs::default())) {
        OutboxCommand::Add(args) => add(*args, stage),
        OutboxCommand::Flush(args) => flush::run(&args, stage),
        OutboxCommand::List(args) => list(&args, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        OutboxCommand::Show { id, with_payload } => show(id, with_payload, stage),
        OutboxCommand::Retry { ids, .. } => retry(&ids, stage),
        OutboxCommand::Discard { ids, yes } => discard(&ids, yes, stage),
    }
}

fn add(args: OutboxAddArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let config = stage.settings.config()?;
    let save = args.save.clone();
    let call = call(args, stage)?;
    let opened = opened::to_write(stage)?;
    let outbox = Outbox::new(&opened.engine(&config, stage)?)?;
    let queued = opened.runtime.block_on(async {
        match &save {
            Some(save) => outbox.save(save, call).await,
            None => outbox.add(call).await,
        }
    })?;
    opened.wait(opened.store.close())?;
    if queued.existing {
        tell_existing(&queued, stage);
    }
    shown(&AddedView::new(queued), Exit::Done, stage)
}

fn tell_existing(queued: &Queued, stage: &mut Stage<'_>) {
    let key = format!("outbox.existing.{}", queued.state.name());
    let note = text(stage.settings.lang, &key, &[("id", &queued.id)]);
    stage.talk.note(&note);
}

fn call(args: OutboxAddArgs, stage: &mut Stage<'_>) -> Result<Call, Trouble> {
    let mut headers: Vec<_> = args.header.into_iter().map(|header| (header.name, header.value)).collect();
    let body = args.data.as_deref().map(|data| read_body(data, stage)).transpose().map_err(in_its_words)?;
    let is_json = |body: &Vec<u8>| serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
    let says_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if !says_type && body.as_ref().is_some_and(is_json) {
        headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    let mut call =
        Call::new(HttpSpec { headers, body, ..HttpSpec::new(args.method.to_uppercase(), args.url) });
    if let Some(key) = args.key {
        call = call.key(key);
    }
    Ok(match args.lane {
        Some(lane) => call.lane(lane),
        None => call,
    })
}

/// What is too large for a job is too large for a call, and other advice helps.
fn in_its_words(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::TooLarge { most } => Trouble::Outbox(OutboxTrouble::TooLarge { most }),
        other => other,
    }
}

fn list(args: &OutboxListArgs, stage: &mut Stage<'_>) -> Result<OutboxView, Trouble> {
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut items = match opened::if_there(stage)? {
        Some(opened) => {
            let query = ItemQuery {
                state: args.state,
                lane: args.lane.clone(),
                after: args.after.map(|id| id.0),
                // One more tells whether there is a next page.
                limit: limit.saturating_add(1),
            };
            opened.wait(opened.store.items(query))?
        }
        None => Vec::new(),
    };
    let more = items.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next = items.last().filter(|_| more).map(|item| ItemId(item.id));
    let next_page = next.map(|next| {
        let wanted = args.state.map(ItemState::name);
        NextPage::new("outbox list")
            .flag("--state", wanted.as_ref().map(|wanted| wanted as _))
            .flag("--lane", args.lane.as_ref().map(|lane| lane as _))
            .flag("--limit", args.limit.as_ref().map(|limit| limit as _))
            .flag("--after", Some(&next))
            .command()
    });
    Ok(OutboxView {
        schema: "redrive/outbox.v1",
        items: items.iter().map(ItemLine::new).collect(),
        next,
        next_page,
        is_part: args.state.is_some() || args.lane.is_some() || args.after.is_some(),
        now: Timestamp::from_system(stage.now),
    })
}

fn show(id: ItemId, with_payload: bool, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let item = opened.wait(opened.store.item(id.0))?.ok_or_else(|| no_item(id, &opened))?;
    shown(&ItemView::new(&item, with_payload, opened.now), Exit::Done, stage)
}

/// All that have failed when none is named.
fn retry(ids: &[ItemId], stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let (opened, outbox) = outbox(stage)?;
    let back = opened.runtime.block_on(outbox.retry(ids))?;
    opened.wait(opened.store.close())?;
    if back.is_empty() && ids.is_empty() {
        return Err(Trouble::Outbox(OutboxTrouble::NothingFailed { store: opened.store.location() }));
    }
    let not_found = ids.iter().filter(|id| !back.contains(id)).copied().collect();
    let view = ItemsMovedView { schema: "redrive/outbox_retried.v1", items: back, not_found, key: "retried" };
    moved(&view, stage)
}

/// What goes is gone: a person is asked.
fn discard(ids: &[ItemId], yes: bool, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let (opened, outbox) = outbox(stage)?;
    let (mut there, mut not_found) = (Vec::new(), Vec::new());
    for id in ids {
        let item = opened.wait(opened.store.item(id.0))?.filter(|item| item.state != ItemState::Sent);
        if item.is_some() { there.push(*id) } else { not_found.push(*id) }
    }
    if !there.is_empty() && !yes {
        let named = there.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let what = text(stage.settings.lang, "outbox.about-to-discard", &[("ids", &named)]);
        if !confirm(&what, "redrive outbox discard …", stage)? {
            return cancelled(stage);
        }
    }
    let mut items = Vec::new();
    for id in there {
        // It may have been sent while somebody thought about it.
        let gone = opened.runtime.block_on(outbox.discard(id))?;
        if gone { items.push(id) } else { not_found.push(id) }
    }
    opened.wait(opened.store.close())?;
    let view = ItemsMovedView { schema: "redrive/outbox_discarded.v1", items, not_found, key: "discarded" };
    moved(&view, stage)
}

/// Shows what was done; what was not is an error, and stands where errors do.
fn moved(view: &ItemsMovedView, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let exit = match (view.items.is_empty(), view.not_found.is_empty()) {
        (_, true) => Exit::Done,
        (true, false) => Exit::Nothing,
        (false, false) => Exit::Partly,
    };
    shown(view, exit, stage)?;
    let lang = stage.settings.lang;
    for id in &view.not_found {
        stage.talk.error(&text(lang, &format!("outbox.{}.not", view.key), &[("id", id)]));
    }
    if !view.not_found.is_empty() {
        stage.talk.hint(&say(lang, "trouble.hint.outbox.no-item"));
    }
    Ok(exit)
}

fn outbox(stage: &Stage<'_>) -> Result<(Opened, Outbox), Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let outbox = Outbox::new(&opened.engine(&config, stage)?)?;
    Ok((opened, outbox))
}

fn no_item(id: ItemId, opened: &Opened) -> Trouble {
    Trouble::Outbox(OutboxTrouble::NoItem { id, store: opened.store.location() })
}
