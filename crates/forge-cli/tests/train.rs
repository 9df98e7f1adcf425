//! Is `gpuforge train` handed on to the program that does it, and is it said where that is missing?
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails loudly")]

#[allow(dead_code, reason = "each test file uses its own part of this module")]
mod common;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use common::{World, run};

/// The binary in a folder where nothing is beside it, whatever else was built.
fn alone(world: &World, args: &[&str], path: &Path) -> Command {
    let own = world.path("alone");
    fs::create_dir_all(&own).unwrap();
    let program = own.join("gpuforge");
    if !program.exists() {
        let built = env!("CARGO_BIN_EXE_gpuforge");
        fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(|_| ())).unwrap();
    }
    let usual = world.gpuforge(args);
    let mut command = Command::new(program);
    command.args(args).env("PATH", path);
    for (name, value) in usual.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

#[test]
fn where_the_program_is_missing_the_next_step_is_said() {
    let world = World::new();
    for command in ["train", "evaluate", "predict"] {
        let ran = run(&mut alone(&world, &[command, "bars.csv"], Path::new("/nowhere")));
        assert_eq!(ran.code, Some(1));
        assert!(ran.stderr.contains("gpuforge-train") && ran.stderr.contains("hint:"), "{}", ran.stderr);
    }
}

#[test]
fn arguments_output_and_exit_code_are_handed_on() {
    let world = World::new();
    let program = world.path("gpuforge-train");
    fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = world.path("");
    let args = ["--json", "train", "bars.csv", "--days", "30", "--model", "mlp"];
    let ran = run(&mut alone(&world, &args, &folder));
    assert_eq!((ran.code, ran.stdout.trim()), (Some(7), "train bars.csv --days 30 --model mlp --json"));
    let help = run(&mut alone(&world, &["predict", "--help"], &folder));
    assert_eq!(help.stdout.trim(), "predict --help");
}
