//! `dlq groups`, `dlq show --group`, and what a person says of groups: `dlq ack`, `dlq resolve`, `dlq reopen`.

use redrive_store::{GroupState, LetterFilter, Timestamp};

use super::{act, opened};
use crate::Stage;
use crate::args::GroupsArgs;
use crate::trouble::Trouble;
use crate::view::dead_letter::{About, DeadLettersView, LetterView};
use crate::view::group::{GroupItem, GroupView, GroupsChangedView, GroupsView};

/// How many groups are listed unless a person says.
const DEFAULT_LIMIT: u32 = 20;
/// More groups than any store has.
const ALL: u32 = i32::MAX.unsigned_abs();
/// How many letters are shown with a group.
const NEWEST: u32 = 5;
/// The most that is kept of a note.
const NOTE_CHARS: usize = 1_000;

pub(super) fn list(args: &GroupsArgs, stage: &mut Stage<'_>) -> Result<GroupsView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let limit = if args.all { ALL - 1 } else { args.limit.unwrap_or(DEFAULT_LIMIT) };
    let Some(opened) = opened::if_there(stage)? else {
        return Ok(GroupsView::new(Vec::new(), false, now));
    };
    let groups = opened.looker()?;
    let (found, more) = opened.runtime.block_on(groups.list_groups(&args.state, args.cause, limit))?;
    Ok(GroupsView::new(found.into_iter().map(GroupItem::from).collect(), more, now))
}

pub(super) fn show(written: &str, with_payload: bool, stage: &mut Stage<'_>) -> Result<GroupView, Trouble> {
    let opened = opened::to_read(stage)?;
    let group = opened.group(written, &opened.looker()?)?;
    let of_it = LetterFilter { fingerprint: Some(group.fingerprint.clone()), ..LetterFilter::default() };
    let letters = opened.wait(opened.store.letters(of_it, NEWEST))?;
    let letters = DeadLettersView {
        schema: "redrive/dead_letters.v1",
        items: letters.iter().map(|letter| LetterView::new(letter, with_payload)).collect(),
        next: None,
        next_page: None,
        about: About::Letters { narrowed: true },
        now: opened.now,
    };
    Ok(GroupView::new(GroupItem::from(group), letters, opened.now))
}

/// Every group is found before the first is changed: a slip of the fingers changes nothing.
pub(super) fn set(
    written: &[String],
    stands: GroupState,
    note: Option<&str>,
    stage: &mut Stage<'_>,
) -> Result<GroupsChangedView, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let mut fingerprints = Vec::with_capacity(written.len());
    for written in written {
        fingerprints.push(opened.group(written, &engine)?.fingerprint);
    }
    fingerprints.dedup();
    let note = note.map(|note| note.chars().take(NOTE_CHARS).collect::<String>());
    let mut items = Vec::with_capacity(fingerprints.len());
    for fingerprint in fingerprints {
        let act = format!("group.{}", stands.name());
        act::record(&opened, &engine, &act, fingerprint.as_str(), note.as_deref(), stage)?;
        let changed = engine.set_group_state(fingerprint.clone(), stands, note.clone());
        let gone = || Trouble::NoGroup { prefix: fingerprint.clone(), store: opened.store.location() };
        items.push(GroupItem::from(opened.runtime.block_on(changed)?.ok_or_else(gone)?));
    }
    opened.wait(opened.store.close())?;
    Ok(GroupsChangedView::new(items))
}
