//! What holds for one command line, and where each value comes from: flag > environment > configuration file
//! > locale or built-in value.
//!
//! The language is needed before the arguments are understood (help and usage errors are in it), so `--lang`
//! and `--config` are looked for early, and everything else is settled after parsing.

mod config_file;
mod key_source;
mod snapshot_place;
mod store_place;

pub(crate) use snapshot_place::SnapshotPlace;
pub(crate) use store_place::{StorePlace, place};

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use redrive_policy::{Config, Lang, Policy};
use redrive_store::KeyRing;

use crate::args::{ColorChoice, GlobalArgs};
use crate::trouble::Trouble;
use crate::view::Reader;

use config_file::{Found, locate};
pub(crate) use config_file::{Reread, format_of, read_config_text};
pub(crate) use key_source::KeySource;

type Env = HashMap<OsString, OsString>;

/// Output is never drawn narrower than this, nor wider than that.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=160;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Flag(&'static str),
    Env(&'static str),
    File(PathBuf),
    /// Found where it is looked for.
    Search,
    BuiltIn,
}

/// A value and where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// How output is shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Rich,
    Plain,
    Json,
}

/// What is known before the arguments are parsed.
pub(crate) struct Early {
    lang: Sourced<Lang>,
    config: Found,
}

impl Early {
    /// Looks for the language and the configuration without understanding the rest.
    pub(crate) fn read(args: &[OsString], env: &Env, cwd: &Path) -> Early {
        let config = locate(flag_in(args, "--config"), env, cwd);
        let flag = flag_in(args, "--lang").and_then(|name| name.to_str()?.parse().ok());
        let variable = |name: &'static str| {
            let value = env.get(OsStr::new(name))?.to_str().filter(|value| !value.is_empty())?;
            Some(Sourced { value: Lang::of_locale(value)?, origin: Origin::Env(name) })
        };
        // The first of the locale variables that is set decides, even when it names a third language.
        let locale = ["LC_ALL", "LC_MESSAGES", "LANG"]
            .into_iter()
            .find(|name| env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty()))
            .and_then(variable);
        let from_file = config.loaded.as_ref().and_then(|loaded| {
            let value = loaded.as_ref().ok()?.settings.lang?;
            Some(Sourced { value, origin: Origin::File(config.path.clone()?) })
        });
        let lang = flag
            .map(|value| Sourced { value, origin: Origin::Flag("--lang") })
            .or_else(|| variable("REDRIVE_LANG"))
            .or(from_file)
            .or(locale)
            .unwrap_or(Sourced { value: Lang::En, origin: Origin::BuiltIn });
        Early { lang, config }
    }

    pub(crate) fn lang(&self) -> Lang {
        self.lang.value
    }
}

/// The value of a flag, found without a parser: `--flag value` or `--flag=value`, up to `--` or `--exec`, behind
/// which stands somebody else's command line.
fn flag_in<'a>(args: &'a [OsString], flag: &str) -> Option<&'a OsStr> {
    let mut args = args.iter().skip(1).take_while(|arg| *arg != "--" && *arg != "--exec");
    while let Some(arg) = args.next() {
        if arg == flag {
            return args.next().map(OsString::as_os_str);
        }
        let value = arg.to_str().and_then(|arg| arg.strip_prefix(flag)?.strip_prefix('='));
        if let Some(value) = value {
            return Some(OsStr::new(value));
        }
    }
    None
}

/// What the streams are connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings {
    pub(crate) stdout_is_terminal: bool,
    pub(crate) stderr_is_terminal: bool,
    pub(crate) width: Option<usize>,
}

/// Everything that holds for one command line.
// Each switch is its own; together they are no state machine.
#[allow(clippy::struct_excessive_bools)]
pub(crate) struct Settings {
    pub(crate) lang: Lang,
    pub(crate) lang_origin: Origin,
    pub(crate) form: Form,
    /// Whether data is coloured; never in plain form.
    pub(crate) colour: bool,
    pub(crate) colour_talk: bool,
    pub(crate) color_choice: Sourced<ColorChoice>,
    pub(crate) width: usize,
    pub(crate) stdout_is_terminal: bool,
    pub(crate) stderr_is_terminal: bool,
    pub(crate) verbose: bool,
    absolute: bool,
    pub(crate) store: Sourced<String>,
    /// The store that the file names, where a flag or the environment names another.
    pub(crate) store_not_used: Option<String>,
    pub(crate) key_source: KeySource,
    pub(crate) policy: Sourced<String>,
    config: Found,
}

impl Settings {
    pub(crate) fn resolve(early: Early, global: &GlobalArgs, env: &Env, around: Surroundings) -> Settings {
        let set = |name: &str| env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
        let color_choice = color(global.color, &set, env);
        let dumb = env.get(OsStr::new("TERM")).is_some_and(|term| term == "dumb");
        let coloured = |terminal: bool| match color_choice.value {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !dumb,
        };
        // Asking for colour asks for the rich form; a terminal that wants none by variable gets the plain one.
        let no_color = color_choice.origin == Origin::Env("NO_COLOR");
        let rich =
            color_choice.value == ColorChoice::Always || (around.stdout_is_terminal && !dumb && !no_color);
        let form = match (global.json, global.plain) {
            (true, _) => Form::Json,
            (false, false) if rich => Form::Rich,
            (false, _) => Form::Plain,
        };
        let width_in =
            |name: &str| env.get(OsStr::new(name)).and_then(|width| width.to_str()?.parse::<usize>().ok());
        let forced_width = width_in("REDRIVE_WIDTH");
        let file = early.config.settings();
        let key_file = file
            .key_file
            .zip(early.config.path.clone())
            .map(|(value, path)| Sourced { value: value.into(), origin: Origin::File(path) });
        let named_in_file = file.store.clone();
        let store = match (&global.store, env.get(OsStr::new("REDRIVE_STORE"))) {
            (Some(flag), _) => Sourced { value: flag.clone(), origin: Origin::Flag("--store") },
            (None, Some(url)) if !url.is_empty() => {
                Sourced { value: url.to_string_lossy().into_owned(), origin: Origin::Env("REDRIVE_STORE") }
            }
            _ => early.config.sourced(file.store, || config_file::default_store(env)),
        };
        Settings {
            lang: early.lang.value,
            lang_origin: early.lang.origin,
            form,
            colour: form == Form::Rich && coloured(around.stdout_is_terminal),
            colour_talk: !global.plain && coloured(around.stderr_is_terminal),
            color_choice,
            width: forced_width
                .or(around.width)
                .or_else(|| width_in("COLUMNS"))
                .unwrap_or(80)
                .clamp(*WIDTHS.start(), *WIDTHS.end()),
            stdout_is_terminal: around.stdout_is_terminal,
            stderr_is_terminal: around.stderr_is_terminal,
            verbose: global.verbose,
            absolute: global.absolute,
            store_not_used: named_in_file.filter(|named| *named != store.value),
            store,
            key_source: KeySource::find(global.key_file.as_deref(), env, key_file),
            policy: early.config.sourced(file.policy, || "standard".to_owned()),
            config: early.config,
        }
    }

    /// Who reads, and how much of it.
    pub(crate) fn reader(&self) -> Reader {
        Reader { lang: self.lang, verbose: self.verbose, absolute: self.absolute }
    }

    /// The configuration in force; the built-in one when there is no file.
    pub(crate) fn config(&self) -> Result<Config, Trouble> {
        self.config.config()
    }

    /// How the configuration is read again by a process that runs for long.
    pub(crate) fn reread(&self, env: &HashMap<OsString, OsString>, cwd: &Path) -> Reread {
        Reread::new(&self.config, env, cwd)
    }

    /// The file that the configuration comes from, if there is one.
    pub(crate) fn config_path(&self) -> Option<&Path> {
        self.config.path.as_deref()
    }

    /// How that file was found.
    pub(crate) fn config_origin(&self) -> &Origin {
        &self.config.origin
    }

    /// Where snapshots are kept; nothing when nobody knows where this user keeps things.
    pub(crate) fn snapshot_place(
        &self,
        env: &HashMap<OsString, OsString>,
        cwd: &Path,
    ) -> Result<Option<SnapshotPlace>, Trouble> {
        Ok(snapshot_place::place(&self.store_place(cwd)?, env, cwd))
    }

    /// Where the store is.
    pub(crate) fn store_place(&self, cwd: &Path) -> Result<StorePlace, Trouble> {
        store_place::place(&self.store.value, cwd)
    }

    /// The keys of the store, if any were given.
    pub(crate) fn keys(&self, cwd: &Path) -> Result<Option<KeyRing>, Trouble> {
        self.key_source.read(cwd).map_err(Trouble::Keys)
    }

    /// The policy that a flag names, or the one that holds when none is named.
    pub(crate) fn policy(&self, config: &Config, flag: Option<&str>) -> Result<Policy, Trouble> {
        let name = flag.unwrap_or(&self.policy.value);
        config
            .policy(name)
            .ok_or_else(|| Trouble::UnknownPolicy { written: name.to_owned(), known: config.policy_names() })
    }
}

fn color(flag: Option<ColorChoice>, set: &dyn Fn(&str) -> bool, env: &Env) -> Sourced<ColorChoice> {
    let forced = set("CLICOLOR_FORCE") && env.get(OsStr::new("CLICOLOR_FORCE")).is_some_and(|v| v != "0");
    match flag {
        Some(value) => Sourced { value, origin: Origin::Flag("--color") },
        None if set("NO_COLOR") => Sourced { value: ColorChoice::Never, origin: Origin::Env("NO_COLOR") },
        None if forced => Sourced { value: ColorChoice::Always, origin: Origin::Env("CLICOLOR_FORCE") },
        None => Sourced { value: ColorChoice::Auto, origin: Origin::BuiltIn },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Env {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn lang(args: &[&str], pairs: &[(&str, &str)]) -> Lang {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        Early::read(&args, &env(pairs), Path::new("/nonexistent")).lang()
    }

    /// R-C2: flag > `REDRIVE_LANG` > locale.
    #[test]
    fn the_language_follows_its_precedence() {
        assert_eq!(lang(&["redrive"], &[]), Lang::En);
        assert_eq!(lang(&["redrive"], &[("LANG", "ja_JP.UTF-8")]), Lang::Ja);
        assert_eq!(lang(&["redrive"], &[("LANG", "ja_JP.UTF-8"), ("LC_ALL", "C")]), Lang::En);
        assert_eq!(lang(&["redrive"], &[("LANG", "ja_JP.UTF-8"), ("REDRIVE_LANG", "en")]), Lang::En);
        assert_eq!(lang(&["redrive", "--lang", "ja"], &[("REDRIVE_LANG", "en")]), Lang::Ja);
        assert_eq!(lang(&["redrive", "demo", "--lang=ja"], &[]), Lang::Ja);
        assert_eq!(lang(&["redrive", "--", "--lang=ja"], &[]), Lang::En);
        assert_eq!(lang(&["redrive", "enqueue", "--exec", "locale", "--lang=ja"], &[]), Lang::En);
    }

    fn form(flags: &GlobalArgs, pairs: &[(&str, &str)], terminal: bool) -> (Form, bool) {
        let early = Early::read(&[], &env(pairs), Path::new("/nonexistent"));
        let around = Surroundings { stdout_is_terminal: terminal, stderr_is_terminal: terminal, width: None };
        let settings = Settings::resolve(early, flags, &env(pairs), around);
        (settings.form, settings.colour)
    }

    /// R-C2: rich on a terminal; plain by itself without one, with `NO_COLOR`, on a dumb terminal.
    #[test]
    fn the_form_falls_back_by_itself() {
        let none = GlobalArgs::default();
        let always = GlobalArgs { color: Some(ColorChoice::Always), ..GlobalArgs::default() };
        let never = GlobalArgs { color: Some(ColorChoice::Never), ..GlobalArgs::default() };
        let plain = GlobalArgs { plain: true, ..always.clone() };
        let json = GlobalArgs { json: true, ..plain.clone() };
        assert_eq!(form(&none, &[], true), (Form::Rich, true));
        assert_eq!(form(&none, &[], false), (Form::Plain, false));
        assert_eq!(form(&none, &[("NO_COLOR", "1")], true), (Form::Plain, false));
        assert_eq!(form(&none, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], true), (Form::Plain, false));
        assert_eq!(form(&none, &[("CLICOLOR_FORCE", "1")], false), (Form::Rich, true));
        assert_eq!(form(&none, &[("TERM", "dumb")], true), (Form::Plain, false));
        assert_eq!(form(&always, &[("NO_COLOR", "1")], false), (Form::Rich, true));
        assert_eq!(form(&never, &[], true), (Form::Rich, false));
        assert_eq!(form(&plain, &[], true), (Form::Plain, false));
        assert_eq!(form(&json, &[], true), (Form::Json, false));
    }
}
