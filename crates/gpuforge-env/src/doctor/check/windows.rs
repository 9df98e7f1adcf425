//! Checks `display-driver`, `vc-runtime`, `page-file` and `long-paths`: what GPU programs need of Windows. Pure over a
//! [`WindowsSnapshot`].

use gpuforge_detect::{
    model::{Gpu, GpuType, Usable, Vendor},
    snapshot::{
        WindowsSnapshot,
        windows::{DisplayDevice, MemoryStatus},
    },
};

use super::{mib, numbers};
use crate::doctor::{Finding, Status, SystemView};

/// Runs a check of the snapshot.
fn of(view: &SystemView, judge: fn(&WindowsSnapshot) -> Finding) -> Finding {
    view.windows().map_or_else(|| Finding::skipped("not Windows"), judge)
}

/// `display-driver`
pub(super) fn display_driver(view: &SystemView) -> Finding {
    of(view, judge_drivers)
}

/// `vc-runtime`
pub(super) fn vc_runtime(view: &SystemView) -> Finding {
    of(view, judge_vc_runtime)
}

/// `page-file`
pub(super) fn page_file(view: &SystemView) -> Finding {
    of(view, |windows| match windows.memory {
        Some(memory) => judge_page_file(&memory, windows.page_files.as_deref()),
        None => Finding::new(Status::Unknown, "Windows does not state its memory"),
    })
}

/// `long-paths`
pub(super) fn long_paths(view: &SystemView) -> Finding {
    of(view, |windows| {
        match windows.long_paths {
        Some(true) => Finding::healthy("paths of more than 260 characters are allowed"),
        Some(false) => Finding::new(Status::Warning, "paths end at 260 characters: packages with deep directories fail to install")
            .step("as administrator: New-ItemProperty -Path HKLM:\\SYSTEM\\CurrentControlSet\\Control\\FileSystem -Name LongPathsEnabled -Value 1 -PropertyType DWord -Force")
            .step("or keep environments near the root of the disk"),
        None => Finding::new(Status::Unknown, "the registry has no LongPathsEnabled"),
    }
    })
}

fn judge_drivers(windows: &WindowsSnapshot) -> Finding {
    let Some(devices) = &windows.devices else {
        return Finding::new(Status::Unknown, "the device manager does not list display adapters");
    };
    let gpus = WindowsSnapshot { adapters: None, ..windows.clone() }.report().gpus;
    let pairs = gpus.iter().zip(devices);
    let ours =
        pairs.filter(|(gpu, _)| matches!(gpu.vendor, Some(Vendor::Nvidia | Vendor::Amd | Vendor::Intel)));
    let mut found: Vec<Finding> = ours
        .filter(|(gpu, _)| gpu.kind != GpuType::Software)
        .map(|(gpu, device)| judge_driver(gpu, device))
        .collect();
    let works = |gpu: &Gpu| gpu.vendor == Some(Vendor::Nvidia) && gpu.usable_for_compute != Usable::No;
    let lacks =
        |dll: &str| windows.system_dlls.as_ref().is_some_and(|all| all.iter().all(|name| name != dll));
    if gpus.iter().any(works) && lacks("nvcuda.dll") {
        found.push(
            Finding::new(
                Status::Error,
                "NVIDIA's driver is there, and nvcuda.dll is not in System32: CUDA finds no driver",
            )
            .step("install NVIDIA's driver again, with a clean installation; then restart"),
        );
    }
    Finding::all(found, || Finding::skipped("no display adapter of NVIDIA, AMD or Intel is listed"))
}

fn judge_driver(gpu: &Gpu, device: &DisplayDevice) -> Finding {
    let name = gpu.display_name();
    if gpu.usable_for_compute != Usable::No {
        let version = gpu.driver_version.as_deref().unwrap_or("of unknown version");
        let date = gpu.driver_date.as_ref().map(|date| format!(" of {date}")).unwrap_or_default();
        return Finding::healthy(format!("{name}: driver {version}{date}"));
    }
    let why = gpu.usable_reason.as_deref().unwrap_or("it does not work");
    let found = Finding::new(Status::Error, format!("{name}: {why}"));
    let maker = "install the driver of the GPU's maker (not that of Windows Update), then restart";
    match device.problem {
        Some(22) => found.step("as administrator: Get-PnpDevice -Class Display | Enable-PnpDevice"),
        Some(12) => found.step("switch on Above 4G Decoding in the firmware, or take another card out"),
        Some(14) => found.step("Restart-Computer"),
        Some(45) => found.step("plug it in, or ignore it"),
        Some(43) => found
            .step("restart; if it returns, install the maker's driver again with a clean installation")
            .step("in a virtual machine: the hypervisor must allow the GPU to be passed through"),
        _ => found.step(maker),
    }
}

/// First version of the runtime that programs of Visual Studio 2022 17.10 and newer need.
const VC_RUNTIME: &str = "14.40";

fn judge_vc_runtime(windows: &WindowsSnapshot) -> Finding {
    let package = match windows.machine_arch() {
        Some("aarch64") => "Microsoft.VCRedist.2015+.arm64",
        _ => "Microsoft.VCRedist.2015+.x64",
    };
    let step = format!("winget install --id {package} --exact");
    let needed = ["vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll"];
    let version = windows.vc_runtime.as_deref().map(|v| v.trim_start_matches('v'));
    let missing: Option<Vec<&str>> = windows
        .system_dlls
        .as_ref()
        .map(|found| needed.into_iter().filter(|name| found.iter().all(|f| f != name)).collect());
    match (missing, version) {
        (Some(missing), _) if !missing.is_empty() => {
            let said = format!(
                "not in System32: {}; PyTorch and others fail with `DLL load failed`",
                missing.join(", ")
            );
            Finding::new(Status::Error, said).step(step)
        }
        (_, Some(version)) if numbers(version) < numbers(VC_RUNTIME) => {
            let said = format!(
                "Visual C++ runtime {version}: programs built by newer compilers want {VC_RUNTIME}, and crash with it"
            );
            Finding::new(Status::Warning, said).step(step)
        }
        (_, Some(version)) => Finding::healthy(format!("Visual C++ runtime {version}")),
        (Some(_), None) => Finding::healthy("the DLLs of the Visual C++ runtime are there"),
        (None, None) => Finding::new(Status::Unknown, "System32 cannot be read"),
    }
}

/// Commit charge that importing a CUDA framework and starting a few workers takes.
const ROOMY: u64 = 8 << 30;
/// Below this, importing one framework fails.
const LITTLE: u64 = 3 << 30;

/// Commit charge left, and whether Windows may enlarge the page file; pure.
fn judge_page_file(memory: &MemoryStatus, page_files: Option<&[String]>) -> Finding {
    let free = memory.commit_free_bytes;
    let size = memory.commit_limit_bytes.saturating_sub(memory.physical_bytes);
    let none = page_files.is_some_and(<[String]>::is_empty);
    // `?:\pagefile.sys` and sizes of zero leave it to Windows.
    let managed = page_files
        .is_some_and(|files| files.iter().any(|f| f.starts_with('?') || f.trim_end().ends_with(" 0 0")));
    let files = match (none, managed) {
        (true, _) => "there is no page file".to_owned(),
        (_, true) => format!("a page file of {} that Windows enlarges", mib(size)),
        _ => format!("a page file of {}", mib(size)),
    };
    let status = match free {
        free if free < LITTLE && !managed => Status::Error,
        free if free < ROOMY => Status::Warning,
        _ if none => Status::Warning,
        _ => Status::Healthy,
    };
    let said = format!("{} of {} may still be committed; {files}", mib(free), mib(memory.commit_limit_bytes));
    let found = Finding::new(status, said);
    if status == Status::Healthy {
        return found;
    }
    let found = if managed {
        found
    } else {
        found.step("as administrator: Get-CimInstance Win32_ComputerSystem | Set-CimInstance -Property @{AutomaticManagedPagefile=$true}, then restart")
    };
    found
        .step("fewer data loader workers: on Windows each imports the framework again and commits its memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(free: u64) -> MemoryStatus {
        MemoryStatus {
            physical_bytes: 16 << 30,
            physical_free_bytes: 8 << 30,
            commit_limit_bytes: 18 << 30,
            commit_free_bytes: free,
        }
    }

    #[test]
    fn page_file_thresholds() {
        let fixed = ["C:\\pagefile.sys 2048 2048".to_owned()];
        let managed = ["?:\\pagefile.sys".to_owned()];
        let zero = ["C:\\pagefile.sys 0 0".to_owned()];
        let status = |free, files: Option<&[String]>| judge_page_file(&memory(free), files).status;
        assert_eq!(status(8 << 30, Some(&fixed)), Status::Healthy);
        assert_eq!(status((8 << 30) - 1, Some(&fixed)), Status::Warning);
        assert_eq!(status(3 << 30, Some(&fixed)), Status::Warning);
        assert_eq!(status((3 << 30) - 1, Some(&fixed)), Status::Error);
        assert_eq!(status(1 << 30, Some(&managed)), Status::Warning);
        assert_eq!(status(1 << 30, Some(&zero)), Status::Warning);
        assert_eq!(status(12 << 30, Some(&[])), Status::Warning);
        assert_eq!(status(12 << 30, None), Status::Healthy);
        let found = judge_page_file(&memory(1 << 30), Some(&fixed));
        assert!(found.steps[0].contains("AutomaticManagedPagefile"), "{found:?}");
    }

    #[test]
    fn the_runtime_by_its_files_and_version() {
        let with = |dlls: &[&str], version: Option<&str>| {
            judge_vc_runtime(&WindowsSnapshot {
                system_dlls: Some(dlls.iter().map(|d| (*d).to_owned()).collect()),
                vc_runtime: version.map(str::to_owned),
                ..WindowsSnapshot::default()
            })
        };
        let all = ["vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll"];
        assert_eq!(with(&all, Some("v14.42.34433.00")).status, Status::Healthy);
        assert_eq!(with(&all, Some("v14.40.33810.00")).status, Status::Healthy);
        assert_eq!(with(&all, Some("v14.38.33135.00")).status, Status::Warning);
        assert_eq!(with(&all, None).status, Status::Healthy);
        let missing = with(&["vcruntime140.dll", "msvcp140.dll"], Some("v14.20.1.0"));
        assert_eq!(missing.status, Status::Error);
        assert!(missing.evidence[0].contains("vcruntime140_1.dll") && missing.steps[0].starts_with("winget"));
        assert_eq!(judge_vc_runtime(&WindowsSnapshot::default()).status, Status::Unknown);
    }
}
