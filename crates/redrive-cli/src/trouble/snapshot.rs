//! The trouble with snapshots of files, in words.

use redrive::snapshot::{Fault, SnapshotError};
use redrive_policy::Lang;

use super::system_error;
use crate::escape::path as shown;
use crate::exit::Exit;
use crate::text::{say, text};

pub(super) fn exit(error: &SnapshotError) -> Exit {
    match error {
        SnapshotError::NotFound { .. } => Exit::Nothing,
        SnapshotError::BadId { .. } | SnapshotError::BadPattern { .. } => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// What is wrong: a line for each conflict, one for everything else.
pub(super) fn messages(error: &SnapshotError, lang: Lang) -> Vec<String> {
    match error {
        SnapshotError::Conflicts { conflicts } => {
            let mut lines = vec![text(lang, "trouble.snapshot.conflicts", &[("n", &conflicts.len())])];
            lines.extend(conflicts.iter().map(|conflict| {
                let key = format!("snapshot.conflict.{}", conflict.kind.as_str().replace('_', "-"));
                format!("{} {}", say(lang, &key), shown(&conflict.path))
            }));
            lines
        }
        error => vec![message(error, lang)],
    }
}

fn message(error: &SnapshotError, lang: Lang) -> String {
    let key = format!("trouble.snapshot.{}", key(error));
    let why = |why: &Fault| say(lang, &format!("trouble.snapshot.why.{}", why.code()));
    match error {
        SnapshotError::BadId { given } => text(lang, &key, &[("id", given)]),
        SnapshotError::BadRoot { path, why: fault }
        | SnapshotError::BadName { path, why: fault }
        | SnapshotError::Damaged { what: path, why: fault }
        | SnapshotError::NoRoom { path, why: fault } => {
            text(lang, &key, &[("path", &shown(path)), ("why", &why(fault))])
        }
        SnapshotError::BadPattern { pattern, why: fault } => {
            text(lang, &key, &[("pattern", pattern), ("why", &why(fault))])
        }
        SnapshotError::TooLarge { limit } => {
            text(lang, &key, &[("limit", &crate::view::snapshot::size(*limit))])
        }
        SnapshotError::TooMany { limit } => text(lang, &key, &[("limit", limit)]),
        SnapshotError::NotFound { id } => text(lang, &key, &[("id", id)]),
        SnapshotError::RootGone { path } | SnapshotError::Unsteady { path } => {
            text(lang, &key, &[("path", &shown(path))])
        }
        SnapshotError::RootReplaced { what, why, .. } => {
            text(lang, &format!("{key}-{}", why.code()), &[("what", &shown(what))])
        }
        SnapshotError::Locked { path, lock } => {
            text(lang, &format!("{key}-{}", lock.flag()), &[("path", &shown(path))])
        }
        SnapshotError::Unfinished { id, source } => {
            text(lang, &key, &[("id", id), ("why", &message(source, lang))])
        }
        SnapshotError::Io { path, source, .. } => {
            text(lang, &key, &[("path", &shown(path)), ("error", &system_error(source, lang))])
        }
        other => text(lang, "trouble.snapshot.other", &[("why", other)]),
    }
}

pub(super) fn hint(error: &SnapshotError, lang: Lang) -> String {
    let key = format!("trouble.hint.snapshot.{}", key(error));
    match error {
        SnapshotError::Locked { path, lock } => {
            text(lang, &key, &[("path", &shown(path)), ("flag", &lock.flag())])
        }
        SnapshotError::RootReplaced { what, .. } => text(lang, &key, &[("what", &shown(what))]),
        SnapshotError::BadRoot { path, why: Fault::NotAFolder } => {
            let folder = path.parent().unwrap_or(path);
            text(lang, "trouble.hint.snapshot.not-a-folder", &[("folder", &shown(folder))])
        }
        _ => say(lang, &key),
    }
}

fn key(error: &SnapshotError) -> &'static str {
    match error {
        SnapshotError::BadId { .. } => "bad-id",
        SnapshotError::BadRoot { .. } => "bad-root",
        SnapshotError::BadName { .. } => "bad-name",
        SnapshotError::BadPattern { .. } => "bad-pattern",
        SnapshotError::TooLarge { .. } => "too-large",
        SnapshotError::TooMany { .. } => "too-many",
        SnapshotError::NotFound { .. } => "not-found",
        SnapshotError::Damaged { .. } => "damaged",
        SnapshotError::Conflicts { .. } => "conflicts",
        SnapshotError::Locked { .. } => "locked",
        SnapshotError::NoRoom { .. } => "no-room",
        SnapshotError::RootGone { .. } => "root-gone",
        SnapshotError::RootReplaced { .. } => "root-replaced",
        SnapshotError::Unsteady { .. } => "unsteady",
        SnapshotError::Unfinished { .. } => "unfinished",
        SnapshotError::Io { .. } => "io",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::find;

    /// R-C2: every fault has its words in both languages.
    #[test]
    fn every_fault_has_its_words() {
        for fault in Fault::ALL {
            for lang in [Lang::En, Lang::Ja] {
                let key = format!("trouble.snapshot.why.{}", fault.code());
                assert!(find(lang, &key).is_some(), "{key}");
            }
        }
    }

    /// Row 54: what is locked is named in both languages, with the command that unlocks it.
    #[test]
    fn what_is_locked_is_named_with_what_unlocks_it() {
        use redrive::snapshot::LockedBy;
        for (lock, en, ja) in [
            (LockedBy::Immutable, "is immutable", "変更不可"),
            (LockedBy::AppendOnly, "is append-only", "追記専用"),
        ] {
            let error = SnapshotError::Locked { path: "/srv/a".into(), lock };
            for (lang, word, untouched) in
                [(Lang::En, en, "Nothing was touched"), (Lang::Ja, ja, "何も変更していません")]
            {
                let said = messages(&error, lang).join("\n");
                assert!(
                    said.starts_with("/srv/a ") && said.contains(word) && said.contains(untouched),
                    "{said}"
                );
                let hint = hint(&error, lang);
                assert!(hint.ends_with(&format!("chattr -{} /srv/a", lock.flag())), "{hint}");
            }
        }
    }
}
