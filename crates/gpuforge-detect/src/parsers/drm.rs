//! Parser for the sysfs DRM tree: `/sys/class/drm/card*/device/*`, concatenated with headings.

use super::{driver_usability, kfd, lines_at};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
    sections::{Sections, value_of},
};

const KIND: &str = "sysfs-drm";

/// Drivers of which this tree says something else than a PCI listing does, or that only it shows; `-` and `_` are one.
const DRIVERS: [(&str, Usable, &str); 14] = [
    ("amdgpu", Usable::Unknown, "bound to amdgpu; whether it computes is known from /dev/kfd or Vulkan only"),
    ("panfrost", Usable::Unknown, "bound to panfrost; whether it computes is known from Vulkan only"),
    ("panthor", Usable::Unknown, "bound to panthor; whether it computes is known from Vulkan only"),
    ("msm", Usable::Unknown, "bound to msm; whether it computes is known from Vulkan only"),
    ("v3d", Usable::Unknown, "bound to v3d; whether it computes is known from Vulkan only"),
    ("gma500", Usable::No, "bound to gma500, which has no compute interface"),
    ("hibmc-drm", Usable::No, "server management chip"),
    ("virtio-gpu", Usable::No, "virtio virtual display; compute needs Venus, which Vulkan would show"),
    ("bochs", Usable::No, "QEMU standard VGA"),
    ("cirrus", Usable::No, "Cirrus Logic emulated VGA"),
    ("cirrus-qemu", Usable::No, "Cirrus Logic emulated VGA"),
    ("vboxvideo", Usable::No, "VirtualBox virtual display"),
    ("hyperv-drm", Usable::No, "Hyper-V virtual display"),
    ("xen-drm", Usable::No, "Xen virtual display"),
];

/// DRM devices that are no GPU at all: framebuffers, test drivers and USB displays.
const NOT_GPUS: [&str; 7] = ["simple-framebuffer", "efi-framebuffer", "vkms", "vgem", "evdi", "udl", "gud"];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let sections = sections(text);
    let known = kfd::addresses(&sections);
    let mut cards = cards(&sections);
    if cards.is_empty() {
        cards = bare(text);
    }
    report(&cards, &known)
}

/// The cards of a tree, without those that its KFD part covers.
pub(crate) fn read(sections: &Sections) -> Option<ProbeReport> {
    report(&cards(sections), &kfd::addresses(sections))
}

fn report(cards: &[Card<'_>], covered: &[String]) -> Option<ProbeReport> {
    let fresh = |gpu: &Gpu| gpu.bus_id.as_ref().is_none_or(|bus| !covered.contains(bus));
    let gpus: Vec<Gpu> = cards.iter().filter_map(Card::gpu).filter(fresh).collect();
    (!gpus.is_empty()).then(|| ProbeReport { gpus, ..ProbeReport::of(KIND) })
}

/// Files by path, from `==> path <==` headings, else from `grep . path/*` lines (`path:content`).
pub(super) fn sections(text: &str) -> Sections {
    let sections = Sections::parse(text);
    if !sections.is_empty() {
        return sections;
    }
    let mut files: Vec<(&str, String, usize)> = Vec::new();
    for (at, line) in lines_at(text) {
        let Some((path, content)) = split_grep(line.trim()) else { continue };
        match files.last_mut().filter(|(last, ..)| *last == path) {
            Some((_, whole, _)) => {
                whole.push('\n');
                whole.push_str(content);
            }
            None => files.push((path, content.to_owned(), at)),
        }
    }
    let mut sections = Sections::default();
    for (path, content, at) in files {
        sections.push(path, &content, at);
    }
    sections
}

/// Splits at the colon that ends the path; PCI addresses in it hold colons too.
fn split_grep(line: &str) -> Option<(&str, &str)> {
    if !line.contains("/device/") && !line.contains("/nodes/") {
        return None;
    }
    let name_at = line.split_once([' ', '=']).map_or(line, |(head, _)| head).rfind('/')?;
    let colon = name_at + line.get(name_at..)?.find(':')?;
    Some((line.get(..colon)?, line.get(colon + 1..)?))
}

/// One `cardN` or `renderDN` directory.
#[derive(Default)]
pub(super) struct Card<'a> {
    folder: &'a str,
    at: usize,
    files: Vec<(&'a str, &'a str)>,
}

impl Card<'_> {
    /// Content of a file; of all but uevent only the first line, because a paste may go on below the last file.
    fn get(&self, file: &str) -> Option<&str> {
        let found = self.files.iter().find(|(name, content)| *name == file && !content.is_empty());
        found.map(|(_, content)| if file == "uevent" { *content } else { first_line(content) })
    }

    fn event(&self, key: &str) -> Option<&str> {
        value_of(self.get("uevent")?, key).filter(|value| !value.is_empty())
    }

    /// Kernel driver by name.
    pub(super) fn driver(&self) -> Option<&str> {
        self.event("DRIVER")
    }

    /// PCI address.
    pub(super) fn bus_id(&self) -> Option<String> {
        self.event("PCI_SLOT_NAME").and_then(pci::bus_id)
    }

    /// Memory that amdgpu manages as the card's own.
    pub(super) fn vram(&self) -> Option<u64> {
        let amdgpu = self.get("mem_info_vram_total").and_then(number);
        // xe writes one file per tile.
        let tiles = self.files.iter().filter(|(name, _)| name.ends_with("physical_vram_size_bytes"));
        let xe = || tiles.filter_map(|(_, size)| number(size)).try_fold(0, u64::checked_add);
        amdgpu.or_else(xe).filter(|bytes| *bytes > 0)
    }

    /// System memory that amdgpu may map for it.
    pub(super) fn gtt(&self) -> Option<u64> {
        self.get("mem_info_gtt_total").and_then(number).filter(|bytes| *bytes > 0)
    }

    fn ids(&self) -> Option<(u16, u16)> {
        let files = || Some((pci::id16(self.get("vendor")?)?, pci::id16(self.get("device")?)?));
        self.event("PCI_ID").and_then(pci::split_id).or_else(files)
    }

    fn vendor_id(&self) -> Option<u16> {
        self.ids().map(|(vendor, _)| vendor).or_else(|| self.get("vendor").and_then(pci::id16))
    }

    fn class(&self) -> Option<u32> {
        let text = self.event("PCI_CLASS").or_else(|| self.get("class"))?;
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    }

    fn gpu(&self) -> Option<Gpu> {
        let driver = self.driver();
        let ids = self.ids();
        let known = ids.is_some()
            || self.bus_id().is_some()
            || driver.is_some_and(|driver| !NOT_GPUS.contains(&driver));
        if !known || self.class().is_some_and(|class| !pci::is_gpu_class(class)) {
            return None;
        }
        let vendor =
            self.vendor_id().map_or_else(|| vendor_of_driver(driver), |id| Some(pci::vendor(u32::from(id))));
        let mut gpu = Gpu::of(vendor, KIND);
        gpu.at = self.at;
        gpu.bus_id = self.bus_id();
        gpu.pci_id = ids.map(|(vendor, device)| pci::pci_id(vendor, device));
        gpu.kernel_driver = driver.map(str::to_owned);
        gpu.driver_version.clone_from(&gpu.kernel_driver);
        gpu.memory_bytes = self.vram();
        gpu.gtt_bytes = self.gtt();
        gpu.kind = self.kind(vendor, ids.map(|(_, device)| device), gpu.bus_id.as_deref());
        gpu.unified_memory =
            (gpu.kind == GpuType::Integrated && vendor != Some(Vendor::Other)).then_some(true);
        self.set_usability(&mut gpu);
        Some(gpu)
    }

    fn kind(&self, vendor: Option<Vendor>, device: Option<u16>, bus: Option<&str>) -> GpuType {
        const VIRTUAL: [&str; 12] = [
            "virtio-pci",
            "virtio-gpu",
            "qxl",
            "bochs",
            "bochs-drm",
            "cirrus",
            "cirrus-qemu",
            "vmwgfx",
            "vboxvideo",
            "hyperv-drm",
            "hyperv-fb",
            "xen-drm",
        ];
        if self.driver().is_some_and(|driver| VIRTUAL.contains(&driver.replace('_', "-").as_str())) {
            return GpuType::Virtual;
        }
        if let Some(chip) = self.vendor_id().and_then(|id| pci::console_only(Some(id), "")) {
            return if chip.emulated { GpuType::Virtual } else { GpuType::Integrated };
        }
        let named = self.ids().and_then(|(vendor, device)| pci::device_name(vendor, device));
        let by_facts = match vendor {
            Some(Vendor::Amd) => super::rocminfo::amd_type(None, device, None),
            // The PCI id database name tells integrated NVIDIA and virtual functions from cards.
            _ => classify::gpu_type(vendor, named, device, None, bus),
        };
        // A GPU that is no PCI device sits on the CPU.
        by_facts.unwrap_or(if self.ids().is_none() && bus.is_none() {
            GpuType::Integrated
        } else {
            GpuType::Unknown
        })
    }

    fn set_usability(&self, gpu: &mut Gpu) {
        let Some(driver) = self.driver() else {
            return gpu.set_usability(Usable::Unknown, Evidence::Listed, "no kernel driver is bound to it");
        };
        let spelled = driver.replace('_', "-");
        let here = DRIVERS.iter().find(|(name, ..)| *name == spelled).map(|(_, usable, why)| (*usable, *why));
        let chip = || {
            self.vendor_id()
                .and_then(|id| pci::console_only(Some(id), ""))
                .map(|chip| (Usable::No, chip.what))
        };
        match here.or_else(|| driver_usability(driver)).or_else(chip) {
            Some((usable, why)) => gpu.set_usability(usable, Evidence::Bound, why),
            None => gpu.set_usability(
                Usable::Unknown,
                Evidence::Bound,
                format!("bound to {driver}, which is not known to offer compute"),
            ),
        }
    }
}

/// GPUs on a system-on-chip carry no PCI ids; their driver tells the vendor.
fn vendor_of_driver(driver: Option<&str>) -> Option<Vendor> {
    match driver? {
        "asahi" => Some(Vendor::Apple),
        "nvidia" | "nouveau" | "tegra" | "tegra-host1x" | "drm" | "gk20a" | "gp10b" | "gv11b" | "ga10b" => {
            Some(Vendor::Nvidia)
        }
        _ => Some(Vendor::Other),
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("").trim()
}

fn number(text: &str) -> Option<u64> {
    let text = first_line(text);
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Every card once: `cardN` before `renderDN`, one per PCI address.
pub(super) fn cards(sections: &Sections) -> Vec<Card<'_>> {
    let mut folders: Vec<Card<'_>> = Vec::new();
    for (path, content, at) in sections.iter() {
        let Some((folder, file)) = path.split_once("/device/") else { continue };
        // Bound for hostile input: no machine has so many.
        if minor(folder).is_none() || folders.len() >= 1024 {
            continue;
        }
        match folders.iter_mut().rev().find(|card| card.folder == folder) {
            Some(card) => card.files.push((file, content)),
            None => folders.push(Card { folder, at, files: vec![(file, content)] }),
        }
    }
    folders.sort_by_key(|card| minor(card.folder) == Some("renderD"));
    let any_card = folders.iter().any(|card| minor(card.folder) == Some("card"));
    let mut seen: Vec<String> = Vec::new();
    folders.retain(|card| match card.bus_id() {
        Some(bus) if seen.contains(&bus) => false,
        Some(bus) => {
            seen.push(bus);
            true
        }
        None => !any_card || minor(card.folder) == Some("card"),
    });
    folders.sort_by_key(|card| card.at);
    folders
}

/// `card` or `renderD` when that and a number is the directory's name; connectors (`card0-DP-1`) are neither.
fn minor(folder: &str) -> Option<&'static str> {
    let name = folder.rsplit('/').next()?;
    ["card", "renderD"]
        .into_iter()
        .find(|prefix| name.strip_prefix(prefix).is_some_and(|n| n.parse::<u16>().is_ok()))
}

/// uevent files pasted without headings: each begins with its driver or class.
fn bare(text: &str) -> Vec<Card<'_>> {
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    let mut has_class = true;
    for (at, line) in lines_at(text) {
        let line = line.trim_start();
        let class = line.starts_with("PCI_CLASS=");
        if line.starts_with("DRIVER=") || (class && has_class) {
            blocks.push((at, text.len()));
            has_class = false;
        }
        has_class |= class;
    }
    let starts: Vec<usize> = blocks.iter().skip(1).map(|(at, _)| *at).collect();
    for (block, next) in blocks.iter_mut().zip(starts) {
        block.1 = next;
    }
    let card = |(at, end): (usize, usize)| {
        let uevent = text.get(at..end).unwrap_or("");
        let whole = value_of(uevent, "PCI_ID").is_some() && value_of(uevent, "PCI_CLASS").is_some();
        whole.then(|| Card { folder: "", at, files: vec![("uevent", uevent)] })
    };
    blocks.into_iter().filter_map(card).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uevent(card: &str, driver: &str, id: &str, slot: &str) -> String {
        format!(
            "==> /sys/class/drm/{card}/device/uevent <==\nDRIVER={driver}\nPCI_CLASS=30000\nPCI_ID={id}\nPCI_SLOT_NAME={slot}\n\n"
        )
    }

    #[test]
    fn cards_with_drivers() {
        let text = uevent("card0", "i915", "8086:4680", "0000:00:02.0")
            + &uevent("card1", "amdgpu", "1002:73BF", "0000:0b:00.0")
            + "==> /sys/class/drm/card1/device/mem_info_vram_total <==\n17163091968\n==> /sys/class/drm/card1/device/mem_info_gtt_total <==\n8000000000\n"
            + &uevent("card2", "nouveau", "10DE:1C03", "0000:01:00.0")
            + &uevent("card3", "ast", "1A03:2000", "0000:02:00.0")
            + &uevent("renderD128", "i915", "8086:4680", "0000:00:02.0")
            + "==> /sys/class/drm/card0-DP-1/device/uevent <==\nDRIVER=x\n==> /sys/class/drm/card9/device/uevent <==\n\n";
        let report = parse(&text).unwrap();
        let got: Vec<_> = report
            .gpus
            .iter()
            .map(|g| (g.bus_id.as_deref().unwrap(), g.kind, g.usable_for_compute))
            .collect();
        assert_eq!(
            got,
            [
                ("0000:00:02.0", GpuType::Integrated, Usable::Yes),
                ("0000:0b:00.0", GpuType::Discrete, Usable::Unknown),
                ("0000:01:00.0", GpuType::Discrete, Usable::No),
                ("0000:02:00.0", GpuType::Integrated, Usable::No),
            ]
        );
        let radeon = &report.gpus[1];
        assert_eq!((radeon.memory_bytes, radeon.gtt_bytes), (Some(17_163_091_968), Some(8_000_000_000)));
        assert_eq!(
            (radeon.driver_version.as_deref(), radeon.pci_id.as_deref()),
            (Some("amdgpu"), Some("1002:73bf"))
        );
        assert_eq!(radeon.name, None);
        assert_eq!(report.gpus[0].at, 0);
    }

    #[test]
    fn id_files_stand_in_for_an_unreadable_uevent() {
        let text = "==> card0/device/uevent <==\n\n==> card0/device/vendor <==\n0x8086\n==> card0/device/device <==\n0x56a0\n==> card0/device/class <==\n0x030000\n==> card0/device/tile0/physical_vram_size_bytes <==\n0x3fa000000\n";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus[0].pci_id.as_deref(), Some("8086:56a0"));
        assert_eq!((report.gpus[0].kind, report.gpus[0].bus_id.as_deref()), (GpuType::Discrete, None));
        assert_eq!(report.gpus[0].memory_bytes, Some(17_079_205_888));
        assert_eq!(report.gpus[0].usable_for_compute, Usable::Unknown);
    }

    #[test]
    fn platform_and_paravirtual_devices() {
        let text = "==> card0/device/uevent <==\nDRIVER=asahi\nOF_NAME=gpu\n==> card1/device/uevent <==\nDRIVER=virtio_gpu\nMODALIAS=virtio:d00000010v00001AF4\n==> card2/device/uevent <==\nDRIVER=simple-framebuffer\n";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        assert_eq!((report.gpus[0].vendor, report.gpus[0].kind), (Some(Vendor::Apple), GpuType::Integrated));
        assert_eq!((report.gpus[1].kind, report.gpus[1].usable_for_compute), (GpuType::Virtual, Usable::No));
    }

    #[test]
    fn grep_lines_and_bare_uevents() {
        let grep = "/sys/class/drm/card0/device/uevent:DRIVER=xe\n/sys/class/drm/card0/device/uevent:PCI_CLASS=30000\n/sys/class/drm/card0/device/uevent:PCI_ID=8086:E212\n/sys/class/drm/card0/device/uevent:PCI_SLOT_NAME=0000:04:00.0\n";
        let got = parse(grep).unwrap();
        assert_eq!(
            (got.gpus[0].bus_id.as_deref(), got.gpus[0].kind),
            (Some("0000:04:00.0"), GpuType::Discrete)
        );
        let bare = "$ cat uevent\nDRIVER=nvidia\nPCI_CLASS=30000\nPCI_ID=10DE:2684\nPCI_SLOT_NAME=0000:01:00.0\nDRIVER=nvme\nPCI_CLASS=10802\nPCI_ID=144D:A80A\nPCI_SLOT_NAME=0000:05:00.0\n";
        let got = parse(bare).unwrap();
        assert_eq!(got.gpus.len(), 1);
        assert_eq!((got.gpus[0].vendor, got.gpus[0].usable_for_compute), (Some(Vendor::Nvidia), Usable::Yes));
        assert_eq!(parse("DRIVER=nvidia\n"), None);
    }

    #[test]
    fn cards_that_kfd_covers_are_left_to_it() {
        let node = "==> nodes/1/properties <==\nsimd_count 160\ngfx_target_version 100300\nvendor_id 4098\ndevice_id 29631\nlocation_id 2816\ndomain 0\n";
        let text = uevent("card0", "amdgpu", "1002:73BF", "0000:0b:00.0") + node;
        assert_eq!(parse(&text), None);
        let both = text + &uevent("card1", "i915", "8086:4680", "0000:00:02.0");
        assert_eq!(parse(&both).map(|r| r.gpus.len()), Some(1));
    }
}
