//! Redaction at capture (R-D7): the one function through which every text passes before it becomes part of an event, a
//! letter, a log or a message.
//!
//! By shape, and by value: what this process was given in variables that hold secrets is blanked wherever a command, an
//! answer or an error repeats it, and so is what a job was given in its payload, once the attempt at it is settled.

use std::sync::LazyLock;

use redrive_policy::KnownSecrets;

/// The secrets in the environment that this process was started with.
static OURS: LazyLock<KnownSecrets> = LazyLock::new(|| {
    KnownSecrets::of_variables(std::env::vars_os().filter_map(|(name, value)| {
        // What is no text is never found in one.
        Some((name.into_string().ok()?, value.into_string().ok()?))
    }))
});

/// The text with every secret blanked: what looks like one, and what this process has in variables that hold secrets.
///
/// A panic is told by Rust itself, before anybody can look at its words; whoever has secrets in them says how:
///
/// ```
/// std::panic::set_hook(Box::new(|panic| eprintln!("{}", redrive::redact(&panic.to_string()))));
/// # let _ = std::panic::take_hook();
/// ```
pub fn redact(text: &str) -> String {
    redrive_policy::redact(&OURS.mask(text))
}

/// The same, with what is known to be secret besides.
pub(crate) fn redact_knowing(known: &KnownSecrets, text: &str) -> String {
    redact(&known.mask(text))
}

/// The same inside a JSON value.
#[cfg(feature = "engine")]
pub(crate) fn redact_json(value: &mut serde_json::Value) {
    redrive_policy::redact_json(value, &redact);
}
