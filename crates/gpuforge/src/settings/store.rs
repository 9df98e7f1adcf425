//! How is a changed setting stored? Under a lock, to a temporary name, renamed over the old file.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{
    edit,
    error::{Place, SettingsError},
    file,
    table::Key,
    value::Value,
};

/// Longest wait for another process; one change takes a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_TRIES: Duration = Duration::from_millis(2);
/// As many links in a row as Linux follows.
const LINKS: usize = 40;

/// Sets one key in a settings file, which is created with its folder when missing. Comments, order and line
/// ends stay, and so do the permissions of the file and a link in its place. Returns the value as understood.
///
/// On an error the file is as it was.
pub fn set(file: &Path, name: &str, value: &str) -> Result<Value, SettingsError> {
    let unknown = || SettingsError::UnknownKey { place: Place::Argument, name: name.to_owned() };
    let key = Key::find(name).ok_or_else(unknown)?;
    let value = key.parse(value, Place::Argument)?;
    change(file, |text| edit::set(file, text, key, &value).map(Some))?;
    Ok(value)
}

/// Removes one key from a settings file; `false` when it was not in there.
///
/// A name that is no setting is accepted when the file has it: that is how a mistyped line is removed.
pub fn unset(file: &Path, name: &str) -> Result<bool, SettingsError> {
    let text = file::read(file)?;
    let known = Key::find(name).is_some();
    let present = |text: &str| Ok(file::document(file, text)?.as_table().contains_key(name));
    if !known && !text.as_deref().map_or(Ok(false), present)? {
        return Err(SettingsError::UnknownKey { place: Place::Argument, name: name.to_owned() });
    }
    match text {
        // Nothing to remove: neither folder nor lock is made.
        None => Ok(false),
        Some(_) => change(file, |text| edit::unset(file, text, name)),
    }
}

/// Read, change, write, with no other process in between. True when the text was changed by `edit`.
fn change(
    file: &Path,
    edit: impl FnOnce(&str) -> Result<Option<String>, SettingsError>,
) -> Result<bool, SettingsError> {
    let unwritable =
        |error: io::Error| SettingsError::Unwritable { path: file.to_owned(), why: error.to_string() };
    let target = follow(file).map_err(unwritable)?;
    // Before the lock is made beside it, since that might be in /dev.
    replaceable(&target).map_err(unwritable)?;
    let folder = target.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(unwritable)?;
    let _lock = lock(&target, file)?;
    let old = file::read(&target)?;
    let Some(new) = edit(old.as_deref().unwrap_or_default())? else { return Ok(false) };
    if old.as_ref() != Some(&new) {
        write(&target, folder, &new).map_err(unwritable)?;
    }
    Ok(true)
}

/// What a chain of links ends at, whether that exists or not (`fs::canonicalize` wants it to).
fn follow(file: &Path) -> io::Result<PathBuf> {
    let mut path = file.to_owned();
    for _ in 0..LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Ok(path);
        }
        let next = fs::read_link(&path)?;
        path = path.parent().map_or_else(|| next.clone(), |folder| folder.join(&next));
    }
    Err(io::Error::other(format!("more than {LINKS} links in a row")))
}

/// Waits for the lock beside the file; it ends when the handle is dropped, also by a crash.
///
/// The lock file stays behind, empty: deleting it would let two processes hold locks on two files of one name.
fn lock(target: &Path, file: &Path) -> Result<File, SettingsError> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let path = target.with_file_name(format!(".{name}.lock"));
    let unwritable = |error: io::Error| SettingsError::Unwritable {
        path: file.to_owned(),
        why: format!("lock {}: {error}", path.display()),
    };
    let handle = File::options().create(true).truncate(false).write(true).open(&path).map_err(unwritable)?;
    let start = Instant::now();
    loop {
        match handle.try_lock() {
            Ok(()) => return Ok(handle),
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
            Err(TryLockError::WouldBlock) if start.elapsed() >= PATIENCE => {
                return Err(SettingsError::Locked { lock: path, waited: PATIENCE });
            }
            Err(TryLockError::WouldBlock) => thread::sleep(BETWEEN_TRIES),
        }
    }
}

/// The file to replace; `None` when there is none. A rename would not ask before it replaces a device such as
/// `/dev/null`, or a file that its owner protects.
fn replaceable(target: &Path) -> io::Result<Option<fs::Metadata>> {
    let old = match fs::metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    match () {
        () if !old.is_file() => Err(io::Error::other("it is not a regular file")),
        () if old.permissions().readonly() => Err(io::Error::other("it is marked read-only")),
        () => Ok(Some(old)),
    }
}

fn write(target: &Path, folder: &Path, text: &str) -> io::Result<()> {
    let old = replaceable(target)?;

    let mut builder = tempfile::Builder::new();
    builder.prefix(".gpuforge-");
    // Private is the default of temporary files; a new settings file gets what the umask leaves.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut temporary = builder.tempfile_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    if let Some(old) = old {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    // Before the rename, or a power cut could leave the new name with no content.
    temporary.as_file().sync_all()?;
    temporary.persist(target).map(drop).map_err(|error| error.error)
}
