//! Socket directory: private to the user, one socket per process, named by its pid; stale sockets are removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use gpuforge_os::{local_socket::Stream, private_dir, process::is_gone};

use super::LiveError;

/// Path of the directory: `$XDG_RUNTIME_DIR/gpuforge` if set to an absolute path, else a per-user one in the system's
/// temporary directory, or in `%LOCALAPPDATA%` on Windows. Creates nothing.
pub fn resolve(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let runtime = env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match runtime {
        Some(runtime) => runtime.join("gpuforge"),
        None => private_dir::runtime(),
    }
}

/// Creates the directory, private to the user, if missing, and rejects one that is not private.
pub fn prepare(directory: &Path) -> Result<(), LiveError> {
    match private_dir::create(directory) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(LiveError::Unsupported),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(LiveError::Io { what: "make the directory", path: directory.to_owned(), error })
        }
        _ => check_private(directory),
    }
}

/// Checks that the directory is owned by the user, closed to others, and not a symlink.
pub fn check_private(directory: &Path) -> Result<(), LiveError> {
    private_dir::check(directory).map_err(|why| LiveError::SocketDir { path: directory.to_owned(), why })
}

/// The socket of a process.
pub fn socket(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.sock"))
}

/// Publishing processes, the newest first; stale sockets are removed. A pid unknown here may belong to another container
/// that shares the directory: only a socket that refuses connections is stale.
pub fn processes(directory: &Path) -> Vec<u32> {
    if check_private(directory).is_err() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found: Vec<(SystemTime, u32)> = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_suffix(".sock")).and_then(|n| n.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        if is_gone(pid) && connect(directory, pid).is_err() {
            continue;
        }
        let since = entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((since, pid));
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, pid)| pid).collect()
}

/// Connects to a process; a socket that refuses is stale and removed.
pub(crate) fn connect(directory: &Path, pid: u32) -> Result<Stream, LiveError> {
    check_private(directory)?;
    let path = socket(directory, pid);
    Stream::connect(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            let _ = fs::remove_file(&path);
        }
        LiveError::Io { what: "connect to", path, error }
    })
}
