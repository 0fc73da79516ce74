//! `status`, and `redrive` alone: how things stand.

use redrive::engine::StatusReport;
use redrive_store::Timestamp;

use super::opened::{self, Opened};
use crate::Stage;
use crate::settings::Form;
use crate::trouble::Trouble;
use crate::view::View;
use crate::view::status::StatusView;
use crate::view::welcome::WelcomeView;

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
    let report = opened.runtime.block_on(opened.looker()?.status_report())?;
    Ok(StatusView::new(report, opened.store.location(), now))
}

fn nothing(now: Timestamp) -> StatusView {
    StatusView::new(StatusReport::of_nothing(), String::new(), now)
}
