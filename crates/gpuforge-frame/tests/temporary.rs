//! Do temporary files go when a program asks for it? In a process of its own, since it is about all files of one.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::Write as _;

use gpuforge_frame::temporary::{TemporaryFile, remove_temporary_files};

#[test]
fn all_files_of_the_process_go_and_finished_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    TemporaryFile::beside(&path("done")).unwrap().keep().unwrap();
    let mut writing = TemporaryFile::beside(&path("a")).unwrap();
    let other = TemporaryFile::beside(&path("b")).unwrap();
    assert_eq!(count(), 3);
    assert_eq!(remove_temporary_files(), 2);
    assert_eq!(count(), 1);
    // Whoever still writes learns it at the end.
    writing.write_all(b"lost").unwrap();
    assert!(writing.keep().is_err());
    drop(other);
    assert_eq!((remove_temporary_files(), count()), (0, 1));
}
