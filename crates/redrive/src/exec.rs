//! A command as a job: it is started, given time, listened to, and what became of it is told as an [`Outcome`].
//!
//! It runs in a process group of its own and is ended with everybody it started: asked at the time limit, killed
//! after a grace, killed at once when nobody waits for it any more. Its output passes through byte for byte.
//!
//! With a terminal it is different: a group in the background may not read from the terminal (SIGTTIN stops it),
//! and giving the foreground away would stop the neighbours in `redrive run -- make | less`. So a command that
//! inherits our stdin while we have a terminal stays in our group. Then Ctrl-C, Ctrl-Z, `fg` and password
//! prompts are as if redrive were not there, and the time limit finds its children by their parents.

mod family;
mod leftovers;
mod pump;
mod relay;
mod spec;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use redrive_policy::{Cause, Details, KnownSecrets, TEXT_BOUND, Verdict};
use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

pub use pump::Writer;
pub use relay::Relay;
pub use spec::{BadCommand, CommandSpec, Protected, current_umask};

use crate::bounded::{Tail, both_ends};
use crate::outcome::{Evidence, Executed, Outcome, TIMED_OUT, time_details};
use crate::surroundings::Surroundings;
use family::{Family, Group};
use pump::{DRAIN_FOR, Escalation, Pump, WhenBroken};
use relay::Listener;

/// How long a command has between being asked to end and being killed.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);
/// The code of a command that is there and cannot be executed.
const NOT_EXECUTABLE: i32 = 126;
/// The code of a command that is not there.
const NOT_FOUND: i32 = 127;
/// The code when it was not the command that failed.
const OUR_FAULT: i32 = 125;
/// Ends whoever writes to nobody.
const SIGPIPE: i32 = 13;
/// Who interrupts three times means it.
const INSISTS: u32 = 3;
/// How long after an interrupted command's end we wait to hear of the interrupt ourselves.
const SAME_KEY: Duration = Duration::from_millis(100);
/// How long a killed command is waited for; one that even that does not end is left to the system.
const REAP_WITHIN: Duration = Duration::from_secs(1);

/// How a command is connected to us.
#[derive(Default)]
pub struct Wiring {
    /// Whether it reads from our stdin; from nothing otherwise.
    pub inherit_stdin: bool,
    /// Where its stdout goes, besides being kept.
    pub stdout: Option<Writer>,
    /// Where its stderr goes, besides being kept.
    pub stderr: Option<Writer>,
    /// How long it has between being asked to end and being killed; [`DEFAULT_GRACE`] when nothing is said.
    pub grace: Option<Duration>,
    /// Signals that reach us and are passed on. The third one kills.
    pub relay: Option<Relay>,
}

impl Wiring {
    /// Nothing to read, and output that is only kept: how a worker runs a command.
    pub fn captured() -> Wiring {
        Wiring::default()
    }

    /// Our stdin, our stdout and our stderr: how `redrive run` runs a command.
    pub fn passed_through(relay: Relay) -> Wiring {
        Wiring {
            inherit_stdin: true,
            stdout: Some(Box::new(tokio::io::stdout())),
            stderr: Some(Box::new(tokio::io::stderr())),
            grace: None,
            relay: Some(relay),
        }
    }
}

/// How a command came to its end.
enum End {
    ByItself(ExitStatus),
    OutOfTime { limit: Duration, status: Option<ExitStatus> },
    Relayed(i32),
    Cancelled,
    Lost(io::Error),
}

/// Runs a command once and tells what became of it.
///
/// ```
/// use redrive::{CommandSpec, Outcome, Surroundings, Wiring, run_command};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let spec = CommandSpec::new(["sh", "-c", "echo attempt $REDRIVE_ATTEMPT; exit 75"]);
/// let executed = run_command(&spec, &Surroundings::new("job_01", 2), Wiring::captured()).await;
/// assert_eq!(executed.stdout_tail.as_deref(), Some("attempt 2\n"));
/// assert_eq!(executed.process_exit_code(), 75);
/// # });
/// ```
///
/// The command sees `REDRIVE_ATTEMPT`, `REDRIVE_JOB_ID`, `REDRIVE_HINT` and `REDRIVE_IDEMPOTENCY_KEY`. It needs tokio's
/// timers and I/O. Dropping the future kills the command and everybody it started.
pub async fn run_command(spec: &CommandSpec, around: &Surroundings, wiring: Wiring) -> Executed {
    let began = Instant::now();
    let mut listener = wiring.relay.as_ref().map_or_else(Listener::deaf, Relay::listen);
    if let Some(signal) = listener.heard() {
        return told(End::Relayed(signal), began, Heard::default(), spec);
    }
    if around.cancel.as_ref().is_some_and(crate::Cancel::is_cancelled) {
        return told(End::Cancelled, began, Heard::default(), spec);
    }
    if around.after_a_crash {
        let ended = leftovers::end(around);
        if ended > 0 {
            tracing::warn!(job = around.job_id, ended, "what a lost attempt had left running was ended");
        }
    }
    let hint = around.hint.as_deref().or(spec.first_hint.as_deref());
    let this_time = spec.told(hint);
    let inherit_stdin = wiring.inherit_stdin && this_time.stdin.is_none();
    let group = if inherit_stdin && has_terminal() { Group::Ours } else { Group::Own };
    let mut child = match command(&this_time, around, hint, inherit_stdin, group).spawn() {
        Ok(child) => child,
        Err(error) => return not_started(spec, &error, began),
    };
    let Some(leader) = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) else {
        return told(
            End::Lost(io::Error::other("the command has no process")),
            began,
            Heard::default(),
            spec,
        );
    };
    // After `child`, so that it is dropped before: the family is killed while its leader still holds the number.
    let mut family = Family::new(leader, group);

    let mut heard = Heard::default();
    let (ended, watch_end) = watch::channel(false);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let fed = feed(child.stdin.take(), this_time.stdin);
    let end = {
        let out = Pump {
            to: wiring.stdout,
            when_broken: WhenBroken::ClosePipe,
            tail: &mut heard.stdout,
            escalation: None,
            broken: &mut heard.stdout_broken,
            ended: watch_end.clone(),
            unflushed: false,
        };
        let err = Pump {
            to: wiring.stderr,
            when_broken: WhenBroken::GoOn,
            tail: &mut heard.stderr,
            escalation: Some(&mut heard.escalation),
            broken: &mut heard.stderr_broken,
            ended: watch_end,
            unflushed: false,
        };
        let mut drained = pin!(async { tokio::join!(out.run(stdout), err.run(stderr)) });
        let mut fed = pin!(fed);
        let mut is_fed = false;
        let grace = wiring.grace.unwrap_or(DEFAULT_GRACE);
        let mut live = pin!(live(&mut child, &mut family, group, around, grace, &mut listener));
        let mut is_drained = false;
        let end = loop {
            tokio::select! {
                biased;
                end = &mut live => break end,
                _ = &mut drained, if !is_drained => is_drained = true,
                () = &mut fed, if !is_fed => is_fed = true,
            }
        };
        let _ = ended.send(true);
        if !is_drained {
            let by_itself = matches!(end, End::ByItself(_));
            tokio::select! {
                biased;
                _ = &mut drained => {}
                // Who ended by itself may have a reader that takes its time; who was killed has not.
                () = sleep(DRAIN_FOR * 2), if !by_itself => {}
                () = around.cancelled() => {}
            }
        }
        end
    };
    told(end, began, heard, spec)
}

/// Waits for the command's end, or brings it about.
async fn live(
    child: &mut Child,
    family: &mut Family,
    group: Group,
    around: &Surroundings,
    grace: Duration,
    listener: &mut Listener,
) -> End {
    let limit = around.timeout.unwrap_or(Duration::MAX);
    let mut out_of_time = pin!(sleep(limit));
    loop {
        tokio::select! {
            biased;
            status = child.wait() => {
                family.is_done();
                let status = match status {
                    Ok(status) => status,
                    Err(error) => return End::Lost(error),
                };
                // The terminal interrupts the command and us at once; it may die before we are told.
                if group == Group::Ours && listener.heard().is_none() && was_interrupted(status) {
                    let _ = timeout(SAME_KEY, listener.next()).await;
                }
                return listener.heard().map_or(End::ByItself(status), End::Relayed);
            }
            () = &mut out_of_time => {
                let status = end(child, family, grace).await;
                return listener.heard().map_or(End::OutOfTime { limit, status }, End::Relayed);
            }
            () = around.cancelled() => {
                end(child, family, grace).await;
                return End::Cancelled;
            }
            (signal, count) = listener.next() => {
                if count >= INSISTS { family.kill() } else { family.pass_on(signal) }
            }
        }
    }
}

/// Ends the whole family, and reaps the command only then: until that its number cannot be anybody else's.
async fn end(child: &mut Child, family: &mut Family, grace: Duration) -> Option<ExitStatus> {
    family.end(grace).await;
    let reaped = timeout(REAP_WITHIN, child.wait()).await;
    family.is_done();
    reaped.ok()?.ok()
}

/// Gives a command what it reads. One that stops reading has read enough.
async fn feed(stdin: Option<tokio::process::ChildStdin>, text: Option<String>) {
    if let (Some(mut stdin), Some(text)) = (stdin, text) {
        let _ = stdin.write_all(text.as_bytes()).await;
        let _ = stdin.shutdown().await;
    }
}

fn was_interrupted(status: ExitStatus) -> bool {
    matches!(status.signal(), Some(2 | 3)) || matches!(status.code(), Some(130 | 131))
}

/// Whether there is a terminal that the command could want to talk to, by stdin or past it.
fn has_terminal() -> bool {
    io::stdin().is_terminal() || File::open("/dev/tty").is_ok()
}

fn command(
    spec: &CommandSpec,
    around: &Surroundings,
    hint: Option<&str>,
    inherit_stdin: bool,
    group: Group,
) -> Command {
    let mut argv = spec.argv.iter().map(OsString::as_os_str);
    let mut command;
    if let Some(umask) = spec.umask.filter(|umask| Some(*umask) != current_umask()) {
        // Set by a shell that then becomes the command; the command itself is never text to it.
        command = Command::new("/bin/sh");
        command.args(["-c", "umask \"$1\" && shift && exec \"$@\"", "sh"]).arg(format!("{umask:04o}"));
    } else {
        command = Command::new(argv.next().unwrap_or_default());
    }
    command.args(argv);
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    if group == Group::Own {
        command.process_group(0);
    }
    command.envs(&spec.env);
    let attempt = around.attempt.to_string();
    for (name, value) in [
        // The key of an encrypted store is ours, not a job's.
        ("REDRIVE_KEY", None),
        ("REDRIVE_ATTEMPT", Some(attempt.as_str())),
        ("REDRIVE_JOB_ID", Some(around.job_id.as_str()).filter(|id| !id.is_empty())),
        ("REDRIVE_HINT", hint),
        ("REDRIVE_IDEMPOTENCY_KEY", around.idempotency_key.as_deref()),
    ] {
        match value {
            // No variable can hold a NUL, nor more than a few pages.
            Some(value) => command.env(name, both_ends(&value.replace('\0', " "), TEXT_BOUND).as_ref()),
            None => command.env_remove(name),
        };
    }
    command.stdin(match (&spec.stdin, inherit_stdin) {
        (Some(_), _) => Stdio::piped(),
        (None, true) => Stdio::inherit(),
        (None, false) => Stdio::null(),
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// What a command left to read.
#[derive(Default)]
struct Heard {
    stdout: Tail,
    stderr: Tail,
    escalation: Escalation,
    /// Why what it wrote could not be passed on.
    stdout_broken: Option<io::Error>,
    stderr_broken: Option<io::Error>,
}

fn told(end: End, began: Instant, heard: Heard, spec: &CommandSpec) -> Executed {
    let elapsed = began.elapsed();
    // What it was given it may repeat. Who wrote nothing has repeated nothing.
    let is_silent = heard.stdout.is_empty() && heard.stderr.is_empty();
    let known =
        if is_silent { KnownSecrets::default() } else { KnownSecrets::of_payload(&spec.to_payload()) };
    let (stdout_tail, stderr_tail) = (heard.stdout.stored(&known), heard.stderr.stored(&known));
    let (outcome, exit_code) = match end {
        End::ByItself(status) if let Some(undelivered) = undelivered(status, &heard) => undelivered,
        End::ByItself(status) if status.success() => (Outcome::Succeeded, Some(0)),
        End::ByItself(status) => {
            let evidence =
                Evidence { exit_code: status.code(), signal: status.signal(), ..Evidence::default() };
            (failed(evidence, heard), status.code().or(status.signal().map(|signal| 128 + signal)))
        }
        End::OutOfTime { limit, status } => {
            let evidence = Evidence {
                exit_code: Some(TIMED_OUT),
                signal: status.and_then(|status| status.signal()),
                killed_by_us: true,
                details: Some(time_details(limit, elapsed)),
                ..Evidence::default()
            };
            (failed(evidence, heard), Some(TIMED_OUT))
        }
        End::Relayed(signal) => {
            (Outcome::Cancelled(format!("signal {signal} was passed on to the command")), Some(128 + signal))
        }
        End::Cancelled => (Outcome::Cancelled("the attempt was cancelled".to_owned()), Some(128 + 15)),
        End::Lost(error) => (Outcome::failed(Evidence::of(&error)), None),
    };
    let outcome = match outcome {
        Outcome::Failed(evidence) if !known.is_empty() => {
            let message = known.mask(&evidence.message).into_owned();
            Outcome::failed(Evidence { message, ..*evidence })
        }
        other => other,
    };
    Executed { exit_code, stdout_tail, stderr_tail, ..Executed::silent(outcome, elapsed) }
}

/// What it means that a command's output did not arrive. Nobody who reads any more is somebody who has seen enough:
/// what ends of that is not tried again. A disk that is full is a failure, also of a command that did not notice.
fn undelivered(status: ExitStatus, heard: &Heard) -> Option<(Outcome, Option<i32>)> {
    let error = heard.stdout_broken.as_ref()?;
    let noticed = status.signal() == Some(SIGPIPE)
        || status.code() == Some(128 + SIGPIPE)
        || (!status.success() && heard.stderr.text().contains("roken pipe"));
    if error.kind() == io::ErrorKind::BrokenPipe {
        let why = "whoever read its output has gone".to_owned();
        return noticed.then_some((Outcome::Cancelled(why), Some(128 + SIGPIPE)));
    }
    let message = format!("its output could not be written: {error}");
    let evidence = Evidence { error_type: "Output".to_owned(), message, ..Evidence::of(error) };
    (noticed || status.success()).then_some((Outcome::failed(evidence), Some(OUR_FAULT)))
}

/// A failure in the command's own words: what it wrote to stderr, or else to stdout.
fn failed(evidence: Evidence, heard: Heard) -> Outcome {
    let stderr = heard.stderr.text();
    let words = if stderr.trim().is_empty() { heard.stdout.text() } else { stderr };
    let message = both_ends(words.trim(), TEXT_BOUND).into_owned();
    let evidence = Evidence { error_type: "ExitStatus".to_owned(), message, ..evidence };
    Outcome::failed(match heard.escalation.reason() {
        Some(reason) => {
            let mut details = evidence.details.as_deref().cloned().unwrap_or_default();
            details.message = Some(reason.clone());
            Evidence {
                said: Some((Cause::HumanJudgment, Verdict::Unsaid)),
                message: reason,
                details: Some(Arc::new(details)),
                ..evidence
            }
        }
        None => evidence,
    })
}

/// A command that did not start, with the code that a shell would give it.
fn not_started(spec: &CommandSpec, error: &io::Error, began: Instant) -> Executed {
    let program = spec.argv.first().map(OsString::as_os_str).unwrap_or_default();
    let evidence = Evidence { error_type: "Spawn".to_owned(), ..Evidence::of(error) };
    let lost = spec.cwd.as_ref().and_then(|cwd| match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some((NOT_FOUND, format!("{} is not a directory to run in", cwd.display()))),
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            Some((NOT_EXECUTABLE, format!("the directory {} may not be entered", cwd.display())))
        }
        Err(_) => Some((NOT_FOUND, format!("the directory {} does not exist", cwd.display()))),
    });
    let known = lost.or_else(|| match error.kind() {
        io::ErrorKind::NotFound => Some((NOT_FOUND, format!("{}: command not found", program.display()))),
        io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            Some((NOT_EXECUTABLE, format!("{}: cannot be executed: {error}", program.display())))
        }
        // ENOEXEC has no kind of its own.
        _ if error.raw_os_error() == Some(8) => {
            Some((NOT_EXECUTABLE, format!("{}: is not a program: {error}", program.display())))
        }
        // No memory, no free process: that is our machine and not the command.
        _ => None,
    });
    let (evidence, exit_code) = match known {
        Some((code, message)) => (Evidence { exit_code: Some(code), code: None, message, ..evidence }, code),
        None => (evidence, NOT_EXECUTABLE),
    };
    let evidence = Evidence {
        details: Some(Arc::new(Details { message: Some(evidence.message.clone()), ..Details::default() })),
        never_sent: true,
        ..evidence
    };
    Executed { exit_code: Some(exit_code), ..Executed::silent(Outcome::failed(evidence), began.elapsed()) }
}
