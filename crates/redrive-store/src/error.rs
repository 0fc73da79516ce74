//! What can go wrong with the store itself. A job's trouble is never here: that is a failure, and data.

use std::path::PathBuf;
use std::sync::Arc;

/// Our own trouble, cheap to clone: one broken transaction is told to everybody whose work was in it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(#[from] Arc<Trouble>);

impl StoreError {
    /// What went wrong.
    pub fn trouble(&self) -> &Trouble {
        &self.0
    }

    /// Whether nobody knows if it was done. Doing it again is safe only for what can be done twice.
    pub fn outcome_is_unknown(&self) -> bool {
        matches!(self.trouble(), Trouble::UnknownOutcome(_))
    }

    /// Whether the same call may succeed later, with nothing done in between but waiting or making room.
    pub fn may_pass(&self) -> bool {
        matches!(
            self.trouble(),
            Trouble::Busy { .. }
                | Trouble::Full
                | Trouble::Overloaded
                | Trouble::Unreachable(_)
                | Trouble::Contended(_)
                | Trouble::Moving
        )
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> StoreError {
        StoreError(Arc::new(trouble))
    }
}

/// The kinds of trouble.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// There is no store there, and none was to be made.
    #[error("there is no store at {0}")]
    Missing(PathBuf),
    /// It cannot be opened or made.
    #[error("cannot open {path}: {why}")]
    Open {
        /// Where.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A database's URL that cannot be understood.
    #[error("{location} is no address of a database: {why}")]
    BadAddress {
        /// What was given, without a password.
        location: String,
        /// Why.
        why: String,
    },
    /// The database is there and does not let us in, or not do what we must.
    #[error("{location} refuses us: {why}")]
    Denied {
        /// Where.
        location: String,
        /// Why.
        why: String,
    },
    /// A key was given for a store that holds plain values, and encrypting it was not asked for.
    #[error("the store is not encrypted, and key `{0}` was given")]
    NotEncrypted(String),
    /// The file belongs to another program.
    #[error("{0} is a database of another program")]
    Foreign(PathBuf),
    /// A newer redrive wrote it.
    #[error("{path} was written by a newer redrive (schema {found}, this one knows {known})")]
    NewerSchema {
        /// Where.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema that this redrive knows.
        known: i64,
    },
    /// The journal is there and the database is not.
    #[error(
        "{0} is missing, but its journal is there: a copy was taken without the main file, or it was deleted"
    )]
    OrphanedJournal(PathBuf),
    /// SQLite on a network filesystem loses data.
    #[error("{path} is on a network filesystem ({filesystem}), where SQLite's locks cannot be trusted")]
    NetworkFilesystem {
        /// Where.
        path: PathBuf,
        /// Which.
        filesystem: &'static str,
    },
    /// The bundled SQLite is too old to be safe.
    #[error("SQLite {0} is linked, which can corrupt a database; 3.51.3 is the first that cannot")]
    UnsafeSqlite(&'static str),
    /// Others kept it locked for too long.
    #[error("another process has kept the store locked for {seconds} s")]
    Busy {
        /// How long.
        seconds: u64,
    },
    /// The disk is full. Nothing was written; reading goes on.
    #[error("the disk is full: nothing was written")]
    Full,
    /// It cannot be written to.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// The file is damaged.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The disk failed under a write. What was not acknowledged may or may not be there; nothing more is written.
    #[error("the disk failed, and this process writes no more: {0}")]
    Broken(String),
    /// The database does not answer, and we have tried for as long as we may. Nothing was written.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The database went away while it committed, and did not come back in time.
    #[error("the database went away while it committed: whether this was written is not known: {0}")]
    UnknownOutcome(String),
    /// The database undid our transactions for others' sake, again and again.
    #[error("the database is contended: {0}")]
    Contended(String),
    /// Too much waits to be written.
    #[error("too many writes are waiting")]
    Overloaded,
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The store lives elsewhere now.
    #[error("this store was moved to {0}")]
    Moved(String),
    /// The store is about to move, and nothing is begun in it any more.
    #[error("this store is being moved: nothing new is begun until that is over")]
    Moving,
    /// The copy may not be whole: whoever makes it has not finished.
    #[error("this store is still being copied from {0}")]
    Arriving(String),
    /// Another store was put where this one was, while we had it open.
    #[error("another store was put in the place of this one: open it again")]
    Replaced,
    /// Something is there already, and would be mixed with what comes.
    #[error("{0} is not empty")]
    NotEmpty(String),
    /// Work did not end in time.
    #[error("jobs and requests with a key that were still running after {seconds} s: {leases}")]
    StillRunning {
        /// How many.
        leases: u64,
        /// After how long.
        seconds: u64,
    },
    /// A copy that is not like its original. It was thrown away.
    #[error("the copy differs from its original: {0}")]
    CopyDiffers(String),
    /// A value that cannot be stored.
    #[error("{0}")]
    Refused(Refusal),
    /// The store is encrypted, and its key was not given.
    #[error("the store is encrypted with key `{key}`, which was not given{}", listed(given))]
    KeyMissing {
        /// The id of the key.
        key: String,
        /// The ids of those that were given.
        given: Vec<String>,
    },
    /// A key has the right name and is another one.
    #[error("the key given as `{key}` is not the one that the store was encrypted with")]
    WrongKey {
        /// The id of the key.
        key: String,
    },
    /// A sealed value was changed, or moved from where it belongs.
    #[error("{cell} of row {row} cannot be decrypted: it was changed, or it belongs somewhere else")]
    Unsealable {
        /// Table and column.
        cell: &'static str,
        /// The row.
        row: i64,
    },
    /// A store is to be sealed, and there is no key to seal it with.
    #[error("there is no key to encrypt the store with")]
    NoKey,
    /// The system gives no random numbers, without which nothing is encrypted.
    #[error("the system gives no random numbers: {0}")]
    NoChance(String),
    /// Something that should not happen.
    #[error("the database said: {0}")]
    Database(String),
}

fn listed(given: &[String]) -> String {
    if given.is_empty() { String::new() } else { format!(" (given: {})", given.join(", ")) }
}

/// Why a value is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many bytes.
    #[error("the payload has {bytes} bytes; {most} is the most")]
    PayloadTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A name that is empty, too long, or has control characters.
    #[error("{what} {name:?} must have 1 to 255 bytes and no control characters")]
    BadName {
        /// What it names.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// Outside the range.
    #[error("priority {0} is not between -100 and 100")]
    BadPriority(i32),
    /// Outside the range.
    #[error("importance {0} is not between 1 and 5")]
    BadImportance(u8),
    /// Nested too deep to be read back everywhere.
    #[error("the data nests deeper than {most} levels")]
    TooDeep {
        /// The limit.
        most: usize,
    },
    /// Too many at once.
    #[error("{count} at once; {most} is the most")]
    TooMany {
        /// How many.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// Something long is too long.
    #[error("{what} has {bytes} bytes; {most} is the most")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A subtask that the plan does not have.
    #[error("there is no subtask {number}: the plan has {subtasks}")]
    NoSuchSubtask {
        /// Its number, from 0.
        number: u32,
        /// How many there are.
        subtasks: u32,
    },
    /// A subtask is to go on that was never begun.
    #[error("subtask {0} has no job")]
    NothingBegun(u32),
    /// A notice that does not say JSON.
    #[error("what {space}/{name} says is not JSON")]
    NotJson {
        /// Its space.
        space: String,
        /// Its name.
        name: String,
    },
    /// Two changes of the same notice at once.
    #[error("{space}/{name} is changed twice at once")]
    ChangedTwice {
        /// Its space.
        space: String,
        /// Its name.
        name: String,
    },
    /// A task is to end, and to go on.
    #[error("a task does not end by running")]
    EndsRunning,
}
