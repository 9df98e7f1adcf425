//! Does `gpuforge cluster` hand over to the program beside it, and say what to do where there is none?
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

/// A copy of the binary in a folder of its own: beside the built one, others may lie.
fn run(folder: &Path, args: &[&str]) -> Output {
    let own = folder.join("gpuforge");
    if !own.exists() {
        fs::copy(env!("CARGO_BIN_EXE_gpuforge"), &own).unwrap();
    }
    let mut command = Command::new(own);
    command.args(args).env("PATH", folder.join("nothing")).env("GPUFORGE_CONFIG", folder.join("config.toml"));
    command.env_remove("GPUFORGE_MEMORY_LIMIT").output().unwrap()
}

#[test]
fn without_the_program_there_is_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), &["cluster", "status"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("gpuforge-cluster") && said.contains("cargo install"), "{said}");
}

#[test]
fn everything_after_the_word_is_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("gpuforge-cluster");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let ran =
        run(folder.path(), &["--json", "--memory-limit", "1GiB", "cluster", "sql", "SELECT 1", "--help"]);
    assert_eq!(ran.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "sql SELECT 1 --help --json --memory-limit 1GiB");
}
