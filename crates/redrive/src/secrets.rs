//! Redaction at capture (R-D7): the one function through which every text passes before it becomes part of an event, a
//! letter, a log or a message.
//!
//! By shape, and by value: what this process was given in variables that hold secrets is blanked wherever a command, an
//! answer or an error repeats it.

use std::sync::LazyLock;

use redrive_policy::KnownSecrets;

/// The secrets in the environment that this process was started with.
static OURS: LazyLock<KnownSecrets> = LazyLock::new(|| {
    KnownSecrets::of_variables(std::env::vars_os().filter_map(|(name, value)| {
        // What is no text is never found in one.
        Some((name.into_string().ok()?, value.into_string().ok()?))
    }))
});

/// The text with every secret blanked.
pub(crate) fn redact(text: &str) -> String {
    redrive_policy::redact(&OURS.mask(text))
}

/// The same inside a JSON value.
#[cfg(feature = "engine")]
pub(crate) fn redact_json(value: &mut serde_json::Value) {
    redrive_policy::redact_json(value, &redact);
}
