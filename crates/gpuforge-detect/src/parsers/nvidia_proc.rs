//! Parser for `/proc/driver/nvidia`: driver version, kernel module flavour, and one block per GPU.

use std::collections::HashSet;

use super::{lines_at, present};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
};

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let version = parse_version(text);
    let gpus = parse_gpus(text);
    if version.is_none() && gpus.is_empty() {
        return None;
    }
    let mut report = ProbeReport::of(if gpus.is_empty() { "proc-nvidia-version" } else { "proc-nvidia-gpu" });
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
/// "Kernel Module" that is digits and dots; builder names and dates come later. Before 2008 it read `1.0-9755`.
pub(crate) fn parse_version(text: &str) -> Option<Version> {
    let line = text.lines().find(|l| l.contains("NVRM version:"))?;
    let tail = line.split_once("Kernel Module")?.1;
    let is_version = |w: &&str| {
        w.contains('.')
            && w.bytes().all(|b| b.is_ascii_digit() || b".-".contains(&b))
            && w.starts_with(|c: char| c.is_ascii_digit())
    };
    let driver = tail.split_whitespace().find(is_version)?.to_owned();
    let flavour = if line.contains("Open Kernel Module") { "open" } else { "proprietary" };
    Some(Version { driver, flavour })
}

/// Blocks of `/proc/driver/nvidia/gpus/*/information`, alone or joined under `==> path <==`.
fn parse_gpus(text: &str) -> Vec<Gpu> {
    let mut gpus: Vec<Gpu> = Vec::new();
    let mut path = None;
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some(file) = line.strip_prefix("==> ") {
            path = file.split_once("nvidia/gpus/").and_then(|(_, rest)| rest.split_once('/'));
            path = path.filter(|(_, file)| file.starts_with("information"));
            continue;
        }
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if key.trim() == "Model" {
            let mut gpu = Gpu::of(Some(Vendor::Nvidia), "proc-nvidia-gpu");
            gpu.name = present(value).filter(|n| !n.eq_ignore_ascii_case("unknown")).map(str::to_owned);
            // The directory is named by the address.
            gpu.bus_id = path.take().and_then(|(bus, _)| pci::bus_id(bus));
            gpu.at = at;
            gpus.push(gpu);
            continue;
        }
        let Some(gpu) = gpus.last_mut() else { continue };
        match key.trim() {
            "Bus Location" => gpu.bus_id = bus_location(value).or(gpu.bus_id.take()),
            "GPU UUID" => gpu.uuid = present(value).filter(|v| !v.contains('?')).map(str::to_owned),
            "GPU Excluded" | "Blacklisted" if value == "Yes" => {
                gpu.set_usability(Usable::No, Evidence::Failed, "excluded by the nvidia module's options");
            }
            _ => {}
        }
    }
    let mut seen = HashSet::new();
    // "Model:" alone is too common a word; a block with an address is one of the kernel's.
    gpus.retain(|g| g.bus_id.is_some() && seen.insert((g.bus_id.clone(), g.name.clone())));
    for gpu in &mut gpus {
        gpu.kind = classify::gpu_type(gpu.vendor, gpu.name.as_deref(), None, None, None)
            .unwrap_or(GpuType::Discrete);
        gpu.kernel_driver = Some("nvidia".to_owned());
        gpu.set_usability(Usable::Yes, Evidence::Bound, "the nvidia kernel module drives it");
    }
    gpus
}

/// `0000:01:00.0`; drivers before 300 wrote `0000:01.00.0` or `01.00.0`.
fn bus_location(value: &str) -> Option<String> {
    let old = || {
        let (bus, slot) = value.split_once('.')?;
        pci::bus_id(&format!("{bus}:{slot}"))
    };
    pci::bus_id(value).or_else(old)
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
        let ancient = "NVRM version: NVIDIA UNIX x86 Kernel Module  1.0-8776  Mon Oct 16 21:56:04 PDT 2006";
        assert_eq!(parse_version(ancient).unwrap().driver, "1.0-8776");
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

    #[test]
    fn joined_files_and_old_addresses() {
        let text = "==> /proc/driver/nvidia/gpus/0000:0a:00.0/information <==\nModel: \t NVIDIA T600\n\n\
                    ==> /proc/driver/nvidia/gpus/0/information <==\nModel: \t Quadro 600\nBus Location: \t 0000:0b.00.0\n";
        let buses: Vec<_> = parse(text).unwrap().gpus.into_iter().filter_map(|g| g.bus_id).collect();
        assert_eq!(buses, ["0000:0a:00.0", "0000:0b:00.0"]);
    }
}
