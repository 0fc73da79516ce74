//! `redrive targets` as people and programs meet it (R-P15).

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

fn redrive(home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
    command.args(args).current_dir(home).env_clear().env("USER", "ada").env("HOME", home);
    command.env("REDRIVE_STORE", format!("sqlite:{}", home.join("redrive.db").display()));
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// R-P15: a worker parks what a limit forbids; the list, the story, the status and the acts tell of it, in both languages.
#[test]
fn parked_work_is_seen_everywhere() {
    let home = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = redrive(home.path(), args);
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        said(&output)
    };
    let told = run(&["targets"]);
    assert!(told.contains("Nothing is protected yet"), "{told}");
    let told = run(&["targets", "limit", "key:tenant-7", "--rate", "1/h", "--why", "they asked"]);
    assert!(told.contains("key:tenant-7 is limited from now on"), "{told}");
    for _ in 0..3 {
        run(&["enqueue", "--target", "tenant-7", "--exec", "true"]);
    }
    // The others wait for an hour: it ends because it is told to, not because nothing is left.
    let mut worker = Command::new(env!("CARGO_BIN_EXE_redrive"));
    worker
        .args(["work"])
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin");
    worker.env("REDRIVE_STORE", format!("sqlite:{}", home.path().join("redrive.db").display()));
    worker.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut worker = worker.spawn().unwrap();
    let mut seen = serde_json::Value::Null;
    for _ in 0..400 {
        seen = serde_json::from_str(&run(&["targets", "--json"])).unwrap();
        if seen["items"][0]["parked_total"] == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
    let item = &seen["items"][0];
    assert_eq!((&item["name"], &item["rate"]), (&"key:tenant-7".into(), &"1/h".into()), "{seen}");
    assert_eq!((&item["parked"], &item["state"]), (&2.into(), &"closed".into()), "{seen}");
    let story = run(&["explain", "job_3", "--plain"]);
    // Where it says what happened, and where it says what comes next.
    let told = story.matches("key:tenant-7 takes no more than 1/h").count();
    assert!(story.contains("parked until") && told >= 2, "{story}");
    let story = run(&["explain", "job_3", "--plain", "--lang", "ja"]);
    assert!(story.contains("まで待避します") && story.contains("key:tenant-7 の上限は 1/h です"), "{story}");
    let status = run(&["status", "--plain"]);
    assert!(status.contains("key:tenant-7 is limited: about 2 jobs are parked"), "{status}");
    let status: serde_json::Value = serde_json::from_str(&run(&["status", "--json"])).unwrap();
    assert_eq!(status["targets"][0]["parked"], 2, "{status}");
    run(&["targets", "reset", "key:tenant-7"]);
    let acts = run(&["events", "--type", "operator_act", "--json"]);
    assert!(
        acts.contains("target.limit") && acts.contains("cli:ada") && acts.contains("they asked"),
        "{acts}"
    );
    let shown = run(&["targets", "show", "key:tenant-7", "--plain"]);
    assert!(shown.contains("key:tenant-7: well"), "{shown}");
}

/// R-P15: what is no target is a wrong word (2), what nothing is known of is nothing (3), and a limit must say one.
#[test]
fn bad_words_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let code = |args: &[&str]| redrive(home.path(), args).status.code();
    assert_eq!(code(&["targets", "show", "mail"]), Some(2));
    assert_eq!(code(&["targets", "limit", "queue:mail"]), Some(2));
    assert_eq!(code(&["targets", "limit", "queue:mail", "--rate", "fast"]), Some(2));
    assert_eq!(code(&["targets", "limit", "queue:mail", "--concurrency", "2"]), Some(0));
    assert_eq!(code(&["targets", "show", "queue:nobody"]), Some(3));
    assert_eq!(code(&["targets", "reset", "queue:nobody"]), Some(3));
}
