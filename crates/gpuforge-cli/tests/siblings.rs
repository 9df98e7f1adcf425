//! Are `gpuforge cluster`, `train`, `evaluate` and `predict` handed to the programs that do them, and is it said where one is
//! missing?
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

/// The binary in a folder of its own: beside the built one, others may lie.
fn run(folder: &Path, args: &[&str]) -> Output {
    let own = folder.join("gpuforge");
    if !own.exists() {
        let built = env!("CARGO_BIN_EXE_gpuforge");
        fs::hard_link(built, &own).or_else(|_| fs::copy(built, &own).map(|_| ())).unwrap();
    }
    let mut command = Command::new(own);
    command.args(args).env("PATH", folder.join("nothing")).env("GPUFORGE_CONFIG", folder.join("config.toml"));
    command.env_remove("GPUFORGE_MEMORY_LIMIT").output().unwrap()
}

#[test]
fn where_a_program_is_missing_the_next_step_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [
        ("cluster", "gpuforge-cluster"),
        ("train", "gpuforge-train"),
        ("evaluate", "gpuforge-train"),
        ("predict", "gpuforge-train"),
    ];
    for (command, program) in rows {
        let ran = run(folder.path(), &[command, "status"]);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{said}");
        assert!(said.contains(program) && said.contains("cargo install"), "{said}");
    }
}

#[test]
fn arguments_output_and_exit_code_are_handed_on() {
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
    let folder = tempfile::tempdir().unwrap();
    for (name, args, handed) in rows {
        let program = folder.path().join(name);
        fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let ran = run(folder.path(), args);
        assert_eq!(ran.status.code(), Some(7));
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), handed);
    }
}
