//! Where are the sockets? In a folder that belongs to the user alone; one socket a process, named by its id.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{LiveError, link};

/// The folder: `$XDG_RUNTIME_DIR/gpuforge` where the variable names an absolute path, else one of the user's in the
/// system's folder for temporary files. Creates nothing.
pub fn folder(env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
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

/// Makes the folder if need be, for the owner only, and refuses one that others could have made or can enter.
pub fn prepare(folder: &Path) -> Result<(), LiveError> {
    if cfg!(not(unix)) {
        return Err(LiveError::Unsupported);
    }
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(LiveError::Io { what: "make the folder", path: folder.to_owned(), error })
        }
        _ => trusted(folder),
    }
}

/// A folder of ours that nobody else can enter; a symbolic link is none.
#[cfg(unix)]
pub fn trusted(folder: &Path) -> Result<(), LiveError> {
    use std::os::unix::fs::MetadataExt as _;
    let no = |why: String| Err(LiveError::Folder { path: folder.to_owned(), why });
    let about = match fs::symlink_metadata(folder) {
        Ok(about) => about,
        Err(error) => return no(error.to_string()),
    };
    match (about.is_dir(), about.uid() == user(), about.mode() & 0o077) {
        (false, ..) => no("it is not a folder".to_owned()),
        (_, false, _) => no("it belongs to somebody else".to_owned()),
        (_, _, 0) => Ok(()),
        _ => no(format!("others can enter it (mode {:03o})", about.mode() & 0o777)),
    }
}

/// There is no such folder here.
#[cfg(not(unix))]
pub fn trusted(_: &Path) -> Result<(), LiveError> {
    Err(LiveError::Unsupported)
}

/// The socket of a process.
pub fn socket(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}.sock"))
}

/// Processes that publish, the newest first. Sockets that nobody answers at are removed. A number that no process has
/// here may belong to one in another container that shares the folder: only a socket that refuses is a leftover.
pub fn processes(folder: &Path) -> Vec<u32> {
    if trusted(folder).is_err() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<(SystemTime, u32)> = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_suffix(".sock")).and_then(|n| n.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        if is_gone(pid) && connect(folder, pid).is_err() {
            continue;
        }
        let since = entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((since, pid));
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, pid)| pid).collect()
}

/// Is there certainly no process of that number?
#[cfg(unix)]
fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_gone(_: u32) -> bool {
    false
}

/// Connects to a process; a socket that refuses is left over from an earlier process of that number, and removed.
pub(crate) fn connect(folder: &Path, pid: u32) -> Result<link::Stream, LiveError> {
    trusted(folder)?;
    let path = socket(folder, pid);
    link::connect(&path).map_err(|error| {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            let _ = fs::remove_file(&path);
        }
        LiveError::Io { what: "connect to", path, error }
    })
}
