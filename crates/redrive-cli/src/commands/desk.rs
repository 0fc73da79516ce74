//! What is done with dead letters beyond listing them: each verb of `dlq` has its file, and is called from here.

use redrive_store::GroupState;

use super::{cancelled, dlq, dlq_discard, dlq_edit, dlq_export, dlq_groups, dlq_import, each, shown};
use crate::args::{DeskCommand, DlqListArgs, ShowArgs};
use crate::trouble::Trouble;
use crate::{Exit, Stage};

pub(super) fn run(command: DeskCommand, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let changed = |groups: &[String], state, note: Option<&str>, stage: &mut Stage<'_>| {
        dlq_groups::set(groups, state, note, stage).and_then(|view| shown(&view, Exit::Done, stage))
    };
    match command {
        DeskCommand::Groups(args) => {
            dlq_groups::list(&args, stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        DeskCommand::Ack(args) => {
            changed(&args.groups, GroupState::Acknowledged, args.note.as_deref(), stage)
        }
        DeskCommand::Resolve(args) => {
            changed(&args.groups, GroupState::Resolved, args.note.as_deref(), stage)
        }
        DeskCommand::Reopen { groups, why } => changed(&groups, GroupState::Open, why.as_deref(), stage),
        DeskCommand::Edit(args) => dlq_edit::run(&args, stage),
        DeskCommand::Discard(args) => match dlq_discard::discard(&args, stage)? {
            Some((view, exit)) => shown(&view, exit, stage),
            None => cancelled(stage),
        },
        DeskCommand::Purge(args) => match dlq_discard::purge(&args, stage)? {
            Some((view, exit)) => shown(&view, exit, stage),
            None => cancelled(stage),
        },
        DeskCommand::Export(args) => dlq_export::run(&args, stage),
        DeskCommand::Import { files, why } => {
            dlq_import::run(&files, why.as_deref(), stage).and_then(|(view, exit)| shown(&view, exit, stage))
        }
    }
}

/// One letter, its payloads, or the group that it belongs to.
pub(super) fn show(args: ShowArgs, list: &DlqListArgs, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let with_payload = args.with_payload || list.with_payload;
    if let Some(group) = args.group.as_deref().or(list.group.as_deref()) {
        let view = dlq_groups::show(group, with_payload, stage)?;
        return shown(&view, Exit::Done, stage);
    }
    // Without a group there is an id: the command line says so.
    let Some(id) = args.id else { return Err(Trouble::NoIds) };
    let versions = args.versions;
    each(id, stage, |id, stage| {
        if versions {
            let view = dlq_edit::versions(id, with_payload, stage)?;
            return shown(&view, Exit::Done, stage);
        }
        dlq::show(id, with_payload, stage).and_then(|view| shown(&view, Exit::Done, stage))
    })
}
