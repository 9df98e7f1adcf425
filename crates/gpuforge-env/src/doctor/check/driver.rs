//! Checks `kernel-module`, `driver-library`, `driver-answers`: bound driver, module/library version mismatch, nvidia-smi.

use gpuforge_detect::{
    model::{Gpu, GpuType, Vendor},
    probe::filesystem::FileSystem,
};

use crate::doctor::{Finding, Status, SystemView, TOOL_LIMIT, ToolOutput, host_facts};

/// Kernel modules by vendor: those with compute, and those that conflict and why.
struct Module {
    vendor: Vendor,
    good: &'static [&'static str],
    conflicting: &'static [(&'static str, &'static str)],
    /// Status when no driver is bound.
    unbound: Status,
    install: &'static str,
}

const MODULES: [Module; 3] = [
    Module {
        vendor: Vendor::Nvidia,
        good: &["nvidia", "nvgpu"],
        conflicting: &[
            ("nouveau", "bound to nouveau, which has no CUDA"),
            ("nova", "bound to nova, which has no CUDA"),
            ("nvidiafb", "bound to nvidiafb, which is for consoles"),
        ],
        unbound: Status::Critical,
        install: "install NVIDIA's driver with the system's package manager and restart",
    },
    Module {
        vendor: Vendor::Amd,
        good: &["amdgpu"],
        conflicting: &[("radeon", "bound to radeon, which has no ROCm")],
        unbound: Status::Error,
        install: "load amdgpu: sudo modprobe amdgpu",
    },
    Module {
        vendor: Vendor::Intel,
        good: &["i915", "xe"],
        conflicting: &[],
        unbound: Status::Warning,
        install: "load i915 or xe: a kernel that is newer than the GPU brings it",
    },
];

/// `kernel-module`
pub(super) fn kernel_module(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    if facts.platform.wsl.is_some() {
        return Finding::skipped("WSL: the kernel driver is that of Windows");
    }
    let gpus = facts.gpus.iter().filter(|g| g.kind != GpuType::Software);
    let found = gpus.filter_map(|gpu| {
        let row = MODULES.iter().find(|m| gpu.vendor == Some(m.vendor))?;
        Some(driver_binding(view, gpu, row))
    });
    Finding::all(found, || match &facts.nvidia {
        Some(version) => {
            Finding::healthy(format!("the nvidia module {version} is loaded; no PCI list to compare"))
        }
        None => Finding::skipped("no GPU of NVIDIA, AMD or Intel is listed"),
    })
}

/// Checks the kernel driver bound to a GPU.
fn driver_binding(view: &SystemView, gpu: &Gpu, row: &Module) -> Finding {
    let name = format!("{} at {}", gpu.display_name(), gpu.bus_id.as_deref().unwrap_or("no PCI address"));
    match gpu.kernel_driver.as_deref() {
        Some(driver) if row.good.contains(&driver) => Finding::healthy(format!("{name}: {driver}")),
        Some(driver) if driver.starts_with("vfio") => {
            Finding::new(Status::Warning, format!("{name}: {driver}, reserved for a virtual machine"))
                .step("use it inside that machine, or rebind it to its own driver")
        }
        Some(driver) => match row.conflicting.iter().find(|(other, _)| *other == driver) {
            Some((other, why)) => Finding::new(Status::Error, format!("{name}: {why}"))
                .step(row.install)
                .step(format!("blacklist {other}: echo 'blacklist {other}' | sudo tee /etc/modprobe.d/no-{other}.conf, then rebuild the initramfs and restart")),
            None => Finding::new(Status::Unknown, format!("{name}: bound to {driver}, of which nothing is known here")),
        },
        // Platforms without a PCI bus and the driver's own list do not state the bound driver.
        None if gpu.pci_id.is_none() && gpu.vendor == Some(Vendor::Nvidia) && view.host_facts().nvidia.is_some() => {
            Finding::healthy(format!("{name}: nvidia"))
        }
        None if gpu.pci_id.is_none() => Finding::new(Status::Unknown, format!("{name}: its driver is not stated")),
        None => unbound(view, &name, row),
    }
}

/// Why no driver is bound: Secure Boot, module not loaded, DKMS build missing.
fn unbound(view: &SystemView, name: &str, row: &Module) -> Finding {
    let found = Finding::new(row.unbound, format!("{name}: no kernel driver is bound to it"));
    let Some(kernel) = view.host_facts().platform.kernel.as_deref().filter(|_| row.vendor == Vendor::Nvidia)
    else {
        return found.step(row.install);
    };
    let built =
        ["updates/dkms", "updates", "extra", "kernel/drivers/video", "weak-updates/nvidia", "extramodules"]
            .iter()
            .any(|dir| {
                view.list(&format!("/lib/modules/{kernel}/{dir}")).iter().any(|f| f.starts_with("nvidia.ko"))
            });
    let found = match (built, secure_boot(view)) {
        (true, true) => found
            .and(Finding::new(
                row.unbound,
                "a module is built for this kernel, and Secure Boot is on: it may be rejected",
            ))
            .step("enrol the key that signed the module: sudo mokutil --import …/MOK.der, then restart"),
        (true, false) => found
            .and(Finding::new(row.unbound, "a module is built for this kernel, and not loaded"))
            .step("load it: sudo modprobe nvidia; `sudo dmesg` says why if it fails"),
        (false, _) if view.is_dir("/var/lib/dkms/nvidia") => found
            .and(Finding::new(
                row.unbound,
                format!("DKMS has the driver, and built no module for kernel {kernel}"),
            ))
            .step("install the headers of this kernel, then: sudo dkms autoinstall"),
        (false, _) => found,
    };
    if found.steps.is_empty() { found.step(row.install) } else { found }
}

/// Secure Boot state: the last byte of the EFI variable.
fn secure_boot(view: &SystemView) -> bool {
    let dir = "/sys/firmware/efi/efivars";
    let name = view.list(dir).into_iter().find(|f| f.starts_with("SecureBoot-"));
    name.and_then(|f| view.read(&format!("{dir}/{f}"))).is_some_and(|text| text.ends_with('\u{1}'))
}

/// Libraries whose file name ends with the driver version.
const VERSIONED: [&str; 2] = ["libcuda.so.", "libnvidia-ml.so."];

/// `driver-library`
pub(super) fn driver_library(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    if facts.platform.wsl.is_some() {
        return Finding::skipped("WSL: module and libraries come from Windows and carry different numbers");
    }
    let Some(module) = facts.nvidia.as_deref() else {
        return Finding::skipped("no NVIDIA kernel module is loaded");
    };
    let libraries = library_versions(view);
    let list = libraries.iter().map(|(version, _)| version.as_str()).collect::<Vec<_>>().join(", ");
    let same = libraries.iter().any(|(version, _)| version == module);
    let container = facts.platform.container.is_some();
    match (libraries.len(), same) {
        (0, _) if container => {
            Finding::new(Status::Error, format!("module {module}, and no libcuda in this container"))
                .step("start the container with the GPU, and with NVIDIA_DRIVER_CAPABILITIES=compute,utility")
        }
        (0, _) => {
            Finding::new(Status::Error, format!("module {module}, and no libcuda where the loader looks"))
                .step("install the driver's libraries in the module's version")
        }
        (1, true) => Finding::healthy(format!("module and libraries {module}")),
        (_, true) => {
            let places: Vec<String> = libraries.iter().map(|(v, place)| format!("{v} in {place}")).collect();
            Finding::new(
                Status::Warning,
                format!("module {module}, libraries in several versions: {}", places.join(", ")),
            )
            .step("remove the packages of the other versions")
        }
        (_, false) => {
            let found = Finding::new(
                Status::Error,
                format!("driver/library version mismatch: module {module}, libraries {list}"),
            );
            match container {
                true => found.step("recreate the container: the host's driver was changed"),
                false => found.step("restart: the packages were updated, and the old module is still loaded"),
            }
        }
    }
}

/// Versions of the user-space driver and a directory for each; stubs and forward-compat libraries are skipped.
fn library_versions(view: &SystemView) -> Vec<(String, String)> {
    let mut versions: Vec<(String, String)> = Vec::new();
    for dir in host_facts::library_dirs(view) {
        if ["stubs", "compat", "i386", "/wsl/"].iter().any(|word| dir.contains(word)) {
            continue;
        }
        for name in view.list(&dir) {
            let version = VERSIONED.iter().find_map(|prefix| name.strip_prefix(prefix));
            let Some(version) =
                version.filter(|v| v.contains('.') && v.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
            else {
                continue;
            };
            if versions.iter().all(|(v, _)| v != version) {
                versions.push((version.to_owned(), dir.clone()));
            }
        }
    }
    versions
}

/// Error messages of `nvidia-smi`, with status and fix; first match wins.
const NVIDIA_SMI_ERRORS: [(&str, Status, &str); 8] = [
    (
        "Driver/library version mismatch",
        Status::Error,
        "restart: the packages were updated, and the old module is still loaded",
    ),
    (
        "couldn't communicate with the NVIDIA driver",
        Status::Critical,
        "load the module (sudo modprobe nvidia); `sudo dmesg` says why if it fails",
    ),
    (
        "GPU access blocked by the operating system",
        Status::Error,
        "remove Linux driver packages inside WSL, and update the driver of Windows",
    ),
    (
        "fallen off the bus",
        Status::Critical,
        "restart; if it comes again, check power, temperature and seating of the card",
    ),
    (
        "GPU is lost",
        Status::Critical,
        "restart; if it comes again, check power, temperature and seating of the card",
    ),
    (
        "Unable to determine the device handle",
        Status::Critical,
        "restart; if it comes again, check power, temperature and seating of the card",
    ),
    ("Insufficient Permissions", Status::Error, "see device-nodes: this user may not open them"),
    ("Unknown Error", Status::Error, "in a container: recreate it with CDI or explicit --device options"),
];

/// `driver-answers`
pub(super) fn driver_answers(view: &SystemView) -> Finding {
    let facts = view.host_facts();
    if !facts.has(Vendor::Nvidia) && facts.nvidia.is_none() && !view.exists("/dev/dxg") {
        return Finding::skipped("no NVIDIA GPU");
    }
    if all_suspended(view) {
        return Finding::skipped("every NVIDIA GPU sleeps, and asking would wake it");
    }
    let wsl = Some("/usr/lib/wsl/lib/nvidia-smi".to_owned()).filter(|p| view.is_file(p));
    let Some(tool) = view.find_program("nvidia-smi").or(wsl) else {
        let module = facts.nvidia.is_some() && facts.platform.container.is_none();
        let status = if module { Status::Warning } else { Status::Skipped };
        return Finding::new(status, "nvidia-smi is not on PATH");
    };
    match view.run_tool(&tool, &["-L"], TOOL_LIMIT) {
        ToolOutput::Exited { ok: true, text } => {
            let gpus = text.lines().filter(|l| l.trim_start().starts_with("GPU ")).count();
            match gpus {
                0 => Finding::new(Status::Error, "nvidia-smi runs, and lists no GPU"),
                n => Finding::healthy(format!("nvidia-smi lists {n} GPU{}", if n == 1 { "" } else { "s" })),
            }
        }
        ToolOutput::Exited { ok: false, text } => diagnose_error(&text),
        ToolOutput::TimedOut(limit) => Finding::new(
            Status::Warning,
            format!("nvidia-smi did not answer within {} ms and was killed", limit.as_millis()),
        )
        .step("run nvidia-smi by hand; if it is slow, persistence mode helps; if it hangs, restart"),
        ToolOutput::SpawnFailed(why) => Finding::new(Status::Unknown, format!("nvidia-smi {why}")),
        ToolOutput::Disabled => Finding::skipped("programs of this root are not run"),
    }
}

fn diagnose_error(text: &str) -> Finding {
    // The message may be wrapped.
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = flat.chars().take(200).collect();
    match NVIDIA_SMI_ERRORS.iter().find(|(words, ..)| flat.contains(words)) {
        Some((_, status, step)) => Finding::new(*status, format!("nvidia-smi: {line}")).step(*step),
        None => Finding::new(Status::Error, format!("nvidia-smi fails: {line}"))
            .step("`gpuforge explain` reads its whole output"),
    }
}

fn all_suspended(view: &SystemView) -> bool {
    let is_suspended = |gpu: &Gpu| {
        let bus = gpu.bus_id.as_deref().unwrap_or_default();
        view.read(&format!("/sys/bus/pci/devices/{bus}/power/runtime_status"))
            .is_some_and(|s| s.trim() == "suspended")
    };
    let facts = view.host_facts();
    facts.has(Vendor::Nvidia) && facts.of(Vendor::Nvidia).all(is_suspended)
}
