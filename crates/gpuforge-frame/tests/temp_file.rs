//! Temp file cleanup on interruption. In a process of its own, since it affects all temp files of one.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;

use gpuforge_frame::temp_file::{TemporaryFile, remove_temporary_files};

#[test]
fn remove_temporary_files_keeps_persisted_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let count = || std::fs::read_dir(directory.path()).unwrap().count();
    TemporaryFile::beside(&path("done")).unwrap().persist().unwrap();
    let mut writing = TemporaryFile::beside(&path("a")).unwrap();
    let other = TemporaryFile::beside(&path("b")).unwrap();
    assert_eq!(count(), 3);
    assert_eq!(remove_temporary_files(), 2);
    assert_eq!(count(), 1);
    // Whoever still writes learns it at the end.
    writing.write_all(b"lost").unwrap();
    assert!(writing.persist().is_err());
    drop(other);
    assert_eq!((remove_temporary_files(), count()), (0, 1));
}
