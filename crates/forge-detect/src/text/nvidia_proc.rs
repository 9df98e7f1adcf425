//! What does `/proc/driver/nvidia` say? The driver's version and flavour, and one block per GPU.

use super::{lines_at, present};
use crate::{
    families,
    model::{Evidence, Gpu, GpuType, Report, Usable, Vendor},
    pci,
};

pub(crate) fn parse(text: &str) -> Option<Report> {
    let version = parse_version(text);
    let gpus = parse_gpus(text);
    if version.is_none() && gpus.is_empty() {
        return None;
    }
    let mut report = Report::of(if gpus.is_empty() { "proc-nvidia-version" } else { "proc-nvidia-gpu" });
    report.gpus = gpus;
    if let Some(Version { driver, flavour }) = version {
        for gpu in &mut report.gpus {
            gpu.driver_version = Some(driver.clone());
        }
        report.driver_version = Some(driver);
        report.kernel_module = Some(flavour.to_owned());
    }
    Some(report)
}

/// What the NVRM line states.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) driver: String,
    pub(crate) flavour: &'static str,
}

/// `NVRM version: NVIDIA UNIX [Open] … Kernel Module [for ARCH]  580.95.05  …`: the version is the first word after
/// "Kernel Module" that is digits and dots; builder names and dates come later.
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    let line = text.lines().find(|l| l.contains("NVRM version:"))?;
    let tail = line.split_once("Kernel Module")?.1;
    let is_version = |w: &&str| {
        w.contains('.') && w.bytes().all(|b| b.is_ascii_digit() || b == b'.') && !w.starts_with('.')
    };
    let driver = tail.split_whitespace().find(is_version)?.to_owned();
    let flavour = if line.contains("Open Kernel Module") { "open" } else { "proprietary" };
    Some(Version { driver, flavour })
}

/// Blocks of `/proc/driver/nvidia/gpus/*/information`.
fn parse_gpus(text: &str) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = Vec::new();
    for (at, line) in lines_at(text) {
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let value = value.trim();
        match key.trim() {
            // "Model:" alone is too common a word; the tab that the kernel prints after it is kept or became blanks.
            "Model" if line.trim_start().starts_with("Model:") => {
                let mut gpu = Gpu::of(Some(Vendor::Nvidia), "proc-nvidia-gpu");
                gpu.name = present(value).filter(|n| !n.eq_ignore_ascii_case("unknown")).map(str::to_owned);
                gpu.at = at;
                gpus.push(gpu);
            }
            "Bus Location" => {
                if let Some(gpu) = gpus.last_mut() {
                    gpu.bus_id = pci::bus_id(value);
                }
            }
            "GPU UUID" => {
                if let Some(gpu) = gpus.last_mut() {
                    gpu.uuid = present(value).filter(|v| !v.contains('?')).map(str::to_owned);
                }
            }
            "GPU Excluded" => {
                if let Some(gpu) = gpus.last_mut()
                    && value == "Yes"
                {
                    gpu.judge(Usable::No, Evidence::Failed, "excluded by the nvidia module's options");
                }
            }
            _ => {}
        }
    }
    gpus.retain(|g| g.bus_id.is_some());
    for gpu in &mut gpus {
        gpu.kind = families::classify(gpu.vendor, gpu.name.as_deref(), None, None, None)
            .unwrap_or(GpuType::Discrete);
        gpu.kernel_driver = Some("nvidia".to_owned());
        gpu.judge(Usable::Yes, Evidence::Bound, "the nvidia kernel module drives it");
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_not_the_builders_name() {
        let open = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.124.06  Release Build  (b@H22.4-I1)  Wed";
        assert_eq!(parse_version(open), Some(Version { driver: "570.124.06".into(), flavour: "open" }));
        let old = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12 09:19:07 UTC 2022";
        assert_eq!(parse_version(old), Some(Version { driver: "390.157".into(), flavour: "proprietary" }));
        assert_eq!(parse_version("NVRM version: nonsense"), None);
    }

    #[test]
    fn blocks_without_a_bus_are_other_text() {
        let text = "Model: \t Tesla T4\nIRQ: 7\nBus Location: \t 0000:00:1e.0\nGPU Excluded:\t Yes\n\nModel: a car\n";
        let gpus = parse(text).unwrap().gpus;
        assert_eq!(gpus.len(), 1);
        assert_eq!(gpus[0].usable_for_compute, Usable::No);
        assert_eq!(parse("Model: a car\n"), None);
    }
}
