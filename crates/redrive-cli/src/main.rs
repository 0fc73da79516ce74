//! The binary `redrive`: hands the process's surroundings to [`redrive_cli::run`] and exits with its answer.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::SystemTime;

fn main() -> ExitCode {
    redrive_cli::tell_panics_without_secrets();
    // None of them is locked for the whole time: the output of a command that is run passes through them, too.
    let (mut stdin, mut stdout, mut stderr) = (io::stdin(), io::stdout(), io::stderr());
    let code = redrive_cli::run(redrive_cli::Invocation {
        args: std::env::args_os().collect(),
        env: std::env::vars_os().collect(),
        cwd: std::env::current_dir().unwrap_or_default(),
        now: SystemTime::now(),
        stdin_is_terminal: stdin.is_terminal(),
        stdout_is_terminal: stdout.is_terminal(),
        stderr_is_terminal: stderr.is_terminal(),
        width: terminal_size::terminal_size_of(&stdout)
            .or_else(|| terminal_size::terminal_size_of(&stderr))
            .map(|(width, _)| usize::from(width.0)),
        stdin: &mut stdin,
        stdout: &mut stdout,
        stderr: &mut stderr,
    });
    ExitCode::from(code)
}
