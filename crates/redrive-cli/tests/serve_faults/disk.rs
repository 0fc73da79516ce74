//! The disk fails under a server, or is full: nothing is acknowledged that is not there, and clients are told what they can do.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::serve_home::{Home, PATIENCE, Serving, ask};
use crate::until;

#[path = "../../../redrive-store/tests/survival/disk.rs"]
#[allow(dead_code)]
mod mounts;
use mounts::{Mounted, can_mount};

const JOB: &str = r#"{"queue":"orders","kind":"order","payload":{}}"#;

/// Whether strace can interfere here. A machine without it is told so loudly; in CI it is a failure.
fn can_trace() -> bool {
    let tried =
        Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "true"]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        assert!(std::env::var_os("CI").is_none(), "strace is missing or may not trace: install it");
        println!("SKIPPED: strace is missing or may not trace; nothing about failing syncs was proved");
    }
    can
}

/// The same command, whose n-th sync of the journal fails.
fn failing(inner: &Command, journal: &Path, when: usize) -> Command {
    let inject = format!("inject=fsync,fdatasync:error=EIO:when={when}");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject, "-P"]);
    command.arg(journal).arg(inner.get_program()).args(inner.get_args());
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(inner.get_current_dir().unwrap());
    command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    command
}

fn id_of(said: &str) -> String {
    let said: Value = serde_json::from_str(said).unwrap();
    said["id"].as_str().unwrap().to_owned()
}

/// All of these are there.
fn holds(serving: &Serving, acknowledged: &[String]) {
    for id in acknowledged {
        let (status, said) = serving.get(&format!("/v1/jobs/{id}"));
        assert_eq!(status, 200, "{id} is lost: {said}");
    }
}

/// Reliability row 5, R-D1: when a sync fails, whoever waited for it is told so, nothing is acknowledged any more, and the process ends with 74 and says why.
/// A restart has everything that was acknowledged.
#[test]
fn after_a_failed_sync_the_server_ends_with_74() {
    if !can_trace() {
        return;
    }
    for when in [8, 20, 45] {
        let home = Home::new();
        // Begun once before: what is counted are syncs of a server's life.
        assert_eq!(home.redrive("enqueue --queue other --exec true").0, Some(0));
        let words = ["serve", "--listen", "127.0.0.1:0", "--concurrency", "0"];
        let mut serving =
            Serving::started(failing(&home.command(&words), &home.path("redrive.db-wal"), when));
        let (mut acknowledged, mut refusals, began) = (Vec::new(), Vec::new(), Instant::now());
        while serving.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "{when}: it lives on: {refusals:?} {}", serving.said());
            match ask(&serving.address, &serving.address, "POST", "/v1/jobs", &[], JOB) {
                Some((201, said)) => {
                    assert!(refusals.is_empty(), "{when}: acknowledged behind {refusals:?}");
                    acknowledged.push(id_of(&said));
                }
                Some((status, said)) => {
                    let problem: Value = serde_json::from_str(&said).unwrap();
                    assert!(status == 503 && problem["code"].is_string(), "{when}: {status} {said}");
                    refusals.push(problem["code"].as_str().unwrap().to_owned());
                    let ready = serving.ask("GET", "/readyz", "");
                    assert!(ready.as_ref().is_none_or(|(status, _)| *status == 503), "{when}: {ready:?}");
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        assert_eq!(serving.ends(), Some(74), "{when}: {}", serving.said());
        println!("{when}: {} acknowledged, then {} refused", acknowledged.len(), refusals.len());
        assert!(!acknowledged.is_empty(), "{when}: it failed before anything was done");
        assert!(serving.said().contains("error"), "{}", serving.said());
        let again = home.serve("--concurrency 0");
        holds(&again, &acknowledged);
        assert_eq!(again.ask("POST", "/v1/jobs", JOB).unwrap().0, 201, "a restart goes on");
        assert_eq!(home.redrive("store check").0, Some(0));
    }
}

/// Fills a disk to its last byte.
fn fill(disk: &Path) -> std::path::PathBuf {
    let filler = disk.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    let mut bytes: usize = 1 << 20;
    while bytes > 0 {
        while file.write_all(&vec![1; bytes]).is_ok() {}
        bytes /= 2;
    }
    filler
}

/// Reliability row 7, R-D1: with a full disk new work is refused with 507, a code and a time; what is under way can end, and everything can be read. With room it heals by
/// itself, and what was acknowledged outlives a kill.
#[test]
fn with_a_full_disk_new_work_is_refused_and_the_rest_goes_on() {
    if !can_mount() {
        return;
    }
    let disk = Mounted::tmpfs("size=24m");
    let home = Home::new();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--concurrency", "0"]);
    let store = format!("sqlite:{}", disk.path().join("redrive.db").display());
    command.env("REDRIVE_STORE", &store);
    let mut serving = Serving::started(command);
    let mut acknowledged = Vec::new();
    for _ in 0..5 {
        acknowledged.push(id_of(&serving.ask("POST", "/v1/jobs", JOB).unwrap().1));
    }
    let (_, leased) = serving.ask("POST", "/v1/queues/orders/lease", r#"{"max":2}"#).unwrap();
    let leased: Value = serde_json::from_str(&leased).unwrap();
    let filler = fill(disk.path());
    let big = json!({ "queue": "orders", "kind": "order", "payload": "x".repeat(100_000) }).to_string();
    let began = Instant::now();
    let problem = loop {
        let (status, said) = serving.ask("POST", "/v1/jobs", &big).unwrap();
        if status == 201 {
            acknowledged.push(id_of(&said));
            assert!(began.elapsed() < PATIENCE, "the disk is never full");
            continue;
        }
        assert_eq!(status, 507, "{said}");
        break serde_json::from_str::<Value>(&said).unwrap();
    };
    assert_eq!((&problem["code"], &problem["status"]), (&json!("store-full"), &json!(507)), "{problem}");
    println!("{} acknowledged, then {problem}", acknowledged.len());
    holds(&serving, &acknowledged);
    let ends: Vec<Value> = leased["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| json!({ "lease": item["lease"], "outcome": "succeeded" }))
        .collect();
    let (status, said) =
        serving.ask("POST", "/v1/leases/settle", &json!({ "items": ends }).to_string()).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert!(status == 200 && said["items"][1]["status"] == "settled", "{said}");
    assert_eq!(serving.get("/readyz").0, 200, "ends are taken, so nobody should be sent away");
    std::fs::remove_file(filler).unwrap();
    until("there is room, and it is not seen", || match serving.ask("POST", "/v1/jobs", JOB).unwrap() {
        (201, said) => {
            acknowledged.push(id_of(&said));
            true
        }
        (status, said) => {
            assert_eq!(status, 507, "{said}");
            false
        }
    });
    assert_eq!(serving.get("/readyz").0, 200);
    serving.signal("KILL");
    assert_eq!(serving.ends(), None);
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--concurrency", "0"]);
    command.env("REDRIVE_STORE", &store);
    let serving = Serving::started(command);
    holds(&serving, &acknowledged);
}
