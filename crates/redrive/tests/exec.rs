//! Commands as jobs, with real processes: what they are told, what is told of them (R-P1, R-P3, R-P12), what passes through.
//! How they end before their time is in `exec_end`.
#![cfg(feature = "exec")]
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod commands;

use std::time::Duration;

use commands::{Sink, evidence, gone, number_in, sh};
use redrive::{
    Cancel, Cause, Classifier, CommandSpec, Executed, Outcome, Relay, Surroundings, Wiring, current_umask,
    run_command,
};

async fn run(script: &str) -> Executed {
    run_command(&sh(script), &Surroundings::new("job_01", 1), Wiring::captured()).await
}

fn cause_of(executed: &Executed) -> (Cause, String) {
    let failure = Classifier::built_in().classify(&evidence(executed).report());
    (failure.cause, failure.rule.as_str().to_owned())
}

/// R-P12: exit codes and signals are told as they are, and classified as they are meant.
#[tokio::test]
async fn an_exit_code_is_told_as_it_is() {
    let done = run("echo fine").await;
    assert_eq!((&done.outcome, done.process_exit_code()), (&Outcome::Succeeded, 0));
    assert_eq!((done.stdout_tail.as_deref(), done.stderr_tail), (Some("fine\n"), None));
    for (script, code, cause) in [
        ("exit 75", 75, Cause::ApiError),
        ("exit 64", 64, Cause::ValidationError),
        ("exit 3", 3, Cause::Unknown),
        ("echo 'connect: connection refused' >&2; exit 1", 1, Cause::Network),
        ("echo noise; echo 'connect: connection refused'; echo '  ' >&2; exit 1", 1, Cause::Network),
        ("kill -9 $$", 137, Cause::ResourceExhausted),
        ("kill -15 $$", 143, Cause::Cancelled),
    ] {
        let executed = run(script).await;
        assert_eq!((executed.process_exit_code(), cause_of(&executed).0), (code, cause), "{script}");
        assert!(!evidence(&executed).killed_by_us);
    }
    let killed = run("kill -9 $$").await;
    assert_eq!((evidence(&killed).signal, evidence(&killed).exit_code), (Some(9), None));
}

/// R-P1: a command asks for a person by a line on stderr, wherever it stands, and what it says is the reason.
#[tokio::test]
async fn a_command_can_ask_for_a_person() {
    let flood = "echo 'redrive: escalate the ledger does not add up' >&2; head -c 300000 /dev/zero | tr '\\0' x >&2; exit 75";
    let executed = run(flood).await;
    assert_eq!(cause_of(&executed).0, Cause::HumanJudgment);
    assert_eq!(evidence(&executed).message, "the ledger does not add up");
    assert_eq!(evidence(&executed).exit_code, Some(75));
    // On stdout it is data, and who succeeds asks for nobody.
    assert_eq!(cause_of(&run("echo 'redrive: escalate x'; exit 75").await).0, Cause::ApiError);
    assert_eq!(run("echo 'redrive: escalate x' >&2").await.outcome, Outcome::Succeeded);
}

/// R-P12: what does not start has the code that a shell gives it, and says why.
#[tokio::test]
async fn what_does_not_start_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let around = Surroundings::new("job_01", 1);
    let missing = directory.path().join("missing");
    let in_dir = |cwd: &std::path::Path| CommandSpec { cwd: Some(cwd.into()), ..CommandSpec::new(["true"]) };
    for (spec, code, cause, says) in [
        (CommandSpec::new(["no-such-program-here"]), 127, Cause::Configuration, "command not found"),
        (CommandSpec::new([&plain]), 126, Cause::AuthError, "cannot be executed"),
        (CommandSpec::new([directory.path()]), 126, Cause::AuthError, "cannot be executed"),
        (in_dir(&missing), 127, Cause::Configuration, "does not exist"),
        (in_dir(&plain), 127, Cause::Configuration, "is not a directory"),
        (CommandSpec::default(), 127, Cause::Configuration, "command not found"),
    ] {
        let executed = run_command(&spec, &around, Wiring::captured()).await;
        assert_eq!((executed.process_exit_code(), cause_of(&executed).0), (code, cause), "{spec:?}");
        assert!(evidence(&executed).message.contains(says), "{:?}", evidence(&executed).message);
        assert!(evidence(&executed).never_sent);
    }
}

/// R-I8: the key travels, and so do the attempt, the job and the hint; what is absent is absent.
#[tokio::test]
async fn a_command_is_told_which_attempt_it_is() {
    let around = Surroundings {
        hint: Some("smaller pages\nplease\0".into()),
        idempotency_key: Some("order-17".into()),
        ..Surroundings::new("job_01", 3)
    };
    let script = "printf '%s|%s|%s|%s' \"$REDRIVE_ATTEMPT\" \"$REDRIVE_JOB_ID\" \"$REDRIVE_HINT\" \"$REDRIVE_IDEMPOTENCY_KEY\"";
    let executed = run_command(&sh(script), &around, Wiring::captured()).await;
    assert_eq!(executed.stdout_tail.as_deref(), Some("3|job_01|smaller pages\nplease |order-17"));
}

/// R-I8: a key that we inherited is another job's, and is not handed on.
#[tokio::test]
async fn what_we_inherited_of_another_job_is_not_passed_on() {
    if std::env::var_os("REDRIVE_IDEMPOTENCY_KEY").is_none() {
        let ours = "what_we_inherited_of_another_job_is_not_passed_on";
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", ours])
            .envs([("REDRIVE_IDEMPOTENCY_KEY", "another"), ("REDRIVE_HINT", "another")])
            .output()
            .unwrap();
        assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
        return;
    }
    let executed = run("echo ${REDRIVE_IDEMPOTENCY_KEY-none} ${REDRIVE_HINT-none} $REDRIVE_ATTEMPT").await;
    assert_eq!(executed.stdout_tail.as_deref(), Some("none none 1\n"));
}

/// Design §5: argv, cwd and umask are those that were stored; nothing is split or expanded on the way.
#[tokio::test]
async fn argv_cwd_and_umask_arrive_as_they_were_stored() {
    use std::os::unix::ffi::OsStringExt;
    let directory = tempfile::tempdir().unwrap();
    let odd = std::ffi::OsString::from_vec(b"$(id) '\" \xff\n*".to_vec());
    for umask in [current_umask().unwrap(), 0o27, 0o77] {
        let spec = CommandSpec {
            argv: ["sh", "-c", "umask; pwd; printf %s \"$1\" | od -An -tx1", "sh"].map(Into::into).to_vec(),
            cwd: Some(directory.path().canonicalize().unwrap()),
            umask: Some(umask),
            ..CommandSpec::default()
        };
        let mut spec = CommandSpec::from_payload(&spec.to_payload()).unwrap();
        spec.argv.push(odd.clone());
        let executed = run_command(&spec, &Surroundings::new("job_01", 1), Wiring::captured()).await;
        let expected = format!(
            "{umask:04o}\n{}\n 24 28 69 64 29 20 27 22 20 ff 0a 2a\n",
            spec.cwd.as_ref().unwrap().display()
        );
        assert_eq!(executed.stdout_tail.unwrap(), expected);
    }
    let missing = CommandSpec {
        umask: Some(current_umask().unwrap() ^ 1),
        ..CommandSpec::new(["no-such-program-here"])
    };
    let executed = run_command(&missing, &Surroundings::new("job_01", 1), Wiring::captured()).await;
    assert_eq!(executed.process_exit_code(), 127);
}

/// Design §5: output passes through byte for byte, each stream for itself, and as it comes.
#[tokio::test]
async fn output_passes_through_byte_for_byte_and_live() {
    let directory = tempfile::tempdir().unwrap();
    let go_on = directory.path().join("go-on");
    let script = format!(
        "printf 'a\\377\\000b'; echo trouble >&2; while [ ! -e {} ]; do sleep 0.01; done; printf end",
        go_on.display()
    );
    let (out, err) = (Sink::default(), Sink::default());
    let wiring = Wiring { stdout: Some(out.writer()), stderr: Some(err.writer()), ..Wiring::captured() };
    let (spec, around) = (sh(&script), Surroundings::new("job_01", 1));
    let (executed, ()) = tokio::join!(run_command(&spec, &around, wiring), async {
        out.until(|bytes| bytes == b"a\xff\0b").await;
        err.until(|bytes| bytes == b"trouble\n").await;
        std::fs::write(&go_on, "").unwrap();
    });
    assert_eq!((executed.outcome, out.bytes()), (Outcome::Succeeded, b"a\xff\0bend".to_vec()));
    assert_eq!(executed.stdout_tail.as_deref(), Some("a\u{fffd}\0bend"));
}

/// R-D7: what is kept is bounded and without secrets, and memory does not grow with what goes through.
#[tokio::test]
async fn a_command_that_writes_without_end_costs_no_memory() {
    const MEGABYTES: u64 = 300;
    let before = number_in("/proc/self/status", "VmHWM:");
    let executed = run(&format!("head -c {MEGABYTES}M /dev/zero; echo; echo token=hunter2 last")).await;
    let grown = number_in("/proc/self/status", "VmHWM:") - before;
    assert!(grown < 100_000, "{grown} kB for {MEGABYTES} MB");
    let tail = executed.stdout_tail.unwrap();
    assert!(tail.len() <= 8 * 1024 && tail.ends_with("token=[redacted] last\n"), "{tail}");
    assert!(tail.starts_with("[… 3145"), "{}", &tail[..40]);
}

/// Design §5: `redrive run -- yes | head` ends as `yes | head` does; a lost stderr is no reason to end.
#[tokio::test]
async fn a_reader_that_goes_away_ends_the_command_as_without_us() {
    let around = Surroundings::new("job_01", 1);
    let wiring = Wiring { stdout: Some(Sink::broken()), ..Wiring::captured() };
    let executed = run_command(&CommandSpec::new(["yes"]), &around, wiring).await;
    assert_eq!(executed.process_exit_code(), 141);
    assert!(matches!(&executed.outcome, Outcome::Cancelled(why) if why.contains("has gone")), "{executed:?}");
    let wiring = Wiring { stderr: Some(Sink::broken()), ..Wiring::captured() };
    let executed = run_command(&sh("for i in 1 2 3; do echo $i >&2; done"), &around, wiring).await;
    assert_eq!((executed.outcome, executed.stderr_tail.as_deref()), (Outcome::Succeeded, Some("1\n2\n3\n")));
}

/// Whoever a command leaves behind with its pipes open, silent or chatty, is neither waited for nor harmed.
#[tokio::test]
async fn one_left_behind_with_an_open_pipe_does_not_hold_us() {
    for left_behind in ["sleep 1000", "while :; do echo x; echo y >&2; done"] {
        let directory = tempfile::tempdir().unwrap();
        let pid_file = directory.path().join("pid");
        let executed = run(&format!("({left_behind}) & echo $! > {}; echo done", pid_file.display())).await;
        let pid = std::fs::read_to_string(&pid_file).unwrap();
        assert_eq!(executed.outcome, Outcome::Succeeded, "{left_behind}");
        assert!(executed.elapsed < Duration::from_secs(30), "{left_behind}: {:?}", executed.elapsed);
        // The chatty one finds its pipe closed at its next word; the silent one is ours to end.
        let _ = std::process::Command::new("kill").args(["-9", pid.trim()]).output();
        gone(pid.trim()).await;
    }
}

/// Design §5: who was stopped before it began does not begin.
#[tokio::test]
async fn nothing_is_started_after_a_signal_or_a_cancellation() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("ran");
    let spec = CommandSpec::new(["touch".into(), trace.clone().into_os_string()]);
    let relay = Relay::new();
    relay.send(15);
    let wiring = Wiring { relay: Some(relay), ..Wiring::captured() };
    let executed = run_command(&spec, &Surroundings::new("job_01", 1), wiring).await;
    assert!(matches!(executed.outcome, Outcome::Cancelled(_)) && executed.process_exit_code() == 143);
    let cancel = Cancel::new();
    cancel.cancel();
    let around = Surroundings { cancel: Some(cancel), ..Surroundings::new("job_01", 1) };
    let executed = run_command(&spec, &around, Wiring::captured()).await;
    assert!(matches!(executed.outcome, Outcome::Cancelled(_)) && !trace.exists());
}
