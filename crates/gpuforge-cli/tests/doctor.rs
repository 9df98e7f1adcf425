//! `gpuforge doctor`: JSON, exit codes, bundle, fix scripts, no side effects.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;

#[allow(dead_code, reason = "each test file uses its own part of this module")]
mod common;
use common::{RunOutput, Sandbox, run};

fn file(root: &Path, path: &str, text: &str) {
    let at = root.join(path.trim_start_matches('/'));
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

fn program(root: &Path, path: &str, script: &str) {
    file(root, path, &format!("#!/bin/sh\n{script}\n"));
    let at = root.join(path.trim_start_matches('/'));
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A machine whose GPU is held by `driver`, and whose tools leave a mark when they are run.
fn machine(sandbox: &Sandbox, driver: &str) -> std::path::PathBuf {
    let root = sandbox.path("root");
    let at = "/sys/bus/pci/devices/0000:01:00.0";
    for (name, text) in [("class", "0x030000\n"), ("vendor", "0x10de\n"), ("device", "0x2684\n")] {
        file(&root, &format!("{at}/{name}"), text);
    }
    symlink(format!("../../../../bus/pci/drivers/{driver}"), root.join(&at[1..]).join("driver")).unwrap();
    file(&root, "/proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    file(
        &root,
        "/proc/self/status",
        "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t1000\n",
    );
    file(&root, "/etc/passwd", "mika:x:1000:1000::/home/mika:/bin/sh\n");
    file(&root, "/etc/hostname", "workbench\n");
    for directory in ["dev/shm", "tmp", "home/mika"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let mark = sandbox.path("was-run");
    for tool in ["nvidia-smi", "python3", "docker"] {
        program(&root, &format!("/usr/bin/{tool}"), &format!("echo {tool} >> '{}'", mark.display()));
    }
    root
}

/// The command, with a small environment of its own.
fn doctor(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.gpuforge(&[&["doctor", "--offline"], args].concat());
    let kept: Vec<(String, String)> = command
        .get_envs()
        .filter_map(|(k, v)| Some((k.to_str()?.to_owned(), v?.to_str()?.to_owned())))
        .collect();
    command.env_clear().envs(kept).env("HOME", "/home/mika").env("PATH", "/usr/bin").env("USER", "mika");
    command
}

fn status<'a>(document: &'a Value, id: &str) -> &'a str {
    let checks = document["checks"].as_array().unwrap();
    checks.iter().find(|c| c["id"] == id).unwrap()["status"].as_str().unwrap()
}

#[test]
fn a_broken_machine_as_json() {
    let sandbox = Sandbox::new();
    let root = machine(&sandbox, "nouveau");
    let RunOutput { code, stdout, stderr } =
        run(&mut doctor(&sandbox, &["--json", "--root", root.to_str().unwrap()]));
    assert_eq!(code, Some(1), "{stderr}");
    let document: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(status(&document, "kernel-module"), "error");
    assert_eq!(document["worst"], "error");
    assert_eq!(status(&document, "network"), "skipped");
    for check in document["checks"].as_array().unwrap() {
        for key in ["id", "status", "evidence"] {
            assert!(check[key].is_string(), "{check}");
        }
        assert!(check["fix"].is_string() || check["fix"].is_null(), "{check}");
    }
    let error: Value = serde_json::from_str(&stderr).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("kernel-module"), "{stderr}");
    assert!(!sandbox.path("was-run").exists(), "a program of a foreign root was run");
}

#[test]
fn text_fits_a_narrow_terminal() {
    let sandbox = Sandbox::new();
    let root = machine(&sandbox, "nouveau");
    let root = root.to_str().unwrap();
    let RunOutput { code, stdout, stderr } = run(doctor(&sandbox, &["--root", root]).env("COLUMNS", "44"));
    assert_eq!(code, Some(1));
    assert!(stdout.contains("error    kernel-module\n"), "{stdout}");
    assert!(stdout.contains("→ install NVIDIA's driver"), "{stdout}");
    assert!(stdout.contains("(--verbose lists them)") || stdout.contains("--verbose"), "{stdout}");
    assert!(stderr.contains("found something broken: kernel-module"), "{stderr}");
    for line in stdout.lines() {
        let words = line.split_whitespace().count();
        assert!(line.chars().count() <= 44 || words == 1, "{line:?} is too wide");
    }
    let verbose = run(&mut doctor(&sandbox, &["--verbose", "--root", root]));
    assert!(verbose.stdout.contains("Does the right kernel module hold each GPU?"), "{}", verbose.stdout);
    assert!(verbose.stdout.contains("not in a container"), "{}", verbose.stdout);
}

#[test]
fn a_bundle_is_complete_without_personal_data() {
    let sandbox = Sandbox::new();
    let root = machine(&sandbox, "nouveau");
    let bundle = sandbox.path("bundle.json");
    let args = ["--root", root.to_str().unwrap(), "--bundle", bundle.to_str().unwrap()];
    let mut command = doctor(&sandbox, &args);
    command
        .env("VIRTUAL_ENV", "/home/mika/env")
        .env("NVIDIA_VISIBLE_DEVICES", "at 192.168.7.12 on workbench");
    assert_eq!(run(&mut command).code, Some(1));
    let text = fs::read_to_string(&bundle).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(document["gpus"][0]["kernel_driver"], "nouveau");
    assert_eq!(document["report"]["worst"], "error");
    assert_eq!(document["variables"]["VIRTUAL_ENV"], "<home>/env");
    for secret in ["mika", "workbench", "192.168.7.12"] {
        assert!(!text.contains(secret), "{secret}:\n{text}");
    }
    let nowhere = sandbox.path("no/such/directory/b.json");
    let failed = run(&mut doctor(
        &sandbox,
        &["--root", root.to_str().unwrap(), "--bundle", nowhere.to_str().unwrap()],
    ));
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("cannot write"), "{}", failed.stderr);
}

#[test]
fn fix_scripts_are_offered_written_and_reverted() {
    let sandbox = Sandbox::new();
    let data = sandbox.path("data");
    let fix = |args: &[&str]| {
        let ran = run(doctor(&sandbox, &[&["--fix"], args].concat()).env("GPUFORGE_CPU_ONLY", "1"));
        assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
        ran
    };
    let offered = fix(&[]);
    assert!(offered.stdout.contains("unset GPUFORGE_CPU_ONLY"), "{}", offered.stdout);
    assert!(offered.stdout.contains("nothing was written"), "{}", offered.stdout);
    assert!(!data.join("doctor-fix.sh").exists());
    let json: Value = serde_json::from_str(&fix(&["--json"]).stdout).unwrap();
    assert!(json["fixed"]["script"].is_null(), "{json}");
    let written = fix(&["--yes"]);
    let script = data.join("doctor-fix.sh");
    assert!(written.stdout.contains("undo:"), "{}", written.stdout);
    let shell = format!(
        ". '{}'; echo \"${{GPUFORGE_CPU_ONLY-unset}}\"; . '{}'; echo \"$GPUFORGE_CPU_ONLY\"",
        script.display(),
        data.join("doctor-undo.sh").display()
    );
    let ran = run(Command::new("/bin/sh").args(["-c", &shell]).env("GPUFORGE_CPU_ONLY", "1"));
    assert_eq!(ran.stdout, "unset\n1\n", "{}", ran.stderr);
}

#[test]
fn this_machine_within_the_deadline_and_without_gpu_libraries() {
    let sandbox = Sandbox::new();
    let began = Instant::now();
    // The loader itself tells which libraries are opened.
    let ran = run(doctor(&sandbox, &["--json"]).env("LD_DEBUG", "files"));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(matches!(ran.code, Some(0 | 1)), "{}", ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(document["checks"].as_array().unwrap().len() >= 18);
    let broken = ["error", "critical"].contains(&document["worst"].as_str().unwrap());
    assert_eq!(ran.code, Some(i32::from(broken)));
    for library in ["libvulkan", "libcuda", "libamdhip", "libze_loader"] {
        let loaded = ran.stderr.lines().any(|l| l.contains("calling init") && l.contains(library));
        assert!(!loaded, "{library} was loaded");
    }
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let sandbox = Sandbox::new();
    let missing = run(&mut doctor(&sandbox, &["--root", "/no/such/root"]));
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("is not a directory"), "{}", missing.stderr);
    let alone = run(&mut doctor(&sandbox, &["--yes"]));
    assert_eq!(alone.code, Some(2), "{}", alone.stderr);
    let both = run(&mut doctor(&sandbox, &["--root", "/", "--fix"]));
    assert_eq!(both.code, Some(2), "{}", both.stderr);
}
