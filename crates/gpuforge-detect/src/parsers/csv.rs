//! Parser for `nvidia-smi --query-gpu=… --format=csv`, with or without header and units.

use std::collections::HashSet;

use super::{
    apply_compute_mode, is_absent, lines_at, nvidia_list::real_uuid, nvidia_query::nvml_device_id, present,
    size_bytes,
};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
};

const KIND: &str = "nvidia-smi-csv";

/// Columns by which a header line is recognised; one suffices when every cell looks like a field name.
const KNOWN: [&str; 16] = [
    "name",
    "gpu_name",
    "driver_version",
    "kmd_version",
    "memory.total",
    "memory.used",
    "memory.free",
    "pci.bus_id",
    "gpu_bus_id",
    "uuid",
    "gpu_uuid",
    "index",
    "compute_cap",
    "utilization.gpu",
    "temperature.gpu",
    "vbios_version",
];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut rows = Rows { report: ProbeReport::of(KIND), seen: HashSet::new() };
    let mut header: Option<Vec<String>> = None;
    let mut recognised = false;
    for (at, line) in lines_at(text).filter(|(_, line)| !line.is_empty()) {
        let cells = cells(line);
        if let Some(names) = header_names(&cells) {
            recognised = true;
            header = Some(names);
        } else if let Some(names) = header.as_ref().filter(|names| names.len() == cells.len()) {
            rows.add(from_named(names, &cells), at);
        } else if header.is_none() && (cells.len() > 1 || pci::vendor_in_name(line) == Some(Vendor::Nvidia)) {
            let sentinels = cells.len() > 1 && cells.iter().any(|c| c.starts_with('[') && is_absent(c));
            let gpu = from_plain(&cells);
            recognised |= gpu.is_some() || sentinels;
            rows.add(gpu, at);
        }
    }
    recognised.then_some(rows.report)
}

/// Does the text hold a header line of this format?
pub(crate) fn has_header(text: &str) -> bool {
    text.lines().any(|line| !line.is_empty() && header_names(&cells(line)).is_some())
}

/// Cells of a line, without what quotes it.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches([' ', '\t', '>', '#', '`']).split(',').map(str::trim).collect()
}

/// Are rows without a header specific enough (address or UUID) to be accepted beside other formats?
pub(crate) fn is_anchored(report: &ProbeReport) -> bool {
    !report.gpus.is_empty() && report.gpus.iter().all(|g| g.bus_id.is_some() || g.uuid.is_some())
}

/// Field names without their units, if the whole line consists of such names.
fn header_names(cells: &[&str]) -> Option<Vec<String>> {
    let names: Vec<String> =
        cells.iter().map(|c| c.split(" [").next().unwrap_or(c).trim().to_owned()).collect();
    let field =
        |n: &String| !n.is_empty() && n.bytes().all(|b| b.is_ascii_alphanumeric() || b"._".contains(&b));
    let known = names.iter().filter(|n| KNOWN.contains(&n.as_str())).count();
    // A lone word is prose unless it cannot be anything else.
    let enough = known >= 1 && (names.len() > 1 || names.iter().any(|n| n.contains(['.', '_'])));
    (enough && names.iter().all(field)).then_some(names)
}

fn from_named(names: &[String], cells: &[&str]) -> Option<Gpu> {
    let cell = |wanted: &[&str]| {
        let found = names.iter().zip(cells).find(|(name, _)| wanted.contains(&name.as_str()));
        found.and_then(|(_, cell)| present(cell))
    };
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    gpu.name = cell(&["name", "gpu_name"]).map(str::to_owned);
    // With `nounits` the figure stands alone; nvidia-smi counts memory in MiB.
    gpu.memory_bytes =
        cell(&["memory.total"]).and_then(|c| size_bytes(c).or_else(|| size_bytes(&format!("{c} MiB"))));
    gpu.driver_version = cell(&["driver_version", "kmd_version"]).map(str::to_owned);
    gpu.arch = cell(&["compute_cap"]).map(str::to_owned);
    gpu.bus_id = cell(&["pci.bus_id", "gpu_bus_id"]).and_then(pci::bus_id);
    gpu.pci_id = cell(&["pci.device_id"]).and_then(nvml_device_id);
    gpu.uuid = cell(&["uuid", "gpu_uuid"]).and_then(real_uuid);
    gpu.index = cell(&["index"]).and_then(|c| c.parse().ok());
    gpu.driver_model = cell(&["driver_model.current"]).map(str::to_owned);
    gpu.mig = cell(&["mig.mode.current"]).map(str::to_ascii_lowercase);
    apply_compute_mode(&mut gpu, cell(&["compute_mode"]).unwrap_or(""));
    let error = cells.iter().find(|c| c.contains("Unknown Error") || c.contains("GPU is lost"));
    if gpu.name.is_none() {
        gpu.error = error.map(|e| e.trim_matches(['[', ']']).to_owned());
    }
    // A sentence with as many commas as the header is no row: a name needs a vendor's word or a figure beside it.
    let named = gpu.name.as_deref().is_some_and(|n| is_branded(n) || is_unbranded(n))
        || (gpu.name.is_some()
            && (gpu.memory_bytes.is_some() || gpu.index.is_some() || gpu.pci_id.is_some()));
    let identified = named || gpu.bus_id.is_some() || (gpu.uuid.is_some() && gpu.error.is_none());
    // Rows of usage figures alone name no device.
    identified.then_some(gpu)
}

/// A row without header: each cell is known by its shape; a figure without unit could be anything and says nothing.
fn from_plain(cells: &[&str]) -> Option<Gpu> {
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    let anchored =
        cells.iter().any(|c| pci::bus_id(c).is_some() || c.starts_with("GPU-") || c.ends_with(" MiB"));
    for cell in cells {
        if let Some(bus) = pci::bus_id(cell) {
            gpu.bus_id = Some(bus);
        } else if cell.starts_with("GPU-") {
            gpu.uuid = real_uuid(cell);
        } else if let Some(bytes) = size_bytes(cell) {
            // Total is never below used or free, whatever their order.
            gpu.memory_bytes = gpu.memory_bytes.max(Some(bytes));
        } else if is_driver_version(cell) {
            gpu.driver_version = Some((*cell).to_owned());
        } else if is_compute_capability(cell) {
            gpu.arch = Some((*cell).to_owned());
        } else if gpu.name.is_none() && (is_branded(cell) || (anchored && is_unbranded(cell))) {
            gpu.name = Some((*cell).to_owned());
        } else if gpu.index.is_none() && gpu.name.is_none() {
            gpu.index = cell.parse().ok();
        }
    }
    gpu.name.is_some().then_some(gpu)
}

/// A product name and nothing more: no prose, no path, no label.
fn is_branded(cell: &str) -> bool {
    const BRANDS: [&str; 6] = ["NVIDIA ", "GeForce ", "Tesla ", "Quadro ", "GRID ", "TITAN "];
    BRANDS.iter().any(|b| cell.starts_with(b)) && is_name_like(cell)
}

/// A product name as drivers 450 to 465 printed it, and Jetson's; too short to be trusted alone.
fn is_unbranded(cell: &str) -> bool {
    const STARTS: [&str; 12] =
        ["RTX ", "NVS ", "A100", "A40", "A30", "A10", "A16", "A2", "T4", "H100", "Orin", "Graphics Device"];
    STARTS.iter().any(|b| cell.starts_with(b)) && is_name_like(cell)
}

fn is_name_like(cell: &str) -> bool {
    cell.len() <= 64 && cell.bytes().all(|b| b.is_ascii_alphanumeric() || b" -/().".contains(&b))
}

fn is_driver_version(cell: &str) -> bool {
    let parts: Vec<&str> = cell.split('.').collect();
    let digits = parts.iter().all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    digits && matches!(parts.as_slice(), [a, b, ..] if a.len() == 3 && b.len() >= 2 && parts.len() <= 3)
}

fn is_compute_capability(cell: &str) -> bool {
    matches!(cell.split_once('.'), Some((major, minor)) if
        matches!(major.parse::<u8>(), Ok(1..=19)) && minor.len() == 1 && minor.bytes().all(|b| b.is_ascii_digit()))
}

/// The devices so far, and by what they are known.
struct Rows {
    report: ProbeReport,
    seen: HashSet<String>,
}

impl Rows {
    fn add(&mut self, gpu: Option<Gpu>, at: usize) {
        let Some(mut gpu) = gpu else { return };
        // Loop mode prints every device again; name alone does not identify one.
        let mut keys: Vec<String> = [&gpu.bus_id, &gpu.uuid].into_iter().flatten().cloned().collect();
        if let (true, Some(index)) = (keys.is_empty(), gpu.index) {
            keys.push(format!("{index} {}", gpu.name.as_deref().unwrap_or("")));
        }
        let new = keys.iter().all(|key| !self.seen.contains(key));
        self.seen.extend(keys);
        if !new {
            return;
        }
        gpu.at = at;
        gpu.kind = classify::gpu_type(gpu.vendor, gpu.name.as_deref(), None, None, None)
            .unwrap_or(GpuType::Discrete);
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        gpu.apis.push("cuda".to_owned());
        match gpu.error.clone() {
            Some(error) => gpu.set_usability(Usable::No, Evidence::Failed, format!("nvidia-smi: {error}")),
            None => gpu.set_usability(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it"),
        }
        let report = &mut self.report;
        report.driver_version = report.driver_version.take().or_else(|| gpu.driver_version.clone());
        report.gpus.push(gpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_columns_with_and_without_units() {
        let text = "index, name, pci.bus_id, memory.total [MiB], compute_cap, mig.mode.current\n\
                    0, NVIDIA L4, 00000000:00:04.0, 23034 MiB, 8.9, [N/A]\n\
                    1, NVIDIA L4, 00000000:00:05.0, 23034, 8.9, Disabled\n\
                    0, NVIDIA L4, 00000000:00:04.0, 23034 MiB, 8.9, [N/A]\n";
        let gpus = parse(text).unwrap().gpus;
        assert_eq!(gpus.len(), 2, "loop mode repeats rows");
        assert!(gpus.iter().all(|g| g.memory_bytes == Some(23034 << 20) && g.arch.as_deref() == Some("8.9")));
        assert_eq!((gpus[0].mig.as_deref(), gpus[1].mig.as_deref()), (None, Some("disabled")));
    }

    #[test]
    fn rows_without_header_are_known_by_shape() {
        let gpus = parse("0, NVIDIA RTX A4000, 120 MiB, 16376 MiB, 550.54.14, 8.6\n").unwrap().gpus;
        assert_eq!(gpus[0].memory_bytes, Some(16376 << 20));
        assert_eq!(
            (gpus[0].driver_version.as_deref(), gpus[0].arch.as_deref()),
            (Some("550.54.14"), Some("8.6"))
        );
        assert_eq!(parse("NVIDIA RTX A4000, 16376\n").unwrap().gpus[0].memory_bytes, None, "16376 of what?");
    }

    #[test]
    fn error_rows_are_no_devices() {
        let report = parse("7, 12, 0\n[GPU is lost], [GPU is lost], [GPU is lost]\n").unwrap();
        assert!(report.gpus.is_empty());
        let report = parse("name, pci.bus_id\n[Unknown Error], 00000000:05:00.0\n").unwrap();
        assert_eq!((report.gpus[0].name.as_deref(), report.gpus[0].usable_for_compute), (None, Usable::No));
    }

    #[test]
    fn prose_is_not_a_table() {
        assert_eq!(parse("Hello, I have an index, and a name\nMy NVIDIA card, an old one, fails"), None);
        assert_eq!(parse("name\nindex\n"), None);
        let report = parse("name, driver_version\nTesla P4, 384.111\nThanks, everybody\n").unwrap();
        assert_eq!(report.gpus.len(), 1);
    }

    #[test]
    fn rows_without_brand_need_an_anchor() {
        let gpus = parse("1, RTX A6000, 48685 MiB\n2, A100-SXM4-40GB, 40537 MiB\n").unwrap().gpus;
        assert_eq!(gpus.len(), 2);
        assert_eq!(parse("we have A100 cards, RTX 3090 cards, and others\n"), None);
    }
}
