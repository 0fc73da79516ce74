//! Where the store is, from what `--store`, `REDRIVE_STORE` or the configuration says.

use std::path::{Path, PathBuf};

use crate::trouble::Trouble;

/// A file, or a database for many machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorePlace {
    /// An SQLite file.
    File(PathBuf),
    /// A PostgreSQL database, by its URL.
    Postgres(String),
}

/// The place of the store. A relative path is looked for from `cwd` on.
pub(crate) fn place(url: &str, cwd: &Path) -> Result<StorePlace, Trouble> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    let path = match scheme.as_deref() {
        Some("postgres" | "postgresql") if url.contains("://") => {
            return Ok(StorePlace::Postgres(url.to_owned()));
        }
        Some("sqlite") => {
            let rest = &url["sqlite:".len()..];
            rest.strip_prefix("//").unwrap_or(rest)
        }
        // Any other scheme names something that this is not.
        Some("postgres" | "postgresql") => return Err(Trouble::BadStore { url: url.to_owned() }),
        _ if url.contains("://") => return Err(Trouble::BadStore { url: url.to_owned() }),
        _ => url,
    };
    // A connection string with its password must not become the name of a file.
    if path.contains("password=") || path.starts_with("host=") {
        return Err(Trouble::BadStore { url: url.to_owned() });
    }
    // What is only in memory is no store: nothing would survive.
    if path.is_empty() || path == ":memory:" || path.contains('\0') {
        return Err(Trouble::BadStore { url: url.to_owned() });
    }
    Ok(StorePlace::File(cwd.join(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-C1: `sqlite:PATH` and a bare path are files, `postgres://…` is a database; anything else is refused by name.
    #[test]
    fn a_store_is_a_file_a_database_or_refused() {
        let at = |url: &str| place(url, Path::new("/here")).map_err(|trouble| trouble.exit().code());
        for (url, place) in [
            ("sqlite:/data/x.db", "/data/x.db"),
            ("sqlite:///data/x.db", "/data/x.db"),
            ("sqlite:x.db", "/here/x.db"),
            ("x.db", "/here/x.db"),
            ("SQLITE:x.db", "/here/x.db"),
        ] {
            assert_eq!(at(url), Ok(StorePlace::File(PathBuf::from(place))), "{url}");
        }
        for url in ["postgres://u:p@h/db", "postgresql://h"] {
            assert_eq!(at(url), Ok(StorePlace::Postgres(url.to_owned())), "{url}");
        }
        for url in
            ["mysql://h", "postgres:x", "host=h user=u password=p", "sqlite:", "sqlite::memory:", "", "a\0b"]
        {
            assert_eq!(at(url), Err(2), "{url}");
        }
    }
}
