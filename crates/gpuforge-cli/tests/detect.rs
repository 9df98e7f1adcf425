//! Does `gpuforge detect` answer on every machine, whatever its drivers do?
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

use common::{World, recording, run};
use serde_json::Value;

fn is_hit(inventory: &Value) -> bool {
    inventory["cache"]["hit"].as_bool().unwrap()
}

fn warns(inventory: &Value, source: &str) -> bool {
    inventory["warnings"].as_array().unwrap().iter().any(|w| w["source"] == source)
}

#[test]
fn the_json_has_the_documented_fields() {
    let world = World::new();
    let inventory = run(&mut world.gpuforge(&["detect", "--json"])).json();
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
fn the_second_run_comes_from_the_cache_and_refresh_does_not() {
    let world = World::new();
    let first = run(&mut world.gpuforge(&["detect", "--json"])).json();
    assert!(!is_hit(&first) && first["warnings"] == Value::Array(vec![]), "{first}");
    let second = run(&mut world.gpuforge(&["detect", "--json"])).json();
    assert!(is_hit(&second) && second["cache"]["age_s"].as_f64().unwrap() < 60.0);
    assert_eq!((&first["gpus"], &first["cpu"]), (&second["gpus"], &second["cpu"]));
    assert!(!is_hit(&run(&mut world.gpuforge(&["detect", "--json", "--refresh"])).json()));
    assert!(!is_hit(&run(&mut world.gpuforge(&["detect", "--json", "--no-cache"])).json()));
    assert!(is_hit(&run(&mut world.gpuforge(&["--json"])).json()), "the status uses the same cache");
}

#[test]
fn a_cache_hit_loads_no_gpu_library() {
    // glibc's loader lists what it loads; the check is worth something only if it can see a driver being loaded.
    let world = World::new();
    let loaded = |args: &[&str]| {
        let ran = run(world.gpuforge(args).env("LD_DEBUG", "files")).ok();
        ["libvulkan", "libcuda", "libnvidia-ml", "libMoltenVK"].map(|lib| ran.stderr.contains(lib))
    };
    let miss = loaded(&["detect", "--json"]);
    assert_eq!(miss, [false; 4], "the parent itself never loads one");
    let child = run(world.gpuforge(&["__probe", "adapters"]).env("LD_DEBUG", "files")).ok();
    if !child.stderr.contains("libvulkan") {
        println!("skipped: this loader does not say what it loads, or there is no Vulkan");
        return;
    }
    let hit = run(world.gpuforge(&["detect", "--json"]).env("LD_DEBUG", "files")).ok();
    assert!(hit.stdout.contains("\"hit\": true"));
    assert!(!hit.stderr.contains("libvulkan") && !hit.stderr.contains("libcuda"), "{}", hit.stderr);
}

/// Runs a detection whose adapter probe misbehaves, and checks that it costs its deadline and one warning at most.
fn misbehaving(fault: &str, expected: &str) {
    let world = World::new();
    let started = Instant::now();
    let mut command = world.gpuforge(&["detect", "--json", "--probe-timeout", "400ms", "--timings"]);
    let inventory = run(command.env("GPUFORGE_PROBE_FAULT", format!("adapters={fault}"))).json();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let warnings = inventory["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0]["message"].as_str().unwrap().contains(expected), "{warnings:?}");
    assert!(inventory["cpu"]["logical"].as_u64().is_some(), "the rest stands");
    let again = run(&mut world.gpuforge(&["detect", "--json"])).json();
    assert!(!is_hit(&again), "a failed probe must not be cached");
    assert!(std::fs::read_dir(world.path("cache")).unwrap().count() == 1, "only the good answer is kept");
}

#[test]
fn a_hanging_probe_costs_its_deadline() {
    misbehaving("hang", "400 ms");
}

#[test]
fn a_crashing_probe_costs_a_warning() {
    misbehaving("crash", "signal");
}

#[test]
fn a_probe_that_prints_garbage_costs_a_warning() {
    misbehaving("garbage", "not understood");
}

#[test]
fn a_probe_that_never_stops_printing_is_cut_off() {
    misbehaving("flood", "more than");
}

#[test]
fn a_vulkan_driver_that_crashes_when_loaded_does_not_take_us_along() {
    let world = World::new();
    let source = world.path("driver.c");
    let library = world.path("libcrash.so");
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
    let manifest = world.path("crash.json");
    let icd = serde_json::json!({"file_format_version": "1.0.0",
        "ICD": {"library_path": library, "api_version": "1.2.0"}});
    std::fs::write(&manifest, icd.to_string()).unwrap();
    let mut command = world.gpuforge(&["detect", "--json"]);
    let inventory = run(command.env("VK_ICD_FILENAMES", &manifest).env("VK_DRIVER_FILES", &manifest)).json();
    let child = run(world
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
fn a_change_of_drivers_is_noticed_at_once() {
    let world = World::new();
    run(&mut world.gpuforge(&["detect"])).ok();
    let mut without = world.gpuforge(&["detect", "--json"]);
    let without =
        run(without.env("VK_ICD_FILENAMES", "/nonexistent").env("VK_DRIVER_FILES", "/nonexistent")).json();
    assert!(!is_hit(&without), "another set of drivers is another fingerprint");
    assert!(without["gpus"].as_array().unwrap().iter().all(|g| g["type"] != "software"));
    assert!(is_hit(&run(&mut world.gpuforge(&["detect", "--json"])).json()), "the first is still there");
}

#[test]
fn broken_caches_cost_one_detection() {
    let world = World::new();
    run(&mut world.gpuforge(&["detect"])).ok();
    let file = std::fs::read_dir(world.path("cache")).unwrap().next().unwrap().unwrap().path();
    for rubbish in [&b""[..], b"{}", b"gpuforge-cache 1 0 0\n", &[0xff; 4096]] {
        std::fs::write(&file, rubbish).unwrap();
        let inventory = run(&mut world.gpuforge(&["detect", "--json"])).json();
        assert!(!is_hit(&inventory) && warns(&inventory, "cache"));
        assert!(is_hit(&run(&mut world.gpuforge(&["detect", "--json"])).json()), "repaired");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_a_warning() {
    let world = World::new();
    std::fs::write(world.path("file"), "").unwrap();
    let mut command = world.gpuforge(&["detect", "--json"]);
    let inventory = run(command.env("GPUFORGE_CACHE_DIR", world.path("file"))).json();
    assert!(warns(&inventory, "cache"), "{inventory}");
}

#[test]
fn processes_at_once_all_answer_and_leave_a_whole_cache() {
    let world = World::new();
    let children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = world.gpuforge(&["detect", "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap();
    }
    assert!(is_hit(&run(&mut world.gpuforge(&["detect", "--json"])).json()));
}

#[test]
fn nothing_is_woken_when_asked_not_to() {
    let world = World::new();
    let inventory = run(&mut world.gpuforge(&["detect", "--json", "--no-wake", "--timings"])).json();
    let phases: Vec<&str> =
        inventory["timings"].as_array().unwrap().iter().map(|t| t["phase"].as_str().unwrap()).collect();
    assert!(phases.contains(&"tier 0") && !phases.contains(&"adapters"), "{phases:?}");
    assert!(!is_hit(&run(&mut world.gpuforge(&["detect", "--json"])).json()), "half an answer is not cached");
}

#[test]
fn a_recording_replays_to_the_same_machine_and_names_nobody() {
    let world = World::new();
    let dir = world.path("rec");
    let live = run(&mut world.gpuforge(&["detect", "--json", "--record", dir.to_str().unwrap()])).json();
    let replayed = run(&mut world.gpuforge(&["detect", "--json", "--replay", dir.to_str().unwrap()])).json();
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
        assert!(!text.contains(&user), "the home folder is in the recording");
    }
}

#[test]
fn recorded_machines_keep_their_limits_and_choices() {
    let world = World::new();
    let dir = world.path("rec");
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
    let replay = || world.gpuforge(&["detect", "--json", "--replay", dir.to_str().unwrap()]);
    let machine = run(&mut replay()).json();
    assert_eq!(
        (&machine["cpu"]["logical"], &machine["cpu"]["available"]),
        (&Value::from(64), &Value::from(2))
    );
    assert_eq!(machine["best"]["bus_id"], "0000:41:00.0", "{machine}");
    assert!(machine["gpus"][0]["name"].as_str().unwrap().contains("H100"));
    let empty = world.path("empty");
    recording(&empty, &[], &[]);
    let nothing = run(&mut world.gpuforge(&["detect", "--json", "--replay", empty.to_str().unwrap()])).json();
    assert_eq!((&nothing["gpus"], &nothing["best"]), (&Value::Array(vec![]), &Value::Null));
    assert!(nothing["best_reason"].as_str().unwrap().contains("no GPU"));
}

#[test]
fn a_recording_that_is_none_is_refused() {
    let world = World::new();
    std::fs::create_dir(world.path("r")).unwrap();
    std::fs::write(world.path("r/recording.json"), "{\"version\": 99}").unwrap();
    let ran = run(&mut world.gpuforge(&["detect", "--replay", world.path("r").to_str().unwrap()]));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("is not a recording"), "{}", ran.stderr);
}

#[test]
fn variables_are_honoured_and_reported() {
    let world = World::new();
    let inventory = run(world
        .gpuforge(&["detect", "--json"])
        .env("GPUFORGE_CPU_ONLY", "1")
        .env("CUDA_VISIBLE_DEVICES", ""))
    .json();
    assert_eq!(inventory["best"], Value::Null);
    let seen: Vec<&str> =
        inventory["overrides"].as_array().unwrap().iter().map(|o| o["variable"].as_str().unwrap()).collect();
    assert!(seen.contains(&"CUDA_VISIBLE_DEVICES") && seen.contains(&"GPUFORGE_CPU_ONLY"), "{seen:?}");
    // What there is is shown, and that what was asked for is not there is an error.
    let ran = run(world.gpuforge(&["detect", "--json"]).env("GPUFORGE_DEVICE", "voodoo 2"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let inventory: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(warns(&inventory, "GPUFORGE_DEVICE"), "{inventory}");
    let error: Value = serde_json::from_str(&ran.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("GPUFORGE_DEVICE: \"voodoo 2\" names no device"), "{message}");
}

#[test]
fn safe_mode_uses_no_cache() {
    let world = World::new();
    run(world.gpuforge(&["detect"]).env("GPUFORGE_SAFE_MODE", "1")).ok();
    assert!(!world.path("cache").exists());
}
