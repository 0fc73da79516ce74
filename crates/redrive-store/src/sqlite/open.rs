//! Opening: what is refused, what is made, and how every connection is set up.

use std::cell::Cell;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Durability;
use super::migrate;
use crate::error::{StoreError, Trouble};

/// "rdrv": what our files say they are.
pub(super) const APPLICATION_ID: i64 = 0x7264_7276;
/// The first SQLite without the bug that resets a journal under its readers.
const SAFE_SQLITE: i32 = 3_051_003;
/// How long others may keep the store locked before a caller hears of it.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// Refuses what cannot be trusted, makes the file if it may, and brings its schema up to date.
pub(super) fn open(path: &Path, create: bool, durability: Durability) -> Result<Connection, StoreError> {
    if rusqlite::version_number() < SAFE_SQLITE {
        return Err(Trouble::UnsafeSqlite(rusqlite::version()).into());
    }
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    refuse_network_filesystem(path, directory)?;
    refuse_read_only_filesystem(path, directory)?;
    let fresh = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(cannot(path, "it is a directory")),
        Ok(found) if found.len() == 0 => {
            // A database is written before its journal, so an empty one with a journal has lost what it held: SQLite would
            // throw the journal away. Looked at again, since another process may be making it right now.
            let holds = |path: &Path| path.metadata().is_ok_and(|found| found.len() > 0);
            if holds(&beside(path, "-wal")) && !holds(path) {
                return Err(Trouble::OrphanedJournal(path.to_owned()).into());
            }
            true
        }
        // Less than the smallest page: SQLite would take it for an empty database and write over it.
        Ok(found) if found.len() < 512 => {
            return Err(Trouble::Corrupt(format!("{} is not a database", path.display())).into());
        }
        Ok(_) => false,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if beside(path, "-wal").metadata().is_ok_and(|journal| journal.len() > 0) {
                return Err(Trouble::OrphanedJournal(path.to_owned()).into());
            }
            if !create {
                return Err(Trouble::Missing(path.to_owned()).into());
            }
            // Payloads are somebody's secrets: nobody else may read them. The journal inherits this.
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot(path, &error.to_string())),
            }
            true
        }
        Err(error) => return Err(cannot(path, &error.to_string())),
    };
    let mut connection = connect(path, durability)?;
    let began = Instant::now();
    loop {
        let Err(error) = prepare(path, &mut connection, fresh) else { return Ok(connection) };
        match error.trouble() {
            // When several make the store at once, SQLite refuses the change of its journal to all but one of them without
            // waiting: whoever looks again finds it done.
            Trouble::Busy { .. } if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Trouble::Database(why) => return Err(cannot(path, why)),
            _ => return Err(error),
        }
    }
}

fn prepare(path: &Path, connection: &mut Connection, fresh: bool) -> Result<(), StoreError> {
    let (application, found, tables) = {
        // At one moment: another process may be making the store.
        let moment = connection.unchecked_transaction()?;
        let tables: i64 = moment.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let pragma = |name: &str| moment.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0));
        (pragma("application_id")?, pragma("user_version")?, tables)
    };
    let ours = application == APPLICATION_ID || (fresh || tables == 0) && application == 0 && found == 0;
    if !ours {
        return Err(Trouble::Foreign(path.to_owned()).into());
    }
    let known = migrate::newest();
    if found > known {
        return Err(Trouble::NewerSchema { path: path.to_owned(), found, known }.into());
    }
    // Only where it is not so yet: changing it needs the store for itself.
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if !mode.eq_ignore_ascii_case("wal") {
            return Err(cannot(path, "the filesystem does not allow a write-ahead journal"));
        }
    }
    if found < known {
        migrate::run(connection)?;
    }
    Ok(())
}

/// The number that no other store has.
pub(super) fn store_id(connection: &Connection) -> Result<u64, StoreError> {
    let id: i64 = connection.query_row("SELECT store_id FROM store", [], |row| row.get(0))?;
    Ok(id.cast_unsigned())
}

/// A connection that writes.
pub(super) fn connect(path: &Path, durability: Durability) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| why_not(path, error))?;
    wait_for_locks(&mut connection)?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::RelaxedMayLoseAcknowledgedWork => "NORMAL",
    };
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = 67108864;
         PRAGMA cache_size = -65536;
         PRAGMA temp_store = MEMORY;
         PRAGMA foreign_keys = OFF;
         PRAGMA trusted_schema = OFF;"
    ))?;
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn connect_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)
        .or_else(|_| {
            Connection::open_with_flags(
                path,
                OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            )
        })
        .map_err(|error| why_not(path, error))?;
    wait_for_locks(&mut connection)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;")?;
    keep_plans(&connection)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// A plan is made once and kept. Otherwise every new value makes SQLite plan anew each statement on a table with a partial
/// index, which costs more than running it.
fn keep_plans(connection: &Connection) -> Result<(), StoreError> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

thread_local! {
    /// How long this thread waits for a lock.
    static THIS_PATIENCE: Cell<Duration> = const { Cell::new(PATIENCE) };
}

/// Does something with less patience for the locks of others.
pub(super) fn with_patience<T>(patience: Duration, what: impl FnOnce() -> T) -> T {
    THIS_PATIENCE.set(patience);
    let done = what();
    THIS_PATIENCE.set(PATIENCE);
    done
}

/// Makes a connection wait for the locks of others.
fn wait_for_locks(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_a_little))
}

/// Waits for a lock: often at first, and with a little chance, so that several processes do not march in step.
fn wait_a_little(times: i32) -> bool {
    let step = u64::try_from(times).unwrap_or(0);
    let chance = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::from(since.subsec_nanos()) >> 6 & 511);
    let micros = (100 * (step + 1)).min(2_000) + chance;
    std::thread::sleep(Duration::from_micros(micros));
    // About two milliseconds each: the patience in sleeps.
    u128::from(step) < THIS_PATIENCE.get().as_millis() / 2
}

fn cannot(path: &Path, why: &str) -> StoreError {
    Trouble::Open { path: path.to_owned(), why: why.to_owned() }.into()
}

fn why_not(path: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::CannotOpen) => {
            let why = match std::fs::File::open(path) {
                Ok(_) => "the journal beside it cannot be made".to_owned(),
                Err(error) => error.to_string(),
            };
            cannot(path, &why)
        }
        _ => StoreError::from(error),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Even reading needs the journal's index beside the store, and SQLite would only say that it cannot open something.
fn refuse_read_only_filesystem(path: &Path, directory: &Path) -> Result<(), StoreError> {
    match rustix::fs::statvfs(directory) {
        Ok(found) if found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) => {
            let why = format!("{} is on a filesystem that is mounted read-only", path.display());
            Err(Trouble::ReadOnly(why).into())
        }
        _ => Ok(()),
    }
}

/// Filesystems on which SQLite's locks or its shared memory do not work between machines.
fn refuse_network_filesystem(path: &Path, directory: &Path) -> Result<(), StoreError> {
    let Ok(found) = rustix::fs::statfs(directory) else { return Ok(()) };
    // The type of the number differs between targets; the low 32 bits are what the kernel documents.
    let filesystem = match u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 | 0xfe53_4d42 => "CIFS",
        0x0102_1997 => "9P",
        0x5346_414f => "AFS",
        0x00c3_6400 => "Ceph",
        _ => return Ok(()),
    };
    Err(Trouble::NetworkFilesystem { path: path.to_owned(), filesystem }.into())
}
