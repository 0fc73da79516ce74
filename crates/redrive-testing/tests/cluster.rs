//! The ground itself (R-D8, reliability rows 36 to 38): a server that does what it is told, and is gone afterwards.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use redrive_testing::{Cluster, Pgbouncer, Settings};

fn psql(url: &str, sql: &str) -> String {
    let output = Command::new("psql").args(["-XAtq", "-d", url, "-c", sql]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn eventually(what: &str, happens: impl Fn() -> bool) {
    let began = Instant::now();
    while !happens() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Reliability rows 37 and 38: what was committed is there after every kind of end, on the standby too, and both are gone in the end.
#[test]
fn it_is_stopped_started_copied_promoted_and_gone() {
    if !Cluster::is_possible() {
        return;
    }
    let primary = Cluster::start_with(Settings { fsync: true, ..Settings::default() });
    let home = primary.socket_folder().to_owned();
    psql(&primary.url(), "CREATE TABLE told (n int)");
    for (n, end) in [Cluster::stop, Cluster::stop_immediately, Cluster::kill].into_iter().enumerate() {
        psql(&primary.url(), &format!("INSERT INTO told VALUES ({n})"));
        end(&primary);
        primary.start_again();
        assert_eq!(psql(&primary.url(), "SELECT count(*) FROM told"), (n + 1).to_string());
    }
    let standby = primary.standby(Settings::default());
    psql(&primary.url(), "INSERT INTO told VALUES (9)");
    eventually("the standby does not follow", || psql(&standby.url(), "SELECT max(n) FROM told") == "9");
    primary.kill();
    standby.promote();
    psql(&standby.url(), "INSERT INTO told VALUES (10)");
    assert_eq!(psql(&standby.url(), "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"), "f");
    let database = standby.database();
    assert_eq!(psql(&standby.url_of(&database), "SELECT current_database()"), database);
    drop(primary);
    assert!(!home.exists(), "something is left");
}

/// Reliability row 38: by way of a pooler, one session serves all.
#[test]
fn a_pooler_stands_before_it() {
    if !Cluster::is_possible() || !Pgbouncer::is_possible() {
        return;
    }
    let cluster = Cluster::start();
    let pooler = Pgbouncer::start(&cluster.url(), 1);
    let sessions: Vec<_> = (0..3).map(|_| psql(pooler.url(), "SELECT pg_backend_pid()")).collect();
    assert_eq!(sessions[0], sessions[1]);
    assert_eq!(sessions[1], sessions[2]);
}

/// A process that is killed leaves no server and no folder behind.
#[test]
fn it_goes_with_whoever_started_it() {
    if !Cluster::is_possible() {
        return;
    }
    let mut owner = Command::new(env!("CARGO_BIN_EXE_throw-away-postgres"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert_eq!(psql(&told.next().unwrap().unwrap(), "SELECT 1"), "1");
    let home = told.next().unwrap().unwrap();
    let server = std::fs::read_to_string(Path::new(&home).join("data/postmaster.pid")).unwrap();
    let server = Path::new("/proc").join(server.lines().next().unwrap());
    assert!(server.exists());
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the server is left", || !server.exists());
    eventually("its folder is left", || !Path::new(&home).exists());
}
