//! Contents by their hash, each kept once. What comes in is written to a folder of its own, made durable in one go with
//! everything else that came in, and only then named after its hash: a name among the objects is a promise.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::{SnapshotError, at, io_at};
use super::id::random_name;
use super::manifest::{Hash, hex};
use super::place::{Lock, Part, Place};

/// Files up to this size are read whole before anything is written: most are known already, and then nothing is.
const READ_WHOLE: usize = 1 << 20;
const BUFFER: usize = 256 << 10;

impl Place {
    pub(crate) fn object(&self, hash: &Hash) -> PathBuf {
        let name = hex(hash);
        self.part(Part::Objects).join(&name[..2]).join(&name[2..])
    }

    /// Whether this content is kept. Its length is looked at, too.
    pub(crate) fn has_object(&self, hash: &Hash, size: u64) -> bool {
        fs::symlink_metadata(self.object(hash)).is_ok_and(|found| found.is_file() && found.len() == size)
    }
}

/// What one creator brings in. Whatever is not published is removed at the end.
pub(crate) struct Incoming<'a> {
    place: &'a Place,
    dir: PathBuf,
    next: AtomicU64,
    arrived: Mutex<HashMap<Hash, (PathBuf, u64)>>,
}

/// What was read from a file.
pub(crate) struct Read1 {
    pub(crate) hash: Hash,
    pub(crate) bytes: u64,
}

impl<'a> Incoming<'a> {
    pub(crate) fn new(place: &'a Place, _shared: &Lock) -> Result<Incoming<'a>, SnapshotError> {
        let dir = place.part(Part::Incoming).join(random_name()?);
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(io_at("make the folder", &dir))?;
        Ok(Incoming { place, dir, next: AtomicU64::new(0), arrived: Mutex::default() })
    }

    /// Takes in the content of `file`, of which there should be `size` bytes and may be `most`.
    pub(crate) fn take(
        &self,
        file: &mut File,
        size: u64,
        most: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<Result<Read1, SnapshotError>, std::io::Error> {
        // Once for all files: clearing it for each would cost as much as reading.
        buffer.resize(READ_WHOLE + 1, 0);
        let mut filled = 0;
        if size <= READ_WHOLE as u64 {
            filled = read_up_to(file, buffer)?;
            if filled as u64 > most {
                return Ok(Err(SnapshotError::TooLarge { limit: most }));
            }
            if filled <= READ_WHOLE {
                let content = &buffer[..filled];
                let hash = *blake3::hash(content).as_bytes();
                return Ok(self.keep(hash, content).map(|()| Read1 { hash, bytes: filled as u64 }));
            }
        }
        // It is large, or it has grown while it was read: what was read so far goes first.
        self.stream(file, buffer, filled, most)
    }

    fn keep(&self, hash: Hash, content: &[u8]) -> Result<(), SnapshotError> {
        let size = content.len() as u64;
        if self.is_known(&hash, size) {
            return Ok(());
        }
        let path = self.new_name();
        let written = self.create(&path).and_then(|mut file| file.write_all(content));
        written.map_err(io_at("write", &path))?;
        self.arrive(hash, path, size);
        Ok(())
    }

    fn stream(
        &self,
        file: &mut File,
        buffer: &mut [u8],
        filled: usize,
        most: u64,
    ) -> Result<Result<Read1, SnapshotError>, std::io::Error> {
        let path = self.new_name();
        let mut target = match self.create(&path) {
            Ok(target) => target,
            Err(error) => return Ok(Err(io_at("write", &path)(error))),
        };
        let mut hasher = blake3::Hasher::new();
        let mut bytes = 0_u64;
        let mut pass_on = |chunk: &[u8]| -> Result<(), SnapshotError> {
            bytes += chunk.len() as u64;
            if bytes > most {
                return Err(SnapshotError::TooLarge { limit: most });
            }
            hasher.update(chunk);
            target.write_all(chunk).map_err(io_at("write", &path))
        };
        if let Err(error) = pass_on(&buffer[..filled]) {
            return Ok(Err(error));
        }
        loop {
            let read = match file.read(buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if let Err(error) = pass_on(&buffer[..read]) {
                return Ok(Err(error));
            }
        }
        let hash = *hasher.finalize().as_bytes();
        if self.is_known(&hash, bytes) {
            return Ok(fs::remove_file(&path)
                .map_err(io_at("remove", &path))
                .map(|()| Read1 { hash, bytes }));
        }
        self.arrive(hash, path, bytes);
        Ok(Ok(Read1 { hash, bytes }))
    }

    fn is_known(&self, hash: &Hash, size: u64) -> bool {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).contains_key(hash)
            || self.place.has_object(hash, size)
    }

    fn arrive(&self, hash: Hash, path: PathBuf, size: u64) {
        // Two threads may bring the same content: one of them is published, the other is swept with the folder.
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).insert(hash, (path, size));
    }

    fn new_name(&self) -> PathBuf {
        self.dir.join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }

    // Not readable by others even for a moment.
    #[allow(clippy::unused_self)]
    fn create(&self, path: &PathBuf) -> std::io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }

    /// Makes everything durable, then names it. Answers how many objects and bytes are new.
    pub(crate) fn publish(self) -> Result<(u64, u64), SnapshotError> {
        let arrived = std::mem::take(&mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner));
        if arrived.is_empty() {
            return Ok((0, 0));
        }
        let folder = File::open(&self.dir).map_err(io_at("open", &self.dir))?;
        // One for all of them. It also tells of writes that failed on their way to the disk.
        rustix::fs::syncfs(&folder).map_err(at("sync", &self.dir))?;
        // Folder by folder.
        let mut arrived: Vec<_> = arrived.into_iter().collect();
        arrived.sort_unstable();
        let mut bytes = 0;
        for (hash, (path, size)) in &arrived {
            let object = self.place.object(hash);
            match fs::rename(path, &object) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    let rack = object.parent().unwrap_or(&object);
                    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(rack);
                    made.map_err(io_at("make the folder", rack))?;
                    fs::rename(path, &object).map_err(io_at("name", &object))?;
                }
                done => done.map_err(io_at("name", &object))?,
            }
            bytes += size;
        }
        // The names, too, before anything relies on them.
        rustix::fs::syncfs(&folder).map_err(at("sync", &self.dir))?;
        Ok((arrived.len() as u64, bytes))
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        // What stays because of this is swept by the next that is alone here.
        let _swept_later = fs::remove_dir_all(&self.dir);
    }
}

/// Reads until the buffer is full or the file is at its end.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> Result<usize, std::io::Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Copies an object, and answers whether it is what its name says.
pub(crate) fn copy_checked(
    object: &mut File,
    target: &mut File,
    hash: &Hash,
    buffer: &mut Vec<u8>,
) -> Result<bool, std::io::Error> {
    let mut hasher = blake3::Hasher::new();
    buffer.resize(BUFFER, 0);
    loop {
        let read = match object.read(buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..read]);
        target.write_all(&buffer[..read])?;
    }
    Ok(hasher.finalize().as_bytes() == hash)
}

/// The hash of a file's content from here to its end.
pub(crate) fn hash_of(file: &mut File, buffer: &mut Vec<u8>) -> Result<Hash, std::io::Error> {
    let mut hasher = blake3::Hasher::new();
    buffer.resize(BUFFER, 0);
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok(*hasher.finalize().as_bytes()),
            Ok(read) => {
                hasher.update(&buffer[..read]);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
