//! Private directories: what others could enter or replace is refused, not repaired.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use crate::sys;

/// Default directory of sockets: one per user, not created yet. In the system's temporary directory on Unix, where
/// `$XDG_RUNTIME_DIR` is not set; in `%LOCALAPPDATA%` on Windows.
pub fn runtime() -> PathBuf {
    sys::private_dir::runtime()
}

/// Creates one directory that only this user may enter: mode 0700, or an access list of this user and the system.
///
/// # Errors
/// It exists already, or cannot be created.
pub fn create(directory: &Path) -> io::Result<()> {
    sys::private_dir::create(directory)
}

/// Is it a directory, no symbolic link, owned by this user, and closed to others?
///
/// # Errors
/// Why not.
pub fn check(directory: &Path) -> Result<(), String> {
    sys::private_dir::check(directory)
}

/// Is an open file in such a directory owned by this user, and can nobody else write it?
///
/// # Errors
/// Why not.
pub fn check_file(file: &File) -> Result<(), &'static str> {
    sys::private_dir::check_file(file)
}
