//! Parser for `nvidia-smi -q -x` (XML): elements by path; a truncated document loses only what is missing.

use std::collections::HashMap;

use super::{
    apply_compute_mode,
    nvidia_query::{self, nvml_device_id},
    present, size_bytes,
};
use crate::{
    model::{Gpu, GpuType, MigDevice, ProbeReport, Vendor},
    pci,
};

const KIND: &str = "nvidia-smi-xml";
const ROOT: &str = "<nvidia_smi_log";
/// Max nesting, deeper than any of its elements; what is below is skipped.
const MAX_DEPTH: usize = 12;

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let start = text.find(ROOT)?;
    let mut log = Log { report: ProbeReport::of(KIND), known: HashMap::new(), current: None };
    let mut path: Vec<&str> = Vec::new();
    let mut skipped = 0usize;
    let mut at = start;
    for piece in text.get(start..)?.split('<') {
        let begin = at;
        at += piece.len() + 1;
        let Some((tag, content)) = piece.split_once('>') else { continue };
        if let Some(name) = tag.strip_prefix('/') {
            close(&mut path, name.trim(), &mut skipped);
        } else if tag.ends_with('/') || tag.starts_with(['!', '?']) {
            // Empty elements and declarations have no content.
        } else if path.len() >= MAX_DEPTH {
            skipped += 1;
        } else {
            let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
            path.push(name);
            match path.as_slice() {
                [_, "gpu"] => log.open_gpu(attributes, begin),
                [.., "mig_device"] => {
                    if let Some(gpu) = log.gpu() {
                        gpu.mig_devices.push(MigDevice::default());
                    }
                }
                _ => {}
            }
            if let Some(value) = present(content) {
                log.record(&path, value);
            }
        }
    }
    nvidia_query::finish(&mut log.report);
    Some(log.report)
}

/// Closes an element; one that was never opened (truncated beginning) is ignored.
fn close(path: &mut Vec<&str>, name: &str, skipped: &mut usize) {
    if *skipped > 0 {
        *skipped -= 1;
    } else if let Some(depth) = path.iter().rposition(|open| *open == name) {
        path.truncate(depth);
    }
}

/// The log as far as it was read.
struct Log {
    report: ProbeReport,
    known: HashMap<String, usize>,
    /// Device whose element is open.
    current: Option<usize>,
}

impl Log {
    fn gpu(&mut self) -> Option<&mut Gpu> {
        self.report.gpus.get_mut(self.current?)
    }

    /// `<gpu id="00000000:01:00.0">` begins a device, or returns to it: with `-l` the log repeats.
    fn open_gpu(&mut self, attributes: &str, at: usize) {
        let mut gpu = Gpu::of(Some(Vendor::Nvidia), KIND);
        gpu.bus_id =
            attributes.split_once("id=").and_then(|(_, id)| pci::bus_id(id.trim_matches(['"', '\''])));
        gpu.at = at;
        let new = self.report.gpus.len();
        let place = match &gpu.bus_id {
            Some(bus) => *self.known.entry(bus.clone()).or_insert(new),
            None => new,
        };
        self.current = Some(place);
        match self.report.gpus.get_mut(place) {
            Some(old) => old.mig_devices.clear(),
            None => self.report.gpus.push(gpu),
        }
    }

    fn record(&mut self, path: &[&str], value: &str) {
        let Some(gpu) = self.gpu() else {
            match path {
                [_, "driver_version" | "kmd_version"] => self.report.driver_version = Some(value.to_owned()),
                [_, "cuda_version" | "cuda_umd_version"] => self.report.cuda_version = Some(value.to_owned()),
                _ => {}
            }
            return;
        };
        if let Some(inside) = path.iter().position(|open| *open == "mig_device") {
            let Some(slice) = gpu.mig_devices.last_mut() else { return };
            match path.get(inside + 1..).unwrap_or(&[]) {
                ["index"] => slice.index = value.parse().ok(),
                ["gpu_instance_id"] => slice.gi = value.parse().ok(),
                ["compute_instance_id"] => slice.ci = value.parse().ok(),
                ["fb_memory_usage", "total"] => slice.memory_bytes = size_bytes(value),
                _ => {}
            }
            return;
        }
        match path {
            [.., "product_name"] => gpu.name = Some(value.to_owned()),
            [.., "uuid"] => gpu.uuid = gpu.uuid.take().or_else(|| Some(value.to_owned())),
            [.., "minor_number"] => gpu.index = value.parse().ok(),
            [.., "pci_bus_id"] => gpu.bus_id = gpu.bus_id.take().or_else(|| pci::bus_id(value)),
            [.., "pci_device_id"] => gpu.pci_id = nvml_device_id(value),
            [.., "current_mig"] => gpu.mig = Some(value.to_ascii_lowercase()),
            [.., "current_dm" | "current_driver_model"] => gpu.driver_model = Some(value.to_owned()),
            [.., "virtualization_mode"] if value == "VGPU" => gpu.kind = GpuType::Virtual,
            [.., "compute_mode"] => apply_compute_mode(gpu, value),
            // "memory_usage" alone in drivers before 319.
            [.., "fb_memory_usage" | "memory_usage", "total"] => gpu.memory_bytes = size_bytes(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>545.23.08</driver_version>
	<cuda_version>12.3</cuda_version>
	<gpu id="00000000:65:00.0">
		<product_name>NVIDIA RTX A5000</product_name>
		<mig_mode><current_mig>N/A</current_mig></mig_mode>
		<mig_devices>
			<mig_device><index>0</index><gpu_instance_id>7</gpu_instance_id>
				<fb_memory_usage><total>4864 MiB</total></fb_memory_usage></mig_device>
		</mig_devices>
		<pci><pci_device_id>223110DE</pci_device_id></pci>
		<fb_memory_usage><total>24564 MiB</total></fb_memory_usage>
		<bar1_memory_usage><total>256 MiB</total></bar1_memory_usage>
		<processes><process_info><process_name>x -> y</process_name></process_info></processes>
	</gpu>
"#;

    #[test]
    fn elements_are_told_apart_by_path() {
        let report = parse(TEXT).unwrap();
        assert_eq!(
            (report.driver_version.as_deref(), report.cuda_version.as_deref()),
            (Some("545.23.08"), Some("12.3"))
        );
        let gpu = &report.gpus[0];
        assert_eq!((gpu.memory_bytes, gpu.pci_id.as_deref()), (Some(24564 << 20), Some("10de:2231")));
        assert_eq!((gpu.bus_id.as_deref(), gpu.mig.as_deref()), (Some("0000:65:00.0"), None));
        assert_eq!((gpu.mig_devices[0].gi, gpu.mig_devices[0].memory_bytes), (Some(7), Some(4864 << 20)));
    }

    #[test]
    fn a_repeated_log_lists_its_gpu_once() {
        assert_eq!(parse(&format!("{TEXT}</nvidia_smi_log>\n{TEXT}")).unwrap().gpus.len(), 1);
    }

    #[test]
    fn deep_and_unbalanced_elements_do_no_harm() {
        let deep = format!("{ROOT}>{}", "<a>".repeat(10_000));
        assert_eq!(parse(&deep).unwrap().gpus, []);
        assert_eq!(parse("<gpu id=\"00000000:65:00.0\">"), None);
        assert_eq!(parse("<nvidia_smi_log></x></gpu><gpu id='1").unwrap().gpus, []);
    }
}
