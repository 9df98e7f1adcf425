//! Check `variables`: environment variables that hide devices or shadow libraries, one row per variable.

use gpuforge_detect::{model::Vendor, overrides, probe::filesystem::FileSystem};

use super::{framework, python};
use crate::doctor::{Finding, Status, SystemView, ViewOs};

/// A variable and its check; `None` where its value is harmless.
struct Row {
    name: &'static str,
    judge: fn(&SystemView, &'static str, &str) -> Option<Finding>,
}

const ROWS: [Row; 13] = [
    Row { name: "CUDA_VISIBLE_DEVICES", judge: |v, n, s| devices(v, n, s, Vendor::Nvidia) },
    Row { name: "HIP_VISIBLE_DEVICES", judge: |v, n, s| devices(v, n, s, Vendor::Amd) },
    Row { name: "ROCR_VISIBLE_DEVICES", judge: |v, n, s| devices(v, n, s, Vendor::Amd) },
    Row { name: "ZE_AFFINITY_MASK", judge: |v, n, s| devices(v, n, s, Vendor::Intel) },
    Row { name: "ONEAPI_DEVICE_SELECTOR", judge: selector },
    Row { name: "HSA_OVERRIDE_GFX_VERSION", judge: gfx },
    Row { name: "LD_LIBRARY_PATH", judge: libraries },
    Row { name: "VK_ICD_FILENAMES", judge: manifests },
    Row { name: "VK_DRIVER_FILES", judge: manifests },
    Row { name: "CUDA_HOME", judge: toolkit_dir },
    Row { name: "CUDA_PATH", judge: toolkit_dir },
    Row { name: "GPUFORGE_CPU_ONLY", judge: cpu_only },
    Row { name: "GPUFORGE_DEVICE", judge: |_, _, _| None },
];

/// Variables included in a bundle; no other is.
pub(in crate::doctor) const REPORTED: [&str; 17] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "ONEAPI_DEVICE_SELECTOR",
    "HSA_OVERRIDE_GFX_VERSION",
    "LD_LIBRARY_PATH",
    "VK_ICD_FILENAMES",
    "VK_DRIVER_FILES",
    "CUDA_HOME",
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PATH",
    "GPUFORGE_DEVICE",
    "GPUFORGE_CPU_ONLY",
];

/// `variables`
pub(super) fn env_vars(view: &SystemView) -> Finding {
    let set: Vec<(&Row, &str)> = ROWS.iter().filter_map(|row| Some((row, view.env(row.name)?))).collect();
    let found = set.iter().filter_map(|(row, value)| (row.judge)(view, row.name, value));
    Finding::all(found, || {
        let names: Vec<&str> = set.iter().map(|(row, _)| row.name).collect();
        match names.is_empty() {
            true => Finding::healthy("none is set"),
            false => Finding::healthy(format!("harmless: {}", names.join(", "))),
        }
    })
}

fn unset_unless_meant(view: &SystemView, name: &str) -> String {
    format!("{}, unless this is meant", view.unset_command(name))
}

/// A list of ordinals or UUIDs; the runtimes stop at the first invalid entry.
fn devices(view: &SystemView, name: &'static str, value: &str, vendor: Vendor) -> Option<Finding> {
    let count = view.host_facts().of(vendor).count();
    if count == 0 {
        return None;
    }
    let unset = |found: Finding| found.step(unset_unless_meant(view, name)).change(name, None);
    let first = value.split(',').next().unwrap_or_default().trim();
    if matches!(first.to_ascii_lowercase().as_str(), "" | "-1" | "none" | "void" | "nodevfiles") {
        return Some(unset(Finding::new(Status::Warning, format!("{name}={value} hides every GPU"))));
    }
    // `0.1` is a tile of a card; UUIDs are not numeric.
    let position = |entry: &str| entry.trim().split('.').next().and_then(|n| n.parse::<usize>().ok());
    let wrong = value.split(',').find(|e| position(e).is_some_and(|n| n >= count))?;
    let said = format!("{name}={value} names GPU {}, and there are {count} (counted from 0)", wrong.trim());
    Some(unset(Finding::new(Status::Error, said)))
}

/// `level_zero:gpu`, `opencl:cpu`, `*:0,1`, separated by `;`, with `!` for exclusions.
fn selector(view: &SystemView, name: &'static str, value: &str) -> Option<Finding> {
    if !view.host_facts().has(Vendor::Intel) {
        return None;
    }
    let mut terms =
        value.split(';').map(str::trim).filter(|t| !t.is_empty() && !t.starts_with('!')).peekable();
    terms.peek()?;
    let cpu_only = |term: &str| {
        let devices = term.split_once(':').map_or("", |(_, d)| d);
        devices.split(',').all(|d| matches!(d.trim(), "cpu" | "fpga"))
    };
    terms.all(cpu_only).then(|| {
        Finding::new(Status::Warning, format!("{name}={value} selects no GPU"))
            .step(unset_unless_meant(view, name))
            .change(name, None)
    })
}

fn gfx(view: &SystemView, name: &'static str, value: &str) -> Option<Finding> {
    view.host_facts().has(Vendor::Amd).then(|| {
        let said =
            format!("{name}={value}: ROCm treats the GPU as another model, which AMD does not support");
        Finding::new(Status::Warning, said).step("look here first when kernels crash or compute nonsense")
    })
}

/// CUDA libraries that frameworks bundle.
const OWN: [&str; 4] = ["libcudart.so", "libcublas.so", "libnvJitLink.so", "libcudnn.so"];

fn libraries(view: &SystemView, name: &'static str, value: &str) -> Option<Finding> {
    let facts = view.host_facts();
    if facts.nvidia.is_none() && !facts.has(Vendor::Nvidia) {
        return None;
    }
    let frameworks = !framework::installed(view).is_empty();
    let used = python::active_env(view).filter(|u| u.kind != python::PythonEnvKind::System);
    let prefix = used.map(|u| format!("{}/", u.prefix));
    let harm = |dir: &str| -> Option<(Status, String)> {
        let has = |prefix: &str| view.list(dir).iter().any(|f| f.starts_with(prefix));
        let parts = || dir.split('/');
        if parts().any(|p| p == "stubs") && has("libcuda.so") {
            return Some((
                Status::Error,
                format!("{dir} has a libcuda for linking only, which finds no GPU"),
            ));
        }
        if parts().any(|p| p == "compat") && has("libcuda.so") {
            return Some((Status::Warning, format!("{dir} has a libcuda for data-centre GPUs only")));
        }
        // Libraries of the active environment belong to the framework.
        if prefix.as_ref().is_some_and(|p| dir.starts_with(p.as_str())) {
            return None;
        }
        let own = OWN.iter().find(|l| frameworks && has(l))?;
        Some((Status::Warning, format!("{dir} puts another {own} before those of installed frameworks")))
    };
    let dirs: Vec<&str> = value.split(':').filter(|f| !f.is_empty()).collect();
    let harmful: Vec<(&str, Status, String)> =
        dirs.iter().filter_map(|f| harm(f).map(|(status, why)| (*f, status, why))).collect();
    let rest: Vec<&str> = dirs.iter().copied().filter(|f| harmful.iter().all(|(h, ..)| h != f)).collect();
    let rest = (!rest.is_empty()).then(|| rest.join(":"));
    let found = harmful.iter().map(|(_, status, why)| Finding::new(*status, format!("{name}: {why}")));
    let found = found.reduce(Finding::and)?;
    Some(found.step(format!("take it out of {name}")).change(name, rest))
}

fn manifests(view: &SystemView, name: &'static str, value: &str) -> Option<Finding> {
    let separator = if view.os() == ViewOs::Windows { ';' } else { ':' };
    let missing = value.split(separator).map(str::trim).find(|f| !f.is_empty() && !view.exists(f))?;
    let said = format!("{name} names {missing}, which does not exist: Vulkan finds no driver");
    Some(Finding::new(Status::Error, said).step(view.unset_command(name)).change(name, None))
}

fn toolkit_dir(view: &SystemView, name: &'static str, value: &str) -> Option<Finding> {
    let gone = !value.trim().is_empty() && !view.is_dir(value.trim());
    gone.then(|| {
        Finding::new(Status::Warning, format!("{name}={value}, and there is no such directory"))
            .step(format!("{}, or let it name a toolkit that is installed", view.unset_command(name)))
            .change(name, None)
    })
}

fn cpu_only(view: &SystemView, name: &'static str, value: &str) -> Option<Finding> {
    overrides::is_truthy(value).then(|| {
        Finding::new(Status::Warning, format!("{name}={value}: gpuforge itself uses no GPU"))
            .step(unset_unless_meant(view, name))
            .change(name, None)
    })
}
