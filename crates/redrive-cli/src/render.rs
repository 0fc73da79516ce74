//! The last floor: a view becomes bytes on stdout, rich for a terminal, plain for anything else, or JSON.

mod chart;
mod graph;
pub(crate) mod json;
mod listing;
mod markdown;
mod panel;
mod plain;
pub(crate) mod style;
mod table;
pub(crate) mod wrap;

use crate::Stage;
use crate::settings::Form;
use crate::trouble::Trouble;
use crate::view::{Block, View};

/// Shows a view in the form that was asked for.
pub(crate) fn show(view: &dyn View, stage: &mut Stage<'_>) -> Result<(), Trouble> {
    let settings = &stage.settings;
    let reader = settings.reader();
    if settings.form == Form::Json {
        return view
            .write_json(stage.stdout, settings.stdout_is_terminal)
            .and_then(|()| stage.stdout.write_all(b"\n").map_err(serde_json::Error::io))
            .map_err(|error| Trouble::Output(error.into()));
    }
    let page = page(&view.blocks(reader), stage);
    stage.stdout.write_all(page.as_bytes()).map_err(Trouble::Output)
}

/// Blocks as text in the form that was asked for.
pub(crate) fn page(blocks: &[Block], stage: &Stage<'_>) -> String {
    match stage.settings.form {
        Form::Rich => table::page(blocks, stage.settings.width, stage.settings.colour),
        Form::Plain | Form::Json => plain::page(blocks),
    }
}
