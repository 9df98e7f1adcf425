//! `gpuforge explain`: logs from files and pipes, text and JSON, fixes and undo.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use common::{RunOutput, Sandbox, run};

const LOG: &str =
    "step 1\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n";

/// The binary without an active Python environment.
fn explain(sandbox: &Sandbox, args: &[&str]) -> Command {
    let mut command = sandbox.gpuforge(&[&["explain"], args].concat());
    command.env_remove("VIRTUAL_ENV").env_remove("CONDA_PREFIX").env_remove("LD_LIBRARY_PATH");
    command
}

fn piped(mut command: Command, log: &[u8]) -> RunOutput {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that exited early has closed its pipe.
    let _ = child.stdin.take().unwrap().write_all(log);
    let out = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    RunOutput { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}

fn log(sandbox: &Sandbox, text: &str) -> String {
    let path = sandbox.path("run.log");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn file_and_pipe_give_the_same_output() {
    let sandbox = Sandbox::new();
    let json = run(&mut explain(&sandbox, &[&log(&sandbox, LOG), "--json"])).json();
    assert_eq!(json["root"]["id"], "P01");
    assert_eq!(json["unknown"], false);
    assert!(json["root"]["evidence"].as_str().unwrap().starts_with("RuntimeError: CUDA error"));
    assert!(json["root"]["steps"].as_array().unwrap().len() >= 2);
    for args in [&["--json"][..], &["-", "--json"]] {
        assert_eq!(piped(explain(&sandbox, args), LOG.as_bytes()).json(), json);
    }
    let text = run(&mut explain(&sandbox, &[&log(&sandbox, LOG)])).ok().stdout;
    for part in ["error P01", "line 2: RuntimeError", "% sure", "What to do", "1. "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let verbose = run(&mut explain(&sandbox, &[&log(&sandbox, LOG), "--json", "-v"])).json();
    assert_eq!(verbose["root"]["line"], 2);
    assert!(verbose["root"]["how"].as_array().is_some_and(|how| !how.is_empty()));
}

#[test]
fn clean_unknown_and_empty_logs_differ() {
    let sandbox = Sandbox::new();
    assert!(piped(explain(&sandbox, &[]), b"all went well\n").ok().stdout.contains("nothing wrong found"));
    assert!(piped(explain(&sandbox, &[]), b"").ok().stdout.contains("the log is empty"));
    let unknown = piped(explain(&sandbox, &[]), b"Segmentation fault (core dumped)\n").ok().stdout;
    assert!(unknown.contains("no known cause") && unknown.contains("What to collect next"), "{unknown}");
    let garbage: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert!(piped(explain(&sandbox, &["--json"]), &garbage).json()["root"].is_null());
}

#[test]
fn an_unreadable_log_is_named() {
    let sandbox = Sandbox::new();
    for name in ["absent.log", ""] {
        let path = sandbox.path(name);
        let ran = run(&mut explain(&sandbox, &[path.to_str().unwrap()]));
        assert!(ran.code == Some(1) && ran.stderr.contains("cannot read"), "{}", ran.stderr);
    }
}

#[test]
fn an_invalid_user_table_falls_back_to_the_embedded_one() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("data")).unwrap();
    fs::write(sandbox.path("data/errors.toml"), "version = 1\n[[pattern]]\nid = 7\n").unwrap();
    let ran = run(&mut explain(&sandbox, &[&log(&sandbox, LOG), "--json"]));
    assert!(ran.stderr.contains("errors.toml:3:6"), "{}", ran.stderr);
    assert_eq!(ran.json()["root"]["id"], "P01");
}

#[test]
#[cfg(unix)]
fn a_fix_is_shown_applied_and_undone() {
    let sandbox = Sandbox::new();
    let file = log(
        &sandbox,
        "libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1, version libnvJitLink.so.12",
    );
    let none = run(&mut explain(&sandbox, &[&file, "--fix", "--yes"]));
    assert!(none.code == Some(1) && none.stderr.contains("no environment is active"), "{}", none.stderr);

    let script = sandbox.path("venv/bin/activate");
    fs::create_dir_all(script.parent().unwrap()).unwrap();
    fs::write(&script, "# activate\n").unwrap();
    let within = |args: &[&str]| {
        let mut command = explain(&sandbox, args);
        command.env("VIRTUAL_ENV", sandbox.path("venv"));
        run(&mut command)
    };
    let asked = within(&[&file, "--fix"]);
    assert!(asked.code == Some(1) && asked.stderr.contains("--yes"), "{}", asked.stderr);
    assert!(asked.stderr.contains("unset LD_LIBRARY_PATH"), "shown before it is asked: {}", asked.stderr);
    assert_eq!(fs::read_to_string(&script).unwrap(), "# activate\n");

    assert_eq!(within(&[&file, "--fix", "--yes", "--json"]).json()["root"]["id"], "P23");
    assert!(fs::read_to_string(&script).unwrap().contains("unset LD_LIBRARY_PATH"));
    within(&["--undo", "--yes"]).ok();
    assert_eq!(fs::read_to_string(&script).unwrap(), "# activate\n");
    assert!(within(&["--undo", "--yes"]).stderr.contains("nothing to undo"));
}

#[test]
#[cfg(unix)]
fn fixes_install_only_with_the_environments_python() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    let file = log(
        &sandbox,
        "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.0 as it may crash.",
    );
    let python = sandbox.path("venv/bin/python");
    fs::create_dir_all(python.parent().unwrap()).unwrap();
    fs::create_dir_all(sandbox.path("venv/lib/python3.12/site-packages/numpy-2.1.0.dist-info")).unwrap();
    fs::write(&python, format!("#!/bin/sh\necho \"$@\" >> {}\n", sandbox.path("calls").display())).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    for args in [&[file.as_str(), "--fix", "--yes"][..], &["--undo", "--yes"]] {
        let mut command = explain(&sandbox, args);
        run(command.env("VIRTUAL_ENV", sandbox.path("venv"))).ok();
    }
    let calls = fs::read_to_string(sandbox.path("calls")).unwrap();
    assert_eq!(calls, "-m pip install numpy<2\n-m pip install numpy==2.1.0\n");
}

#[test]
fn fixes_that_need_root_are_only_shown() {
    let sandbox = Sandbox::new();
    let file = log(&sandbox, "Failed to initialize NVML: Driver/library version mismatch");
    let ran = run(&mut explain(&sandbox, &[&file, "--fix", "--yes"]));
    assert!(ran.code == Some(1) && ran.stderr.contains("needs an administrator"), "{}", ran.stderr);
    assert!(ran.stdout.contains("Restart the machine"));
    assert!(!sandbox.path("data/fixes.json").exists());
}
