//! `man`: the help of every command as man pages, in the language of the person.

use std::path::Path;

use clap_mangen::Man;

use crate::trouble::Trouble;
use crate::{Exit, Stage};

/// When the texts were last gone through; a page must not differ from build to build.
const WRITTEN: &str = "2026-11-15";

pub(super) fn run(out: Option<&Path>, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let mut tree = crate::args::tree(stage.settings.lang);
    tree.build();
    let Some(folder) = out else {
        let page = page(&tree, "redrive")?;
        stage.stdout.write_all(&page).map_err(Trouble::Output)?;
        return Ok(Exit::Done);
    };
    let folder = stage.cwd.join(folder);
    let unwritable = |source| Trouble::Unwritable { path: folder.clone(), source };
    std::fs::create_dir_all(&folder).map_err(unwritable)?;
    write(&tree, "redrive", &folder)?;
    Ok(Exit::Done)
}

/// Writes the page of a command and those of the commands below it.
fn write(command: &clap::Command, name: &str, folder: &Path) -> Result<(), Trouble> {
    let path = folder.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name)?)
        .map_err(|source| Trouble::Unwritable { path: path.clone(), source })?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>, Trouble> {
    let mut page = Vec::new();
    let command = command.clone().version(env!("CARGO_PKG_VERSION"));
    let source = concat!("redrive ", env!("CARGO_PKG_VERSION"));
    Man::new(command)
        .title(name.to_uppercase())
        .date(WRITTEN)
        .source(source)
        .render(&mut page)
        .map_err(Trouble::Output)?;
    Ok(page)
}
