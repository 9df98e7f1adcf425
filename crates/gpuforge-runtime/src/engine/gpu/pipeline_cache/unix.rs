//! Pipeline cache files on Unix: every check is made on the open file descriptor (no TOCTOU race between check and read).

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt as _,
    },
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

use super::{CacheError, Candidate, MAX_FILE_BYTES, MAX_FILES};

/// An older temporary file was left by a process that died while writing.
const STALE_SECONDS: i64 = 3600;

fn io(path: &Path, error: impl ToString) -> CacheError {
    CacheError::Io { path: path.display().to_string(), error: error.to_string() }
}

fn owned_by_us(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw()
}

fn open_dir(dir: &Path) -> Result<OwnedFd, CacheError> {
    let not_ours = |why| CacheError::NotOurs { path: dir.display().to_string(), why };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| io(dir, e))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| io(dir, e))?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| io(dir, e))?;
    if !owned_by_us(&stat) {
        return Err(not_ours("the directory is owned by another user"));
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(Mode::RWXG | Mode::RWXO) {
        return Err(not_ours("the directory is open to other users"));
    }
    Ok(fd)
}

pub(super) fn read_all(dir: &Path) -> Result<Vec<Candidate>, CacheError> {
    let fd = open_dir(dir)?;
    let entries = Dir::read_from(&fd).map_err(|e| io(dir, e))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str().ok().map(str::to_owned));
    let ours = names.filter(|n| n.starts_with("pipelines-") && n.ends_with(".bin"));
    Ok(ours.take(MAX_FILES).map(|name| (name.clone(), read_one(&fd, &name))).collect())
}

fn read_one(dir: impl AsFd, name: &str) -> Result<Vec<u8>, CacheError> {
    let not_ours = |why| CacheError::NotOurs { path: name.to_owned(), why };
    // Without NONBLOCK, opening a FIFO would block until its other end is opened.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::LOOP => not_ours("the file is a symbolic link"),
        other => io(Path::new(name), other),
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| io(Path::new(name), e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_ours("it is not a regular file"));
    }
    if !owned_by_us(&stat) {
        return Err(not_ours("the file is owned by another user"));
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH) {
        return Err(not_ours("other users may write the file"));
    }
    let mut bytes = Vec::new();
    File::from(fd).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| io(Path::new(name), e))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(not_ours("it is too large"));
    }
    Ok(bytes)
}

pub(super) fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), CacheError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let fd = open_dir(dir)?;
    sweep(&fd);
    let temporary = format!("{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(&fd, &temporary, flags, Mode::RUSR | Mode::WUSR);
    let written = made.map_err(|e| io(dir, e)).and_then(|file| {
        File::from(file).write_all(bytes).map_err(|e| io(dir, e))?;
        rustix::fs::renameat(&fd, &temporary, &fd, name).map_err(|e| io(dir, e))
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&fd, &temporary, AtFlags::empty());
    }
    written
}

fn sweep(dir: &OwnedFd) {
    let Ok(entries) = Dir::read_from(dir) else { return };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX));
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let stale = name.to_bytes().ends_with(b".tmp")
            && rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|s| now - s.st_mtime > STALE_SECONDS);
        if stale {
            let _ = rustix::fs::unlinkat(dir, name, AtFlags::empty());
        }
    }
}
