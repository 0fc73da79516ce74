//! `store copy`: moves a living store into another database.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use redrive_store::{Copied, CopyEnd, CopyOptions, CopyStep, Trouble as StoreTrouble, copy_store};

use crate::Stage;
use crate::args::CopyArgs;
use crate::settings::{StorePlace, place};
use crate::text::{say, text};
use crate::trouble::Trouble;
use crate::view::copied::CopiedView;

/// How often it is told how far it has come, where nobody watches a line.
const TELL_EVERY: Duration = Duration::from_secs(5);

pub(super) fn run(args: &CopyArgs, stage: &mut Stage<'_>) -> Result<CopiedView, Trouble> {
    let from = match &args.from {
        Some(url) => place(url, &stage.cwd)?,
        None => stage.settings.store_place(&stage.cwd)?,
    };
    let to = place(&args.to, &stage.cwd)?;
    if let (StorePlace::File(path), false) = (&to, args.dry_run)
        && let Some(folder) = path.parent()
    {
        let unwritable = |source| Trouble::Unwritable { path: folder.to_owned(), source };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
    }
    let defaults = CopyOptions::default();
    let options = CopyOptions { wait: args.wait.unwrap_or(defaults.wait), dry_run: args.dry_run };
    let (from, to) = (end(from), end(to));
    let (told, heard) = mpsc::channel();
    let copied = std::thread::scope(|scope| {
        // Whoever copies may wait for a database; telling goes on here.
        let copying = scope.spawn(move || {
            copy_store(&from, &to, options, &mut |step| {
                // Nobody listens any more only when we are ending.
                let _heard = told.send(step);
            })
        });
        tell(&heard, stage);
        copying.join()
    });
    stage.talk.progress_ends();
    let broken = || StoreTrouble::Database("the copying broke off".to_owned()).into();
    let copied: Copied = copied.unwrap_or_else(|_| Err(broken())).map_err(|error| match error.trouble() {
        StoreTrouble::Missing(path) => Trouble::NoStore { path: path.clone() },
        _ => Trouble::Store(error),
    })?;
    Ok(CopiedView::new(&copied))
}

fn end(place: StorePlace) -> CopyEnd {
    match place {
        StorePlace::File(path) => CopyEnd::Sqlite(path),
        StorePlace::Postgres(url) => CopyEnd::Postgres(url),
    }
}

fn tell(heard: &mpsc::Receiver<CopyStep>, stage: &mut Stage<'_>) {
    let lang = stage.settings.lang;
    let mut last: Option<Instant> = None;
    for step in heard {
        let words = match step {
            CopyStep::Draining { leases } => text(lang, "store.draining", &[("n", &leases)]),
            CopyStep::Copying { table, rows } => {
                text(lang, "store.copying", &[("table", &table), ("n", &rows)])
            }
            CopyStep::Checking => say(lang, "store.comparing"),
            CopyStep::Handing | CopyStep::Opening => say(lang, "store.handing"),
        };
        let is_due = last.is_none_or(|last| last.elapsed() >= TELL_EVERY);
        if !stage.talk.progress(&words) && is_due {
            last = Some(Instant::now());
            stage.talk.note(&words);
        }
    }
}
