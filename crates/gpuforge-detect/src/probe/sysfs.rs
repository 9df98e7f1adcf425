//! Tier-0 probe: sysfs and procfs (PCI list, bound drivers, DRM, KFD topology, `/proc/driver/nvidia`).
//!
//! No device is woken: ids, classes, drivers and cached sizes are read, never PCI configuration space.

use super::filesystem::FileSystem;
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    parsers::{driver_usability, drm, kfd, nvidia_proc},
    pci,
    sections::Sections,
};

const PCI: &str = "/sys/bus/pci/devices";
const DRM: &str = "/sys/class/drm";
const KFD: &str = "/sys/class/kfd/kfd/topology/nodes";
const NVIDIA: &str = "/proc/driver/nvidia";

/// Reports of every kernel source, the PCI list first.
pub fn read(files: &dyn FileSystem) -> Vec<ProbeReport> {
    let pci = pci_devices(files);
    let suspended: Vec<String> = suspended(files, &pci);
    [Some(pci), nvidia(files, &suspended), kfd_nodes(files), platform(files)].into_iter().flatten().collect()
}

/// Is there an NVIDIA driver that the PCI list does not show (WSL, containers)?
pub fn nvidia_hint(files: &dyn FileSystem) -> bool {
    ["/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg", "/dev/nvgpu"]
        .iter()
        .any(|p| files.exists(p))
}

/// Devices of a GPU class, in the order of their addresses.
fn pci_devices(files: &dyn FileSystem) -> ProbeReport {
    let mut report = ProbeReport::of("pci");
    for name in files.list(PCI) {
        let at = |file: &str| format!("{PCI}/{name}/{file}");
        let class = files.read(&at("class")).and_then(|c| parse_class(&c));
        let Some(class) = class.filter(|c| pci::is_gpu_class(*c)) else { continue };
        let id = |file: &str| files.read(&at(file)).and_then(|text| pci::id16(&text));
        let (Some(vendor), Some(device)) = (id("vendor"), id("device")) else { continue };
        if !pci::is_gpu(class, Some(vendor), "") {
            continue;
        }
        let mut gpu =
            pci_gpu(&name, vendor, device, files.link(&at("driver")), files.link(&at("physfn")).is_some());
        let bytes = |file: &str| files.read(&at(file)).and_then(|text| text.trim().parse::<u64>().ok());
        gpu.memory_bytes = bytes("mem_info_vram_total");
        gpu.gtt_bytes = bytes("mem_info_gtt_total");
        gpu.at = report.gpus.len();
        report.gpus.push(gpu);
    }
    report
}

/// `0x030000`
fn parse_class(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

/// One PCI device as the kernel lists it; pure.
fn pci_gpu(address: &str, vendor: u16, device: u16, driver: Option<String>, virtual_function: bool) -> Gpu {
    let name = pci::device_name(vendor, device);
    // WSL exposes the host's GPU as a Microsoft adapter; its capabilities are known to the drivers inside.
    let wsl = pci::is_wsl_gpu(Some(vendor), &format!("{device:04x}"));
    let console = pci::console_only(Some(vendor), "").filter(|_| !wsl);
    let mut gpu = Gpu::of(Some(pci::vendor(u32::from(vendor))), "pci");
    gpu.bus_id = pci::bus_id(address);
    gpu.pci_id = Some(pci::pci_id(vendor, device));
    gpu.pci_name = name.map(str::to_owned);
    gpu.kind = match console {
        Some(chip) if chip.emulated => GpuType::Virtual,
        Some(_) => GpuType::Integrated,
        None if virtual_function || wsl => GpuType::Virtual,
        None => classify::gpu_type(gpu.vendor, name, Some(device), None, gpu.bus_id.as_deref())
            .unwrap_or_default(),
    };
    match (console, driver.as_deref()) {
        (Some(chip), _) => gpu.set_usability(Usable::No, Evidence::Bound, chip.what),
        (None, _) if wsl => {
            gpu.set_usability(Usable::Unknown, Evidence::Bound, "WSL's view of the host's GPU")
        }
        (None, None) => gpu.set_usability(Usable::No, Evidence::Bound, "no kernel driver is bound to it"),
        (None, Some(driver)) => match driver_usability(driver) {
            Some((usable, why)) => gpu.set_usability(usable, Evidence::Bound, why),
            None => gpu.set_usability(Usable::Unknown, Evidence::Bound, format!("bound to {driver}")),
        },
    }
    gpu.kernel_driver = driver;
    gpu
}

/// Addresses of runtime-suspended devices: querying their driver would wake them.
fn suspended(files: &dyn FileSystem, pci: &ProbeReport) -> Vec<String> {
    let is_suspended = |bus: &String| {
        files.read(&format!("{PCI}/{bus}/power/runtime_status")).is_some_and(|s| s.trim() == "suspended")
    };
    pci.gpus.iter().filter_map(|g| g.bus_id.clone()).filter(is_suspended).collect()
}

/// `/proc/driver/nvidia`: the kernel module's own listing.
fn nvidia(files: &dyn FileSystem, suspended: &[String]) -> Option<ProbeReport> {
    let mut text = files.read(&format!("{NVIDIA}/version"))?;
    for name in files.list(&format!("{NVIDIA}/gpus")) {
        if pci::bus_id(&name).is_some_and(|bus| suspended.contains(&bus)) {
            continue;
        }
        if let Some(block) = files.read(&format!("{NVIDIA}/gpus/{name}/information")) {
            text.push('\n');
            text.push_str(&block);
        }
    }
    let mut report = nvidia_proc::parse(&text)?;
    order_last(&mut report, "nvidia-proc");
    Some(report)
}

/// KFD topology: the AMD compute driver's nodes.
fn kfd_nodes(files: &dyn FileSystem) -> Option<ProbeReport> {
    let mut sections = Sections::default();
    for node in files.list(KFD) {
        let mut add = |file: &str| {
            let path = format!("{KFD}/{node}/{file}");
            if let Some(text) = files.read(&path) {
                sections.push(&path, &text, 0);
            }
        };
        ["gpu_id", "name", "properties"].into_iter().for_each(&mut add);
        for bank in files.list(&format!("{KFD}/{node}/mem_banks")) {
            add(&format!("mem_banks/{bank}/properties"));
        }
    }
    let mut report = kfd::read(&sections)?;
    order_last(&mut report, "kfd");
    Some(report)
}

/// Platform devices: SoC GPUs without a PCI bus.
fn platform(files: &dyn FileSystem) -> Option<ProbeReport> {
    /// Kernel driver, vendor, name. Display-only controllers are not listed.
    const ROWS: [(&str, Vendor, &str); 8] = [
        ("asahi", Vendor::Apple, "Apple silicon GPU"),
        ("nvgpu", Vendor::Nvidia, "NVIDIA Tegra GPU"),
        ("gk20a", Vendor::Nvidia, "NVIDIA Tegra GPU"),
        ("msm_dpu", Vendor::Other, "Qualcomm Adreno GPU"),
        ("msm", Vendor::Other, "Qualcomm Adreno GPU"),
        ("panfrost", Vendor::Other, "Arm Mali GPU"),
        ("panthor", Vendor::Other, "Arm Mali GPU"),
        ("v3d", Vendor::Other, "Broadcom VideoCore GPU"),
    ];
    let mut report = ProbeReport::of("platform");
    let cards = files.list(DRM).into_iter().filter(|n| n.starts_with("card") && !n.contains('-'));
    for card in cards {
        let Some(uevent) = files.read(&format!("{DRM}/{card}/device/uevent")) else { continue };
        if uevent.contains("PCI_SLOT_NAME=") {
            continue;
        }
        let driver = crate::sections::value_of(&uevent, "DRIVER").unwrap_or("");
        if let Some((_, vendor, name)) = ROWS.iter().find(|(d, ..)| *d == driver) {
            let mut gpu = Gpu::of(Some(*vendor), "platform");
            gpu.name = Some((*name).to_owned());
            gpu.kernel_driver = Some(driver.to_owned());
            gpu.kind = GpuType::Integrated;
            gpu.unified_memory = Some(true);
            gpu.set_usability(
                Usable::Unknown,
                Evidence::Bound,
                format!("the {driver} kernel module drives it"),
            );
            report.gpus.push(gpu);
        }
    }
    order_last(&mut report, "platform");
    (!report.gpus.is_empty()).then_some(report)
}

/// Orders devices of a source without positions after the PCI list, and sets the probe's name as their source.
fn order_last(report: &mut ProbeReport, source: &str) {
    source.clone_into(&mut report.kind);
    for gpu in &mut report.gpus {
        gpu.at = usize::MAX;
        gpu.sources = vec![source.to_owned()];
    }
}

/// `/sys/class/drm` cards, for a machine whose PCI directory is hidden (some containers).
pub fn drm_cards(files: &dyn FileSystem) -> Option<ProbeReport> {
    let mut sections = Sections::default();
    for card in files.list(DRM).into_iter().filter(|n| n.starts_with("card") && !n.contains('-')) {
        for file in ["uevent", "vendor", "device", "mem_info_vram_total", "mem_info_gtt_total"] {
            let path = format!("{DRM}/{card}/device/{file}");
            if let Some(text) = files.read(&path) {
                sections.push(&path, &text, 0);
            }
        }
    }
    let mut report = drm::read(&sections)?;
    order_last(&mut report, "drm");
    Some(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::filesystem::RecordedFs;

    fn tree(driver: Option<&str>, extra: &[(&str, &str)]) -> RecordedFs {
        let device = "/sys/bus/pci/devices/0000:01:00.0";
        let mut files = RecordedFs::of(&[
            (&format!("{device}/class"), "0x030200\n"),
            (&format!("{device}/vendor"), "0x10de\n"),
            (&format!("{device}/device"), "0x20b5\n"),
            ("/sys/bus/pci/devices/0000:00:1f.0/class", "0x060100\n"),
        ]);
        files.files.extend(extra.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())));
        if let Some(driver) = driver {
            files.links.insert(format!("{device}/driver"), driver.to_owned());
        }
        files
    }

    #[test]
    fn the_pci_list_gives_name_type_and_usability() {
        let report = &read(&tree(Some("nvidia"), &[]))[0];
        let [gpu] = report.gpus.as_slice() else { panic!("{report:?}") };
        assert_eq!(
            (gpu.vendor, gpu.kind, gpu.usable_for_compute),
            (Some(Vendor::Nvidia), GpuType::Discrete, Usable::Yes)
        );
        assert!(gpu.pci_name.as_deref().is_some_and(|n| n.contains("A100")), "{:?}", gpu.pci_name);
        let unbound = &read(&tree(None, &[]))[0].gpus[0];
        assert_eq!(unbound.usable_for_compute, Usable::No);
    }

    #[test]
    fn an_npu_is_not_a_gpu_and_wsl_shows_the_host_gpu() {
        let device = |class: &str, vendor: &str, device: &str| {
            let at = "/sys/bus/pci/devices/0000:00:0b.0";
            let files = [("class", class), ("vendor", vendor), ("device", device)];
            let files = files.map(|(f, t)| (format!("{at}/{f}"), t.to_owned()));
            RecordedFs { files: files.into(), ..RecordedFs::default() }
        };
        assert_eq!(read(&device("0x120000", "0x8086", "0x7d1d"))[0].gpus, []);
        let wsl = &read(&device("0x030200", "0x1414", "0x008e"))[0].gpus[0];
        assert_eq!((wsl.kind, wsl.usable_for_compute), (GpuType::Virtual, Usable::Unknown));
    }

    #[test]
    fn a_suspended_gpu_is_not_queried() {
        let block = "Model: \t NVIDIA A100\nBus Location: \t 0000:01:00.0\n";
        let extra = [
            (
                "/proc/driver/nvidia/version",
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu\n",
            ),
            ("/proc/driver/nvidia/gpus/0000:01:00.0/information", block),
        ];
        let awake = read(&tree(Some("nvidia"), &extra));
        assert_eq!(awake[1].gpus.len(), 1);
        let status = ("/sys/bus/pci/devices/0000:01:00.0/power/runtime_status", "suspended\n");
        let asleep = read(&tree(Some("nvidia"), &[extra[0], extra[1], status]));
        assert_eq!((asleep[1].gpus.len(), asleep[1].driver_version.as_deref()), (0, Some("550.54.14")));
    }

    #[test]
    fn soc_gpus_are_found_without_pci() {
        let files = RecordedFs::of(&[("/sys/class/drm/card0/device/uevent", "DRIVER=asahi\nOF_NAME=gpu\n")]);
        let reports = read(&files);
        assert_eq!(reports[1].gpus[0].vendor, Some(Vendor::Apple));
    }

    #[test]
    fn no_files_means_no_devices() {
        let reports = read(&RecordedFs::default());
        assert!(reports.iter().all(|r| r.gpus.is_empty()));
        assert!(!nvidia_hint(&RecordedFs::default()));
    }
}
