//! `status`: how things stand.

use redrive_store::{StoreStatus, Timestamp};

use super::opened;
use crate::Stage;
use crate::trouble::Trouble;
use crate::view::status::StatusView;

pub(super) fn run(stage: &mut Stage<'_>) -> Result<StatusView, Trouble> {
    let now = Timestamp::from_system(stage.now);
    let status = match opened::if_there(stage)? {
        Some(opened) => opened.wait(opened.store.status(now))?,
        None => StoreStatus::default(),
    };
    Ok(StatusView::new(status, now))
}
