//! The disk is full, read-only, or fails under a sync: what is refused, what goes on, and that nothing is lost
//! (reliability rows 5, 7, 8 and 9).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redrive_store::{
    Housekeeping, JobId, JobState, Jobs, LeaseRequest, Leases, NewJob, Sqlite, SqliteOptions, StoreError,
    Trouble,
};

use crate::disk::{Mounted, can_mount, make_image};
use crate::given::{Hand, at, job, success, wants};
use crate::journal::Acknowledged;
use crate::process::{Process, can_trace, traced};

fn open(path: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(path, SqliteOptions::default())
}

/// Fills a disk to its last byte, but for so many.
fn fill(disk: &Path, but: usize) -> std::path::PathBuf {
    let filler = disk.join("filler");
    let mut bytes: usize = 64 << 20;
    let mut file = std::fs::File::create(&filler).unwrap();
    // Halves, until not even one byte goes in: then it is full.
    while bytes > 0 {
        while std::io::Write::write_all(&mut file, &vec![1; bytes.min(1 << 20)]).is_ok() {}
        bytes = bytes.min(1 << 20) / 2;
    }
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(but as u64)).unwrap();
    filler
}

/// Waits until new work is taken again; nobody has to do anything for it but make room.
async fn heals(store: &Sqlite) -> JobId {
    let began = Instant::now();
    loop {
        match store.enqueue(at(0), vec![job("healed")]).await {
            Ok(added) => return added[0].id,
            Err(error) => assert!(matches!(error.trouble(), Trouble::Full), "{error}"),
        }
        assert!(began.elapsed() < Duration::from_secs(20), "there is room, and it is not seen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reliability row 7: with so much room left, writes go on until the disk is full; then new work is refused as that, what
/// is under way can end, reading goes on, and with room it heals. Nothing acknowledged is lost, nothing refused is there.
async fn full_with(room: usize) -> usize {
    // Large enough that there is room for the reserve again once the filler is gone.
    let disk = Mounted::tmpfs("size=20m");
    let path = disk.path().join("redrive.db");
    let store = open(&path).unwrap();
    let hand = Hand(&store);
    let worker = hand.worker().await;
    let mut there = Vec::new();
    for _ in 0..20 {
        there.push(hand.add(job("a")).await);
    }
    let under_way = store.lease(at(0), wants(worker, &["a"], 10)).await.unwrap();
    let filler = fill(disk.path(), room);
    let mut refused = 0;
    let mut taken = 0;
    while refused < 5 {
        match store.enqueue(at(0), vec![NewJob::new("a", vec![7; 2_000])]).await {
            Ok(added) => {
                there.push(added[0].id);
                taken += 1;
            }
            Err(error) => {
                assert!(matches!(error.trouble(), Trouble::Full), "{room}: {error}");
                assert!(error.may_pass());
                refused += 1;
            }
        }
        assert!(taken < 20_000, "a disk without end");
    }
    store.status(at(0)).await.unwrap();
    for id in &there {
        assert!(store.job(*id).await.unwrap().is_some(), "{room}: {id} cannot be read");
    }
    for leased in &under_way {
        hand.done(at(0), leased.token, success()).await;
    }
    hand.clean().await;
    std::fs::remove_file(filler).unwrap();
    there.push(heals(&store).await);
    for id in &there {
        assert!(store.job(*id).await.unwrap().is_some(), "{room}: {id} is lost");
    }
    let lanes = store.status(at(0)).await.unwrap().lanes;
    let jobs: u64 = lanes.iter().map(|lane| lane.ready + lane.leased + lane.succeeded).sum();
    assert_eq!(jobs, there.len() as u64, "{room}: what was refused is there");
    hand.clean().await;
    store.close().await.unwrap();
    let again = open(&path).unwrap();
    Hand(&again).clean().await;
    taken
}

/// Reliability row 7, R-D1
#[test]
fn a_full_disk_refuses_new_work_and_heals() {
    if !can_mount() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // From nothing left to enough for the journal's index to grow.
    let rooms = [0, 4_096, 20_000, 70_000, 300_000, 1_000_000, 6_000_000, 13_000_000];
    let taken: Vec<_> = rooms.iter().map(|room| runtime.block_on(full_with(*room))).collect();
    println!("taken until the disk was full: {taken:?}");
    assert!(taken.iter().any(|taken| *taken > 100), "it was full before anything happened");
}

/// Reliability row 7: the disk is full at the very moment when the journal's index, which is no more than a help, has to
/// grow. That is a full disk like any other, and no reason to write no more.
#[test]
fn a_full_disk_under_the_journals_index_heals() {
    if !can_mount() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for room in (0..6).map(|step| 16_750_000 + step * 6_000) {
            let disk = Mounted::tmpfs("size=80m");
            let path = disk.path().join("redrive.db");
            let store = open(&path).unwrap();
            // Somebody looks at an old state, so that the journal cannot begin anew.
            let reader = rusqlite::Connection::open(&path).unwrap();
            reader.execute_batch("BEGIN; SELECT count(*) FROM job").unwrap();
            let filler = fill(disk.path(), room);
            let mut there = Vec::new();
            loop {
                let bytes = if there.len() < 130 { 120_000 } else { 2_000 };
                match store.enqueue(at(0), vec![NewJob::new("a", vec![7; bytes])]).await {
                    Ok(added) => there.push(added[0].id),
                    Err(error) => {
                        assert!(matches!(error.trouble(), Trouble::Full), "{room}: {error:?}");
                        break;
                    }
                }
            }
            reader.execute_batch("ROLLBACK").unwrap();
            std::fs::remove_file(filler).unwrap();
            there.push(heals(&store).await);
            for id in &there {
                assert!(store.job(*id).await.unwrap().is_some(), "{room}: {id} is lost");
            }
            Hand(&store).clean().await;
            store.close().await.unwrap();
        }
    });
}

/// Invariant I1, R-E1: whoever waits while a commit fails gets nothing of what was undone with it.
#[test]
fn a_commit_that_fails_gives_nothing_to_those_who_wait() {
    if !can_mount() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let disk = Mounted::tmpfs("size=16m");
        let store = Arc::new(open(&disk.path().join("redrive.db")).unwrap());
        let hand = Hand(&*store);
        let worker = hand.worker().await;
        let first = hand.add(job("a")).await;
        hand.take(at(0), worker, &["a"]).await;
        let last = hand.record(first).await.event;
        fill(disk.path(), 0);
        // The reserve goes first; then nothing fits.
        let fat = || vec![NewJob::new("a", vec![7; 1 << 20]); 8];
        let wait = Duration::from_millis(400);
        let request = LeaseRequest { wait, ..wants(worker, &["a"], 5) };
        let (its_store, follower) = (Arc::clone(&store), Arc::clone(&store));
        let waits = tokio::spawn(async move { its_store.lease(at(0), request).await });
        let follows =
            tokio::spawn(async move { redrive_store::Events::wait_for_events(&*follower, last, wait).await });
        let began = Instant::now();
        while began.elapsed() < wait / 2 {
            let error = store.enqueue(at(0), fat()).await.unwrap_err();
            assert!(matches!(error.trouble(), Trouble::Full), "{error}");
        }
        assert!(waits.await.unwrap().unwrap_or_default().is_empty(), "a lease of a job that never was");
        if let Ok(seen) = follows.await.unwrap() {
            assert_eq!(seen, last, "an event that never was");
        }
        hand.clean().await;
        assert!(matches!(hand.record(first).await.state, JobState::Leased { .. }));
        store.close().await.unwrap();
    });
}

/// Reliability row 8: no more files can be made.
#[test]
fn without_inodes_it_says_why_or_goes_on() {
    if !can_mount() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for inodes in 1..8 {
            let disk = Mounted::tmpfs(&format!("size=16m,nr_inodes={inodes}"));
            let path = disk.path().join("redrive.db");
            match open(&path) {
                Ok(store) => {
                    let id = Hand(&store).add(job("a")).await;
                    Hand(&store).clean().await;
                    store.close().await.unwrap();
                    // A file that was deleted gives its inode back when the last thread lets go of it.
                    let began = Instant::now();
                    let again = loop {
                        match open(&path) {
                            Ok(store) => break store,
                            Err(error) => {
                                assert!(began.elapsed() < Duration::from_secs(10), "{inodes}: {error:?}");
                            }
                        }
                        std::thread::sleep(Duration::from_millis(20));
                    };
                    assert!(again.job(id).await.unwrap().is_some());
                }
                Err(error) => assert!(
                    matches!(error.trouble(), Trouble::Open { .. } | Trouble::Full | Trouble::Broken(_)),
                    "{inodes}: {error:?}"
                ),
            }
        }
    });
}

/// Reliability row 9: on a read-only mount opening says so, and leaves nothing behind.
#[test]
fn a_read_only_disk_is_told_at_once() {
    if !can_mount() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("disk.img");
    make_image(&image, 32);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let disk = Mounted::image(&image, "rw");
    let path = disk.path().join("redrive.db");
    let id = runtime.block_on(async {
        let store = open(&path).unwrap();
        let id = Hand(&store).add(job("a")).await;
        store.close().await.unwrap();
        id
    });
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    disk.remount("ro");
    for path in [&path, &disk.path().join("other.db")] {
        let error = open(path).unwrap_err();
        let words = error.to_string().to_lowercase();
        assert!(matches!(error.trouble(), Trouble::ReadOnly(_) | Trouble::Open { .. }), "{error:?}");
        assert!(words.contains("read-only") || words.contains("readonly"), "{words}");
    }
    assert_eq!(names(), before);
    disk.remount("rw");
    runtime.block_on(async { assert!(open(&path).unwrap().job(id).await.unwrap().is_some()) });
}

/// Reliability row 9: the filesystem turns read-only under a running store. Nothing more is acknowledged; what is there
/// can be read.
#[test]
fn a_disk_that_turns_read_only_acknowledges_nothing() {
    if !can_mount() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("disk.img");
    make_image(&image, 32);
    let disk = Mounted::image(&image, "errors=remount-ro");
    let source =
        std::process::Command::new("findmnt").args(["-no", "SOURCE"]).arg(disk.path()).output().unwrap();
    let device = String::from_utf8(source.stdout).unwrap();
    let device = device.trim().trim_start_matches("/dev/");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(&disk.path().join("redrive.db")).unwrap();
        let id = Hand(&store).add(job("a")).await;
        // ext4 finds an error, and does what it was mounted to do then.
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").unwrap();
        for _ in 0..5 {
            let error = store.enqueue(at(0), vec![job("a")]).await.unwrap_err();
            assert!(matches!(error.trouble(), Trouble::Broken(_) | Trouble::ReadOnly(_)), "{error:?}");
        }
        assert!(store.job(id).await.unwrap().is_some());
        assert_eq!(store.status(at(0)).await.unwrap().lanes[0].ready, 1);
        store.close().await.unwrap();
    });
}

/// Reliability row 5: the first sync that fails ends all writing, since a second one may lie. Nothing is acknowledged
/// after it, and a restart finds everything that was.
#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    if !can_trace() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut failed = 0;
    // Syncs of the journal, and of the main file while it is being brought up to date.
    for (file, task, when) in [
        ("redrive.db-wal", "stubborn", 1),
        ("redrive.db-wal", "stubborn", 2),
        ("redrive.db-wal", "stubborn", 7),
        ("redrive.db-wal", "stubborn", 40),
        ("redrive.db-wal", "stubborn", 90),
        ("redrive.db", "stubborn-heavy", 1),
        ("redrive.db", "stubborn-heavy", 2),
    ] {
        let home = tempfile::tempdir().unwrap();
        let (path, journal) = (home.path().join("redrive.db"), home.path().join("journal"));
        runtime.block_on(async { open(&path).unwrap().close().await.unwrap() });
        let on = home.path().join(file);
        let inject = format!("inject=fsync,fdatasync:error=EIO:when={when}");
        let interference = ["-e", "trace=fsync,fdatasync", "-e", &inject, "-P", on.to_str().unwrap()];
        let status = Process::spawn(&mut traced(&interference, task, &path, &journal)).end();
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let first = lines.iter().position(|line| line.starts_with("refused"));
        let Some(first) = first else { panic!("{file} {when}: nobody was told ({status:?}): {lines:?}") };
        failed += 1;
        assert!(lines[first].contains("Broken"), "{file} {when}: {}", lines[first]);
        let later: Vec<_> = lines[first..].iter().filter(|line| line.starts_with("enqueued")).collect();
        assert!(later.is_empty(), "{file} {when}: acknowledged after the failure: {later:?}");
        runtime.block_on(async {
            let store = open(&path).unwrap();
            Acknowledged::read(&journal).holds(&store).await;
            Hand(&store).add(job("again")).await;
        });
    }
    println!("{failed} failed syncs, none followed by an acknowledgement");
}

/// Reliability rows 5 and 7: the n-th call of any kind fails, once. Whatever it is, nobody panics or hangs, nothing is
/// acknowledged that is not there, and a restart goes on.
#[test]
fn any_call_may_fail_once() {
    if !can_trace() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (mut points, mut told_of) = (0, 0);
    for (calls, error) in [
        ("pwrite64", "ENOSPC"),
        ("pwrite64", "EIO"),
        ("fsync,fdatasync", "EIO"),
        ("ftruncate", "EIO"),
        ("fallocate", "ENOSPC"),
        ("unlink", "EIO"),
        ("mmap", "ENOMEM"),
    ] {
        for when in [1, 2, 5, 61, 75] {
            let home = tempfile::tempdir().unwrap();
            let (path, journal) = (home.path().join("redrive.db"), home.path().join("journal"));
            let inject = format!("inject={calls}:error={error}:when={when}");
            let trace = format!("trace={calls}");
            let mut interference = vec!["-e", &trace, "-e", &inject];
            // Memory is mapped by everybody; here it is the journal's index that cannot be.
            let index = home.path().join("redrive.db-shm");
            if calls == "mmap" {
                interference.extend(["-P", index.to_str().unwrap()]);
            }
            let status = Process::spawn(&mut traced(&interference, "stubborn", &path, &journal)).end();
            let text = std::fs::read_to_string(&journal).unwrap_or_default();
            let told = Acknowledged::read(&journal);
            points += 1;
            told_of += usize::from(text.contains("refused"));
            // A store that could not even be opened ends the child, before it was told anything.
            assert!(status.success() || told.lines == 0, "{calls} {error} {when}: {status:?}\n{text}");
            assert!(!text.contains("Closed"), "{calls} {error} {when}: a thread died\n{text}");
            runtime.block_on(async {
                let store = open(&path).unwrap_or_else(|error| panic!("{calls} {when}: {error}"));
                told.holds(&store).await;
                let there =
                    store.status(at(0)).await.unwrap().lanes.iter().map(|lane| lane.ready).sum::<u64>();
                let known = told.enqueued.len() as u64;
                // What the failing commit held may or may not be there.
                assert!((known..=known + 1).contains(&there), "{calls} {error} {when}: {known}, {there}");
                Hand(&store).add(job("again")).await;
            });
        }
    }
    println!("{points} calls failed, {told_of} children were told of it");
    assert!(told_of >= 5, "hardly any failure was felt");
}

/// Reliability row 8: no more files can be opened. The store that is open goes on.
#[test]
fn without_file_descriptors_the_open_store_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let (path, journal) = (home.path().join("redrive.db"), home.path().join("journal"));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -n 40; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
    crate::process::dress(&mut command, "out-of-files", &path, &journal);
    assert!(Process::spawn(&mut command).end().success());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let told = Acknowledged::read(&journal);
        assert!(told.enqueued.len() >= 50, "{}", told.enqueued.len());
        told.holds(&open(&path).unwrap()).await;
    });
}
