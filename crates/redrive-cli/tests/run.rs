//! `run` as a process: attempts, exit codes, signals, death, and what is left in the store (R-D1, R-D2, R-P9).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod process_store;
mod support;

use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

use process_store::Home;
use support::stored::is_sound;

/// R-D5, R-E2, R-P12: four attempts, the command's own code, one letter, and events that tell of each.
#[test]
fn a_command_that_stays_unavailable_is_tried_four_times_and_set_aside() {
    let home = Home::new();
    let ran = home.redrive("run --max-retries 3 --initial-delay 10ms -- sh -c", &["echo tried; exit 75"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (75, "tried\ntried\ntried\ntried\n"), "{ran}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 6, "a line between attempts, three at the end: {ran}");
    assert!(lines.iter().all(|line| line.starts_with("redrive: ")), "{ran}");
    assert!(lines[0].contains("exit code 75") && lines[0].contains("attempt 2 of 4 in "), "{ran}");
    assert!(lines[5].contains("redrive explain job_1") && lines[5].contains("redrive retry job_1"), "{ran}");

    let letters = home.json("dlq list");
    let items = letters["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    let letter = &items[0];
    for (field, value) in [
        ("id", "job_1"),
        ("error_type", "ExitStatus"),
        ("error_category", "api_error"),
        ("cause", "api_error"),
        ("failure_type", "TRANSIENT_ERROR"),
        ("job_type", "exec"),
        ("reason", "exhausted"),
        ("error_message", "tried"),
    ] {
        assert_eq!(letter[field], value, "{field}");
    }
    assert_eq!((&letter["retry_count"], &letter["retryable"]), (&3.into(), &true.into()));
    assert_eq!(letter["context"]["exit_code"], 75);
    assert!(letter["original_payload"].is_null() && letter["payload_bytes"].as_u64() > Some(10));

    let events = home.events("--job job_1");
    let statuses: Vec<&str> = events.iter().map(|event| event["status"].as_str().unwrap()).collect();
    assert_eq!(
        statuses,
        [
            "pending",
            "running",
            "retrying",
            "running",
            "retrying",
            "running",
            "retrying",
            "running",
            "dead_letter"
        ]
    );
    for event in events.iter().filter(|event| event["status"] == "retrying") {
        assert_eq!((&event["exit_code"], &event["retry_info"]["max_retries"]), (&75.into(), &3.into()));
        assert!(event["retry_info"]["next_retry_at"].is_string());
        assert_eq!(event["data"]["decision"]["decision"], "RETRY");
    }
    assert_eq!(letter["event_id"], events[8]["event_id"]);
    assert!(is_sound(&home.store));
}

/// R-P9: who types `run` wants a plain `exit 1` tried again.
#[test]
fn a_plain_failure_is_retried() {
    let home = Home::new();
    let script = "test -e done && exit 0; touch done; exit 1";
    let ran = home.redrive("run --initial-delay 10ms -- sh -c", &[script]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    assert_eq!(home.json("explain 1")["state"], "succeeded");
    assert_eq!(home.json("status")["dead_letter_queue"], 0);
}

/// R-P9, R-P4: a wrong password is not retried, and the person is told why and what to type instead.
#[test]
fn refused_credentials_are_not_retried_and_say_why() {
    for (lang, words) in [("en", "is not retried by policy command"), ("ja", "再試行しません")] {
        let home = Home::new();
        let script = "echo 'HTTP 401 unauthorized' >&2; exit 1";
        let ran = home.redrive(&format!("run --lang {lang} -- sh -c"), &[script]);
        assert_eq!(ran.code, 1, "{ran}");
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert_eq!((lines.len(), lines[0]), (4, "HTTP 401 unauthorized"), "{ran}");
        assert!(lines[2].contains(words), "{ran}");
        assert!(lines[3].contains("redrive run --retry-on auth_error -- "), "{ran}");
        assert_eq!(home.json("explain 1")["attempts"], 1);
        let again = home
            .redrive("run -q --max-retries 1 --initial-delay 1ms --retry-on auth_error -- sh -c", &[script]);
        assert_eq!(
            (again.code, again.stderr.lines().count()),
            (1, 2),
            "-q leaves the command's own: {again}"
        );
    }
}

/// R-C1: the codes that a shell gives.
#[test]
fn exit_codes_are_those_of_a_shell() {
    let home = Home::new();
    for (command, words, code) in [
        ("run --", vec!["true"], 0),
        ("run --max-retries 0 -- sh -c", vec!["exit 3"], 3),
        ("run --max-retries 0 --timeout 100ms --", vec!["sleep", "30"], 124),
        ("run --", vec!["/dev/null"], 126),
        ("run --", vec!["no-such-command-here"], 127),
        ("run --max-retries 0 -- sh -c", vec!["kill -9 $$"], 137),
        ("run --deadline 2s --initial-delay 9s -- sh -c", vec!["exit 75"], 75),
        // Over before it begins.
        ("run --deadline 1ms --", vec!["sleep", "30"], 124),
    ] {
        let began = Instant::now();
        let ran = home.redrive(command, &words);
        assert_eq!(ran.code, code, "{command} {words:?}: {ran}");
        assert!(began.elapsed() < Duration::from_secs(20), "{command} {words:?}");
    }
    assert!(is_sound(&home.store));
}

/// R-C1: output passes through byte for byte, whatever it is.
#[test]
fn output_passes_through_byte_for_byte() {
    let home = Home::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    std::fs::write(home.folder.path().join("bytes"), &bytes).unwrap();
    let output = home.command("run -- cat bytes").output().unwrap();
    assert!(output.status.success() && output.stdout == bytes);
    let output = home.command("run -- sh -c").arg("cat bytes >&2").output().unwrap();
    assert!(output.status.success() && output.stderr == bytes);
    let mut child = home.command("run -- cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"typed\n").unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"typed\n");
}

/// R-D7, R-C1: argv, directory and umask are stored, the environment is not; the attempt knows what it is.
#[test]
fn the_command_knows_its_attempt() {
    let home = Home::new();
    let script = "echo $REDRIVE_ATTEMPT $REDRIVE_JOB_ID $(umask); test $REDRIVE_ATTEMPT = 2 || exit 75";
    let ran = home.redrive("run --initial-delay 1ms -- sh -c", &[&format!("umask 027; {script}")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "1 job_1 0027\n2 job_1 0027\n"), "{ran}");
    let ran = home.redrive("run --detach -- sh -c", &["pwd; echo $PRIVATE; exit 64"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "job_2\n"), "{ran}");
    assert_eq!(home.json("explain 2")["state"], "ready");
    assert_eq!(home.redrive("work --until-empty", &[]).code, 0);
    let payload = home.json("dlq show 2 --with-payload")["original_payload"].clone();
    assert_eq!(payload["argv"][0], "sh");
    assert_eq!(payload["cwd"], home.folder.path().canonicalize().unwrap().to_str().unwrap());
    assert!(!payload.to_string().contains("secret") && payload["umask"].is_string(), "{payload}");
}

/// R-C1: an interrupt is passed on and cancels: no retry, no letter, 128+n.
#[test]
fn an_interrupt_cancels_the_job() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // While the command runs, and while it waits for its next attempt.
        for (script, mark) in [("echo on; exec sleep 30", "on"), ("echo on; exit 75", "attempt 2 of 4")] {
            let home = Home::new();
            let mut child = home.spawn("run --initial-delay 30s -- sh -c", &[script]);
            child.wait_for(mark);
            let began = Instant::now();
            child.signal(signal);
            let ran = child.finish();
            assert_eq!(ran.code, code, "{signal} {script}: {ran}");
            assert!(began.elapsed() < Duration::from_secs(10));
            assert!(ran.stderr.contains("was cancelled by signal"), "{ran}");
            let status = home.json("status");
            assert_eq!(status["dead_letter_queue"], 0, "{signal} {script}");
            assert_eq!(home.json("explain 1")["state"], "cancelled");
            assert_eq!(home.redrive("work --until-empty", &[]).stderr, "", "nothing is left to do");
            assert!(is_sound(&home.store));
        }
    }
}

/// R-D1, R-D2: killed between two attempts, the job is still there; any worker finishes it, and each attempt counts once.
#[test]
fn a_worker_goes_on_when_run_is_killed() {
    let home = Home::new();
    let script = "echo tried >> tries; test $REDRIVE_ATTEMPT -ge 3 || exit 75";
    let mut child = home.spawn("run --initial-delay 3s --jitter none -- sh -c", &[script]);
    child.wait_for("attempt 2 of 4");
    child.signal("KILL");
    child.finish();
    assert_eq!(home.json("explain 1")["state"], "retrying");
    let ran = home.redrive("work --until-empty", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    let story = home.json("explain 1");
    assert_eq!((&story["state"], &story["attempts"]), (&"succeeded".into(), &3.into()), "{story}");
    let tries = std::fs::read_to_string(home.folder.path().join("tries")).unwrap();
    assert_eq!(tries, "tried\ntried\ntried\n");
    let numbers: Vec<u64> =
        story["history"].as_array().unwrap().iter().map(|one| one["attempt"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(is_sound(&home.store));
}

/// R-D8: what was mended is put back, keeps its story, and succeeds.
#[test]
fn a_letter_that_was_mended_is_put_back() {
    let home = Home::new();
    assert_eq!(home.redrive("run -q --max-retries 0 --", &["cat", "wanted"]).code, 1);
    std::fs::write(home.folder.path().join("wanted"), "here\n").unwrap();
    let ran = home.redrive("retry job_1", &["--yes"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(home.redrive("work --until-empty", &[]).code, 0);
    let story = home.json("explain job_1");
    assert_eq!((&story["state"], &story["attempts"]), (&"succeeded".into(), &2.into()), "{story}");
    assert_eq!(home.json("status")["dead_letter_queue"], 0);
    assert!(home.events("--type manual_retry").len() == 1);
}

/// R-C1: what is not redrive's own fault and what is: a store that cannot be used is 125, and the command is not run.
#[test]
fn a_store_that_cannot_be_used_is_our_fault() {
    let home = Home::new();
    std::fs::write(&home.store, "this is no database, and it is long enough to be read as one").unwrap();
    let ran = home.redrive("run -- echo", &["it ran"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (125, ""), "{ran}");
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("hint: "), "{ran}");
    assert!(ran.stderr.contains("echo 'it ran'"), "how to run it without: {ran}");
    let ran = home.redrive("run --store postgres://u:hunter2@h/db?nonsense=1 -- echo", &["it ran"]);
    assert!(ran.code == 2 && ran.stdout.is_empty() && !ran.stderr.contains("hunter2"), "{ran}");
    let ran = home.redrive("run --policy nightly -- true", &[]);
    assert!(ran.code == 2 && ran.stderr.contains("there is no policy"), "{ran}");
    let ran = home.redrive("run true", &[]);
    assert!(ran.code == 2 && ran.stderr.contains("redrive run [OPTIONS] -- true"), "{ran}");
}

/// R-D2: killed in the middle of an attempt, too, it is silent for 10 s at most; what it left running is ended.
#[test]
fn a_worker_goes_on_when_run_is_killed_in_an_attempt() {
    let home = Home::new();
    let script = "echo begun; test $REDRIVE_ATTEMPT = 2 || sleep 60; echo done >> ends";
    let mut child = home.spawn("run --initial-delay 1ms -- sh -c", &[script]);
    child.wait_for("begun");
    child.signal("KILL");
    child.finish();
    let died = Instant::now();
    let ran = home.redrive("work --until-empty", &[]);
    assert_eq!(ran.code, 0, "{ran}");
    // A second to look, and a few for a busy machine; a worker's own lease would be 30 s.
    assert!(died.elapsed() < Duration::from_secs(20), "{:?}", died.elapsed());
    let story = home.json("explain 1");
    assert_eq!((&story["state"], &story["attempts"]), (&"succeeded".into(), &2.into()), "{story}");
    assert_eq!(std::fs::read_to_string(home.folder.path().join("ends")).unwrap(), "done\n");
    assert!(is_sound(&home.store));
}

/// R-C1: whoever reads may leave (`redrive run -- CMD | head`); nobody tries again for nobody, and the code is the command's.
#[test]
fn a_reader_that_leaves_ends_it() {
    for (script, code) in [
        ("yes", 141),
        ("python3 -c 'import sys; print(\"x\" * 9000000)' || { echo Broken pipe >&2; exit 1; }", 141),
        ("yes 2>/dev/null | head -c 3000000; exit 3", 3),
    ] {
        let home = Home::new();
        let mut child =
            home.command("run --max-retries 1 --initial-delay 1ms -- sh -c").arg(script).spawn().unwrap();
        let mut first = [0; 1];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{script}: {stderr}");
        if code == 141 {
            assert!(!stderr.contains("redrive: "), "{stderr}");
            assert_eq!(home.json("explain 1")["state"], "cancelled", "{script}");
        }
    }
}

/// R-C1: output that could not be written is no success, even when the command did not notice.
#[test]
fn lost_output_is_a_failure() {
    for script in ["echo dump", "yes | head -c 3000000"] {
        let home = Home::new();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = home.command("run --initial-delay 1ms -- sh -c").arg(script).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(125), "{script}: {stderr}");
        assert!(stderr.contains("its output could not be written"), "{stderr}");
        let letters = home.json("dlq list");
        assert_eq!(letters["items"][0]["cause"], "resource_exhausted", "{letters}");
    }
}

/// R-C1: what cannot become a job is refused before anything is stored.
#[test]
fn a_command_needs_a_name_and_a_place() {
    let home = Home::new();
    let ran = home.redrive("run --", &[""]);
    assert_eq!((ran.code, home.store.exists()), (2, false), "{ran}");
    let gone = home.folder.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let run = format!("rmdir '{}' && exec {} run -- true", gone.display(), env!("CARGO_BIN_EXE_redrive"));
    let output = Command::new("sh")
        .args(["-c", &run])
        .env("REDRIVE_STORE", format!("sqlite:{}", home.store.display()))
        .current_dir(&gone)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("the current directory does not exist any more"), "{stderr}");
    assert!(!home.store.exists());
}

/// R-D5: a letter says that its time was up, and not by which signal we ended it.
#[test]
fn a_time_limit_is_named_in_the_letter() {
    let home = Home::new();
    let ran = home.redrive("run --max-retries 0 --timeout 100ms -- sleep 20", &[]);
    assert_eq!(ran.code, 124, "{ran}");
    assert_eq!(home.json("dlq list")["items"][0]["error_message"], "timed out after 100ms");
}

/// R-P14, row 56: files that cannot be kept are warned of once, before the first attempt says anything; every attempt runs.
#[test]
fn files_that_cannot_be_kept_are_warned_of_before_the_first_attempt() {
    let home = Home::new();
    let words = "run --max-retries 2 --initial-delay 10ms --snapshot nowhere -- sh -c";
    let ran = home.redrive(words, &["echo tried >&2; exit 75"]);
    assert_eq!(ran.code, 75, "{ran}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].starts_with("warning: the files are not protected"), "{ran}");
    assert!(lines[0].contains("nowhere"), "{ran}");
    assert_eq!(lines[1], "tried", "{ran}");
    assert_eq!(ran.stderr.matches("not protected").count(), 1, "{ran}");
    assert_eq!(ran.stderr.matches("tried\n").count(), 3, "{ran}");
    let ran = home.redrive("run --lang ja --max-retries 0 --snapshot nowhere -- sh -c", &["exit 75"]);
    assert!(ran.stderr.starts_with("warning: ファイルは保護されていません"), "{ran}");
}

/// R-P14: files that are put back after an attempt that failed are told of, and nothing is when nothing was changed.
#[test]
fn files_that_are_put_back_are_told_of() {
    let home = Home::new();
    let tree = home.folder.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("f"), "one").unwrap();
    let words = format!("run --max-retries 1 --initial-delay 10ms --snapshot {} -- sh -c", tree.display());
    let ran = home.redrive(&words, &[&format!("echo two > {0}/f; echo > {0}/new; exit 75", tree.display())]);
    assert_eq!(ran.code, 75, "{ran}");
    let told = "redrive: the files are as they were before the attempt: 1 put back, 1 moved aside";
    assert_eq!(ran.stderr.lines().filter(|line| *line == told).count(), 2, "{ran}");
    assert_eq!(ran.stderr.lines().next(), Some(told), "before the line about the next attempt: {ran}");
    assert_eq!(std::fs::read_to_string(tree.join("f")).unwrap(), "one");
    let ran = home.redrive(&words, &["exit 75"]);
    assert!(!ran.stderr.contains("before the attempt"), "{ran}");
}
