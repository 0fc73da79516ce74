//! The place of an embedded store: its filesystem, the room on it, and whether what is synced is synced. Nothing is left behind:
//! the one file that is written has no name and is gone when it is closed.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Access, CWD, Mode, OFlags, StatVfs, accessat, open, statfs, statvfs};
use rustix::io::write;

use super::Findings;
use crate::settings::StorePlace;

/// Less room than this will not do for long, and less than that may end any moment.
const LITTLE: u64 = 1 << 30;
const TOO_LITTLE: u64 = 100 << 20;
/// Fewer free inodes than one in so many.
const FEW_INODES: u64 = 100;
/// No disk that keeps its word is faster; one that does so is slower than that only in trouble.
const TOO_FAST: Duration = Duration::from_micros(20);
const SLOW: Duration = Duration::from_millis(100);

pub(super) fn look(place: &StorePlace, found: &mut Findings) {
    let StorePlace::File(path) = place else { return };
    if !path.exists() {
        // Nothing is there that could be lost: whether it can be made is all that matters.
        if let Some(folder) = path.ancestors().skip(1).find(|folder| folder.is_dir()) {
            writable(path, folder, found);
            room(folder, found);
        }
        return;
    }
    let Some(folder) = path.parent().filter(|folder| folder.is_dir()) else { return };
    writable(path, folder, found);
    filesystem(folder, found);
    room(folder, found);
    sync(folder, found);
}

fn writable(path: &Path, folder: &Path, found: &mut Findings) {
    let may = |path: &Path| accessat(CWD, path, Access::WRITE_OK, rustix::fs::AtFlags::empty());
    let denied = may(folder).err().map(|error| (folder, error));
    let denied = denied.or_else(|| may(path).err().filter(|_| path.exists()).map(|error| (path, error)));
    match denied {
        None => found.ok("writable", "writable.yes", &[("path", &folder.display())]),
        Some((path, error)) => {
            let why = io::Error::from(error);
            let fix = format!("ls -ld {}", path.display());
            found.problem("writable", "writable.no", &[("path", &path.display()), ("why", &why)], &fix);
        }
    }
}

fn filesystem(folder: &Path, found: &mut Findings) {
    let Ok(stat) = statfs(folder) else { return };
    // The type of the number differs between targets; the low 32 bits are what the kernel documents.
    let kind = match u64::try_from(stat.f_type).unwrap_or_default() & 0xffff_ffff {
        0x0102_1994 | 0x8584_58f6 => "tmpfs",
        0x794c_7630 => "overlayfs",
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0x6969 | 0x517b | 0xff53_4d42 | 0xfe53_4d42 | 0x0102_1997 | 0x5346_414f | 0x00c3_6400 => "network",
        0x6573_5546 => "fuse",
        _ => "other",
    };
    let values: super::Values<'_> = &[("path", &folder.display()), ("kind", &kind)];
    match kind {
        "tmpfs" => found.warn("filesystem", "filesystem.memory", values, "redrive store backup FILE"),
        "overlayfs" => {
            found.warn("filesystem", "filesystem.layer", values, "docker run -v redrive:/var/lib/redrive …");
        }
        "network" => found.problem("filesystem", "filesystem.network", values, "redrive store copy --help"),
        _ => found.ok("filesystem", "filesystem.fine", values),
    }
}

fn room(folder: &Path, found: &mut Findings) {
    let Ok(stat) = statvfs(folder) else { return };
    let StatVfs { f_bavail, f_frsize, f_files, f_favail, .. } = stat;
    let free = f_bavail.saturating_mul(f_frsize);
    let shown = size(free);
    let values: super::Values<'_> = &[("path", &folder.display()), ("free", &shown)];
    let fix = format!("df -h {}", folder.display());
    match free {
        ..TOO_LITTLE => found.problem("space", "space.none", values, &fix),
        TOO_LITTLE..LITTLE => found.warn("space", "space.little", values, &fix),
        _ => found.ok("space", "space.fine", values),
    }
    if f_files > 0 && f_favail < f_files / FEW_INODES {
        let fix = format!("df -i {}", folder.display());
        found.warn("space", "space.inodes", &[("path", &folder.display()), ("free", &f_favail)], &fix);
    }
}

/// Writes to a file without a name and times how long it takes until the disk has it.
fn sync(folder: &Path, found: &mut Findings) {
    let timed = || -> io::Result<Duration> {
        let file =
            open(folder, OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o600))?;
        write(&file, &[0x5a; 4096])?;
        let began = Instant::now();
        rustix::fs::fdatasync(&file)?;
        Ok(began.elapsed())
    };
    match timed() {
        Ok(took) => {
            let shown = format!("{:.2} ms", took.as_secs_f64() * 1_000.0);
            let values: super::Values<'_> = &[("took", &shown)];
            if took < TOO_FAST {
                found.warn("fsync", "fsync.too-fast", values, "findmnt -T .");
            } else if took > SLOW {
                found.warn("fsync", "fsync.slow", values, "iostat -x 1");
            } else {
                found.ok("fsync", "fsync.fine", values);
            }
        }
        // Not every filesystem has files without a name, and a named one would be a change.
        Err(error) => found.ok("fsync", "fsync.unknown", &[("why", &error)]),
    }
}

fn size(bytes: u64) -> String {
    // To be read, not to be computed with.
    #[allow(clippy::cast_precision_loss)]
    let gib = bytes as f64 / f64::from(1 << 30);
    if gib >= 1.0 { format!("{gib:.1} GiB") } else { format!("{:.0} MiB", gib * 1024.0) }
}
