//! Parser for `xpu-smi discovery`: tables (all devices, or one with `-d`) and JSON (`-j`).

use super::{
    lenient_json::{Object, objects},
    lines_at, present, size_bytes,
};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor, Warning},
    pci,
};

const KIND: &str = "xpu-smi";

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut gpus = table(text);
    if gpus.is_empty() {
        gpus = json(text);
    }
    let none = text.lines().map(str::trim).find(|line| line.starts_with("No device discovered"));
    let warning = none.filter(|_| gpus.is_empty()).map(|line| Warning {
        source: KIND.to_owned(),
        message: line.to_owned(),
        hint: Some(
            "add the user to the group render, and see that the i915 or xe driver is loaded".to_owned(),
        ),
    });
    (!gpus.is_empty() || warning.is_some()).then(|| ProbeReport {
        gpus,
        warnings: warning.into_iter().collect(),
        ..ProbeReport::of(KIND)
    })
}

/// `| 0 | Device Name: … |` rows: a number in the first cell begins a device, an empty one continues it.
fn table(text: &str) -> Vec<Gpu> {
    let mut devices: Vec<Device<'_>> = Vec::new();
    for (at, line) in lines_at(text) {
        let mut cells = line.trim().strip_prefix('|').unwrap_or("").split('|').map(str::trim);
        let (Some(first), Some(fact)) = (cells.next(), cells.next()) else { continue };
        let Some((key, value)) = fact.split_once(':') else { continue };
        let index = first.parse::<u32>().ok();
        // A paste may begin below the row that numbers the device.
        let again = first.is_empty()
            && key == "Device Name"
            && devices.last().is_none_or(|d| d.get(&[key]).is_some());
        if index.is_some() || again {
            devices.push(Device { at, index, pairs: Vec::new() });
        }
        if let Some(device) = devices.last_mut().filter(|_| index.is_some() || first.is_empty()) {
            device.pairs.push((key.trim(), value.trim()));
        }
    }
    devices.iter().filter_map(|device| gpu(|keys| device.get(keys), device.index, device.at)).collect()
}

#[derive(Default)]
struct Device<'a> {
    at: usize,
    index: Option<u32>,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Device<'a> {
    fn get(&self, keys: &[&str]) -> Option<&'a str> {
        keys.iter().find_map(|key| self.pairs.iter().find(|(k, _)| k == key)).map(|(_, value)| *value)
    }
}

/// `{"device_list": [{…}]}`, or one object with `-d`.
fn json(text: &str) -> Vec<Gpu> {
    let ours = |object: &&Object| object.get("pci_bdf_address").or(object.get("pci_device_id")).is_some();
    let read = |object: &Object| {
        let index = object.get("device_id").and_then(|id| id.parse().ok());
        gpu(|keys| keys.iter().find_map(|key| object.get(key)), index, object.at)
    };
    objects(text).iter().filter(ours).filter_map(read).collect()
}

/// One device; every key is looked up by its spelling in the table and in JSON.
fn gpu<'a>(get: impl Fn(&[&str]) -> Option<&'a str>, index: Option<u32>, at: usize) -> Option<Gpu> {
    let text = |keys: &[&str]| get(keys).and_then(present).filter(|value| *value != "unknown");
    let name = text(&["Device Name", "device_name"])?;
    let device = text(&["PCI Device ID", "pci_device_id"]).and_then(pci::id16).or_else(|| id_in_name(name));
    let mut gpu = Gpu::of(pci::vendor_in_name(name).or(Some(Vendor::Intel)), KIND);
    (gpu.at, gpu.index) = (at, index);
    gpu.name = Some(name.to_owned());
    gpu.bus_id = text(&["PCI BDF Address", "pci_bdf_address"]).and_then(pci::bus_id);
    gpu.driver_version = text(&["Driver Version", "driver_version"]).map(str::to_owned);
    let bytes = text(&["memory_physical_size_byte"]).and_then(|bytes| bytes.parse().ok());
    gpu.memory_bytes =
        text(&["Memory Physical Size"]).and_then(size_bytes).or(bytes).filter(|bytes| *bytes > 0);
    if let Some(device) = device {
        gpu.pci_device = Some(format!("0x{device:04x}"));
        gpu.pci_id = Some(pci::pci_id(0x8086, device));
    }
    let function = text(&["Function Type", "device_function_type"]);
    gpu.kind = match function {
        Some(function) if function.eq_ignore_ascii_case("virtual") => GpuType::Virtual,
        _ => classify::gpu_type(gpu.vendor, Some(name), device, None, gpu.bus_id.as_deref())
            .unwrap_or_default(),
    };
    gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
    gpu.apis = vec!["level-zero".to_owned()];
    match text(&["Device State", "device_state"]) {
        Some(state) if !state.eq_ignore_ascii_case("normal") => {
            gpu.error = Some(format!("device state: {state}"));
            gpu.set_usability(Usable::No, Evidence::Failed, format!("xpu-smi reports its state as {state}"));
        }
        _ => gpu.set_usability(Usable::Yes, Evidence::Opened, "xpu-smi opened it through Level-Zero"),
    }
    Some(gpu)
}

/// The device id in `Intel(R) Graphics [0x56a0]`, as Intel's runtimes name chips that they have no name for.
pub(super) fn id_in_name(name: &str) -> Option<u16> {
    let (id, _) = name.split_once("[0x")?.1.split_once(']')?;
    pci::id16(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_devices() {
        let text = "\
root@box:~# xpu-smi discovery
+-----------+------------------------------------------------------+
| Device ID | Device Information                                   |
+-----------+------------------------------------------------------+
| 0         | Device Name: Intel(R) Data Center GPU Flex 140       |
|           | Vendor Name: Intel(R) Corporation                    |
|           | UUID: 00000000-0000-0000-0000-000000000001           |
|           | PCI BDF Address: 0000:4D:00.0                        |
|           | DRM Device: /dev/dri/card1                           |
|           | Function Type: physical                              |
+-----------+------------------------------------------------------+
| 1         | Device Name: Intel(R) Data Center GPU Flex 140       |
|           | PCI BDF Address: 0000:4d:00.1                        |
|           | Function Type: virtual                               |
+-----------+------------------------------------------------------+
";
        let report = parse(text).unwrap();
        let got: Vec<_> = report.gpus.iter().map(|g| (g.index, g.bus_id.as_deref(), g.kind)).collect();
        assert_eq!(
            got,
            [
                (Some(0), Some("0000:4d:00.0"), GpuType::Discrete),
                (Some(1), Some("0000:4d:00.1"), GpuType::Virtual),
            ]
        );
        assert_eq!((report.gpus[0].memory_bytes, report.gpus[0].usable_for_compute), (None, Usable::Yes));
    }

    #[test]
    fn one_device_in_detail_and_cut() {
        let text = "\
    |           | Device Type: GPU                              |
    |           | Device Name: Intel(R) Arc(TM) A770 Graphics   |
    |           | PCI Device ID: 0x56a0                         |
    |           | Serial Number: unknown                        |
    |           | Driver Version: I915_23WW51.5                 |
    |           | GFX Firmware Version:                         |
    |           | PCI BDF Address: 0000:03:00.0                 |
    |           | Memory Physical Size: 15473.50 MiB            |
    |           | Max Mem Alloc";
        let gpu = parse(text).unwrap().gpus.remove(0);
        assert_eq!(
            (gpu.name.as_deref(), gpu.pci_device.as_deref()),
            (Some("Intel(R) Arc(TM) A770 Graphics"), Some("0x56a0"))
        );
        assert_eq!(
            (gpu.driver_version.as_deref(), gpu.memory_bytes),
            (Some("I915_23WW51.5"), Some(16_225_140_736))
        );
        assert_eq!(gpu.kind, GpuType::Discrete);
    }

    #[test]
    fn json_list_and_single_object() {
        let list = r#"{"device_list": [{"device_function_type": "physical", "device_id": 0, "device_name": "Intel(R) Data Center GPU Max 1100", "pci_bdf_address": "0000:29:00.0", "pci_device_id": "0xbda"}, {"device_id": 1, "device_name": "Intel(R) Data Center GPU Max 1100", "pci_bdf_address": "0000:3a:00.0", "pci_device_id": "0x0bda"}]}"#;
        let report = parse(list).unwrap();
        assert_eq!(report.gpus.len(), 2);
        assert_eq!(report.gpus[0].pci_id.as_deref(), Some("8086:0bda"));
        assert_eq!(report.gpus[1].bus_id.as_deref(), Some("0000:3a:00.0"));
        let one = "{\n  \"device_id\": 0,\n  \"device_name\": \"Intel(R) Arc(TM) B570 Graphics\",\n  \"driver_version\": \"16929133\",\n  \"memory_physical_size_byte\": \"10695475200\",\n  \"pci_device_id\": \"0xe20c\"\n}";
        let gpu = parse(one).unwrap().gpus.remove(0);
        assert_eq!(
            (gpu.memory_bytes, gpu.driver_version.as_deref()),
            (Some(10_695_475_200), Some("16929133"))
        );
    }

    #[test]
    fn failures() {
        let report = parse("No device discovered\n").unwrap();
        assert_eq!((report.gpus.len(), report.warnings.len()), (0, 1));
        let broken = "| 0 | Device Name: Intel(R) Arc(TM) A380 Graphics |\n|   | Device State: wedged |\n";
        let gpu = parse(broken).unwrap().gpus.remove(0);
        assert_eq!((gpu.usable_for_compute, gpu.evidence), (Usable::No, Evidence::Failed));
        assert_eq!(parse("| 0 | Temperature: 44 |"), None);
        let unnamed = parse("| 0 | Device Name: Intel(R) Graphics [0x56c1] |\n").unwrap().gpus.remove(0);
        assert_eq!((unnamed.kind, unnamed.pci_device.as_deref()), (GpuType::Discrete, Some("0x56c1")));
    }
}
