//! Where the keys of an encrypted store come from: a file that is named, or the environment. Never an argument, which
//! everybody on the machine can see.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use redrive_store::{KeyRing, KeyTrouble};

use super::{Origin, Sourced};

/// The variable that holds keys themselves.
const KEY: &str = "REDRIVE_KEY";
/// The variable that names a file of keys.
const KEY_FILE: &str = "REDRIVE_KEY_FILE";

/// Where keys come from.
#[derive(Clone)]
pub(crate) enum KeySource {
    Nowhere,
    File(Sourced<PathBuf>),
    /// The keys themselves, which nobody is shown.
    Env(OsString),
}

impl KeySource {
    /// `--key-file`, then `REDRIVE_KEY`, then `REDRIVE_KEY_FILE`, then the configuration.
    pub(super) fn find(
        flag: Option<&Path>,
        env: &HashMap<OsString, OsString>,
        configured: Option<Sourced<PathBuf>>,
    ) -> KeySource {
        let variable = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
        if let Some(path) = flag {
            return KeySource::File(Sourced { value: path.to_owned(), origin: Origin::Flag("--key-file") });
        }
        if let Some(keys) = variable(KEY) {
            return KeySource::Env(keys.clone());
        }
        if let Some(path) = variable(KEY_FILE) {
            return KeySource::File(Sourced { value: path.into(), origin: Origin::Env(KEY_FILE) });
        }
        configured.map_or(KeySource::Nowhere, KeySource::File)
    }

    /// The keys. A relative path is looked for from `cwd` on.
    pub(super) fn read(&self, cwd: &Path) -> Result<Option<KeyRing>, KeyTrouble> {
        match self {
            KeySource::Nowhere => Ok(None),
            KeySource::File(path) => KeyRing::read_file(&cwd.join(&path.value)).map(Some),
            KeySource::Env(keys) => KeyRing::parse(KEY, &keys.to_string_lossy()).map(Some),
        }
    }

    /// What `config show` says of it: the file, or that there are keys in the environment.
    pub(crate) fn shown(&self) -> (Option<String>, Origin) {
        match self {
            KeySource::Nowhere => (None, Origin::BuiltIn),
            KeySource::File(path) => (Some(path.value.display().to_string()), path.origin.clone()),
            KeySource::Env(_) => (Some("[redacted]".to_owned()), Origin::Env(KEY)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        flag: Option<&str>,
        pairs: &[(&str, &str)],
        configured: Option<&str>,
    ) -> (Option<String>, Origin) {
        let env = pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let configured = configured
            .map(|path| Sourced { value: path.into(), origin: Origin::File("redrive.toml".into()) });
        KeySource::find(flag.map(Path::new), &env, configured).shown()
    }

    /// R-D7: flag > environment > configuration, and the keys themselves are never shown.
    #[test]
    fn keys_follow_their_precedence() {
        let both = [("REDRIVE_KEY", "k1 c2VjcmV0"), ("REDRIVE_KEY_FILE", "env")];
        let shown = |text: &str, origin| (Some(text.to_owned()), origin);
        assert_eq!(found(None, &[], None), (None, Origin::BuiltIn));
        assert_eq!(found(None, &[], Some("file")), shown("file", Origin::File("redrive.toml".into())));
        assert_eq!(found(None, &both[1..], Some("file")), shown("env", Origin::Env("REDRIVE_KEY_FILE")));
        assert_eq!(found(None, &both, Some("file")), shown("[redacted]", Origin::Env("REDRIVE_KEY")));
        assert_eq!(found(Some("flag"), &both, Some("file")), shown("flag", Origin::Flag("--key-file")));
        assert_eq!(found(None, &[("REDRIVE_KEY", "")], None), (None, Origin::BuiltIn));
    }
}
