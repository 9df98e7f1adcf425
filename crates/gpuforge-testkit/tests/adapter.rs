//! No adapter: a test is skipped, or fails where one is required. Each case runs in a child process, which has its own
//! environment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::{
    env, fs,
    process::{Command, Output},
};

use gpuforge_runtime::engine::gpu::{AdapterChoice, GpuOpener};
use gpuforge_testkit::adapter::{self, LOG_VARIABLE, REQUIRE_VARIABLE};

const CHILD: &str = "GPUFORGE_TEST_CHILD";

/// What the child prints when it was given an adapter.
const OPENED: &str = "opened an adapter";

/// The body of a device test; does nothing unless a test below runs it in a child process.
#[test]
#[allow(clippy::print_stdout, reason = "the parent reads it")]
fn device_test() {
    let Ok(name) = env::var(CHILD) else { return };
    let choice = if name == "best" { AdapterChoice::Best } else { AdapterChoice::Name(name) };
    // Asks twice, as tests do that compare several operations.
    for _ in 0..2 {
        let Some(_) = adapter::open_or_skip(&GpuOpener { choice: choice.clone(), ..GpuOpener::default() })
        else {
            continue;
        };
        println!("{OPENED}");
    }
}

/// Output of the child and its log.
fn child(name: &str, variables: &[(&str, &str)]) -> (Output, String) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("adapter.log");
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "device_test", "--nocapture"]).env_remove(REQUIRE_VARIABLE);
    command.env(CHILD, name).env(LOG_VARIABLE, &log).envs(variables.iter().copied());
    let output = command.output().unwrap();
    (output, fs::read_to_string(&log).unwrap_or_default())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Lines of the log without the binary's name.
fn entries(log: &str) -> Vec<(&str, &str)> {
    let fields = |line| {
        let fields: Vec<&str> = str::split(line, '\t').collect();
        match fields.as_slice() {
            [word, binary, test] if binary.starts_with("adapter") => (*word, *test),
            _ => panic!("{line:?}"),
        }
    };
    log.lines().map(fields).collect()
}

#[test]
fn without_an_adapter_a_test_is_skipped_in_one_line() {
    for required in [&[][..], &[(REQUIRE_VARIABLE, "0")]] {
        let (output, log) = child("no such adapter", required);
        let stdout = text(&output.stdout);
        assert!(output.status.success(), "{stdout}{}", text(&output.stderr));
        assert_eq!(stdout.matches("skipped: device_test (no GPU adapter)\n").count(), 1, "{stdout}");
        assert!(!stdout.contains(OPENED), "{stdout}");
        assert_eq!(entries(&log), [("skipped", "device_test")]);
    }
}

/// Fails with the reason and the next step, and counts neither as run nor as skipped.
fn check_failure((output, log): (Output, String), reason: &str) {
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(101), "{said}");
    for part in
        ["device_test: no GPU adapter", "GPUFORGE_REQUIRE_ADAPTER=1 requires one", reason, "hint: install"]
    {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert!(!said.contains("skipped:") && log.is_empty(), "{said}{log}");
}

#[test]
fn a_required_adapter_that_is_missing_fails_the_test() {
    check_failure(child("no such adapter", &[(REQUIRE_VARIABLE, "1")]), "no such adapter");
}

/// No Vulkan driver at all, as on a machine without one. Elsewhere adapters do not come from a driver file.
#[cfg(target_os = "linux")]
#[test]
fn without_a_vulkan_driver_a_required_adapter_fails_the_test() {
    let blind = [("VK_ICD_FILENAMES", "/nonexistent"), ("VK_DRIVER_FILES", "/nonexistent")];
    let (output, log) = child("best", &blind);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(entries(&log), [("skipped", "device_test")]);
    let required = [&blind[..], &[(REQUIRE_VARIABLE, "1")]].concat();
    check_failure(child("best", &required), "adapter");
}

#[test]
fn with_an_adapter_a_test_runs_and_is_logged_once() {
    let Some(_) = adapter::open_or_skip(&GpuOpener::default()) else { return };
    let (output, log) = child("best", &[(REQUIRE_VARIABLE, "1")]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches(OPENED).count(), 2);
    assert_eq!(entries(&log), [("ran", "device_test")]);
}
