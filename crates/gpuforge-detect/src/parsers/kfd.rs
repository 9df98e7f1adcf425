//! Parser for the KFD topology (amdgpu compute): `/sys/class/kfd/kfd/topology/nodes/*`, concatenated with headings.

use super::{
    drm::{self, Card},
    lines_at, rocminfo,
};
use crate::{
    classify,
    model::{Evidence, Gpu, GpuType, ProbeReport, Usable},
    pci,
    sections::{Sections, value_of},
};

const KIND: &str = "kfd";

/// Directories of a node that have `properties` files of their own.
const INNER: [&str; 4] = ["caches", "io_links", "p2p_links", "mem_banks"];

/// Max nodes: a bound for hostile input, no machine has so many.
const MAX_NODES: usize = 512;

pub(crate) fn parse(text: &str) -> Option<ProbeReport> {
    let sections = drm::sections(text);
    read(&sections).or_else(|| report(&bare(text), &drm::cards(&sections)))
}

/// The GPUs of a topology tree; `cardN/device` files beside it add memory and driver.
pub(crate) fn read(sections: &Sections) -> Option<ProbeReport> {
    report(&nodes(sections), &drm::cards(sections))
}

/// PCI addresses of the GPUs in a topology tree.
pub(super) fn addresses(sections: &Sections) -> Vec<String> {
    grouped(&nodes(sections)).iter().filter_map(|nodes| Node::bus_id(nodes)).collect()
}

fn report(nodes: &[Node<'_>], cards: &[Card<'_>]) -> Option<ProbeReport> {
    let gpus: Vec<Gpu> = grouped(nodes).iter().filter_map(|nodes| gpu(nodes, cards)).collect();
    (!gpus.is_empty()).then(|| ProbeReport { gpus, ..ProbeReport::of(KIND) })
}

/// One topology node.
#[derive(Default)]
struct Node<'a> {
    folder: &'a str,
    at: usize,
    properties: &'a str,
    name: &'a str,
    banks: Vec<&'a str>,
}

impl Node<'_> {
    fn number(&self, key: &str) -> Option<u64> {
        value_of(self.properties, key)?.parse().ok()
    }

    fn positive(&self, key: &str) -> Option<u64> {
        self.number(key).filter(|value| *value > 0)
    }

    fn is_gpu(&self) -> bool {
        self.positive("simd_count").or_else(|| self.positive("gfx_target_version")).is_some()
    }

    fn id16(&self, key: &str) -> Option<u16> {
        self.positive(key).and_then(|id| u16::try_from(id).ok())
    }

    /// Domain, then bus, device and function in 16 bits; higher bits of `location_id` number the partition.
    fn location(&self) -> Option<(u64, u64)> {
        Some((self.number("domain").unwrap_or(0), self.number("location_id")? & 0xffff))
    }

    /// Compute partitions of one card are nodes of their own, at functions that PCI does not know.
    fn same_card(&self, other: &Node<'_>) -> bool {
        let (Some((domain, place)), Some((other_domain, other_place))) = (self.location(), other.location())
        else {
            return false;
        };
        let unique = self.positive("unique_id");
        domain == other_domain
            && place >> 3 == other_place >> 3
            && self.number("device_id") == other.number("device_id")
            && (place == other_place || (unique.is_some() && unique == other.positive("unique_id")))
    }

    /// Address of a card: that of its first partition.
    fn bus_id(nodes: &[&Node<'_>]) -> Option<String> {
        let (domain, place) = nodes.iter().filter_map(|node| node.location()).min()?;
        let (bus, device, function) = (place >> 8, place >> 3 & 0x1f, place & 7);
        pci::bus_id(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
    }

    /// Size of the first bank of GPU memory: heap 1 is visible to the CPU, 2 is not.
    fn bank(&self) -> Option<u64> {
        let heap = |bank: &&&str| matches!(value_of(bank, "heap_type"), Some("1" | "2"));
        let size = |bank: &&str| value_of(bank, "size_in_bytes")?.parse::<u64>().ok();
        self.banks.iter().filter(heap).find_map(size).filter(|bytes| *bytes > 0)
    }

    /// The kernel's name of the chip, where it has one.
    fn chip_name(&self) -> Option<&str> {
        if !self.name.is_empty() && self.name != "ip discovery" {
            return Some(self.name);
        }
        // Kernels that state no target named the chip; the file is empty in containers.
        let old = value_of(self.properties, "gfx_target_version").is_none();
        old.then(|| self.id16("device_id").and_then(classify::old_kernel_asic))?
    }
}

/// `90010` is 9.0.10, which is written gfx90a: minor and stepping are hexadecimal digits.
fn gfx_target(version: u64) -> String {
    format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100)
}

fn gpu(nodes: &[&Node<'_>], cards: &[Card<'_>]) -> Option<Gpu> {
    let node = nodes.first()?;
    let (vendor, device) = (node.id16("vendor_id"), node.id16("device_id"));
    let mut gpu = Gpu::of(Some(pci::vendor(u32::from(vendor.unwrap_or(0x1002)))), KIND);
    gpu.at = node.at;
    gpu.name = node.chip_name().map(str::to_owned);
    gpu.arch = node.positive("gfx_target_version").map(gfx_target);
    gpu.bus_id = Node::bus_id(nodes);
    gpu.pci_id = vendor.zip(device).map(|(vendor, device)| pci::pci_id(vendor, device));
    gpu.partitions = u32::try_from(nodes.len()).ok().filter(|count| *count > 1);
    gpu.gpu_cores = compute_units(node);
    gpu.kind = rocminfo::amd_type(None, device, gpu.arch.as_deref()).unwrap_or_default();
    if node.positive("cpu_cores_count").is_some() {
        gpu.kind = GpuType::Integrated;
    }
    if gpu.kind == GpuType::Integrated {
        (gpu.system_shared_bytes, gpu.unified_memory) = (node.bank(), Some(true));
    } else {
        gpu.memory_bytes = node.positive("local_mem_size").or_else(|| node.bank());
    }
    if let Some(card) = cards.iter().find(|card| gpu.bus_id.is_some() && card.bus_id() == gpu.bus_id) {
        gpu.memory_bytes = card.vram().or(gpu.memory_bytes);
        gpu.gtt_bytes = card.gtt();
        gpu.kernel_driver = card.driver().map(str::to_owned);
        gpu.driver_version.clone_from(&gpu.kernel_driver);
    }
    gpu.set_usability(Usable::Yes, Evidence::Bound, "the amdgpu compute interface (KFD) lists it");
    Some(gpu)
}

fn compute_units(node: &Node<'_>) -> Option<u32> {
    let units = node.positive("simd_count")?.checked_div(node.positive("simd_per_cu")?)?;
    u32::try_from(units).ok().filter(|units| *units > 0)
}

/// GPU nodes by card; CPUs and nodes that may not be read are left out.
fn grouped<'a, 'b>(nodes: &'b [Node<'a>]) -> Vec<Vec<&'b Node<'a>>> {
    let mut cards: Vec<Vec<&Node<'_>>> = Vec::new();
    for node in nodes.iter().filter(|node| node.is_gpu()) {
        match cards.iter_mut().find(|card| card.first().is_some_and(|first| first.same_card(node))) {
            Some(card) => card.push(node),
            None => cards.push(vec![node]),
        }
    }
    cards
}

/// Nodes by the directory that holds their files.
fn nodes(sections: &Sections) -> Vec<Node<'_>> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    for (path, content, at) in sections.iter() {
        let Some((folder, file)) = split(path).filter(|_| nodes.len() < MAX_NODES) else { continue };
        let position = nodes.iter().rposition(|node| node.folder == folder).unwrap_or_else(|| {
            nodes.push(Node { folder, at, ..Node::default() });
            nodes.len() - 1
        });
        let Some(node) = nodes.get_mut(position) else { continue };
        match file {
            File::Properties => node.properties = content,
            File::Name => node.name = content.lines().next().unwrap_or("").trim(),
            File::Bank => node.banks.push(content),
        }
    }
    nodes
}

enum File {
    Properties,
    Name,
    Bank,
}

/// Directory of the node and what the file is; `None` for all other files.
fn split(path: &str) -> Option<(&str, File)> {
    let is_node = |folder: &str| {
        let mut parts = folder.rsplit('/');
        let numbered = parts.next().is_some_and(|n| n.parse::<u32>().is_ok());
        numbered && parts.next().is_none_or(|parent| !INNER.contains(&parent))
    };
    let (folder, file) = path.rsplit_once('/')?;
    let found = match (file, folder.rsplit_once("/mem_banks/")) {
        ("properties", Some((node, _))) => (node, File::Bank),
        ("properties", None) => (folder, File::Properties),
        ("name", None) => (folder, File::Name),
        _ => return None,
    };
    is_node(found.0).then_some(found)
}

/// `cat nodes/*/properties` without headings: every node begins with its core count.
fn bare(text: &str) -> Vec<Node<'_>> {
    let known = |line: &str| {
        const KEYS: [&str; 3] = ["cpu_cores_count", "simd_count", "gfx_target_version"];
        line.split_once(' ')
            .is_some_and(|(key, value)| KEYS.contains(&key) && value.trim().parse::<u64>().is_ok())
    };
    let mut starts: Vec<usize> = Vec::new();
    for (at, line) in lines_at(text) {
        let line = line.trim();
        if known(line) && (starts.is_empty() || line.starts_with("cpu_cores_count")) {
            starts.push(at);
        }
    }
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    let node = |(at, end): (usize, usize)| {
        let properties = text.get(at..end).unwrap_or("");
        Node { at, properties, banks: vec![properties], ..Node::default() }
    };
    let amd =
        |node: &Node<'_>| node.number("vendor_id") == Some(0x1002) && node.number("location_id").is_some();
    starts.into_iter().zip(ends).take(MAX_NODES).map(node).filter(amd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(simd: u32, version: u32, device: u32, location: u32, unique: u64) -> String {
        format!(
            "cpu_cores_count 0\nsimd_count {simd}\nsimd_per_cu 2\ngfx_target_version {version}\nvendor_id 4098\ndevice_id {device}\nlocation_id {location}\ndomain 0\nlocal_mem_size 0\nunique_id {unique}\n"
        )
    }

    fn node(n: u32, properties: &str) -> String {
        format!("==> /sys/class/kfd/kfd/topology/nodes/{n}/properties <==\n{properties}\n")
    }

    fn bank(n: u32, heap: u32, size: u64) -> String {
        format!(
            "==> /sys/class/kfd/kfd/topology/nodes/{n}/mem_banks/0/properties <==\nheap_type {heap}\nsize_in_bytes {size}\n\n"
        )
    }

    const CPU: &str =
        "cpu_cores_count 12\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\ndevice_id 0\nlocation_id 0\n";

    #[test]
    fn targets_are_hexadecimal() {
        let check = |version, want: &str| assert_eq!(gfx_target(version), want);
        check(90010, "gfx90a");
        check(90012, "gfx90c");
        check(90402, "gfx942");
        check(110003, "gfx1103");
        check(100300, "gfx1030");
        check(80003, "gfx803");
        check(120001, "gfx1201");
    }

    #[test]
    fn gpu_and_cpu_nodes() {
        let text = node(0, CPU)
            + &bank(0, 0, 64 << 30)
            + &node(1, &properties(192, 110000, 0x744c, 0x0300, 77))
            + "==> /sys/class/kfd/kfd/topology/nodes/1/name <==\nip discovery\n"
            + "==> /sys/class/kfd/kfd/topology/nodes/1/caches/0/properties <==\nsimd_count 9\n"
            + &bank(1, 1, 24 << 30)
            + &node(2, "");
        let report = parse(&text).unwrap();
        assert_eq!(report.gpus.len(), 1);
        let gpu = &report.gpus[0];
        assert_eq!((gpu.arch.as_deref(), gpu.bus_id.as_deref()), (Some("gfx1100"), Some("0000:03:00.0")));
        assert_eq!((gpu.memory_bytes, gpu.name.as_deref(), gpu.gpu_cores), (Some(24 << 30), None, Some(96)));
        assert_eq!(
            (gpu.kind, gpu.usable_for_compute, gpu.partitions),
            (GpuType::Discrete, Usable::Yes, None)
        );
        assert_eq!(gpu.pci_id.as_deref(), Some("1002:744c"));
        assert_eq!(gpu.at, text.find("==> /sys/class/kfd/kfd/topology/nodes/1/").unwrap());
    }

    #[test]
    fn integrated_memory_is_shared_unless_drm_tells_the_carve_out() {
        let kfd = node(1, &properties(8, 100306, 0x164e, 0x0d00, 0)) + &bank(1, 1, 15 << 30);
        let gpu = parse(&kfd).unwrap().gpus.remove(0);
        assert_eq!(
            (gpu.memory_bytes, gpu.system_shared_bytes, gpu.driver_version),
            (None, Some(15 << 30), None)
        );
        assert_eq!(
            (gpu.kind, gpu.unified_memory, gpu.arch.as_deref()),
            (GpuType::Integrated, Some(true), Some("gfx1036"))
        );
        let drm = "==> card0/device/uevent <==\nDRIVER=amdgpu\nPCI_ID=1002:164E\nPCI_SLOT_NAME=0000:0d:00.0\n==> card0/device/mem_info_vram_total <==\n536870912\n==> card0/device/mem_info_gtt_total <==\n16000000000\n";
        let gpu = parse(&(kfd + drm)).unwrap().gpus.remove(0);
        assert_eq!((gpu.memory_bytes, gpu.gtt_bytes), (Some(536_870_912), Some(16_000_000_000)));
        assert_eq!(gpu.driver_version.as_deref(), Some("amdgpu"));
    }

    #[test]
    fn partitions_are_one_card_but_identical_cards_are_two() {
        let nodes = |at: [(u32, u64); 3]| {
            let node = |(n, (location, unique)): (u32, (u32, u64))| {
                node(n, &properties(76, 90402, 0x74a1, location, unique))
            };
            (2..).zip(at).map(node).collect::<String>()
        };
        let old = parse(&nodes([(0x8501, 5), (0x8500, 5), (0x8600, 6)])).unwrap();
        assert_eq!(old.gpus.iter().map(|g| g.partitions).collect::<Vec<_>>(), [Some(2), None]);
        assert_eq!(old.gpus[0].bus_id.as_deref(), Some("0000:85:00.0"));
        let new = parse(&nodes([(0x8500, 0), (0x1000_8500, 0), (0x2000_8500, 0)])).unwrap();
        assert_eq!((new.gpus.len(), new.gpus[0].partitions), (1, Some(3)));
        let apart = parse(&nodes([(0x8500, 0), (0x8501, 0), (0x8600, 0)])).unwrap();
        assert_eq!(apart.gpus.len(), 3);
    }

    #[test]
    fn old_kernels_and_domains() {
        let text = "==> 1/properties <==\nsimd_count 240\nsimd_per_cu 4\nvendor_id 4098\ndevice_id 26287\nlocation_id 768\ndomain 1\nlocal_mem_size 17163091968\n==> 1/name <==\n\n";
        let gpu = parse(text).unwrap().gpus.remove(0);
        assert_eq!((gpu.name.as_deref(), gpu.arch.as_deref()), (Some("vega20"), None));
        assert_eq!((gpu.memory_bytes, gpu.bus_id.as_deref()), (Some(17_163_091_968), Some("0001:03:00.0")));
    }

    #[test]
    fn bare_properties_and_grep_lines() {
        let bare = format!("$ cat nodes/*/properties\n{CPU}{}", properties(64, 100302, 0x73ff, 0x0300, 1));
        assert_eq!(parse(&bare.replace('\n', "\r\n")).unwrap().gpus[0].arch.as_deref(), Some("gfx1032"));
        let all = properties(64, 100302, 0x73ff, 0x0300, 1);
        let grep: String =
            all.lines().map(|l| format!("/sys/class/kfd/kfd/topology/nodes/1/properties:{l}\n")).collect();
        assert_eq!(parse(&grep).unwrap().gpus[0].bus_id.as_deref(), Some("0000:03:00.0"));
        assert_eq!(parse(CPU), None);
        assert_eq!(parse("simd_count 4\n"), None);
    }

    #[test]
    fn an_apu_in_one_node() {
        let text = "==> 0/properties <==\ncpu_cores_count 4\nsimd_count 32\nvendor_id 4098\ndevice_id 39028\nlocation_id 8\n==> 0/mem_banks/0/properties <==\nheap_type 0\nsize_in_bytes 7\n";
        let gpu = parse(text).unwrap().gpus.remove(0);
        assert_eq!((gpu.kind, gpu.system_shared_bytes), (GpuType::Integrated, None));
        assert_eq!(gpu.bus_id.as_deref(), Some("0000:00:01.0"));
    }
}
