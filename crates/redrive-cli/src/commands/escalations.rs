//! `escalations`: what waits for a person, one of them whole, and that somebody has seen it.

use redrive::engine::{Engine, EscalationId, EscalationItem, EscalationPage};
use redrive_store::Timestamp;

use super::opened::{self, Opened};
use super::paging::NextPage;
use super::{act, ids, shown};
use crate::args::{EscalationPlace, EscalationsArgs, EscalationsCommand, IdArg, JobRef, SubjectArg};
use crate::trouble::{DeskTrouble, Trouble};
use crate::view::escalation::{AcknowledgedView, EscalationLine, EscalationView, EscalationsView};
use crate::{Exit, Stage};

/// How many are listed unless a person says.
const DEFAULT_LIMIT: u32 = 20;

pub(super) fn run(
    flags: EscalationsArgs,
    command: Option<EscalationsCommand>,
    stage: &mut Stage<'_>,
) -> Result<Exit, Trouble> {
    match command {
        None => list(flags, stage).and_then(|view| shown(&view, Exit::Done, stage)),
        Some(EscalationsCommand::List(args)) => {
            list(args.or(flags), stage).and_then(|view| shown(&view, Exit::Done, stage))
        }
        Some(EscalationsCommand::Show { id }) => show(&id, stage),
        Some(EscalationsCommand::Ack { ids, note }) => acknowledge(&ids, note.as_deref(), stage),
    }
}

fn list(args: EscalationsArgs, stage: &mut Stage<'_>) -> Result<EscalationsView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let page = match opened::if_there(stage)? {
        Some(opened) => {
            let engine = opened.looker()?;
            let after = args.after.map(|place| place.0);
            let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
            opened.runtime.block_on(engine.escalations(!args.all, after, limit))?
        }
        None => EscalationPage::default(),
    };
    let next = page.next.map(EscalationPlace);
    let next_page = next.map(|next| {
        let command = if args.all { "escalations --all" } else { "escalations" };
        NextPage::new(command)
            .flag("--limit", args.limit.as_ref().map(|limit| limit as _))
            .flag("--after", Some(&next))
            .command()
    });
    Ok(EscalationsView {
        schema: "redrive/escalations.v1",
        items: page.items.iter().map(|item| EscalationLine::new(item, stage.settings.lang)).collect(),
        next: next.map(|next| next.to_string()),
        next_page,
        all: args.all,
        now,
    })
}

fn show(id: &SubjectArg, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    for id in meant(std::slice::from_ref(id), &opened, stage)? {
        let item = found(id, &opened, &engine)?;
        shown(&EscalationView::new(&item, stage.settings.lang, opened.now), Exit::Done, stage)?;
    }
    Ok(Exit::Done)
}

/// One that is unknown does not keep the others from being acknowledged.
fn acknowledge(ids: &[SubjectArg], note: Option<&str>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let opened = opened::to_read(stage)?;
    let config = stage.settings.config()?;
    let engine = opened.engine(&config, stage)?;
    let (mut done, mut failed) = (Vec::new(), None);
    for id in meant(ids, &opened, stage)? {
        act::record(&opened, &engine, "escalation.acknowledge", id.to_string(), note, stage)?;
        if opened.runtime.block_on(engine.acknowledge_escalation(id, note))? {
            done.push(id.to_string());
        } else {
            let trouble = unknown(&id.to_string(), &opened);
            failed = Some(trouble.exit());
            stage.talk.trouble(&trouble);
        }
    }
    opened.wait(opened.store.close())?;
    let exit = match failed {
        Some(exit) if done.is_empty() => return Ok(exit),
        Some(_) => Exit::Partly,
        None => Exit::Done,
    };
    shown(&AcknowledgedView::new(done), exit, stage)
}

/// The ids that are meant, of tasks and of jobs.
fn meant(args: &[SubjectArg], opened: &Opened, stage: &mut Stage<'_>) -> Result<Vec<EscalationId>, Trouble> {
    let mut meant = Vec::with_capacity(args.len());
    for arg in args {
        match arg {
            SubjectArg::Task(task) => meant.push(EscalationId::Task(*task)),
            SubjectArg::Other(IdArg::One(id)) => meant.push(letter(id, opened)?),
            SubjectArg::Other(IdArg::Stdin) => {
                for id in ids::given(&[IdArg::Stdin], stage)? {
                    meant.push(letter(&id, opened)?);
                }
            }
        }
    }
    Ok(meant)
}

fn letter(id: &JobRef, opened: &Opened) -> Result<EscalationId, Trouble> {
    match id {
        JobRef::Job(job) => Ok(EscalationId::Letter(*job)),
        JobRef::Event(_) => opened.job(id).map(|record| EscalationId::Letter(record.id)),
    }
}

fn found(id: EscalationId, opened: &Opened, engine: &Engine) -> Result<EscalationItem, Trouble> {
    let found = opened.runtime.block_on(engine.escalation(id))?;
    found.ok_or_else(|| unknown(&id.to_string(), opened))
}

fn unknown(id: &str, opened: &Opened) -> Trouble {
    Trouble::Desk(DeskTrouble::NoEscalation { id: id.to_owned(), store: opened.store.location() })
}
