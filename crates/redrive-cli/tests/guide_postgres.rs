//! What docs/postgres.md shows is what happens: its SQL runs as written, its Python too where psycopg can be had.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod repository;

use std::path::Path;
use std::process::Command;

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
        // As the application's own role, not as the superuser.
        cluster.psql(&database, &format!("SET ROLE redrive_app;\n{example}"));
    }
    assert_eq!(waiting(&cluster, &database), "newsletter 3, receipt 1, reminder 1");
    assert_eq!(cluster.psql(&database, "SELECT string_agg(id::text, ' ') FROM orders").trim(), "8");

    // Whoever has the rights that the page grants can do everything but make the schema.
    rights.push("ALTER ROLE shop_worker PASSWORD 'worker'".to_owned());
    cluster.psql(&database, &rights.join("\n"));
    let password = format!(":{}@", cluster.password());
    let as_worker = url.replace("redrive_app", "shop_worker").replace(&password, ":worker@");
    redrive(&["enqueue", "--kind", "receipt", "--payload", "{}"], &as_worker);
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
