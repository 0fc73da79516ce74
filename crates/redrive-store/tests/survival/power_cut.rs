//! A power cut: what the kernel has not sent to the disk is gone. The disk is an image of ext4, and a cut is a copy of it,
//! taken while a child is writing (reliability rows 3 and 6).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use redrive_store::{Sqlite, SqliteOptions};

use crate::disk::{Mounted, can_mount, make_image};
use crate::journal::Acknowledged;
use crate::process::{Process, child};

const CUTS: usize = 20;

/// Lets a child write, cuts the power a few times, and answers for each cut how much was acknowledged and what of it is
/// missing.
fn cut(task: &str, cuts: usize) -> Vec<(usize, Vec<String>)> {
    let home = tempfile::tempdir().unwrap();
    let (image, journal) = (home.path().join("disk.img"), home.path().join("journal"));
    make_image(&image, 192);
    let disk = Mounted::image(&image, "rw");
    let store = disk.path().join("redrive.db");
    let mut process = Process::spawn(&mut child(task, &store, &journal));
    let mut found = Vec::new();
    for number in 0..cuts {
        let told = wait_for_lines(&mut process, &journal, 300 * (number + 1));
        // What was acknowledged before the copy begins must be in it. Stopped, since copying takes a moment.
        process.signal("-STOP");
        let copy = home.path().join(format!("cut-{number}.img"));
        let done = Command::new("cp").arg("--sparse=always").args([&image, &copy]).status().unwrap();
        assert!(done.success());
        process.signal("-CONT");
        found.push((told.lines, what_is_missing(&copy, &told)));
        std::fs::remove_file(&copy).unwrap();
    }
    process.signal("-KILL");
    process.end();
    drop(disk);
    found
}

fn wait_for_lines(process: &mut Process, journal: &Path, lines: usize) -> Acknowledged {
    let began = Instant::now();
    loop {
        let told = Acknowledged::read(journal);
        if told.lines >= lines {
            return told;
        }
        assert!(process.is_running(), "the child ended by itself");
        assert!(began.elapsed() < Duration::from_mins(1), "the child writes nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The machine starts again: the filesystem and the store recover by themselves.
fn what_is_missing(copy: &Path, told: &Acknowledged) -> Vec<String> {
    let disk = Mounted::image(copy, "rw");
    let path = disk.path().join("redrive.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // A relaxed store may be gone altogether.
        let Ok(store) = Sqlite::open(&path, SqliteOptions { create: false, ..SqliteOptions::default() })
        else {
            return told.enqueued.iter().map(|id| format!("{id}, with the whole store")).collect();
        };
        crate::given::Hand(&store).clean().await;
        told.missing(&store).await
    })
}

/// Reliability row 3; R-D1: everything that was acknowledged before the cut is there.
#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    if !can_mount() {
        return;
    }
    for (number, (acknowledged, missing)) in cut("flood", CUTS).into_iter().enumerate() {
        println!("cut {number}: {acknowledged} acknowledged, {} lost", missing.len());
        assert!(missing.is_empty(), "cut {number}: {missing:#?}");
    }
}

/// Reliability row 6: the negative control. Without syncing, the same cut loses acknowledged work; were it not so, the
/// test above would prove nothing.
#[test]
fn without_syncing_a_power_cut_loses_work() {
    if !can_mount() {
        return;
    }
    let found = cut("flood-relaxed", 2);
    println!("relaxed: {:?}", found.iter().map(|(told, missing)| (told, missing.len())).collect::<Vec<_>>());
    assert!(found.iter().any(|(_, missing)| !missing.is_empty()), "inconclusive: nothing was lost");
}
