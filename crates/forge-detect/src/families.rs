//! Which family does a chip belong to, and is it integrated? Tables by gfx target, PCI id and name.

use crate::model::{GpuType, Vendor};

/// gfx targets of AMD processors with graphics (LLVM AMDGPU target list): these share system memory.
const AMD_APU_TARGETS: [&str; 16] = [
    "gfx700", "gfx801", "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037",
    "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170",
];

/// Code names of AMD processors with graphics, as PCI id data and drivers spell them.
const AMD_APU_NAMES: [&str; 38] = [
    "raven",
    "picasso",
    "dali",
    "pollock",
    "renoir",
    "lucienne",
    "cezanne",
    "barcelo",
    "rembrandt",
    "phoenix",
    "hawkpoint",
    "hawk point",
    "strix",
    "krackan",
    "raphael",
    "granite ridge",
    "dragon range",
    "mendocino",
    "van gogh",
    "vangogh",
    "kaveri",
    "kabini",
    "mullins",
    "beema",
    "carrizo",
    "stoney",
    "bristol ridge",
    "trinity",
    "richland",
    "temash",
    "wrestler",
    "sumo",
    "llano",
    "radeon graphics",
    "radeon(tm) graphics",
    "780m",
    "890m",
    "vega mobile",
];

/// PCI device ids of AMD processors with graphics, for texts that carry no name.
const AMD_APU_IDS: [u16; 34] = [
    0x1304, 0x1309, 0x130a, 0x130f, 0x1313, 0x1316, 0x15dd, 0x15d8, 0x15e7, 0x1636, 0x1638, 0x164c, 0x163f,
    0x164d, 0x164e, 0x1681, 0x1506, 0x15bf, 0x15c8, 0x1900, 0x1901, 0x13c0, 0x150e, 0x1586, 0x1114, 0x1902,
    0x9874, 0x98e4, 0x9830, 0x9832, 0x9850, 0x1435, 0x13fe, 0x74a0,
];

/// Ranges of Intel device ids that are cards, not processor graphics (from the kernel's i915 and xe id lists).
const INTEL_DISCRETE_IDS: [(u16, u16); 8] = [
    (0x0bd0, 0x0bdb), // Ponte Vecchio
    (0x4905, 0x4909), // DG1, SG1
    (0x4f80, 0x4f88), // DG2 (early)
    (0x5690, 0x56bf), // Arc A-series
    (0x56c0, 0x56c2), // Data Center GPU Flex
    (0xe202, 0xe20d), // Arc B-series
    (0xe210, 0xe223), // Arc B-series, Pro
    (0x6740, 0x674f), // Crescent Island
];

/// Words in Intel names that mean a card.
const INTEL_DISCRETE_WORDS: [&str; 9] = [
    "arc a",
    "arc b",
    "arc pro",
    "arc(tm) a",
    "arc(tm) b",
    "arc(tm) pro",
    "data center gpu",
    "iris xe max",
    "dg1",
];

/// Words in NVIDIA names that mean a module sharing the processor's memory.
const NVIDIA_INTEGRATED_WORDS: [&str; 12] = [
    "tegra",
    "nvgpu",
    "orin",
    "xavier",
    "thor",
    "jetson",
    "gb10",
    "geforce 6150",
    "geforce 8200",
    "geforce 9400m",
    "ion vga",
    "nforce",
];

/// Words that mean a slice handed in by a hypervisor.
const VIRTUAL_WORDS: [&str; 9] =
    ["virtio", "venus", "grid ", " vgpu", " vf]", "virtual function", "svga3d", "virgl", "paravirtual"];

/// Words that mean a software rasteriser.
const SOFTWARE_WORDS: [&str; 7] =
    ["llvmpipe", "lavapipe", "swiftshader", "softpipe", "basic render", "swrast", "software rasterizer"];

/// Is this gfx target one of a processor with graphics?
pub fn is_amd_apu_target(arch: &str) -> bool {
    AMD_APU_TARGETS.contains(&arch)
}

/// Is this name one of a software rasteriser?
pub fn is_software_name(name: &str) -> bool {
    has_any(&name.to_ascii_lowercase(), &SOFTWARE_WORDS)
}

/// Does this name speak of a device that a hypervisor hands in?
pub fn is_virtual_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    // "NVIDIA A40-8Q", "GRID T4-16Q", "NVIDIA L40S-4C": vGPU profiles end in a size and a class letter.
    let profile = lower.rsplit_once('-').is_some_and(|(_, tail)| {
        let digits = tail.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let class = tail.get(digits.len()..).unwrap_or("");
        !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && matches!(class, "q" | "c" | "b" | "a")
    });
    has_any(&lower, &VIRTUAL_WORDS) || (profile && !lower.contains("hbm"))
}

/// Discrete, integrated, virtual or software, from what is known of a chip. `None` = these facts do not tell.
pub fn classify(
    vendor: Option<Vendor>,
    name: Option<&str>,
    device: Option<u16>,
    arch: Option<&str>,
    bus: Option<&str>,
) -> Option<GpuType> {
    let lower = name.unwrap_or("").to_ascii_lowercase();
    if is_software_name(&lower) {
        return Some(GpuType::Software);
    }
    if is_virtual_name(&lower) {
        return Some(GpuType::Virtual);
    }
    match vendor? {
        Vendor::Apple => Some(GpuType::Integrated),
        Vendor::Nvidia if lower.is_empty() && device.is_none() => None,
        Vendor::Nvidia if has_any(&lower, &NVIDIA_INTEGRATED_WORDS) => Some(GpuType::Integrated),
        Vendor::Nvidia => Some(GpuType::Discrete),
        Vendor::Amd => classify_amd(&lower, device, arch),
        Vendor::Intel => classify_intel(&lower, device, bus),
        Vendor::Other => None,
    }
}

fn classify_amd(lower: &str, device: Option<u16>, arch: Option<&str>) -> Option<GpuType> {
    if arch.is_some_and(is_amd_apu_target)
        || device.is_some_and(|d| AMD_APU_IDS.contains(&d))
        || has_any(lower, &AMD_APU_NAMES)
        || lower.contains("mi300a")
    {
        return Some(GpuType::Integrated);
    }
    let named = !lower.is_empty() || device.is_some() || arch.is_some();
    named.then_some(GpuType::Discrete)
}

fn classify_intel(lower: &str, device: Option<u16>, bus: Option<&str>) -> Option<GpuType> {
    let card =
        device.is_some_and(|d| INTEL_DISCRETE_IDS.iter().any(|(low, high)| (*low..=*high).contains(&d)));
    if card || has_any(lower, &INTEL_DISCRETE_WORDS) {
        return Some(GpuType::Discrete);
    }
    // Processor graphics have sat at 00:02.0 since 2004.
    if bus.is_some_and(|b| b == "0000:00:02.0") || !lower.is_empty() || device.is_some() {
        return Some(GpuType::Integrated);
    }
    None
}

/// The name that kernels before `gfx_target_version` gave an AMD chip, by device id.
pub fn old_kernel_asic(device: u16) -> Option<&'static str> {
    const ROWS: [(u16, u16, &str); 14] = [
        (0x1304, 0x131d, "kaveri"),
        (0x67a0, 0x67be, "hawaii"),
        (0x9870, 0x9877, "carrizo"),
        (0x15dd, 0x15dd, "raven"),
        (0x15d8, 0x15d8, "raven"),
        (0x6920, 0x6939, "tonga"),
        (0x7300, 0x730f, "fiji"),
        (0x67c0, 0x67df, "polaris10"),
        (0x67e0, 0x67ff, "polaris11"),
        (0x6980, 0x699f, "polaris12"),
        (0x6860, 0x687f, "vega10"),
        (0x69a0, 0x69af, "vega12"),
        (0x66a0, 0x66af, "vega20"),
        (0x7388, 0x738e, "arcturus"),
    ];
    ROWS.iter().find(|(low, high, _)| (*low..=*high).contains(&device)).map(|(.., name)| *name)
}

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_name_and_id() {
        let check = |vendor, name: &str, want| {
            assert_eq!(classify(Some(vendor), Some(name), None, None, None), want, "{name}")
        };
        check(Vendor::Nvidia, "NVIDIA H100 80GB HBM3", Some(GpuType::Discrete));
        check(Vendor::Nvidia, "Orin (nvgpu)", Some(GpuType::Integrated));
        check(Vendor::Nvidia, "NVIDIA GB10", Some(GpuType::Integrated));
        check(Vendor::Nvidia, "GRID T4-16Q", Some(GpuType::Virtual));
        check(Vendor::Nvidia, "NVIDIA A40-8Q", Some(GpuType::Virtual));
        check(Vendor::Nvidia, "NVIDIA A100-SXM4-40GB", Some(GpuType::Discrete));
        check(Vendor::Nvidia, "Tesla V100-SXM2-16GB", Some(GpuType::Discrete));
        check(Vendor::Amd, "Aqua Vanjaram [Instinct MI300X VF]", Some(GpuType::Virtual));
        check(Vendor::Amd, "Navi 31 [Radeon RX 7900 XTX]", Some(GpuType::Discrete));
        check(Vendor::Amd, "AMD Radeon Graphics", Some(GpuType::Integrated));
        check(Vendor::Intel, "Intel(R) Arc(TM) Graphics", Some(GpuType::Integrated));
        check(Vendor::Intel, "Intel(R) Arc(TM) A770 Graphics", Some(GpuType::Discrete));
        check(Vendor::Intel, "Battlemage G21 [Arc B580]", Some(GpuType::Discrete));
        check(Vendor::Other, "llvmpipe (LLVM 19.1.0, 256 bits)", Some(GpuType::Software));
        assert_eq!(classify(Some(Vendor::Intel), None, Some(0x56c0), None, None), Some(GpuType::Discrete));
        assert_eq!(classify(Some(Vendor::Amd), None, Some(0x15bf), None, None), Some(GpuType::Integrated));
        assert_eq!(classify(Some(Vendor::Amd), None, None, None, None), None);
    }

    #[test]
    fn old_kernels_named_the_asic() {
        assert_eq!(old_kernel_asic(0x6860), Some("vega10"));
        assert_eq!(old_kernel_asic(0x744c), None);
    }
}
