//! What `doctor` and `health` say, for people and programs, in both languages (issue 8, operations; R-C2).

#![allow(clippy::unwrap_used, clippy::format_push_string)]

mod support;

use std::process::Command;
use std::time::Duration;

use redrive_store::{Housekeeping, Jobs, NewJob, Sqlite, SqliteOptions, Workers};
use support::line;
use support::stored::{at, lease};

/// Issue 8, operations: a store that is not there, one with a job that nobody takes, and a server that is not there. Nothing is changed.
#[test]
fn the_doctor_says_what_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("redrive.db");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let run = |words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_redrive"))
            .args(words.split(' '))
            .env_clear()
            .env("REDRIVE_STORE", format!("sqlite:{}", db.display()))
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.code().unwrap(), said)
    };
    let (code, said) = run("doctor");
    assert!(code == 0 && said.contains("there is no store at") && !db.exists(), "{code} {said}");
    assert!(said.contains("All is well") && said.contains("-> redrive enqueue --exec true"), "{said}");
    // For the server of this machine that is fine, for one that was named it is not.
    let (code, said) = run(&format!("doctor --server http://{free}"));
    assert!(code == 1 && said.contains("nobody listens"), "{said}");
    let (code, said) = run(&format!("health http://{free}"));
    assert!(code == 1 && said.contains("nobody listens"), "{said}");
    assert_eq!(run("health ftp://x").0, 2);

    assert_eq!(run("enqueue --kind other --payload {}").0, 0);
    let (code, said) = run("doctor");
    assert_eq!(code, 1, "{said}");
    for words in ["no worker is present, and jobs are due: 1", "redrive serve", "Problems: 1"] {
        assert!(said.contains(words), "{said}");
    }
    let (_, said) = run("doctor --json");
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&json["schema"], &json["problems"]), (&"redrive/doctor.v1".into(), &1.into()));
    let all = json["findings"].as_array().unwrap();
    let workers = all.iter().find(|finding| finding["check"] == "workers").unwrap();
    assert_eq!((&workers["verdict"], &workers["fix"]), (&"problem".into(), &"redrive serve".into()));
    assert!(run("doctor --lang ja").1.contains("問題 1 件"));
}

/// Issue 8, operations: on the first day nothing is there yet, and nothing is wrong with that.
#[test]
fn the_first_day_is_no_trouble() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("not/there/yet/redrive.db");
    let mut page = String::new();
    for flags in ["--plain", "--plain --lang ja"] {
        let ran = line(&format!("doctor {flags} --store sqlite:{}", store.display())).run();
        page.push_str(&format!("===== redrive doctor {flags}\n{ran}"));
    }
    // What there is of this machine is not the test's.
    let page = page.replace(&home.path().display().to_string(), "[DIR]");
    let free = |line: &&str| !line.contains("iB") && !line.contains("127.0.0.1");
    let page: Vec<&str> = page.lines().filter(free).collect();
    insta::assert_snapshot!("doctor_first_day", page.join("\n"));
    assert!(!store.exists());
}

/// Issue 8, operations: what a killed worker left behind is told, and is not called broken; beside a worker it is not even told.
#[test]
fn what_a_killed_worker_left_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redrive.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let flags = format!("--store sqlite:{}", path.display());
    // The disk of this machine may have its own troubles.
    let doctor = || {
        let ran = line(&format!("doctor --json {flags}")).run();
        let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let all = json["findings"].as_array().unwrap();
        let workers = all.iter().find(|finding| finding["check"] == "workers").unwrap();
        (workers["verdict"].as_str().unwrap().to_owned(), workers["what"].as_str().unwrap().to_owned())
    };
    runtime.block_on(async {
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        let worker = store.register(at(0), "a worker".into(), Duration::from_secs(10)).await.unwrap();
        store.enqueue(at(0), vec![NewJob::new("exec", "{\"argv\":[\"true\"]}")]).await.unwrap();
        lease(&store, worker, "exec", at(1)).await;
        store.close().await.unwrap();
    });
    let told = "no worker is present; jobs that the last one left behind, which the next one takes up: 1";
    assert_eq!(doctor(), ("warning".to_owned(), told.to_owned()));
    runtime.block_on(async {
        let store = Sqlite::open(&path, SqliteOptions::default()).unwrap();
        store.register(at(470), "another".into(), Duration::from_hours(1)).await.unwrap();
        store.close().await.unwrap();
    });
    assert_eq!(doctor(), ("ok".to_owned(), "workers that are present: 1".to_owned()));
}
