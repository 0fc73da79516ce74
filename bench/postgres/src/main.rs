//! What redrive reaches on PostgreSQL, beside its peers, in one run on one throw-away cluster: everything durable, a fresh
//! database for each number, the disk's own rate measured right before it.
//!
//! `bench-postgres [SECONDS]` prints the tables; `quick [SECONDS]` leaves the peers out; `churn [JOBS]` shows how large the
//! tables become; `one ROW [SECONDS]` measures redrive alone; `statements ROW [SECONDS]` also shows where its time goes.

mod apalis_side;
mod bare;
mod cell;
mod churn;
mod contest;
#[path = "../../engine/src/disk.rs"]
mod disk;
mod ours;
mod river;

use std::time::Duration;

use cell::{Cell, Measured, ROWS, Row};
use contest::{Contestant, measure};
use redrive_testing::{Cluster, Settings};

pub const REDRIVE: &str = "redrive";
pub const PEERS: &[&str] = &["riverqueue 0.5.0", "apalis-postgres 1.0.0"];
const BARE: &str = "bare insert (pgbench, 16 clients)";

fn cluster(with_statements: bool) -> Cluster {
    let mut options = vec![
        ("synchronous_commit", "on".to_owned()),
        ("shared_buffers", "1GB".to_owned()),
        ("max_wal_size", "8GB".to_owned()),
        ("max_connections", "200".to_owned()),
    ];
    if with_statements {
        options.push(("shared_preload_libraries", "pg_stat_statements".to_owned()));
        options.push(("pg_stat_statements.track_planning", "on".to_owned()));
    }
    let cluster = Cluster::start_with(Settings { fsync: true, options });
    let told = |name: &str| cluster.psql("postgres", &format!("SHOW {name}"));
    println!(
        "PostgreSQL {}, fsync {}, synchronous_commit {}, shared_buffers {}, max_wal_size {}, autovacuum {}\n",
        told("server_version"),
        told("fsync"),
        told("synchronous_commit"),
        told("shared_buffers"),
        told("max_wal_size"),
        told("autovacuum")
    );
    cluster
}

/// A fresh database, what others left in memory written to disk, and the disk's rate.
fn prepare(cluster: &Cluster) -> (String, (f64, f64)) {
    let database = cluster.database();
    cluster.psql("postgres", "CHECKPOINT");
    (database, disk::rates(cluster.socket_folder()))
}

/// The number is told when it is there, and once more in the tables.
fn keep(cluster: &Cluster, cells: &mut Vec<Cell>, database: &str, cell: Cell) {
    eprintln!("{}", cell.origin());
    cells.push(cell);
    cluster.psql("postgres", &format!("DROP DATABASE {database} WITH (FORCE)"));
}

async fn one<C: Contestant>(
    cluster: &Cluster,
    cells: &mut Vec<Cell>,
    who: &'static str,
    row: Row,
    span: Duration,
) {
    let (database, disk) = prepare(cluster);
    let measured: Measured = measure::<C>(row, &cluster.url_of(&database), span).await;
    keep(cluster, cells, &database, Cell::new(who, row, measured, disk));
}

async fn all(cluster: &Cluster, span: Duration, with_peers: bool) {
    let mut cells = Vec::new();
    for (_, row) in ROWS {
        one::<ours::Redrive>(cluster, &mut cells, REDRIVE, *row, span).await;
        if with_peers {
            peers(cluster, &mut cells, *row, span).await;
        }
        if *row == Row::Many {
            let (database, disk) = prepare(cluster);
            let measured = bare::insert(cluster, &database, span);
            keep(cluster, &mut cells, &database, Cell::new(BARE, *row, measured, disk));
        }
    }
    println!("{}", cell::table(&cells));
    println!("{}", cell::ORIGINS);
    for cell in &cells {
        println!("{}", cell.origin());
    }
}

async fn peers(cluster: &Cluster, cells: &mut Vec<Cell>, row: Row, span: Duration) {
    one::<river::River>(cluster, cells, PEERS[0], row, span).await;
    one::<apalis_side::Apalis>(cluster, cells, PEERS[1], row, span).await;
}

/// One row of redrive alone; with the statements that took the most of the server's time, if wanted.
async fn alone(row: Row, span: Duration, with_statements: bool) {
    let cluster = cluster(with_statements);
    let (database, disk) = prepare(&cluster);
    if with_statements {
        cluster.psql(&database, "CREATE EXTENSION pg_stat_statements");
    }
    let measured = measure::<ours::Redrive>(row, &cluster.url_of(&database), span).await;
    println!("{}\n{}\n", cell::ORIGINS, Cell::new(REDRIVE, row, measured, disk).origin());
    if with_statements {
        println!("| calls | planned ms | run ms | rows | WAL MB | statement |\n|---|---|---|---|---|---|");
        let top = "SELECT '| ' || calls || ' | ' || round(total_plan_time) || ' | ' || round(total_exec_time) || ' | '
                || rows || ' | ' || round(wal_bytes / 1e6, 1) || ' | '
                || left(regexp_replace(regexp_replace(query, '--[^\n]*', '', 'g'), '\\s+', ' ', 'g'), 90) || ' |'
            FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
            ORDER BY total_plan_time + total_exec_time DESC LIMIT 24";
        println!("{}", cluster.psql(&database, top));
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args.get(at).map(|text| text.parse::<f64>().expect("a number"));
    let span = |at: usize| Duration::from_secs_f64(number(at).unwrap_or(5.0));
    let row = || {
        let name = args.get(1).map(String::as_str).unwrap_or_default();
        let row = ROWS.iter().find(|(known, _)| *known == name).map(|(_, row)| *row);
        let names = || ROWS.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        row.unwrap_or_else(|| panic!("no such row; there are {:?}", names()))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        match args.first().map(String::as_str) {
            Some("quick") => all(&cluster(false), span(1), false).await,
            Some("churn") => churn::run(&cluster(false), number(1).unwrap_or(1e6) as u64).await,
            Some("one") => alone(row(), span(2), false).await,
            Some("statements") => alone(row(), span(2), true).await,
            _ => all(&cluster(false), span(0), true).await,
        }
    });
}
