//! Identity, permissions and disk space of files.

use std::{
    fs::{File, Permissions},
    io,
    path::Path,
};

use crate::sys;

/// Disk space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes it holds.
    pub total: u64,
    /// Bytes that this user may still write.
    pub free: u64,
}

/// Does the path still name this open file? False if either cannot be asked. A symbolic link is not followed.
pub fn same_file(file: &File, path: &Path) -> bool {
    sys::files::same_file(file, path)
}

/// Permissions of a mode such as `0o644`; `None` where files have no mode and a new one inherits from its directory.
pub fn with_mode(mode: u32) -> Option<Permissions> {
    sys::files::with_mode(mode)
}

/// Can the file be started as a program: a regular file, executable where there is such a bit?
pub fn is_executable(path: &Path) -> bool {
    sys::files::is_executable(path)
}

/// To be called before an open, locked file is renamed: Windows does not rename it while it is locked. Elsewhere the lock is
/// held until the rename is done.
pub fn release_before_rename(file: &File) {
    sys::files::release_before_rename(file);
}

/// Renames a file over another in one step: who has the old one open reads on.
///
/// On Windows a program that opens a file without allowing its deletion (a virus scanner, an editor) makes the rename fail
/// while it looks; such failures are retried for two seconds.
///
/// # Errors
/// The rename failed; both files are as before.
pub fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    sys::files::rename_over(from, to)
}

/// Disk space of the file system of a directory.
pub fn disk_space(directory: &Path) -> Option<DiskSpace> {
    sys::files::disk_space(directory)
}
