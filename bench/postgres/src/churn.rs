//! How large tables and indexes are after many jobs went through them, with autovacuum as it comes.

use std::time::{Duration, Instant};

use redrive_testing::Cluster;

use crate::cell::thousands;
use crate::contest::{BULK, Contestant, forget_starts, starts};
use crate::ours::Redrive;

/// How far producers may be ahead of the worker: a queue that is worked off, not a heap.
const AHEAD: u64 = 10_000;
/// The longest that this may take.
const PATIENCE: Duration = Duration::from_mins(20);

pub async fn run(cluster: &Cluster, jobs: u64) {
    forget_starts();
    let database = cluster.database();
    let queue = Redrive::open(&cluster.url_of(&database)).await;
    let worker = queue.start(64).await;
    let (began, mut made) = (Instant::now(), 0);
    while made < jobs || queue.unfinished().await {
        assert!(began.elapsed() < PATIENCE, "{} of {jobs} after {PATIENCE:?}", starts());
        if made < jobs && made < starts() + AHEAD {
            queue.push_many(BULK).await;
            made += BULK as u64;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let took = began.elapsed();
    Redrive::stop(worker).await;
    queue.close().await;
    // Sessions tell what they did a moment after they did it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let rate = thousands(made as f64 / took.as_secs_f64());
    println!("{made} jobs churned in {:.1} s: {rate}/s, every event kept\n", took.as_secs_f64());
    println!("| | table MB | indexes MB | rows | dead rows | autovacuums |\n|---|---|---|---|---|---|");
    let sizes = cluster.psql(
        &database,
        "SELECT '| ' || relname || ' | ' || round(pg_table_size(relid) / 1e6, 2) || ' | '
             || round(pg_indexes_size(relid) / 1e6, 2) || ' | ' || n_live_tup || ' | ' || n_dead_tup || ' | '
             || autovacuum_count || ' |'
         FROM pg_stat_user_tables ORDER BY pg_total_relation_size(relid) DESC LIMIT 12",
    );
    println!("{sizes}");
    println!(
        "\nthe database has {}",
        cluster.psql(&database, "SELECT pg_size_pretty(pg_database_size(current_database()))")
    );
}
