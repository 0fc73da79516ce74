//! PostgreSQL itself: pgbench inserts one row a transaction, 16 clients, statements prepared.

use std::process::Command;
use std::time::Duration;

use redrive_testing::{APP, Cluster};

use crate::cell::Measured;
use crate::contest::Body;

pub fn insert(cluster: &Cluster, database: &str, span: Duration) -> Measured {
    let table = "CREATE TABLE bare (id bigserial PRIMARY KEY, queue text NOT NULL, payload jsonb NOT NULL)";
    cluster.psql(database, &format!("{table}; ALTER TABLE bare OWNER TO {APP}"));
    let script = tempfile::NamedTempFile::new().expect("a file");
    let payload = String::from_utf8(Body::json()).expect("text");
    let statement = format!("INSERT INTO bare (queue, payload) VALUES ('default', '{payload}');\n");
    std::fs::write(script.path(), statement).expect("a script");
    let folder = cluster.psql(database, "SELECT setting FROM pg_config WHERE name = 'BINDIR'");
    let seconds = span.as_secs().max(1).to_string();
    let output = Command::new(std::path::Path::new(&folder).join("pgbench"))
        .args(["-n", "-M", "prepared", "-c", "16", "-j", "2", "-T", &seconds, "-f"])
        .arg(script.path())
        .args(["-h", "127.0.0.1", "-p", &cluster.port().to_string(), "-U", APP, database])
        .env("PGPASSWORD", cluster.password())
        .output()
        .expect("pgbench");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "pgbench: {told}{}", String::from_utf8_lossy(&output.stderr));
    let number = |name: &str| -> f64 {
        let line = told.lines().find_map(|line| line.strip_prefix(name));
        let word = line.and_then(|rest| rest.split_whitespace().next());
        word.and_then(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("pgbench does not tell {name}{told}"))
    };
    let jobs = number("number of transactions actually processed:");
    let took = Duration::from_secs_f64(jobs / number("tps ="));
    Measured { jobs: jobs as u64, took, latencies: Vec::new(), cut: false }
}
