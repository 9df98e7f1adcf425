//! Host spec: the machine an environment is resolved for (this one, a named GPU, a cloud instance type, or pasted text).

use gpuforge_detect::{
    model::{Gpu, GpuType, Inventory, Usable, Vendor},
    parsers::nvidia_release,
};
use serde::Serialize;

use super::{
    chips,
    table::{Accelerator, CompatTable, Os},
    version::Version,
};

/// A GPU, reduced to what build resolution needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chip {
    /// Name.
    pub name: String,
    /// Vendor.
    pub vendor: Vendor,
    /// Compute capability (`8.9`), gfx target (`gfx1100`) or Intel family (`xe2`).
    pub target: Option<String>,
    /// Its memory; for integrated GPUs half of system memory.
    pub memory_bytes: Option<u64>,
}

impl Chip {
    /// The compute capability of an NVIDIA GPU. 10.1 was renamed 11.0.
    pub fn capability(&self) -> Option<Version> {
        let target = self.target.as_deref().filter(|_| self.vendor == Vendor::Nvidia)?;
        if target == "10.1" { "11.0" } else { target }.parse().ok()
    }

    /// Memory in GiB, as sold: a card of 24 GiB reports a little less.
    pub fn gib(&self) -> Option<f64> {
        self.memory_bytes.map(|bytes| (bytes as f64 / f64::from(1 << 30) * 2.0).round() / 2.0)
    }
}

/// Target host; unknown is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HostSpec {
    /// The GPU to use; `None`: CPU only.
    pub gpu: Option<Chip>,
    /// Its other GPUs of the same vendor.
    pub others: Vec<Chip>,
    /// Driver of the GPU.
    pub driver: Option<Version>,
    /// CUDA version the driver supports, where the driver's own is not known.
    pub cuda: Option<Version>,
    /// System.
    pub os: Os,
    /// Version of the system.
    pub os_version: Option<Version>,
    /// `x86_64` or `aarch64`.
    pub arch: String,
    /// The container it runs in.
    pub container: Option<String>,
    /// Notes: why no GPU is used, what prevents it.
    pub notes: Vec<String>,
}

/// Why a host cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostSpecError {
    /// Unknown GPU.
    #[error("there is no GPU {name:?} in the table")]
    Gpu {
        /// What was asked for.
        name: String,
        /// The closest known name.
        nearest: Option<String>,
    },
    /// Unknown cloud instance type.
    #[error("there is no machine type {provider}:{kind} in the table")]
    Cloud {
        /// Provider.
        provider: String,
        /// Type.
        kind: String,
        /// Types of that provider.
        known: Vec<String>,
    },
    /// Unknown platform.
    #[error("{0:?} is not a platform")]
    Platform(String),
}

/// Known platforms.
pub const PLATFORMS: [(&str, Os, &str); 7] = [
    ("linux-x86_64", Os::Linux, "x86_64"),
    ("linux-aarch64", Os::Linux, "aarch64"),
    ("wsl-x86_64", Os::Wsl, "x86_64"),
    ("wsl", Os::Wsl, "x86_64"),
    ("windows-x86_64", Os::Windows, "x86_64"),
    ("macos-aarch64", Os::Macos, "aarch64"),
    ("macos-x86_64", Os::Macos, "x86_64"),
];

impl HostSpec {
    /// Wheel platform: `linux-x86_64`.
    pub fn platform(&self) -> String {
        format!("{}-{}", self.os.wheels(), self.arch)
    }

    /// Accelerator of its GPU.
    pub fn accelerator(&self) -> Option<Accelerator> {
        self.gpu.as_ref().and_then(|gpu| Accelerator::of(gpu.vendor))
    }

    /// Sets the platform by name: `windows-x86_64`, `linux`.
    pub fn set_platform(&mut self, name: &str) -> Result<(), HostSpecError> {
        let lower = name.to_ascii_lowercase();
        let found =
            PLATFORMS.iter().find(|(known, ..)| *known == lower || known.split('-').next() == Some(&lower));
        let (_, os, arch) = found.ok_or_else(|| HostSpecError::Platform(name.to_owned()))?;
        (self.os, self.arch) = (*os, (*arch).to_owned());
        Ok(())
    }

    /// The host as seen from a container on it: always Linux, and without a GPU on macOS.
    pub fn in_container(&self) -> HostSpec {
        match self.os {
            Os::Linux | Os::Wsl => self.clone(),
            Os::Windows => HostSpec { os: Os::Wsl, ..self.clone() },
            Os::Macos => HostSpec { os: Os::Linux, os_version: None, ..self.clone() }
                .without_gpu("containers on macOS have no GPU"),
        }
    }

    /// CPU only, because of `reason`.
    pub fn without_gpu(mut self, reason: &str) -> HostSpec {
        self.gpu = None;
        self.others.clear();
        self.notes = vec![reason.to_owned()];
        self
    }
}

/// Host spec from an inventory: of this machine, or of text pasted from another.
pub fn from_inventory(table: &CompatTable, inventory: &Inventory) -> HostSpec {
    let host = &inventory.host;
    let says = |kind: &str| inventory.kinds.iter().any(|k| k.contains(kind));
    let os = match host.os.as_deref() {
        _ if host.wsl.is_some() => Os::Wsl,
        Some("windows") => Os::Windows,
        Some("macos") => Os::Macos,
        None if says("win32") => Os::Windows,
        None if says("system_profiler") => Os::Macos,
        _ => Os::Linux,
    };
    let arch = inventory.cpu.as_ref().and_then(|cpu| cpu.arch.clone());
    let apple = inventory.gpus.iter().any(|g| g.vendor == Some(Vendor::Apple));
    let arch = arch.unwrap_or_else(|| if apple { "aarch64" } else { "x86_64" }.to_owned());
    let arch = if arch == "arm64" { "aarch64".to_owned() } else { arch };
    let mut spec = HostSpec { os, arch, container: host.container.clone(), ..HostSpec::default() };
    let release = host.os_version.as_deref().and_then(|text| text.strip_prefix("macOS "));
    spec.os_version = release.filter(|_| os == Os::Macos).and_then(Version::leading);
    if host.translated == Some(true) {
        spec.notes.push(format!(
            "this process is translated; the machine is {}: use a Python of that kind, or installers pick other wheels",
            spec.arch
        ));
    }
    let Some((at, gpu)) = pick(inventory) else {
        spec.notes.push(match inventory.gpus.is_empty() {
            true => "no GPU was found".to_owned(),
            false => format!("no GPU here serves the frameworks: {}", inventory.best_reason),
        });
        return spec;
    };
    let system = inventory.cpu.as_ref().and_then(|cpu| cpu.memory_bytes);
    let chosen = chip(table, gpu, system);
    spec.driver = [gpu.driver_version.as_ref(), inventory.driver_version.as_ref()]
        .into_iter()
        .flatten()
        .find_map(|text| Version::leading(&nvidia_release(text).unwrap_or_else(|| text.clone())))
        .filter(|_| chosen.vendor == Vendor::Nvidia);
    spec.cuda = inventory.cuda_version.as_deref().and_then(Version::leading);
    if gpu.usable_for_compute == Usable::No {
        let why = gpu.usable_reason.as_deref().unwrap_or("not usable for compute");
        spec.notes.push(format!("{} cannot compute yet: {why}", chosen.name));
    }
    let others =
        inventory.gpus.iter().enumerate().filter(|(i, other)| *i != at && other.vendor == gpu.vendor);
    spec.others = others
        .filter(|(_, other)| other.kind == gpu.kind)
        .map(|(_, other)| chip(table, other, system))
        .filter(|other| other.target.is_some() && other.target != chosen.target)
        .collect();
    spec.gpu = Some(chosen);
    spec
}

/// The GPU selected by detection; else the first one that frameworks could use once its driver works.
fn pick(inventory: &Inventory) -> Option<(usize, &Gpu)> {
    let best = inventory.best.as_ref().and_then(|best| Some((best.index, inventory.gpus.get(best.index)?)));
    let served = |gpu: &Gpu| {
        gpu.vendor.and_then(Accelerator::of).is_some()
            && !matches!(gpu.kind, GpuType::Software)
            && gpu.hidden_by.is_none()
            && (gpu.kind != GpuType::Integrated || gpu.usable_for_compute != Usable::No)
    };
    let first = || inventory.gpus.iter().enumerate().find(|(_, gpu)| served(gpu));
    // CPU-only mode leaves no selected GPU although there are some.
    let asked = inventory.overrides.iter().any(|o| o.variable == "GPUFORGE_CPU_ONLY");
    if asked { None } else { best.filter(|(_, gpu)| served(gpu)).or_else(first) }
}

fn chip(table: &CompatTable, gpu: &Gpu, system: Option<u64>) -> Chip {
    let vendor = gpu.vendor.unwrap_or(Vendor::Other);
    let names = [gpu.name.as_deref(), gpu.pci_name.as_deref(), gpu.arch.as_deref()];
    let known = names.into_iter().flatten().find_map(|name| chips::find(table, gpu.vendor, name));
    let told = gpu.arch.clone().filter(|_| matches!(vendor, Vendor::Nvidia | Vendor::Amd));
    let own = gpu.memory_bytes.or_else(|| known.and_then(|k| k.gib).map(|gib| u64::from(gib) << 30));
    let shared = system.map(|bytes| bytes / 2).filter(|_| gpu.kind == GpuType::Integrated);
    Chip {
        name: gpu.display_name().to_owned(),
        vendor,
        target: told.or_else(|| known.map(|k| k.row.target.clone())),
        memory_bytes: shared.max(own),
    }
}

/// Host spec of `--for`: `aws:TYPE`, `gcp:TYPE` or the name of a GPU. Its driver is unknown.
pub fn named(table: &CompatTable, wanted: &str) -> Result<HostSpec, HostSpecError> {
    let linux = HostSpec { arch: "x86_64".to_owned(), ..HostSpec::default() };
    if let Some((provider, kind)) = wanted.split_once(':') {
        return hired(table, &provider.to_ascii_lowercase(), kind, linux);
    }
    let unknown = || HostSpecError::Gpu {
        name: wanted.chars().take(60).collect(),
        nearest: chips::nearest(table, wanted),
    };
    let known = chips::find(table, None, wanted).ok_or_else(unknown)?;
    let vendor = known.row.vendor;
    let module = ["5.3", "6.2", "7.2", "8.7", "11.0", "12.1"].contains(&known.row.target.as_str());
    let chip = Chip {
        name: wanted.to_owned(),
        vendor,
        target: Some(known.row.target.clone()),
        memory_bytes: known.gib.map(|gib| u64::from(gib) << 30),
    };
    let mut spec = HostSpec { gpu: Some(chip), ..linux };
    match vendor {
        Vendor::Apple => (spec.os, spec.arch) = (Os::Macos, "aarch64".to_owned()),
        // Jetson, DGX Spark and Grace modules have Arm CPUs.
        _ if module || wanted.to_ascii_lowercase().contains("gb200") => spec.arch = "aarch64".to_owned(),
        _ => {}
    }
    Ok(spec)
}

fn hired(
    table: &CompatTable,
    provider: &str,
    kind: &str,
    linux: HostSpec,
) -> Result<HostSpec, HostSpecError> {
    let row = chips::cloud(table, provider, kind).ok_or_else(|| {
        let known = table.cloud.iter().filter(|row| row.provider == provider && row.gpu.is_some());
        HostSpecError::Cloud {
            provider: provider.to_owned(),
            kind: kind.to_owned(),
            known: known.map(|row| row.begins.trim_end_matches(['.', '-']).to_owned()).collect(),
        }
    })?;
    let mut spec = match &row.gpu {
        Some(gpu) => named(table, gpu)?,
        None => linux.without_gpu(&format!("{provider}:{kind} has no GPU")),
    };
    if let (Some(gpu), Some(gib)) = (&mut spec.gpu, row.gib) {
        gpu.memory_bytes = Some(u64::from(gib) << 30);
    }
    if let Some(platform) = &row.platform {
        spec.set_platform(platform)?;
    }
    Ok(spec)
}
