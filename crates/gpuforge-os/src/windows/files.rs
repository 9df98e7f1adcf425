//! Files by volume and index, disk space by user.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::windows::{fs::OpenOptionsExt as _, io::AsRawHandle as _},
    path::Path,
    time::{Duration, Instant},
};

use windows_sys::Win32::{
    Foundation::{ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION},
    Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT,
        GetDiskFreeSpaceExW, GetFileInformationByHandle,
    },
};

use super::wide;
use crate::files::DiskSpace;

/// How long a rename is retried while somebody has the target open.
const RENAME_DEADLINE: Duration = Duration::from_secs(2);
const RENAME_INTERVAL: Duration = Duration::from_millis(5);

pub(crate) fn same_file(file: &File, path: &Path) -> bool {
    // No access is asked for, so that no sharing mode of somebody else forbids it; a link is opened as itself.
    let named = OpenOptions::new()
        .access_mode(0)
        .custom_flags(FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS)
        .open(path);
    let (Some(open), Some(named)) = (identity(file), named.ok().and_then(|named| identity(&named))) else {
        return false;
    };
    open == named
}

/// Volume and index of an open file.
fn identity(file: &File) -> Option<(u32, u64)> {
    let mut info = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open while `file` is borrowed; `info` is a structure that the call fills.
    let known = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut info) } != 0;
    let index = u64::from(info.nFileIndexHigh) << 32 | u64::from(info.nFileIndexLow);
    known.then_some((info.dwVolumeSerialNumber, index))
}

pub(crate) fn with_mode(_: u32) -> Option<Permissions> {
    None
}

pub(crate) fn is_executable(path: &Path) -> bool {
    path.is_file()
}

pub(crate) fn release_before_rename(file: &File) {
    // A file that was not locked (a file system without locks) needs no unlocking.
    let _ = file.unlock();
}

pub(crate) fn rename_over(from: &Path, to: &Path) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match std::fs::rename(from, to) {
            Err(error) if is_busy(&error) && !to.is_dir() && began.elapsed() < RENAME_DEADLINE => {
                std::thread::sleep(RENAME_INTERVAL);
            }
            done => return done,
        }
    }
}

/// Somebody has the file open.
fn is_busy(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(i32::cast_unsigned);
    matches!(code, Some(ERROR_ACCESS_DENIED | ERROR_SHARING_VIOLATION))
}

pub(crate) fn disk_space(directory: &Path) -> Option<DiskSpace> {
    let path = wide(directory.as_os_str());
    let (mut free, mut total) = (0, 0);
    // SAFETY: `path` ends with zero; both results are written before the call returns, the third is not asked for.
    let known =
        unsafe { GetDiskFreeSpaceExW(path.as_ptr(), &raw mut free, &raw mut total, core::ptr::null_mut()) }
            != 0;
    known.then_some(DiskSpace { total, free })
}
