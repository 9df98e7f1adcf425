//! Doctor on simulated machines: each is a directory, shell-script tools and simulated system queries.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]
#![cfg(unix)]

use std::time::{Duration, Instant};

use gpuforge_env::doctor::Status::{Critical, Error, Healthy, Skipped, Unknown, Warning};

#[allow(dead_code, reason = "each test file uses its own part of this module")]
#[path = "simulated_host/mod.rs"]
mod machine;
use machine::{NVIDIA, Sim, expect, says, with};

#[test]
fn a_healthy_nvidia_machine() {
    let sim = Sim::linux().nvidia("580.95.05").torch("2.14.1+cu130");
    let report = sim.report();
    expect(&report, &with(&NVIDIA, &[("framework-build", Healthy), ("framework-driver", Healthy)]));
    says(&report, "kernel-module", "at 0000:01:00.0: nvidia", "");
    says(&report, "driver-library", "module and libraries 580.95.05", "");
    says(&report, "driver-answers", "nvidia-smi lists 1 GPU", "");
    says(&report, "device-nodes", "/dev/nvidia0 can be opened", "");
    says(&report, "framework-build", "torch 2.14.1+cu130 is for CUDA 13.0", "");
    assert!(!report.is_broken() && report.worst == Healthy);
    assert!(report.changes().is_empty());
}

#[test]
fn driver_library_version_mismatch() {
    let complaint = "echo 'Failed to initialize NVML: Driver/library version mismatch'; echo 'NVML library version: 580.95'; exit 18";
    let sim =
        Sim::linux().nvidia("570.86.15").libraries("580.95.05", "570.86.15").tool("nvidia-smi", complaint);
    let report = sim.report();
    expect(&report, &with(&NVIDIA, &[("driver-library", Error), ("driver-answers", Error)]));
    says(&report, "driver-library", "module 570.86.15, libraries 580.95.05", "restart");
    says(&report, "driver-answers", "version mismatch NVML library version: 580.95", "restart");
    assert!(report.is_broken());
}

#[test]
fn two_library_versions_are_a_warning() {
    let sim = Sim::linux().nvidia("580.95.05").file("/usr/lib64/libcuda.so.570.86.15", "");
    let report = sim.report();
    expect(&report, &with(&NVIDIA, &[("driver-library", Warning)]));
    says(&report, "driver-library", "570.86.15 in /usr/lib64", "remove the packages");
}

#[test]
fn gpu_bound_to_nouveau() {
    let sim = Sim::linux().gpu("0000:01:00.0", "10de", "2684", Some("nouveau")).tool("docker", "");
    let report = sim.report();
    expect(&report, &[("kernel-module", Error), ("container-toolkit", Warning), ("vulkan", Warning)]);
    says(&report, "kernel-module", "bound to nouveau, which has no CUDA", "blacklist nouveau");
    says(&report, "container-toolkit", "toolkit is not installed", "nvidia-ctk runtime configure");
}

#[test]
fn an_unbound_gpu_reports_the_reason() {
    let bare = || Sim::linux().gpu("0000:01:00.0", "10de", "2684", None);
    let report = bare().report();
    expect(&report, &[("kernel-module", Critical), ("vulkan", Warning)]);
    says(&report, "kernel-module", "no kernel driver is bound", "install NVIDIA's driver");
    let signed = bare()
        .file("/lib/modules/6.8.0-45-generic/updates/dkms/nvidia.ko.zst", "")
        .file("/sys/firmware/efi/efivars/SecureBoot-8be4df61", "\u{6}\u{0}\u{0}\u{0}\u{1}");
    says(&signed.report(), "kernel-module", "Secure Boot is on", "mokutil");
    let unbuilt = bare().file("/var/lib/dkms/nvidia/580.95.05/source/dkms.conf", "");
    says(
        &unbuilt.report(),
        "kernel-module",
        "built no module for kernel 6.8.0-45-generic",
        "dkms autoinstall",
    );
}

#[test]
fn a_gpu_bound_to_vfio() {
    let report = Sim::linux().gpu("0000:01:00.0", "10de", "2684", Some("vfio-pci")).report();
    expect(&report, &[("kernel-module", Warning), ("vulkan", Warning)]);
    says(&report, "kernel-module", "reserved for a virtual machine", "");
}

#[test]
fn a_container_without_gpu_passthrough() {
    let sim = Sim::linux()
        .gpu("0000:01:00.0", "10de", "2684", Some("nvidia"))
        .file("/sys/module/nvidia/version", "580.95.05\n")
        .file("/.dockerenv", "")
        .var("NVIDIA_VISIBLE_DEVICES", "void");
    let report = sim.report();
    expect(
        &report,
        &[("kernel-module", Healthy), ("driver-library", Error), ("container", Error), ("vulkan", Warning)],
    );
    says(&report, "container", "docker: the host has an NVIDIA GPU", "docker run --gpus all");
    says(&report, "container", "NVIDIA_VISIBLE_DEVICES=void asks for none", "");
    says(&report, "driver-library", "no libcuda in this container", "NVIDIA_DRIVER_CAPABILITIES");
}

#[test]
fn containers_of_every_engine() {
    let amd = || Sim::linux().gpu("0000:03:00.0", "1002", "744c", Some("amdgpu"));
    let podman = amd().file("/run/.containerenv", "").report();
    says(&podman, "container", "podman: the host has an AMD GPU", "podman run --device /dev/kfd");
    let apptainer = amd().var("APPTAINER_CONTAINER", "/images/a.sif").report();
    says(&apptainer, "container", "apptainer: the host has an AMD GPU", "--rocm");
    let pod = amd().var("KUBERNETES_SERVICE_HOST", "10.0.0.1").report();
    says(&pod, "container", "kubernetes: the host has an AMD GPU", "amd.com/gpu");
    let given = Sim::linux().nvidia("580.95.05").file("/.dockerenv", "").report();
    expect(&given, &with(&NVIDIA, &[("container", Healthy)]));
    let none =
        Sim::linux().file("/.dockerenv", "").gpu("0000:00:02.0", "1234", "1111", Some("bochs-drm")).report();
    expect(&none, &[("container", Healthy)]);
    says(&none, "container", "the host has no GPU", "");
    let blind = Sim::linux().file("/.dockerenv", "").report();
    expect(&blind, &[("container", Unknown)]);
}

#[test]
fn container_toolkit() {
    let host = || Sim::linux().nvidia("580.95.05").tool("docker", "").tool("nvidia-ctk", "");
    says(&host().report(), "container-toolkit", "docker does not know it", "runtime configure");
    let daemon = r#"{"runtimes": {"nvidia": {"path": "nvidia-container-runtime"}}}"#;
    let set_up = host().file("/etc/docker/daemon.json", daemon).report();
    expect(&set_up, &with(&NVIDIA, &[("container-toolkit", Healthy)]));
    let podman = Sim::linux().nvidia("580.95.05").tool("podman", "");
    says(&podman.report(), "container-toolkit", "no CDI specification", "cdi generate");
    let cdi = podman.file("/etc/cdi/nvidia.yaml", "").report();
    expect(&cdi, &with(&NVIDIA, &[("container-toolkit", Healthy)]));
    let snap = Sim::linux()
        .nvidia("580.95.05")
        .file("/snap/docker/1/docker", "")
        .link("/usr/bin/docker", "/snap/bin/docker");
    let snap = snap.tool_at("/snap/bin/docker", "");
    says(&snap.report(), "container-toolkit", "docker is a snap", "its own packages");
}

#[test]
fn wsl() {
    let wsl = || Sim::linux().file("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n");
    let report = wsl().report();
    expect(&report, &[("wsl", Error)]);
    says(&report, "wsl", "there is no /dev/dxg", "wsl --update");
    let good = || {
        wsl()
            .node("/dev/dxg", 0, 0o666)
            .file("/usr/lib/wsl/lib/libcuda.so.1", "")
            .tool_at("/usr/lib/wsl/lib/nvidia-smi", "echo 'GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)'")
            .vulkan()
    };
    let report = good().report();
    expect(
        &report,
        &[("wsl", Healthy), ("device-nodes", Healthy), ("driver-answers", Healthy), ("vulkan", Healthy)],
    );
    says(&report, "wsl", "the libraries of Windows, with CUDA", "");
    let shadowed = good().file("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "").report();
    assert_eq!(shadowed.get("wsl").unwrap().status, Error);
    says(&shadowed, "wsl", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "remove the Linux NVIDIA packages");
    let linked =
        good().link("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1").report();
    assert_eq!(linked.get("wsl").unwrap().status, Healthy);
    let first = Sim::linux().file("/proc/sys/kernel/osrelease", "4.4.0-18362-Microsoft\n").report();
    says(&first, "wsl", "WSL 1 has no GPU", "--set-version");
}

#[test]
fn rocm_user_not_in_render_group() {
    let sim = |groups: &[u32]| {
        Sim::linux()
            .groups(groups)
            .gpu("0000:03:00.0", "1002", "744c", Some("amdgpu"))
            .node("/dev/kfd", 109, 0o660)
            .node("/dev/dri/renderD128", 109, 0o660)
            .vulkan()
    };
    let report = sim(&[1000]).report();
    expect(&report, &[("kernel-module", Healthy), ("device-nodes", Error), ("vulkan", Healthy)]);
    says(
        &report,
        "device-nodes",
        "/dev/kfd is root:render 660, and mika is not in render",
        "usermod -aG render mika",
    );
    says(&report, "device-nodes", "/dev/dri/renderD128 is root:render 660", "");
    let member = sim(&[1000, 109]).report();
    expect(&member, &[("kernel-module", Healthy), ("device-nodes", Healthy), ("vulkan", Healthy)]);
    let inside = sim(&[1000]).file("/.dockerenv", "").report();
    says(&inside, "device-nodes", "/dev/kfd is root:render 660", "--group-add 109");
}

#[test]
fn a_full_disk() {
    let full = Sim::linux().space("/home", 1 << 40, 300_000_000).space("/tmp", 4_000_000_000, 3_000_000_000);
    let report = full.report();
    expect(&report, &[("disk", Error)]);
    says(
        &report,
        "disk",
        "home: 0.3 GB free; temporary files: 3.0 GB free; package cache: 0.3 GB free",
        "uv cache prune",
    );
    says(&report, "disk", "", "TMPDIR");
    let little = Sim::linux().space("/tmp", 4_000_000_000, 3_000_000_000).report();
    expect(&little, &[("disk", Warning)]);
}

#[test]
fn tiny_shared_memory() {
    let tiny = || Sim::linux().space("/dev/shm", 64 << 20, 64 << 20);
    let report = tiny().report();
    expect(&report, &[("shared-memory", Warning)]);
    says(&report, "shared-memory", "/dev/shm: 64 MiB", "remount");
    let torch = tiny().torch("2.14.1+cpu").file("/.dockerenv", "").report();
    expect(&torch, &[("shared-memory", Error), ("framework-build", Healthy), ("container", Unknown)]);
    says(&torch, "shared-memory", "/dev/shm: 64 MiB", "--shm-size=8g");
    let half = Sim::linux().space("/dev/shm", (1 << 30) - 1, 0).report();
    expect(&half, &[("shared-memory", Warning)]);
}

#[test]
fn a_machine_without_a_gpu_is_healthy() {
    let report = Sim::linux().torch("2.14.1+cpu").report();
    expect(&report, &[("framework-build", Healthy)]);
    assert_eq!(report.worst, Healthy);
    let large = Sim::linux().torch("2.14.1+cu130").report();
    expect(&large, &[("framework-build", Healthy)]);
    says(&large, "framework-build", "it will use the CPU", "");
}

#[test]
fn a_hung_tool_is_killed_with_its_process_group() {
    let sim = Sim::linux().nvidia("580.95.05");
    let mark = sim.path("/tmp/alive");
    // The child of the tool would write after the tool was killed.
    let script = format!("(sleep 3; echo late > '{}') & sleep 600", mark.display());
    let sim = sim.tool("nvidia-smi", &script);
    let began = Instant::now();
    let report = sim.report();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    expect(&report, &with(&NVIDIA, &[("driver-answers", Warning)]));
    says(&report, "driver-answers", "did not answer within 1500 ms and was killed", "");
    std::thread::sleep(Duration::from_secs(3));
    assert!(!mark.exists(), "a child of the tool outlived it");
}

#[test]
fn a_suspended_gpu_is_not_woken() {
    let sim = Sim::linux().nvidia("580.95.05");
    let mark = sim.path("/tmp/woken");
    let sim = sim
        .file("/sys/bus/pci/devices/0000:01:00.0/power/runtime_status", "suspended\n")
        .tool("nvidia-smi", &format!("echo woken > '{}'", mark.display()));
    expect(&sim.report(), &with(&NVIDIA, &[("driver-answers", Skipped)]));
    assert!(!mark.exists());
}

#[test]
fn a_run_takes_less_than_two_seconds_and_loads_no_gpu_library() {
    let sim = Sim::linux().nvidia("580.95.05").torch("2.14.1+cu130");
    let began = Instant::now();
    sim.report();
    assert!(began.elapsed() < Duration::from_secs(2));
    #[cfg(target_os = "linux")]
    {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let loaded =
            ["libcuda", "libnvidia", "libvulkan", "libhsa", "libamdhip", "libze_loader", "libOpenCL"];
        assert!(loaded.iter().all(|l| !maps.contains(l)), "a GPU library was loaded");
    }
}

#[test]
fn an_empty_root_is_not_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let view = gpuforge_env::doctor::SystemView::rooted_at(empty.path(), std::collections::BTreeMap::new());
    let report = gpuforge_env::doctor::run(&std::sync::Arc::new(view.offline(true)));
    assert!(report.worst <= Warning, "{report:#?}");
}
