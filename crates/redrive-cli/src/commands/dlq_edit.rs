//! `dlq edit ID`: the payload of a letter mended before it is put back, in an editor or by flags (R-D8).
//!
//! What a person typed is never lost: whatever goes wrong after the editor, the file is kept and named. The diff shows
//! the lines that changed and no others, and goes to the person alone: no event and no log has it.

mod editor;

use std::io::Read;

use redrive::engine::{Engine, check_payload};
use redrive::payload::{self, Document, PathTrouble, changes, parse_path, readable};
use redrive_store::{DeadLetter, Edited, JobState, MAX_PAYLOAD_BYTES, Redriven};

use super::opened::{self, Opened};
use super::{act, ask, cancelled, shown};
use crate::args::{EditArgs, JobRef};
use crate::settings::Form;
use crate::text::{say, text};
use crate::trouble::{DeskTrouble, Trouble};
use crate::view::Page;
use crate::view::edited::{DiffView, EditedView, RedriveAfter, VersionsView};
use crate::{Exit, Stage, render};
use editor::Scratch;

pub(super) fn run(args: &EditArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    // Before anything is typed: whoever cannot be asked must have said yes.
    if !args.yes && !args.dry_run && (stage.settings.form == Form::Json || !stage.stdin_is_terminal) {
        // What is not there is not asked about.
        let id = letter(&args.id, &opened::to_read(stage)?)?.id;
        let what = text(stage.settings.lang, "edited.about-to", &[("id", &id)]);
        return Err(Trouble::NeedsYes { what, command: format!("redrive dlq edit {} …", args.id) });
    }
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let letter = letter(&args.id, &opened)?;
    let before = opened.runtime.block_on(engine.payload_versions(letter.id))?;
    let edits = u32::try_from(before.len()).unwrap_or(u32::MAX);
    if let Some(new) = by_flags(args, &letter, stage)? {
        check(&new, &letter.kind)?;
        return finish(args, &letter, edits, new, &opened, &engine, stage);
    }
    let (old, file) = to_be_typed(&letter, stage)?;
    match typed(&old, &file, &letter, stage).and_then(|new| match new {
        Some(new) => {
            let text = file.take()?;
            finish(args, &letter, edits, new, &opened, &engine, stage).or_else(|trouble| {
                file.restore(&text)?;
                Err(trouble)
            })
        }
        None => unchanged(&letter, stage),
    }) {
        Ok(exit) => Ok(exit),
        // What is not there cannot be kept, and what nobody typed into need not be.
        Err(trouble @ Trouble::Desk(DeskTrouble::FileGone)) => Err(trouble),
        Err(trouble) if file.read().is_ok_and(|bytes| bytes == old.text.as_bytes()) => Err(trouble),
        Err(trouble) => {
            Err(Trouble::Desk(DeskTrouble::Kept { trouble: Box::new(trouble), file: file.keep() }))
        }
    }
}

/// The payloads that a letter had before.
pub(super) fn versions(id: &JobRef, with_payload: bool, stage: &Stage<'_>) -> Result<VersionsView, Trouble> {
    let opened = opened::to_read(stage)?;
    let record = opened.job(id)?;
    // What is over needs no payload any more, and none is kept.
    let over = || Trouble::Desk(DeskTrouble::PayloadsGone { id: record.id.to_string() });
    let current = record.job.ok_or_else(over)?.payload;
    let versions = opened.wait(opened.store.payload_versions(record.id))?;
    Ok(VersionsView::new(record.id, versions, &current, with_payload, opened.now))
}

fn letter(id: &JobRef, opened: &Opened) -> Result<DeadLetter, Trouble> {
    let record = opened.job(id)?;
    match record.state {
        JobState::Dead(letter) => Ok(*letter),
        _ => Err(Trouble::NoLetter { id: record.id.to_string(), store: opened.store.location() }),
    }
}

/// The payload that flags make; nothing when there are none.
fn by_flags(args: &EditArgs, letter: &DeadLetter, stage: &mut Stage<'_>) -> Result<Option<Vec<u8>>, Trouble> {
    if let Some(json) = &args.payload {
        Document::parse(json).map_err(Trouble::BadPayload)?;
        return Ok(Some(json.clone().into_bytes()));
    }
    if let Some(file) = &args.payload_file {
        let most = u64::try_from(MAX_PAYLOAD_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        let mut bytes = Vec::new();
        if file.as_os_str() == "-" {
            stage.stdin.take(most).read_to_end(&mut bytes).map_err(Trouble::Input)?;
        } else {
            std::fs::File::open(stage.cwd.join(file))
                .and_then(|opened| opened.take(most).read_to_end(&mut bytes))
                .map_err(|source| Trouble::Unreadable { path: file.clone(), source })?;
        }
        return Ok(Some(bytes));
    }
    if args.set.is_empty() && args.unset.is_empty() {
        return Ok(None);
    }
    let mut document = std::str::from_utf8(&letter.payload)
        .ok()
        .and_then(|text| Document::parse(text).ok())
        .ok_or_else(|| Trouble::Desk(DeskTrouble::NotJsonToSet { id: letter.id.to_string() }))?;
    for one in &args.set {
        let steps = parse_path(&one.path).map_err(|trouble| bad_path(&one.path, &[], trouble))?;
        let set = document.set(&steps, Document::of_value(&one.value));
        set.map_err(|trouble| bad_path(&one.path, &steps, trouble))?;
    }
    for written in &args.unset {
        let steps = parse_path(written).map_err(|trouble| bad_path(written, &[], trouble))?;
        document.unset(&steps).map_err(|trouble| bad_path(written, &steps, trouble))?;
    }
    Ok(Some(document.compact().into_bytes()))
}

fn bad_path(written: &str, steps: &[payload::Step], trouble: PathTrouble) -> Trouble {
    let (key, step) = match trouble {
        PathTrouble::Syntax => ("syntax", 0),
        PathTrouble::NoObject { step } => ("no-object", step),
        PathTrouble::NoList { step } => ("no-list", step),
        PathTrouble::NoIndex { step, .. } => ("no-index", step),
        PathTrouble::Missing { step } => ("missing", step),
    };
    // An object or a list is missed where the path stood before the step.
    let place = match trouble {
        PathTrouble::NoObject { step } | PathTrouble::NoList { step } if step == 0 => "payload".to_owned(),
        PathTrouble::NoObject { step } | PathTrouble::NoList { step } => payload::up_to(steps, step - 1),
        _ => payload::up_to(steps, step),
    };
    let len = if let PathTrouble::NoIndex { len, .. } = trouble { len } else { 0 };
    Trouble::Desk(DeskTrouble::BadPath { path: written.to_owned(), key, place, len })
}

/// What is put before a person.
struct Old {
    text: String,
    /// Only JSON comes back then.
    is_json: bool,
}

fn to_be_typed(letter: &DeadLetter, stage: &Stage<'_>) -> Result<(Old, Scratch), Trouble> {
    let id = letter.id.to_string();
    let binary = || Trouble::Desk(DeskTrouble::NotText { id: id.clone() });
    let text = std::str::from_utf8(&letter.payload).map_err(|_| binary())?;
    let (text, is_json) = match Document::parse(text) {
        Ok(document) => (document.pretty(), true),
        Err(_) => (text.to_owned(), false),
    };
    let name = format!("{id}.{}", if is_json { "json" } else { "txt" });
    let file = Scratch::new(&name, text.as_bytes(), stage)?;
    Ok((Old { text, is_json }, file))
}

/// What a person makes of it; nothing when they left it as it was.
fn typed(
    old: &Old,
    file: &Scratch,
    letter: &DeadLetter,
    stage: &mut Stage<'_>,
) -> Result<Option<Vec<u8>>, Trouble> {
    loop {
        editor::edit(file.path(), stage)?;
        let bytes = file.read()?;
        if bytes == old.text.as_bytes() {
            return Ok(None);
        }
        let read = understood(bytes, old).and_then(|new| match new {
            Some(new) => check(&new, &letter.kind).map(|()| Some(new)),
            None => Ok(None),
        });
        let trouble = match read {
            Ok(new) => return Ok(new),
            Err(trouble) => trouble,
        };
        // Somebody at a terminal mends it at once; nobody else waits for a question.
        if !stage.stdin_is_terminal || stage.settings.form == Form::Json {
            return Err(trouble);
        }
        let what = trouble.messages(stage.settings.lang).join("; ");
        if !ask(&what, "edited.again", "redrive dlq edit …", stage)? {
            return Err(trouble);
        }
    }
}

/// The payload that a text makes; nothing when it says what was there before.
fn understood(bytes: Vec<u8>, old: &Old) -> Result<Option<Vec<u8>>, Trouble> {
    if !old.is_json {
        return Ok(Some(bytes));
    }
    let text = String::from_utf8_lossy(&bytes);
    let new = Document::parse(&text).map_err(|error| Trouble::Desk(DeskTrouble::NotJson(error)))?;
    let same = Document::parse(&old.text).is_ok_and(|old| old == new);
    Ok(if same { None } else { Some(new.compact().into_bytes()) })
}

/// Whether those who run this kind could do anything with the payload. Handlers of other kinds are not ours to know.
fn check(payload: &[u8], kind: &str) -> Result<(), Trouble> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        return Err(Trouble::TooLarge { most: MAX_PAYLOAD_BYTES });
    }
    check_payload(kind, payload).map_err(|error| {
        let (kind, why) = (kind.to_owned(), error.to_string());
        Trouble::Desk(DeskTrouble::BadForKind { kind, why })
    })
}

/// Shows what changes, asks, writes it, and puts the letter back if that was asked for.
fn finish(
    args: &EditArgs,
    letter: &DeadLetter,
    edits: u32,
    new: Vec<u8>,
    opened: &Opened,
    engine: &Engine,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    if new == letter.payload {
        return unchanged(letter, stage);
    }
    let id = letter.id.to_string();
    let diff = DiffView::new(&id, changes(&readable(&letter.payload), &readable(&new)));
    if args.dry_run {
        return shown(&EditedView::would(id, diff), Exit::Done, stage);
    }
    if stage.settings.form != Form::Json {
        let page = render::page(&diff.blocks(stage.settings.reader()), stage);
        stage.talk.page(&page);
    }
    if !args.yes {
        let what = text(stage.settings.lang, "edited.about-to", &[("id", &id)]);
        if !ask(&what, "edited.go-on", &format!("redrive dlq edit {id} …"), stage)? {
            return cancelled(stage);
        }
    }
    act::record(opened, engine, "letter.edit", letter.id.to_string(), args.why.as_deref(), stage)?;
    let edited = opened.runtime.block_on(engine.edit_letter(letter.id, edits, new, act::person(stage)))?;
    let version = match edited {
        Edited::Done { version } => version,
        Edited::NotDead => return Err(Trouble::NoLetter { id, store: opened.store.location() }),
        Edited::Changed { .. } => return Err(Trouble::Desk(DeskTrouble::EditedMeanwhile { id })),
    };
    let redriven = if args.redrive {
        act::record(opened, engine, "letter.redrive", letter.id.to_string(), args.why.as_deref(), stage)?;
        let redriven = opened.runtime.block_on(engine.redrive(vec![letter.id]))?;
        Some(match redriven.first() {
            Some(Redriven::Ready) => RedriveAfter::Redriven,
            Some(Redriven::Duplicate { .. }) => RedriveAfter::Duplicate,
            Some(Redriven::NotDead) | None => RedriveAfter::NotDead,
        })
    } else {
        None
    };
    opened.wait(opened.store.close())?;
    let exit = match redriven {
        None | Some(RedriveAfter::Redriven) => Exit::Done,
        Some(RedriveAfter::Duplicate | RedriveAfter::NotDead) => Exit::Partly,
    };
    shown(&EditedView::done(id, version, redriven), exit, stage)
}

fn unchanged(letter: &DeadLetter, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    if stage.settings.form == Form::Json {
        return shown(&EditedView::unchanged(letter.id.to_string()), Exit::Done, stage);
    }
    let note = say(stage.settings.lang, "edited.unchanged");
    stage.talk.note(&note);
    Ok(Exit::Done)
}
