//! `gpuforge cluster`, `train`, `evaluate` and `predict` run `gpuforge-cluster` and `gpuforge-train`; a missing one is an error.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

/// The binary in its own directory: the build directory may contain the external programs.
fn run(directory: &Path, args: &[&str]) -> Output {
    let own = directory.join("gpuforge");
    if !own.exists() {
        let built = env!("CARGO_BIN_EXE_gpuforge");
        fs::hard_link(built, &own).or_else(|_| fs::copy(built, &own).map(|_| ())).unwrap();
    }
    let mut command = Command::new(own);
    command
        .args(args)
        .env("PATH", directory.join("nothing"))
        .env("GPUFORGE_CONFIG", directory.join("config.toml"));
    command.env_remove("GPUFORGE_MEMORY_LIMIT").output().unwrap()
}

#[test]
fn a_missing_program_is_an_error_with_an_install_hint() {
    let directory = tempfile::tempdir().unwrap();
    let rows = [
        ("cluster", "gpuforge-cluster"),
        ("train", "gpuforge-train"),
        ("evaluate", "gpuforge-train"),
        ("predict", "gpuforge-train"),
    ];
    for (command, program) in rows {
        let ran = run(directory.path(), &[command, "status"]);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains(program) && said.contains("cargo install"), "{said}");
    }
}

#[test]
fn arguments_output_and_exit_code_are_passed_through() {
    let rows: [(&str, &[&str], &str); 3] = [
        (
            "gpuforge-cluster",
            &["--json", "--memory-limit", "1GiB", "cluster", "sql", "SELECT 1", "--help"],
            "sql SELECT 1 --help --json --memory-limit 1GiB",
        ),
        (
            "gpuforge-train",
            &["--json", "train", "bars.csv", "--days", "30", "--model", "mlp"],
            "train bars.csv --days 30 --model mlp --json",
        ),
        ("gpuforge-train", &["predict", "--help"], "predict --help"),
    ];
    let directory = tempfile::tempdir().unwrap();
    for (name, args, handed) in rows {
        let program = directory.path().join(name);
        fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let ran = run(directory.path(), args);
        assert_eq!(ran.status.code(), Some(7));
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), handed);
    }
}
