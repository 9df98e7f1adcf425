//! Which GPUs does `lspci` list? Plain, `-n`, `-nn`, `-nnk`, with or without PCI domain.

use super::lines_at;
use crate::{
    families,
    model::{Evidence, Gpu, GpuType, Report, Usable, Vendor},
    pci,
};

/// Classes that are GPUs, as lspci writes them when it prints no numbers.
const CLASSES: [&str; 5] = [
    "VGA compatible controller",
    "XGA compatible controller",
    "3D controller",
    "Display controller",
    "Processing accelerators",
];

/// Processing accelerators that are not GPUs.
const NOT_GPUS: [&str; 9] = [
    "npu",
    "vpu",
    "ai boost",
    "data streaming",
    "in-memory analytics",
    "quickassist",
    "xilinx",
    "alveo",
    "ipu signal",
];

pub(crate) fn parse(text: &str) -> Option<Report> {
    let mut gpus: Vec<Gpu> = Vec::new();
    let (mut numeric, mut drivers_shown, mut entries) = (false, false, 0);
    let mut current_is_gpu = false;
    for (at, line) in lines_at(text) {
        if let Some(entry) = Entry::parse(line) {
            entries += 1;
            numeric |= entry.id.is_some();
            current_is_gpu = entry.is_gpu();
            if current_is_gpu {
                gpus.push(entry.gpu(at));
            }
        } else if entries > 0
            && let Some((key, value)) = line.trim().split_once(": ")
        {
            drivers_shown |=
                matches!(key, "Subsystem" | "Kernel driver in use" | "Kernel modules" | "DeviceName");
            if key == "Kernel driver in use"
                && current_is_gpu
                && let Some(gpu) = gpus.last_mut()
            {
                gpu.kernel_driver = value.split_whitespace().next().map(str::to_owned);
            }
        }
    }
    let kind = match (numeric, drivers_shown) {
        (true, true) => "lspci-nnk",
        (true, false) => "lspci-nn",
        (false, _) => "lspci",
    };
    (entries > 0).then(|| {
        let mut report = Report::of(kind);
        report.gpus = gpus;
        for gpu in &mut report.gpus {
            gpu.sources = vec![kind.to_owned()];
            judge(gpu, drivers_shown);
        }
        report
    })
}

/// One device line.
struct Entry<'a> {
    bus: String,
    class: &'a str,
    class_code: Option<u32>,
    what: &'a str,
    id: Option<(u16, u16)>,
}

impl<'a> Entry<'a> {
    /// `[dddd:]bb:dd.f CLASS[ [cccc]]: WHAT[ [vvvv:dddd]][ (rev rr)]`, or `bb:dd.f cccc: vvvv:dddd`.
    fn parse(line: &'a str) -> Option<Self> {
        let (address, rest) = line.trim().split_once(' ')?;
        let bus = pci::bus_id(address)?;
        let (class, what) = rest.split_once(": ")?;
        let what = cut_tail(what);
        let (class, class_code) = match class.rsplit_once(" [") {
            Some((class, code)) => (class, pci::id16(code.trim_end_matches(']')).map(|c| u32::from(c) << 8)),
            None if class.len() == 4 => (class, pci::id16(class).map(|c| u32::from(c) << 8)),
            None => (class, None),
        };
        let (what, id) = match what.rsplit_once(" [") {
            Some((name, id)) if pci::split_id(id.trim_end_matches(']')).is_some() => {
                (name, pci::split_id(id.trim_end_matches(']')))
            }
            _ => (what, pci::split_id(what)),
        };
        // An lspci class is words; this keeps prose such as "10:20.1 we saw: …" out.
        let known_class =
            class_code.is_some() || class.starts_with(|c: char| c.is_ascii_uppercase() || c == '3');
        known_class.then_some(Entry { bus, class, class_code, what, id })
    }

    fn is_gpu(&self) -> bool {
        let class = match self.class_code {
            Some(code) => pci::is_gpu_class(code),
            None => CLASSES.contains(&self.class),
        };
        let lower = self.what.to_ascii_lowercase();
        let accelerator =
            self.class_code.map_or(self.class == "Processing accelerators", |c| c >> 8 == 0x1200);
        class && !(accelerator && NOT_GPUS.iter().any(|w| lower.contains(w)))
    }

    fn gpu(&self, at: usize) -> Gpu {
        let vendor_id = self.id.map(|(vendor, _)| vendor);
        let console = pci::console_only(vendor_id, self.what);
        let vendor = match vendor_id {
            Some(id) => pci::vendor(u32::from(id)),
            None if console.is_some() => Vendor::Other,
            None => pci::vendor_in_name(self.what).unwrap_or(Vendor::Other),
        };
        let mut gpu = Gpu::of(Some(vendor), "lspci");
        gpu.name = self.name();
        gpu.pci_id = self.id.map(|(v, d)| pci::pci_id(v, d));
        gpu.pci_name = self.id.and_then(|(v, d)| pci::device_name(v, d)).map(str::to_owned);
        gpu.kind = match console {
            Some(chip) if chip.emulated => GpuType::Virtual,
            Some(_) => GpuType::Integrated,
            None => families::classify(
                Some(vendor),
                Some(gpu.name.as_deref().unwrap_or("")),
                self.id.map(|(_, d)| d),
                None,
                Some(&self.bus),
            )
            .unwrap_or_default(),
        };
        gpu.bus_id = Some(self.bus.clone());
        gpu.at = at;
        gpu
    }

    /// The device without its vendor; an id that lspci could not name stays visible as `Device [vvvv:dddd]`.
    fn name(&self) -> Option<String> {
        let name = without_vendor(self.what, self.id.map(|(v, _)| v)).trim();
        match self.id {
            Some((vendor, device)) if name == "Device" => {
                Some(format!("Device [{}]", pci::pci_id(vendor, device)))
            }
            Some(_) if pci::split_id(name).is_some() => None,
            _ if name.is_empty() => None,
            _ => Some(name.to_owned()),
        }
    }
}

/// Takes `(rev a1)`, `(prog-if 00 [VGA controller])` and the like off the end.
fn cut_tail(what: &str) -> &str {
    let mut what = what.trim_end();
    while let Some((head, tail)) = what.rsplit_once(" (") {
        if tail.starts_with("rev ") || tail.starts_with("prog-if ") {
            what = head.trim_end();
        } else {
            break;
        }
    }
    what
}

/// Drops the maker's name from the front. One-word makers stay ("VMware SVGA II Adapter"): the rest alone says little.
fn without_vendor(what: &str, vendor: Option<u16>) -> &str {
    /// Spellings of older id lists.
    const OLDER: [&str; 8] = [
        "nVidia Corporation",
        "ATI Technologies Inc",
        "Advanced Micro Devices [AMD/ATI]",
        "Advanced Micro Devices [AMD] nee ATI",
        "Advanced Micro Devices, Inc. [AMD]",
        "Advanced Micro Devices, Inc.",
        "Matrox Graphics, Inc.",
        "Red Hat, Inc",
    ];
    let strip = |name: &str| what.strip_prefix(name).and_then(|rest| rest.strip_prefix(' '));
    let known = vendor.and_then(pci::vendor_name).filter(|n| n.contains(' ')).and_then(strip);
    let listed = || {
        pci_ids::Vendors::iter()
            .map(pci_ids::Vendor::name)
            .filter(|n| n.contains(' ') && strip(n).is_some())
            .max_by_key(|n| n.len())
            .and_then(strip)
    };
    known.or_else(|| OLDER.iter().find_map(|n| strip(n))).or_else(listed).unwrap_or(what)
}

/// What a kernel driver means for compute; one row a driver.
pub(crate) fn judge_driver(driver: &str) -> Option<(Usable, &'static str)> {
    const ROWS: [(&str, Usable, &str); 19] = [
        ("nvidia", Usable::Yes, "the nvidia kernel module drives it"),
        ("amdgpu", Usable::Yes, "the amdgpu kernel module drives it"),
        ("xe", Usable::Yes, "the xe kernel module drives it"),
        ("i915", Usable::Yes, "the i915 kernel module drives it"),
        ("asahi", Usable::Yes, "the asahi kernel module drives it"),
        ("nouveau", Usable::No, "bound to nouveau, which offers no CUDA: install the NVIDIA driver"),
        ("radeon", Usable::No, "bound to the old radeon driver, which offers no compute: try amdgpu"),
        ("vfio-pci", Usable::No, "bound to vfio-pci: handed to a virtual machine"),
        ("pci-stub", Usable::No, "bound to pci-stub: kept for a virtual machine"),
        ("pciback", Usable::No, "bound to pciback: handed to a Xen guest"),
        ("xen-pciback", Usable::No, "bound to xen-pciback: handed to a Xen guest"),
        ("gim", Usable::No, "bound to gim, which only splits it into virtual functions"),
        ("ast", Usable::No, "server management chip"),
        ("mgag200", Usable::No, "server management chip"),
        ("virtio-pci", Usable::No, "virtio virtual display"),
        ("qxl", Usable::No, "QXL virtual display"),
        ("bochs-drm", Usable::No, "QEMU standard VGA"),
        ("vmwgfx", Usable::No, "VMware virtual display"),
        ("hyperv_drm", Usable::No, "Hyper-V virtual display"),
    ];
    ROWS.iter().find(|(name, ..)| *name == driver).map(|(_, usable, why)| (*usable, *why))
}

fn judge(gpu: &mut Gpu, drivers_shown: bool) {
    let vendor = gpu.pci_id.as_deref().and_then(pci::split_id).map(|(v, _)| v);
    if let Some(chip) = pci::console_only(vendor, gpu.name.as_deref().unwrap_or("")) {
        // A display chip's kernel driver is the whole driver: nothing in user space has a version of its own.
        gpu.driver_version.clone_from(&gpu.kernel_driver);
        gpu.judge(Usable::No, Evidence::Bound, chip.what);
        return;
    }
    match gpu.kernel_driver.as_deref() {
        Some(driver) => match judge_driver(driver) {
            Some((usable, why)) => gpu.judge(usable, Evidence::Bound, why),
            None => {
                let why = format!("bound to {driver}, which is not known to offer compute");
                gpu.judge(Usable::Unknown, Evidence::Bound, why);
            }
        },
        None if drivers_shown => {
            gpu.judge(Usable::Unknown, Evidence::Listed, "no kernel driver is bound to it")
        }
        None if gpu.kind == GpuType::Discrete => {
            gpu.judge(
                Usable::Yes,
                Evidence::Listed,
                "a compute card by its name; its driver is not shown in this listing",
            );
        }
        None => gpu.judge(Usable::Unknown, Evidence::Listed, "this listing does not show its driver"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Gpu {
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 1, "{:?}", report.gpus);
        report.gpus[0].clone()
    }

    #[test]
    fn plain_nn_and_n() {
        let gpu =
            one("65:00.0 VGA compatible controller: NVIDIA Corporation TU102 [GeForce RTX 2080 Ti] (rev a1)");
        assert_eq!(
            (gpu.name.as_deref(), gpu.bus_id.as_deref()),
            (Some("TU102 [GeForce RTX 2080 Ti]"), Some("0000:65:00.0"))
        );
        let gpu = one(
            "01:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 40GB] [10de:20f1] (rev a1) (prog-if 00)",
        );
        assert_eq!((gpu.pci_id.as_deref(), gpu.kind), (Some("10de:20f1"), GpuType::Discrete));
        let gpu = one("01:00.0 0300: 10de:1b80 (rev a1)\n01:00.1 0403: 10de:10f0 (rev a1)");
        assert_eq!((gpu.vendor, gpu.name.as_deref()), (Some(Vendor::Nvidia), None));
        assert!(gpu.pci_name.is_some_and(|n| n.contains("1080")));
        let gpu = one("01:05.0 VGA compatible controller: ATI Technologies Inc RS880 [Radeon HD 4200]");
        assert_eq!((gpu.vendor, gpu.name.as_deref()), (Some(Vendor::Amd), Some("RS880 [Radeon HD 4200]")));
    }

    #[test]
    fn the_bound_driver_decides() {
        let with = |driver: &str| {
            one(&format!(
                "0a:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP104 [GeForce GTX 1070] [10de:1b81] (rev a1)\n\
                 \tSubsystem: Micro-Star [1462:3302]\n\tKernel driver in use: {driver}\n\tKernel modules: nouveau, nvidia\n"
            ))
        };
        assert_eq!(with("nvidia").usable_for_compute, Usable::Yes);
        assert_eq!(with("vfio-pci").usable_for_compute, Usable::No);
        assert_eq!(with("nouveau").usable_for_compute, Usable::No);
        assert_eq!(with("something").usable_for_compute, Usable::Unknown);
        assert_eq!(parse("0a:00.0 VGA compatible controller [0300]: Intel Corporation X [8086:1912]\n\tSubsystem: D [1:2]").unwrap().kind, "lspci-nnk");
    }

    #[test]
    fn chips_that_only_display() {
        let qxl =
            one("00:01.0 VGA compatible controller: Red Hat, Inc. QXL paravirtual graphic card (rev 05)");
        assert_eq!(
            (qxl.kind, qxl.usable_for_compute, qxl.vendor),
            (GpuType::Virtual, Usable::No, Some(Vendor::Other))
        );
        assert_eq!(qxl.name.as_deref(), Some("QXL paravirtual graphic card"));
        let bmc =
            one("03:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 30)");
        assert_eq!((bmc.kind, bmc.usable_for_compute), (GpuType::Integrated, Usable::No));
        let std = one("00:02.0 VGA compatible controller: Device 1234:1111 (rev 02)");
        assert_eq!((std.kind, std.usable_for_compute), (GpuType::Virtual, Usable::No));
    }

    #[test]
    fn bridges_audio_and_npus_are_no_gpus() {
        let text = "00:0b.0 Processing accelerators [1200]: Intel Corporation Meteor Lake NPU [8086:7d1d] (rev 04)\n\
                    0000:08:00.0 Bridge [0680]: NVIDIA Corporation GA100 [A100 NVSwitch] [10de:1af1] (rev a1)\n\
                    01:00.1 Audio device [0403]: NVIDIA Corporation GP104 High Definition Audio Controller [10de:10f0]\n";
        assert_eq!(parse(text).unwrap().gpus, []);
        assert_eq!(parse("at 10:20.1 we saw: nothing\nother prose"), None);
    }
}
