//! macOS snapshot: `sysctl` values, Metal devices, their properties in IOKit's registry; and its report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, Host, ProbeReport, Usable, Vendor},
    parsers::sysctl,
    pci,
};

/// Name of the probe.
pub const KIND: &str = "macos";

/// Type of a `sysctl` value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SysctlType {
    /// NUL-terminated text.
    Text,
    /// Little-endian integer of four or eight bytes.
    Number,
}

/// Keys that are read; those of core classes are read for each class that `hw.nperflevels` counts.
pub const KEYS: [(&str, SysctlType); 23] = [
    ("machdep.cpu.brand_string", SysctlType::Text),
    ("hw.model", SysctlType::Text),
    ("hw.memsize", SysctlType::Number),
    ("hw.ncpu", SysctlType::Number),
    ("hw.physicalcpu", SysctlType::Number),
    ("hw.logicalcpu", SysctlType::Number),
    ("hw.packages", SysctlType::Number),
    ("hw.nperflevels", SysctlType::Number),
    ("hw.l1dcachesize", SysctlType::Number),
    ("hw.l1icachesize", SysctlType::Number),
    ("hw.l2cachesize", SysctlType::Number),
    ("hw.l3cachesize", SysctlType::Number),
    ("hw.optional.arm64", SysctlType::Number),
    ("hw.optional.neon", SysctlType::Number),
    ("hw.optional.AdvSIMD", SysctlType::Number),
    ("hw.optional.sse4_2", SysctlType::Number),
    ("hw.optional.avx2_0", SysctlType::Number),
    ("hw.optional.avx512f", SysctlType::Number),
    ("kern.osproductversion", SysctlType::Text),
    ("kern.osrelease", SysctlType::Text),
    ("kern.hv_vmm_present", SysctlType::Number),
    ("sysctl.proc_translated", SysctlType::Number),
    ("iogpu.wired_limit_mb", SysctlType::Number),
];

/// Keys of one core class, behind `hw.perflevelN.`.
pub const CLASS_KEYS: [(&str, SysctlType); 7] = [
    ("name", SysctlType::Text),
    ("physicalcpu", SysctlType::Number),
    ("logicalcpu", SysctlType::Number),
    ("l1dcachesize", SysctlType::Number),
    ("l1icachesize", SysctlType::Number),
    ("l2cachesize", SysctlType::Number),
    ("cpusperl2", SysctlType::Number),
];

/// Most core classes that are read.
pub const MAX_CLASSES: u32 = 4;

/// What macOS states about itself; unknown is `None` or not in the map.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MacosSnapshot {
    /// `sysctl` values by key.
    pub sysctl: BTreeMap<String, String>,
    /// Metal devices; `None` where Metal was not asked.
    pub metal: Option<Vec<MetalDevice>>,
}

/// A Metal device and the properties of its registry entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetalDevice {
    /// Name.
    pub name: String,
    /// Identifier of its entry in IOKit's registry.
    pub registry_id: u64,
    /// CPU and GPU share one memory.
    pub unified_memory: bool,
    /// The GPU that saves power, on Macs with two.
    pub low_power: bool,
    /// An external GPU.
    pub removable: bool,
    /// It drives no display.
    pub headless: bool,
    /// `recommendedMaxWorkingSetSize`.
    pub working_set_bytes: Option<u64>,
    /// `maxBufferLength`.
    pub max_buffer_bytes: Option<u64>,
    /// `gpu-core-count` of the registry; Apple GPUs only.
    pub core_count: Option<u32>,
    /// PCI `vendor-id` of the registry; Intel Macs only.
    pub pci_vendor: Option<u16>,
    /// PCI `device-id` of the registry; Intel Macs only.
    pub pci_device: Option<u16>,
    /// `VRAM,totalMB` of the registry; cards only.
    pub vram_mib: Option<u64>,
}

impl MacosSnapshot {
    /// The report of this snapshot; pure.
    pub fn report(&self) -> ProbeReport {
        let devices = self.metal.iter().flatten().enumerate();
        let gpu = |(at, device): (usize, &MetalDevice)| Gpu { at, ..device.gpu() };
        ProbeReport {
            gpus: devices.map(gpu).collect(),
            cpu: sysctl::parse(&self.sysctl_text()).and_then(|report| report.cpu),
            host: Some(self.host()),
            ..ProbeReport::of(KIND)
        }
    }

    /// The values as `sysctl` prints them: one parser reads both.
    fn sysctl_text(&self) -> String {
        // A value with a line break could pass for another key.
        let line = |value: &str| value.split(['\n', '\r']).next().unwrap_or("").to_owned();
        self.sysctl.iter().map(|(key, value)| format!("{key}: {}\n", line(value))).collect()
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.sysctl.get(key).map(|v| v.trim()).filter(|v| !v.is_empty())
    }

    /// Does this process run through Rosetta 2? `None` where macOS does not know the key (before Apple silicon).
    pub fn is_translated(&self) -> Option<bool> {
        self.value("sysctl.proc_translated").map(|v| v == "1")
    }

    /// The host as a report states it.
    pub fn host(&self) -> Host {
        let model = self.value("hw.model").unwrap_or_default();
        let hypervisor = match self.value("kern.hv_vmm_present") {
            Some("1") if model.starts_with("VirtualMac") => Some("apple-virtualization"),
            Some("1") if model.starts_with("VMware") => Some("vmware"),
            Some("1") if model.starts_with("Parallels") => Some("parallels"),
            Some("1") => Some("unknown hypervisor"),
            _ => None,
        };
        Host {
            os: Some("macos".to_owned()),
            os_version: self.value("kern.osproductversion").map(|version| format!("macOS {version}")),
            kernel: self.value("kern.osrelease").map(str::to_owned),
            hypervisor: hypervisor.map(str::to_owned),
            translated: self.is_translated(),
            ..Host::default()
        }
    }
}

impl MetalDevice {
    fn gpu(&self) -> Gpu {
        let vendor = match self.pci_vendor {
            Some(id) => pci::vendor(u32::from(id)),
            None => pci::vendor_in_name(&self.name).unwrap_or(Vendor::Other),
        };
        let mut gpu = Gpu::of(Some(vendor), KIND);
        gpu.name = Some(self.name.trim().to_owned()).filter(|n| !n.is_empty());
        // Apple's own GPUs are no PCI devices, though their entry names a vendor.
        let ids = self.pci_vendor.zip(self.pci_device).filter(|_| vendor != Vendor::Apple);
        gpu.pci_id = ids.map(|(v, d)| pci::pci_id(v, d));
        gpu.kind = match classify::gpu_type(Some(vendor), Some(&self.name), self.pci_device, None, None) {
            Some(GpuType::Virtual) => GpuType::Virtual,
            Some(GpuType::Software) => GpuType::Software,
            // Metal knows better than a name: memory is shared or it is not.
            _ if self.unified_memory => GpuType::Integrated,
            _ => GpuType::Discrete,
        };
        gpu.unified_memory = (gpu.kind != GpuType::Virtual).then_some(self.unified_memory);
        gpu.memory_bytes =
            self.vram_mib.filter(|m| *m > 0 && !self.unified_memory).and_then(|m| m.checked_mul(1 << 20));
        gpu.working_set_bytes = self.working_set_bytes.filter(|b| *b > 0);
        gpu.max_buffer_bytes = self.max_buffer_bytes.filter(|b| *b > 0);
        gpu.gpu_cores = self.core_count.filter(|n| *n > 0);
        gpu.apis.push("metal".to_owned());
        let (usable, why) = match gpu.kind {
            GpuType::Software => (Usable::No, "a software adapter: it runs on the CPU"),
            _ => (Usable::Yes, "Metal opened it"),
        };
        gpu.set_usability(usable, Evidence::Opened, why);
        gpu
    }
}

/// Text of a `sysctl` value: up to the first NUL.
pub fn text_of(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).trim().to_owned()).filter(|text| !text.is_empty())
}

/// Integer of a `sysctl` value or of registry data (`vendor-id` is four bytes, of which two count).
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    super::windows::number_of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_decoded() {
        assert_eq!(text_of(b"Apple M1\0\0").as_deref(), Some("Apple M1"));
        assert_eq!((text_of(b"\0x"), text_of(b"")), (None, None));
        assert_eq!((number_of(&[8, 0, 0, 0]), number_of(&[0x02, 0x10, 0, 0])), (Some(8), Some(0x1002)));
    }

    #[test]
    fn keys_are_there_once_and_a_line_break_adds_no_key() {
        for (at, (key, _)) in KEYS.iter().enumerate() {
            assert!(KEYS.iter().skip(at + 1).all(|(other, _)| other != key), "{key}");
        }
        let sysctl = BTreeMap::from([("hw.model".to_owned(), "Mac14,2\nhw.ncpu: 64".to_owned())]);
        assert_eq!(MacosSnapshot { sysctl, metal: None }.report().cpu, None);
    }

    #[test]
    fn an_empty_snapshot_states_nothing() {
        let report = MacosSnapshot::default().report();
        assert_eq!((report.gpus.len(), report.cpu), (0, None));
        assert_eq!(report.host, Some(Host { os: Some("macos".into()), ..Host::default() }));
    }

    proptest! {
        #[test]
        fn arbitrary_snapshots_never_panic(
            name in ".{0,30}",
            value in ".{0,30}",
            numbers in any::<(u64, u64, u32, Option<u16>, Option<u16>, Option<u64>, bool)>(),
        ) {
            let (set, buffer, cores, vendor, device, vram, unified) = numbers;
            let metal = MetalDevice {
                name,
                unified_memory: unified,
                working_set_bytes: Some(set),
                max_buffer_bytes: Some(buffer),
                core_count: Some(cores),
                pci_vendor: vendor,
                pci_device: device,
                vram_mib: vram,
                ..MetalDevice::default()
            };
            let sysctl = KEYS.iter().map(|(key, _)| ((*key).to_owned(), value.clone())).collect();
            MacosSnapshot { sysctl, metal: Some(vec![metal]) }.report();
        }
    }
}
