//! Where the store is, from what `--store`, `REDRIVE_STORE` or the configuration says.

use std::path::{Path, PathBuf};

use crate::trouble::Trouble;

/// The file of the store. A relative path is looked for from `cwd` on.
pub(super) fn path(url: &str, cwd: &Path) -> Result<PathBuf, Trouble> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let path = match scheme.as_deref() {
        Some("postgres" | "postgresql") => return Err(Trouble::Postgres { url: url.to_owned() }),
        Some("sqlite") => {
            let rest = &url["sqlite:".len()..];
            rest.strip_prefix("//").unwrap_or(rest)
        }
        // Any other scheme names something that this is not.
        _ if url.contains("://") => return Err(Trouble::BadStore { url: url.to_owned() }),
        _ => url,
    };
    // What is only in memory is no store: nothing would survive.
    if path.is_empty() || path == ":memory:" || path.contains('\0') {
        return Err(Trouble::BadStore { url: url.to_owned() });
    }
    Ok(cwd.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C1: `sqlite:PATH` and a bare path are files; what is not built yet says so.
    #[test]
    fn a_store_is_a_file_or_refused_by_name() {
        let at = |url: &str| path(url, Path::new("/here")).map_err(|trouble| trouble.exit().code());
        for (url, place) in [
            ("sqlite:/data/x.db", "/data/x.db"),
            ("sqlite:///data/x.db", "/data/x.db"),
            ("sqlite:x.db", "/here/x.db"),
            ("x.db", "/here/x.db"),
            ("SQLITE:x.db", "/here/x.db"),
        ] {
            assert_eq!(at(url), Ok(PathBuf::from(place)), "{url}");
        }
        for url in
            ["postgres://u:p@h/db", "postgresql://h", "mysql://h", "sqlite:", "sqlite::memory:", "", "a\0b"]
        {
            assert_eq!(at(url), Err(2), "{url}");
        }
    }
}
