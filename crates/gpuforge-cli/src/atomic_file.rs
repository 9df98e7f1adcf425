//! Atomic file writes: a temporary file in the same directory, then a rename, so that an old file survives a failure.

use std::{io::Write as _, path::Path};

use anyhow::{Context as _, Result};
use gpuforge::frame::temp_file::TemporaryFile;

use crate::error::Hinted;

/// Directory of a file that is to be written; an error with a hint if it does not exist.
pub(crate) fn directory_of(path: &Path) -> Result<&Path> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if directory.is_dir() {
        return Ok(directory);
    }
    let what = format!("cannot write {}: there is no directory {}", path.display(), directory.display());
    Err(Hinted::new(what, "make it first, or give -o another name").into())
}

/// Writes the whole file or nothing.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    directory_of(path)?;
    let failed = || format!("cannot write {}", path.display());
    let mut file = TemporaryFile::beside(path).with_context(failed)?;
    file.write_all(bytes).and_then(|()| file.flush()).with_context(failed)?;
    file.persist().with_context(failed)
}
