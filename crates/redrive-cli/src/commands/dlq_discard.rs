//! `dlq discard` and `dlq purge --older-than D`: letters go for good. What would go is shown first, and asked about.

use redrive::engine::{Discard, Engine};
use redrive_policy::human_duration;
use redrive_store::{JobId, JobState, LetterFilter};

use super::opened::{self, Opened};
use super::{act, ask, ids};
use crate::args::{DiscardArgs, DlqPurgeArgs};
use crate::settings::Form;
use crate::text::text;
use crate::trouble::Trouble;
use crate::view::Page;
use crate::view::discarded::DiscardedView;
use crate::{Exit, Stage, render};

/// How many are shown before.
const SHOWN: u32 = 5;
/// How many ids the record of the act holds.
const NAMED: usize = 20;

/// Nothing: the person did not confirm it.
type Ended = Option<(DiscardedView, Exit)>;

/// What is to go, and how.
struct Wish {
    which: LetterFilter,
    /// The same in the words of whoever asked.
    asked: String,
    how: Discard,
    why: Option<String>,
    not_found: Vec<String>,
    command: &'static str,
    dry_run: bool,
    yes: bool,
}

pub(super) fn discard(args: &DiscardArgs, stage: &mut Stage<'_>) -> Result<Ended, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let mut not_found = Vec::new();
    let which = if let Some(group) = &args.group {
        LetterFilter {
            fingerprint: Some(opened.group(group, &engine)?.fingerprint),
            ..LetterFilter::default()
        }
    } else if let Some(filter) = &args.filter {
        filter.letters(opened.now)
    } else {
        let mut letters = Vec::new();
        for id in ids::given(&args.ids, stage)? {
            match opened.job(&id) {
                Ok(record) if matches!(record.state, JobState::Dead(_)) => letters.push(record.id),
                Ok(record) => not_found.push(record.id.to_string()),
                Err(Trouble::NoJob { id, .. }) => not_found.push(id),
                Err(trouble) => return Err(trouble),
            }
        }
        LetterFilter { ids: Some(letters), ..LetterFilter::default() }
    };
    let asked = match (&args.group, &args.filter) {
        (Some(group), _) => format!("group={group}"),
        (None, Some(filter)) => filter.to_string(),
        (None, None) => named(which.ids.as_deref().unwrap_or_default()),
    };
    let wish = Wish {
        which,
        asked,
        how: Discard::ByHand,
        why: args.why.clone(),
        not_found,
        command: "redrive dlq discard …",
        dry_run: args.dry_run,
        yes: args.yes,
    };
    go(wish, &opened, &engine, stage)
}

pub(super) fn purge(args: &DlqPurgeArgs, stage: &mut Stage<'_>) -> Result<Ended, Trouble> {
    let config = stage.settings.config()?;
    let opened = opened::to_read(stage)?;
    let engine = opened.engine(&config, stage)?;
    let old = LetterFilter { before: Some(opened.now.before(args.older_than)), ..LetterFilter::default() };
    let which = match &args.filter {
        Some(filter) => filter.letters_among(old, opened.now),
        None => old,
    };
    let asked = format!("older than {}", human_duration(args.older_than));
    let wish = Wish {
        which,
        // What nobody gave a reason for goes because of its age.
        why: Some(args.why.clone().unwrap_or_else(|| asked.clone())),
        asked,
        how: Discard::ByAge,
        not_found: Vec::new(),
        command: "redrive dlq purge …",
        dry_run: args.dry_run,
        yes: args.yes,
    };
    go(wish, &opened, &engine, stage)
}

/// Letters by their ids, for the record of what went.
fn named(ids: &[JobId]) -> String {
    let first: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
    let more = if ids.len() > NAMED { " …" } else { "" };
    format!("{}{more}", first.join(" "))
}

/// Shows what would go, asks, and lets it go.
fn go(wish: Wish, opened: &Opened, engine: &Engine, stage: &mut Stage<'_>) -> Result<Ended, Trouble> {
    let lang = stage.settings.lang;
    let matching = opened.wait(opened.store.count_letters(wish.which.clone()))?;
    let sample = opened.runtime.block_on(engine.sample_letters(wish.which.clone(), SHOWN))?;
    let some_missing = !wish.not_found.is_empty();
    let view = DiscardedView::would(matching, sample, wish.not_found, opened.now);
    let exit = if some_missing { Exit::Partly } else { Exit::Done };
    if matching == 0 {
        return match (some_missing, wish.how) {
            (true, _) => Ok(Some((view.done(0), Exit::Nothing))),
            // That nothing is old enough is what a person hopes for.
            (false, Discard::ByAge) if wish.dry_run => Ok(Some((view, Exit::Done))),
            (false, Discard::ByAge) => Ok(Some((view.done(0), Exit::Done))),
            (false, Discard::ByHand) => {
                Err(Trouble::NothingMatches { asked: wish.asked, store: opened.store.location() })
            }
        };
    }
    if wish.dry_run {
        return Ok(Some((view, exit)));
    }
    if !wish.yes {
        if stage.settings.form != Form::Json && stage.stdin_is_terminal {
            let page = render::page(&view.blocks(stage.settings.reader()), stage);
            stage.talk.page(&page);
        }
        let what = text(lang, "discarded.about-to", &[("n", &matching)]);
        if !ask(&what, "discarded.go-on", wish.command, stage)? {
            return Ok(None);
        }
    }
    let act = match wish.how {
        Discard::ByHand => "letter.discard",
        Discard::ByAge => "letter.purge",
    };
    let target = format!("{matching} letters: {}", wish.asked);
    act::record(opened, engine, act, target, wish.why.as_deref(), stage)?;
    let talk = &mut stage.talk;
    let gone =
        opened.runtime.block_on(engine.discard_letters(wish.which, wish.how, wish.why.as_deref(), |gone| {
            talk.progress(&text(lang, "discarded.progress", &[("n", &gone), ("all", &matching)]));
        }));
    stage.talk.progress_ends();
    let gone = gone?;
    opened.wait(opened.store.close())?;
    Ok(Some((view.done(gone), exit)))
}
