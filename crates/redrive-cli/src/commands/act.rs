//! What an operator does on this machine is written down before it is done, as it is over the API.

use redrive::engine::{Act, Engine};

use super::opened::Opened;
use crate::Stage;
use crate::trouble::Trouble;

/// Writes an act down. Call it before the act.
pub(super) fn record(
    opened: &Opened,
    engine: &Engine,
    act: &str,
    target: impl Into<String>,
    why: Option<&str>,
    stage: &Stage<'_>,
) -> Result<(), Trouble> {
    let (who, act, target) = (who(stage), act.to_owned(), target.into());
    let act = Act { who, act, target, why: why.map(str::to_owned) };
    Ok(opened.runtime.block_on(engine.record_act(act))?)
}

/// As whom acts of this command are written down.
pub(super) fn who(stage: &Stage<'_>) -> String {
    format!("cli:{}", person(stage))
}

/// Who types, as far as the environment says.
pub(super) fn person(stage: &Stage<'_>) -> String {
    let named = |name: &str| stage.env.get(std::ffi::OsStr::new(name))?.to_str().map(str::to_owned);
    let name = named("USER").or_else(|| named("LOGNAME")).filter(|name| !name.is_empty());
    let name = name.map(|name| name.chars().filter(|c| !c.is_control()).take(64).collect::<String>());
    name.unwrap_or_else(|| "person".to_owned())
}
