//! The insides of the binary `redrive`: arguments → settings → command → view → render.
//!
//! [`run`] takes everything a command line can see or touch as an argument, so that tests run whole command
//! lines without a process. Commands return values; only `render` and the two streams write.

mod args;
mod commands;
mod escape;
mod exit;
mod help;
mod log;
mod panics;
mod pointer;
mod render;
mod run_answer;
mod secret;
mod settings;
mod talk;
mod text;
mod topics;
mod trouble;
mod view;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use exit::Exit;
pub use panics::tell_panics_without_secrets;
use settings::Settings;
use talk::Talk;
use trouble::Trouble;

/// All that one command line sees and touches.
pub struct Invocation<'a> {
    /// The arguments, the program's name first.
    pub args: Vec<OsString>,
    /// The environment.
    pub env: HashMap<OsString, OsString>,
    /// Where `redrive.toml` is looked for, upward.
    pub cwd: PathBuf,
    /// The time, which an HTTP date in `Retry-After` is measured from.
    pub now: SystemTime,
    /// Whether a person types at the other end of stdin.
    pub stdin_is_terminal: bool,
    /// Whether stdout is looked at by a person.
    pub stdout_is_terminal: bool,
    /// Whether stderr is looked at by a person.
    pub stderr_is_terminal: bool,
    /// The width of the terminal, if there is one.
    pub width: Option<usize>,
    /// Input.
    pub stdin: &'a mut dyn Read,
    /// Data.
    pub stdout: &'a mut dyn Write,
    /// Talk: notes, errors, hints.
    pub stderr: &'a mut dyn Write,
}

/// What a command may use while it runs: its settings and the three streams.
pub(crate) struct Stage<'a> {
    pub(crate) settings: Settings,
    pub(crate) now: SystemTime,
    /// The environment that the command was started with.
    pub(crate) env: HashMap<OsString, OsString>,
    /// What relative paths are relative to.
    pub(crate) cwd: PathBuf,
    pub(crate) stdin_is_terminal: bool,
    pub(crate) stdin: &'a mut dyn Read,
    pub(crate) stdout: &'a mut dyn Write,
    pub(crate) talk: Talk<'a>,
}

impl Stage<'_> {
    /// A seed that differs from run to run, for whoever gave none.
    pub(crate) fn entropy(&self) -> u64 {
        let since = self.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::from(since.subsec_nanos()) ^ since.as_secs().rotate_left(32) ^ u64::from(std::process::id())
    }
}

/// What `REDRIVE_LANG` says, where that is a language we do not speak. The locale may name any; this one is ours.
fn odd_lang(env: &settings::Env) -> Option<String> {
    let written = env.get(std::ffi::OsStr::new("REDRIVE_LANG"))?.to_string_lossy();
    let is_odd = !written.is_empty() && redrive_policy::Lang::of_locale(&written).is_none();
    is_odd.then(|| escape::beginning(&written, 40))
}

/// Runs one command line and gives its exit code.
pub fn run(invocation: Invocation<'_>) -> u8 {
    let Invocation { args, env, cwd, now, stdin_is_terminal, stdin, stdout, stderr, .. } = invocation;
    let early = settings::Early::read(&args, &env, &cwd);
    let parsed = args::parse(&args, early.lang());
    let global = parsed.as_ref().map(|args| args.global.clone()).unwrap_or_default();
    let around = settings::Surroundings {
        stdout_is_terminal: invocation.stdout_is_terminal,
        stderr_is_terminal: invocation.stderr_is_terminal,
        width: invocation.width,
    };
    let settings = Settings::resolve(early, &global, &env, around);
    let talk = Talk::new(stderr, &settings, global.quiet);
    let odd_lang = odd_lang(&env);
    let mut stage = Stage { settings, now, env, cwd, stdin_is_terminal, stdin, stdout, talk };
    if let Some(written) = odd_lang {
        let warning = text::text(stage.settings.lang, "warning.lang", &[("lang", &written)]);
        stage.talk.warning(&warning);
    }
    let ended = match parsed {
        Ok(args) => commands::run(args, &mut stage),
        Err(stop) => help::stop(&stop, &mut stage),
    };
    let ended = ended.and_then(|exit| match (stage.stdout.flush(), exit) {
        // What a command wrote was its own: so is the code that it ended with.
        (Err(_), Exit::Command(_)) => Ok(exit),
        (flushed, _) => flushed.map(|()| exit).map_err(Trouble::Output),
    });
    let exit = match ended {
        Ok(exit) => exit,
        // Whoever reads has seen enough (`redrive … | head`): that is no failure of ours.
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(trouble) => {
            stage.talk.trouble(&trouble);
            trouble.exit()
        }
    };
    exit.code()
}
