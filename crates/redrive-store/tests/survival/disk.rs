//! Filesystems of our own: small ones, ones that can be copied under way, ones that turn read-only. Unmounted at the end,
//! whatever happens.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) struct Mounted {
    at: PathBuf,
    _home: tempfile::TempDir,
}

impl Mounted {
    pub(crate) fn tmpfs(options: &str) -> Mounted {
        let home = tempfile::tempdir().unwrap();
        Mounted::mount(home, &["-t", "tmpfs", "-o", options, "tmpfs"])
    }

    /// An image of ext4, new or a copy of another.
    pub(crate) fn image(image: &Path, options: &str) -> Mounted {
        let home = tempfile::tempdir().unwrap();
        Mounted::mount(home, &["-t", "ext4", "-o", &format!("loop,{options}"), image.to_str().unwrap()])
    }

    fn mount(home: tempfile::TempDir, what: &[&str]) -> Mounted {
        let at = home.path().join("disk");
        std::fs::create_dir(&at).unwrap();
        let done = Command::new("mount").args(what).arg(&at).output().unwrap();
        assert!(done.status.success(), "mount: {}", String::from_utf8_lossy(&done.stderr));
        Mounted { at, _home: home }
    }

    pub(crate) fn remount(&self, options: &str) {
        // A child that another test has just forked holds our files until it executes: then the disk is busy for a moment.
        let began = std::time::Instant::now();
        loop {
            let done =
                Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.at).output();
            let done = done.unwrap();
            if done.status.success() {
                return;
            }
            let why = String::from_utf8_lossy(&done.stderr);
            assert!(why.contains("busy") && began.elapsed().as_secs() < 20, "remount: {why}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily if somebody still looks at it: what must not stay is the mount.
        let quiet = |args: &[&str]| {
            let done = Command::new("umount").args(args).arg(&self.at).stderr(Stdio::null()).status();
            done.is_ok_and(|status| status.success())
        };
        if !quiet(&[]) && !quiet(&["-l"]) {
            println!("{} could not be unmounted", self.at.display());
        }
    }
}

/// An empty image of so many mebibytes.
pub(crate) fn make_image(path: &Path, mebibytes: u64) {
    std::fs::File::create(path).unwrap().set_len(mebibytes << 20).unwrap();
    let done = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(path).output().unwrap();
    assert!(done.status.success(), "mkfs.ext4: {}", String::from_utf8_lossy(&done.stderr));
}

/// Whether this machine lets us mount such things. One that does not is told so loudly; in CI it is a failure.
pub(crate) fn can_mount() -> bool {
    let home = tempfile::tempdir().unwrap();
    let image = home.path().join("probe.img");
    let tried = std::panic::catch_unwind(|| {
        make_image(&image, 8);
        drop(Mounted::image(&image, "rw"));
        drop(Mounted::tmpfs("size=1m"));
    });
    if tried.is_err() {
        assert!(std::env::var("CI").is_err(), "filesystems cannot be mounted here");
        println!("SKIPPED: no filesystem can be mounted here; what needs one was NOT proved on this machine");
    }
    tried.is_ok()
}
