//! What a panic says goes through the same filter as everything else that is told: it may repeat a payload or a password.

use std::io::Write;

/// From now on panics of this process are told without secrets.
pub fn tell_panics_without_secrets() {
    std::panic::set_hook(Box::new(|panic| {
        let said = redrive::redact(panic.payload_as_str().unwrap_or("something that is no text"));
        let at = panic.location().map_or_else(String::new, |at| format!(" at {}:{}", at.file(), at.line()));
        // There is nowhere else to say it.
        let _ = writeln!(std::io::stderr().lock(), "redrive: panicked{at}: {}", crate::escape::escape(&said));
    }));
}
