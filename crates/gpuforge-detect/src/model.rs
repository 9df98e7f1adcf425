//! Data model of the hardware inventory: GPUs, CPU, host, probe reports. Plain data, no I/O, no decisions.
//!
//! A value that no source states is `None` (JSON `null`); nothing is filled with a guess.
//! The JSON form of [`Inventory`] is the stable schema of `gpuforge detect --json` (docs/detect-json.md).

use serde::{Deserialize, Serialize};

/// Version of the JSON schema; raised when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// Who made the chip (not who wrote the driver or the platform that lists it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// PCI vendor 10de.
    Nvidia,
    /// PCI vendor 1002 (and 1022).
    Amd,
    /// PCI vendor 8086.
    Intel,
    /// Apple silicon, also through MoltenVK or Venus.
    Apple,
    /// Everything else: server VGA chips, virtual adapters, software rasterizers, phone GPUs.
    Other,
}

/// Device type: discrete, integrated, virtual or software.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GpuType {
    /// A card or module with memory of its own.
    Discrete,
    /// On the CPU's package or the mainboard, sharing system memory (also a server's BMC VGA chip).
    Integrated,
    /// A paravirtual adapter, an SR-IOV virtual function or a vGPU slice passed through by a hypervisor.
    Virtual,
    /// A software rasterizer that runs on the CPU (llvmpipe, SwiftShader, WARP).
    Software,
    /// No source states it.
    #[default]
    Unknown,
}

/// Whether compute work can be submitted to the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Usable {
    /// A compute driver answered for it, or its kernel driver is one that offers compute.
    Yes,
    /// It cannot be used; the reason says why.
    No,
    /// Listed, but no evidence for or against compute.
    #[default]
    Unknown,
}

/// Evidence weight of a usability statement; when two sources disagree, the stronger evidence wins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Only listed by name.
    #[default]
    Listed,
    /// A kernel driver is bound, or its files exist.
    Bound,
    /// A compute interface (NVML, Vulkan, HSA, OpenCL, Metal) opened it.
    Opened,
    /// A tool reported that the device itself failed.
    Failed,
}

/// A slice of a MIG-enabled NVIDIA GPU. Slices of one GPU instance share its memory: never add them up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// GPU instance id.
    pub gi: Option<u32>,
    /// Compute instance id.
    pub ci: Option<u32>,
    /// MIG device index, as `CUDA_VISIBLE_DEVICES=MIG-GPU-…/gi/ci` counts.
    pub index: Option<u32>,
    /// Memory of the GPU instance it belongs to.
    pub memory_bytes: Option<u64>,
    /// Profile name such as `2g.35gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

/// One GPU, or what one source reports about it; merging fills the gaps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Chip vendor.
    pub vendor: Option<Vendor>,
    /// Name as the source prints it.
    pub name: Option<String>,
    /// Memory of its own; on integrated GPUs the carve-out. Not the shared system memory.
    pub memory_bytes: Option<u64>,
    /// Version of the driver that answered, or its name where it has no version of its own.
    pub driver_version: Option<String>,
    /// Compute capability (`8.9`), gfx target (`gfx1100`) or IP version (`12.55.8`).
    pub arch: Option<String>,
    /// PCI address `dddd:bb:dd.f` in lower case.
    pub bus_id: Option<String>,
    /// Discrete, integrated, virtual, software or unknown.
    #[serde(rename = "type")]
    pub kind: GpuType,
    /// Whether compute work can be submitted to it.
    pub usable_for_compute: Usable,
    /// Reason for `usable_for_compute`.
    pub usable_reason: Option<String>,
    /// Suitability for compute, 0-100; `None` until scored.
    pub score: Option<u8>,
    /// How the score came about, one line a term.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub score_reasons: Vec<String>,

    /// Evidence behind `usable_for_compute`; decides which statement wins in a merge.
    #[serde(default, skip_serializing_if = "is_default")]
    pub evidence: Evidence,
    /// The name was cut by the tool that printed it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub name_truncated: bool,
    /// Name from the PCI id database, where the source itself gave none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_name: Option<String>,
    /// `vvvv:dddd` in lower case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_id: Option<String>,
    /// Device id alone (`0x744c`), where the source does not print the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_device: Option<String>,
    /// Kernel driver bound to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_driver: Option<String>,
    /// Date of the driver, `YYYY-MM-DD`, where Windows states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_date: Option<String>,
    /// LUID of the adapter in hexadecimal: Windows' identifier of it until the next boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub luid: Option<String>,
    /// Windows driver model (WDDM, TCC, MCDM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_model: Option<String>,
    /// Every driver that offers this GPU, when there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drivers: Vec<String>,
    /// Interfaces that can reach it: vulkan, metal, dx12, cuda, rocm, opencl, level-zero.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<String>,
    /// Unified memory: CPU and GPU share one memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unified_memory: Option<bool>,
    /// System memory the amdgpu driver may map for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gtt_bytes: Option<u64>,
    /// System memory that the kernel reports as shared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_shared_bytes: Option<u64>,
    /// Upper limit of shared memory that macOS states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_max_bytes: Option<u64>,
    /// Memory that Metal recommends to keep in use at most (`recommendedMaxWorkingSetSize`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
    /// Largest single buffer, where the platform states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_buffer_bytes: Option<u64>,
    /// GPU cores (Apple) or compute units, where the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_cores: Option<u32>,
    /// MIG mode: `enabled` or `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<String>,
    /// MIG slices, in the order of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_devices: Vec<MigDevice>,
    /// MIG profile names, in the order of the source.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mig_profiles: Vec<String>,
    /// Compute partitions of one card (AMD CPX and the like).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// The vendor tool's own index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Identifier of the chip as NVML or Vulkan states it; never recorded by `--record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What the vendor tool said when it could not open the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Hidden from programs by an environment variable; the value names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_by: Option<String>,
    /// Sources that list it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Evidence of the source that gave the name; a merge keeps the strongest.
    #[serde(skip)]
    pub name_from: Evidence,
    /// Byte offset of the first mention in pasted text; orders the result, never printed.
    #[serde(skip)]
    pub at: usize,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Gpu {
    /// A device of `vendor`, reported by `source`.
    pub fn of(vendor: Option<Vendor>, source: &str) -> Self {
        Gpu { vendor, sources: vec![source.to_owned()], ..Gpu::default() }
    }

    /// Sets usability, evidence and reason, if the evidence is at least as strong as the current one.
    pub fn set_usability(&mut self, usable: Usable, evidence: Evidence, reason: impl Into<String>) {
        if self.usable_reason.is_none() || evidence >= self.evidence {
            self.usable_for_compute = usable;
            self.evidence = evidence;
            self.usable_reason = Some(reason.into());
        }
    }

    /// The best name there is: the driver's, else the one by PCI id.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().or(self.pci_name.as_deref()).unwrap_or("unnamed GPU")
    }
}

/// One level of CPU cache (L1d, L1i, L2, L3), as seen by one core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuCache {
    /// 1, 2, 3…
    pub level: u8,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Size of one instance.
    pub bytes: u64,
    /// Number of such caches in the machine.
    pub instances: Option<u32>,
}

/// CPU topology, and how much of it this process may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Marketing name.
    pub brand: Option<String>,
    /// Instruction set: `x86_64`, `aarch64`…
    pub arch: Option<String>,
    /// Sockets (CPU packages).
    pub sockets: Option<u32>,
    /// Physical cores.
    pub cores: Option<u32>,
    /// Hardware threads of the machine.
    pub logical: Option<u32>,
    /// Hardware threads this process may keep busy: affinity and cgroup quota respected.
    pub available: Option<u32>,
    /// Why `available` is below `logical`.
    pub limited_by: Option<String>,
    /// P-cores of a hybrid CPU.
    pub performance_cores: Option<u32>,
    /// E-cores of a hybrid CPU.
    pub efficiency_cores: Option<u32>,
    /// Widest SIMD level: `avx512`, `avx2`, `sse4.2`, `neon`, `sve`…
    pub simd: Option<String>,
    /// Caches, by level.
    #[serde(default)]
    pub caches: Vec<CpuCache>,
    /// Installed memory that the kernel manages.
    pub memory_bytes: Option<u64>,
    /// Memory this process may use (cgroup limit), where one is set.
    pub memory_limit_bytes: Option<u64>,
    /// Commit limit of Windows: installed memory and page files together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_limit_bytes: Option<u64>,
    /// NUMA nodes.
    pub numa_nodes: Option<u32>,
}

/// Host environment: OS, kernel, container, WSL, hypervisor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// `linux`, `macos`, `windows`.
    pub os: Option<String>,
    /// Product and version, where the platform states them: `Windows 11 Pro 24H2`, `macOS 15.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// `docker`, `podman`, `kubernetes`, `lxc`, `systemd-nspawn`… when inside a container.
    pub container: Option<String>,
    /// 1 or 2 inside the Windows Subsystem for Linux.
    pub wsl: Option<u8>,
    /// Hypervisor, where the kernel names one.
    pub hypervisor: Option<String>,
    /// This process is translated from another instruction set (Rosetta 2, Windows on ARM).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translated: Option<bool>,
}

/// The selected device, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectedGpu {
    /// Position in `gpus`.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Its PCI address, where it has one.
    pub bus_id: Option<String>,
    /// Why this one.
    pub reason: String,
}

/// An environment variable that changes what may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvOverride {
    /// Name of the variable.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// What it does here.
    pub effect: String,
}

/// Something that went wrong without stopping the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The probe or file it concerns.
    pub source: String,
    /// What happened.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Whether the answer came from the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheInfo {
    /// The devices were read from the cache; no driver library was loaded.
    pub hit: bool,
    /// Age of the entry in seconds, on a hit.
    pub age_s: Option<f64>,
}

/// How long a phase or a probe took.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Phase or probe.
    pub phase: String,
    /// Milliseconds.
    pub ms: f64,
    /// `ok`, `absent`, `failed`, `timed out`.
    pub outcome: String,
}

/// Hardware inventory of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Inventory {
    /// Version of this schema.
    pub schema: u32,
    /// Every GPU, in order of appearance.
    pub gpus: Vec<Gpu>,
    /// The CPU; `None` where pasted text does not mention it.
    pub cpu: Option<Cpu>,
    /// The selected GPU; `None` to run on the CPU.
    pub best: Option<SelectedGpu>,
    /// Why `best` is what it is, also when it is `None`.
    pub best_reason: String,
    /// Operating system, container, WSL.
    pub host: Host,
    /// NVIDIA driver version or the like, where the source states one for the whole machine.
    pub driver_version: Option<String>,
    /// CUDA version the driver supports.
    pub cuda_version: Option<String>,
    /// `open` or `proprietary` (NVIDIA).
    pub kernel_module: Option<String>,
    /// The one format of pasted text; `None` for a live machine or several formats.
    pub kind: Option<String>,
    /// All formats recognised in pasted text.
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Environment variables that were honoured.
    #[serde(default)]
    pub overrides: Vec<EnvOverride>,
    /// Cache state.
    pub cache: CacheInfo,
    /// Problems that did not stop detection.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Time per phase; filled on `--timings`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timings: Vec<Timing>,
}

/// Probe report: what one source (a probe, or pasted text of one format) states.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// Format or probe name, such as `nvidia-smi` or `pci`.
    pub kind: String,
    /// The devices it lists.
    #[serde(default)]
    pub gpus: Vec<Gpu>,
    /// The CPU, where the source describes it.
    #[serde(default)]
    pub cpu: Option<Cpu>,
    /// Operating system and hypervisor, where the source states them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Driver version for the whole machine.
    #[serde(default)]
    pub driver_version: Option<String>,
    /// CUDA version the driver supports.
    #[serde(default)]
    pub cuda_version: Option<String>,
    /// Flavour of the NVIDIA kernel module.
    #[serde(default)]
    pub kernel_module: Option<String>,
    /// Complaints of the tool itself.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl ProbeReport {
    /// An empty report of `kind`.
    pub fn of(kind: &str) -> Self {
        ProbeReport { kind: kind.to_owned(), ..ProbeReport::default() }
    }
}
