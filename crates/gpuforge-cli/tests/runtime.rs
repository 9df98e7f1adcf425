//! `gpuforge status` and `self-test`: components, switches, memory limit, injected faults.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

mod common;

use common::{Sandbox, run};
use gpuforge_testkit::adapter;
use serde_json::Value;

#[test]
fn status_loads_nothing_and_lists_the_switches() {
    let sandbox = Sandbox::new();
    let ran = run(sandbox
        .gpuforge(&["status", "--json"])
        .env("LD_DEBUG", "files")
        .env("GPUFORGE_MEMORY_LIMIT", "1GiB"))
    .ok();
    assert!(!ran.stderr.contains("libvulkan"), "a status must not load a driver");
    let status: Value = serde_json::from_str(&ran.stdout).unwrap();
    let parts = status["components"].as_array().unwrap();
    assert!(parts.len() >= 3);
    for part in parts {
        for field in ["name", "loaded", "load_ms", "access_count", "depends_on"] {
            assert!(part.get(field).is_some(), "{field} is missing in {part}");
        }
        assert_eq!(part["loaded"], false, "{part}");
    }
    let limit =
        status["switches"].as_array().unwrap().iter().find(|s| s["variable"] == "GPUFORGE_MEMORY_LIMIT");
    assert_eq!(limit.unwrap()["value"], "1GiB");
    assert!(run(&mut sandbox.gpuforge(&["status"])).ok().stdout.contains("not loaded"));
}

#[test]
fn status_says_whether_the_jit_works() {
    let sandbox = Sandbox::new();
    let jit = |switch: &str| {
        let status = run(sandbox.gpuforge(&["status", "--json"]).env("GPUFORGE_JIT", switch)).json();
        status["jit"].clone()
    };
    let (on, off) = (jit("on"), jit("off"));
    assert_eq!((&on["switch"], &on["fallbacks"]), (&"on".into(), &0.into()), "{on}");
    let backend = on["simd"] != "scalar" && cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    assert_eq!(on["loops"].as_u64().unwrap() > 0, backend, "{on}");
    assert_eq!(off["loops"], 0);
    assert!(off["reasons"].to_string().contains("GPUFORGE_JIT=off"), "{off}");
    let text = run(sandbox.gpuforge(&["status"]).env("GPUFORGE_JIT", "nonsense")).ok().stdout;
    assert!(text.contains("none of off, on, require"), "{text}");
}

#[test]
fn the_quick_self_test_passes() {
    let sandbox = Sandbox::new();
    let report = run(&mut sandbox.gpuforge(&["self-test", "--json"])).json();
    for field in ["cold_ms", "warm_ms", "min_ms", "max_ms", "n", "target_ms"] {
        assert!(report["init"].get(field).is_some(), "{field}");
    }
    assert_eq!(report["failed"], 0, "{report}");
    for test in report["tests"].as_array().unwrap() {
        for field in ["name", "ok", "ms", "detail"] {
            assert!(test.get(field).is_some(), "{field}");
        }
    }
}

#[test]
fn the_full_self_test_passes() {
    let sandbox = Sandbox::new();
    let report = run(&mut sandbox.gpuforge(&["self-test", "--full", "--json"])).json();
    assert_eq!(report["failed"], 0, "{report}");
    assert!(report["tests"].as_array().unwrap().len() >= 10);
}

#[test]
fn an_injected_fault_fails_the_self_test() {
    let sandbox = Sandbox::new();
    for check in ["processor", "recovery", "cache"] {
        let ran = run(sandbox.gpuforge(&["self-test", "--json"]).env("GPUFORGE_SELF_TEST_FAULT", check));
        assert_eq!(ran.code, Some(1), "{check}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["failed"], 1, "{report}");
        assert!(ran.stderr.contains(check), "{}", ran.stderr);
    }
}

#[test]
fn without_a_driver_the_device_checks_are_skipped() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.gpuforge(&["self-test", "--json"]);
    let report =
        run(command.env("VK_ICD_FILENAMES", "/nonexistent").env("VK_DRIVER_FILES", "/nonexistent")).json();
    if report["init"]["cold_ms"].is_null() {
        assert!(report["skipped"].as_u64().unwrap() >= 1 && report["failed"] == 0, "{report}");
    } else {
        println!("skipped: this machine has a device that does not come from a Vulkan driver file");
    }
}

#[test]
fn gpuforge_trace_writes_a_trace() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("run.trace.json");
    run(sandbox.gpuforge(&["self-test"]).env("GPUFORGE_TRACE", &file)).ok();
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let names: Vec<&str> =
        trace["traceEvents"].as_array().unwrap().iter().filter_map(|e| e["name"].as_str()).collect();
    assert!(names.contains(&"piece"), "{names:?}");
    let blocked =
        run(sandbox.gpuforge(&["status"]).env("GPUFORGE_TRACE", sandbox.path("no/such/directory/t.json")));
    assert_eq!(blocked.code, Some(1), "{}", blocked.stderr);
}

/// The memory limit that a status reports: bytes and origin.
fn limit(sandbox: &Sandbox, args: &[&str], vars: &[(&str, &str)]) -> (Option<u64>, Option<String>) {
    let status = run(sandbox.gpuforge(args).envs(vars.iter().copied())).json();
    let limit = &status["memory_limit"];
    (limit["bytes"].as_u64(), limit["origin"].as_str().map(str::to_owned))
}

#[test]
fn memory_limit_flag_overrides_settings() {
    let sandbox = Sandbox::new();
    let of = |bytes: u64, origin: &str| (Some(bytes << 20), Some(origin.to_owned()));
    let variable = [("GPUFORGE_MEMORY_LIMIT", "300MiB")];
    assert_eq!(limit(&sandbox, &["status", "--json"], &[]), (None, None));
    let file = sandbox.path("config.toml");
    std::fs::write(&file, "memory_limit = \"200MiB\"\n").unwrap();
    assert_eq!(limit(&sandbox, &["status", "--json"], &[]), of(200, file.to_str().unwrap()));
    assert_eq!(limit(&sandbox, &["status", "--json"], &variable), of(300, "GPUFORGE_MEMORY_LIMIT"));
    for args in [
        ["--memory-limit", "100MiB", "status", "--json"],
        ["status", "--json", "--memory-limit", "100MiB"],
        ["status", "--json", "--memory-limit", "100 MiB"],
    ] {
        assert_eq!(limit(&sandbox, &args, &variable), of(100, "flag"), "{args:?}");
    }
    let none = ["--memory-limit", "none", "status", "--json"];
    assert_eq!(limit(&sandbox, &none, &variable), (None, None), "none lifts what the others set");
    let text = run(&mut sandbox.gpuforge(&["status", "--memory-limit=100MiB"])).ok().stdout;
    assert!(text.contains("memory limit 100 MiB"), "{text}");
    let list = run(&mut sandbox.gpuforge(&["--memory-limit", "1GiB", "config", "get", "memory_limit"])).ok();
    assert_eq!(list.stdout, "1GiB\n");
}

#[test]
fn an_invalid_memory_limit_is_wrong_usage() {
    let sandbox = Sandbox::new();
    for (args, said) in [
        (&["--memory-limit", "lots", "status"][..], "a size such as 8GiB"),
        (&["self-test", "--memory-limit=-5"], "-5"),
        (&["status", "--memory-limit", "8parsecs"], "8parsecs"),
        (&["status", "--memory-limit"], "--memory-limit"),
    ] {
        let ran = run(&mut sandbox.gpuforge(args));
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains("--memory-limit") && ran.stderr.contains(said), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
}

#[test]
fn status_load_shows_the_device_within_the_memory_limit() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.gpuforge(&["--memory-limit", "96MiB", "status", "--load", "--json"]);
    let status = run(command.env("GPUFORGE_DEVICE", "0")).json();
    let device = &status["device"];
    if adapter::or_skip(device.as_object().ok_or(&status)).is_none() {
        return;
    }
    let bytes = |value: &Value| value.as_u64().unwrap();
    let budget = &device["memory"]["budget"];
    assert_eq!(bytes(&budget["bytes"]) + bytes(&device["reserved"]), 96 << 20, "{device}");
    assert_eq!(device["memory"]["limit"]["limit"], budget["bytes"]);
    assert_eq!(device["init"]["start"], "cold", "the first of its process: {device}");
    assert!(device["init"]["phases"].as_array().unwrap().len() >= 3 && device["init"]["overlap"].is_f64());
    let mut command = sandbox.gpuforge(&["status", "--load", "--verbose"]);
    let text = run(command.env("GPUFORGE_DEVICE", "0").env("COLUMNS", "60")).ok().stdout;
    assert!(
        text.contains("opened cold in ") && text.contains("overlap") && text.contains("adapter"),
        "{text}"
    );
    assert!(text.contains("may use ") && text.contains("staging"), "{text}");
}

#[test]
fn the_self_test_stays_within_the_memory_limit() {
    let sandbox = Sandbox::new();
    let detail = |report: &Value, name: &str| {
        let tests = report["tests"].as_array().unwrap();
        tests.iter().find(|t| t["name"] == name).unwrap()["detail"].as_str().unwrap().to_owned()
    };
    let report =
        run(&mut sandbox.gpuforge(&["self-test", "--full", "--json", "--memory-limit", "16MiB"])).json();
    assert_eq!((&report["failed"], &report["memory_limit"]), (&0.into(), &(16 << 20).into()), "{report}");
    if adapter::or_skip(report["init"]["cold_ms"].as_f64().ok_or(&report)).is_none() {
        return;
    }
    assert!(detail(&report, "device").contains("within 16"), "{report}");
    assert!(detail(&report, "transfers").starts_with("4"), "a quarter of the limit: {report}");
    let report = run(&mut sandbox.gpuforge(&["self-test", "--json", "--memory-limit", "1MiB"])).json();
    assert_eq!(report["failed"], 0, "{report}");
    assert!(
        report["init"]["cold_ms"].is_null() && detail(&report, "device").contains("memory limit"),
        "{report}"
    );
}
