//! Parser for `sycl-ls`: every GPU appears once per backend; CPUs and emulators are dropped.

use super::{lines_at, rocminfo, xpu_smi};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor, Warning},
    pci,
};

const KIND: &str = "sycl-ls";

/// Backends, most informative first: the first to list a GPU states its facts.
const BACKENDS: [(&str, &str); 4] =
    [("level_zero", "level-zero"), ("cuda", "cuda"), ("hip", "rocm"), ("opencl", "opencl")];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of(KIND);
    let mut seen = false;
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some((backend, kind, rest)) = head(line) {
            seen = true;
            if kind == "gpu" {
                rows.extend(row(backend, rest, at));
            }
        } else if line.contains("ONEAPI_DEVICE_SELECTOR") || line.contains("SYCL_DEVICE_FILTER") {
            let hint = Some("devices may be missing from the list; unset the variable".to_owned());
            report.warnings.push(Warning { source: KIND.to_owned(), message: line.to_owned(), hint });
        }
    }
    report.cuda_version =
        rows.iter().find_map(|row| row.version.strip_prefix("CUDA ").map(|v| v.trim().to_owned()));
    rows.sort_by_key(|row| (row.rank, row.platform));
    let mut platform = ("", usize::MAX);
    let mut taken: Vec<bool> = Vec::new();
    for row in rows {
        if platform != (row.platform, row.rank) {
            platform = (row.platform, row.rank);
            taken = vec![false; report.gpus.len()];
        }
        add(&mut report.gpus, &mut taken, row);
    }
    report.gpus.sort_by_key(|gpu| gpu.at);
    seen.then_some(report)
}

/// A line about a GPU.
struct Row<'a> {
    rank: usize,
    platform: &'a str,
    version: &'a str,
    gpu: Gpu,
}

/// Backend, device type and the rest, from `[opencl:gpu:0]`, `[level_zero:gpu][level_zero:0]` or `[opencl:0] GPU :`.
fn head(line: &str) -> Option<(&str, &str, &str)> {
    let (inner, rest) = line.strip_prefix('[')?.split_once(']')?;
    let mut parts = inner.split(':');
    let backend = parts.next()?;
    let backend = backend.strip_prefix("ext_oneapi_").unwrap_or(backend);
    let known = BACKENDS.iter().any(|(name, _)| *name == backend)
        || matches!(backend, "host" | "native_cpu" | "esimd_emulator");
    if !known {
        return None;
    }
    let second = parts.next()?;
    if second.parse::<u32>().is_ok() {
        let (kind, rest) = rest.trim_start().split_once(':')?;
        let kind = if kind.trim() == "GPU" { "gpu" } else { "other" };
        return Some((backend, kind, rest.trim()));
    }
    let rest = match rest.strip_prefix('[') {
        Some(again) => again.split_once(']')?.1,
        None => rest,
    };
    Some((backend, second, rest.trim()))
}

/// `platform, device version [driver]`; the oldest releases print no device.
fn row<'a>(backend: &str, rest: &'a str, at: usize) -> Option<Row<'a>> {
    let (rank, (_, api)) = BACKENDS.iter().enumerate().find(|(_, (name, _))| *name == backend)?;
    let (rest, version) = split_driver(rest);
    let (platform, device) = match rest.split_once(", ") {
        Some((platform, device)) => (platform, Some(device)),
        None => (rest, None),
    };
    let (name, revision) = device.map_or((None, None), split_version);
    let vendor = name.and_then(pci::vendor_in_name).or_else(|| pci::vendor_in_name(platform));
    let mut gpu = Gpu::of(vendor.or(Some(Vendor::Other)), KIND);
    gpu.at = at;
    gpu.arch = match (backend, revision) {
        ("hip", Some(revision)) => rocminfo::gfx_target(revision),
        // Level-Zero printed its own version here ("1.3") before it printed the chip's ("12.55.8").
        ("level_zero", Some(revision)) if revision.matches('.').count() == 2 => Some(revision.to_owned()),
        ("cuda", Some(revision)) => Some(revision.to_owned()),
        _ => name.and_then(rocminfo::gfx_target),
    };
    let id = name.and_then(xpu_smi::id_in_name);
    if let (Some(id), Some(Vendor::Intel)) = (id, vendor) {
        gpu.pci_device = Some(format!("0x{id:04x}"));
        gpu.pci_id = Some(pci::pci_id(0x8086, id));
    }
    gpu.kind = match vendor {
        Some(Vendor::Amd) => rocminfo::amd_type(name, id, gpu.arch.as_deref()),
        _ => classify::gpu_type(vendor, name, id, None, None),
    }
    .unwrap_or_default();
    gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
    gpu.name = name.map(str::to_owned);
    // For CUDA and HIP the bracket holds the version of the interface, not of a driver.
    let interface = version.starts_with("CUDA") || version.starts_with("HIP") || version.is_empty();
    gpu.driver_version = (!interface).then(|| version.to_owned());
    gpu.apis = vec![(*api).to_owned()];
    gpu.set_usability(Usable::Yes, Evidence::Opened, format!("SYCL opened it through {api}"));
    Some(Row { rank, platform, version, gpu })
}

/// Takes the last bracket, unless it is an id that belongs to the name.
fn split_driver(rest: &str) -> (&str, &str) {
    let bracket = rest.trim_end().strip_suffix(']').and_then(|inner| inner.rsplit_once('['));
    match bracket {
        Some((rest, version)) if !version.starts_with("0x") => (rest.trim(), version.trim()),
        _ => (rest.trim(), ""),
    }
}

/// Takes `OpenCL 3.0 NEO`, `3.0`, `12.55.8` or `gfx1031` off the end of a device's name.
fn split_version(device: &str) -> (Option<&str>, Option<&str>) {
    let device = device.trim();
    let (name, revision) = match (device.rfind(" OpenCL "), device.rsplit_once(' ')) {
        (Some(at), _) => (device.get(..at).unwrap_or(device), None),
        (None, Some((name, last))) if is_revision(last) => (name, Some(last)),
        _ => (device, None),
    };
    let name = name.trim();
    ((!name.is_empty()).then_some(name), revision)
}

fn is_revision(word: &str) -> bool {
    let dotted = word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    dotted || rocminfo::gfx_target(word).is_some()
}

/// Adds a device, or notes that one known from a better backend is reachable through this one too.
fn add(gpus: &mut Vec<Gpu>, taken: &mut [bool], row: Row<'_>) {
    let gpu = row.gpu;
    let plain =
        |gpu: &Gpu| gpu.name.as_deref().map(|name| name.split(" [").next().unwrap_or(name).to_owned());
    let same = |known: &Gpu| {
        let names = plain(known) == plain(&gpu) || known.name.is_none() || gpu.name.is_none();
        let archs = known.arch.is_some() && known.arch == gpu.arch;
        known.vendor == gpu.vendor && (names || archs)
    };
    let free = gpus.iter_mut().zip(taken).find(|(known, taken)| !**taken && same(known));
    let Some((known, taken)) = free else { return gpus.push(gpu) };
    *taken = true;
    known.at = known.at.min(gpu.at);
    known.name = known.name.take().or(gpu.name);
    known.driver_version = known.driver_version.take().or(gpu.driver_version);
    if known.kind == GpuType::Unknown {
        known.kind = gpu.kind;
    }
    for api in gpu.apis {
        if !known.apis.contains(&api) {
            known.apis.push(api);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_format_counts_each_gpu_once() {
        let text = "\
INFO: Output filtered by ONEAPI_DEVICE_SELECTOR environment variable, which is set to *:gpu.
[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero V2, Intel(R) Arc(TM) B580 Graphics 20.1.0 [1.6.33578+15]
[level_zero:gpu][level_zero:1] Intel(R) oneAPI Unified Runtime over Level-Zero V2, Intel(R) UHD Graphics 770 12.2.0 [1.6.33578+15]
[opencl:cpu][opencl:0] Intel(R) OpenCL, 13th Gen Intel(R) Core(TM) i7-13700 OpenCL 3.0 (Build 0) [2025.19.4.0.18]
[opencl:gpu][opencl:1] Intel(R) OpenCL Graphics, Intel(R) Arc(TM) B580 Graphics OpenCL 3.0 NEO  [25.18.33578]
[opencl:gpu][opencl:2] Intel(R) OpenCL Graphics, Intel(R) UHD Graphics 770 OpenCL 3.0 NEO  [25.18.33578]
[opencl:gpu][opencl:3] NVIDIA CUDA, NVIDIA GeForce RTX 3060 OpenCL 3.0 CUDA [535.129.03]
[cuda:gpu][cuda:0] NVIDIA CUDA BACKEND, NVIDIA GeForce RTX 3060 8.6 [CUDA 12.2]
";
        let report = parse(text).unwrap();
        assert_eq!(
            (report.gpus.len(), report.warnings.len(), report.cuda_version.as_deref()),
            (3, 1, Some("12.2"))
        );
        let arc = &report.gpus[0];
        assert_eq!(
            (arc.name.as_deref(), arc.arch.as_deref()),
            (Some("Intel(R) Arc(TM) B580 Graphics"), Some("20.1.0"))
        );
        assert_eq!((arc.driver_version.as_deref(), arc.kind), (Some("1.6.33578+15"), GpuType::Discrete));
        assert_eq!(arc.apis, ["level-zero", "opencl"]);
        assert_eq!(report.gpus[1].kind, GpuType::Integrated);
        let nvidia = &report.gpus[2];
        assert_eq!((nvidia.vendor, nvidia.arch.as_deref()), (Some(Vendor::Nvidia), Some("8.6")));
        assert_eq!(nvidia.driver_version.as_deref(), Some("535.129.03"));
    }

    #[test]
    fn old_format_with_two_equal_cards() {
        let text = "\
    [opencl:gpu:1] Intel(R) OpenCL HD Graphics, Intel(R) Graphics [0x56a5] 3.0 [22.43.24595.30]
    [opencl:gpu:2] Intel(R) OpenCL HD Graphics, Intel(R) Graphics [0x56a5] 3.0 [22.43.24595.30]
    [ext_oneapi_level_zero:gpu:0] Intel(R) Level-Zero, Intel(R) Graphics [0x56a5] 1.3 [1.3.24595]
    [ext_oneapi_level_zero:gpu:1] Intel(R) Level-Zero, Intel(R) Graphics [0x56a5] 1.3 [1.3.24595]
    [ext_oneapi_hip:gpu:0] AMD HIP BACKEND, AMD Radeon PRO W6800 gfx1030 [HIP 40421.43]
    [host:host:0] SYCL host platform, SYCL host device 1.2 [1.2]
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 3);
        let card = &report.gpus[1];
        assert_eq!((card.name.as_deref(), card.arch.as_deref()), (Some("Intel(R) Graphics [0x56a5]"), None));
        assert_eq!(
            (card.driver_version.as_deref(), card.pci_id.as_deref()),
            (Some("1.3.24595"), Some("8086:56a5"))
        );
        assert_eq!(card.kind, GpuType::Discrete);
        let amd = &report.gpus[2];
        assert_eq!(
            (amd.name.as_deref(), amd.arch.as_deref()),
            (Some("AMD Radeon PRO W6800"), Some("gfx1030"))
        );
        assert_eq!((amd.vendor, amd.driver_version.as_deref()), (Some(Vendor::Amd), None));
    }

    #[test]
    fn oldest_format_names_no_device() {
        let text = "[opencl:0] GPU : Intel(R) OpenCL HD Graphics 3.0 [21.11.19310]\n[opencl:1] CPU : Intel(R) OpenCL 2.1 [2020.11]\n[level_zero:0] GPU : Intel(R) Level-Zero 1.0 [1.0.19310]\n[host:0] HOST: SYCL host platform 1.2 [1.2]\n";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 1);
        assert_eq!((report.gpus[0].name.as_deref(), report.gpus[0].vendor), (None, Some(Vendor::Intel)));
        assert_eq!(report.gpus[0].driver_version.as_deref(), Some("1.0.19310"));
    }

    #[test]
    fn cut_lines_and_other_brackets() {
        let cut = parse("[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero, Intel(R) Arc(TM) A3").unwrap();
        assert_eq!((cut.gpus.len(), cut.gpus[0].driver_version.as_deref()), (1, None));
        assert_eq!(parse("[sudo] password:\n[12:34:56] gpu: x\n[opencl"), None);
        assert_eq!(
            parse("[opencl:cpu:0] Intel(R) OpenCL, Intel(R) Xeon(R) 3.0 [2023]").map(|r| r.gpus.len()),
            Some(0)
        );
    }
}
