//! Where snapshots of files are kept: beside a store that is a file, in the user's own folder otherwise.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::StorePlace;

/// The folder, and what no snapshot ever holds: the files of the store itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotPlace {
    pub(crate) dir: PathBuf,
    pub(crate) never: Vec<PathBuf>,
}

/// The place of the snapshots; nothing when nobody knows where this user keeps things.
pub(crate) fn place(
    store: &StorePlace,
    env: &HashMap<OsString, OsString>,
    cwd: &Path,
) -> Option<SnapshotPlace> {
    let named = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let beside = |file: &Path, ending: &str| {
        let mut name = file.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let never = match store {
        StorePlace::File(file) => {
            ["", "-wal", "-shm", "-journal", "-reserve", "-snapshots"].map(|end| beside(file, end)).to_vec()
        }
        StorePlace::Postgres(_) => Vec::new(),
    };
    let dir = match (named("REDRIVE_SNAPSHOTS"), store) {
        (Some(dir), _) => cwd.join(dir),
        (None, StorePlace::File(file)) => beside(file, "-snapshots"),
        (None, StorePlace::Postgres(_)) => {
            let state = named("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let state = state.or_else(|| Some(Path::new(named("HOME")?).join(".local/state")))?;
            state.join("redrive/snapshots")
        }
    };
    Some(SnapshotPlace { dir, never })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-T3: snapshots live beside a store that is a file, and never hold it.
    #[test]
    fn snapshots_live_beside_the_store() {
        let env = |pairs: &[(&str, &str)]| -> HashMap<OsString, OsString> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let at = |store: &StorePlace, pairs: &[(&str, &str)]| {
            place(store, &env(pairs), Path::new("/here")).map(|place| place.dir)
        };
        let file = StorePlace::File("/data/x.db".into());
        let database = StorePlace::Postgres("postgres://h/d".into());
        assert_eq!(at(&file, &[]), Some("/data/x.db-snapshots".into()));
        assert_eq!(at(&file, &[("REDRIVE_SNAPSHOTS", "kept")]), Some("/here/kept".into()));
        assert_eq!(at(&database, &[("HOME", "/u")]), Some("/u/.local/state/redrive/snapshots".into()));
        assert_eq!(at(&database, &[("XDG_STATE_HOME", "/s")]), Some("/s/redrive/snapshots".into()));
        assert_eq!(at(&database, &[]), None);
        let never = place(&file, &env(&[]), Path::new("/here")).unwrap().never;
        assert!(never.contains(&PathBuf::from("/data/x.db-wal")), "{never:?}");
    }
}
