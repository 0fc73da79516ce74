//! A table full of expired keys is swept while requests come: do they feel it?

use std::io;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::load::{self, Keys};
use crate::{CONNECTIONS, Server, row};

/// Fills a store with expired keys, and measures 1,000 requests a second before and during the sweep.
pub fn sweep(rows: u64) -> io::Result<()> {
    let folder = tempfile::tempdir_in(std::env::var("TMPDIR").unwrap_or_else(|_| "/var/tmp".to_owned()))?;
    let path = folder.path().join("swept.db");
    let store = format!("sqlite:{}", path.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    drop(Server::start(&store)?);
    let filled = Instant::now();
    fill(&path, rows).map_err(io::Error::other)?;
    println!("{rows} expired keys, written in {:.0?}", filled.elapsed());
    let left = || -> io::Result<u64> {
        let connection = Connection::open(&path).map_err(io::Error::other)?;
        connection
            .query_row("SELECT count(*) FROM idempotency_keys WHERE expires_at < 1000000", [], |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
            .map_err(io::Error::other)
    };
    let server = Server::start(&store)?;
    let mut from = 1 << 40;
    let began = Instant::now();
    println!("{:<44} {:>10} {:>7} {:>8} {:>8} {:>9}", "1,000 requests a second, new keys", "req/s", "", "p50 ms", "p99 ms", "not 201");
    while began.elapsed() < Duration::from_mins(20) {
        let mut measured = runtime.block_on(load::open(server.port, CONNECTIONS, Keys::New, from, 1_000, 20))?;
        from += 1 << 20;
        let max = measured.percentile(100.0);
        let left = left()?;
        row(&format!("{left} left, slowest {max:.1} ms"), &mut measured, None);
        if left == 0 {
            break;
        }
    }
    Ok(())
}

fn fill(path: &std::path::Path, rows: u64) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    let transaction = connection.transaction()?;
    transaction.execute(
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO idempotency_keys (id, principal, key, endpoint, request_hash, state, incarnation, response_status,
             response_headers, response_body, created_at, ended_at, expires_at)
         SELECT -i, 'nobody', printf('%08x-0000-4000-8000-%012x', (i * 2654435761) % 4294967296, i), 'POST /v1/bookmarks', printf('%064x', i), 1, -i, 201,
             CAST('[]' AS BLOB), zeroblob(200), i % 1000, i % 1000, 1000 + i % 1000 FROM n",
        [rows.cast_signed()],
    )?;
    transaction.commit()?;
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").ok();
    Ok(())
}
