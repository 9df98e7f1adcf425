//! Owner and mode 0700.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

pub(crate) fn runtime() -> PathBuf {
    std::env::temp_dir().join(format!("gpuforge-{}", user()))
}

pub(crate) fn create(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)
}

pub(crate) fn check(directory: &Path) -> Result<(), String> {
    let metadata = fs::symlink_metadata(directory).map_err(|error| error.to_string())?;
    match (metadata.is_dir(), metadata.uid() == user(), metadata.mode() & 0o077) {
        (false, ..) => Err("it is not a directory".to_owned()),
        (_, false, _) => Err("it belongs to somebody else".to_owned()),
        (_, _, 0) => Ok(()),
        _ => Err(format!("others can enter it (mode {:03o})", metadata.mode() & 0o777)),
    }
}

pub(crate) fn check_file(file: &File) -> Result<(), &'static str> {
    let metadata = file.metadata().map_err(|_| "its owner cannot be read")?;
    match (metadata.uid() == user(), metadata.mode() & 0o022) {
        (false, _) => Err("the file is owned by another user"),
        (_, 0) => Ok(()),
        _ => Err("other users may write the file"),
    }
}
