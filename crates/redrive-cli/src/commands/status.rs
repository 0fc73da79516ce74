//! `status`, and `redrive` alone: how things stand.

use redrive_store::{Group, GroupQuery, GroupState, StoreStatus, Timestamp};

use super::opened::{self, Opened};
use crate::Stage;
use crate::settings::Form;
use crate::trouble::Trouble;
use crate::view::View;
use crate::view::status::StatusView;
use crate::view::welcome::WelcomeView;

/// One more than the screen shows, to know whether there are more.
const GROUPS: u32 = 6;

pub(super) fn run(stage: &mut Stage<'_>) -> Result<StatusView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    match opened::if_there(stage)? {
        Some(opened) => look(&opened, now),
        None => Ok(StatusView::new(StoreStatus::default(), Vec::new(), String::new(), now)),
    }
}

/// `redrive` alone: the same, or where to begin when there is no store yet.
pub(super) fn bare(stage: &mut Stage<'_>) -> Result<Box<dyn View>, Trouble> {
    let now = Timestamp::from_system(stage.now);
    match opened::to_read(stage) {
        Ok(opened) => Ok(Box::new(look(&opened, now)?)),
        Err(Trouble::NoStore { .. }) if stage.settings.form != Form::Json => Ok(Box::new(WelcomeView {})),
        Err(Trouble::NoStore { .. }) => {
            Ok(Box::new(StatusView::new(StoreStatus::default(), Vec::new(), String::new(), now)))
        }
        Err(trouble) => Err(trouble),
    }
}

fn look(opened: &Opened, now: Timestamp) -> Result<StatusView, Trouble> {
    let status = opened.wait(opened.store.status(now))?;
    let of_interest = vec![GroupState::Open, GroupState::Regressed, GroupState::Acknowledged];
    let groups = opened
        .wait(opened.store.groups(GroupQuery { states: of_interest, ..GroupQuery::default() }, GROUPS))?;
    // What is on its way again may come back as a letter; until then nobody has to look at it.
    let waits = |group: &Group| group.counts.letters > 0;
    let groups = groups.into_iter().filter(waits).collect();
    Ok(StatusView::new(status, groups, opened.store.location(), now))
}
