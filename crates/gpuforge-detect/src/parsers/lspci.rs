//! Parser for `lspci`: plain, `-n`, `-nn`, `-k`, `-v`, `-mm`, `-vmm`, with or without PCI domain.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use super::lines_at;
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
};

/// GPU class names, as lspci prints them without numeric ids.
const CLASSES: [(&str, u32); 5] = [
    ("VGA compatible controller", 0x03_0000),
    ("XGA compatible controller", 0x03_0100),
    ("3D controller", 0x03_0200),
    ("Display controller", 0x03_8000),
    ("Processing accelerators", 0x12_0000),
];

/// Last words of all class names: they tell a device line from prose such as "10:20.1 We saw: …".
const CLASS_WORDS: [&str; 22] = [
    "controller",
    "bridge",
    "Bridge",
    "interface",
    "device",
    "peripheral",
    "accelerators",
    "memory",
    "Memory",
    "SMBus",
    "storage",
    "Modem",
    "modem",
    "processor",
    "counters",
    "timer",
    "hub",
    "PIC",
    "RTC",
    "Instrumentation",
    "Controller",
    "class",
];

/// Vendor names of several words, by the first: one-word vendors stay in the name ("VMware SVGA II Adapter").
static MAKERS: LazyLock<HashMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    /// Spellings of older id lists.
    const OLDER: [&str; 10] = [
        "nVidia Corporation",
        "ATI Technologies Inc",
        "ATI Technologies Inc.",
        "AMD/ATI",
        "Advanced Micro Devices [AMD/ATI]",
        "Advanced Micro Devices [AMD] nee ATI",
        "Advanced Micro Devices, Inc. [AMD]",
        "Advanced Micro Devices, Inc.",
        "Matrox Graphics, Inc.",
        "Red Hat, Inc",
    ];
    let mut makers: HashMap<_, Vec<_>> = HashMap::new();
    let listed = pci::vendor_names().filter(|n| n.contains(' '));
    for name in OLDER.into_iter().chain(listed) {
        makers.entry(name.split(' ').next().unwrap_or(name)).or_default().push(name);
    }
    makers
});

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut list = List::default();
    let mut lines = lines_at(text).peekable();
    let mut joined;
    while let Some((at, line)) = lines.next() {
        let mut line = line;
        // A terminal wrapped the line inside a name's bracket.
        if line.contains('[')
            && line.matches('[').count() > line.matches(']').count()
            && let Some((_, next)) = lines.peek()
            && !next.starts_with(['\t', ' '])
            && device_lines(line).next().is_some_and(|l| Entry::parse(l).is_some())
            && next.contains(']')
        {
            joined = format!("{} {}", line.trim_end(), next.trim());
            line = &joined;
            lines.next();
        }
        if line.contains('.') {
            for line in device_lines(line) {
                list.line(line, at);
            }
        } else {
            // No address without a dot.
            list.line(line, at);
        }
    }
    list.end_record();
    list.report()
}

/// A line, or the several device lines that a page without newlines made into one.
fn device_lines(line: &str) -> impl Iterator<Item = &str> {
    let mut starts: Vec<usize> = CLASSES
        .iter()
        .flat_map(|(class, _)| line.match_indices(class))
        .filter_map(|(at, _)| {
            let before = line.get(..at)?.trim_end_matches([' ', '"']);
            let start = before.rfind([' ', '\t', '`', '>', '"', '\'']).map_or(0, |space| space + 1);
            pci::bus_id(address(before.get(start..)?)).map(|_| start)
        })
        .collect();
    starts.sort_unstable();
    // Text before the first address (host name, bullet, quote mark) is not lspci output.
    if starts.is_empty() {
        starts.push(0);
    }
    let ends = starts.iter().skip(1).copied().chain([line.len()]).collect::<Vec<_>>();
    starts.into_iter().zip(ends).filter_map(|(from, to)| line.get(from..to))
}

/// The address of `-PP`'s path of bridges is its last part.
fn address(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The devices so far.
#[derive(Default)]
struct List {
    gpus: Vec<Gpu>,
    /// Devices by address: `lspci` and `lspci -nnk` of one machine are often pasted together.
    known: HashMap<String, usize>,
    /// VGA functions by slot; older chips have a second function that is no second GPU.
    vga_slots: HashSet<String>,
    /// GPU whose indented lines follow.
    current: Option<usize>,
    entries: usize,
    numeric: bool,
    drivers_shown: bool,
    /// Lines of a `-vmm` record.
    record: Option<Fields>,
}

/// One `-vmm` record.
#[derive(Default)]
struct Fields {
    at: usize,
    bus: String,
    class: String,
    vendor: String,
    device: String,
    driver: Option<String>,
}

impl List {
    fn line(&mut self, line: &str, at: usize) {
        if let Some(entry) = Entry::parse(line) {
            self.end_record();
            self.add(entry, at);
            return;
        }
        let Some((key, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                self.end_record();
            }
            return;
        };
        let value = value.trim();
        // `-vm` of old versions calls the address "Device" too.
        if matches!(key, "Slot" | "Device")
            && let Some(bus) = pci::bus_id(address(value))
        {
            self.end_record();
            self.record = Some(Fields { at, bus, ..Fields::default() });
        } else if let Some(record) = &mut self.record {
            match key {
                "Class" => record.class = value.to_owned(),
                "Vendor" => record.vendor = value.to_owned(),
                "Device" => record.device = value.to_owned(),
                "Driver" => record.driver = Some(value.to_owned()),
                _ => {}
            }
        } else if self.entries > 0 {
            self.drivers_shown |=
                matches!(key, "Subsystem" | "Kernel driver in use" | "Kernel modules" | "DeviceName");
            // `grep` may have taken away the entries that later drivers belong to: the first one is the GPU's.
            if key == "Kernel driver in use"
                && let Some(gpu) = self.current.take().and_then(|i| self.gpus.get_mut(i))
                && gpu.kernel_driver.is_none()
            {
                gpu.kernel_driver = value.split_whitespace().next().map(str::to_owned);
            }
        }
    }

    fn end_record(&mut self) {
        let Some(record) = self.record.take() else { return };
        let Some(entry) = Entry::of(record.bus, &record.class, &record.vendor, &record.device) else {
            return;
        };
        self.add(entry, record.at);
        if let Some(driver) = record.driver {
            self.drivers_shown = true;
            if let Some(gpu) = self.current.and_then(|i| self.gpus.get_mut(i)) {
                gpu.kernel_driver = Some(driver);
            }
        }
    }

    fn add(&mut self, entry: Entry, at: usize) {
        self.entries += 1;
        self.numeric |= entry.numeric;
        self.current = None;
        let slot = entry.bus.split('.').next().unwrap_or("").to_owned();
        match entry.class_code {
            0x03_0000 => {
                self.vga_slots.insert(slot);
            }
            0x03_8000 if !entry.bus.ends_with(".0") && self.vga_slots.contains(&slot) => return,
            _ => {}
        }
        if !entry.is_gpu() {
            return;
        }
        let gpu = entry.gpu(at);
        let old = self.known.get(&entry.bus).and_then(|i| Some((*i, self.gpus.get_mut(*i)?)));
        if let Some((i, old)) = old.filter(|(_, old)| may_be_same_device(old, &gpu)) {
            if old.pci_id.is_none() {
                *old = Gpu {
                    name: gpu.name.or(old.name.take()),
                    at: old.at,
                    kernel_driver: old.kernel_driver.take(),
                    ..gpu
                };
            }
            self.current = Some(i);
        } else {
            self.known.insert(entry.bus.clone(), self.gpus.len());
            self.current = Some(self.gpus.len());
            self.gpus.push(gpu);
        }
    }

    fn report(self) -> Option<ProbeReport> {
        let kind = match (self.numeric, self.drivers_shown) {
            (true, true) => "lspci-nnk",
            (true, false) => "lspci-nn",
            (false, _) => "lspci",
        };
        (self.entries > 0).then(|| {
            let mut report = ProbeReport::of(kind);
            report.gpus = self.gpus;
            for gpu in &mut report.gpus {
                gpu.sources = vec![kind.to_owned()];
                set_usability(gpu, self.drivers_shown);
            }
            report
        })
    }
}

/// Two lines with one address are one device, unless they come from two machines.
fn may_be_same_device(a: &Gpu, b: &Gpu) -> bool {
    match (&a.pci_id, &b.pci_id) {
        (Some(x), Some(y)) => x == y,
        // An older id list may not know the device yet.
        _ => {
            let vague = |g: &Gpu| g.name.as_deref().is_none_or(|n| n.contains("Device"));
            let maker = a.vendor == b.vendor && a.vendor != Some(Vendor::Other);
            a.name == b.name || (maker && (vague(a) || vague(b)))
        }
    }
}

/// One device line.
struct Entry {
    bus: String,
    class_code: u32,
    what: String,
    id: Option<(u16, u16)>,
    /// The listing has numeric ids (`-n`, `-nn`); without, an id appears only where a name is missing.
    numeric: bool,
}

impl Entry {
    /// `[dddd:]bb:dd.f CLASS[ [cccc]]: WHAT[ [vvvv:dddd]][ (rev rr)]`, `bb:dd.f cccc: vvvv:dddd`, or `-mm`'s
    /// `bb:dd.f "CLASS" "VENDOR" "DEVICE" …`.
    fn parse(line: &str) -> Option<Self> {
        let (first, rest) = line.trim().split_once([' ', '\t'])?;
        let bus = pci::bus_id(address(first.trim_matches(['"', '`', '-', '*'])))?;
        if let Some(fields) = rest.trim_start().strip_prefix('"') {
            let mut fields = fields.split('"').step_by(2);
            return Entry::of(bus, fields.next()?, fields.next()?, fields.next()?);
        }
        let (class, what) = rest.split_once(": ")?;
        let class_code = class_code(class)?;
        let (what, id) = split_ids(cut_tail(what));
        let numeric = id.is_some() && !what.starts_with("Device ");
        Some(Entry { bus, class_code, what: what.to_owned(), id, numeric })
    }

    /// From fields of their own, each with or instead of its number.
    fn of(bus: String, class: &str, vendor: &str, device: &str) -> Option<Self> {
        let number = |field: &str| {
            pci::id16(field.rsplit_once(" [").map_or(field, |(_, id)| id.trim_end_matches(']')))
        };
        let name = |field: &'_ str| {
            let name =
                field.rsplit_once(" [").filter(|(_, id)| pci::id16(id.trim_end_matches(']')).is_some());
            name.map_or(field, |(name, _)| name).to_owned()
        };
        let class_code = class_code(class)?;
        let id = number(vendor).zip(number(device));
        let what = match id {
            Some(_) if pci::id16(vendor).is_some() => String::new(),
            _ => format!("{} {}", name(vendor), name(device)),
        };
        Some(Entry { bus, class_code, what, id, numeric: id.is_some() })
    }

    fn is_gpu(&self) -> bool {
        let secondary = self.what.ends_with("(Secondary)");
        !secondary && pci::is_gpu(self.class_code, self.id.map(|(vendor, _)| vendor), &self.what)
    }

    fn gpu(&self, at: usize) -> Gpu {
        let vendor_id = self.id.map(|(vendor, _)| vendor);
        let console = pci::console_only(vendor_id, &self.what);
        let vendor = match vendor_id {
            Some(id) => pci::vendor(u32::from(id)),
            None => pci::vendor_in_name(&self.what).unwrap_or(Vendor::Other),
        };
        let id = self.id.or_else(|| self.unnamed_id(vendor));
        let mut gpu = Gpu::of(Some(vendor), "lspci");
        gpu.name = self.name();
        gpu.pci_id = id.map(|(v, d)| pci::pci_id(v, d));
        gpu.pci_name = id.and_then(|(v, d)| pci::device_name(v, d)).map(str::to_owned);
        gpu.kind = match console {
            _ if pci::is_wsl_gpu(vendor_id, &self.what) => GpuType::Virtual,
            Some(chip) if chip.emulated => GpuType::Virtual,
            Some(_) => GpuType::Integrated,
            None => {
                let name =
                    gpu.name.as_deref().filter(|_| self.unnamed().is_none()).or(gpu.pci_name.as_deref());
                classify::gpu_type(Some(vendor), name.or(Some("")), id.map(|(_, d)| d), None, Some(&self.bus))
                    .unwrap_or_default()
            }
        };
        if let Some(chip) = console {
            gpu.set_usability(Usable::No, Evidence::Bound, chip.what);
        } else if pci::is_wsl_gpu(vendor_id, &self.what) {
            let why = "the GPU of the Windows host, through WSL; the host's tools say which one";
            gpu.set_usability(Usable::Unknown, Evidence::Bound, why);
        }
        gpu.bus_id = Some(self.bus.clone());
        gpu.at = at;
        gpu
    }

    /// The device without its vendor; an id that lspci could not name stays visible as `Device [vvvv:dddd]`.
    fn name(&self) -> Option<String> {
        let name = without_vendor(&self.what).trim();
        match self.id {
            Some((vendor, device)) if matches!(name, "Device" | "Unknown device") => {
                Some(format!("Device [{}]", pci::pci_id(vendor, device)))
            }
            _ if name.is_empty() => None,
            _ => Some(name.to_owned()),
        }
    }

    /// Placeholder name where the PCI id database is older than the device: `Device 2684`.
    fn unnamed(&self) -> Option<&str> {
        let name = without_vendor(&self.what);
        name.strip_prefix("Device ").or_else(|| name.strip_prefix("Unknown device "))
    }

    fn unnamed_id(&self, vendor: Vendor) -> Option<(u16, u16)> {
        let maker = match vendor {
            Vendor::Nvidia => 0x10de,
            Vendor::Amd => 0x1002,
            Vendor::Intel => 0x8086,
            Vendor::Apple | Vendor::Other => return None,
        };
        self.unnamed().and_then(pci::id16).map(|device| (maker, device))
    }
}

/// The class by its number (`[0300]`, `0300`, `Class 0300`, `[Class 0300]`) or its name; `None` for prose.
fn class_code(class: &str) -> Option<u32> {
    let numbered = class.rsplit_once(" [").map_or(class, |(_, code)| code.trim_end_matches(']'));
    let digits = numbered.strip_prefix("Class ").unwrap_or(numbered);
    if digits.len() == 4
        && let Some(code) = pci::id16(digits)
    {
        return Some(u32::from(code) << 8);
    }
    let listed = CLASSES.iter().find(|(name, _)| *name == class).map(|(_, code)| *code);
    // Not a GPU, whatever its number; only that it is a device counts.
    let known = class.len() < 60 && CLASS_WORDS.iter().any(|word| class.ends_with(word));
    listed.or(known.then_some(0))
}

/// Splits off `[vvvv:dddd]` and what an author wrote behind it; ids alone are `vvvv:dddd` or `Device vvvv:dddd`.
fn split_ids(what: &str) -> (&str, Option<(u16, u16)>) {
    let bracketed = what.match_indices('[').find_map(|(at, _)| {
        let id = pci::split_id(what.get(at + 1..at + 10)?)?;
        what.get(at + 10..)?.starts_with(']').then_some((at, id))
    });
    if let Some((at, id)) = bracketed {
        return (what.get(..at).unwrap_or(what).trim_end(), Some(id));
    }
    match pci::split_id(what) {
        Some(id) => ("", Some(id)),
        None => (what, what.strip_prefix("Device ").and_then(pci::split_id)),
    }
}

/// Takes `(rev a1)`, `(prog-if 00 [VGA controller])` and all behind them off.
fn cut_tail(what: &str) -> &str {
    let end = [" (rev ", " (prog-if "].iter().filter_map(|mark| what.find(mark)).min().unwrap_or(what.len());
    what.get(..end).unwrap_or(what).trim_end()
}

/// Drops the vendor's name from the front.
fn without_vendor(what: &str) -> &str {
    let first = what.split(' ').next().unwrap_or("");
    let makers = MAKERS.get(first).map_or(&[][..], Vec::as_slice);
    let rests = makers.iter().filter_map(|name| what.strip_prefix(name)?.strip_prefix(' '));
    // The longest vendor's name leaves the shortest rest.
    rests.min_by_key(|rest| rest.len()).unwrap_or(what)
}

/// Compute usability by bound kernel driver, one row each.
pub(crate) fn driver_usability(driver: &str) -> Option<(Usable, &'static str)> {
    const ROWS: [(&str, Usable, &str); 27] = [
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
        ("hyperv_fb", Usable::No, "Hyper-V virtual display"),
        ("cirrus", Usable::No, "Cirrus Logic emulated VGA"),
        ("cirrus-qemu", Usable::No, "Cirrus Logic emulated VGA"),
        ("vboxvideo", Usable::No, "VirtualBox virtual display"),
        ("hibmc-drm", Usable::No, "server management chip"),
        ("gma500", Usable::No, "display driver without compute"),
        ("nvgrace_gpu_vfio_pci", Usable::No, "bound to VFIO: handed to a virtual machine"),
        ("nvidiafb", Usable::No, "bound to nvidiafb, which only displays"),
    ];
    ROWS.iter().find(|(name, ..)| *name == driver).map(|(_, usable, why)| (*usable, *why))
}

fn set_usability(gpu: &mut Gpu, drivers_shown: bool) {
    if gpu.usable_reason.is_some() {
        // A display chip's kernel driver is the whole driver: nothing in user space has a version of its own.
        gpu.driver_version.clone_from(&gpu.kernel_driver);
        return;
    }
    let name = gpu.name.as_deref().or(gpu.pci_name.as_deref()).unwrap_or("");
    if gpu.vendor.is_some_and(|maker| classify::predates_compute(maker, name)) {
        gpu.set_usability(Usable::No, Evidence::Bound, "a chip older than the compute drivers of today");
        return;
    }
    match gpu.kernel_driver.as_deref() {
        Some(driver) => match driver_usability(driver) {
            Some((usable, why)) => gpu.set_usability(usable, Evidence::Bound, why),
            None => {
                let why = format!("bound to {driver}, which is not known to offer compute");
                gpu.set_usability(Usable::Unknown, Evidence::Bound, why);
            }
        },
        None if drivers_shown => {
            gpu.set_usability(Usable::Unknown, Evidence::Listed, "no kernel driver is bound to it")
        }
        None if gpu.kind == GpuType::Discrete => {
            gpu.set_usability(
                Usable::Yes,
                Evidence::Listed,
                "a compute card by its name; its driver is not shown in this listing",
            );
        }
        None => gpu.set_usability(Usable::Unknown, Evidence::Listed, "this listing does not show its driver"),
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
    fn the_bound_driver_decides_usability() {
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
    fn display_only_chips_are_not_usable() {
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
    fn bridges_audio_and_npus_are_not_gpus() {
        let text = "00:0b.0 Processing accelerators [1200]: Intel Corporation Meteor Lake NPU [8086:7d1d] (rev 04)\n\
                    0000:08:00.0 Bridge [0680]: NVIDIA Corporation GA100 [A100 NVSwitch] [10de:1af1] (rev a1)\n\
                    01:00.1 Audio device [0403]: NVIDIA Corporation GP104 High Definition Audio Controller [10de:10f0]\n";
        assert_eq!(parse(text).unwrap().gpus, []);
        assert_eq!(parse("at 10:20.1 we saw: nothing\nother prose"), None);
    }
}
