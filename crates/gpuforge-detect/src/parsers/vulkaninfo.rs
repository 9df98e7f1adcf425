//! Parser for `vulkaninfo`: summary and full output; one GPU behind two drivers is one device.

use super::lines_at;
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor, Warning},
    pci,
};

const KIND: &str = "vulkaninfo";

/// The values that are kept of a device's block.
const KEYS: [&str; 14] = [
    "apiVersion",
    "driverVersion",
    "vendorID",
    "deviceID",
    "deviceType",
    "deviceName",
    "driverID",
    "driverName",
    "driverInfo",
    "deviceUUID",
    "pciDomain",
    "pciBus",
    "pciDevice",
    "pciFunction",
];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let blocks = blocks(text);
    let mut groups: Vec<Vec<&Block<'_>>> = Vec::new();
    for block in &blocks {
        match same_device(&groups, block).and_then(|position| groups.get_mut(position)) {
            Some(group) => group.push(block),
            None => groups.push(vec![block]),
        }
    }
    let gpus: Vec<Gpu> = groups.iter().filter_map(|group| gpu(group)).collect();
    let warnings: Vec<Warning> = complaints(text).collect();
    let ran =
        !gpus.is_empty() || !warnings.is_empty() || text.lines().any(|line| line.trim() == "VULKANINFO");
    ran.then(|| ProbeReport { gpus, warnings, ..ProbeReport::of(KIND) })
}

/// What is said about one device by one driver; the first line of each key counts.
#[derive(Default)]
struct Block<'a> {
    at: usize,
    pairs: Vec<(&'static str, &'a str)>,
    heap: Option<u64>,
    local_heap: Option<u64>,
}

impl<'a> Block<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|(_, value)| *value).filter(|value| !value.is_empty())
    }

    fn has(&self, key: &str) -> bool {
        self.pairs.iter().any(|(k, _)| *k == key)
    }

    fn number(&self, key: &str) -> Option<u64> {
        integer(self.get(key)?)
    }

    fn is_device(&self) -> bool {
        let name = self.get("deviceName");
        let typed = self.get("deviceType").is_some() || self.get("vendorID").is_some();
        typed && (name.is_some() || self.get("deviceID").is_some())
            || name.and_then(pci::vendor_in_name).is_some()
    }

    fn kind(&self) -> GpuType {
        let (name, stated) = (self.get("deviceName").unwrap_or(""), self.get("deviceType").unwrap_or(""));
        let paravirtual =
            self.get("driverID").is_some_and(|id| id.contains("VENUS") || id.contains("GFXSTREAM"));
        if stated.ends_with("CPU") || classify::is_software_name(name) {
            GpuType::Software
        } else if stated.contains("VIRTUAL") || paravirtual || classify::is_virtual_name(name) {
            GpuType::Virtual
        } else if stated.contains("DISCRETE") {
            GpuType::Discrete
        } else if stated.contains("INTEGRATED") {
            GpuType::Integrated
        } else {
            classify::gpu_type(self.vendor(), Some(name), None, None, None).unwrap_or_default()
        }
    }

    fn vendor(&self) -> Option<Vendor> {
        let by_id = self.number("vendorID").and_then(|id| u32::try_from(id).ok()).map(pci::vendor);
        by_id.or_else(|| self.get("deviceName").and_then(pci::vendor_in_name))
    }

    /// Vendor and device id, where they are those of PCI: Apple, Mesa and system-on-chip drivers make theirs up.
    fn ids(&self) -> Option<(u16, u16)> {
        let vendor = u16::try_from(self.number("vendorID")?).ok()?;
        let device = u16::try_from(self.number("deviceID")?).ok().filter(|id| *id > 0)?;
        let maker = matches!(pci::vendor(u32::from(vendor)), Vendor::Nvidia | Vendor::Amd | Vendor::Intel);
        (maker || pci::device_name(vendor, device).is_some()).then_some((vendor, device))
    }

    /// The device UUID; zeros and masked ones are ignored.
    fn uuid(&self) -> Option<&'a str> {
        let uuid = self.get("deviceUUID")?;
        let digits = uuid.bytes().filter(|b| *b != b'-');
        (digits.clone().all(|b| b.is_ascii_hexdigit()) && digits.clone().any(|b| b != b'0')).then_some(uuid)
    }

    fn driver(&self) -> Option<&'a str> {
        self.get("driverID").or_else(|| self.get("driverName"))
    }

    /// The name without what a driver adds to it.
    fn plain_name(&self) -> Option<&'a str> {
        let name = self.get("deviceName")?;
        let inner = name.strip_prefix("Microsoft Direct3D12 (").and_then(|rest| rest.strip_suffix(')'));
        let name = inner.unwrap_or(name);
        Some(if name.ends_with(')') { name.rsplit_once(" (").map_or(name, |(plain, _)| plain) } else { name })
    }

    /// The version in the driver's own way of writing it.
    fn version(&self) -> Option<String> {
        let printed = self.get("driverVersion")?;
        let nvidia = self.vendor() == Some(Vendor::Nvidia)
            && self.driver().is_none_or(|driver| driver.contains("NVIDIA"));
        let plain = printed.split([' ', '(']).next().unwrap_or(printed);
        match plain.parse::<u32>() {
            Ok(packed) if nvidia => {
                Some(nvidia_version(&[packed >> 22, packed >> 14 & 0xff, packed >> 6 & 0xff]))
            }
            Ok(packed) => Some(format!("{}.{}.{}", packed >> 22, packed >> 12 & 0x3ff, packed & 0xfff)),
            Err(_) if nvidia => {
                let parts: Option<Vec<u32>> =
                    plain.split('.').take(3).map(|part| part.parse().ok()).collect();
                Some(parts.map_or_else(|| plain.to_owned(), |parts| nvidia_version(&parts)))
            }
            Err(_) => Some(plain.to_owned()),
        }
    }

    fn bus_id(&self) -> Option<String> {
        let (bus, device) = (self.number("pciBus")?, self.number("pciDevice")?);
        let (domain, function) =
            (self.number("pciDomain").unwrap_or(0), self.number("pciFunction").unwrap_or(0));
        pci::bus_id(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

/// NVIDIA writes 565.77 and 580.95.05: two digits, and no third part when it is zero.
fn nvidia_version(parts: &[u32]) -> String {
    match parts {
        [major, minor, third, ..] if *third > 0 => format!("{major}.{minor:02}.{third:02}"),
        [major, minor, ..] => format!("{major}.{minor:02}"),
        [major] => major.to_string(),
        [] => String::new(),
    }
}

/// `0x10de`, `4318` or `4318 (0x10de)`.
fn integer(text: &str) -> Option<u64> {
    let word = text.split([' ', '(']).next()?;
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut block = Block::default();
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if is_heading(line) {
            blocks.push(std::mem::replace(&mut block, Block { at, ..Block::default() }));
        } else if line.starts_with("memoryHeaps[") || line.starts_with("memoryTypes") {
            block.heap = None;
        } else if line.ends_with("DEVICE_LOCAL_BIT") || line == "DEVICE_LOCAL" {
            block.local_heap = block.local_heap.max(block.heap.take());
        }
        let Some((key, value)) = line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) else {
            continue;
        };
        if key == "size" {
            block.heap = integer(value);
        }
        let Some(key) = KEYS.into_iter().find(|known| *known == key) else { continue };
        // Output that grep has thinned out has no headings: a key that returns belongs to the next device.
        if matches!(key, "apiVersion" | "deviceName") && block.has(key) {
            blocks.push(std::mem::replace(&mut block, Block { at, ..Block::default() }));
        }
        if block.pairs.is_empty() && blocks.is_empty() && block.at == 0 {
            block.at = at;
        }
        if !block.has(key) {
            block.pairs.push((key, value));
        }
    }
    blocks.push(block);
    blocks.retain(Block::is_device);
    // Bound for hostile input: devices are compared pairwise.
    blocks.truncate(512);
    blocks
}

/// `GPU0:`, or `GPU id : 0 (name)` in old releases.
fn is_heading(line: &str) -> bool {
    let number = line.strip_prefix("GPU").and_then(|rest| rest.strip_suffix(':'));
    number.is_some_and(|number| number.parse::<u32>().is_ok()) || line.starts_with("GPU id ")
}

/// The group that shows the same hardware through another driver.
fn same_device(groups: &[Vec<&Block<'_>>], block: &Block<'_>) -> Option<usize> {
    let alike = |group: &Vec<&Block<'_>>, by: &dyn Fn(&Block<'_>) -> bool| {
        group.iter().any(|known| known.vendor() == block.vendor() && by(known))
    };
    let uuid = |known: &Block<'_>| block.uuid().is_some() && known.uuid() == block.uuid();
    if let Some(position) = groups.iter().position(|group| alike(group, &uuid)) {
        return Some(position);
    }
    let model = |known: &Block<'_>| {
        let ids = block.ids().is_some() && known.ids() == block.ids();
        ids || (block.plain_name().is_some() && known.plain_name() == block.plain_name())
    };
    // Two equal cards behind one driver are two: a group takes each driver once.
    let new_driver = |group: &Vec<&Block<'_>>| {
        block.driver().is_some() && group.iter().all(|known| known.driver() != block.driver())
    };
    groups.iter().position(|group| new_driver(group) && alike(group, &model))
}

fn gpu(group: &[&Block<'_>]) -> Option<Gpu> {
    let first = group.first()?;
    let kind = first.kind();
    let vendor = if kind == GpuType::Software { Some(Vendor::Other) } else { first.vendor() };
    let mut gpu = Gpu::of(vendor, KIND);
    gpu.at = first.at;
    gpu.kind = kind;
    gpu.name = first.get("deviceName").map(str::to_owned);
    let info = group.iter().find_map(|block| block.get("driverInfo")).map(str::to_owned);
    gpu.driver_version = info.or_else(|| group.iter().find_map(|block| block.version()));
    gpu.bus_id = group.iter().find_map(|block| block.bus_id());
    gpu.pci_id =
        first.ids().map(|(vendor, device)| pci::pci_id(vendor, device)).filter(|_| kind != GpuType::Software);
    gpu.apis = vec!["vulkan".to_owned()];
    if group
        .iter()
        .filter_map(|block| block.driver())
        .any(|driver| driver.contains("MOLTENVK") || driver.contains("KOSMICKRISP"))
    {
        gpu.apis.push("metal".to_owned());
    }
    if group.len() > 1 {
        gpu.drivers = group.iter().filter_map(|block| driver_line(block)).collect();
    }
    match kind {
        GpuType::Software => {
            gpu.set_usability(Usable::No, Evidence::Opened, "a software rasterizer: it runs on the CPU")
        }
        _ => gpu.set_usability(Usable::Yes, Evidence::Opened, "Vulkan opened it"),
    }
    gpu.unified_memory = (kind == GpuType::Integrated).then_some(true);
    if kind == GpuType::Discrete {
        gpu.memory_bytes = group.iter().filter_map(|block| block.local_heap).max();
    }
    if kind != GpuType::Software {
        // NVML spells the same identifier with this prefix.
        let prefix = if first.driver().is_some_and(|driver| driver.contains("NVIDIA_PROPRIETARY")) {
            "GPU-"
        } else {
            ""
        };
        gpu.uuid = first.uuid().map(|uuid| format!("{prefix}{uuid}"));
    }
    Some(gpu)
}

/// `radv Mesa 23.1.1`: name and version of a driver.
fn driver_line(block: &Block<'_>) -> Option<String> {
    let version = block.get("driverInfo").map(str::to_owned).or_else(|| block.version());
    let words: Vec<String> = block.get("driverName").map(str::to_owned).into_iter().chain(version).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn complaints(text: &str) -> impl Iterator<Item = Warning> {
    const PHRASES: [&str; 2] = ["Cannot create Vulkan instance", "vkCreateInstance failed"];
    let hint = "install a Vulkan driver for the GPU; `ls /usr/share/vulkan/icd.d` shows which are there";
    text.lines().filter(|line| PHRASES.iter().any(|phrase| line.contains(phrase))).map(move |line| Warning {
        source: KIND.to_owned(),
        message: line.trim().to_owned(),
        hint: Some(hint.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(n: u32, pairs: &[(&str, &str)]) -> String {
        let lines: String = pairs.iter().map(|(key, value)| format!("\t{key:<18} = {value}\n")).collect();
        format!("GPU{n}:\n{lines}")
    }

    fn radv(n: u32, uuid: &str) -> String {
        let pairs = [
            ("apiVersion", "1.3.274"),
            ("driverVersion", "24.0.5"),
            ("vendorID", "0x1002"),
            ("deviceID", "0x73bf"),
            ("deviceType", "PHYSICAL_DEVICE_TYPE_DISCRETE_GPU"),
            ("deviceName", "AMD Radeon RX 6800 (RADV NAVI21)"),
            ("driverID", "DRIVER_ID_MESA_RADV"),
            ("driverName", "radv"),
            ("driverInfo", "Mesa 24.0.5"),
            ("deviceUUID", uuid),
        ];
        block(n, &pairs)
    }

    fn amdvlk(n: u32, uuid: &str) -> String {
        let pairs = [
            ("driverVersion", "2.0.302"),
            ("vendorID", "0x1002"),
            ("deviceID", "0x73bf"),
            ("deviceType", "PHYSICAL_DEVICE_TYPE_DISCRETE_GPU"),
            ("deviceName", "AMD Radeon RX 6800"),
            ("driverID", "DRIVER_ID_AMD_OPEN_SOURCE"),
            ("driverName", "AMD open-source driver"),
            ("driverInfo", ""),
            ("deviceUUID", uuid),
        ];
        block(n, &pairs)
    }

    const A: &str = "00000000-0300-0000-0000-000000000000";
    const B: &str = "00000000-0600-0000-0000-000000000000";
    const ZERO: &str = "00000000-0000-0000-0000-000000000000";

    #[test]
    fn two_cards_behind_two_drivers_are_two() {
        for uuids in [[A, B], [ZERO, ZERO]] {
            let text = radv(0, uuids[0]) + &radv(1, uuids[1]) + &amdvlk(2, uuids[0]) + &amdvlk(3, uuids[1]);
            let report = parse(&text).unwrap();
            assert_eq!(report.gpus.len(), 2, "{uuids:?}");
            assert_eq!(report.gpus[0].name.as_deref(), Some("AMD Radeon RX 6800 (RADV NAVI21)"));
            assert_eq!(report.gpus[1].drivers, ["radv Mesa 24.0.5", "AMD open-source driver 2.0.302"]);
            assert_eq!(report.gpus[0].pci_id.as_deref(), Some("1002:73bf"));
        }
        let first = parse(&(amdvlk(0, A) + &radv(1, A))).unwrap();
        assert_eq!(first.gpus[0].driver_version.as_deref(), Some("Mesa 24.0.5"));
        assert_eq!(parse(&radv(0, A)).unwrap().gpus[0].drivers, [""; 0]);
    }

    #[test]
    fn types_vendors_and_verdicts() {
        let soft = [
            ("vendorID", "0x10005"),
            ("deviceID", "0x0000"),
            ("deviceType", "PHYSICAL_DEVICE_TYPE_CPU"),
            ("deviceName", "llvmpipe (LLVM 18.1.3, 256 bits)"),
            ("driverID", "DRIVER_ID_MESA_LLVMPIPE"),
        ];
        let venus = [
            ("vendorID", "0x8086"),
            ("deviceID", "0x4680"),
            ("deviceType", "PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU"),
            ("deviceName", "Virtio-GPU Venus (Intel(R) UHD Graphics 770)"),
            ("driverID", "DRIVER_ID_MESA_VENUS"),
        ];
        let text = block(0, &venus) + &block(1, &soft);
        let report = parse(&text).unwrap();
        let got: Vec<_> = report.gpus.iter().map(|g| (g.vendor, g.kind, g.usable_for_compute)).collect();
        assert_eq!(
            got,
            [
                (Some(Vendor::Intel), GpuType::Virtual, Usable::Yes),
                (Some(Vendor::Other), GpuType::Software, Usable::No),
            ]
        );
        assert_eq!(report.gpus[1].at, text.find("GPU1:").unwrap());
    }

    #[test]
    fn driver_versions_in_every_spelling() {
        let check = |vendor: &str, version: &str, want: &str| {
            let text = block(
                0,
                &[
                    ("driverVersion", version),
                    ("vendorID", vendor),
                    ("deviceType", "DISCRETE_GPU"),
                    ("deviceName", "x"),
                ],
            );
            assert_eq!(parse(&text).unwrap().gpus[0].driver_version.as_deref(), Some(want), "{version}");
        };
        check("0x10de", "565.77.0.0", "565.77");
        check("0x10de", "580.95.5.0", "580.95.05");
        check("0x10de", &format!("{} (0x0)", 470 << 22 | 82 << 14 | 1 << 6), "470.82.01");
        check("0x1002", "8388910 (0x80012e)", "2.0.302");
        check("0x1002", "2.0.294 (AMD proprietary)", "2.0.294");
    }

    #[test]
    fn full_output_adds_memory_and_address() {
        let text = "\
GPU0:
VkPhysicalDeviceProperties:
---------------------------
	apiVersion        = 4202641 (1.2.145)
	driverVersion     = 1846837248 (0x6e148000)
	vendorID          = 0x10de
	deviceID          = 0x1b81
	deviceType        = PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
	deviceName        = GeForce GTX 1070
VkPhysicalDeviceIDProperties:
	deviceUUID        = 51cbe5a9-0000-1111-2222-333344445555
VkPhysicalDevicePCIBusInfoPropertiesEXT:
	pciDomain   = 0
	pciBus      = 10
	pciDevice   = 0
	pciFunction = 0
VkPhysicalDeviceMemoryProperties:
memoryHeaps: count = 2
	memoryHeaps[0]:
		size   = 8589934592 (0x200000000) (8.00 GiB)
		flags: count = 1
			MEMORY_HEAP_DEVICE_LOCAL_BIT
	memoryHeaps[1]:
		size   = 25192826880 (0x5dd99c000) (23.46 GiB)
		flags:
			None
memoryTypes: count = 1
	memoryTypes[0]:
		propertyFlags = 0x0001: count = 1
			MEMORY_PROPERTY_DEVICE_LOCAL_BIT
";
        let gpu = parse(text).unwrap().gpus.remove(0);
        assert_eq!((gpu.memory_bytes, gpu.bus_id.as_deref()), (Some(8 << 30), Some("0000:0a:00.0")));
        assert_eq!(gpu.driver_version.as_deref(), Some("440.82"));
        assert_eq!(gpu.uuid.as_deref(), Some("51cbe5a9-0000-1111-2222-333344445555"));
    }

    #[test]
    fn thinned_out_cut_and_failed_output() {
        let thin = "        deviceName         = NVIDIA GeForce RTX 2060\n        deviceName         = Intel(R) UHD Graphics 630 (CFL GT2)\n";
        assert_eq!(parse(thin).unwrap().gpus.len(), 2);
        let cut = radv(0, A);
        let cut = &cut[..cut.find("\tdriverName").unwrap()];
        assert_eq!(parse(cut).unwrap().gpus[0].driver_version.as_deref(), Some("24.0.5"));
        let failed =
            parse("Cannot create Vulkan instance.\nvkCreateInstance failed with ERROR_INCOMPATIBLE_DRIVER\n")
                .unwrap();
        assert_eq!((failed.gpus.len(), failed.warnings.len()), (0, 2));
        assert_eq!(parse("GPU0:\nsize = 3\ndeviceName = my thing\n"), None);
    }

    #[test]
    fn apple_through_two_drivers() {
        let apple = |n, id: &str, driver: &str, name: &str, info: &str| {
            let pairs = [
                ("vendorID", "0x106b"),
                ("deviceID", id),
                ("deviceType", "PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU"),
                ("deviceName", "Apple M4"),
                ("driverID", driver),
                ("driverName", name),
                ("driverInfo", info),
            ];
            block(n, &pairs)
        };
        let text = apple(0, "0x1a030210", "DRIVER_ID_MOLTENVK", "MoltenVK", "1.4.0")
            + &apple(1, "0x0064", "DRIVER_ID_MESA_KOSMICKRISP", "KosmicKrisp", "Mesa 26.0.0");
        let report = parse(&text).unwrap();
        assert_eq!(report.gpus.len(), 1);
        assert_eq!(report.gpus[0].apis, ["vulkan", "metal"]);
        assert_eq!((report.gpus[0].pci_id.as_deref(), report.gpus[0].unified_memory), (None, Some(true)));
    }
}
