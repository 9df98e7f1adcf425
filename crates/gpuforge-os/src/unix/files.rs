//! Files by device and inode, modes, `statvfs`.

use std::{
    fs::{File, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use crate::files::DiskSpace;

pub(crate) fn same_file(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), std::fs::symlink_metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

#[allow(clippy::unnecessary_wraps, reason = "other systems have no mode")]
pub(crate) fn with_mode(mode: u32) -> Option<Permissions> {
    Some(Permissions::from_mode(mode))
}

pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

pub(crate) fn release_before_rename(_: &File) {}

pub(crate) fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

pub(crate) fn disk_space(directory: &Path) -> Option<DiskSpace> {
    let stat = rustix::fs::statvfs(directory).ok()?;
    let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
    let bytes = |blocks: u64| blocks.saturating_mul(unit);
    Some(DiskSpace { total: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
}
