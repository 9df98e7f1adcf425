//! What does `nvidia-smi -q` say? Sections by indentation; MIG blocks carry their own memory totals.

use super::{lines_at, present, size_bytes};
use crate::{
    families,
    model::{Evidence, Gpu, GpuType, MigDevice, Report, Usable, Vendor},
    pci,
};

const KIND: &str = "nvidia-smi-q";

pub(crate) fn parse(text: &str) -> Option<Report> {
    let mut report = Report::of(KIND);
    let mut sections: Vec<(usize, String)> = Vec::new();
    let mut inside = false;
    for (at, line) in lines_at(text) {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.contains("NVSMI LOG") {
            inside = true;
        } else if inside && let Some(gpu) = heading(line, at) {
            sections.clear();
            report.gpus.push(gpu);
        } else if !inside || line.is_empty() {
        } else if let Some((key, value)) =
            line.split_once(" : ").or_else(|| line.strip_suffix(" :").map(|k| (k, "")))
        {
            sections.retain(|(depth, _)| *depth <= indent);
            let section = sections.last().map_or("", |(_, name)| name.as_str());
            record(&mut report, section, key.trim(), value.trim());
        } else {
            sections.retain(|(depth, _)| *depth < indent);
            if line == "MIG Device"
                && let Some(gpu) = report.gpus.last_mut()
            {
                gpu.mig_devices.push(MigDevice::default());
            }
            sections.push((indent, line.to_owned()));
        }
    }
    inside.then(|| finish(report))
}

/// `GPU 00000000:0C:00.0` begins a device.
fn heading(line: &str, at: usize) -> Option<Gpu> {
    let bus = pci::bus_id(line.strip_prefix("GPU ")?)?;
    let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
    gpu.bus_id = Some(bus);
    gpu.at = at;
    Some(gpu)
}

fn record(report: &mut Report, section: &str, key: &str, value: &str) {
    let Some(value) = present(value) else { return };
    let Some(gpu) = report.gpus.last_mut() else {
        let version = value.split_whitespace().next().map(str::to_owned);
        match key {
            "Driver Version" | "KMD Version" => report.driver_version = version,
            "CUDA Version" | "CUDA UMD Version" => report.cuda_version = version,
            _ => {}
        }
        return;
    };
    match (section, key) {
        (_, "Product Name") => gpu.name = Some(value.to_owned()),
        ("MIG Mode", "Current") => gpu.mig = Some(value.to_ascii_lowercase()),
        ("Driver Model", "Current") => gpu.driver_model = Some(value.to_owned()),
        ("FB Memory Usage", "Total") => gpu.memory_bytes = size_bytes(value),
        ("PCI", "Device Id") => gpu.pci_id = nvml_device_id(value),
        (_, "GPU UUID") => gpu.uuid = Some(value.to_owned()),
        (_, "Minor Number") => gpu.index = value.parse().ok(),
        _ => {
            let Some(slice) = gpu.mig_devices.last_mut() else { return };
            match (section, key) {
                ("MIG Device", "Index") => slice.index = value.parse().ok(),
                ("MIG Device", "GPU Instance ID") => slice.gi = value.parse().ok(),
                ("MIG Device", "Compute Instance ID") => slice.ci = value.parse().ok(),
                ("Shared FB Memory Usage" | "FB Memory Usage", "Total") => {
                    slice.memory_bytes = size_bytes(value)
                }
                _ => {}
            }
        }
    }
}

/// NVML packs device and vendor into one number: `0x1E8110DE`.
pub(super) fn nvml_device_id(text: &str) -> Option<String> {
    let packed = u32::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()?;
    let (device, vendor) = (packed >> 16, packed & 0xffff);
    Some(pci::pci_id(u16::try_from(vendor).ok()?, u16::try_from(device).ok()?))
}

fn finish(mut report: Report) -> Report {
    for gpu in &mut report.gpus {
        gpu.driver_version.clone_from(&report.driver_version);
        gpu.kind = families::classify(gpu.vendor, gpu.name.as_deref(), None, None, None)
            .unwrap_or(GpuType::Discrete);
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        gpu.apis.push("cuda".to_owned());
        gpu.judge(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it");
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "==============NVSMI LOG==============\n\
        Driver Version                            : 535.54.03\n\
        CUDA Version                              : 12.2\n\n\
        Attached GPUs                             : 1\n\
        GPU 00000000:3B:00.0\n\
        \x20   Product Name                          : NVIDIA A30\n\
        \x20   MIG Mode\n\
        \x20       Current                           : Enabled\n\
        \x20   MIG Device\n\
        \x20       Index                             : 0\n\
        \x20       GPU Instance ID                   : 3\n\
        \x20       Compute Instance ID               : 0\n\
        \x20       FB Memory Usage\n\
        \x20           Total                         : 5952 MiB\n\
        \x20   Driver Model\n\
        \x20       Current                           : N/A\n\
        \x20   PCI\n\
        \x20       Device Id                         : 0x20B710DE\n\
        \x20   FB Memory Usage\n\
        \x20       Total                             : 24576 MiB\n\
        \x20   BAR1 Memory Usage\n\
        \x20       Total                             : 32768 MiB\n";

    #[test]
    fn the_gpu_total_is_not_a_slice_total() {
        let report = parse(TEXT).unwrap();
        assert_eq!(report.cuda_version.as_deref(), Some("12.2"));
        let gpu = &report.gpus[0];
        assert_eq!((gpu.memory_bytes, gpu.mig.as_deref()), (Some(24576 << 20), Some("enabled")));
        assert_eq!((gpu.pci_id.as_deref(), gpu.driver_model.as_deref()), (Some("10de:20b7"), None));
        assert_eq!(gpu.mig_devices[0].gi, Some(3));
    }

    #[test]
    fn other_text_is_left_alone() {
        assert_eq!(parse("GPU 00000000:3B:00.0\n  Product Name : x"), None);
    }
}
