//! The board.

use super::Postgres;
use crate::Answer;
use crate::board::{Board, Notice, NoticeChange, Posted};
use crate::error::Trouble;
use crate::event::NewEvent;
use crate::job::NewJob;
use crate::time::Timestamp;

fn missing<T>() -> Answer<'static, T> {
    Box::pin(async { Err(Trouble::ReadOnly("the board is not there yet".to_owned()).into()) })
}

impl Board for Postgres {
    fn notice(&self, _space: String, _name: String) -> Answer<'_, Option<Notice>> {
        missing()
    }

    fn notices(&self, _space: String, _after: Option<String>, _limit: u32) -> Answer<'_, Vec<Notice>> {
        missing()
    }

    fn due_notices(&self, _now: Timestamp, _space: String, _limit: u32) -> Answer<'_, Vec<Notice>> {
        missing()
    }

    fn post(
        &self,
        _now: Timestamp,
        _changes: Vec<NoticeChange>,
        _jobs: Vec<NewJob>,
        _events: Vec<NewEvent>,
    ) -> Answer<'_, Posted> {
        missing()
    }
}
