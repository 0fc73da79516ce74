//! Where PostgreSQL's programs are. Debian keeps them apart from the path, by version.

use std::path::{Path, PathBuf};

/// The folder with `initdb` and `postgres`, if there is one: the newest of Debian's, or one on the path.
pub(crate) fn folder() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((path.file_name()?.to_str()?.parse().ok()?, path.join("bin")))
        })
        .filter(|(_, folder)| has_all(folder))
        .collect();
    versions.sort();
    versions.pop().map(|(_, folder)| folder).or_else(|| on_path(has_all))
}

/// A program on the path, or where administrators' programs are.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    on_path(|folder| folder.join(name).is_file()).map(|folder| folder.join(name))
}

fn has_all(folder: &Path) -> bool {
    ["initdb", "postgres", "pg_basebackup", "psql"].iter().all(|name| folder.join(name).is_file())
}

fn on_path(fits: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/bin")]);
    known.into_iter().find(|folder| fits(folder))
}
