//! `purge --older-than D`: lets go of letters that nobody has put back for so long. Events stay.

use redrive_policy::human_duration;

use super::{act, confirm, opened};
use crate::Stage;
use crate::args::PurgeArgs;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::purged::PurgedView;

pub(super) fn run(args: &PurgeArgs, stage: &mut Stage<'_>) -> Result<Option<PurgedView>, Trouble> {
    let opened = opened::to_read(stage)?;
    let engine = opened.looker()?;
    let would = opened.runtime.block_on(engine.would_purge(args.older_than))?;
    let length = human_duration(args.older_than);
    if args.dry_run || would.purged == 0 {
        return Ok(Some(PurgedView::new(would, length, args.dry_run)));
    }
    let what = text(stage.settings.lang, "ask.purge", &[("n", &would.purged), ("length", &length)]);
    if !args.yes && !confirm(&what, &format!("redrive purge --older-than {length}"), stage)? {
        return Ok(None);
    }
    let target = format!("{} letters older than {length}", would.purged);
    act::record(&opened, &engine, "letter.purge", target, args.why.as_deref(), stage)?;
    let purged = opened.runtime.block_on(engine.purge_letters(args.older_than))?;
    Ok(Some(PurgedView::new(purged, length, false)))
}
