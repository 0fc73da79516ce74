//! What an operator's commands take on a store with a million letters and ten million events, each as a process of its own,
//! from its start to its end.
//!
//! `bench-terminal` makes the store if there is none yet, checks it, and prints the tables for SQLite; `postgres` copies it
//! into a throw-away cluster and prints the same. `make`, `check`, `look`, `export` and `redrive` do one part. The binary is
//! named by `REDRIVE`; the stores are kept in the folder `REDRIVE_BENCH_FOLDER`, and have `REDRIVE_BENCH_LETTERS` letters.

mod command;
mod failures;
mod looks;
mod make;
mod moves;

use std::path::{Path, PathBuf};

use command::Redrive;
use make::Amount;
use redrive_testing::{Cluster, Settings};

/// Where the stores are, and how large.
struct Bench {
    binary: PathBuf,
    folder: PathBuf,
    amount: Amount,
}

impl Bench {
    fn from_environment() -> Bench {
        let folder = std::env::var_os("REDRIVE_BENCH_FOLDER")
            .map_or_else(|| std::env::temp_dir().join("redrive-bench-terminal"), PathBuf::from);
        std::fs::create_dir_all(&folder).expect("a folder");
        let letters =
            std::env::var("REDRIVE_BENCH_LETTERS").map_or(1_000_000, |n| n.parse().expect("a number"));
        let binary = std::env::var_os("REDRIVE").expect("REDRIVE names the binary").into();
        Bench { binary, folder, amount: Amount { letters, events: letters * 10 } }
    }

    fn file(&self, amount: Amount) -> PathBuf {
        self.folder.join(format!("{}.db", amount.letters))
    }

    /// The store of a tenth of the letters.
    fn small(&self) -> Redrive {
        self.made();
        self.on_file(self.file(self.tenth()))
    }

    /// The store.
    fn large(&self) -> Redrive {
        self.made();
        self.on_file(self.file(self.amount))
    }

    /// Has both stores made by a process of its own: the kernel counts the memory of a process as that of its children, too.
    fn made(&self) {
        let itself = std::env::current_exe().expect("this program");
        let status = std::process::Command::new(itself).arg("make").status().expect("this program");
        assert!(status.success(), "the store was not made");
    }

    async fn make(&self) {
        let (small, large) = (self.file(self.tenth()), self.file(self.amount));
        if !small.exists() {
            make::make(&small, self.tenth()).await;
        }
        if !large.exists() {
            make::multiply(&small, &large).await;
        }
    }

    fn on_file(&self, file: PathBuf) -> Redrive {
        let store = format!("sqlite:{}", file.display());
        Redrive { binary: self.binary.clone(), store, file: Some(file) }
    }

    /// A tenth of it, to compare with.
    fn tenth(&self) -> Amount {
        Amount { letters: self.amount.letters / 10, events: self.amount.events / 10 }
    }

    /// A copy that may be spoilt. It goes with its folder.
    fn spare(&self, of: &Redrive) -> (tempfile::TempDir, Redrive) {
        let spare = tempfile::tempdir_in(&self.folder).expect("a folder");
        let file = spare.path().join("spare.db");
        std::fs::copy(of.file.as_ref().expect("a file"), &file).expect("copied");
        let redrive = self.on_file(file);
        (spare, redrive)
    }
}

/// What the numbers were measured on, without naming the machine.
fn machine() {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').take(2).collect::<Vec<_>>().join(" and ");
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory: u64 = memory
        .split_whitespace()
        .nth(1)
        .and_then(|kilobytes| kilobytes.parse().ok())
        .map_or(0, |kilobytes: u64| kilobytes >> 20);
    println!("{cores} cores, {memory} GB of memory, load {load} (one and five minutes) when this began\n");
}

fn size(file: &Path) {
    let bytes = std::fs::metadata(file).map_or(0, |facts| facts.len());
    println!("the file has {:.1} GB\n", bytes as f64 / 1e9);
}

fn sqlite(bench: &Bench) {
    let redrive = bench.large();
    size(redrive.file.as_ref().expect("a file"));
    looks::table(&redrive, &looks::all(&redrive), true);
    let small = bench.small();
    moves::exports(&small, bench.tenth(), &redrive, bench.amount);
    let (_folder, spare) = bench.spare(&redrive);
    moves::redrive_all(&spare, bench.amount);
}

/// A database for each of the two sizes, filled by `redrive store copy`.
fn postgres(bench: &Bench) {
    let options = [
        ("synchronous_commit", "on"),
        ("shared_buffers", "1GB"),
        ("max_wal_size", "8GB"),
        ("max_connections", "100"),
    ];
    let options = options.map(|(name, value)| (name, value.to_owned())).to_vec();
    let cluster = Cluster::start_with(Settings { fsync: true, options });
    println!("PostgreSQL {}, its statistics fresh\n", cluster.psql("postgres", "SHOW server_version"));
    let mut filled = Vec::new();
    for (amount, file) in [(bench.amount, bench.large()), (bench.tenth(), bench.small())] {
        let database = cluster.database();
        let store = cluster.url_of(&database);
        let (_folder, spare) = bench.spare(&file);
        let took = spare.run(&["store", "copy", "--to", &store]);
        assert!(took.is_done, "the copy failed");
        println!(
            "copied {} letters from a file in {:.0} s, peak RSS {:.0} MB",
            amount.letters,
            took.wall.as_secs_f64(),
            took.peak_mb
        );
        cluster.psql(&database, "VACUUM ANALYZE");
        filled.push(Redrive { binary: bench.binary.clone(), store, file: None });
    }
    let (redrive, small) = (&filled[0], &filled[1]);
    println!();
    looks::table(redrive, &looks::all(redrive), false);
    moves::exports(small, bench.tenth(), redrive, bench.amount);
    moves::redrive_all(redrive, bench.amount);
}

fn main() {
    let bench = Bench::from_environment();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let part = std::env::args().nth(1);
    if part.as_deref() != Some("make") {
        machine();
    }
    runtime.block_on(async {
        match part.as_deref() {
            None => sqlite(&bench),
            Some("postgres") => postgres(&bench),
            Some("make") => bench.make().await,
            Some("check") => {
                for redrive in [bench.small(), bench.large()] {
                    let told = redrive.told(&["store", "check", "--plain"]);
                    println!("{}", told.replace(&redrive.store, "the store"));
                }
            }
            Some("look") => {
                let redrive = bench.large();
                looks::table(&redrive, &looks::all(&redrive), true);
            }
            Some("export") => {
                let (small, large) = (bench.small(), bench.large());
                moves::exports(&small, bench.tenth(), &large, bench.amount);
            }
            Some("redrive") => {
                let (_folder, spare) = bench.spare(&bench.large());
                moves::redrive_all(&spare, bench.amount);
            }
            Some(other) => panic!("{other} is no part of this"),
        }
    });
}
