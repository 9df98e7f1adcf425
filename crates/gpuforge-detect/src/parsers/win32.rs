//! Parser for `Get-CimInstance Win32_VideoController` (Windows display adapters), as JSON or as a list.

use super::lines_at;
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor},
    pci,
};

const KIND: &str = "win32";

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of(KIND);
    let mut open: Option<Adapter> = None;
    for (at, line) in lines_at(text) {
        let Some((key, value)) = field(line) else { continue };
        let repeats = open.as_ref().is_some_and(|a| a.has(key));
        if repeats {
            report.gpus.extend(open.take().and_then(Adapter::gpu));
        }
        open.get_or_insert_with(|| Adapter { at, ..Adapter::default() }).set(key, value);
    }
    report.gpus.extend(open.and_then(Adapter::gpu));
    (!report.gpus.is_empty()).then_some(report)
}

/// `"Name":  "NVIDIA…",` of ConvertTo-Json, or `Name : NVIDIA…` of Format-List.
fn field(line: &str) -> Option<(&str, String)> {
    let line = line.trim().trim_end_matches(',');
    let (key, value) = line.split_once(':')?;
    let key = key.trim().trim_matches('"');
    let known = ["Name", "PNPDeviceID", "DriverVersion", "Status"].into_iter().find(|k| *k == key)?;
    let value = value.trim();
    if value == "null" || value.is_empty() {
        return None;
    }
    // JSON doubles backslashes.
    Some((known, value.trim_matches('"').replace("\\\\", "\\").replace("\\u0026", "&")))
}

/// Adapters that only carry a picture to another machine.
fn is_remote(name: &str) -> bool {
    ["Remote Display", "Mirage", "Citrix", "DameWare", "Indirect Display"]
        .iter()
        .any(|word| name.contains(word))
}

#[derive(Default)]
struct Adapter {
    name: Option<String>,
    pnp: Option<String>,
    driver: Option<String>,
    status: Option<String>,
    at: usize,
}

impl Adapter {
    fn slot(&mut self, key: &str) -> &mut Option<String> {
        match key {
            "Name" => &mut self.name,
            "PNPDeviceID" => &mut self.pnp,
            "DriverVersion" => &mut self.driver,
            _ => &mut self.status,
        }
    }

    fn has(&self, key: &str) -> bool {
        match key {
            "Name" => self.name.is_some(),
            "PNPDeviceID" => self.pnp.is_some(),
            "DriverVersion" => self.driver.is_some(),
            _ => self.status.is_some(),
        }
    }

    fn set(&mut self, key: &str, value: String) {
        *self.slot(key) = Some(value);
    }

    /// `None` without the PNP id: a line called "Name" is in every other text too.
    fn gpu(self) -> Option<Gpu> {
        let pnp = self.pnp?;
        let id = |label: &str| pnp.split_once(label).and_then(|(_, rest)| pci::id16(rest.get(..4)?));
        let (vendor_id, device) = (id("VEN_"), id("DEV_"));
        let name = self.name;
        let console = pci::console_only(vendor_id, name.as_deref().unwrap_or(""));
        let vendor = match vendor_id {
            Some(id) => pci::vendor(u32::from(id)),
            None => name.as_deref().and_then(pci::vendor_in_name).unwrap_or(Vendor::Other),
        };
        let mut gpu = Gpu::of(Some(vendor), KIND);
        let remote = name.as_deref().is_some_and(is_remote);
        gpu.kind = match console {
            _ if remote => GpuType::Virtual,
            _ if name.as_deref().is_some_and(classify::is_software_name) => GpuType::Software,
            Some(chip) if chip.emulated => GpuType::Virtual,
            Some(_) => GpuType::Integrated,
            None => classify::gpu_type(Some(vendor), name.as_deref(), device, None, None).unwrap_or_default(),
        };
        gpu.pci_id = vendor_id.zip(device).map(|(v, d)| pci::pci_id(v, d));
        gpu.name = name;
        gpu.driver_version = self.driver;
        gpu.at = self.at;
        match (console, self.status.as_deref()) {
            (Some(chip), _) => gpu.set_usability(Usable::No, Evidence::Bound, chip.what),
            (None, _) if remote => {
                gpu.set_usability(Usable::No, Evidence::Bound, "an adapter of a remote session")
            }
            (None, Some(bad)) if bad != "OK" => {
                gpu.set_usability(
                    Usable::No,
                    Evidence::Failed,
                    format!("Windows reports its status as {bad}"),
                );
            }
            _ if gpu.kind == GpuType::Software => {
                gpu.set_usability(Usable::No, Evidence::Bound, "a software adapter")
            }
            _ => gpu.set_usability(Usable::Yes, Evidence::Bound, "its Windows driver is loaded"),
        }
        Some(gpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_list_read_alike() {
        let json = r#"[
    {
        "Name":  "NVIDIA GeForce RTX 3050",
        "PNPDeviceID":  "PCI\\VEN_10DE\u0026DEV_2507\u0026SUBSYS_00000000\u0026REV_A1\\4\u00261",
        "DriverVersion":  "32.0.15.6094",
        "Status":  "OK"
    },
    {
        "Name":  "Microsoft Basic Display Adapter",
        "PNPDeviceID":  "PCI\\VEN_1234\u0026DEV_1111",
        "DriverVersion":  "10.0.1",
        "Status":  "OK"
    }
]"#;
        let gpus = parse(json).unwrap().gpus;
        assert_eq!(gpus.len(), 2);
        assert_eq!((gpus[0].pci_id.as_deref(), gpus[0].kind), (Some("10de:2507"), GpuType::Discrete));
        assert_eq!((gpus[1].kind, gpus[1].usable_for_compute), (GpuType::Virtual, Usable::No));
        let list = "Name : Intel(R) UHD Graphics 630\r\nPNPDeviceID : PCI\\VEN_8086&DEV_3E92&X\r\nStatus : Error\r\n";
        let gpus = parse(list).unwrap().gpus;
        assert_eq!((gpus[0].kind, gpus[0].usable_for_compute), (GpuType::Integrated, Usable::No));
        let remote =
            "Name : Microsoft Remote Display Adapter\nPNPDeviceID : SWD\\REMOTEDISPLAYENUM\nStatus : OK\n";
        assert_eq!(parse(remote).unwrap().gpus[0].usable_for_compute, Usable::No);
        assert_eq!(parse("Name : something\nStatus : OK"), None);
    }
}
