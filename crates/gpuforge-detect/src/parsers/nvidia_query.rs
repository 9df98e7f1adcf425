//! Parser for `nvidia-smi -q`: sections by indentation; MIG blocks have memory totals of their own.

use std::collections::HashMap;

use super::{apply_compute_mode, is_absent, lines_at, present, size_bytes};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, MigDevice, ProbeReport, Usable, Vendor},
    pci,
};

const KIND: &str = "nvidia-smi-q";
/// Deeper than any of its sections.
const MAX_DEPTH: usize = 12;

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut log = Log { report: ProbeReport::of(KIND), known: HashMap::new(), current: None };
    let mut sections: Vec<(usize, &str)> = Vec::new();
    let mut inside = false;
    for (at, line) in lines_at(text) {
        let indent = line.len() - line.trim_start().len();
        let line = line.trim();
        if line.contains("NVSMI LOG") {
            inside = true;
        } else if !inside || line.is_empty() {
            // Other text, before or between the logs.
        } else if let Some(bus) = heading(line) {
            sections.clear();
            log.open_gpu(bus, at);
        } else if let Some((key, value)) =
            line.split_once(" : ").or_else(|| line.strip_suffix(" :").map(|k| (k, "")))
        {
            while sections.last().is_some_and(|(depth, _)| *depth > indent) {
                sections.pop();
            }
            log.record(&sections, key.trim(), value.trim());
        } else {
            while sections.last().is_some_and(|(depth, _)| *depth >= indent) {
                sections.pop();
            }
            if line == "MIG Device"
                && let Some(gpu) = log.gpu()
            {
                gpu.mig_devices.push(MigDevice::default());
            }
            // nvidia-smi nests four deep; prose with growing indentation may not pile up.
            if sections.len() < MAX_DEPTH {
                sections.push((indent, line));
            }
        }
    }
    finish(&mut log.report);
    inside.then_some(log.report)
}

/// Address of the device that `GPU 00000000:0C:00.0` begins; drivers before 280 wrote `GPU 0:12:0`.
fn heading(line: &str) -> Option<Option<String>> {
    let word = line.strip_prefix("GPU ")?;
    if let Some(bus) = pci::bus_id(word) {
        return Some(Some(bus));
    }
    let old = word.split(':').count() == 3 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    // Neither base nor order of the old form is stated; "Bus Id" in the PCI section is.
    old.then_some(None)
}

/// The log as far as it was read.
struct Log {
    report: ProbeReport,
    known: HashMap<String, usize>,
    /// Device whose lines follow.
    current: Option<usize>,
}

impl Log {
    fn gpu(&mut self) -> Option<&mut Gpu> {
        self.report.gpus.get_mut(self.current?)
    }

    /// Begins a device, or returns to it: with `-l`, and when logs of several sections are joined, it comes again.
    fn open_gpu(&mut self, bus: Option<String>, at: usize) {
        let new = self.report.gpus.len();
        let place = match &bus {
            Some(bus) => *self.known.entry(bus.clone()).or_insert(new),
            None => new,
        };
        self.current = Some(place);
        match self.report.gpus.get_mut(place) {
            Some(old) => old.mig_devices.clear(),
            None => {
                let gpu = Gpu { bus_id: bus, at, ..Gpu::of(Some(Vendor::Nvidia), KIND) };
                self.report.gpus.push(gpu);
            }
        }
    }

    fn record(&mut self, sections: &[(usize, &str)], key: &str, value: &str) {
        let section = sections.last().map_or("", |(_, name)| *name);
        let Some(gpu) = self.gpu() else {
            let version = present(value).and_then(|v| v.split_whitespace().next()).map(str::to_owned);
            match key {
                "Driver Version" | "KMD Version" => self.report.driver_version = version,
                "CUDA Version" | "CUDA UMD Version" => self.report.cuda_version = version,
                _ => {}
            }
            return;
        };
        if key == "Product Name" && is_absent(value) && value != "N/A" {
            gpu.error = Some(value.trim_matches(['[', ']']).to_owned());
        }
        let Some(value) = present(value) else { return };
        if sections.iter().any(|(_, name)| *name == "MIG Device") {
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
            return;
        }
        match (section, key) {
            (_, "Product Name") => gpu.name = Some(value.to_owned()),
            ("MIG Mode", "Current") => gpu.mig = Some(value.to_ascii_lowercase()),
            ("Driver Model", "Current") => gpu.driver_model = Some(value.to_owned()),
            // "Memory Usage" alone in drivers before 319.
            ("FB Memory Usage" | "Memory Usage", "Total") => gpu.memory_bytes = size_bytes(value),
            ("PCI", "Device Id") => gpu.pci_id = nvml_device_id(value),
            ("PCI", "Bus Id") => gpu.bus_id = gpu.bus_id.take().or_else(|| pci::bus_id(value)),
            ("GPU Virtualization Mode", "Virtualization Mode" | "Virtualization mode") if value == "VGPU" => {
                gpu.kind = GpuType::Virtual;
            }
            (_, "GPU UUID") => gpu.uuid = Some(value.to_owned()),
            (_, "Minor Number") => gpu.index = value.parse().ok(),
            (_, "Compute Mode") => apply_compute_mode(gpu, value),
            _ => {}
        }
    }
}

/// NVML packs device and vendor into one number: `0x1E8110DE`, in XML without `0x`.
pub(super) fn nvml_device_id(text: &str) -> Option<String> {
    let text = text.trim();
    let packed = u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()?;
    let (device, vendor) = (packed >> 16, packed & 0xffff);
    Some(pci::pci_id(u16::try_from(vendor).ok()?, u16::try_from(device).ok()?))
}

/// States what holds for every device of a log.
pub(super) fn finish(report: &mut ProbeReport) {
    for gpu in &mut report.gpus {
        gpu.driver_version.clone_from(&report.driver_version);
        if gpu.kind == GpuType::Unknown {
            gpu.kind = classify::gpu_type(gpu.vendor, gpu.name.as_deref(), None, None, None)
                .unwrap_or(GpuType::Discrete);
        }
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        gpu.apis.push("cuda".to_owned());
        match gpu.error.clone() {
            Some(error) => gpu.set_usability(Usable::No, Evidence::Failed, format!("nvidia-smi: {error}")),
            None => gpu.set_usability(Usable::Yes, Evidence::Opened, "the NVIDIA driver lists it"),
        }
    }
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
