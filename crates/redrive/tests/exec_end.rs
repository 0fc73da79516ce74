//! How commands are ended, with real processes: the time limit (R-P12), signals passed on, cancellation, and nobody left over.
#![cfg(feature = "exec")]
// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
mod commands;

use std::time::Duration;

use commands::{Sink, evidence, gone, lives, sh};
use redrive::{Cancel, Cause, Classifier, Executed, Outcome, Relay, Surroundings, Wiring, run_command};

const HOUR: Duration = Duration::from_hours(1);

/// A family of four that does not want to end: a child and a grandchild that ignore SIGTERM, one that left the
/// group, and the command itself. Prints their numbers.
const STUBBORN: &str = r#"
    trap '' TERM
    sh -c 'trap "" TERM; sh -c "trap \"\" TERM; echo \$\$; while :; do sleep 0.05; done" & echo $$; while :; do sleep 0.05; done' &
    setsid sh -c 'trap "" TERM; echo $$; while :; do sleep 0.05; done' &
    echo $$
    while :; do sleep 0.05; done
"#;

fn limited(timeout: Duration) -> Surroundings {
    Surroundings { timeout: Some(timeout), ..Surroundings::new("job_01", 1) }
}

/// Wires stdout to a sink, with this grace.
fn wired(sink: &Sink, grace: Duration) -> Wiring {
    Wiring { stdout: Some(sink.writer()), grace: Some(grace), ..Wiring::captured() }
}

/// R-P12: at the time limit everybody is asked, then killed, whoever left the group too; 124 and a timeout.
#[tokio::test]
async fn the_time_limit_ends_the_whole_family() {
    let sink = Sink::default();
    let limit = Duration::from_secs(3);
    let wiring = wired(&sink, Duration::from_millis(100));
    let executed = run_command(&sh(STUBBORN), &limited(limit), wiring).await;
    let pids = sink.lines(4).await;
    assert_eq!(pids.len(), 4);
    for pid in &pids {
        assert!(!lives(pid), "{pid} of {pids:?} lives");
    }
    assert_eq!(executed.process_exit_code(), 124);
    let failure = Classifier::built_in().classify(&evidence(&executed).report());
    assert_eq!((failure.cause, failure.rule.as_str()), (Cause::Timeout, "exit.timeout"));
    let details = failure.details.unwrap();
    assert_eq!(details.timeout_ms, Some(3_000));
    assert!(details.elapsed_ms.unwrap() >= 3_000);
    let evidence = evidence(&executed);
    assert_eq!((evidence.killed_by_us, evidence.signal), (true, Some(9)));
}

/// R-P12: who ends when asked is not killed, has its say, and is not waited for any longer than it needs.
#[tokio::test]
async fn who_is_asked_may_tidy_up() {
    let sink = Sink::default();
    // The shell ends at once; its child takes its time, and the grace is for both.
    let script =
        "sh -c 'trap \"echo tidied >&2; exit 0\" TERM; echo $$; while :; do sleep 0.05; done' & wait";
    let executed = run_command(&sh(script), &limited(Duration::from_secs(3)), wired(&sink, HOUR)).await;
    assert_eq!(executed.process_exit_code(), 124);
    assert!(executed.stderr_tail.unwrap().ends_with("tidied\n"));
    assert!(executed.elapsed < Duration::from_mins(1));
    gone(&sink.lines(1).await[0]).await;
}

/// One that is stopped cannot be asked before it goes on.
#[tokio::test]
async fn a_stopped_command_is_ended_too() {
    let executed = run_command(
        &sh("kill -STOP $$; echo went on"),
        &limited(Duration::from_millis(300)),
        wired(&Sink::default(), HOUR),
    )
    .await;
    assert_eq!((executed.process_exit_code(), evidence(&executed).signal), (124, Some(15)));
}

/// Runs a script until it has written so many lines, and sends these signals, each after one more line.
async fn interrupted(script: &str, lines: usize, signals: &[i32]) -> (Executed, Vec<String>) {
    let (sink, relay) = (Sink::default(), Relay::new());
    let wiring = Wiring { relay: Some(relay.clone()), ..wired(&sink, HOUR) };
    let (spec, around) = (sh(script), Surroundings::new("job_01", 1));
    let (executed, ()) = tokio::join!(run_command(&spec, &around, wiring), async {
        for (already, signal) in signals.iter().enumerate() {
            sink.lines(lines + already).await;
            relay.send(*signal);
        }
    });
    (executed, String::from_utf8(sink.bytes()).unwrap().lines().map(str::to_owned).collect())
}

/// Design §5: a signal that reaches us reaches the whole group, and cancels: no retry, no letter, 128+n.
#[tokio::test]
async fn a_signal_is_passed_on_to_the_whole_group_and_cancels() {
    // Two programs in one group; a shell makes whom it starts in the background deaf to SIGINT, so neither is there.
    let script = r#"
        trap 'echo parent; exit 0' INT TERM
        sh -c 'trap "echo child; exit 0" INT TERM; echo ready; while :; do sleep 0.02; done'
    "#;
    for signal in [2, 15] {
        let (executed, lines) = interrupted(script, 1, &[signal]).await;
        assert!(matches!(&executed.outcome, Outcome::Cancelled(why) if why.contains(&signal.to_string())));
        assert_eq!(executed.process_exit_code(), 128 + signal);
        assert_eq!(lines, ["ready", "child", "parent"]);
    }
    let (executed, _) = interrupted("echo ready; exec sleep 1000", 1, &[15]).await;
    assert_eq!(executed.process_exit_code(), 143);
}

/// Every signal is passed on, none is turned into a worse one by itself; who insists a third time is obeyed.
#[tokio::test]
async fn the_third_signal_kills() {
    let script = "trap 'echo no' INT; echo $$; while :; do sleep 0.02; done";
    let (executed, lines) = interrupted(script, 1, &[2, 2, 2]).await;
    assert_eq!((executed.process_exit_code(), &lines[1..]), (130, &["no".to_owned(), "no".to_owned()][..]));
    gone(&lines[0]).await;
}

/// R-P13: a cancellation ends the family as the time limit does, and is none.
#[tokio::test]
async fn a_cancellation_ends_the_family() {
    let (sink, cancel) = (Sink::default(), Cancel::new());
    let around = Surroundings { cancel: Some(cancel.clone()), ..limited(HOUR) };
    let spec = sh(STUBBORN);
    let (executed, pids) =
        tokio::join!(run_command(&spec, &around, wired(&sink, Duration::from_millis(50))), async {
            let pids = sink.lines(4).await;
            cancel.cancel();
            pids
        });
    assert!(matches!(executed.outcome, Outcome::Cancelled(_)), "{executed:?}");
    assert_eq!(executed.process_exit_code(), 143);
    for pid in pids {
        assert!(!lives(&pid), "{pid} lives");
    }
}

/// Nobody waits any more: the whole family is killed at once.
#[tokio::test]
async fn a_dropped_run_kills_the_family() {
    let sink = Sink::default();
    let wiring = wired(&sink, HOUR);
    let running =
        tokio::spawn(
            async move { run_command(&sh(STUBBORN), &Surroundings::new("job_01", 1), wiring).await },
        );
    let pids = sink.lines(4).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    for pid in pids {
        gone(&pid).await;
    }
}

/// A command that has ended by itself takes nobody with it: what it left behind it left on purpose.
#[tokio::test]
async fn what_a_command_leaves_behind_on_purpose_lives_on() {
    let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
    let executed = run_command(&sh(script), &limited(HOUR), Wiring::captured()).await;
    let pid = executed.stdout_tail.unwrap().trim().to_owned();
    let lived = lives(&pid);
    let _ = std::process::Command::new("kill").args(["-9", &pid]).output();
    assert!(lived && executed.outcome == Outcome::Succeeded);
    gone(&pid).await;
}

/// R-D2: an attempt whose worker was killed leaves a command that nobody listens to. The next attempt ends it and everybody
/// it started, and nobody else.
#[tokio::test]
async fn what_a_lost_attempt_left_running_is_ended_before_the_next() {
    let orphan = |job: &str, attempt: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "sleep 600 & wait"]).env("REDRIVE_JOB_ID", job).env("REDRIVE_ATTEMPT", attempt);
        command.env("REDRIVE_IDEMPOTENCY_KEY", "key-of-job-7").spawn().unwrap()
    };
    let (mut left, mut other) = (orphan("job_7", "1"), orphan("job_8", "1"));
    let around = Surroundings {
        idempotency_key: Some("key-of-job-7".into()),
        after_a_crash: true,
        ..Surroundings::new("job_7", 2)
    };
    let executed = run_command(&sh("true"), &around, Wiring::captured()).await;
    assert_eq!(executed.outcome, Outcome::Succeeded);
    assert!(!left.wait().unwrap().success());
    assert!(other.try_wait().unwrap().is_none(), "another job's command was ended");
    let around = Surroundings { job_id: "job_8".into(), ..around };
    run_command(&sh("true"), &around, Wiring::captured()).await;
    other.wait().unwrap();
}
