//! Temporary files of outputs: written beside the target, renamed at the end, unlinked when the process is interrupted or
//! was killed. What is left behind, and who removes it?
//!
//! ```text
//!   .NAME.gpuforge-PID-RANDOM.tmp   locked (flock) by its writer while it lives
//!     finished     keep(): renamed to its target
//!     failed       dropped: unlinked
//!     interrupted  remove_temporary_files(), which a program's signal handler calls: unlinked
//!     killed       the lock ended with the process: the next writer in the same directory unlinks it
//! ```
//! The lock and not the process id decides whether a writer lives: ids are reused, and differ between containers that share
//! a directory. Where a file system has no locks, nothing can be locked, and nothing of others is removed.

use std::{
    fs::{File, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use tempfile::TempPath;

/// Stands before the process id in every name of ours.
const MARK: &str = ".gpuforge-";
const SUFFIX: &str = ".tmp";
/// Letters of a name that tell files of one process apart.
const RANDOM: usize = 6;
/// As much of the target's name goes into ours; file systems end at 255 bytes.
const LONGEST: usize = 120;
/// Entries of a directory that are looked at for files of dead writers.
const MOST_ENTRIES: usize = 20_000;
/// A sweeper may hold a new file for a moment; the next one is then tried.
const TRIES: usize = 8;

/// Files of this process that are to go when it is interrupted.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file beside its target that takes the target's name at the end; dropped before, it is gone.
#[derive(Debug)]
pub struct TemporaryFile {
    /// Holds the lock; writes go through it or through a handle of the same.
    file: File,
    path: Option<TempPath>,
    target: PathBuf,
}

impl TemporaryFile {
    /// A new file in the directory of `target`, with the permissions that a new file has. Files of writers that died are
    /// removed from that directory first.
    ///
    /// # Errors
    /// What the system says where no file can be made there.
    pub fn beside(target: &Path) -> io::Result<TemporaryFile> {
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        sweep(directory);
        let end = name.floor_char_boundary(LONGEST);
        let short = name.get(..end).unwrap_or_default();
        let prefix = format!(".{short}{MARK}{}-", std::process::id());
        for _ in 1..TRIES {
            if let Some((file, path)) = locked(&prefix, directory)? {
                return Ok(TemporaryFile { file, path: Some(path), target: target.to_owned() });
            }
        }
        let (file, path) = create(&prefix, directory)?;
        Ok(TemporaryFile { file, path: Some(path), target: target.to_owned() })
    }

    /// Another handle of the same file.
    ///
    /// # Errors
    /// What the system says where there are no more handles.
    pub fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file the name of its target, whatever is there. All handles must have been flushed.
    ///
    /// # Errors
    /// What the system says where it cannot be renamed; the file is then gone.
    pub fn keep(mut self) -> io::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let before = path.to_path_buf();
        // Windows renames no file that is locked; elsewhere the lock ends when the name is there.
        #[cfg(windows)]
        let _ = self.file.unlock();
        let kept = path.persist(&self.target).map_err(|e| e.error);
        forget(&before);
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
            forget(&before);
        }
    }
}

/// Unlinks every temporary file of this process; says how many there were. For a signal handler's thread, just before the
/// process ends: what still writes them fails when it renames them.
pub fn remove_temporary_files() -> usize {
    let live = std::mem::take(&mut *LIVE.lock().unwrap_or_else(PoisonError::into_inner));
    live.iter().filter(|path| std::fs::remove_file(path).is_ok()).count()
}

fn forget(path: &Path) {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|live| live != path);
}

/// A new file that is in the list before anybody can interrupt.
fn create(prefix: &str, directory: &Path) -> io::Result<(File, TempPath)> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX).rand_bytes(RANDOM);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // The process's mask is applied to it, as to any new file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
    let (file, path) = builder.tempfile_in(directory)?.into_parts();
    live.push(path.to_path_buf());
    Ok((file, path))
}

/// A new file that is locked and was not swept before it was; `None` where a sweeper was faster.
fn locked(prefix: &str, directory: &Path) -> io::Result<Option<(File, TempPath)>> {
    let (file, path) = create(prefix, directory)?;
    match file.try_lock() {
        Ok(()) if same(&file, &path) => Ok(Some((file, path))),
        Ok(()) | Err(TryLockError::WouldBlock) => {
            forget(&path);
            Ok(None)
        }
        // A file system without locks: nobody can lock it, so nobody removes it.
        Err(TryLockError::Error(_)) => Ok(Some((file, path))),
    }
}

/// Is the file still the one of this name?
fn same(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (open.dev(), open.ino()) == (named.dev(), named.ino())
    }
    #[cfg(not(unix))]
    {
        open.len() == named.len()
    }
}

/// Unlinks files of writers that died without a chance to do so themselves. What cannot be removed stays: it is not ours to
/// complain about before anything is written.
fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.take(MOST_ENTRIES).flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(is_ours) && entry.file_type().is_ok_and(|kind| kind.is_file());
        if !ours {
            continue;
        }
        let Ok(file) = File::options().write(true).open(entry.path()) else { continue };
        if file.try_lock().is_ok() && same(&file, &entry.path()) {
            // Windows removes no open file that others may not share; the next writer tries again.
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
    fn only_our_own_names_are_ours() {
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
    fn a_file_takes_its_name_or_goes_and_a_dead_writer_s_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out.csv");
        let dead = folder.path().join(".out.csv.gpuforge-4000000000-abcdef.tmp");
        let foreign = folder.path().join(".out.csv.abcdef.tmp");
        std::fs::write(&dead, "left behind").unwrap();
        std::fs::write(&foreign, "of somebody else").unwrap();
        let mut first = TemporaryFile::beside(&target).unwrap();
        first.write_all(b"one").unwrap();
        assert!(!dead.exists() && foreign.exists());
        // A living writer's file stays, also for a writer of the same process.
        let second = TemporaryFile::beside(&target).unwrap();
        assert_eq!(names(folder.path()).len(), 3, "{:?}", names(folder.path()));
        drop(second);
        first.keep().unwrap();
        assert_eq!(names(folder.path()), [".out.csv.abcdef.tmp", "out.csv"]);
        assert_eq!(std::fs::read(&target).unwrap(), b"one");
    }

    #[cfg(unix)]
    #[test]
    fn links_and_directories_with_such_a_name_stay() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join(".a.gpuforge-1-abcdef.tmp");
        let directory = folder.path().join(".b.gpuforge-1-abcdef.tmp");
        std::fs::write(folder.path().join("precious"), "kept").unwrap();
        std::os::unix::fs::symlink("precious", &link).unwrap();
        std::fs::create_dir(&directory).unwrap();
        drop(TemporaryFile::beside(&folder.path().join("out")).unwrap());
        assert_eq!(
            names(folder.path()),
            [".a.gpuforge-1-abcdef.tmp", ".b.gpuforge-1-abcdef.tmp", "precious"]
        );
    }

    #[test]
    fn a_long_name_is_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join(format!("{}.csv", "ü".repeat(120)));
        TemporaryFile::beside(&target).unwrap().keep().unwrap();
        assert!(target.exists());
    }
}
