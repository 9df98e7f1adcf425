//! Parser for `rocminfo` and `rocm_agent_enumerator`: HSA agents that are GPUs.

use super::{lines_at, present};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable, Vendor, Warning},
    pci,
};

/// What rocminfo says instead of a list, and what to do about it.
const FAILURES: [(&str, &str); 4] = [
    ("ROCk module is NOT loaded", "load the amdgpu kernel module: `modprobe amdgpu`"),
    (
        "Unable to open /dev/kfd",
        "add the user to the groups render and video, or pass /dev/kfd into the container",
    ),
    ("is not member of", "add the user to the groups render and video, then log in again"),
    (
        "hsa api call failure",
        "see `dmesg | grep -e kfd -e amdgpu`; the ROCm and kernel driver versions may not fit",
    ),
];

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    agents(text).or_else(|| enumerated(text))
}

/// The gfx target in a cell such as `gfx90a:sramecc+:xnack-`, without its features.
pub(super) fn gfx_target(cell: &str) -> Option<String> {
    let target = cell.trim().split(':').next()?;
    let number = target.strip_prefix("gfx")?;
    if number.len() < 3 || number.len() > 6 || !number.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    // Some rocm-smi releases print the stepping of 9.0.10 (gfx90a) and 9.0.12 (gfx90c) in decimal.
    match number.strip_prefix("90").filter(|_| number.len() == 4).and_then(|step| step.parse::<u8>().ok()) {
        Some(step @ 10..=15) => Some(format!("gfx90{step:x}")),
        _ => Some(target.to_ascii_lowercase()),
    }
}

/// Discrete or integrated, for tools that give AMD cards and CPUs the same empty names.
pub(super) fn amd_type(name: Option<&str>, device: Option<u16>, arch: Option<&str>) -> Option<GpuType> {
    let generic = |name: &str| name.to_ascii_lowercase().replace("(tm)", "").contains("radeon graphics");
    let known = arch.is_some() || device.is_some();
    let name = name.filter(|name| !(known && generic(name)));
    // The PCI id database names the chip ("Cezanne"), which tells what a bare id does not.
    let name = name
        .or_else(|| device.filter(|_| arch.is_none()).and_then(|device| pci::device_name(0x1002, device)));
    classify::gpu_type(Some(Vendor::Amd), name, device, arch, None)
}

/// What one agent's block says; the first line of each key counts, because ISA blocks repeat `Name`.
#[derive(Default)]
struct Agent<'a> {
    at: usize,
    pairs: Vec<(&'a str, &'a str)>,
    /// Kilobytes of the first coarse-grained global pool.
    pool: Option<u64>,
    segment_is_pool: bool,
}

impl<'a> Agent<'a> {
    fn get(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)
    }

    fn add(&mut self, key: &'a str, value: &'a str) {
        match key {
            "Segment" => {
                self.segment_is_pool = value.starts_with("GLOBAL") && value.contains("COARSE GRAINED")
            }
            "Size" if self.segment_is_pool => self.pool = self.pool.or_else(|| leading_number(value)),
            _ if KEYS.contains(&key) && self.get(key).is_none() => self.pairs.push((key, value)),
            _ => {}
        }
    }

    fn gpu(&self) -> Option<Gpu> {
        let arch = gfx_target(self.get("Name")?)?;
        let described =
            self.get("Device Type").map_or(self.get("Marketing Name").is_some(), |kind| kind == "GPU");
        if !described {
            return None;
        }
        let device = self
            .get("Chip ID")
            .and_then(leading_number)
            .and_then(|id| u16::try_from(id).ok())
            .filter(|id| *id > 0);
        let mut gpu = Gpu::of(Some(Vendor::Amd), "rocminfo");
        gpu.at = self.at;
        gpu.name = self.get("Marketing Name").and_then(real_name).map(str::to_owned);
        gpu.bus_id = self.bus_id();
        gpu.uuid =
            self.get("Uuid").filter(|uuid| !uuid.is_empty() && !uuid.ends_with("XX")).map(str::to_owned);
        gpu.gpu_cores = self.get("Compute Unit").and_then(leading_number).and_then(|n| u32::try_from(n).ok());
        gpu.pci_device = device.map(|device| format!("0x{device:04x}"));
        gpu.pci_id = device.map(|device| pci::pci_id(0x1002, device));
        gpu.kind = amd_type(gpu.name.as_deref(), device, Some(&arch)).unwrap_or_default();
        if self.get("Memory Properties").is_some_and(|value| value.contains("APU")) {
            gpu.kind = GpuType::Integrated;
        }
        gpu.arch = Some(arch);
        let pool = self.pool.and_then(|kilobytes| kilobytes.checked_mul(1024));
        if gpu.kind == GpuType::Integrated {
            (gpu.system_shared_bytes, gpu.unified_memory) = (pool, Some(true));
        } else {
            gpu.memory_bytes = pool;
        }
        gpu.apis = vec!["rocm".to_owned()];
        gpu.set_usability(Usable::Yes, Evidence::Opened, "the HSA runtime opened it");
        Some(gpu)
    }

    fn bus_id(&self) -> Option<String> {
        let location = self.get("BDFID").and_then(leading_number).filter(|location| *location > 0)?;
        let domain = self.get("Domain").and_then(leading_number).unwrap_or(0);
        let (bus, device, function) = (location >> 8 & 0xff, location >> 3 & 0x1f, location & 7);
        pci::bus_id(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
    }
}

/// The keys that are kept.
const KEYS: [&str; 10] = [
    "Name",
    "Uuid",
    "Marketing Name",
    "Vendor Name",
    "Device Type",
    "Chip ID",
    "Compute Unit",
    "BDFID",
    "Domain",
    "Memory Properties",
];

fn agents(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of("rocminfo");
    let mut agent = Agent::default();
    for (at, line) in lines_at(text) {
        let line = line.trim();
        let heading = line.strip_prefix("Agent ").is_some_and(|n| n.trim().parse::<u32>().is_ok());
        let pair =
            line.split_once(':').map(|(key, value)| (key.trim(), value.trim_matches([':', ' ', '\t'])));
        // `rocminfo | grep Name` leaves no headings: a second name begins a second agent.
        let named = pair.is_some_and(|(key, value)| key == "Name" && !value.starts_with("amdgcn"));
        if heading || (named && agent.get("Name").is_some()) {
            push(&mut report, std::mem::take(&mut agent).gpu());
        }
        if let Some((key, value)) = pair {
            if agent.pairs.is_empty() {
                agent.at = at;
            }
            agent.add(key, value);
        }
    }
    push(&mut report, agent.gpu());
    report.warnings = failures(text).collect();
    let ran = text.contains("HSA System Attributes") || text.contains("HSA Agents");
    (ran || !report.gpus.is_empty() || !report.warnings.is_empty()).then_some(report)
}

/// Adds a device, or counts it as one more partition of the card it belongs to.
fn push(report: &mut ProbeReport, gpu: Option<Gpu>) {
    // Bound for hostile input: agents are compared pairwise.
    let Some(gpu) = gpu.filter(|_| report.gpus.len() < 512) else { return };
    let slot = |gpu: &Gpu| {
        gpu.bus_id.as_deref().and_then(|bus| bus.rsplit_once('.')).map(|(slot, _)| slot.to_owned())
    };
    let partition_of = |known: &&mut Gpu| {
        gpu.uuid.is_some() && known.uuid == gpu.uuid && known.arch == gpu.arch && slot(known) == slot(&gpu)
    };
    match report.gpus.iter_mut().find(partition_of) {
        Some(card) => card.partitions = Some(card.partitions.unwrap_or(1) + 1),
        None => report.gpus.push(gpu),
    }
}

fn failures(text: &str) -> impl Iterator<Item = Warning> {
    text.lines().filter_map(|line| {
        let (_, hint) = FAILURES.iter().find(|(phrase, _)| line.contains(phrase))?;
        let message = line.trim().to_owned();
        Some(Warning { source: "rocminfo".to_owned(), message, hint: Some((*hint).to_owned()) })
    })
}

/// `rocm_agent_enumerator`: one target per line; gfx000 is the CPU.
fn enumerated(text: &str) -> Option<ProbeReport> {
    let mut report = ProbeReport::of("rocm-agent-enum");
    let mut seen = false;
    for (at, line) in lines_at(text) {
        let Some(arch) = gfx_target(line) else { continue };
        seen = true;
        if arch == "gfx000" {
            continue;
        }
        let mut gpu = Gpu::of(Some(Vendor::Amd), "rocm-agent-enum");
        gpu.at = at;
        gpu.kind = amd_type(None, None, Some(&arch)).unwrap_or_default();
        gpu.unified_memory = (gpu.kind == GpuType::Integrated).then_some(true);
        gpu.arch = Some(arch);
        gpu.apis = vec!["rocm".to_owned()];
        gpu.set_usability(Usable::Yes, Evidence::Bound, "rocm_agent_enumerator lists it");
        report.gpus.push(gpu);
    }
    seen.then_some(report)
}

/// A marketing name, not the target once more.
fn real_name(value: &str) -> Option<&str> {
    let value = present(value)?;
    let lower = value.to_ascii_lowercase();
    let bare_id = lower.strip_prefix("device ").is_some_and(|id| pci::id16(id).is_some());
    (gfx_target(&lower).is_none() && !bare_id && lower != "unknown").then_some(value)
}

/// `25086124(0x17ec8ac) KB` and `768` begin with the number.
fn leading_number(value: &str) -> Option<u64> {
    let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    value.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NATIVE: &str = "\
ROCk module is loaded
=====================
HSA System Attributes
=====================
Runtime Version:         1.1
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD EPYC 7313 16-Core Processor
  Uuid:                    CPU-XX
  Marketing Name:          AMD EPYC 7313 16-Core Processor
  Device Type:             CPU
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    131072(0x20000) KB
*******
Agent 2
*******
  Name:                    gfx90a
  Uuid:                    GPU-5f1d3a0c77b2e944
  Marketing Name:          AMD Instinct MI210
  Vendor Name:             AMD
  Device Type:             GPU
  Chip ID:                 29711(0x740f)
  BDFID:                   8960
  Compute Unit:            104
  Memory Properties:
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: FINE GRAINED
      Size:                    1(0x1) KB
    Pool 2
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    67092480(0x3ffc000) KB
    Pool 3
      Segment:                 GROUP
      Size:                    64(0x40) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
*******
Agent 3
*******
  Name:                    gfx1103
  Uuid:                    GPU-XX
  Marketing Name:          AMD Radeon Graphics
  Device Type:             GPU
  Chip ID:                 5567(0x15bf)
  BDFID:                   50432
  Memory Properties:       APU
  Pool Info:
    Pool 1
      Segment:                 GLOBAL; FLAGS: COARSE GRAINED
      Size:                    15728640(0xf00000) KB
*** Done ***
";

    #[test]
    fn agents_that_are_gpus() {
        let report = parse(NATIVE).unwrap();
        assert_eq!((report.kind.as_str(), report.gpus.len(), report.warnings.len()), ("rocminfo", 2, 0));
        let card = &report.gpus[0];
        assert_eq!(card.name.as_deref(), Some("AMD Instinct MI210"));
        assert_eq!(card.arch.as_deref(), Some("gfx90a"));
        assert_eq!(card.memory_bytes, Some(67_092_480 * 1024));
        assert_eq!(card.bus_id.as_deref(), Some("0000:23:00.0"));
        assert_eq!(card.uuid.as_deref(), Some("GPU-5f1d3a0c77b2e944"));
        assert_eq!((card.gpu_cores, card.kind), (Some(104), GpuType::Discrete));
        assert_eq!(card.pci_id.as_deref(), Some("1002:740f"));
        let apu = &report.gpus[1];
        assert_eq!((apu.memory_bytes, apu.system_shared_bytes), (None, Some(15_728_640 * 1024)));
        assert_eq!(
            (apu.kind, apu.uuid.as_deref(), apu.bus_id.as_deref()),
            (GpuType::Integrated, None, Some("0000:c5:00.0"))
        );
        assert_eq!(apu.usable_for_compute, Usable::Yes);
    }

    #[test]
    fn a_cut_paste_still_counts() {
        let cut = &NATIVE[..NATIVE.find("  Chip ID:                 29711").unwrap()];
        let report = parse(&cut.replace('\n', "\r\n")).unwrap();
        assert_eq!((report.gpus.len(), report.gpus[0].memory_bytes), (1, None));
        assert_eq!(report.gpus[0].kind, GpuType::Discrete);
    }

    #[test]
    fn grep_for_names_leaves_two_agents() {
        let text = "  Name:                    AMD Ryzen 5 7600\n  Marketing Name:          AMD Ryzen 5 7600\n  Name:                    gfx1101\n  Marketing Name:          AMD Radeon RX 7800 XT\n      Name:                    amdgcn-amd-amdhsa--gfx1101\n  Name:                    gfx1036\n  Marketing Name:          gfx1036\n";
        let report = parse(text).unwrap();
        assert_eq!(report.gpus.len(), 2);
        assert_eq!(report.gpus[0].name.as_deref(), Some("AMD Radeon RX 7800 XT"));
        assert_eq!((report.gpus[1].name.as_deref(), report.gpus[1].kind), (None, GpuType::Integrated));
    }

    #[test]
    fn partitions_share_an_uuid() {
        let agent = |n: u32| {
            format!(
                "Agent {n}\n  Name: gfx942\n  Uuid: GPU-ab12\n  Marketing Name: AMD Instinct MI300X\n  Device Type: GPU\n  BDFID: {}\n",
                0x8500 + n
            )
        };
        let report = parse(&(agent(0) + &agent(1))).unwrap();
        assert_eq!((report.gpus.len(), report.gpus[0].partitions), (1, Some(2)));
    }

    #[test]
    fn enumerated_targets() {
        let report =
            parse("$ rocm_agent_enumerator\ngfx000\ngfx906:sramecc+:xnack-\ngfx906:sramecc+:xnack-\n")
                .unwrap();
        assert_eq!((report.kind.as_str(), report.gpus.len()), ("rocm-agent-enum", 2));
        assert_eq!(report.gpus[0].arch.as_deref(), Some("gfx906"));
        assert_eq!(parse("gfx000\n").map(|r| r.gpus.len()), Some(0));
        assert_eq!(parse("the gfx1030 target\ngfx\ngfxyz1"), None);
    }

    #[test]
    fn failures_are_warnings() {
        let report = parse("ROCk module is NOT loaded, possibly no GPU devices\n").unwrap();
        assert_eq!((report.gpus.len(), report.warnings.len()), (0, 1));
    }

    #[test]
    fn generic_names_yield_to_the_target() {
        assert_eq!(amd_type(Some("AMD Radeon Graphics"), None, Some("gfx1100")), Some(GpuType::Discrete));
        assert_eq!(amd_type(Some("AMD Radeon Graphics"), None, None), Some(GpuType::Integrated));
        assert_eq!(amd_type(None, Some(0x1636), None), Some(GpuType::Integrated));
        assert_eq!(gfx_target("gfx9012").as_deref(), Some("gfx90c"));
    }
}
