//! Temp file with atomic rename: written beside the target, renamed at the end, unlinked after signals and crashes.
//!
//! ```text
//!   .NAME.gpuforge-PID-RANDOM.tmp   locked (flock) by its writer while it lives
//!     finished     persist(): renamed to its target
//!     failed       dropped: unlinked
//!     interrupted  remove_temporary_files(), called by the signal handler: unlinked
//!     killed       the lock was released with the process: the next writer in the same directory unlinks it
//! ```
//! Liveness is decided by the lock, not the process id: ids are reused, and differ between containers that share a
//! directory. On a file system without locks nothing of other processes is removed.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use gpuforge_os::files;
use tempfile::TempPath;

/// Precedes the process id in our file names.
const MARK: &str = ".gpuforge-";
const SUFFIX: &str = ".tmp";
/// Random characters in a name.
const RANDOM: usize = 6;
/// Bytes of the target's name used in ours; file systems allow 255.
const MAX_NAME: usize = 120;
/// Maximum directory entries scanned for stale files.
const MAX_ENTRIES: usize = 20_000;
/// Retries when a concurrent sweep locks the new file first.
const TRIES: usize = 8;

/// Temp files of this process, unlinked on interruption.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temp file beside its target; [`TemporaryFile::persist`] renames it, dropping unlinks it.
#[derive(Debug)]
pub struct TemporaryFile {
    /// Holds the lock.
    file: File,
    path: Option<TempPath>,
    target: PathBuf,
}

impl TemporaryFile {
    /// Creates a temp file in the directory of `target`, with default permissions, after removing stale ones there.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn beside(target: &Path) -> io::Result<TemporaryFile> {
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        sweep(directory);
        let end = name.floor_char_boundary(MAX_NAME);
        let short = name.get(..end).unwrap_or_default();
        let prefix = format!(".{short}{MARK}{}-", std::process::id());
        for _ in 1..TRIES {
            if let Some((file, path)) = create_locked(&prefix, directory)? {
                return Ok(TemporaryFile { file, path: Some(path), target: target.to_owned() });
            }
        }
        let (file, path) = create(&prefix, directory)?;
        Ok(TemporaryFile { file, path: Some(path), target: target.to_owned() })
    }

    /// Another handle of the same file.
    ///
    /// # Errors
    /// Out of file descriptors.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Renames the file to its target, replacing it. All handles must have been flushed.
    ///
    /// # Errors
    /// The rename failed; the file is then unlinked.
    pub fn persist(mut self) -> io::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let before = path.to_path_buf();
        files::release_before_rename(&self.file);
        let kept = files::rename_over(&path, &self.target);
        match &kept {
            // Nothing to unlink any more: the name is free for others.
            Ok(()) => drop(path.keep()),
            Err(_) => drop(path),
        }
        deregister(&before);
        kept
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            let before = path.to_path_buf();
            drop(path);
            deregister(&before);
        }
    }
}

/// Unlinks every temp file of this process; returns their number. For a signal handling thread, just before exit: writers
/// still running fail at their rename.
pub fn remove_temporary_files() -> usize {
    let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
    live.iter().filter(|path| std::fs::remove_file(path).is_ok()).count()
}

fn deregister(path: &Path) {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|live| live != path);
}

/// Creates a file and registers it under one lock, so that no interruption misses it.
fn create(prefix: &str, directory: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX).rand_bytes(RANDOM);
    if let Some(mode) = files::with_mode(0o666) {
        // The umask applies, as to any new file.
        builder.permissions(mode);
    }
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let (file, path) = builder.tempfile_in(directory)?.into_parts();
    live.push(path.to_path_buf());
    Ok((file, path))
}

/// Creates and locks a file; `None` where a concurrent sweep took it first.
fn create_locked(prefix: &str, directory: &Path) -> io::Result<Option<(File, TempPath)>> {
    let (file, path) = create(prefix, directory)?;
    match file.try_lock() {
        Ok(()) if files::same_file(&file, &path) => Ok(Some((file, path))),
        Ok(()) | Err(TryLockError::WouldBlock) => {
            deregister(&path);
            Ok(None)
        }
        // A file system without locks: no sweep can lock it, so none removes it.
        Err(TryLockError::Error(_)) => Ok(Some((file, path))),
    }
}

/// Unlinks stale files of dead writers; failures are ignored.
fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.take(MAX_ENTRIES).flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(is_ours) && entry.file_type().is_ok_and(|kind| kind.is_file());
        if !ours {
            continue;
        }
        let Ok(file) = File::options().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() && files::same_file(&file, &entry.path()) {
            // Windows may refuse to remove an open file; the next writer retries.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// `.NAME.gpuforge-PID-RANDOM.tmp`; pure.
fn is_ours(name: &str) -> bool {
    let middle =
        name.strip_prefix('.').and_then(|n| n.strip_suffix(SUFFIX)).and_then(|n| n.rsplit_once(MARK));
    let Some((pid, random)) = middle.and_then(|(_, id)| id.split_once('-')) else { return false };
    pid.parse::<u32>().is_ok() && random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_our_names_match() {
        for ours in [
            ".out.csv.gpuforge-17-aB3xY9.tmp",
            "..gpuforge-1-000000.tmp",
            ".a.gpuforge-1-x.gpuforge-2-abcdef.tmp",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "out.csv.gpuforge-17-aB3xY9.tmp",
            ".out.csv.gpuforge-17-aB3xY9",
            ".out.csv.gpuforge-x-aB3xY9.tmp",
            ".out.csv.gpuforge-17-aB3xY.tmp",
            ".out.csv.gpuforge-17-aB3_Y9.tmp",
            ".out.csv.aB3xY9.tmp",
            ".gpuforge-17-aB3xY9",
            "",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn persist_renames_drop_unlinks_and_stale_files_are_swept() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("out.csv");
        let dead = directory.path().join(".out.csv.gpuforge-4000000000-abcdef.tmp");
        let foreign = directory.path().join(".out.csv.abcdef.tmp");
        std::fs::write(&dead, "left behind").unwrap();
        std::fs::write(&foreign, "of somebody else").unwrap();
        let mut first = TemporaryFile::beside(&target).unwrap();
        first.write_all(b"one").unwrap();
        assert!(!dead.exists() && foreign.exists());
        // A living writer's file stays, also for a writer of the same process.
        let second = TemporaryFile::beside(&target).unwrap();
        assert_eq!(names(directory.path()).len(), 3, "{:?}", names(directory.path()));
        drop(second);
        first.persist().unwrap();
        assert_eq!(names(directory.path()), [".out.csv.abcdef.tmp", "out.csv"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"one");
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_and_directories_are_not_swept() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join(".a.gpuforge-1-abcdef.tmp");
        let subdirectory = directory.path().join(".b.gpuforge-1-abcdef.tmp");
        std::fs::write(directory.path().join("precious"), "kept").unwrap();
        std::os::unix::fs::symlink("precious", &link).unwrap();
        std::fs::create_dir(&subdirectory).unwrap();
        drop(TemporaryFile::beside(&directory.path().join("out")).unwrap());
        assert_eq!(
            names(directory.path()),
            [".a.gpuforge-1-abcdef.tmp", ".b.gpuforge-1-abcdef.tmp", "precious"]
        );
    }

    #[test]
    fn long_target_names_are_truncated() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join(format!("{}.csv", "ü".repeat(120)));
        TemporaryFile::beside(&target).unwrap().persist().unwrap();
        assert!(target.exists());
    }
}
