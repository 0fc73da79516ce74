//! Why nobody knows how a request ended, or why its key is free again, in the reader's language. The store keeps what the guard, the
//! proxy and `run` said; the words of a handler or of a person stay as they are.

use redrive_policy::Lang;

use crate::text::{say, text};

/// What is said in the code, and its place in the texts.
const SAID: &[(&str, &str)] = &[
    ("the holder fell silent", "silent"),
    ("whoever ran it went away without a word", "dropped"),
    ("the connection to the service was lost after it was sent", "lost"),
    ("the service did not answer in time", "late"),
    ("the service went away before it was sent again", "gone"),
    ("the service answered with an error of its own", "error"),
    ("its handler panicked", "panicked"),
    ("its answer broke off", "broke-off"),
    ("the transaction in which it was completed was not committed", "not-committed"),
    ("whether its transaction was committed cannot be seen", "not-seen"),
    ("the command did not begin, or redrive failed", "not-begun"),
    ("another worker took it over", "taken-over"),
];
const STATUS: &str = "it was answered with status ";

/// The reason in words; nothing when it is nobody of ours who gives it.
pub(crate) fn key_reason(reason: &str, lang: Lang) -> Option<String> {
    if let Some(status) = reason.strip_prefix(STATUS) {
        let status: u16 = status.parse().ok()?;
        return Some(text(lang, "idempotency.why.status", &[("status", &status)]));
    }
    let (_, key) = SAID.iter().find(|(said, _)| *said == reason)?;
    Some(say(lang, &format!("idempotency.why.{key}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C6: whoever changes such a reason in the code is told that it is no longer known here.
    #[test]
    fn every_reason_is_one_that_the_code_gives() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let places = [
            "redrive-idempotency/src/guard/held.rs",
            "redrive-idempotency/src/layer/run.rs",
            "redrive-idempotency/src/proxy/keyed.rs",
            "redrive-store/src/told.rs",
            "redrive-cli/src/commands/run_key.rs",
        ];
        let code: String =
            places.iter().map(|place| std::fs::read_to_string(crates.join(place)).unwrap()).collect();
        for said in SAID.iter().map(|(said, _)| *said).chain([STATUS]) {
            assert!(code.contains(&format!("\"{said}")), "nobody says {said:?}");
        }
    }

    /// R-C6: what redrive says is Japanese in Japanese and unchanged in English; what people say stays.
    #[test]
    fn a_reason_is_in_the_readers_language() {
        for said in SAID.iter().map(|(said, _)| (*said).to_owned()).chain([format!("{STATUS}503")]) {
            assert_eq!(key_reason(&said, Lang::En).as_deref(), Some(said.as_str()));
            assert!(!key_reason(&said, Lang::Ja).unwrap().is_ascii(), "{said}");
        }
        assert_eq!(key_reason("the till is closed", Lang::Ja), None);
    }
}
