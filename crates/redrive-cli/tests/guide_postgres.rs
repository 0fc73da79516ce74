//! What docs/postgres.md shows is what happens: its SQL runs as written, its Python too where psycopg can be had.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod repository;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use redrive_testing::Cluster;
use repository::{blocks, read};

fn redrive(arguments: &[&str], store: &str) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_redrive"))
        .args(arguments)
        .env_clear()
        .envs([("REDRIVE_STORE", store), ("PATH", "/usr/bin:/bin"), ("LANG", "C")])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Types this into psql, as the application's own role: each statement by itself, as a person would.
fn psql(url: &str, words: &str) {
    let mut session = Command::new("psql")
        .args([url, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    session.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    let ended = session.wait_with_output().unwrap();
    assert!(ended.status.success(), "{words}\n{}", String::from_utf8_lossy(&ended.stderr));
}

/// How many jobs of each kind wait.
fn waiting(cluster: &Cluster, database: &str) -> String {
    let sql = "SELECT string_agg(l.kind || ' ' || n, ', ' ORDER BY l.kind)
               FROM (SELECT lane_id, count(*) AS n FROM redrive.job GROUP BY lane_id) j JOIN redrive.lane l ON l.id = j.lane_id";
    cluster.psql(database, sql).trim().to_owned()
}

/// A Python that has psycopg; made in this folder if the network allows it.
fn python(folder: &Path) -> Option<std::path::PathBuf> {
    let done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if done(Command::new("python3").args(["-c", "import psycopg"])) {
        return Some("python3".into());
    }
    let made = done(Command::new("python3").args(["-m", "venv"]).arg(folder));
    let python = folder.join("bin/python");
    let pip = ["-m", "pip", "install", "-q", "--timeout", "20", "--retries", "1", "psycopg[binary]"];
    (made && done(Command::new(&python).args(pip))).then_some(python)
}

/// R-D8, issue 4: jobs are enqueued inside the application's own transaction, from psql and from Python; what is rolled back
/// is not there, and what is there is what a worker would get.
#[test]
fn the_guide_to_postgres_does_what_it_says() {
    if !Cluster::is_possible() {
        eprintln!("PostgreSQL is not installed: docs/postgres.md was not tried");
        return;
    }
    let cluster = Cluster::start();
    let database = cluster.database();
    let url = cluster.url_of(&database);
    redrive(&["store", "migrate"], &url);
    let page = read("docs/postgres.md");
    let (mut rights, examples): (Vec<String>, Vec<String>) =
        blocks(&page, "sql").into_iter().partition(|block| block.contains("CREATE ROLE"));
    assert_eq!((rights.len(), examples.len()), (1, 2));
    for example in examples {
        psql(&url, &example);
    }
    assert_eq!(waiting(&cluster, &database), "newsletter 3, receipt 1, reminder 1");
    assert_eq!(cluster.psql(&database, "SELECT string_agg(id::text, ' ') FROM orders").trim(), "8");

    // Whoever has the rights that the page grants can do everything but make the schema.
    rights.push("GRANT shop_worker TO redrive_app".to_owned());
    cluster.psql(&database, &rights.join("\n"));
    let as_worker = format!("{url}?options=-c%20role%3Dshop_worker");
    redrive(&["enqueue", "--queue", "mail", "--kind", "receipt", "--payload", "{}"], &as_worker);
    redrive(&["store", "check"], &as_worker);

    let folder = tempfile::tempdir().unwrap();
    let Some(python) = python(folder.path()) else {
        eprintln!("psycopg cannot be had here: the Python of docs/postgres.md was not tried");
        return;
    };
    let script = blocks(&page, "python")
        .pop()
        .unwrap()
        .replace("psycopg.connect()", &format!("psycopg.connect({url:?})"));
    let ran = Command::new(python).args(["-c", &script]).output().unwrap();
    let told = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{told}");
    assert!(String::from_utf8(ran.stdout).unwrap().starts_with("job_"));
    assert_eq!(waiting(&cluster, &database), "newsletter 3, receipt 3, reminder 1");
    redrive(&["store", "check"], &url);
}
