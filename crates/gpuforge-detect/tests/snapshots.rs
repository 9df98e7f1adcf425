//! API snapshots of Windows and macOS machines: each `NAME.json` replays to what its `NAME.expected.json` states.
//!
//! The values are written by hand after real machines of that kind; the reads themselves run on their platform only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails loudly"
)]

use std::{collections::BTreeMap, fs, path::Path};

use gpuforge_detect::{
    Inventory,
    model::ProbeReport,
    probe::filesystem::RecordedFs,
    recording::Recording,
    replay,
    snapshot::{MacosSnapshot, WindowsSnapshot},
};
use serde_json::Value;

#[allow(dead_code, reason = "each test file uses its own part of this module")]
mod common;

fn inventory(os: &str, reports: Vec<ProbeReport>) -> Inventory {
    replay(&Recording {
        version: 1,
        written_by: String::new(),
        os: os.to_owned(),
        arch: "x86_64".to_owned(),
        files: RecordedFs::default(),
        reports,
        warnings: Vec::new(),
        env: BTreeMap::new(),
        affinity: None,
    })
}

fn report(os: &str, text: &str) -> ProbeReport {
    match os {
        "windows" => serde_json::from_str::<WindowsSnapshot>(text).unwrap().report(),
        _ => serde_json::from_str::<MacosSnapshot>(text).unwrap().report(),
    }
}

/// The text of a snapshot.
fn text(os: &str, name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    fs::read_to_string(dir.join(os).join(format!("{name}.json"))).unwrap()
}

#[track_caller]
fn check(os: &str, names: &[&str]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(os);
    let files = fs::read_dir(dir).unwrap().count();
    assert_eq!(files, names.len() * 2, "every snapshot of {os} is listed");
    let mut wrong = Vec::new();
    for name in names {
        let expected: Value = serde_json::from_str(&text(os, &format!("{name}.expected"))).unwrap();
        let got = serde_json::to_value(inventory(os, vec![report(os, &text(os, name))])).unwrap();
        let mut found = Vec::new();
        common::compare("gpus", &expected["devices"], &got["gpus"], &mut found);
        for key in ["cpu", "host"] {
            if let Some(want) = expected.get(key) {
                common::compare(key, want, &got[key], &mut found);
            }
        }
        if let Some(want) = expected.get("best") {
            common::compare("best", want, &got["best"]["name"], &mut found);
        }
        wrong.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn windows_machines() {
    check(
        "windows",
        &[
            "amd_apu",
            "arm_emulated_process",
            "hybrid_laptop",
            "hyper_v_gpu_partition",
            "hyper_v_warp_only",
            "no_driver_and_failures",
            "remote_desktop",
        ],
    );
}

#[test]
fn macs() {
    check("macos", &["intel_with_amd", "m1", "m3_max", "rosetta", "vm_paravirtual", "vm_without_metal"]);
}

/// A snapshot survives JSON, and a recording of its report replays.
#[test]
fn snapshots_survive_json() {
    let windows: WindowsSnapshot = serde_json::from_str(&text("windows", "hybrid_laptop")).unwrap();
    let again = serde_json::to_string(&windows).unwrap();
    assert_eq!(serde_json::from_str::<WindowsSnapshot>(&again).unwrap(), windows);
    let mac: MacosSnapshot = serde_json::from_str(&text("macos", "m3_max")).unwrap();
    let again = serde_json::to_string(&mac).unwrap();
    assert_eq!(serde_json::from_str::<MacosSnapshot>(&again).unwrap(), mac);
    let report = windows.report();
    let again: ProbeReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(again.host, report.host);
}

/// The API, NVML, wgpu's adapters and the tools describe one machine: each device is there once.
#[test]
fn sources_of_one_machine_do_not_duplicate_devices() {
    let windows = report("windows", &text("windows", "hybrid_laptop"));
    let tool = gpuforge_detect::parsers::reports(
        "Name : Intel(R) Iris(R) Xe Graphics\nPNPDeviceID : PCI\\VEN_8086&DEV_A7A0&X\nStatus : OK\n\
         Name : NVIDIA GeForce RTX 4060 Laptop GPU\nPNPDeviceID : PCI\\VEN_10DE&DEV_28E0&X\nDriverVersion : 32.0.15.6094\nStatus : OK\n",
    );
    assert_eq!(tool[0].gpus.len(), 2);
    let smi = gpuforge_detect::parsers::reports(
        "GPU 0: NVIDIA GeForce RTX 4060 Laptop GPU (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)\n",
    );
    for order in [[&windows, &tool[0], &smi[0]], [&tool[0], &smi[0], &windows], [&smi[0], &windows, &tool[0]]]
    {
        let found = inventory("windows", order.into_iter().cloned().collect());
        let names: Vec<_> = found.gpus.iter().map(|g| g.display_name()).collect();
        assert_eq!(found.gpus.len(), 3, "{names:?}");
    }
    let mac = report("macos", &text("macos", "intel_with_amd"));
    let tool = gpuforge_detect::parsers::reports(
        "Chipset Model: Intel UHD Graphics 630\nBus: Built-In\nVendor: Intel\nDevice ID: 0x3e9b\nMetal: Supported\n\
         Chipset Model: AMD Radeon Pro 5500M\nBus: PCIe\nVRAM (Total): 8 GB\nVendor: AMD (0x1002)\nDevice ID: 0x7340\nMetal: Supported\n",
    );
    let found = inventory("macos", vec![mac, tool[0].clone()]);
    assert_eq!(found.gpus.len(), 2, "{:?}", found.gpus.iter().map(|g| g.display_name()).collect::<Vec<_>>());
}
