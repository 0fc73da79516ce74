//! `schedule add|list|show|remove|pause|resume|run`: jobs by the clock.

use redrive::engine::{Engine, NewSchedule, Schedule, ScheduleProblem};
use redrive_store::Timestamp;

use super::opened::{self, Opened};
use super::{act, enqueue, shown};
use crate::args::{ScheduleAddArgs, ScheduleArg, ScheduleCommand};
use crate::trouble::{ScheduleTrouble, Trouble};
use crate::view::enqueued::EnqueuedView;
use crate::view::schedule::{ScheduleChange, ScheduleChangedView, ScheduleItem, ScheduleView, SchedulesView};
use crate::{Exit, Stage};

/// The most schedules in a list, which is also the most there are.
const MOST: u32 = 10_000;

pub(super) fn run(command: Option<ScheduleCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(ScheduleCommand::List) {
        ScheduleCommand::Add(args) => add(&args, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        ScheduleCommand::List => list(stage).and_then(|view| shown(&view, Exit::Done, stage)),
        ScheduleCommand::Show { name } => show(&name, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        ScheduleCommand::Remove(arg) => remove(arg, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        ScheduleCommand::Pause(arg) => {
            pause(arg, true, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        ScheduleCommand::Resume(arg) => {
            pause(arg, false, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        ScheduleCommand::Run(arg) => run_now(&arg, stage).and_then(|view| shown(&view, Exit::Done, stage)),
    }
}

fn add(args: &ScheduleAddArgs, stage: &mut Stage<'_>) -> Result<ScheduleView, Trouble> {
    let (name, cron) = match &args.when[..] {
        [name, cron] if args.name.is_none() => (Some(name.clone()), cron.clone()),
        [cron] => (args.name.clone(), cron.clone()),
        [_, _] => return Err(Trouble::Schedule(ScheduleTrouble::NamedTwice)),
        // A shell makes file names of stars.
        _ => return Err(Trouble::Schedule(ScheduleTrouble::NotQuoted { words: args.when.len() })),
    };
    let config = stage.settings.config()?;
    let job = enqueue::work(&args.work, &config, stage)?;
    let mut new =
        NewSchedule { name, cron, zone: args.tz.clone(), missed: args.missed, job, replace: args.replace };
    // No store is made for what is refused.
    new.check()?;
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&config, stage)?;
    // What is refused is no act.
    engine.check_schedule(&new)?;
    let name = match new.name.take() {
        Some(name) => name,
        None => opened.runtime.block_on(engine.free_schedule_name(&new))?,
    };
    let target = format!("{name} {}", new.cron);
    let is_taken = !new.replace && opened.runtime.block_on(engine.schedule(&name))?.is_some();
    if is_taken {
        act::refused(&opened, &engine, "schedule.add", target, args.why.as_deref(), stage)?;
        return Err(Trouble::Schedule(ScheduleTrouble::Problem(ScheduleProblem::Taken(name))));
    }
    new.name = Some(name);
    act::record(&opened, &engine, "schedule.add", target, args.why.as_deref(), stage)?;
    let schedule = opened.runtime.block_on(engine.add_schedule(new))?;
    opened.wait(opened.store.close())?;
    Ok(ScheduleView::new(ScheduleItem::new(&schedule, None), &schedule))
}

fn list(stage: &mut Stage<'_>) -> Result<SchedulesView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let Some(opened) = opened::if_there(stage)? else { return Ok(SchedulesView::new(Vec::new(), now)) };
    let engine = opened.looker()?;
    let schedules = opened.runtime.block_on(engine.schedules(None, MOST))?;
    let mut items = Vec::new();
    for schedule in &schedules {
        items.push(item(&opened, &engine, schedule)?);
    }
    Ok(SchedulesView::new(items, now))
}

fn show(name: &str, stage: &Stage<'_>) -> Result<ScheduleView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    let schedule = opened.runtime.block_on(engine.schedule(name))?;
    let schedule = schedule.ok_or_else(|| unknown(name))?;
    Ok(ScheduleView::new(item(&opened, &engine, &schedule)?, &schedule))
}

fn item(opened: &Opened, engine: &Engine, schedule: &Schedule) -> Result<ScheduleItem, Trouble> {
    let job = match schedule.last {
        Some(tick) => opened.runtime.block_on(engine.job_of_tick(schedule, tick))?,
        None => None,
    };
    Ok(ScheduleItem::new(schedule, job))
}

fn remove(arg: ScheduleArg, stage: &Stage<'_>) -> Result<ScheduleChangedView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    if opened.runtime.block_on(engine.schedule(&arg.name))?.is_none() {
        return Err(unknown(&arg.name));
    }
    act::record(&opened, &engine, "schedule.remove", arg.name.as_str(), arg.why.as_deref(), stage)?;
    let changed = opened.runtime.block_on(engine.remove_schedule(&arg.name))?;
    opened.wait(opened.store.close())?;
    Ok(ScheduleChangedView::new(arg.name, ScheduleChange::Removed, changed))
}

fn pause(arg: ScheduleArg, paused: bool, stage: &Stage<'_>) -> Result<ScheduleChangedView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    if opened.runtime.block_on(engine.schedule(&arg.name))?.is_none() {
        return Err(unknown(&arg.name));
    }
    let (name, change) = if paused {
        ("schedule.pause", ScheduleChange::Paused)
    } else {
        ("schedule.resume", ScheduleChange::Resumed)
    };
    act::record(&opened, &engine, name, arg.name.as_str(), arg.why.as_deref(), stage)?;
    let changed = opened.runtime.block_on(engine.pause_schedule(&arg.name, paused))?;
    opened.wait(opened.store.close())?;
    Ok(ScheduleChangedView::new(arg.name, change, changed == Some(true)))
}

fn run_now(arg: &ScheduleArg, stage: &Stage<'_>) -> Result<EnqueuedView, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    if opened.runtime.block_on(engine.schedule(&arg.name))?.is_none() {
        return Err(unknown(&arg.name));
    }
    act::record(&opened, &engine, "schedule.run", arg.name.as_str(), arg.why.as_deref(), stage)?;
    let job = opened.runtime.block_on(engine.run_schedule(&arg.name))?;
    let id = job.ok_or_else(|| unknown(&arg.name))?;
    opened.wait(opened.store.close())?;
    Ok(EnqueuedView::new(redrive_store::Enqueued { id, existing: false }))
}

fn unknown(name: &str) -> Trouble {
    Trouble::Schedule(ScheduleTrouble::Problem(ScheduleProblem::Unknown(name.to_owned())))
}
