//! `alerts list|check|test|silence`: how the rules stand, whether messages arrive, and what is not told for a while.

use redrive::engine::{AlertProblem, NewSilence};

use super::{act, opened, shown};
use crate::args::{AlertsCommand, SilenceArgs};
use crate::trouble::Trouble;
use crate::view::alerts::{AlertsView, SilencedView, TestedView};
use crate::{Exit, Stage};

pub(super) fn run(command: Option<AlertsCommand>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    match command.unwrap_or(AlertsCommand::List) {
        AlertsCommand::List => {
            let view = look(stage)?;
            shown(&view, Exit::Done, stage)
        }
        // For scripts and monitors: the exit code says whether anything is wrong that nobody has silenced.
        AlertsCommand::Check => {
            let view = look(stage)?.only_firing();
            let exit = if view.is_heard() { Exit::Failed } else { Exit::Done };
            shown(&view, exit, stage)
        }
        AlertsCommand::Test { receiver, why } => {
            let view = test(receiver.as_deref(), why.as_deref(), stage)?;
            shown(&view, Exit::Done, stage)
        }
        AlertsCommand::Silence(args) => {
            let view = silence(args, stage)?;
            shown(&view, Exit::Done, stage)
        }
    }
}

fn look(stage: &Stage<'_>) -> Result<AlertsView, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let report = opened.runtime.block_on(engine.alerts())?;
    Ok(AlertsView::new(report, opened.now))
}

fn test(receiver: Option<&str>, why: Option<&str>, stage: &Stage<'_>) -> Result<TestedView, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_write(stage)?;
    let engine = opened.engine(&config, stage)?;
    if engine.alert_settings().receivers.is_empty() {
        return Err(redrive::engine::EngineError::from(AlertProblem::NoReceivers).into());
    }
    let known = engine.alert_settings().receivers.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
    if let Some(name) = receiver.filter(|name| !known.iter().any(|known| known == name)) {
        let unknown = AlertProblem::NoReceiver { name: name.to_owned(), known };
        return Err(redrive::engine::EngineError::from(unknown).into());
    }
    act::record(&opened, &engine, "alert.test", receiver.unwrap_or_default(), why, stage)?;
    let sent = opened.runtime.block_on(engine.test_alerts(receiver))?;
    opened.wait(opened.store.close())?;
    Ok(TestedView::new(sent))
}

fn silence(args: SilenceArgs, stage: &Stage<'_>) -> Result<SilencedView, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&stage.settings.config()?, stage)?;
    if args.end {
        let silences = opened.runtime.block_on(engine.silences())?;
        let begins = |id: &str| id == args.of || (args.of.len() >= 4 && id.starts_with(&args.of));
        let found = silences.into_iter().find(|silence| begins(&silence.id));
        let Some(silence) = found else {
            return Err(redrive::engine::EngineError::from(AlertProblem::NoSilence(args.of)).into());
        };
        act::record(&opened, &engine, "alert.unsilence", silence.id.as_str(), args.why.as_deref(), stage)?;
        opened.runtime.block_on(engine.end_silence(&silence.id))?;
        opened.wait(opened.store.close())?;
        return Ok(SilencedView::ended(silence));
    }
    act::record(&opened, &engine, "alert.silence", args.of.as_str(), args.why.as_deref(), stage)?;
    let new = NewSilence { of: args.of, lasts: args.lasts, why: args.why, by: act::who(stage) };
    let silence = opened.runtime.block_on(engine.silence_alerts(new))?;
    opened.wait(opened.store.close())?;
    Ok(SilencedView::begun(silence))
}
