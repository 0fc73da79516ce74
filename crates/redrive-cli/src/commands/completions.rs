//! `completions`: the few lines that make a shell ask `redrive __complete`.

use crate::trouble::Trouble;
use crate::{Exit, Stage};

pub(super) fn run(shell: &str, stage: &mut Stage<'_>) -> Result<Exit, Trouble> {
    let script = match shell {
        "zsh" => include_str!("../../completions/redrive.zsh"),
        "fish" => include_str!("../../completions/redrive.fish"),
        _ => include_str!("../../completions/redrive.bash"),
    };
    stage.stdout.write_all(script.as_bytes()).map_err(Trouble::Output)?;
    Ok(Exit::Done)
}
