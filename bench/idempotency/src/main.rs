//! What the idempotency layer costs: the same axum handler without it and with it, on both stores, in one run.
//!
//! The server is a process of its own with the default runtime, the client another one with one thread; both share the machine's
//! cores. Every new key is on disk before its handler runs, and its answer before it is sent (`synchronous=FULL`).

mod load;
mod serve;
mod sweep;

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use load::{Keys, Measured};
use redrive_testing::{Cluster, Settings};

const CONNECTIONS: usize = 64;
const SECONDS: u64 = 5;
/// Keys that are replayed.
const KNOWN: u64 = 10_000;

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", store] => serve::serve(store),
        ["sweep"] => sweep::sweep(10_000_000),
        ["sweep", rows] => sweep::sweep(rows.parse().map_err(io::Error::other)?),
        [] => table(),
        _ => Err(io::Error::other("nothing, `sweep [ROWS]`, or `serve STORE`")),
    }
}

/// A server of its own process, ended with this.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    pub fn start(store: &str) -> io::Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", store])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?).read_line(&mut line)?;
        let port = line.trim().parse().map_err(io::Error::other)?;
        Ok(Server { child, port })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its standard input, and may be gone already.
        drop(self.child.stdin.take());
        if self.child.wait().is_err() {
            eprintln!("a server could not be waited for");
        }
    }
}

fn table() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir_in(std::env::var("TMPDIR").unwrap_or_else(|_| "/var/tmp".to_owned()))?;
    let cluster = Cluster::is_possible().then(|| {
        let options = vec![("max_connections", "300".to_owned())];
        Cluster::start_with(Settings { fsync: true, options })
    });
    println!("{:<44} {:>10} {:>7} {:>8} {:>8} {:>9}", "64 connections, 200 bytes", "req/s", "ratio", "p50 ms", "p99 ms", "not 201");
    let mut bare_rate = 0.0;
    let sqlite = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let mut rows: Vec<(&str, String, Keys)> = vec![
        ("bare handler", "none".to_owned(), Keys::None),
        ("layer, no key", sqlite("pass.db"), Keys::None),
        ("layer, SQLite, new keys", sqlite("new.db"), Keys::New),
        ("layer, SQLite, replays", sqlite("again.db"), Keys::Again(KNOWN)),
    ];
    if let Some(url) = cluster.as_ref().map(Cluster::url) {
        rows.push(("layer, PostgreSQL, new keys", url.clone(), Keys::New));
        rows.push(("layer, PostgreSQL, replays", url, Keys::Again(KNOWN)));
    }
    rows.push(("bare handler, once more", "none".to_owned(), Keys::None));
    for (name, store, keys) in &rows {
        let server = Server::start(store)?;
        if let Keys::Again(known) = keys {
            // They are new once.
            runtime.block_on(prime(server.port, *known))?;
        }
        let mut measured = runtime.block_on(load::closed(server.port, CONNECTIONS, *keys, 0, SECONDS))?;
        if bare_rate == 0.0 {
            bare_rate = measured.rate();
        }
        row(name, &mut measured, Some(bare_rate));
    }
    println!();
    println!("{:<44} {:>10} {:>7} {:>8} {:>8} {:>9}", "1,000 requests a second", "req/s", "", "p50 ms", "p99 ms", "not 201");
    for (name, store, keys) in [
        ("bare handler", "none".to_owned(), Keys::None),
        ("layer, SQLite, new keys", sqlite("open.db"), Keys::New),
        ("layer, SQLite, replays", sqlite("again.db"), Keys::Again(KNOWN)),
    ] {
        let server = Server::start(&store)?;
        let mut measured =
            runtime.block_on(load::open(server.port, CONNECTIONS, keys, 1 << 40, 1_000, 2 * SECONDS))?;
        row(name, &mut measured, None);
    }
    Ok(())
}

async fn prime(port: u16, known: u64) -> io::Result<()> {
    let mut first = 0;
    while first < known {
        first += load::closed(port, CONNECTIONS, Keys::Again(known), first, 1).await?.requests;
    }
    Ok(())
}

pub fn row(name: &str, measured: &mut Measured, bare: Option<f64>) {
    let ratio = bare.map_or_else(String::new, |bare| format!("{:.2}", measured.rate() / bare));
    println!(
        "{name:<44} {:>10.0} {ratio:>7} {:>8.2} {:>8.2} {:>9}",
        measured.rate(),
        measured.percentile(50.0),
        measured.percentile(99.0),
        measured.other_status
    );
}
