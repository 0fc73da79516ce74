//! `targets list`, `targets show TARGET`, `targets limit TARGET`, `targets reset TARGET`: what is protected, and how it stands.

use redrive::engine::{Engine, TargetLimits, TargetView};
use redrive_store::Timestamp;

use super::opened::Opened;
use super::{act, opened, shown};
use crate::args::{TargetLimitArgs, TargetsCommand};
use crate::trouble::{DeskTrouble, Trouble};
use crate::view::targets::{TargetChange, TargetChangedView, TargetDetailView, TargetsView};
use crate::{Exit, Stage};

/// The most that are listed.
const MOST: u32 = 1_000;

pub(super) fn run(command: Option<TargetsCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(TargetsCommand::List) {
        TargetsCommand::List => list(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        TargetsCommand::Show { target } => {
            show(&target, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        TargetsCommand::Limit(args) => limit(args, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        TargetsCommand::Reset { target, why } => {
            reset(target, why.as_deref(), stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
    }
}

/// What protected targets are like; nothing where there is no store yet.
pub(super) fn known(opened: &Opened, stage: &Stage<'_>) -> Result<Vec<TargetView>, Trouble> {
    let engine = opened.engine(&stage.settings.config()?, stage)?;
    // Those that matter, by name: however many there are, a sick one is among them.
    let mut targets = opened.runtime.block_on(engine.targets_that_matter(MOST))?;
    targets.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(targets)
}

fn list(stage: &mut Stage<'_>) -> Result<TargetsView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let lang = stage.settings.lang;
    let Some(opened) = opened::if_there(stage)? else { return Ok(TargetsView::new(&[], lang, now)) };
    Ok(TargetsView::new(&known(&opened, stage)?, lang, now))
}

fn show(target: &str, stage: &mut Stage<'_>) -> Result<TargetDetailView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&stage.settings.config()?, stage)?;
    let seen = opened.runtime.block_on(engine.target(target))?;
    let (target, store) = (target.to_owned(), opened.store.location());
    let seen = seen.filter(|seen| is_known(&engine, seen));
    let seen = seen.ok_or(Trouble::Desk(DeskTrouble::NoTarget { target, store }))?;
    Ok(TargetDetailView::new(&seen, stage.settings.lang, opened.now))
}

/// Whether anything is known of it but its name. The rules hold for every host, so that any name has a protection: what was never called,
/// limited or configured is a slip.
fn is_known(engine: &Engine, seen: &TargetView) -> bool {
    seen.changed_at.is_some() || seen.limits.is_some() || engine.names_target(&seen.name)
}

/// Makes the store when there is none: a limit may be set before anything is there to be limited.
fn limit(args: TargetLimitArgs, stage: &mut Stage<'_>) -> Result<TargetChangedView, Trouble> {
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&stage.settings.config()?, stage)?;
    let TargetLimitArgs { target, rate, burst, concurrency, why, .. } = args;
    let limits = TargetLimits { rate, burst, concurrency };
    let name = if target.starts_with("queue:") { "queue.limit" } else { "target.limit" };
    act::record(&opened, &engine, name, target.as_str(), why.as_deref(), stage)?;
    opened.runtime.block_on(engine.limit_target(&target, limits))?;
    opened.wait(opened.store.close())?;
    let change =
        if limits == TargetLimits::default() { TargetChange::Unlimited } else { TargetChange::Limited };
    Ok(TargetChangedView::new(target, change))
}

fn reset(target: String, why: Option<&str>, stage: &mut Stage<'_>) -> Result<TargetChangedView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&stage.settings.config()?, stage)?;
    let unknown = |target: String| {
        let store = opened.store.location();
        Trouble::Desk(DeskTrouble::NoTarget { target, store })
    };
    let seen = opened.runtime.block_on(engine.target(&target))?;
    if !seen.is_some_and(|seen| is_known(&engine, &seen)) {
        return Err(unknown(target));
    }
    act::record(&opened, &engine, "target.reset", target.as_str(), why, stage)?;
    if !opened.runtime.block_on(engine.reset_target(&target))? {
        act::refused(&opened, &engine, "target.reset", target.as_str(), why, stage)?;
        return Err(unknown(target));
    }
    opened.wait(opened.store.close())?;
    Ok(TargetChangedView::new(target, TargetChange::Reset))
}
