//! How to get the next page: a command that can be typed, shown below the list. JSON has `next` instead.

use std::fmt::Display;

/// A command line in the making.
pub(super) struct NextPage(String);

impl NextPage {
    pub(super) fn new(command: &str) -> NextPage {
        NextPage(format!("redrive {command}"))
    }

    /// With this flag, if it was given.
    pub(super) fn flag(mut self, name: &str, value: Option<&dyn Display>) -> NextPage {
        if let Some(value) = value {
            self.0.extend([" ", name, " ", &shell_word(&value.to_string())]);
        }
        self
    }

    /// What is to be typed.
    pub(super) fn command(self) -> String {
        self.0
    }
}

/// A word as a shell reads it back.
fn shell_word(word: &str) -> String {
    let tame = |c: char| c.is_ascii_alphanumeric() || "_-.:/@+,=".contains(c);
    if !word.is_empty() && word.chars().all(tame) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C1: what is to be typed next can be typed.
    #[test]
    fn words_survive_the_shell() {
        for (word, typed) in [
            ("mail", "mail"),
            ("job_1@2026-11-15T11:03:32.123Z", "job_1@2026-11-15T11:03:32.123Z"),
            ("queue=mail and age>1h", "'queue=mail and age>1h'"),
            ("error=\"it's\"", "'error=\"it'\\''s\"'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(word), typed);
        }
    }
}
