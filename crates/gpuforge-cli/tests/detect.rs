//! `gpuforge detect`: JSON, cache, faulty probes and drivers, recordings, environment variables.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Sandbox, recording, run};
use serde_json::Value;

fn is_hit(inventory: &Value) -> bool {
    inventory["cache"]["hit"].as_bool().unwrap()
}

fn warns(inventory: &Value, source: &str) -> bool {
    inventory["warnings"].as_array().unwrap().iter().any(|w| w["source"] == source)
}

#[test]
fn json_has_the_documented_fields() {
    let sandbox = Sandbox::new();
    let inventory = run(&mut sandbox.gpuforge(&["detect", "--json"])).json();
    for field in ["schema", "gpus", "cpu", "best", "best_reason", "host", "overrides", "cache", "warnings"] {
        assert!(inventory.get(field).is_some(), "{field} is missing");
    }
    for gpu in inventory["gpus"].as_array().unwrap() {
        for field in [
            "vendor",
            "name",
            "memory_bytes",
            "driver_version",
            "arch",
            "bus_id",
            "type",
            "usable_for_compute",
            "score",
        ] {
            assert!(gpu.get(field).is_some(), "{field} is missing in {gpu}");
        }
        let software = gpu["type"] == "software";
        assert!(!software || gpu["usable_for_compute"] == "no");
    }
    assert!(inventory["cpu"]["available"].as_u64().unwrap() >= 1);
}

#[test]
fn the_second_run_is_a_cache_hit_and_refresh_is_not() {
    let sandbox = Sandbox::new();
    let first = run(&mut sandbox.gpuforge(&["detect", "--json"])).json();
    assert!(!is_hit(&first) && first["warnings"] == Value::Array(vec![]), "{first}");
    let second = run(&mut sandbox.gpuforge(&["detect", "--json"])).json();
    assert!(is_hit(&second) && second["cache"]["age_s"].as_f64().unwrap() < 60.0);
    assert_eq!((&first["gpus"], &first["cpu"]), (&second["gpus"], &second["cpu"]));
    assert!(!is_hit(&run(&mut sandbox.gpuforge(&["detect", "--json", "--refresh"])).json()));
    assert!(!is_hit(&run(&mut sandbox.gpuforge(&["detect", "--json", "--no-cache"])).json()));
    assert!(is_hit(&run(&mut sandbox.gpuforge(&["--json"])).json()), "the status uses the same cache");
}

#[test]
fn a_cache_hit_loads_no_gpu_library() {
    // glibc's loader lists what it loads; the check is worth something only if it can see a driver being loaded.
    let sandbox = Sandbox::new();
    let loaded = |args: &[&str]| {
        let ran = run(sandbox.gpuforge(args).env("LD_DEBUG", "files")).ok();
        ["libvulkan", "libcuda", "libnvidia-ml", "libMoltenVK"].map(|lib| ran.stderr.contains(lib))
    };
    let miss = loaded(&["detect", "--json"]);
    assert_eq!(miss, [false; 4], "the parent itself never loads one");
    let child = run(sandbox.gpuforge(&["__probe", "adapters"]).env("LD_DEBUG", "files")).ok();
    if !child.stderr.contains("libvulkan") {
        println!("skipped: this loader does not say what it loads, or there is no Vulkan");
        return;
    }
    let hit = run(sandbox.gpuforge(&["detect", "--json"]).env("LD_DEBUG", "files")).ok();
    assert!(hit.stdout.contains("\"hit\": true"));
    assert!(!hit.stderr.contains("libvulkan") && !hit.stderr.contains("libcuda"), "{}", hit.stderr);
}

/// Runs a detection with a faulty adapter probe, and checks that it costs at most its deadline and one warning.
fn check_faulty_probe(fault: &str, expected: &str) {
    let sandbox = Sandbox::new();
    let started = Instant::now();
    let mut command = sandbox.gpuforge(&["detect", "--json", "--probe-timeout", "400ms", "--timings"]);
    let inventory = run(command.env("GPUFORGE_PROBE_FAULT", format!("adapters={fault}"))).json();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let warnings = inventory["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0]["message"].as_str().unwrap().contains(expected), "{warnings:?}");
    assert!(inventory["cpu"]["logical"].as_u64().is_some(), "the rest stands");
    let again = run(&mut sandbox.gpuforge(&["detect", "--json"])).json();
    assert!(!is_hit(&again), "a failed probe must not be cached");
    assert!(std::fs::read_dir(sandbox.path("cache")).unwrap().count() == 1, "only the good answer is kept");
}

#[test]
fn a_hanging_probe_costs_its_deadline() {
    check_faulty_probe("hang", "400 ms");
}

#[test]
fn a_crashing_probe_costs_a_warning() {
    check_faulty_probe("crash", "signal");
}

#[test]
fn a_probe_that_prints_garbage_costs_a_warning() {
    check_faulty_probe("garbage", "not understood");
}

#[test]
fn a_probe_with_endless_output_is_cut_off() {
    check_faulty_probe("flood", "more than");
}

#[test]
fn a_vulkan_driver_that_crashes_on_load_crashes_only_the_probe() {
    let sandbox = Sandbox::new();
    let source = sandbox.path("driver.c");
    let library = sandbox.path("libcrash.so");
    std::fs::write(
        &source,
        "#include <stdlib.h>\n__attribute__((constructor)) void now(void) { abort(); }\n",
    )
    .unwrap();
    let built =
        std::process::Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    if !built.is_ok_and(|s| s.success()) {
        println!("skipped: no C compiler to make a crashing driver with");
        return;
    }
    let manifest = sandbox.path("crash.json");
    let icd = serde_json::json!({"file_format_version": "1.0.0",
        "ICD": {"library_path": library, "api_version": "1.2.0"}});
    std::fs::write(&manifest, icd.to_string()).unwrap();
    let mut command = sandbox.gpuforge(&["detect", "--json"]);
    let inventory = run(command.env("VK_ICD_FILENAMES", &manifest).env("VK_DRIVER_FILES", &manifest)).json();
    let child = run(sandbox
        .gpuforge(&["__probe", "adapters"])
        .env("VK_ICD_FILENAMES", &manifest)
        .env("VK_DRIVER_FILES", &manifest));
    if child.code == Some(0) {
        println!("skipped: there is no Vulkan loader to load the crashing driver");
        return;
    }
    assert!(warns(&inventory, "adapters"), "{inventory}");
    assert!(inventory["cpu"]["logical"].as_u64().is_some());
}

#[test]
fn a_driver_change_invalidates_the_cache() {
    let sandbox = Sandbox::new();
    run(&mut sandbox.gpuforge(&["detect"])).ok();
    let mut without = sandbox.gpuforge(&["detect", "--json"]);
    let without =
        run(without.env("VK_ICD_FILENAMES", "/nonexistent").env("VK_DRIVER_FILES", "/nonexistent")).json();
    assert!(!is_hit(&without), "another set of drivers is another fingerprint");
    assert!(without["gpus"].as_array().unwrap().iter().all(|g| g["type"] != "software"));
    assert!(is_hit(&run(&mut sandbox.gpuforge(&["detect", "--json"])).json()), "the first is still there");
}

#[test]
fn corrupt_cache_entries_cost_one_detection() {
    let sandbox = Sandbox::new();
    run(&mut sandbox.gpuforge(&["detect"])).ok();
    let file = std::fs::read_dir(sandbox.path("cache")).unwrap().next().unwrap().unwrap().path();
    for rubbish in [&b""[..], b"{}", b"gpuforge-cache 1 0 0\n", &[0xff; 4096]] {
        std::fs::write(&file, rubbish).unwrap();
        let inventory = run(&mut sandbox.gpuforge(&["detect", "--json"])).json();
        assert!(!is_hit(&inventory) && warns(&inventory, "cache"));
        assert!(is_hit(&run(&mut sandbox.gpuforge(&["detect", "--json"])).json()), "repaired");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.path("file"), "").unwrap();
    let mut command = sandbox.gpuforge(&["detect", "--json"]);
    let inventory = run(command.env("GPUFORGE_CACHE_DIR", sandbox.path("file"))).json();
    assert!(warns(&inventory, "cache"), "{inventory}");
}

#[test]
fn concurrent_processes_succeed_and_leave_a_valid_cache() {
    let sandbox = Sandbox::new();
    let children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = sandbox.gpuforge(&["detect", "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap();
    }
    assert!(is_hit(&run(&mut sandbox.gpuforge(&["detect", "--json"])).json()));
}

#[test]
fn no_wake_loads_no_driver() {
    let sandbox = Sandbox::new();
    let inventory = run(&mut sandbox.gpuforge(&["detect", "--json", "--no-wake", "--timings"])).json();
    let phases: Vec<&str> =
        inventory["timings"].as_array().unwrap().iter().map(|t| t["phase"].as_str().unwrap()).collect();
    assert!(phases.contains(&"tier 0") && !phases.contains(&"adapters"), "{phases:?}");
    assert!(
        !is_hit(&run(&mut sandbox.gpuforge(&["detect", "--json"])).json()),
        "half an answer is not cached"
    );
}

#[test]
fn a_recording_replays_to_the_same_inventory_without_personal_data() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("rec");
    let live = run(&mut sandbox.gpuforge(&["detect", "--json", "--record", dir.to_str().unwrap()])).json();
    let replayed =
        run(&mut sandbox.gpuforge(&["detect", "--json", "--replay", dir.to_str().unwrap()])).json();
    for field in ["gpus", "cpu", "best", "host"] {
        assert_eq!(live[field], replayed[field], "{field}");
    }
    let text = std::fs::read_to_string(dir.join("recording.json")).unwrap();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if host.trim().len() > 3 {
        assert!(!text.contains(host.trim()), "the host's name is in the recording");
    }
    let user = std::env::var("HOME").unwrap_or_default();
    if user.len() > 1 {
        assert!(!text.contains(&user), "the home directory is in the recording");
    }
}

#[test]
fn a_replayed_machine_keeps_its_limits_and_choices() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("rec");
    let gpu = "/sys/bus/pci/devices/0000:41:00.0";
    let processors: String = (0..64)
        .map(|i| format!("processor\t: {i}\nmodel name\t: Big Chip\nphysical id\t: 0\ncore id\t: {i}\n\n"))
        .collect();
    recording(
        &dir,
        &[
            (&format!("{gpu}/class"), "0x030200"),
            (&format!("{gpu}/vendor"), "0x10de"),
            (&format!("{gpu}/device"), "0x2330"),
            ("/proc/cpuinfo", &processors),
            ("/sys/devices/system/cpu/online", "0-63\n"),
            ("/proc/self/cgroup", "0::/\n"),
            ("/proc/self/mountinfo", "30 29 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"),
            ("/sys/fs/cgroup/cpu.max", "200000 100000\n"),
        ],
        &[(&format!("{gpu}/driver"), "nvidia")],
    );
    let replay = || sandbox.gpuforge(&["detect", "--json", "--replay", dir.to_str().unwrap()]);
    let machine = run(&mut replay()).json();
    assert_eq!(
        (&machine["cpu"]["logical"], &machine["cpu"]["available"]),
        (&Value::from(64), &Value::from(2))
    );
    assert_eq!(machine["best"]["bus_id"], "0000:41:00.0", "{machine}");
    assert!(machine["gpus"][0]["name"].as_str().unwrap().contains("H100"));
    let empty = sandbox.path("empty");
    recording(&empty, &[], &[]);
    let nothing =
        run(&mut sandbox.gpuforge(&["detect", "--json", "--replay", empty.to_str().unwrap()])).json();
    assert_eq!((&nothing["gpus"], &nothing["best"]), (&Value::Array(vec![]), &Value::Null));
    assert!(nothing["best_reason"].as_str().unwrap().contains("no GPU"));
}

#[test]
fn an_invalid_recording_is_rejected() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("r")).unwrap();
    std::fs::write(sandbox.path("r/recording.json"), "{\"version\": 99}").unwrap();
    let ran = run(&mut sandbox.gpuforge(&["detect", "--replay", sandbox.path("r").to_str().unwrap()]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("is not a recording"), "{}", ran.stderr);
}

#[test]
fn visibility_variables_are_applied_and_reported() {
    let sandbox = Sandbox::new();
    let inventory = run(sandbox
        .gpuforge(&["detect", "--json"])
        .env("GPUFORGE_CPU_ONLY", "1")
        .env("CUDA_VISIBLE_DEVICES", ""))
    .json();
    assert_eq!(inventory["best"], Value::Null);
    let seen: Vec<&str> =
        inventory["overrides"].as_array().unwrap().iter().map(|o| o["variable"].as_str().unwrap()).collect();
    assert!(seen.contains(&"CUDA_VISIBLE_DEVICES") && seen.contains(&"GPUFORGE_CPU_ONLY"), "{seen:?}");
    // The inventory is printed, and the missing device is an error.
    let ran = run(sandbox.gpuforge(&["detect", "--json"]).env("GPUFORGE_DEVICE", "voodoo 2"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let inventory: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(warns(&inventory, "GPUFORGE_DEVICE"), "{inventory}");
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("GPUFORGE_DEVICE: \"voodoo 2\" names no device"), "{message}");
}

#[test]
fn safe_mode_uses_no_cache() {
    let sandbox = Sandbox::new();
    run(sandbox.gpuforge(&["detect"]).env("GPUFORGE_SAFE_MODE", "1")).ok();
    assert!(!sandbox.path("cache").exists());
}
