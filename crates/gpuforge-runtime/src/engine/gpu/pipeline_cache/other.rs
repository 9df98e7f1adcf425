//! Pipeline cache files where directories have access lists (Windows): owner and list of the directory are checked, then those of
//! every open file. A system whose owners cannot be checked has no cache: none is trusted.

use std::{
    fs::{self, File},
    io::{Read as _, Write as _},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use gpuforge_os::{files, private_dir};

use super::{CacheError, Candidate, MAX_FILE_BYTES, MAX_FILES};

/// An older temporary file was left by a process that died while writing.
const STALE: Duration = Duration::from_secs(3600);

fn io(path: &Path, error: impl ToString) -> CacheError {
    CacheError::Io { path: path.display().to_string(), error: error.to_string() }
}

/// Creates the directory if missing, and rejects one that is not private.
fn open_dir(dir: &Path) -> Result<(), CacheError> {
    if !dir.exists() {
        dir.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| io(dir, e))?;
        match private_dir::create(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(io(dir, error)),
            _ => {}
        }
    }
    private_dir::check(dir).map_err(|_| CacheError::NotOurs {
        path: dir.display().to_string(),
        why: "the directory is open to other users, or owned by one",
    })
}

pub(super) fn read_all(dir: &Path) -> Result<Vec<Candidate>, CacheError> {
    open_dir(dir)?;
    let entries = fs::read_dir(dir).map_err(|e| io(dir, e))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ours = names.filter(|n| n.starts_with("pipelines-") && n.ends_with(".bin"));
    Ok(ours.take(MAX_FILES).map(|name| (name.clone(), read_one(dir, &name))).collect())
}

fn read_one(dir: &Path, name: &str) -> Result<Vec<u8>, CacheError> {
    let not_ours = |why| CacheError::NotOurs { path: name.to_owned(), why };
    let path = dir.join(name);
    let kind = fs::symlink_metadata(&path).map_err(|e| io(&path, e))?.file_type();
    if !kind.is_file() {
        return Err(not_ours("it is not a regular file"));
    }
    let file = File::open(&path).map_err(|e| io(&path, e))?;
    // Followed through a link that appeared meanwhile, it is another file.
    if !files::same_file(&file, &path) {
        return Err(not_ours("it is not a regular file"));
    }
    private_dir::check_file(&file).map_err(not_ours)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| io(&path, e))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(not_ours("it is too large"));
    }
    Ok(bytes)
}

pub(super) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), CacheError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    open_dir(dir)?;
    sweep(dir);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = dir.join(format!("{}-{number}.tmp", std::process::id()));
    let written = File::create_new(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| files::rename_over(&temporary, &dir.join(name)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|e| io(dir, e))
}

fn sweep(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let age = entry.metadata().and_then(|m| m.modified());
        let age = age.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        let ours = entry.file_name().to_str().is_some_and(|name| name.ends_with(".tmp"));
        if ours && age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails loudly")]
    use super::*;

    #[test]
    fn files_are_read_back_replaced_and_only_from_a_private_directory() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("deep").join("pipelines");
        assert!(read_all(&dir).unwrap().is_empty(), "a missing directory is created");
        for data in [&b"one"[..], b"two"] {
            replace(&dir, "pipelines-1.bin", data).unwrap();
            let found = read_all(&dir).unwrap();
            assert_eq!(found, [("pipelines-1.bin".to_owned(), Ok(data.to_vec()))]);
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no temporary file is left");
        fs::create_dir(dir.join("pipelines-2.bin")).unwrap();
        let found = read_all(&dir).unwrap();
        assert!(found.iter().any(|(name, read)| name == "pipelines-2.bin" && read.is_err()));
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(read_all(&file).is_err());
    }
}
