//! What an operator does on this machine is written down before it is done, as it is over the API; and what was refused, too.
//! What somebody was asked about and did not want is no act.

use std::os::unix::fs::MetadataExt;

use redrive::engine::{Act, Engine};

use super::opened::Opened;
use crate::Stage;
use crate::trouble::Trouble;

/// Somebody of whom nothing is known.
const NOBODY: &str = "person";

/// Writes an act down. Call it before the act, and after every question about it.
pub(super) fn record(
    opened: &Opened,
    engine: &Engine,
    act: &str,
    target: impl Into<String>,
    why: Option<&str>,
    stage: &Stage<'_>,
) -> Result<(), Trouble> {
    let act = written(act, target.into(), why, stage);
    Ok(opened.runtime.block_on(engine.record_act(act))?)
}

/// Writes down that an act was wanted and is not done, because of how things stand.
pub(super) fn refused(
    opened: &Opened,
    engine: &Engine,
    act: &str,
    target: impl Into<String>,
    why: Option<&str>,
    stage: &Stage<'_>,
) -> Result<(), Trouble> {
    let act = written(act, target.into(), why, stage);
    Ok(opened.runtime.block_on(engine.record_refusal(act))?)
}

fn written(act: &str, target: String, why: Option<&str>, stage: &Stage<'_>) -> Act {
    Act { who: who(stage), act: act.to_owned(), target, why: why.map(str::to_owned) }
}

/// As whom acts of this command are written down.
pub(super) fn who(stage: &Stage<'_>) -> String {
    let name = typed_by(stage).or_else(owner);
    format!("cli:{}", name.as_deref().unwrap_or(NOBODY))
}

/// Who types, as far as the environment says.
pub(super) fn person(stage: &Stage<'_>) -> String {
    typed_by(stage).unwrap_or_else(|| NOBODY.to_owned())
}

fn typed_by(stage: &Stage<'_>) -> Option<String> {
    let named = |name: &str| stage.env.get(std::ffi::OsStr::new(name))?.to_str().map(str::to_owned);
    let name = named("USER").or_else(|| named("LOGNAME")).filter(|name| !name.is_empty());
    name.map(|name| name.chars().filter(|c| !c.is_control()).take(64).collect())
}

/// The user that this process belongs to, by its name where this machine knows one.
fn owner() -> Option<String> {
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1) == Some(uid.as_str())).then(|| name.to_owned())
    });
    Some(name.unwrap_or_else(|| format!("uid-{uid}")))
}
