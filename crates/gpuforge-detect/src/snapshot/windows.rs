//! Windows snapshot: DXGI adapters, display devices of the device manager, registry values, memory status; and its report.

use serde::{Deserialize, Serialize};

use super::processor_info::CpuTopology;
use crate::{
    classify, host,
    model::{Cpu, Evidence, Gpu, GpuType, Host, ProbeReport, Usable, Vendor},
    parsers::nvidia_release,
    pci,
};

/// Name of the probe.
pub const KIND: &str = "windows";

/// What Windows states about itself; unknown is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowsSnapshot {
    /// Version of Windows.
    pub version: WindowsVersion,
    /// Instruction set this program was compiled for.
    pub process_arch: Option<String>,
    /// `PROCESSOR_ARCHITECTURE` of the system: `AMD64`, `ARM64`, `x86`.
    pub native_arch: Option<String>,
    /// Adapters of DXGI, in its order; `None` where DXGI was not asked or is not there.
    pub adapters: Option<Vec<DxgiAdapter>>,
    /// Devices of the display class that are plugged in; `None` where the device manager does not answer.
    pub devices: Option<Vec<DisplayDevice>>,
    /// Memory status.
    pub memory: Option<MemoryStatus>,
    /// Name of the CPU.
    pub cpu_name: Option<String>,
    /// CPU topology; `None` where Windows does not answer.
    pub cpu: Option<CpuTopology>,
    /// Widest SIMD level, by CPUID.
    pub simd: Option<String>,
    /// System manufacturer and product, by the firmware.
    pub firmware: Option<(String, String)>,
    /// Page files as configured: `?:\pagefile.sys`, `C:\pagefile.sys 0 0`; empty: none.
    pub page_files: Option<Vec<String>>,
    /// Paths longer than 260 characters are allowed.
    pub long_paths: Option<bool>,
    /// Version of the Visual C++ runtime for this instruction set, by its installer.
    pub vc_runtime: Option<String>,
    /// Which of [`SYSTEM_DLLS`] are in the system directory.
    pub system_dlls: Option<Vec<String>>,
    /// WSL distributions of the user.
    pub wsl: Option<Vec<WslDistribution>>,
}

/// DLLs of the system directory that GPU programs need: the Visual C++ runtime, CUDA's driver, Vulkan's loader, NVML.
pub const SYSTEM_DLLS: [&str; 6] =
    ["vcruntime140.dll", "vcruntime140_1.dll", "msvcp140.dll", "nvcuda.dll", "nvml.dll", "vulkan-1.dll"];

/// Version of Windows, by the registry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WindowsVersion {
    /// `Windows 10 Pro`; Windows 11 says 10 here too.
    pub product: Option<String>,
    /// `24H2`.
    pub display: Option<String>,
    /// `26100`.
    pub build: Option<String>,
    /// Number behind the build.
    pub revision: Option<u32>,
}

/// An adapter of DXGI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DxgiAdapter {
    /// Name.
    pub description: String,
    /// PCI vendor id.
    pub vendor_id: u32,
    /// PCI device id.
    pub device_id: u32,
    /// PCI subsystem id.
    pub subsystem_id: u32,
    /// PCI revision.
    pub revision: u32,
    /// Identifier until the next boot.
    pub luid: u64,
    /// Video memory of its own.
    pub dedicated_video_bytes: u64,
    /// System memory reserved for it.
    pub dedicated_system_bytes: u64,
    /// System memory it may share.
    pub shared_system_bytes: u64,
    /// A software rasterizer (WARP, Basic Render Driver).
    pub software: bool,
    /// An adapter of a remote session.
    pub remote: bool,
}

/// A device of the display class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DisplayDevice {
    /// Instance id without its last, machine-specific part: `PCI\VEN_10DE&DEV_2860&SUBSYS_…&REV_A1`.
    pub hardware_id: String,
    /// Name.
    pub description: Option<String>,
    /// Kernel driver (service).
    pub service: Option<String>,
    /// LUID of its adapter, on Windows versions that state it.
    pub luid: Option<u64>,
    /// PCI segment and bus: the bus in the low byte.
    pub bus_number: Option<u32>,
    /// PCI device in the high word, function in the low one.
    pub address: Option<u32>,
    /// `32.0.15.6094`.
    pub driver_version: Option<String>,
    /// `8-14-2024`.
    pub driver_date: Option<String>,
    /// `HardwareInformation.qwMemorySize`.
    pub memory_bytes: Option<u64>,
    /// Problem code of the device manager; 0 where the device works.
    pub problem: Option<u32>,
}

/// `GlobalMemoryStatusEx`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryStatus {
    /// Installed memory.
    pub physical_bytes: u64,
    /// Unused part of it.
    pub physical_free_bytes: u64,
    /// Commit limit: memory and page files together.
    pub commit_limit_bytes: u64,
    /// What may still be committed.
    pub commit_free_bytes: u64,
}

/// A WSL distribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WslDistribution {
    /// Name.
    pub name: String,
    /// 1 or 2.
    pub version: Option<u32>,
}

/// Problem codes of the device manager that a display adapter shows.
const PROBLEMS: [(u32, &str); 11] = [
    (1, "it is not configured"),
    (3, "its driver is damaged, or memory is short"),
    (10, "it cannot start"),
    (12, "it finds no free resources (often too little address space for its memory)"),
    (14, "Windows must be restarted first"),
    (22, "it is disabled"),
    (28, "no driver is installed"),
    (31, "Windows cannot load its driver"),
    (43, "it reported a failure and was stopped"),
    (45, "it is not plugged in"),
    (52, "its driver is not signed"),
];

impl WindowsSnapshot {
    /// The report of this snapshot; pure.
    pub fn report(&self) -> ProbeReport {
        let mut gpus = self.gpus();
        for (at, gpu) in gpus.iter_mut().enumerate() {
            gpu.at = at;
        }
        ProbeReport { gpus, cpu: Some(self.cpu()), host: Some(self.host()), ..ProbeReport::of(KIND) }
    }

    /// Devices of the device manager with their DXGI adapter, then adapters that have no device (software).
    fn gpus(&self) -> Vec<Gpu> {
        let (adapters, devices) =
            (self.adapters.as_deref().unwrap_or_default(), self.devices.as_deref().unwrap_or_default());
        let mut taken = vec![false; adapters.len()];
        let mut pairs = vec![None; devices.len()];
        // A LUID is certain and goes first: two equal cards have equal ids.
        for certain in [true, false] {
            for (device, pair) in devices.iter().zip(pairs.iter_mut()).filter(|(_, p)| p.is_none()) {
                let fits = |(i, adapter): &(usize, &DxgiAdapter)| {
                    !taken.get(*i).copied().unwrap_or(true) && device.is(adapter, certain)
                };
                *pair = adapters.iter().enumerate().find(fits).map(|(i, _)| i);
                if let Some(flag) = pair.and_then(|i| taken.get_mut(i)) {
                    *flag = true;
                }
            }
        }
        let of = |(device, pair): (&DisplayDevice, &Option<usize>)| {
            describe(Some(device), pair.and_then(|i| adapters.get(i)))
        };
        let mut gpus: Vec<Gpu> = devices.iter().zip(&pairs).map(of).collect();
        let lone = adapters.iter().zip(&taken).filter(|(_, taken)| !**taken);
        gpus.extend(lone.map(|(adapter, _)| describe(None, Some(adapter))));
        gpus
    }

    fn cpu(&self) -> Cpu {
        let topology = self.cpu.clone().unwrap_or_default();
        let count = |n: u32| (n > 0).then_some(n);
        let hybrid = topology.hybrid();
        Cpu {
            brand: self.cpu_name.as_deref().map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()),
            arch: self.machine_arch().or(self.process_arch.as_deref()).map(str::to_owned),
            sockets: count(topology.packages),
            cores: u32::try_from(topology.cores.len()).ok().and_then(count),
            logical: count(topology.threads()),
            performance_cores: hybrid.map(|(fast, _)| fast),
            efficiency_cores: hybrid.map(|(_, slow)| slow),
            simd: self.simd.clone(),
            caches: topology.cpu_caches(),
            memory_bytes: self.memory.map(|m| m.physical_bytes).filter(|b| *b > 0),
            commit_limit_bytes: self.memory.map(|m| m.commit_limit_bytes).filter(|b| *b > 0),
            numa_nodes: count(topology.numa_nodes),
            ..Cpu::default()
        }
    }

    /// Instruction set of the machine, in the words of this crate.
    pub fn machine_arch(&self) -> Option<&'static str> {
        match self.native_arch.as_deref()?.trim().to_ascii_uppercase().as_str() {
            "AMD64" => Some("x86_64"),
            "ARM64" => Some("aarch64"),
            "X86" => Some("x86"),
            _ => None,
        }
    }

    /// The host as a report states it.
    pub fn host(&self) -> Host {
        let hypervisor =
            self.firmware.as_ref().and_then(|(vendor, product)| host::hypervisor_of(vendor, product));
        let process = self.process_arch.as_deref();
        Host {
            os: Some("windows".to_owned()),
            os_version: self.version.name(),
            kernel: self.version.kernel(),
            hypervisor: hypervisor.map(str::to_owned),
            translated: self.machine_arch().zip(process).map(|(machine, process)| machine != process),
            ..Host::default()
        }
    }
}

impl WindowsVersion {
    /// First build of Windows 11.
    const ELEVEN: u32 = 22_000;

    /// `Windows 11 Pro 24H2`. The registry of Windows 11 still says 10; servers of such builds say their year.
    fn name(&self) -> Option<String> {
        let eleven =
            self.build.as_deref().and_then(|b| b.parse().ok()).is_some_and(|b: u32| b >= Self::ELEVEN);
        let product = self.product.as_deref()?.trim();
        let product = match product.strip_prefix("Windows 10") {
            Some(edition) if eleven => format!("Windows 11{edition}"),
            _ => product.to_owned(),
        };
        Some(
            [Some(product.as_str()), self.display.as_deref()]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    /// `10.0.26100.2314`
    fn kernel(&self) -> Option<String> {
        let build = self.build.as_deref()?;
        Some(match self.revision {
            Some(revision) => format!("10.0.{build}.{revision}"),
            None => format!("10.0.{build}"),
        })
    }
}

impl DisplayDevice {
    /// A four-digit id behind a label such as `VEN_`.
    fn id(&self, label: &str) -> Option<u16> {
        let upper = self.hardware_id.to_ascii_uppercase();
        upper.split_once(label).and_then(|(_, rest)| pci::id16(rest.get(..4)?))
    }

    /// Is this the device of the adapter? By LUID, or by PCI ids where the device states no LUID.
    fn is(&self, adapter: &DxgiAdapter, by_luid: bool) -> bool {
        if let (true, Some(luid)) = (by_luid, self.luid) {
            return luid == adapter.luid && luid != 0;
        }
        let ids = self.id("VEN_").map(u32::from).zip(self.id("DEV_").map(u32::from));
        !by_luid
            && self.luid.is_none()
            && !adapter.software
            && ids == Some((adapter.vendor_id, adapter.device_id))
    }

    /// `dddd:bb:dd.f`; only PCI devices have one.
    fn bus_id(&self) -> Option<String> {
        let pci = self.hardware_id.to_ascii_uppercase().starts_with("PCI\\");
        let (bus, address) = self.bus_number.zip(self.address).filter(|_| pci)?;
        let (segment, bus, device, function) = (bus >> 8, bus & 0xff, address >> 16, address & 0xffff);
        pci::bus_id(&format!("{segment:04x}:{bus:02x}:{device:02x}.{function}"))
    }
}

/// `8-14-2024` (month first) as `2024-08-14`.
fn iso_date(text: &str) -> Option<String> {
    let mut parts = text.trim().split(['-', '/']).map(|part| part.trim().parse::<u32>().ok());
    let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && (1990..=9999).contains(&year);
    (valid && parts.next().is_none()).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// One GPU, by its device, its adapter, or both.
fn describe(device: Option<&DisplayDevice>, adapter: Option<&DxgiAdapter>) -> Gpu {
    let id = |adapter_id: Option<u32>, label: &str| {
        let by_adapter = adapter_id.and_then(|id| u16::try_from(id).ok());
        by_adapter.or_else(|| device.and_then(|d| d.id(label))).filter(|id| *id != 0)
    };
    let vendor_id = id(adapter.map(|a| a.vendor_id), "VEN_");
    let device_id = id(adapter.map(|a| a.device_id), "DEV_");
    let told = [adapter.map(|a| a.description.as_str()), device.and_then(|d| d.description.as_deref())];
    let name = told.into_iter().flatten().map(str::trim).find(|n| !n.is_empty());
    let software = adapter.is_some_and(|a| a.software) || name.is_some_and(classify::is_software_name);
    let hardware = device.map_or("", |d| d.hardware_id.as_str()).to_ascii_uppercase();
    let remote = adapter.is_some_and(|a| a.remote)
        || ["SWD\\REMOTEDISPLAYENUM", "ROOT\\INDIRECTDISPLAY"].iter().any(|p| hardware.starts_with(p));
    let vendor = match vendor_id {
        _ if software => Vendor::Other,
        Some(id) => pci::vendor(u32::from(id)),
        None => name.and_then(pci::vendor_in_name).unwrap_or(Vendor::Other),
    };
    let console = pci::console_only(vendor_id, name.unwrap_or(""));
    // The driver of a GPU that has none of its own; its name is translated, that of its service is not.
    let service = device.and_then(|d| d.service.as_deref());
    let basic = name == Some("Microsoft Basic Display Adapter")
        || service.is_some_and(|s| s.eq_ignore_ascii_case("BasicDisplay"));
    // Hyper-V's partition of a GPU: DXGI shows the chip, the device manager Microsoft's device and driver version.
    let partition = hardware.contains("VEN_1414&DEV_008E");
    let mut gpu = Gpu::of(Some(vendor), KIND);
    gpu.name = name.filter(|_| !basic).map(str::to_owned);
    gpu.pci_id = vendor_id.zip(device_id).filter(|_| !software).map(|(v, d)| pci::pci_id(v, d));
    gpu.pci_name = vendor_id.zip(device_id).and_then(|(v, d)| pci::device_name(v, d)).map(str::to_owned);
    gpu.bus_id = device.and_then(DisplayDevice::bus_id);
    gpu.luid = adapter.map(|a| a.luid).or(device.and_then(|d| d.luid)).map(|luid| format!("0x{luid:x}"));
    gpu.kernel_driver = service.map(str::to_owned);
    gpu.driver_date = device.and_then(|d| iso_date(d.driver_date.as_deref()?));
    let version = device.and_then(|d| d.driver_version.clone()).filter(|_| !partition);
    gpu.driver_version = version.map(|version| match vendor {
        Vendor::Nvidia if !basic => nvidia_release(&version).unwrap_or(version),
        _ => version,
    });
    gpu.kind = match console {
        _ if software => GpuType::Software,
        _ if remote || partition => GpuType::Virtual,
        Some(chip) if chip.emulated => GpuType::Virtual,
        Some(_) => GpuType::Integrated,
        None => {
            let name = name.filter(|_| !basic).or(gpu.pci_name.as_deref());
            classify::gpu_type(Some(vendor), name, device_id, None, gpu.bus_id.as_deref()).unwrap_or_default()
        }
    };
    if basic && gpu.name.is_none() {
        gpu.name = gpu.pci_name.clone().or_else(|| name.map(str::to_owned));
    }
    set_memory(&mut gpu, device, adapter);
    set_usability(
        &mut gpu,
        device,
        adapter,
        Standing { software, remote, basic, console: console.map(|c| c.what) },
    );
    gpu
}

/// Installed memory as the driver wrote it into the registry, else what DXGI offers, which is a little less.
fn set_memory(gpu: &mut Gpu, device: Option<&DisplayDevice>, adapter: Option<&DxgiAdapter>) {
    if gpu.kind == GpuType::Software {
        return;
    }
    let registry = device.and_then(|d| d.memory_bytes).filter(|b| *b > 0);
    let dxgi = adapter.map(|a| a.dedicated_video_bytes).filter(|b| *b > 0);
    gpu.memory_bytes = match gpu.kind {
        // The driver of an integrated GPU writes shared memory there at times; DXGI states the carve-out.
        GpuType::Integrated => dxgi.or(registry.filter(|_| adapter.is_none())),
        _ => registry.or(dxgi),
    };
    gpu.system_shared_bytes = adapter.map(|a| a.shared_system_bytes).filter(|b| *b > 0);
    gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
}

/// What kind of adapter it is, beside its chip.
struct Standing {
    software: bool,
    remote: bool,
    basic: bool,
    console: Option<&'static str>,
}

fn set_usability(gpu: &mut Gpu, device: Option<&DisplayDevice>, adapter: Option<&DxgiAdapter>, is: Standing) {
    let problem = device.and_then(|d| d.problem).filter(|code| *code != 0);
    let (usable, evidence, why) = match (problem, is) {
        (_, Standing { software: true, .. }) => {
            (Usable::No, Evidence::Bound, "a software adapter: it runs on the CPU".to_owned())
        }
        (Some(code), _) => {
            let what = PROBLEMS.iter().find(|(known, _)| *known == code).map(|(_, what)| *what);
            let what = what.unwrap_or("see its properties there");
            (Usable::No, Evidence::Failed, format!("the device manager reports code {code}: {what}"))
        }
        (_, Standing { remote: true, .. }) => {
            (Usable::No, Evidence::Bound, "an adapter of a remote session".to_owned())
        }
        (_, Standing { console: Some(what), .. }) => (Usable::No, Evidence::Bound, what.to_owned()),
        (_, Standing { basic: true, .. }) => {
            let why = "Microsoft's basic display driver holds it; its maker's driver is not installed";
            (Usable::No, Evidence::Bound, why.to_owned())
        }
        _ if adapter.is_some() => {
            (Usable::Yes, Evidence::Bound, "its Windows driver is loaded and DXGI lists it".to_owned())
        }
        // TCC mode and some headless servers: a driver without graphics.
        _ => (
            Usable::Unknown,
            Evidence::Bound,
            "its Windows driver is loaded; DXGI does not list it".to_owned(),
        ),
    };
    gpu.set_usability(usable, evidence, why);
}

/// Text of a registry value or device property: UTF-16 up to the first NUL.
pub fn text_of(bytes: &[u8]) -> Option<String> {
    let units: Vec<u16> = units_of(bytes).take_while(|unit| *unit != 0).collect();
    Some(String::from_utf16_lossy(&units).trim().to_owned()).filter(|text| !text.is_empty())
}

/// Texts of a list value (`REG_MULTI_SZ`); empty ones are dropped.
pub fn list_of(bytes: &[u8]) -> Vec<String> {
    let units: Vec<u16> = units_of(bytes).collect();
    let texts = units.split(|unit| *unit == 0).map(|text| String::from_utf16_lossy(text).trim().to_owned());
    texts.filter(|text| !text.is_empty()).collect()
}

/// Number of a registry value or device property: little-endian, up to eight bytes.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let fits = (1..=8).contains(&bytes.len());
    fits.then(|| bytes.iter().rev().fold(0, |high, byte| high << 8 | u64::from(*byte)))
}

fn units_of(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.chunks_exact(2).filter_map(|pair| Some(u16::from_le_bytes(pair.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn registry_values_are_decoded() {
        assert_eq!(text_of(&wide("nvlddmkm\0rest")).as_deref(), Some("nvlddmkm"));
        assert_eq!(text_of(&wide("\0")), None);
        assert_eq!(
            list_of(&wide("C:\\pagefile.sys 0 0\0D:\\p.sys 1 2\0\0")),
            ["C:\\pagefile.sys 0 0", "D:\\p.sys 1 2"]
        );
        assert_eq!(number_of(&[0, 0, 0, 0, 2, 0, 0, 0]), Some(2 << 32));
        assert_eq!((number_of(&[]), number_of(&[1; 9])), (None, None));
    }

    #[test]
    fn dates_and_versions() {
        assert_eq!(iso_date("8-14-2024").as_deref(), Some("2024-08-14"));
        assert_eq!((iso_date("14-8-2024"), iso_date("6-21"), iso_date("")), (None, None, None));
        let version = |product: &str, build: &str| {
            WindowsVersion {
                product: Some(product.into()),
                build: Some(build.into()),
                ..WindowsVersion::default()
            }
            .name()
        };
        assert_eq!(version("Windows 10 Home", "22631").as_deref(), Some("Windows 11 Home"));
        assert_eq!(version("Windows 10 Home", "19045").as_deref(), Some("Windows 10 Home"));
        assert_eq!(version("Windows Server 2025", "26100").as_deref(), Some("Windows Server 2025"));
    }

    #[test]
    fn two_equal_cards_are_told_apart_by_luid() {
        let device = |luid, bus| DisplayDevice {
            hardware_id: "PCI\\VEN_10DE&DEV_2204&SUBSYS_1".into(),
            luid: Some(luid),
            bus_number: Some(bus),
            address: Some(0),
            ..DisplayDevice::default()
        };
        let adapter = |luid| DxgiAdapter {
            description: "NVIDIA GeForce RTX 3090".into(),
            vendor_id: 0x10de,
            device_id: 0x2204,
            luid,
            ..DxgiAdapter::default()
        };
        let snapshot = WindowsSnapshot {
            devices: Some(vec![device(7, 1), device(9, 2)]),
            adapters: Some(vec![adapter(9), adapter(7)]),
            ..WindowsSnapshot::default()
        };
        let gpus = snapshot.report().gpus;
        let got: Vec<_> = gpus.iter().map(|g| (g.bus_id.as_deref(), g.luid.as_deref())).collect();
        assert_eq!(got, [(Some("0000:01:00.0"), Some("0x7")), (Some("0000:02:00.0"), Some("0x9"))]);
    }

    #[test]
    fn an_empty_snapshot_states_nothing() {
        let report = WindowsSnapshot::default().report();
        assert!(report.gpus.is_empty());
        assert_eq!(report.cpu, Some(Cpu::default()));
        assert_eq!(report.host, Some(Host { os: Some("windows".into()), ..Host::default() }));
    }

    proptest! {
        #[test]
        fn arbitrary_devices_never_panic(
            hardware_id in ".{0,40}",
            name in ".{0,20}",
            version in "[0-9.x]{0,16}",
            date in "[0-9/-]{0,12}",
            numbers in any::<(u32, u32, u64, u32)>(),
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let (bus, address, luid, problem) = numbers;
            let device = DisplayDevice {
                hardware_id,
                description: Some(name.clone()),
                luid: Some(luid),
                bus_number: Some(bus),
                address: Some(address),
                driver_version: Some(version.clone()),
                driver_date: Some(date),
                problem: Some(problem),
                ..DisplayDevice::default()
            };
            let adapter = DxgiAdapter { description: name, vendor_id: bus, device_id: address, luid, ..DxgiAdapter::default() };
            let snapshot = WindowsSnapshot {
                devices: Some(vec![device]),
                adapters: Some(vec![adapter]),
                version: WindowsVersion { product: Some(version.clone()), build: Some(version), ..WindowsVersion::default() },
                ..WindowsSnapshot::default()
            };
            snapshot.report();
            text_of(&bytes);
            list_of(&bytes);
        }
    }
}
