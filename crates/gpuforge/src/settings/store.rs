//! Atomic update of the settings file: file lock, temporary file, fsync, rename.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use gpuforge_os::files;

use super::{
    edit,
    error::{SettingLocation, SettingsError},
    file,
    table::SettingKey,
    value::SettingValue,
};

/// Lock timeout; one change takes a few milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum symlink chain, as on Linux.
const MAX_LINKS: usize = 40;

/// Sets one key in a settings file, which is created with its directory if missing. Preserves comments, order, line endings,
/// permissions and symlinks. Returns the parsed value.
///
/// On an error the file is unchanged.
pub fn set(file: &Path, name: &str, value: &str) -> Result<SettingValue, SettingsError> {
    let unknown = || SettingsError::UnknownKey { location: SettingLocation::Argument, name: name.to_owned() };
    let key = SettingKey::find(name).ok_or_else(unknown)?;
    let value = key.parse(value, SettingLocation::Argument)?;
    change(file, |text| edit::set(file, text, key, &value).map(Some))?;
    Ok(value)
}

/// Removes one key from a settings file; `false` when it was not in there.
///
/// A name that is no setting is accepted when the file has it: that is how a mistyped line is removed.
pub fn unset(file: &Path, name: &str) -> Result<bool, SettingsError> {
    let text = file::read(file)?;
    let known = SettingKey::find(name).is_some();
    let present = |text: &str| Ok(file::document(file, text)?.as_table().contains_key(name));
    if !known && !text.as_deref().map_or(Ok(false), present)? {
        return Err(SettingsError::UnknownKey { location: SettingLocation::Argument, name: name.to_owned() });
    }
    match text {
        // Nothing to remove: neither directory nor lock is created.
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
    let directory = target.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(unwritable)?;
    let _lock = lock(&target, file)?;
    let old = file::read(&target)?;
    let Some(new) = edit(old.as_deref().unwrap_or_default())? else { return Ok(false) };
    if old.as_ref() != Some(&new) {
        write(&target, directory, &new).map_err(unwritable)?;
    }
    Ok(true)
}

/// Resolves a symlink chain; the target need not exist (unlike `fs::canonicalize`).
fn follow(file: &Path) -> io::Result<PathBuf> {
    let mut path = file.to_owned();
    for _ in 0..MAX_LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Ok(path);
        }
        let next = fs::read_link(&path)?;
        path = path.parent().map_or_else(|| next.clone(), |directory| directory.join(&next));
    }
    Err(io::Error::other(format!("more than {MAX_LINKS} links in a row")))
}

/// Waits for the lock file beside the file; the lock ends when the handle is dropped, also by a crash.
///
/// The empty lock file is not deleted: two processes could then lock two files of one name.
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
            Err(TryLockError::WouldBlock) if start.elapsed() >= LOCK_TIMEOUT => {
                return Err(SettingsError::Locked { lock: path, waited: LOCK_TIMEOUT });
            }
            Err(TryLockError::WouldBlock) => thread::sleep(RETRY_INTERVAL),
        }
    }
}

/// Metadata of the file to replace; `None` if there is none. A rename would silently replace a device such as `/dev/null`, or a
/// read-only file.
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

fn write(target: &Path, directory: &Path, text: &str) -> io::Result<()> {
    let old = replaceable(target)?;

    let mut builder = tempfile::Builder::new();
    builder.prefix(".gpuforge-");
    // Temporary files are private by default; a new settings file follows the umask.
    if let Some(mode) = files::with_mode(0o666) {
        builder.permissions(mode);
    }
    let mut temporary = builder.tempfile_in(directory)?;
    temporary.write_all(text.as_bytes())?;
    if let Some(old) = old {
        temporary.as_file().set_permissions(old.permissions())?;
    }
    // Before the rename, or a power cut could leave the new name with no content.
    temporary.as_file().sync_all()?;
    let path = temporary.into_temp_path();
    files::rename_over(&path, target)?;
    // Nothing to unlink any more: the name is free for others.
    drop(path.keep());
    Ok(())
}
