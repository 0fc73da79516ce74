//! The configuration file: which one holds, and what is in it.
//!
//! `--config`, then `REDRIVE_CONFIG`, then `redrive.toml` upward from the working directory, then the user's.
//! A file that was named must exist; one that is only looked for may be missing.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use redrive_policy::{Config, ConfigError, Format, Settings as FileSettings};

use super::{Origin, Sourced};
use crate::trouble::Trouble;

/// No configuration is larger than this; `trouble.system.too-large` says so.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The file that holds, how it was found, and what it says.
pub(super) struct Found {
    pub(super) path: Option<PathBuf>,
    pub(super) origin: Origin,
    /// Nothing when there is no file, or none that can be read.
    pub(super) loaded: Option<Result<Config, ConfigError>>,
    unreadable: Option<std::io::Error>,
}

impl Found {
    pub(super) fn config(&self) -> Result<Config, Trouble> {
        match (&self.loaded, &self.unreadable, &self.path) {
            (_, Some(error), Some(path)) => Err(Trouble::Unreadable {
                path: path.clone(),
                // An error of the system cannot be cloned; its kind and its words say all.
                source: std::io::Error::new(error.kind(), error.to_string()),
            }),
            (Some(Ok(config)), ..) => Ok(config.clone()),
            (Some(Err(error)), ..) => Err(Trouble::BrokenConfig(error.clone())),
            (None, ..) => Ok(Config::default()),
        }
    }

    pub(super) fn settings(&self) -> FileSettings {
        match &self.loaded {
            Some(Ok(config)) => config.settings.clone(),
            _ => FileSettings::default(),
        }
    }

    /// A value of the file, or else the built-in one.
    pub(super) fn sourced(
        &self,
        value: Option<String>,
        built_in: impl FnOnce() -> String,
    ) -> Sourced<String> {
        match (value, &self.path) {
            (Some(value), Some(path)) => Sourced { value, origin: Origin::File(path.clone()) },
            _ => Sourced { value: built_in(), origin: Origin::BuiltIn },
        }
    }
}

/// Finds and reads the configuration that holds.
pub(super) fn locate(flag: Option<&OsStr>, env: &HashMap<OsString, OsString>, cwd: &Path) -> Found {
    let variable = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let (path, origin) = if let Some(path) = flag {
        (Some(PathBuf::from(path)), Origin::Flag("--config"))
    } else if let Some(path) = variable("REDRIVE_CONFIG") {
        (Some(PathBuf::from(path)), Origin::Env("REDRIVE_CONFIG"))
    } else {
        let project = cwd.ancestors().map(|dir| dir.join("redrive.toml")).find(|path| path.is_file());
        let users = || {
            let home = variable("XDG_CONFIG_HOME").map(PathBuf::from);
            let home = home.or_else(|| Some(Path::new(variable("HOME")?).join(".config")));
            home.map(|dir| dir.join("redrive").join("config.toml")).filter(|path| path.is_file())
        };
        let found = project.or_else(users);
        let origin = if found.is_some() { Origin::Search } else { Origin::BuiltIn };
        (found, origin)
    };
    let Some(found) = &path else {
        return Found { path, origin, loaded: None, unreadable: None };
    };
    match read_config_text(&cwd.join(found)) {
        Ok(text) => {
            let loaded = Config::parse_placed(&text, format_of(found, &text), &found.display().to_string());
            Found { path, origin, loaded: Some(loaded), unreadable: None }
        }
        Err(error) => Found { path, origin, loaded: None, unreadable: Some(error) },
    }
}

/// How a process that runs for long reads its configuration again: the file that it had, or else whatever is found now.
pub(crate) struct Reread {
    path: Option<PathBuf>,
    env: HashMap<OsString, OsString>,
    cwd: PathBuf,
}

impl Reread {
    pub(super) fn new(found: &Found, env: &HashMap<OsString, OsString>, cwd: &Path) -> Reread {
        Reread { path: found.path.clone(), env: env.clone(), cwd: cwd.to_owned() }
    }

    /// What it says now. A file that is gone is trouble: to fall back to what is built in would be a surprise.
    pub(crate) fn read(&self) -> Result<Config, Trouble> {
        self.look().config()
    }

    /// Which file that is, if there is one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.path.clone().or_else(|| self.look().path)
    }

    fn look(&self) -> Found {
        locate(self.path.as_deref().map(Path::as_os_str), &self.env, &self.cwd)
    }
}

/// Reads a file of bounded size; what is not UTF-8 is read lossily and then refused by the parser.
pub(crate) fn read_config_text(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_BYTES) {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// JSON or TOML, by the name of the file or else by its first character.
pub(crate) fn format_of(path: &Path, text: &str) -> Format {
    match path.extension().and_then(OsStr::to_str) {
        Some("json") => Format::Json,
        Some("toml") => Format::Toml,
        _ if text.trim_start().starts_with('{') => Format::Json,
        _ => Format::Toml,
    }
}

/// The store that is used when nobody names one.
pub(super) fn default_store(env: &HashMap<OsString, OsString>) -> String {
    let variable = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let data = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(variable("HOME")?).join(".local").join("share")))
        .unwrap_or_default();
    format!("sqlite:{}", data.join("redrive").join("redrive.db").display())
}
