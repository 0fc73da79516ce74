//! `status`, and `redrive` alone: how things stand.

use redrive_store::{Group, GroupQuery, GroupState, StoreStatus, Timestamp};

use super::opened::{self, Opened};
use crate::Stage;
use crate::settings::Form;
use crate::trouble::Trouble;
use crate::view::View;
use crate::view::status::{GroupCount, StatusView};
use crate::view::welcome::WelcomeView;

/// How far groups are counted; the screen shows the first of them.
const GROUPS: u32 = 100;

pub(super) fn run(stage: &mut Stage<'_>) -> Result<StatusView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    match opened::if_there(stage)? {
        Some(opened) => look(&opened, now),
        None => Ok(nothing(now)),
    }
}

/// `redrive` alone: the same, or where to begin when there is no store yet.
pub(super) fn bare(stage: &mut Stage<'_>) -> Result<Box<dyn View>, Trouble> {
    let now = Timestamp::from_system(stage.now);
    match opened::to_read(stage) {
        Ok(opened) => Ok(Box::new(look(&opened, now)?)),
        Err(Trouble::NoStore { .. }) if stage.settings.form != Form::Json => Ok(Box::new(WelcomeView {})),
        Err(Trouble::NoStore { .. }) => Ok(Box::new(nothing(now))),
        Err(trouble) => Err(trouble),
    }
}

fn look(opened: &Opened, now: Timestamp) -> Result<StatusView, Trouble> {
    let status = opened.wait(opened.store.status(now))?;
    let of_interest = vec![GroupState::Open, GroupState::Regressed, GroupState::Acknowledged];
    let query = GroupQuery { states: of_interest, ..GroupQuery::default() };
    let mut groups = opened.wait(opened.store.groups(query, GROUPS + 1))?;
    let more = groups.len() > GROUPS as usize;
    groups.truncate(GROUPS as usize);
    // What is on its way again may come back as a letter; until then nobody has to look at it.
    let waits = |group: &Group| group.counts.letters > 0;
    let groups: Vec<Group> = groups.into_iter().filter(waits).collect();
    let count = if more { GroupCount::MoreThan(groups.len()) } else { GroupCount::All(groups.len()) };
    Ok(StatusView::new(status, groups, count, opened.store.location(), now))
}

fn nothing(now: Timestamp) -> StatusView {
    StatusView::new(StoreStatus::default(), Vec::new(), GroupCount::All(0), String::new(), now)
}
