//! GPU classification: discrete, integrated, virtual or software, by gfx target, PCI id and name.

use crate::model::{GpuType, Vendor};

/// gfx targets of AMD APUs (LLVM AMDGPU target list): these share system memory.
const AMD_APU_TARGETS: [&str; 16] = [
    "gfx700", "gfx801", "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1037",
    "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1170",
];

/// Code names of AMD APUs, as the PCI id database and drivers spell them.
const AMD_APU_NAMES: [&str; 74] = [
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
    "680m",
    "660m",
    "740m",
    "760m",
    "840m",
    "860m",
    "880m",
    "8050s",
    "8060s",
    "sephiroth",
    "custom gpu",
    "wani",
    "beavercreek",
    "loveland",
    "devastator",
    "skillfish",
    "ariel",
    "liverpool",
    "gladius",
    "fenghuang",
    "radeon xpress",
    "rs100",
    "rs200",
    "rs250",
    "rs300",
    "rs350",
    "rs400",
    "rc410",
    "rs480",
    "rs482",
    "rs485",
    "rs600",
    "rs690",
    "rs740",
    "rs780",
    "rs880",
];

/// PCI device ids of AMD APUs, for texts that carry no name.
const AMD_APU_IDS: [u16; 37] = [
    0x1304, 0x1309, 0x130a, 0x130f, 0x1313, 0x1316, 0x15dd, 0x15d8, 0x15e7, 0x1636, 0x1638, 0x164c, 0x163f,
    0x164d, 0x164e, 0x1681, 0x1506, 0x15bf, 0x15c8, 0x1900, 0x1901, 0x13c0, 0x150e, 0x1586, 0x1114, 0x1902,
    0x9874, 0x9875, 0x9876, 0x9877, 0x98e4, 0x9830, 0x9832, 0x9850, 0x1435, 0x13fe, 0x74a0,
];

/// Ranges of Intel device ids that are cards, not integrated graphics (from the kernel's i915 and xe id lists).
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
const INTEL_DISCRETE_WORDS: [&str; 15] = [
    "arc a",
    "arc b",
    "arc pro a",
    "arc pro b",
    "arc(tm) a",
    "arc(tm) b",
    "arc(tm) pro a",
    "arc(tm) pro b",
    "data center gpu",
    "server gpu",
    "iris xe max",
    "dg1",
    "dg2",
    "ponte vecchio",
    "battlemage",
];

/// Integrated graphics that are numbered like cards (Panther Lake).
const INTEL_INTEGRATED_WORDS: [&str; 2] = ["b370", "b390"];

/// Words in NVIDIA names that mean a module sharing the CPU's memory.
const NVIDIA_INTEGRATED_WORDS: [&str; 25] = [
    "tegra",
    "nvgpu",
    "orin",
    "xavier",
    "thor",
    "jetson",
    "geforce 6150",
    "geforce 8200",
    "geforce 9400m",
    "ion vga",
    "nforce",
    "geforce 320m",
    "mcp7",
    "mcp8",
    "gb20b",
    "geforce 6100",
    "c51",
    "c61 [",
    "c67 [",
    "c68 [",
    "c73 [",
    "c77 [",
    "c78 [",
    "c79 [",
    "igp]",
];

/// Words that mean a vGPU or virtual function passed through by a hypervisor.
const VIRTUAL_WORDS: [&str; 10] = [
    "virtio",
    "venus",
    "grid ",
    " vgpu",
    " vf]",
    "virtual function",
    "svga3d",
    "virgl",
    "paravirtual",
    "mxgpu",
];

/// Words that mean a software rasterizer.
const SOFTWARE_WORDS: [&str; 7] =
    ["llvmpipe", "lavapipe", "swiftshader", "softpipe", "basic render", "swrast", "software rasterizer"];

/// Is this gfx target one of an APU?
pub fn is_amd_apu_target(arch: &str) -> bool {
    AMD_APU_TARGETS.contains(&arch)
}

/// Is this name one of a software rasterizer?
pub fn is_software_name(name: &str) -> bool {
    has_any(&name.to_ascii_lowercase(), &SOFTWARE_WORDS)
}

/// Does this name mean a device passed through by a hypervisor?
pub fn is_virtual_name(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    // "NVIDIA A40-8Q", "GRID T4-16Q", "NVIDIA L40S-4C": vGPU profiles end in a size and a class letter.
    let profile = lower.rsplit_once('-').is_some_and(|(_, tail)| {
        let digits = tail.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let class = tail.get(digits.len()..).unwrap_or("");
        !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && matches!(class, "q" | "c" | "b" | "a" | "cme")
    });
    // The first GRID boards are physical cards of that name; their vGPU profiles are "GRID K180Q" and the like.
    let board = ["grid k1", "grid k2", "grid k340", "grid k520"].iter().any(|board| has_word(&lower, board));
    !board && (has_any(&lower, &VIRTUAL_WORDS) || (profile && !lower.contains("hbm")))
}

/// Device type from what is known of a chip. `None`: undecidable from these facts.
pub fn gpu_type(
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
        // GB100 is the chip of the B200.
        Vendor::Nvidia if lower == "ion" || has_word(&lower, "gb10") => Some(GpuType::Integrated),
        Vendor::Nvidia => Some(GpuType::Discrete),
        Vendor::Amd => classify_amd(&lower, device, arch),
        Vendor::Intel => classify_intel(&lower, device, bus),
        Vendor::Other => None,
    }
}

fn classify_amd(lower: &str, device: Option<u16>, arch: Option<&str>) -> Option<GpuType> {
    // "Navi 33 [Radeon Graphics]" is a card.
    let card = ["navi ", "vega 10", "vega 20", "polaris"].iter().any(|chip| lower.starts_with(chip));
    if arch.is_some_and(is_amd_apu_target)
        || device.is_some_and(|d| AMD_APU_IDS.contains(&d))
        || (!card && has_any(lower, &AMD_APU_NAMES))
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
    if card || (has_any(lower, &INTEL_DISCRETE_WORDS) && !has_any(lower, &INTEL_INTEGRATED_WORDS)) {
        return Some(GpuType::Discrete);
    }
    // Integrated graphics have sat at 00:02.0 since 2004.
    if bus.is_some_and(|b| b == "0000:00:02.0") || !lower.is_empty() || device.is_some() {
        return Some(GpuType::Integrated);
    }
    None
}

/// ASIC name that kernels before `gfx_target_version` reported for an AMD chip, by device id.
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

/// Chips before GCN, by their code names in the PCI id database.
const AMD_OLD_CHIPS: [&str; 35] = [
    "rage",
    "3d rage",
    "mach64",
    "es1000",
    "cedar",
    "redwood",
    "juniper",
    "cypress",
    "hemlock",
    "barts",
    "cayman",
    "antilles",
    "turks",
    "caicos",
    "blackcomb",
    "whistler",
    "seymour",
    "park",
    "madison",
    "broadway",
    "capilano",
    "robson",
    "thames",
    "lexington",
    "granville",
    "manhattan",
    "onega",
    "sumo",
    "supersumo",
    "beavercreek",
    "wrestler",
    "loveland",
    "trinity",
    "devastator",
    "richland",
];

/// Integrated graphics before Ivy Bridge, by words of their names.
const INTEL_OLD_WORDS: [&str; 22] = [
    "82810",
    "82815",
    "82830",
    "82845",
    "82852",
    "82855",
    "82865",
    "82915",
    "915g",
    "945g",
    "82946",
    "82q963",
    "82g35",
    "965",
    "82g33",
    "82q33",
    "82q35",
    "4 series chipset",
    "n10 family",
    "atom processor",
    "core processor integrated graphics",
    "2nd generation core",
];

/// Is this chip too old for its vendor's current compute drivers? The name comes from the PCI id database.
pub fn predates_compute(vendor: Vendor, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let chip = lower.split([' ', '/', '[']).next().unwrap_or("");
    let numbered = |prefix: &str| {
        chip.strip_prefix(prefix)
            .is_some_and(|rest| rest.bytes().take(3).filter(u8::is_ascii_digit).count() == 3)
    };
    match vendor {
        // CUDA begins with G80; C77 and later are of that family.
        Vendor::Nvidia => {
            let nv =
                chip.strip_prefix("nv").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
            let g7 =
                chip.strip_prefix("g7").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            nv || g7 || ["c51", "c61", "c67", "c68", "c73"].iter().any(|c| chip.starts_with(c))
        }
        Vendor::Amd => {
            ["r", "rv", "rs", "rc"].into_iter().any(numbered)
                || AMD_OLD_CHIPS.iter().any(|old| {
                    lower
                        .strip_prefix(old)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '/']))
                })
        }
        Vendor::Intel => has_any(&lower, &INTEL_OLD_WORDS),
        Vendor::Apple | Vendor::Other => false,
    }
}

/// Does the text contain `word` at word boundaries?
fn has_word(text: &str, word: &str) -> bool {
    let plain = |b: Option<&u8>| b.is_none_or(|b| !b.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        plain(at.checked_sub(1).and_then(|i| bytes.get(i))) && plain(bytes.get(at + word.len()))
    })
}

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_type_by_name_and_id() {
        let check = |vendor, name: &str, want| {
            assert_eq!(gpu_type(Some(vendor), Some(name), None, None, None), want, "{name}")
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
        check(Vendor::Nvidia, "GB100 [B200]", Some(GpuType::Discrete));
        check(Vendor::Nvidia, "GB20B [GB10]", Some(GpuType::Integrated));
        check(Vendor::Nvidia, "GK104GL [GRID K520]", Some(GpuType::Discrete));
        check(Vendor::Nvidia, "GRID K180Q", Some(GpuType::Virtual));
        check(Vendor::Nvidia, "NVIDIA A100-1-5CME", Some(GpuType::Virtual));
        check(Vendor::Nvidia, "C79 [GeForce 9400M]", Some(GpuType::Integrated));
        check(Vendor::Amd, "Navi 33 [Radeon Graphics]", Some(GpuType::Discrete));
        check(Vendor::Amd, "RS780L [Radeon 3000]", Some(GpuType::Integrated));
        check(Vendor::Intel, "Intel(R) Arc(TM) B390 GPU", Some(GpuType::Integrated));
        check(Vendor::Intel, "Intel(R) Arc(TM) Pro 140T GPU", Some(GpuType::Integrated));
        check(Vendor::Intel, "Battlemage G31 [Intel Graphics]", Some(GpuType::Discrete));
        check(Vendor::Other, "llvmpipe (LLVM 19.1.0, 256 bits)", Some(GpuType::Software));
        assert_eq!(gpu_type(Some(Vendor::Intel), None, Some(0x56c0), None, None), Some(GpuType::Discrete));
        assert_eq!(gpu_type(Some(Vendor::Amd), None, Some(0x15bf), None, None), Some(GpuType::Integrated));
        assert_eq!(gpu_type(Some(Vendor::Amd), None, None, None, None), None);
    }

    #[test]
    fn chips_without_compute_drivers() {
        let check = |vendor, name: &str, want| assert_eq!(predates_compute(vendor, name), want, "{name}");
        check(Vendor::Nvidia, "NV34 [GeForce FX 5200]", true);
        check(Vendor::Nvidia, "G71 [GeForce 7950 GT]", true);
        check(Vendor::Nvidia, "G92 [GeForce 9800 GT]", false);
        check(Vendor::Nvidia, "C79 [GeForce 9400M]", false);
        check(Vendor::Nvidia, "NVIDIA GeForce RTX 3050", false);
        check(Vendor::Amd, "RV770 [Radeon HD 4870]", true);
        check(Vendor::Amd, "Cedar [Radeon HD 5000/6000/7350/8350 Series]", true);
        check(Vendor::Amd, "Cape Verde XT [Radeon HD 7770]", false);
        check(Vendor::Amd, "Renoir", false);
        check(Vendor::Intel, "Mobile 945GM/GMS, 943/940GML Express Integrated Graphics Controller", true);
        check(Vendor::Intel, "HD Graphics 530", false);
    }

    #[test]
    fn asic_names_of_old_kernels() {
        assert_eq!(old_kernel_asic(0x6860), Some("vega10"));
        assert_eq!(old_kernel_asic(0x744c), None);
    }
}
