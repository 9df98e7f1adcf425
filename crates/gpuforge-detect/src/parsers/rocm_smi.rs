//! Parser for `rocm-smi`: JSON and `GPU[n] : key: value` lines of all releases, and its concise tables.

use super::{
    lenient_json::{Object, objects},
    lines_at, present, rocminfo,
};
use crate::{
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor, Warning},
    pci,
};

/// Keys in lower case, best first; spelling changed with nearly every release.
const NAME_KEYS: [&str; 4] = ["card series", "device name", "market name", "card model"];
const DEVICE_KEYS: [&str; 2] = ["device id", "gpu id"];

/// Phrases of the tool's own complaints, for telling them from those of other tools in the same paste.
const COMPLAINTS: [&str; 7] =
    ["low-power state", "no json data", "gpu[", "amdgpu", "driver not initialized", "no amd gpus", "rocm"];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let mut report = [json, keyed, table, nothing].iter().find_map(|read| read(text))?;
    report.warnings = complaints(text).collect();
    Some(report)
}

/// `{"card0": {…}, "system": {…}}`.
fn json(text: &str) -> Option<ProbeReport> {
    let objects = objects(text);
    let mut cards = Cards::of("rocm-smi-json");
    for object in &objects {
        let index =
            object.name.as_deref().and_then(|name| name.strip_prefix("card")).and_then(|n| n.parse().ok());
        if let Some(index) = index {
            cards
                .add(card(|key| object.get(key), "rocm-smi-json", index, object.at), object.get("unique id"));
        }
    }
    let system = |o: &&Object| o.name.as_deref() == Some("system");
    cards.finish(objects.iter().find(system).and_then(|o| o.get("driver version")))
}

/// `GPU[0]   : Card series: …`, as `rocm-smi -a` and `--showproductname` print.
fn keyed(text: &str) -> Option<ProbeReport> {
    let mut found: Vec<Keyed<'_>> = Vec::new();
    let mut driver = None;
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if let Some((index, key, value)) = keyed_line(line) {
            let pair = (key.to_ascii_lowercase(), value);
            match found.iter_mut().find(|card| card.index == index) {
                Some(card) => card.pairs.push(pair),
                None => found.push(Keyed { index, at, pairs: vec![pair] }),
            }
        } else if let Some(version) = line.strip_prefix("Driver version:") {
            driver = driver.or(Some(version.trim()));
        }
    }
    let banner = text.contains("ROCm System Management Interface");
    let known = |key: &str| {
        NAME_KEYS.contains(&key)
            || DEVICE_KEYS.contains(&key)
            || matches!(key, "pci bus" | "vram total memory (b)")
    };
    let mut cards = Cards::of("rocm-smi");
    for found in &found {
        if banner || found.pairs.iter().any(|(key, _)| known(key)) {
            let get = |key: &str| found.pairs.iter().find(|(k, _)| k == key).map(|(_, value)| *value);
            cards.add(card(get, "rocm-smi", found.index, found.at), get("unique id"));
        }
    }
    cards.finish(driver)
}

struct Keyed<'a> {
    index: u32,
    at: usize,
    pairs: Vec<(String, &'a str)>,
}

fn keyed_line(line: &str) -> Option<(u32, &str, &str)> {
    let (index, rest) = line.strip_prefix("GPU[")?.split_once(']')?;
    let (key, value) = rest.trim_start().strip_prefix(':')?.split_once(':')?;
    // Bound for hostile input: no machine has so many.
    let index = index.trim().parse().ok().filter(|index| *index < 1024)?;
    Some((index, key.trim(), value.trim()))
}

/// One card from a look-up of its values.
fn card<'a>(get: impl Fn(&str) -> Option<&'a str>, kind: &str, index: u32, at: usize) -> Gpu {
    let first = |keys: &[&str]| keys.iter().find_map(|key| get(key).and_then(real_name).map(str::to_owned));
    let number = |key: &str| get(key).and_then(|value| value.trim().parse::<u64>().ok()).filter(|n| *n > 0);
    let mut gpu = Gpu::of(Some(Vendor::Amd), kind);
    gpu.name = first(&NAME_KEYS);
    gpu.memory_bytes = number("vram total memory (b)");
    gpu.gtt_bytes = number("gtt total memory (b)");
    gpu.arch = get("gfx version").and_then(rocminfo::gfx_target);
    gpu.bus_id = get("pci bus").and_then(pci::bus_id);
    (gpu.index, gpu.at) = (Some(index), at);
    finish_card(gpu, DEVICE_KEYS.iter().find_map(|key| get(key)).and_then(pci::id16))
}

fn finish_card(mut gpu: Gpu, device: Option<u16>) -> Gpu {
    if let Some(device) = device {
        gpu.pci_device = Some(format!("0x{device:04x}"));
        gpu.pci_id = Some(pci::pci_id(0x1002, device));
    }
    gpu.kind = rocminfo::amd_type(gpu.name.as_deref(), device, gpu.arch.as_deref()).unwrap_or_default();
    gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
    gpu.set_usability(Usable::Yes, Evidence::Bound, "rocm-smi reads it through the amdgpu driver");
    gpu
}

/// A name, not an id or one of the ways of saying that there is none.
fn real_name(value: &str) -> Option<&str> {
    let value = present(value)?;
    let lower = value.to_ascii_lowercase();
    let hollow = lower.starts_with("0x") || lower.starts_with("unknown") || lower.starts_with("unable to");
    (!hollow && lower.bytes().any(|b| b.is_ascii_alphabetic())).then_some(value)
}

/// Cards so far; partitions of one card are folded into it.
struct Cards {
    report: ProbeReport,
    ids: Vec<Option<String>>,
}

impl Cards {
    fn of(kind: &str) -> Self {
        Cards { report: ProbeReport::of(kind), ids: Vec::new() }
    }

    fn add(&mut self, gpu: Gpu, unique_id: Option<&str>) {
        let unique_id = unique_id.and_then(present).filter(|id| *id != "0x0").map(str::to_owned);
        let slot = |gpu: &Gpu| {
            gpu.bus_id.as_deref().and_then(|bus| bus.rsplit_once('.')).map(|(slot, _)| slot.to_owned())
        };
        let same = |(known, id): (&Gpu, &Option<String>)| {
            unique_id.is_some() && *id == unique_id && slot(known) == slot(&gpu)
        };
        match self.report.gpus.iter().zip(&self.ids).position(same) {
            Some(position) => {
                if let Some(known) = self.report.gpus.get_mut(position) {
                    known.partitions = Some(known.partitions.unwrap_or(1) + 1);
                }
            }
            // Bound for hostile input: cards are compared pairwise.
            None if self.ids.len() >= 512 => {}
            None => {
                self.report.gpus.push(gpu);
                self.ids.push(unique_id);
            }
        }
    }

    fn finish(mut self, driver: Option<&str>) -> Option<ProbeReport> {
        let driver = driver.and_then(present).map(str::to_owned);
        for gpu in &mut self.report.gpus {
            gpu.driver_version.clone_from(&driver);
        }
        (!self.report.gpus.is_empty()).then_some(self.report)
    }
}

/// The tables of `rocm-smi` (concise) and `rocm-smi --showhw`.
fn table(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of("rocm-smi");
    let mut header: Option<&str> = None;
    let mut name_may_follow = false;
    for (at, line) in lines_at(text) {
        let row = line.trim();
        if is_header(row) {
            header = Some(row);
        } else if row.contains("End of ROCm SMI Log") {
            header = None;
        }
        let Some(header) = header else { continue };
        match table_row(row, at) {
            Some((gpu, partition)) => {
                name_may_follow = header.contains("[Model");
                match report.gpus.last_mut().filter(|card| partition > 0 && card.pci_device == gpu.pci_device)
                {
                    Some(card) => card.partitions = Some(card.partitions.unwrap_or(1) + 1),
                    None => report.gpus.push(gpu),
                }
            }
            None if name_may_follow => {
                name_may_follow = false;
                name_below(row, report.gpus.last_mut());
            }
            None => {}
        }
    }
    (!report.gpus.is_empty()).then_some(report)
}

fn is_header(row: &str) -> bool {
    let concise = row.contains("SCLK") && row.contains("Temp");
    let hardware = row.contains("VBIOS") && row.contains("BUS") && row.contains("DID");
    (row.starts_with("GPU ") || row.starts_with("Device ")) && (concise || hardware)
}

/// A row and the number of its compute partition.
fn table_row(row: &str, at: usize) -> Option<(Gpu, u32)> {
    let cells: Vec<&str> = row.split_whitespace().collect();
    let index = cells.first()?.parse().ok()?;
    let measured = ["%", "Mhz", "N/A", "0x", "MHz"].iter().any(|mark| row.contains(mark));
    if cells.len() < 5 || !measured {
        return None;
    }
    let mut gpu = Gpu::of(Some(Vendor::Amd), "rocm-smi");
    (gpu.index, gpu.at) = (Some(index), at);
    let mut device = None;
    for cell in cells.iter().skip(1).map(|cell| cell.trim_end_matches(',')) {
        if device.is_none() && cell.starts_with("0x") {
            device = pci::id16(cell);
        } else if cell.matches(':').count() == 2 {
            gpu.bus_id = gpu.bus_id.or_else(|| pci::bus_id(cell));
        } else if cell.starts_with("gfx") {
            gpu.arch = gpu.arch.or_else(|| rocminfo::gfx_target(cell));
        }
    }
    Some((finish_card(gpu, device), partition(&cells).unwrap_or(0)))
}

/// The third of the `(Mem, Compute, ID)` cells.
fn partition(cells: &[&str]) -> Option<u32> {
    cells.windows(3).skip(4).find_map(|window| match window {
        [memory, compute, id] if memory.ends_with(',') && compute.ends_with(',') => id.parse().ok(),
        _ => None,
    })
}

/// ROCm 5.7 prints the first 20 characters of the name on a line of its own.
fn name_below(row: &str, gpu: Option<&mut Gpu>) {
    if let Some(gpu) = gpu
        && !row.starts_with(['=', '`', '$', '#'])
        && let Some(name) = real_name(row)
    {
        gpu.name_truncated = name.chars().count() >= 20;
        gpu.kind = rocminfo::amd_type(Some(name), None, None).unwrap_or_default();
        gpu.name = Some(name.to_owned());
    }
}

/// The tool ran and found no device.
fn nothing(text: &str) -> Option<ProbeReport> {
    let ran =
        text.contains("ROCm System Management Interface") || text.contains("Driver not initialized (amdgpu");
    ran.then(|| ProbeReport::of("rocm-smi"))
}

fn complaints(text: &str) -> impl Iterator<Item = Warning> {
    text.lines().map(str::trim).filter_map(|line| {
        let lower = line.to_ascii_lowercase();
        let complains = lower.starts_with("warning:") || lower.starts_with("error:");
        let ours = complains && COMPLAINTS.iter().any(|phrase| lower.contains(phrase));
        ours.then(|| Warning { source: "rocm-smi".to_owned(), message: line.to_owned(), hint: hint(&lower) })
    })
}

fn hint(lower: &str) -> Option<String> {
    const ROWS: [(&str, &str); 2] = [
        ("low-power state", "the card sleeps; values appear once a program uses it"),
        (
            "driver not initialized",
            "load the amdgpu kernel module: `modprobe amdgpu`, then see `dmesg | grep amdgpu`",
        ),
    ];
    ROWS.iter().find(|(phrase, _)| lower.contains(phrase)).map(|(_, hint)| (*hint).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_new_releases() {
        let text = r#"
WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status

{"card0": {"Device Name": "Navi 33 [Radeon RX 7600]", "Device ID": "0x7480", "VRAM Total Memory (B)": "8573157376", "PCI Bus": "0000:2D:00.0", "GFX Version": "gfx1102", "Card Series": "N/A", "Card Model": "0x7480"}, "card1": {"Device ID": "0x164e", "PCI Bus": "0000:30:00.0", "GFX Version": "gfx1036", "Card Series": "AMD Radeon Graphics"}, "system": {"Driver version": "6.10.5"}}
"#;
        let report = parse(text).unwrap();
        assert_eq!((report.kind.as_str(), report.gpus.len(), report.warnings.len()), ("rocm-smi-json", 2, 1));
        let gpu = &report.gpus[0];
        assert_eq!(gpu.name.as_deref(), Some("Navi 33 [Radeon RX 7600]"));
        assert_eq!(gpu.memory_bytes, Some(8_573_157_376));
        assert_eq!(gpu.arch.as_deref(), Some("gfx1102"));
        assert_eq!(gpu.bus_id.as_deref(), Some("0000:2d:00.0"));
        assert_eq!(gpu.driver_version.as_deref(), Some("6.10.5"));
        assert_eq!(gpu.pci_device.as_deref(), Some("0x7480"));
        assert_eq!((gpu.kind, gpu.usable_for_compute), (GpuType::Discrete, Usable::Yes));
        assert_eq!(report.gpus[1].kind, GpuType::Integrated);
        assert_eq!(&text[gpu.at..gpu.at + 7], "\"card0\"");
    }

    #[test]
    fn json_of_old_releases_and_cut_ends() {
        let text = "{\r\n  \"card0\": {\r\n    \"GPU ID\": \"0x66af\",\r\n    \"Card series\": \"Vega 20 [Radeon VII]\",\r\n    \"VRAM Total Memory (B)\": \"17163091968\"\r\n  },\r\n  \"card3\": {\r\n    \"GPU ID\": \"0x731f\",\r\n    \"Card model\": \"0x2";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        assert_eq!(report.gpus[0].name.as_deref(), Some("Vega 20 [Radeon VII]"));
        assert_eq!((report.gpus[0].arch.as_deref(), report.gpus[0].driver_version.as_deref()), (None, None));
        assert_eq!((report.gpus[1].index, report.gpus[1].name.as_deref()), (Some(3), None));
        assert_eq!(report.gpus[1].pci_id.as_deref(), Some("1002:731f"));
    }

    #[test]
    fn partitions_of_one_card_are_one() {
        let card = |n: u32| {
            format!(
                "\"card{n}\": {{\"Device ID\": \"0x74a1\", \"Unique ID\": \"0x5c\", \"PCI Bus\": \"0000:85:00.{n}\"}}"
            )
        };
        let report = parse(&format!("{{{}, {}, {}}}", card(0), card(1), card(2))).unwrap();
        assert_eq!((report.gpus.len(), report.gpus[0].partitions), (1, Some(3)));
        assert_eq!(report.gpus[0].bus_id.as_deref(), Some("0000:85:00.0"));
    }

    #[test]
    fn keyed_lines() {
        let text = "\
============================ ROCm System Management Interface ============================
Driver version: 6.7.0
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI210
GPU[0]\t\t: GFX Version: \t\tgfx9010
GPU[0]\t\t: PCI Bus: 0000:23:00.0
GPU[0]\t\t: VRAM Total Memory (B): 68702699520
GPU[1]\t\t: Card Series: \t\t0x740f
";
        let report = parse(text).unwrap();
        assert_eq!((report.kind.as_str(), report.gpus.len()), ("rocm-smi", 2));
        assert_eq!(report.gpus[0].name.as_deref(), Some("AMD Instinct MI210"));
        assert_eq!(report.gpus[0].arch.as_deref(), Some("gfx90a"));
        assert_eq!(report.gpus[0].bus_id.as_deref(), Some("0000:23:00.0"));
        assert_eq!(report.gpus[0].memory_bytes, Some(68_702_699_520));
        assert_eq!(report.gpus[1].name, None);
        assert_eq!(report.gpus[1].driver_version.as_deref(), Some("6.7.0"));
    }

    #[test]
    fn old_concise_table() {
        let text = "\
    ========================        ROCm System Management Interface        ========================
    GPU  Temp   AvgPwr  SCLK    MCLK    Fan     Perf  PwrCap  VRAM%  GPU%
    0    33.0c  9.0W    300Mhz  945Mhz  14.9%   auto  220.0W    1%   0%
    1    N/A    N/A     None    None    0%      auto  220.0W    0%   0%
    ================================================================================================
    ========================               End of ROCm SMI Log              ========================
    2 of them are there at 50% load
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.iter().map(|g| g.index).collect::<Vec<_>>(), [Some(0), Some(1)]);
        assert_eq!((report.gpus[0].name.as_deref(), report.gpus[0].memory_bytes), (None, None));
        assert_eq!(report.gpus[0].kind, GpuType::Unknown);
        assert_eq!(report.gpus[0].usable_for_compute, Usable::Yes);
    }

    #[test]
    fn concise_table_with_names_below() {
        let text = "\
GPU  [Model : Revision]    Temp    Power  Partitions      SCLK    MCLK   Fan  Perf  PwrCap  VRAM%  GPU%
     Name (20 chars)       (Edge)  (Avg)  (Mem, Compute)
======================================================================================================
0    [0x0e3a : 0xc1]       41.0°C  8.0W   N/A, N/A        0Mhz    96Mhz  0%   auto  203.0W  3%     0%
     Navi 21 [Radeon RX 6
1    [0x5304 : 0xc8]       41.0°C  8.0W   N/A, N/A        0Mhz    96Mhz  0%   auto  203.0W  3%     0%
     0x744c
======================================================================================================
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        assert_eq!(report.gpus[0].name.as_deref(), Some("Navi 21 [Radeon RX 6"));
        assert!(report.gpus[0].name_truncated);
        // The model there is the board's, not the chip's.
        assert_eq!((report.gpus[0].pci_device.as_deref(), report.gpus[1].name.as_deref()), (None, None));
    }

    #[test]
    fn new_concise_table_and_partitions() {
        let text = "\
Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK    Fan  Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
=======================================================================================================================
0       2     0x74a1,   28851  40.0°C      141.0W    NPS1, CPX, 0        131Mhz  900Mhz  0%   auto  750.0W  0%     0%
1       3     0x74a1,   51499  40.0°C      N/A       NPS1, CPX, 1        131Mhz  900Mhz  0%   auto  N/A     0%     0%
2       4     0x74a1,   57603  38.0°C      140.0W    NPS1, CPX, 0        132Mhz  900Mhz  0%   auto  750.0W  0%     0%
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        assert_eq!(
            (report.gpus[0].pci_device.as_deref(), report.gpus[0].partitions),
            (Some("0x74a1"), Some(2))
        );
        assert_eq!((report.gpus[1].index, report.gpus[1].partitions), (Some(2), None));
    }

    #[test]
    fn hardware_table() {
        let text = "\
GPU  NODE  DID     GUID   GFX VER  GFX RAS   SDMA RAS  UMC RAS   VBIOS              BUS           PARTITION ID
0    1     0x73bf  27143  gfx1030  DISABLED  DISABLED  DISABLED  113-D4120500-101   0000:0B:00.0  0
";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus[0].arch.as_deref(), Some("gfx1030"));
        assert_eq!(report.gpus[0].bus_id.as_deref(), Some("0000:0b:00.0"));
        assert_eq!(report.gpus[0].pci_device.as_deref(), Some("0x73bf"));
    }

    #[test]
    fn a_missing_driver_is_a_warning() {
        let report =
            parse("$ rocm-smi\nERROR:root:Driver not initialized (amdgpu not found in modules)\n").unwrap();
        assert!(report.gpus.is_empty());
        assert!(report.warnings[0].hint.as_deref().is_some_and(|h| h.contains("modprobe")));
        assert_eq!(parse("WARNING: infoROM is corrupted at gpu 0000:01:00.0"), None);
        assert_eq!(parse(""), None);
    }
}
