//! Somebody's editor on a private file.
//!
//! The file is in a folder of its own that nobody else may enter, so that an editor's backups are private, too. It goes
//! when nobody needs it any more; what was typed and could not be stored is kept.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::Stage;
use crate::trouble::{DeskTrouble, Trouble};

/// The editor of a person who names none.
const USUAL: &str = "vi";

/// A private file that is worked on.
pub(super) struct Scratch {
    folder: PathBuf,
    file: PathBuf,
    kept: bool,
}

impl Scratch {
    /// A new file of that name with this text.
    pub(super) fn new(name: &str, text: &[u8], stage: &Stage<'_>) -> Result<Scratch, Trouble> {
        let place = stage.env.get(OsStr::new("TMPDIR")).filter(|place| !place.is_empty());
        let place = place.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        let mut attempts = 0..16_u64;
        let folder = loop {
            let number = stage.entropy().wrapping_add(attempts.next().unwrap_or_default());
            let folder = place.join(format!("redrive-edit-{number:016x}"));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => break folder,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !attempts.is_empty() => {}
                Err(source) => return Err(Trouble::Unwritable { path: folder, source }),
            }
        };
        let file = folder.join(name);
        let scratch = Scratch { folder, file: file.clone(), kept: false };
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&file)
            .and_then(|mut new| new.write_all(text));
        written.map_err(|source| Trouble::Unwritable { path: file, source })?;
        Ok(scratch)
    }

    pub(super) fn path(&self) -> &Path {
        &self.file
    }

    /// What is in the file now; some editors have put another in its place.
    pub(super) fn read(&self) -> Result<Vec<u8>, Trouble> {
        // Reading a pipe would wait for ever, and a folder is no text.
        if !fs::metadata(&self.file).is_ok_and(|file| file.is_file()) {
            return Err(Trouble::Desk(DeskTrouble::FileGone));
        }
        fs::read(&self.file).map_err(|source| Trouble::Unreadable { path: self.file.clone(), source })
    }

    /// Takes the text off the disk: while a question waits for its answer nothing lies there in clear.
    pub(super) fn take(&self) -> Result<Vec<u8>, Trouble> {
        let bytes = self.read()?;
        fs::remove_file(&self.file)
            .map_err(|source| Trouble::Unwritable { path: self.file.clone(), source })?;
        Ok(bytes)
    }

    /// Puts it back.
    pub(super) fn restore(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.file);
        let written = new.and_then(|mut file| file.write_all(bytes));
        written.map_err(|source| Trouble::Unwritable { path: self.file.clone(), source })
    }

    /// It stays, for the person to find.
    pub(super) fn keep(mut self) -> PathBuf {
        self.kept = true;
        self.file.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // Whoever cleans the folder for temporary files takes what we cannot.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Runs the editor that the environment names on a file, to its end.
pub(super) fn edit(file: &Path, stage: &Stage<'_>) -> Result<(), Trouble> {
    let named = ["VISUAL", "EDITOR"].into_iter().find_map(|name| {
        stage.env.get(OsStr::new(name)).filter(|value| !value.to_string_lossy().trim().is_empty())
    });
    let written = named.map_or_else(|| OsString::from(USUAL), Clone::clone);
    let shown = written.to_string_lossy().into_owned();
    let words = written.to_str().and_then(words).filter(|words| !words.is_empty());
    let Some(words) = words else { return Err(Trouble::Desk(DeskTrouble::BadEditor { written: shown })) };
    let ours = keys().map_err(Trouble::NoRuntime)?;
    ours.store(false, Ordering::SeqCst);
    let status = Command::new(&words[0]).args(&words[1..]).arg(file).status();
    ours.store(true, Ordering::SeqCst);
    let status = status.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if named.is_none() => Trouble::Desk(DeskTrouble::NoEditor),
        _ => Trouble::Desk(DeskTrouble::NoSuchEditor { editor: shown.clone(), source }),
    })?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Trouble::Desk(DeskTrouble::EditorFailed { editor: shown, code })),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            Err(Trouble::Desk(DeskTrouble::EditorKilled { editor: shown, signal }))
        }
    }
}

/// Whether keys that end programs end us. They are the editor's while it runs, and ours again later; who listens to them is
/// told once, however often somebody edits.
fn keys() -> io::Result<&'static AtomicBool> {
    static OURS: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    if let Some(ours) = OURS.get() {
        return Ok(ours);
    }
    let ours = Arc::new(AtomicBool::new(true));
    for signal in [SIGINT, SIGQUIT] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&ours))?;
    }
    Ok(OURS.get_or_init(|| ours))
}

/// The words of a command, as a shell splits them: blanks part them, quotation marks and `\` hold them together. Nothing
/// when a quotation mark is open at the end.
fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') => {
                let next = chars.next()?;
                let word = word.get_or_insert_default();
                if !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push('\\');
                }
                word.push(next);
            }
            (None, '\\') => word.get_or_insert_default().push(chars.next()?),
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-D8: `EDITOR="code --wait"` is two words, and a path with a blank is one.
    #[test]
    fn words_are_split_as_a_shell_does() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text).unwrap(), expected, "{text}");
        check("vi", &["vi"]);
        check("  code   --wait ", &["code", "--wait"]);
        check("'/opt/my editor/bin' -f", &["/opt/my editor/bin", "-f"]);
        check(r#""a \"b\" \n" c\ d"#, &[r#"a "b" \n"#, "c d"]);
        check("e '' \"\"", &["e", "", ""]);
        check("emacs -nw 'a'\"b\"c", &["emacs", "-nw", "abc"]);
        check("", &[]);
        assert_eq!(words("vi 'open"), None);
        assert_eq!(words("vi \\"), None);
    }
}
