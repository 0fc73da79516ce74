//! A snapshot, a second one of the same tree, and a restore, beside the copy that a person would make: `cp -r` and `sync`.
//! Each round begins with a tree that is in the cache and on the disk; ratios are of the same round.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use redrive::snapshot::{RestoreOptions, SnapshotRequest, Snapshots};

const FILES: usize = 10_000;
const BYTES: usize = 1 << 30;
const NOW: i64 = 1_763_200_000_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(3), |given| given.parse())?;
    let mut rows: Vec<[f64; 5]> = Vec::new();
    for round in 0..rounds {
        rows.push(measure(round)?);
        let [copy, first, second, gone, changed] = rows[round];
        println!(
            "round {}: cp -r + sync {copy:.2} s, snapshot {first:.2} s, again {second:.3} s, restore (files gone) {gone:.2} s, (files changed) {changed:.2} s",
            round + 1
        );
    }
    // The best of each: on a machine with other work it is the one to look at.
    let best = |column: usize| rows.iter().map(|row| row[column]).fold(f64::INFINITY, f64::min);
    let row = |name: &str, column: usize, target: &str| {
        let ratio = median(rows.iter().map(|row| row[column] / row[0]).collect());
        println!("| {name} | {:.2} | {:.2} | {ratio:.2} | {target} |", best(column), best(column) / best(0));
    };
    println!(
        "\n| | best, seconds | of the best copy | of the copy of the same round, median | at most |\n|---|---|---|---|---|"
    );
    row("`cp -r` and `sync`", 0, "");
    row("snapshot", 1, "1.5");
    row("restore, all files gone", 3, "1.5");
    row("restore, all files changed", 4, "1.5");
    println!(
        "\nA second snapshot of the same tree: {:.3} s, {:.0} times faster (10 are wanted).",
        best(2),
        best(1) / best(2)
    );
    Ok(())
}

fn measure(round: usize) -> Outcome<[f64; 5]> {
    let home = tempfile::tempdir()?;
    let root = home.path().canonicalize()?.join("tree");
    plant(&root, round as u64)?;
    sync()?;
    let copy = timed(|| {
        let copied = Command::new("cp").arg("-r").arg(&root).arg(home.path().join("copy")).status()?;
        if !copied.success() {
            return Err("cp failed".into());
        }
        sync()
    })?;
    fs::remove_dir_all(home.path().join("copy"))?;
    sync()?;

    let snapshots = Snapshots::open(home.path().join("snapshots"))?;
    let request = SnapshotRequest::of([&root]);
    let mut id = None;
    let first = timed(|| {
        id = Some(snapshots.create(&request, NOW)?.snapshot.id);
        Ok(())
    })?;
    sync()?;
    let second = timed(|| {
        let again = snapshots.create(&request, NOW)?;
        if again.files_read > 0 {
            return Err(format!("{} files were read again", again.files_read).into());
        }
        Ok(())
    })?;
    let id = id.ok_or("no snapshot")?;

    for entry in fs::read_dir(&root)? {
        fs::remove_dir_all(entry?.path())?;
    }
    sync()?;
    let restore = || -> Outcome<()> {
        let restored = snapshots.restore(&id, RestoreOptions::default(), NOW)?;
        if restored.restored_files.len() < FILES {
            return Err("not everything was put back".into());
        }
        Ok(())
    };
    let gone = timed(restore)?;
    for folder in fs::read_dir(&root)? {
        for file in fs::read_dir(folder?.path())? {
            fs::write(file?.path(), "changed")?;
        }
    }
    sync()?;
    let changed = timed(restore)?;
    Ok([copy, first, second, gone, changed])
}

/// 10,000 files of 1 to 214 KB in a hundred folders, whose bytes nothing can compress.
fn plant(root: &Path, seed: u64) -> Outcome<()> {
    let mut state = 0x9E37_79B9_7F4A_7C15 ^ seed;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mean = BYTES / FILES;
    for number in 0..FILES {
        let folder = root.join((number / 100).to_string());
        if number % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        let size = 1_000 + (random() as usize) % (2 * (mean - 1_000));
        let mut content = Vec::with_capacity(size + 8);
        while content.len() < size {
            content.extend_from_slice(&random().to_le_bytes());
        }
        fs::write(folder.join(number.to_string()), content)?;
    }
    Ok(())
}

fn sync() -> Outcome<()> {
    if Command::new("sync").status()?.success() { Ok(()) } else { Err("sync failed".into()) }
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
