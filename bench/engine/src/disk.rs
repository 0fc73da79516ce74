//! The disk's own rate: 4 KiB and fdatasync, appended to a growing file and written over one that has its size.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long each of the two is tried.
const SPAN: Duration = Duration::from_millis(400);

/// Syncs per second: appending, and overwriting.
pub fn rates(folder: &Path) -> (f64, f64) {
    let page = [7_u8; 4096];
    let path = folder.join("probe");
    let mut file = File::create(&path).expect("a probe file");
    let append = rate(|_| {
        file.write_all(&page).expect("a write");
        file.sync_data().expect("a sync");
    });
    let pages = file.metadata().expect("its size").len() / 4096;
    let overwrite = rate(|n| {
        file.write_all_at(&page, (n % pages) * 4096).expect("a write");
        file.sync_data().expect("a sync");
    });
    std::fs::remove_file(&path).expect("the probe file");
    (append, overwrite)
}

fn rate(mut once: impl FnMut(u64)) -> f64 {
    let began = Instant::now();
    let mut n = 0;
    while began.elapsed() < SPAN {
        once(n);
        n += 1;
    }
    n as f64 / began.elapsed().as_secs_f64()
}
