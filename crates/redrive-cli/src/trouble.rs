//! Our own trouble, as opposed to the failures we are asked about: what went wrong and what to do next.

use std::io;
use std::path::PathBuf;

use redrive_policy::{ConfigError, Lang};

use crate::exit::Exit;
use crate::nearest::nearest;
use crate::secret;
use crate::text::{say, text};

/// Why a command line did not do what was asked.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The command line is wrong; already in the user's language.
    Usage { message: String, hint: Option<String> },
    /// `help` for a command that does not exist.
    UnknownCommand { written: String, known: Vec<String> },
    /// A flag names a policy that does not exist.
    UnknownPolicy { written: String, known: Vec<String> },
    /// A policy was looked up and not found.
    NoSuchPolicy { written: String, known: Vec<String> },
    /// Nothing was said about the failure that is to be explained.
    NoEvidence,
    /// A file could not be read.
    Unreadable { path: PathBuf, source: io::Error },
    /// The configuration in force is broken.
    BrokenConfig(ConfigError),
    /// There is no configuration to check.
    NoConfig,
    /// A labelled corpus has no usable entry.
    EmptyCorpus,
    /// Output could not be written.
    Output(io::Error),
    /// Input could not be read.
    Input(io::Error),
}

impl Trouble {
    pub(crate) const fn exit(&self) -> Exit {
        match self {
            Trouble::Usage { .. }
            | Trouble::UnknownCommand { .. }
            | Trouble::UnknownPolicy { .. }
            | Trouble::NoEvidence => Exit::Usage,
            Trouble::NoSuchPolicy { .. } | Trouble::NoConfig | Trouble::EmptyCorpus => Exit::Nothing,
            Trouble::Unreadable { .. }
            | Trouble::BrokenConfig(_)
            | Trouble::Output(_)
            | Trouble::Input(_) => Exit::Failed,
        }
    }

    /// What is wrong, a line each: a broken file has many problems, everything else is one.
    pub(crate) fn messages(&self, lang: Lang) -> Vec<String> {
        match self {
            Trouble::BrokenConfig(ConfigError { file, problems }) => {
                problems.iter().map(|problem| format!("{file}: {}", problem.describe(lang))).collect()
            }
            _ => vec![self.message(lang)],
        }
    }

    fn message(&self, lang: Lang) -> String {
        match self {
            Trouble::Usage { message, .. } => message.clone(),
            Trouble::UnknownCommand { written, .. } => {
                text(lang, "usage.unknown-command", &[("command", &secret::blanked(written))])
            }
            Trouble::UnknownPolicy { written, known } | Trouble::NoSuchPolicy { written, known } => text(
                lang,
                "trouble.unknown-policy",
                &[("name", &secret::blanked(written)), ("names", &known.join(", "))],
            ),
            Trouble::NoEvidence => say(lang, "trouble.no-evidence"),
            Trouble::Unreadable { path, source } => text(
                lang,
                "trouble.unreadable",
                &[("path", &path.display()), ("error", &system_error(source, lang))],
            ),
            Trouble::BrokenConfig(error) => error.describe(lang),
            Trouble::NoConfig => say(lang, "trouble.no-config"),
            Trouble::EmptyCorpus => say(lang, "trouble.empty-corpus"),
            Trouble::Output(error) => text(lang, "trouble.output", &[("error", &system_error(error, lang))]),
            Trouble::Input(error) => text(lang, "trouble.input", &[("error", &system_error(error, lang))]),
        }
    }

    pub(crate) fn hint(&self, lang: Lang) -> Option<String> {
        match self {
            Trouble::Usage { hint, .. } => hint.clone(),
            Trouble::UnknownCommand { written, known }
            | Trouble::UnknownPolicy { written, known }
            | Trouble::NoSuchPolicy { written, known } => {
                let meant = nearest(written, known.iter().map(String::as_str));
                let otherwise = match self {
                    Trouble::UnknownCommand { .. } => "usage.see-help",
                    _ => "trouble.hint.policies",
                };
                Some(meant.map_or_else(
                    || say(lang, otherwise),
                    |name| text(lang, "usage.did-you-mean", &[("name", &name)]),
                ))
            }
            Trouble::NoEvidence => Some(say(lang, "trouble.hint.no-evidence")),
            Trouble::BrokenConfig(_) => Some(say(lang, "trouble.hint.config")),
            Trouble::NoConfig => Some(say(lang, "trouble.hint.no-config")),
            Trouble::EmptyCorpus => Some(say(lang, "trouble.hint.empty-corpus")),
            Trouble::Unreadable { path, source } => {
                let key = format!("trouble.hint.unreadable.{}", kind_of(source).unwrap_or("other"));
                Some(text(lang, &key, &[("path", &path.display())]))
            }
            Trouble::Output(_) => Some(say(lang, "trouble.hint.output")),
            Trouble::Input(_) => Some(say(lang, "trouble.hint.input")),
        }
    }
}

/// What the system said, in our words where it is common, else in its own.
fn system_error(error: &io::Error, lang: Lang) -> String {
    let own = match error.kind() {
        io::ErrorKind::StorageFull => Some("full"),
        _ => kind_of(error),
    };
    own.map_or_else(|| error.to_string(), |kind| say(lang, &format!("trouble.system.{kind}")))
}

/// The kinds of trouble that files usually give, as the last part of a key.
fn kind_of(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Some("not-found"),
        io::ErrorKind::PermissionDenied => Some("denied"),
        io::ErrorKind::IsADirectory => Some("directory"),
        io::ErrorKind::FileTooLarge => Some("too-large"),
        _ => None,
    }
}
