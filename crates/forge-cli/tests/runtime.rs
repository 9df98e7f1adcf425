//! Do `status` and `self-test` tell the truth?
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

mod common;

use common::{World, run};
use serde_json::Value;

#[test]
fn status_loads_nothing_and_lists_the_switches() {
    let world = World::new();
    let ran = run(world
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
    assert!(run(&mut world.gpuforge(&["status"])).ok().stdout.contains("not loaded"));
}

#[test]
fn the_quick_self_test_passes_here() {
    let world = World::new();
    let report = run(&mut world.gpuforge(&["self-test", "--json"])).json();
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
fn the_full_self_test_passes_here() {
    let world = World::new();
    let report = run(&mut world.gpuforge(&["self-test", "--full", "--json"])).json();
    assert_eq!(report["failed"], 0, "{report}");
    assert!(report["tests"].as_array().unwrap().len() >= 10);
}

#[test]
fn a_forced_fault_makes_it_fail() {
    let world = World::new();
    for check in ["processor", "recovery", "cache"] {
        let ran = run(world.gpuforge(&["self-test", "--json"]).env("GPUFORGE_SELF_TEST_FAULT", check));
        assert_eq!(ran.code, Some(1), "{check}");
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(report["failed"], 1, "{report}");
        assert!(ran.stderr.contains(check), "{}", ran.stderr);
    }
}

#[test]
fn without_a_driver_the_device_checks_are_skipped() {
    let world = World::new();
    let mut command = world.gpuforge(&["self-test", "--json"]);
    let report =
        run(command.env("VK_ICD_FILENAMES", "/nonexistent").env("VK_DRIVER_FILES", "/nonexistent")).json();
    if report["init"]["cold_ms"].is_null() {
        assert!(report["skipped"].as_u64().unwrap() >= 1 && report["failed"] == 0, "{report}");
    } else {
        println!("skipped: this machine has a device that does not come from a Vulkan driver file");
    }
}

#[test]
fn a_trace_is_written_where_the_variable_says() {
    let world = World::new();
    let file = world.path("run.trace.json");
    run(world.gpuforge(&["self-test"]).env("GPUFORGE_TRACE", &file)).ok();
    let trace: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let names: Vec<&str> =
        trace["traceEvents"].as_array().unwrap().iter().filter_map(|e| e["name"].as_str()).collect();
    assert!(names.contains(&"piece"), "{names:?}");
    let blocked = run(world.gpuforge(&["status"]).env("GPUFORGE_TRACE", world.path("no/such/folder/t.json")));
    assert_eq!(blocked.code, Some(1), "{}", blocked.stderr);
}
