//! Doctor checks of simulated Windows and macOS machines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]
#![cfg(unix)]

use gpuforge_env::doctor::{
    DoctorReport,
    Status::{self, Error, Healthy, Skipped, Unknown, Warning},
};

#[allow(dead_code, reason = "each test file uses its own part of this module")]
#[path = "simulated_host/mod.rs"]
mod machine;
use machine::{Sim, says};

macro_rules! snapshot {
    ($name:literal) => {
        include_str!(concat!("../../gpuforge-detect/tests/snapshots/", $name, ".json"))
    };
}

const LAPTOP: &str = snapshot!("windows/hybrid_laptop");
const BROKEN: &str = snapshot!("windows/no_driver_and_failures");
const SERVER: &str = snapshot!("windows/hyper_v_warp_only");
const M1: &str = snapshot!("macos/m1");
const ROSETTA: &str = snapshot!("macos/rosetta");
const INTEL: &str = snapshot!("macos/intel_with_amd");
const GUEST: &str = snapshot!("macos/vm_without_metal");

/// First bytes of a Mach-O program for x86-64, and for ARM.
const X86: [u8; 8] = [0xcf, 0xfa, 0xed, 0xfe, 0x07, 0, 0, 1];
const ARM: [u8; 8] = [0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1];

#[track_caller]
fn expect(report: &DoctorReport, listed: &[(&str, Status)]) {
    for (id, status) in listed {
        let check = report.get(id).unwrap();
        assert_eq!(check.status, *status, "{id}: {}", check.evidence);
    }
    for check in &report.checks {
        assert!(!check.evidence.is_empty(), "{} has no evidence", check.id);
        assert!(check.status < Error || check.fix.is_some(), "{} has no next step", check.id);
        let fix = check.fix.as_deref().unwrap_or_default();
        for word in ["sudo", "apt ", "modprobe", "/usr/", "/dev/"] {
            assert!(!fix.contains(word), "{} advises {fix}", check.id);
        }
    }
}

/// Checks of Linux's kernel files.
const LINUX_ONLY: [(&str, Status); 8] = [
    ("kernel-module", Skipped),
    ("driver-library", Skipped),
    ("driver-answers", Skipped),
    ("device-nodes", Skipped),
    ("container-toolkit", Skipped),
    ("vulkan", Skipped),
    ("shared-memory", Skipped),
    ("memory-limit", Skipped),
];

#[test]
fn a_windows_laptop() {
    let sim = Sim::windows(LAPTOP)
        .var("PATH", "C:\\Windows\\System32;C:\\Python312\\;relative")
        .file("C:/Python312/python.exe", "")
        .dir("C:/Python312/Lib/site-packages");
    let sim = Sim::program_bits(sim, "C:/Python312/python.exe");
    let report = sim.report();
    expect(&report, &LINUX_ONLY);
    expect(
        &report,
        &[
            ("display-driver", Healthy),
            ("vc-runtime", Warning),
            ("page-file", Healthy),
            ("long-paths", Warning),
            ("wsl", Healthy),
            ("python-env", Healthy),
            ("disk", Healthy),
            ("rosetta", Skipped),
            ("metal", Skipped),
        ],
    );
    says(&report, "display-driver", "NVIDIA GeForce RTX 4060 Laptop GPU: driver 560.94 of 2024-08-14", "");
    says(&report, "vc-runtime", "14.38", "winget install");
    says(&report, "page-file", "that Windows enlarges", "");
    says(&report, "long-paths", "260", "New-ItemProperty");
    says(&report, "wsl", "Ubuntu: WSL 2", "");
    says(&report, "python-env", "C:/Python312", "");
}

#[test]
fn a_windows_machine_without_drivers() {
    let report = Sim::windows(BROKEN).report();
    expect(&report, &LINUX_ONLY);
    expect(
        &report,
        &[("display-driver", Error), ("page-file", Warning), ("vc-runtime", Unknown), ("wsl", Skipped)],
    );
    says(&report, "display-driver", "basic display driver holds it", "driver of the GPU's maker");
    says(&report, "display-driver", "code 43", "clean installation");
    says(&report, "display-driver", "code 28: no driver is installed", "");
    says(&report, "display-driver", "NVIDIA Tesla T4: driver 553.65", "");
    says(&report, "page-file", "there is no page file", "AutomaticManagedPagefile");
    let server = Sim::windows(SERVER).report();
    expect(&server, &[("display-driver", Skipped), ("vc-runtime", Healthy), ("long-paths", Healthy)]);
}

#[test]
fn python_on_windows() {
    let none = Sim::windows(LAPTOP).report();
    expect(&none, &[("python-env", Warning)]);
    says(&none, "python-env", "no Python is on PATH", "winget install Python");
    let apps = "C:/Users/mika/AppData/Local/Microsoft/WindowsApps";
    let store =
        Sim::windows(LAPTOP).file(&format!("{apps}/python.exe"), "").var("PATH", &apps.replace('/', "\\"));
    let store = Sim::program_bits(store, &format!("{apps}/python.exe")).report();
    says(&store, "python-env", "Store's placeholder", "");
    let venv = |home: &str| {
        Sim::windows(LAPTOP)
            .var("VIRTUAL_ENV", "C:\\p\\.venv")
            .file("C:/p/.venv/pyvenv.cfg", &format!("home = {home}\nversion = 3.12.4\n"))
            .file("C:/p/.venv/Scripts/python.exe", "")
            .file("C:/p/.venv/Lib/site-packages/torch-2.14.1+cpu.dist-info/METADATA", "Name: torch\n")
            .dir("C:/Python312")
    };
    let whole = venv("C:\\Python312").report();
    expect(&whole, &[("python-env", Healthy), ("framework-build", Warning)]);
    says(&whole, "python-env", "C:/p/.venv, Python 3.12.4", "");
    says(&whole, "framework-build", "for CPUs only, not for the GPU that is here", "gpuforge env recommend");
    let gone = venv("C:\\Python311").report();
    expect(&gone, &[("python-env", Error)]);
    says(&gone, "python-env", "(C:\\Python311) is gone", "python -m venv");
}

#[test]
fn variables_are_unset_in_powershell() {
    let report = Sim::windows(LAPTOP).var("CUDA_VISIBLE_DEVICES", "-1").report();
    expect(&report, &[("variables", Warning)]);
    says(&report, "variables", "hides every GPU", "Remove-Item Env:CUDA_VISIBLE_DEVICES");
    let icd =
        Sim::windows(LAPTOP).file("C:/vk/icd.json", "{}").var("VK_DRIVER_FILES", "C:/vk/icd.json").report();
    expect(&icd, &[("variables", Healthy)]);
}

#[test]
fn a_mac_with_a_native_python() {
    let sim = Sim::macos(M1).var("PATH", "/opt/homebrew/bin").binary("/opt/homebrew/bin/python3", &ARM);
    let report = sim.report();
    expect(&report, &LINUX_ONLY);
    expect(
        &report,
        &[
            ("rosetta", Healthy),
            ("metal", Healthy),
            ("disk", Healthy),
            ("display-driver", Skipped),
            ("page-file", Skipped),
        ],
    );
    says(&report, "metal", "Metal lists Apple M1", "");
}

#[test]
fn a_python_for_another_cpu() {
    let report = Sim::macos(M1).var("PATH", "/usr/local/bin").binary("/usr/local/bin/python3", &X86).report();
    expect(&report, &[("rosetta", Error)]);
    says(&report, "rosetta", "is for x86-64 only", "uv python install");
    let both =
        Sim::macos(ROSETTA).var("PATH", "/usr/local/bin").binary("/usr/local/bin/python3", &ARM).report();
    expect(&both, &[("rosetta", Warning)]);
    says(&both, "rosetta", "runs through Rosetta", "arch -arm64");
    let shim =
        Sim::macos(M1).var("PATH", "/usr/local/bin").binary("/usr/local/bin/python3", b"#!/bin/sh").report();
    expect(&shim, &[("rosetta", Unknown)]);
    let intel =
        Sim::macos(INTEL).var("PATH", "/usr/local/bin").binary("/usr/local/bin/python3", &X86).report();
    expect(&intel, &[("rosetta", Skipped), ("metal", Healthy)]);
}

#[test]
fn a_mac_guest_without_metal() {
    let report = Sim::macos(GUEST).report();
    expect(&report, &[("metal", Warning), ("rosetta", Skipped)]);
    says(&report, "metal", "without Metal", "outside the virtual machine");
}

/// Snapshots describe a machine; files under another root describe another.
#[test]
fn a_foreign_root_is_not_this_machine() {
    let report = Sim::linux().report();
    expect(&report, &[("display-driver", Skipped), ("rosetta", Skipped), ("metal", Skipped)]);
}
