//! Parser for macOS's `system_profiler SPDisplaysDataType`: text and JSON.

use super::{
    lenient_json::{Object, objects},
    lines_at, size_bytes,
};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
};

const KIND: &str = "system_profiler";

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut gpus = plain(text);
    if gpus.is_empty() {
        gpus = objects(text).iter().filter_map(json_entry).map(DisplayEntry::gpu).collect();
    }
    (!gpus.is_empty()).then(|| ProbeReport { gpus, ..ProbeReport::of(KIND) })
}

/// What is said about one GPU, before it is judged.
#[derive(Default)]
struct DisplayEntry<'a> {
    at: usize,
    name: &'a str,
    vendor: Option<&'a str>,
    device: Option<&'a str>,
    bus: Option<&'a str>,
    cores: Option<&'a str>,
    vram: Option<&'a str>,
    shared: Option<&'a str>,
    metal: Option<&'a str>,
}

/// `Chipset Model:` begins a GPU; the lines below it, up to the next one, belong to it.
fn plain(text: &str) -> Vec<Gpu> {
    let mut found: Vec<DisplayEntry<'_>> = Vec::new();
    for (at, line) in lines_at(text) {
        // Prefixes of a log that holds other lines too survive the normaliser.
        let line =
            if line.trim_start().starts_with('[') { line.rsplit(']').next().unwrap_or(line) } else { line };
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key == "Chipset Model" && !value.is_empty() {
            found.push(DisplayEntry { at, name: value, ..DisplayEntry::default() });
        }
        let Some(entry) = found.last_mut() else { continue };
        let slot = match key {
            "Vendor" => &mut entry.vendor,
            "Device ID" => &mut entry.device,
            "Bus" => &mut entry.bus,
            "Total Number of Cores" => &mut entry.cores,
            "Metal" | "Metal Family" | "Metal Support" => &mut entry.metal,
            _ if key.starts_with("VRAM") && key.contains("Max") => &mut entry.shared,
            _ if key.starts_with("VRAM") => &mut entry.vram,
            _ => continue,
        };
        *slot = slot.or(Some(value));
    }
    found.into_iter().map(DisplayEntry::gpu).collect()
}

/// An entry of the `SPDisplaysDataType` array; displays, which are nested in it, have no model.
fn json_entry(object: &Object) -> Option<DisplayEntry<'_>> {
    let first = |keys: &[&str]| keys.iter().find_map(|key| object.get(key));
    let metal = object.pairs().find(|(key, _)| key.contains("mtlgpufamily") || key.contains("metal"));
    Some(DisplayEntry {
        at: object.at,
        name: object.get("sppci_model")?,
        vendor: object.get("spdisplays_vendor"),
        device: object.get("spdisplays_device-id"),
        bus: object.get("sppci_bus"),
        cores: object.get("sppci_cores"),
        vram: first(&["spdisplays_vram", "_spdisplays_vram"]),
        shared: first(&["spdisplays_vram_shared", "_spdisplays_vram_shared"]),
        metal: metal.map(|(_, value)| value),
    })
}

impl DisplayEntry<'_> {
    fn gpu(self) -> Gpu {
        let vendor_id = self
            .vendor
            .and_then(|v| v.split_once("(0x"))
            .and_then(|(_, id)| pci::id16(id.trim_end_matches(')')));
        let by_word = || self.vendor.and_then(vendor_word).or_else(|| pci::vendor_in_name(self.name));
        let vendor = vendor_id.map(|id| pci::vendor(u32::from(id))).or_else(by_word);
        let device = self.device.and_then(pci::id16);
        let mut gpu = Gpu::of(vendor, KIND);
        gpu.at = self.at;
        gpu.name = Some(self.name.to_owned());
        gpu.pci_device = device.map(|device| format!("0x{device:04x}"));
        gpu.pci_id =
            vendor.and_then(pci_vendor).zip(device).map(|(vendor, device)| pci::pci_id(vendor, device));
        gpu.gpu_cores = self.cores.and_then(|cores| cores.split_whitespace().next()?.parse().ok());
        gpu.memory_bytes = self.vram.and_then(size_bytes);
        gpu.shared_max_bytes = self.shared.and_then(size_bytes);
        gpu.kind = classify::gpu_type(vendor, Some(self.name), device, None, None).unwrap_or_default();
        let built_in =
            self.bus.is_some_and(|bus| bus.to_ascii_lowercase().replace('-', "").contains("builtin"));
        if built_in && gpu.kind != GpuType::Virtual {
            gpu.kind = GpuType::Integrated;
        }
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        self.set_usability(&mut gpu);
        gpu
    }

    fn set_usability(&self, gpu: &mut Gpu) {
        let refused = |metal: &str| {
            let lower = metal.to_ascii_lowercase();
            lower.contains("not supported") || lower.contains("notsupported") || lower.contains("unsupported")
        };
        match self.metal {
            Some(metal) if refused(metal) => {
                gpu.set_usability(Usable::No, Evidence::Opened, "macOS states that Metal does not support it")
            }
            Some(_) => {
                gpu.apis = vec!["metal".to_owned()];
                gpu.set_usability(Usable::Yes, Evidence::Opened, "Metal supports it");
            }
            // Thinned-out text: there is no Apple GPU on a Mac without Metal.
            None if gpu.vendor == Some(Vendor::Apple) => {
                gpu.set_usability(Usable::Yes, Evidence::Listed, "every Apple GPU supports Metal");
            }
            None => {
                gpu.set_usability(Usable::No, Evidence::Listed, "system_profiler states no Metal support")
            }
        }
    }
}

/// `sppci_vendor_amd`, `Intel`, `ATI`…
fn vendor_word(text: &str) -> Option<Vendor> {
    let word = text.trim_start_matches("sppci_vendor_").to_ascii_lowercase();
    if word.starts_with("ati") { Some(Vendor::Amd) } else { pci::vendor_in_name(&word) }
}

/// Apple's own GPUs are no PCI devices.
fn pci_vendor(vendor: Vendor) -> Option<u16> {
    match vendor {
        Vendor::Nvidia => Some(0x10de),
        Vendor::Amd => Some(0x1002),
        Vendor::Intel => Some(0x8086),
        Vendor::Apple | Vendor::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_gpus_of_an_intel_mac() {
        let text = "\
Graphics/Displays:

    Intel UHD Graphics 630:

      Chipset Model: Intel UHD Graphics 630
      Type: GPU
      Bus: Built-In
      VRAM (Dynamic, Max): 1536 MB
      Vendor: Intel
      Device ID: 0x3e9b
      Metal: Supported, feature set macOS GPUFamily2 v1

    Radeon Pro 560X:

      Chipset Model: Radeon Pro 560X
      Type: GPU
      Bus: PCIe
      PCIe Lane Width: x8
      VRAM (Total): 4 GB
      Vendor: AMD (0x1002)
      Device ID: 0x67ef
      Metal: Supported, feature set macOS GPUFamily2 v1
      Displays:
        Color LCD:
          Display Type: Built-In Retina LCD
          Vendor: nobody
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        let (intel, amd) = (&report.gpus[0], &report.gpus[1]);
        assert_eq!(
            (intel.vendor, intel.kind, intel.usable_for_compute),
            (Some(Vendor::Intel), GpuType::Integrated, Usable::Yes)
        );
        assert_eq!((intel.memory_bytes, intel.shared_max_bytes), (None, Some(1536 << 20)));
        assert_eq!(intel.pci_id.as_deref(), Some("8086:3e9b"));
        assert_eq!(
            (amd.vendor, amd.kind, amd.memory_bytes),
            (Some(Vendor::Amd), GpuType::Discrete, Some(4 << 30))
        );
        assert_eq!(
            (amd.pci_device.as_deref(), amd.at),
            (Some("0x67ef"), text.find("      Chipset Model: Radeon").unwrap())
        );
    }

    #[test]
    fn apple_silicon_in_every_wording() {
        for metal in [
            "Metal Support: Metal 3",
            "Metal Family: Supported, Metal GPUFamily Apple 8",
            "Metal Support: Metal 4",
        ] {
            let text = format!(
                "\r\n      Chipset Model: Apple M2 Max\r\n      Bus: Built-In\r\n      Total Number of Cores: 38\r\n      Vendor: Apple (0x106b)\r\n      {metal}\r\n"
            );
            let gpu = parse(&text).unwrap().gpus.remove(0);
            assert_eq!(
                (gpu.vendor, gpu.kind, gpu.gpu_cores),
                (Some(Vendor::Apple), GpuType::Integrated, Some(38))
            );
            assert_eq!((gpu.usable_for_compute, gpu.unified_memory), (Usable::Yes, Some(true)));
            assert_eq!((gpu.memory_bytes, gpu.pci_id), (None, None));
        }
        let cut = parse("Chipset Model: Apple M1").unwrap().gpus.remove(0);
        assert_eq!((cut.usable_for_compute, cut.evidence), (Usable::Yes, Evidence::Listed));
        let logged =
            parse("[10:22:01] [ci]   Chipset Model: Apple M1\n[10:22:01] [ci]   Metal Support: Metal 3\n")
                .unwrap();
        assert_eq!(logged.gpus[0].apis, ["metal"]);
        let guest = parse("Chipset Model: Apple Paravirtual device\nBus: Built-In\nMetal Support: Metal 3\n")
            .unwrap()
            .gpus
            .remove(0);
        assert_eq!((guest.kind, guest.unified_memory), (GpuType::Virtual, None));
    }

    #[test]
    fn macs_before_metal() {
        let text = "Chipset Model: NVIDIA GeForce GT 120\nType: GPU\nBus: PCIe\nSlot: Slot-1\nVRAM (Total): 512 MB\nVendor: NVIDIA (0x10de)\nDevice ID: 0x0640\n";
        let gpu = parse(text).unwrap().gpus.remove(0);
        assert_eq!(
            (gpu.kind, gpu.usable_for_compute, gpu.memory_bytes),
            (GpuType::Discrete, Usable::No, Some(512 << 20))
        );
        let refused = parse(&format!("{text}Metal: Not Supported\n")).unwrap().gpus.remove(0);
        assert_eq!((refused.usable_for_compute, refused.evidence), (Usable::No, Evidence::Opened));
    }

    #[test]
    fn json() {
        let text = r#"{
  "SPDisplaysDataType" : [
    {
      "_name" : "kHW_AppleM3ProItem",
      "spdisplays_mtlgpufamilysupport" : "spdisplays_metal3",
      "spdisplays_ndrvs" : [ { "_name" : "Color LCD", "spdisplays_main" : "spdisplays_yes" } ],
      "spdisplays_vendor" : "sppci_vendor_Apple",
      "sppci_bus" : "spdisplays_builtin",
      "sppci_cores" : "18",
      "sppci_model" : "Apple M3 Pro"
    },
    {
      "_spdisplays_vram" : "8 GB",
      "spdisplays_device-id" : "0x7340",
      "spdisplays_metal" : "spdisplays_supported",
      "spdisplays_vendor" : "sppci_vendor_amd",
      "sppci_bus" : "spdisplays_pcie_device",
      "sppci_model" : "AMD Radeon Pro 5300M"
    }
  ]
}"#;
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        let (apple, amd) = (&report.gpus[0], &report.gpus[1]);
        assert_eq!(
            (apple.vendor, apple.gpu_cores, apple.usable_for_compute),
            (Some(Vendor::Apple), Some(18), Usable::Yes)
        );
        assert_eq!(
            (amd.vendor, amd.memory_bytes, amd.kind),
            (Some(Vendor::Amd), Some(8 << 30), GpuType::Discrete)
        );
        assert_eq!(amd.pci_id.as_deref(), Some("1002:7340"));
    }

    #[test]
    fn a_paraphrase_is_not_output() {
        assert_eq!(parse("SPDisplays: Chipset Model Apple M1; Metal Supported"), None);
    }
}
