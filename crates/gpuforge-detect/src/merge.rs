//! Device deduplication: merges probe reports into one device list, by PCI address, PCI id, name and vendor. Pure.
//!
//! Two entries are one device when their PCI addresses are equal; software adapters, which have none, when their names
//! are. A source without addresses is matched one to one, in order, against devices of the same vendor with a matching
//! PCI id or name. Fields are filled, never overwritten; usability and names follow the stronger evidence.

use crate::model::{Cpu, Evidence, Gpu, GpuType, ProbeReport, Vendor, Warning};

/// The merged reports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merged {
    /// One entry per device, in order of appearance.
    pub gpus: Vec<Gpu>,
    /// The CPU, where a report describes it.
    pub cpu: Option<Cpu>,
    /// First stated driver version.
    pub driver_version: Option<String>,
    /// First stated CUDA version.
    pub cuda_version: Option<String>,
    /// First stated kernel module flavour.
    pub kernel_module: Option<String>,
    /// Kinds of the reports, in their order.
    pub kinds: Vec<String>,
    /// All warnings.
    pub warnings: Vec<Warning>,
}

/// Merges reports; the earlier one wins where two state different values for one field.
pub fn merge(reports: Vec<ProbeReport>) -> Merged {
    let mut merged = Merged::default();
    for report in reports {
        merged.kinds.push(report.kind);
        merged.driver_version = merged.driver_version.or(report.driver_version);
        merged.cuda_version = merged.cuda_version.or(report.cuda_version);
        merged.kernel_module = merged.kernel_module.or(report.kernel_module);
        merged.cpu = merged.cpu.or(report.cpu);
        merged.warnings.extend(report.warnings);
        merge_gpus(&mut merged.gpus, report.gpus);
    }
    merged.gpus.sort_by_key(|g| g.at);
    // A version stated only by the kernel module applies to every NVIDIA device without one.
    for gpu in &mut merged.gpus {
        if gpu.vendor == Some(Vendor::Nvidia)
            && gpu.driver_version.is_none()
            && gpu.evidence >= Evidence::Bound
        {
            gpu.driver_version.clone_from(&merged.driver_version);
        }
    }
    merged
}

/// How strongly two entries match as one device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchStrength {
    Vendor,
    Name,
    PciId,
    PciAddress,
}

fn merge_gpus(into: &mut Vec<Gpu>, from: Vec<Gpu>) {
    let old = into.len();
    let mut taken = vec![false; old];
    let mut placed: Vec<Option<usize>> = vec![None; from.len()];
    for least in [MatchStrength::PciAddress, MatchStrength::PciId, MatchStrength::Name, MatchStrength::Vendor]
    {
        if least == MatchStrength::Vendor && !vendor_counts_agree(into, &taken, &from, &placed) {
            break;
        }
        for (gpu, place) in from.iter().zip(placed.iter_mut()).filter(|(_, p)| p.is_none()) {
            let fits = |(i, known): &(usize, &Gpu)| {
                !taken.get(*i).copied().unwrap_or(true) && match_strength(known, gpu) >= Some(least)
            };
            if let Some((i, _)) = into.iter().enumerate().find(fits) {
                *place = Some(i);
                if let Some(flag) = taken.get_mut(i) {
                    *flag = true;
                }
            }
        }
    }
    for (gpu, place) in from.into_iter().zip(placed) {
        match place.and_then(|i| into.get_mut(i)) {
            Some(known) => fill_missing(known, gpu),
            None => into.push(Gpu { name_from: gpu.evidence, ..gpu }),
        }
    }
}

/// The weakest match (same vendor and type, nothing else known) is trusted only when both sides list equally many.
fn vendor_counts_agree(into: &[Gpu], taken: &[bool], from: &[Gpu], placed: &[Option<usize>]) -> bool {
    let left = into.iter().zip(taken).filter(|(g, t)| !**t && g.kind != GpuType::Software);
    let right = from.iter().zip(placed).filter(|(g, p)| p.is_none() && g.kind != GpuType::Software);
    let mut a: Vec<_> = left.map(|(g, _)| g.vendor).collect();
    let mut b: Vec<_> = right.map(|(g, _)| g.vendor).collect();
    a.sort_unstable();
    b.sort_unstable();
    !b.is_empty() && a == b
}

fn match_strength(a: &Gpu, b: &Gpu) -> Option<MatchStrength> {
    if let (Some(x), Some(y)) = (&a.bus_id, &b.bus_id) {
        return (x == y).then_some(MatchStrength::PciAddress);
    }
    if let (Some(x), Some(y)) = (&a.uuid, &b.uuid)
        && x == y
    {
        return Some(MatchStrength::PciAddress);
    }
    let software = (a.kind == GpuType::Software, b.kind == GpuType::Software);
    if software.0 || software.1 {
        return (software == (true, true) && a.name == b.name).then_some(MatchStrength::PciAddress);
    }
    if a.vendor != b.vendor || types_conflict(a.kind, b.kind) {
        return None;
    }
    if let (Some(x), Some(y)) = (device_id(a), device_id(b)) {
        return (x == y).then_some(MatchStrength::PciId);
    }
    let fits = |name: &Option<String>, other: &Gpu| {
        let name = name.as_deref()?;
        let others = [other.name.as_deref(), other.pci_name.as_deref()];
        Some(others.into_iter().flatten().any(|o| names_match(name, o)))
    };
    match (fits(&a.name, b), fits(&b.name, a)) {
        (Some(true), _) | (_, Some(true)) => Some(MatchStrength::Name),
        // Both names carry a model number and differ: two devices.
        (Some(false), Some(false)) if has_model_number(a) && has_model_number(b) => None,
        _ if archs_conflict(a, b) => None,
        _ => Some(MatchStrength::Vendor),
    }
}

fn types_conflict(a: GpuType, b: GpuType) -> bool {
    a != b && a != GpuType::Unknown && b != GpuType::Unknown
}

fn archs_conflict(a: &Gpu, b: &Gpu) -> bool {
    matches!((&a.arch, &b.arch), (Some(x), Some(y)) if x != y)
}

/// Does the name carry a model number, so that a different one means a different card? An architecture in place of a name
/// (OpenCL's "gfx1030") does not identify the model.
fn has_model_number(gpu: &Gpu) -> bool {
    !is_named_by_arch(gpu)
        && gpu
            .name
            .as_deref()
            .is_some_and(|n| model_words(n).iter().any(|w| w.bytes().any(|b| b.is_ascii_digit())))
}

fn is_named_by_arch(gpu: &Gpu) -> bool {
    gpu.name.is_some() && gpu.name == gpu.arch
}

fn device_id(gpu: &Gpu) -> Option<String> {
    match (&gpu.pci_id, &gpu.pci_device) {
        (Some(id), _) => id.split_once(':').map(|(_, device)| device.to_owned()),
        (None, Some(device)) => Some(device.trim_start_matches("0x").to_ascii_lowercase()),
        (None, None) => None,
    }
}

/// Do two spellings name one model? "GM107M [GeForce GTX 960M]" and "NVIDIA GeForce GTX 960M" do; a truncated name
/// matches any name it is a prefix of.
pub fn names_match(a: &str, b: &str) -> bool {
    let (ka, kb) = (model_words(a), model_words(b));
    if ka.is_empty() || kb.is_empty() {
        return false;
    }
    let cut = |name: &str| name.ends_with("..");
    if cut(a) || cut(b) {
        let (short, long) = if cut(a) { (ka, kb) } else { (kb, ka) };
        let short = short.join(" ");
        return long.join(" ").starts_with(short.as_str());
    }
    ka == kb
}

/// The words of a name that identify the model.
fn model_words(name: &str) -> Vec<String> {
    const NOISE: [&str; 12] = [
        "nvidia",
        "amd",
        "intel",
        "corporation",
        "graphics",
        "gpu",
        "r",
        "tm",
        "controller",
        "laptop",
        "ati",
        "series",
    ];
    let lower = name.trim_end_matches('.').to_ascii_lowercase();
    // The PCI id database puts the product name in brackets after the code name.
    let product = match (lower.find('['), lower.rfind(']')) {
        (Some(open), Some(close)) if open + 1 < close => lower.get(open + 1..close).unwrap_or(&lower),
        _ => lower.as_str(),
    };
    // Drivers append the code name or the compiler in parentheses.
    let product = product.replace("(r)", " ").replace("(tm)", " ");
    let product = product.split(" (").next().unwrap_or(&product);
    let words =
        product.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty() && !NOISE.contains(w));
    words.map(str::to_owned).collect()
}

/// Fills the fields of `known` that are unset from `other`.
fn fill_missing(known: &mut Gpu, other: Gpu) {
    let better_name = match (&known.name, &other.name) {
        (None, _) => true,
        (Some(_), Some(_)) => {
            let rank =
                |g: &Gpu, from: Evidence| (!is_named_by_arch(g), !g.name_truncated, from >= Evidence::Opened);
            rank(&other, other.evidence) > rank(known, known.name_from)
        }
        (Some(_), None) => false,
    };
    if better_name && other.name.is_some() {
        known.name.clone_from(&other.name);
        known.name_truncated = other.name_truncated;
        known.name_from = other.evidence;
    }
    // A driver version replaces a bare kernel module name.
    let names_module = known.driver_version.is_some() && known.driver_version == known.kernel_driver;
    if known.driver_version.is_none() || (names_module && other.driver_version.is_some()) {
        known.driver_version.clone_from(&other.driver_version);
    }
    if known.kind == GpuType::Unknown {
        known.kind = other.kind;
    }
    if let Some(reason) = other.usable_reason.clone()
        && (known.usable_reason.is_none() || other.evidence > known.evidence)
    {
        known.usable_for_compute = other.usable_for_compute;
        known.usable_reason = Some(reason);
        known.evidence = other.evidence;
    }
    known.at = known.at.min(other.at);
    macro_rules! fill {
        (option $($field:ident),*) => { $( if known.$field.is_none() { known.$field = other.$field; } )* };
        (list $($field:ident),*) => { $( for value in other.$field {
            if !known.$field.contains(&value) { known.$field.push(value); }
        } )* };
        (whole $($field:ident),*) => { $( if known.$field.is_empty() { known.$field = other.$field; } )* };
    }
    fill!(option vendor, memory_bytes, arch, bus_id, pci_name, pci_id, pci_device, kernel_driver, driver_model);
    fill!(option unified_memory, gtt_bytes, system_shared_bytes, shared_max_bytes, gpu_cores, mig, partitions, index);
    fill!(option uuid, error, driver_date, luid, working_set_bytes, max_buffer_bytes);
    fill!(list apis, drivers, sources);
    fill!(whole mig_profiles);
    merge_mig_devices(known, other.mig_devices);
}

/// MIG devices match by index; `nvidia-smi -L` lists profiles, the table lists memory.
fn merge_mig_devices(known: &mut Gpu, slices: Vec<crate::model::MigDevice>) {
    for slice in slices {
        match known.mig_devices.iter_mut().find(|s| s.index.is_some() && s.index == slice.index) {
            Some(old) => {
                old.gi = old.gi.or(slice.gi);
                old.ci = old.ci.or(slice.ci);
                old.memory_bytes = old.memory_bytes.or(slice.memory_bytes);
                old.profile = old.profile.take().or(slice.profile);
            }
            None => known.mig_devices.push(slice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Usable;

    fn gpu(vendor: Vendor, name: &str, bus: Option<&str>, source: &str, at: usize) -> Gpu {
        let mut gpu = Gpu::of(Some(vendor), source);
        gpu.name = Some(name.to_owned());
        gpu.bus_id = bus.map(str::to_owned);
        gpu.at = at;
        gpu
    }

    fn report(kind: &str, gpus: Vec<Gpu>) -> ProbeReport {
        ProbeReport { gpus, ..ProbeReport::of(kind) }
    }

    #[test]
    fn equal_pci_addresses_merge_and_the_full_name_wins() {
        let mut cut = gpu(Vendor::Nvidia, "NVIDIA GeForce RTX 4070 ...", Some("0000:01:00.0"), "a", 5);
        cut.name_truncated = true;
        cut.memory_bytes = Some(8 << 30);
        let whole = gpu(Vendor::Nvidia, "NVIDIA GeForce RTX 4070 Ti", Some("0000:01:00.0"), "b", 9);
        let merged = merge(vec![report("a", vec![cut]), report("b", vec![whole])]);
        assert_eq!(merged.gpus.len(), 1);
        assert_eq!(merged.gpus[0].name.as_deref(), Some("NVIDIA GeForce RTX 4070 Ti"));
        assert_eq!(merged.gpus[0].memory_bytes, Some(8 << 30));
        assert_eq!(merged.gpus[0].sources, ["a", "b"]);
    }

    #[test]
    fn a_driver_reported_name_wins_over_a_pci_list_name() {
        let bus = Some("0000:01:00.0");
        let mut cut = gpu(Vendor::Nvidia, "NVIDIA RTX A2000 Lap...", bus, "nvidia-smi", 0);
        cut.name_truncated = true;
        cut.set_usability(Usable::Yes, Evidence::Opened, "listed by the driver");
        let listed = gpu(Vendor::Nvidia, "GA107GLM [RTX A2000 Mobile]", bus, "lspci", 1);
        let mut opened = gpu(Vendor::Nvidia, "NVIDIA RTX A2000 Laptop GPU", bus, "vulkaninfo", 2);
        opened.set_usability(Usable::Yes, Evidence::Opened, "opened");
        let merged = merge([cut, listed, opened].into_iter().map(|g| report("r", vec![g])).collect());
        assert_eq!(merged.gpus[0].name.as_deref(), Some("NVIDIA RTX A2000 Laptop GPU"));
    }

    #[test]
    fn two_identical_cards_stay_two_with_a_source_without_addresses() {
        let listed = ["0000:01:00.0", "0000:02:00.0"]
            .map(|b| gpu(Vendor::Nvidia, "GA102 [GeForce RTX 3090]", Some(b), "lspci", 0));
        let opened = [1, 2].map(|at| gpu(Vendor::Nvidia, "NVIDIA GeForce RTX 3090", None, "vulkaninfo", at));
        let merged = merge(vec![report("lspci", listed.into()), report("vulkaninfo", opened.into())]);
        assert_eq!(merged.gpus.len(), 2);
        assert!(merged.gpus.iter().all(|g| g.sources.len() == 2));
    }

    #[test]
    fn different_cards_of_one_vendor_do_not_merge() {
        let a = gpu(Vendor::Nvidia, "NVIDIA GeForce RTX 3090", None, "a", 0);
        let b = gpu(Vendor::Nvidia, "NVIDIA GeForce RTX 4090", None, "b", 1);
        assert_eq!(merge(vec![report("a", vec![a]), report("b", vec![b])]).gpus.len(), 2);
    }

    #[test]
    fn a_model_name_replaces_an_architecture_name() {
        let mut plain = gpu(Vendor::Amd, "gfx1030", None, "clinfo-l", 0);
        plain.arch = Some("gfx1030".to_owned());
        let mut named = gpu(Vendor::Amd, "AMD Radeon RX 6800", None, "rocminfo", 1);
        named.arch = Some("gfx1030".to_owned());
        for order in [[plain.clone(), named.clone()], [named, plain]] {
            let merged = merge(order.into_iter().map(|g| report("r", vec![g])).collect());
            assert_eq!(merged.gpus.len(), 1);
            assert_eq!(merged.gpus[0].name.as_deref(), Some("AMD Radeon RX 6800"));
        }
    }

    #[test]
    fn software_adapters_merge_by_name_only() {
        let soft = |name: &str| Gpu { kind: GpuType::Software, ..gpu(Vendor::Other, name, None, "x", 0) };
        let merged = merge(vec![
            report("a", vec![soft("llvmpipe")]),
            report("b", vec![soft("llvmpipe"), soft("swiftshader")]),
        ]);
        assert_eq!(merged.gpus.len(), 2);
    }

    #[test]
    fn the_stronger_evidence_decides() {
        let mut bound = gpu(Vendor::Nvidia, "X 1", Some("0000:01:00.0"), "lspci", 0);
        bound.set_usability(Usable::No, Evidence::Bound, "nouveau");
        let mut opened = gpu(Vendor::Nvidia, "X 1", Some("0000:01:00.0"), "vulkan", 0);
        opened.set_usability(Usable::Yes, Evidence::Opened, "NVK opened it");
        for order in [[bound.clone(), opened.clone()], [opened, bound]] {
            let merged = merge(order.into_iter().map(|g| report("r", vec![g])).collect());
            assert_eq!(merged.gpus[0].usable_for_compute, Usable::Yes);
        }
    }

    #[test]
    fn spellings_of_one_model() {
        let check = |a: &str, b: &str, want: bool| assert_eq!(names_match(a, b), want, "{a} / {b}");
        check("GM107M [GeForce GTX 960M]", "NVIDIA GeForce GTX 960M", true);
        check("Intel(R) Arc(TM) A770 Graphics", "DG2 [Arc A770]", true);
        check("Intel(R) HD Graphics 530 (SKL GT2)", "HD Graphics 530", true);
        check("NVIDIA GeForce RTX 2080 ...", "NVIDIA GeForce RTX 2080 SUPER", true);
        check("NVIDIA GeForce RTX 2080 SUPER", "NVIDIA GeForce RTX 2080", false);
        check("", "NVIDIA", false);
    }
}
