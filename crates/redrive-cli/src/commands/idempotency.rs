//! `idempotency list|show|reset`: the keys that were used, what is known of one, and forgetting it.
//!
//! A key is named by its number, by itself, or by its beginning where the whole list was short enough to look through: a beginning that
//! only seems to be the only one must not forget somebody else's key. With `--yes` a beginning forgets nothing at all.

use redrive::redact;
use redrive_store::{KeyQuery, KeyRecord, KeyState, StoredResponse, Timestamp};

use super::opened::{self, Opened};
use super::paging::NextPage;
use super::{act, cancelled, confirm, run_key, shown};
use crate::args::{IdempotencyCommand, KeyArg, KeysArgs};
use crate::escape::beginning;
use crate::text::text;
use crate::trouble::{DeskTrouble, Trouble};
use crate::view::idempotency::{KeyLine, KeyResetView, KeyView, KeysView, key_id};
use crate::{Exit, Stage};

/// How many are listed unless a person says.
const DEFAULT_LIMIT: u32 = 20;
/// How many are read at a time, and at most, to find one by its beginning.
const LOOKED_AT: u32 = 1_000;
const MOST_LOOKED_AT: usize = 10_000;
/// How many are named when several begin so.
const NAMED: usize = 5;
/// The most that is kept of a reason.
const WHY_CHARS: usize = 1_000;

pub(super) fn run(
    flags: KeysArgs,
    command: Option<IdempotencyCommand>,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    match command {
        None => list(&flags, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        Some(IdempotencyCommand::List(args)) => {
            list(&args.or(flags), stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        Some(IdempotencyCommand::Show { key, body }) => {
            let opened = opened::to_read(stage)?;
            let (mut record, response) = found(&key, Named::OrItsBeginning, &opened)?;
            record.job = match record.job {
                None => run_key::job_of(&record, &opened)?.map(|job| job.id),
                job => job,
            };
            let why = opened.runtime.block_on(opened.looker()?.why_key_unknown(&record))?;
            let view = KeyView::new(&record, response, why, body, opened.now);
            shown(&view, Exit::Done, stage)
        }
        Some(IdempotencyCommand::Reset { key, why, yes }) => reset(&key, why.as_deref(), yes, stage),
    }
}

fn list(args: &KeysArgs, stage: &mut Stage<'_>) -> Result<KeysView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut records = match opened::if_there(stage)? {
        Some(opened) => {
            // One more than is shown tells whether there is a next page.
            let limit = limit.saturating_add(1);
            let query = KeyQuery {
                state: args.state,
                key: args.key.clone(),
                before: args.after,
                limit,
                ..KeyQuery::default()
            };
            opened.wait(opened.store.keys(query))?
        }
        None => Vec::new(),
    };
    let is_more = records.len() > limit as usize;
    records.truncate(limit as usize);
    let next = records.last().filter(|_| is_more).map(|last| key_id(last.id));
    let next_page = next.as_ref().map(|next| {
        NextPage::new("idempotency list")
            .flag("--state", args.state.map(KeyState::name).as_ref().map(|name| name as _))
            .flag("--key", args.key.as_ref().map(|key| key as _))
            .flag("--limit", args.limit.as_ref().map(|limit| limit as _))
            .flag("--after", Some(next))
            .command()
    });
    let items = records.iter().map(KeyLine::new).collect();
    Ok(KeysView { schema: "redrive/idempotency_keys.v1", items, next, next_page, now })
}

/// Asks, unless somebody said so already; what follows is said first.
fn reset(key: &KeyArg, why: Option<&str>, yes: bool, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    // Whoever is not asked does not see what a beginning has come to mean.
    let (record, _) = found(key, if yes { Named::Whole } else { Named::OrItsBeginning }, &opened)?;
    let id = key_id(record.id);
    if !yes {
        let lang = stage.settings.lang;
        let values: [(&str, &dyn std::fmt::Display); 3] =
            [("id", &id), ("key", &record.key), ("endpoint", &record.endpoint)];
        let what = text(lang, &format!("idempotency.ask.{}", record.state.name()), &values);
        if !confirm(&what, &format!("redrive idempotency reset {id}"), stage)? {
            return cancelled(stage);
        }
    }
    let why = why.map(|why| beginning(&redact(why), WHY_CHARS));
    act::record(&opened, &opened.looker()?, "key.reset", id.as_str(), why.as_deref(), stage)?;
    let gone = opened.wait(opened.store.reset_key(opened.now, record.id, record.state, why))?;
    opened.wait(opened.store.close())?;
    match gone {
        Some(record) => shown(&KeyResetView::new(&record), Exit::Done, stage),
        None => Err(Trouble::Desk(DeskTrouble::KeyChanged { id })),
    }
}

/// How a key has to be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// By its id or by itself.
    Whole,
    /// By its beginning as well.
    OrItsBeginning,
}

/// The one record that is meant, with its answer.
fn found(
    key: &KeyArg,
    named: Named,
    opened: &Opened,
) -> Result<(KeyRecord, Option<StoredResponse>), Trouble> {
    if let Some(record) = key.record()
        && let Some(found) = opened.wait(opened.store.key(record))?
    {
        return Ok(found);
    }
    let written = &key.0;
    let no_key = || {
        let (written, store) = (written.clone(), opened.store.location());
        Trouble::Desk(match named {
            Named::Whole => DeskTrouble::NoWholeKey { written, store },
            Named::OrItsBeginning => DeskTrouble::NoKey { written, store },
        })
    };
    let exact = KeyQuery { key: Some(written.clone()), limit: LOOKED_AT, ..KeyQuery::default() };
    let mut meant = opened.wait(opened.store.keys(exact))?;
    if meant.is_empty() && named == Named::OrItsBeginning {
        meant = beginning_with(written, opened)?;
    }
    match meant.as_slice() {
        [] => Err(no_key()),
        [one] => opened.wait(opened.store.key(one.id))?.ok_or_else(no_key),
        several => {
            let named =
                several.iter().take(NAMED).map(|one| format!("{} ({})", key_id(one.id), one.endpoint));
            Err(Trouble::Desk(DeskTrouble::SeveralKeys { written: written.clone(), named: named.collect() }))
        }
    }
}

/// Those that begin so; trouble where there are too many keys to be sure.
fn beginning_with(written: &str, opened: &Opened) -> Result<Vec<KeyRecord>, Trouble> {
    let (mut meant, mut before, mut looked_at) = (Vec::new(), None, 0);
    loop {
        let query = KeyQuery { before, limit: LOOKED_AT, ..KeyQuery::default() };
        let page = opened.wait(opened.store.keys(query))?;
        looked_at += page.len();
        before = page.last().map(|last| last.id);
        let is_last = page.len() < LOOKED_AT as usize;
        meant.extend(page.into_iter().filter(|one| one.key.starts_with(written)));
        if is_last {
            return Ok(meant);
        }
        if looked_at >= MOST_LOOKED_AT {
            return Err(Trouble::Desk(DeskTrouble::TooManyKeys {
                written: written.to_owned(),
                n: looked_at,
            }));
        }
    }
}
