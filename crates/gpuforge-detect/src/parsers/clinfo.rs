//! Parser for `clinfo -l`: the tree of OpenCL platforms and devices; CPU devices are dropped.

use super::{lines_at, rocminfo, xpu_smi};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
};

const KIND: &str = "clinfo-l";

/// Words in the names of devices that are CPUs or emulators of other hardware.
const NOT_GPUS: [&str; 16] = [
    " cpu",
    "cpu-",
    "pthread",
    "processor",
    "xeon",
    "core(tm)",
    "pentium",
    "celeron",
    "opteron",
    "athlon",
    "ryzen",
    "epyc",
    "threadripper",
    "fpga",
    "basic-",
    "cortex-a",
];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of(KIND);
    let mut seen = false;
    let mut platform = "";
    let mut earlier = 0;
    let mut taken: Vec<bool> = Vec::new();
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some(name) = numbered(line, "Platform #") {
            (seen, platform, earlier) = (true, name, report.gpus.len());
            taken = vec![false; earlier];
        } else if let Some(gpu) =
            branch(line).and_then(|line| numbered(line, "Device #")).map(|name| device(name, platform, at))
        {
            seen = true;
            if let Some(gpu) = gpu {
                add(&mut report.gpus, earlier, &mut taken, gpu);
            }
        }
    }
    seen.then_some(report)
}

/// The rest of `Platform #0: …`.
fn numbered<'a>(line: &'a str, prefix: &str) -> Option<&'a str> {
    let (number, name) = line.strip_prefix(prefix)?.split_once(':')?;
    number.parse::<u32>().ok()?;
    Some(name.trim())
}

/// What follows the drawn branch; markdown and terminals mangle its characters in many ways.
fn branch(line: &str) -> Option<&str> {
    let at = line.find("Device #")?;
    let drawn = line.get(..at)?.chars().all(|c| " \t`'+-|\\└├─—│".contains(c));
    drawn.then(|| line.get(at..))?
}

/// A GPU; `None` for CPUs.
fn device(printed: &str, platform: &str, at: usize) -> Option<Gpu> {
    let (name, tail) = split_driver(printed);
    let lower = name.to_ascii_lowercase();
    let software = classify::is_software_name(&lower);
    if name.is_empty() || (!software && NOT_GPUS.iter().any(|word| lower.contains(word))) {
        return None;
    }
    let vendor = match software {
        true => Some(Vendor::Other),
        false => pci::vendor_in_name(name).or_else(|| vendor_of_platform(platform)).or(Some(Vendor::Other)),
    };
    let mut gpu = Gpu::of(vendor, KIND);
    gpu.at = at;
    gpu.arch = rocminfo::gfx_target(name).or_else(|| tail.split(", ").find_map(rocminfo::gfx_target));
    let id = xpu_smi::id_in_name(name);
    if let (Some(id), Some(Vendor::Intel)) = (id, vendor) {
        gpu.pci_device = Some(format!("0x{id:04x}"));
        gpu.pci_id = Some(pci::pci_id(0x8086, id));
    }
    let kind = match vendor {
        // Mesa's tail names the chip (renoir, navi21) where the name is only "AMD Radeon Graphics".
        Some(Vendor::Amd) => rocminfo::amd_type(Some(&format!("{name} {tail}")), id, gpu.arch.as_deref()),
        _ => classify::gpu_type(vendor, Some(name), id, gpu.arch.as_deref(), None),
    };
    gpu.kind = kind.unwrap_or_default();
    gpu.name = Some(name.to_owned());
    gpu.apis = vec!["opencl".to_owned()];
    gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
    match gpu.kind {
        GpuType::Software => gpu.set_usability(Usable::No, Evidence::Opened, "a software rasterizer"),
        _ => gpu.set_usability(Usable::Yes, Evidence::Opened, "OpenCL opened it"),
    }
    Some(gpu)
}

/// Mesa appends `(target, LLVM version, DRM version, kernel)`.
fn split_driver(printed: &str) -> (&str, &str) {
    let open = printed.strip_suffix(')').and_then(|inner| inner.rsplit_once(" ("));
    match open {
        Some((name, tail))
            if tail.contains("DRM ") || (tail.contains("LLVM") && !classify::is_software_name(name)) =>
        {
            (name.trim(), tail)
        }
        _ => (printed, ""),
    }
}

/// Vendor by platform, for device names such as `Tahiti`. The device name takes precedence.
fn vendor_of_platform(platform: &str) -> Option<Vendor> {
    match platform {
        "Apple" | "Clover" | "rusticl" | "Portable Computing Language" => None,
        _ => pci::vendor_in_name(platform),
    }
}

/// Adds a device, or completes the one that an earlier platform listed.
fn add(gpus: &mut Vec<Gpu>, earlier: usize, taken: &mut [bool], gpu: Gpu) {
    let same = |known: &Gpu| {
        let archs = known.arch.is_some() && known.arch == gpu.arch;
        known.vendor == gpu.vendor
            && (archs || known.name.as_deref().map(plain) == gpu.name.as_deref().map(plain))
    };
    let free = gpus.iter_mut().take(earlier).zip(taken).find(|(known, taken)| !**taken && same(known));
    let Some((known, taken)) = free else { return gpus.push(gpu) };
    *taken = true;
    let bare = |gpu: &Gpu| gpu.name.as_deref().and_then(rocminfo::gfx_target).is_some();
    if bare(known) && !bare(&gpu) {
        known.name = gpu.name;
    }
    known.arch = known.arch.take().or(gpu.arch);
}

/// A name without the additions by which drivers differ.
fn plain(name: &str) -> String {
    let lower = name.to_ascii_lowercase().replace("(r)", "").replace("(tm)", "");
    let lower = lower.split(" (").next().unwrap_or("");
    let lower = lower.split(" [").next().unwrap_or("");
    lower.trim_start_matches("mesa ").trim_start_matches("nvidia ").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(Option<Vendor>, String, GpuType)> {
        let row = |g: Gpu| (g.vendor, g.name.unwrap(), g.kind);
        parse(text).unwrap().gpus.into_iter().map(row).collect()
    }

    #[test]
    fn platforms_are_read_and_cpus_dropped() {
        let text = "\
Platform #0: NVIDIA CUDA
 +-- Device #0: NVIDIA RTX A4000
 `-- Device #1: NVIDIA RTX A4000
Platform #1: Intel(R) OpenCL
 `-- Device #0: 12th Gen Intel(R) Core(TM) i7-12700
Platform #2: Intel(R) OpenCL Graphics
 `-- Device #0: Intel(R) UHD Graphics 770
Platform #3: Portable Computing Language
 `-- Device #0: cpu-alderlake-12th Gen Intel(R) Core(TM) i7-12700
Platform #4: Intel(R) FPGA Emulation Platform for OpenCL(TM)
 `-- Device #0: Intel(R) FPGA Emulation Device
Platform #5: Clover
";
        let a4000 = (Some(Vendor::Nvidia), "NVIDIA RTX A4000".to_owned(), GpuType::Discrete);
        let uhd = (Some(Vendor::Intel), "Intel(R) UHD Graphics 770".to_owned(), GpuType::Integrated);
        assert_eq!(names(text), [a4000.clone(), a4000, uhd]);
    }

    #[test]
    fn one_gpu_on_two_platforms() {
        let text = "\
Platform #0: AMD Accelerated Parallel Processing
 -- Device #0: gfx1030
 -- Device #1: gfx90a:sramecc+:xnack-
Platform #1: rusticl
 -- Device #0: AMD Radeon RX 6800 (radeonsi, navi21, gfx1030, LLVM 17.0.6, DRM 3.57, 6.8.1)
 -- Device #1: llvmpipe (LLVM 17.0.6, 256 bits)
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 3);
        assert_eq!(report.gpus[0].name.as_deref(), Some("AMD Radeon RX 6800"));
        assert_eq!(
            (report.gpus[0].arch.as_deref(), report.gpus[0].kind),
            (Some("gfx1030"), GpuType::Discrete)
        );
        assert_eq!(report.gpus[1].arch.as_deref(), Some("gfx90a"));
        assert_eq!((report.gpus[2].kind, report.gpus[2].usable_for_compute), (GpuType::Software, Usable::No));
    }

    #[test]
    fn chips_that_only_the_platform_or_the_tail_explains() {
        assert_eq!(
            names("Platform #0: AMD Accelerated Parallel Processing\n `-- Device #0: Tahiti\n"),
            [(Some(Vendor::Amd), "Tahiti".to_owned(), GpuType::Discrete)]
        );
        assert_eq!(
            names(
                "Platform #0: Clover\n `-- Device #0: AMD Radeon Graphics (renoir, LLVM 15.0.6, DRM 3.49, 6.1.0)\n"
            ),
            [(Some(Vendor::Amd), "AMD Radeon Graphics".to_owned(), GpuType::Integrated)]
        );
        let arc = parse(
            "Platform #0: Intel(R) OpenCL HD Graphics\r\n `-- Device #0: Intel(R) Graphics [0x56a0]\r\n",
        )
        .unwrap();
        assert_eq!(
            (arc.gpus[0].pci_device.as_deref(), arc.gpus[0].kind),
            (Some("0x56a0"), GpuType::Discrete)
        );
    }

    #[test]
    fn other_text_is_not_a_tree() {
        assert_eq!(parse("see Device #0: broken"), None);
        assert_eq!(parse("Platform #x: y"), None);
        assert_eq!(parse("Platform #0: Clover\n").map(|r| r.gpus.len()), Some(0));
    }
}
