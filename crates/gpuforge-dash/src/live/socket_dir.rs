//! Socket directory: private to the user (mode 0700), one socket per process, named by its pid; stale sockets are removed.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{LiveError, socket as unix_socket};

/// Path of the directory: `$XDG_RUNTIME_DIR/gpuforge` if set to an absolute path, else a per-user one in the system's
/// temporary directory. Creates nothing.
pub fn resolve(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let runtime = env("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    match runtime {
        Some(runtime) => runtime.join("gpuforge"),
        None => std::env::temp_dir().join(format!("gpuforge-{}", user())),
    }
}

#[cfg(unix)]
fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

#[cfg(not(unix))]
fn user() -> u32 {
    0
}

/// Creates the directory with mode 0700 if missing, and rejects one that is not private.
pub fn prepare(directory: &Path) -> Result<(), LiveError> {
    if cfg!(not(unix)) {
        return Err(LiveError::Unsupported);
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(LiveError::Io { what: "make the directory", path: directory.to_owned(), error })
        }
        _ => check_private(directory),
    }
}

/// Checks that the directory is owned by the user, mode 0700, and not a symlink.
#[cfg(unix)]
pub fn check_private(directory: &Path) -> Result<(), LiveError> {
    use std::os::unix::fs::MetadataExt as _;
    let no = |why: String| Err(LiveError::SocketDir { path: directory.to_owned(), why });
    let metadata = match fs::symlink_metadata(directory) {
        Ok(metadata) => metadata,
        Err(error) => return no(error.to_string()),
    };
    match (metadata.is_dir(), metadata.uid() == user(), metadata.mode() & 0o077) {
        (false, ..) => no("it is not a directory".to_owned()),
        (_, false, _) => no("it belongs to somebody else".to_owned()),
        (_, _, 0) => Ok(()),
        _ => no(format!("others can enter it (mode {:03o})", metadata.mode() & 0o777)),
    }
}

/// Not supported on this platform.
#[cfg(not(unix))]
pub fn check_private(_: &Path) -> Result<(), LiveError> {
    Err(LiveError::Unsupported)
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

/// Is there certainly no process with this pid?
#[cfg(unix)]
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_gone(_: u32) -> bool {
    false
}

/// Connects to a process; a socket that refuses is stale and removed.
pub(crate) fn connect(directory: &Path, pid: u32) -> Result<unix_socket::Stream, LiveError> {
    check_private(directory)?;
    let path = socket(directory, pid);
    unix_socket::connect(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            let _ = fs::remove_file(&path);
        }
        LiveError::Io { what: "connect to", path, error }
    })
}
