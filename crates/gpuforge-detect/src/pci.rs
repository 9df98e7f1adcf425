//! PCI addresses, classes, vendor/device ids and their names. Pure lookups over the PCI id database (build.rs).

use std::{
    collections::HashMap,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::model::Vendor;

/// Normalises a PCI address to `dddd:bb:dd.f`; accepts `bb:dd.f`, 8-digit domains and upper case.
pub fn bus_id(text: &str) -> Option<String> {
    let (rest, function) = text.trim().rsplit_once('.')?;
    let mut parts = rest.split(':').rev();
    let device = hex(parts.next()?, 2)?;
    let bus = hex(parts.next()?, 2)?;
    let domain = match parts.next() {
        Some(domain) => hex(domain, 8)?,
        None => 0,
    };
    if parts.next().is_some() || device > 0x1f {
        return None;
    }
    let function = hex(function, 1).filter(|f| *f <= 7)?;
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}

/// Parses 1 to `digits` hexadecimal digits, nothing else.
fn hex(text: &str, digits: usize) -> Option<u32> {
    let plain = !text.is_empty() && text.len() <= digits && text.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(text, 16).ok())?
}

/// A 16-bit id written `0x10de`, `10de` or `10DE`.
pub fn id16(text: &str) -> Option<u16> {
    let text = text.trim();
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
    hex(digits, 4).and_then(|v| u16::try_from(v).ok())
}

/// `vvvv:dddd` in lower case.
pub fn pci_id(vendor: u16, device: u16) -> String {
    format!("{vendor:04x}:{device:04x}")
}

/// Splits `vvvv:dddd`.
pub fn split_id(id: &str) -> Option<(u16, u16)> {
    let (vendor, device) = id.split_once(':')?;
    Some((id16(vendor)?, id16(device)?))
}

/// Vendor by PCI vendor id (Vulkan's vendor id is the same for PCI vendors).
pub fn vendor(id: u32) -> Vendor {
    match id {
        0x10de | 0x12d2 => Vendor::Nvidia,
        0x1002 | 0x1022 => Vendor::Amd,
        0x8086 | 0x8087 => Vendor::Intel,
        0x106b => Vendor::Apple,
        _ => Vendor::Other,
    }
}

/// Vendor named in a free-form device name.
pub fn vendor_in_name(name: &str) -> Option<Vendor> {
    const WORDS: [(&str, Vendor); 19] = [
        ("nvidia", Vendor::Nvidia),
        ("geforce", Vendor::Nvidia),
        ("quadro", Vendor::Nvidia),
        ("tesla", Vendor::Nvidia),
        ("titan", Vendor::Nvidia),
        ("tegra", Vendor::Nvidia),
        ("amd", Vendor::Amd),
        ("advanced micro devices", Vendor::Amd),
        ("ati technologies", Vendor::Amd),
        ("radeon", Vendor::Amd),
        ("instinct", Vendor::Amd),
        ("firepro", Vendor::Amd),
        ("gfx", Vendor::Amd),
        ("intel", Vendor::Intel),
        ("iris", Vendor::Intel),
        ("uhd graphics", Vendor::Intel),
        ("hd graphics", Vendor::Intel),
        ("apple", Vendor::Apple),
        ("arc(tm)", Vendor::Intel),
    ];
    let lower = name.to_ascii_lowercase();
    // "Camd board" and "Intelligent Management" name nobody; "gfx1100" does.
    let stands_alone = |at: usize, word: &str| {
        let before = at.checked_sub(1).and_then(|i| lower.as_bytes().get(i));
        let after = lower.as_bytes().get(at + word.len());
        before.is_none_or(|b| !b.is_ascii_alphanumeric()) && after.is_none_or(|b| !b.is_ascii_alphabetic())
    };
    WORDS
        .iter()
        .filter_map(|(word, vendor)| {
            lower.match_indices(word).find(|(at, _)| stands_alone(*at, word)).map(|(at, _)| (at, *vendor))
        })
        .min_by_key(|(at, _)| *at)
        .map(|(_, vendor)| vendor)
}

/// `vvvv VENDOR` lines, each followed by its `\tdddd DEVICE` lines where it makes GPUs (build.rs).
const NAMES: &str = include_str!(concat!(env!("OUT_DIR"), "/pci-names.txt"));

/// Name of a device by the the PCI id database.
pub fn device_name(vendor: u16, device: u16) -> Option<&'static str> {
    static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
    static INDEX: LazyLock<HashMap<(u16, u16), &'static str>> = LazyLock::new(|| devices().collect());
    // A machine has a handful of devices: a linear scan each costs less than building an index. Long pasted text does not.
    if LOOKUPS.fetch_add(1, Ordering::Relaxed) < 32 {
        devices().find(|(id, _)| *id == (vendor, device)).map(|(_, name)| name)
    } else {
        INDEX.get(&(vendor, device)).copied()
    }
}

/// Every device with its ids.
fn devices() -> impl Iterator<Item = ((u16, u16), &'static str)> {
    NAMES
        .lines()
        .scan(0, |vendor, line| {
            let (id, name) = line.trim_start_matches('\t').split_at_checked(5)?;
            let id = id16(id)?;
            if line.starts_with('\t') {
                Some(Some(((*vendor, id), name)))
            } else {
                *vendor = id;
                Some(None)
            }
        })
        .flatten()
}

/// Name of a vendor by the the PCI id database.
pub fn vendor_name(vendor: u16) -> Option<&'static str> {
    NAMES.lines().find(|l| starts_vendor(l, vendor)).and_then(|l| l.get(5..))
}

/// Names of all vendors.
pub fn vendor_names() -> impl Iterator<Item = &'static str> {
    NAMES.lines().filter(|l| !l.starts_with('\t')).filter_map(|l| l.get(5..))
}

fn starts_vendor(line: &str, vendor: u16) -> bool {
    line.get(..4).is_some_and(|id| !line.starts_with('\t') && u16::from_str_radix(id, 16) == Ok(vendor))
}

/// Is this PCI class (24 bits, `0xccssii`) a display controller or processing accelerator?
pub fn is_gpu_class(class: u32) -> bool {
    // 03xx display controllers, 1200 processing accelerators (AMD Instinct). 0b40 co-CPUs
    // are not listed: they are cryptography and DMA engines in practice.
    matches!(class >> 16, 0x03) || matches!(class >> 8, 0x1200)
}

/// Is a device of this class and vendor a GPU? Class 1200 covers Instinct cards, but also NPUs, FPGAs and codecs.
///
/// `name` decides where the listing has no numeric ids.
pub fn is_gpu(class: u32, vendor: Option<u16>, name: &str) -> bool {
    // AMD, NVIDIA, Iluvatar, Moore Threads, MetaX.
    const MAKERS: [u16; 5] = [0x1002, 0x10de, 0x1e3e, 0x1ed5, 0x9999];
    let accelerator_of_gpu_maker = || match vendor {
        Some(id) => MAKERS.contains(&id),
        None => {
            let lower = name.to_ascii_lowercase();
            matches!(vendor_in_name(name), Some(Vendor::Amd | Vendor::Nvidia))
                || ["iluvatar", "moore threads", "metax"].iter().any(|maker| lower.contains(maker))
        }
    };
    is_gpu_class(class) && (class >> 16 == 0x03 || accelerator_of_gpu_maker())
}

/// Display-only adapter (BMC VGA, emulated VGA) without compute; `None` for GPUs.
///
/// `name` is checked too, for listings without numeric ids.
pub fn console_only(vendor: Option<u16>, name: &str) -> Option<ConsoleChip> {
    const ROWS: [(u16, &str, bool, &str); 24] = [
        (0x1a03, "aspeed", false, "ASPEED server management chip"),
        (0x102b, "matrox", false, "Matrox server management chip"),
        (0x102b, "mga g200", false, "Matrox server management chip"),
        (0x126f, "silicon motion", false, "Silicon Motion display chip"),
        (0x19e5, "hi171", false, "Huawei server management chip"),
        (0x18ca, "xgi", false, "XGI Volari server display chip"),
        (0x19a2, "serverengines", false, "server management chip"),
        (0x1050, "nuvoton", false, "server management chip"),
        (0x1039, "silicon integrated systems", false, "SiS display chip"),
        (0x1106, "via technologies", false, "VIA display chip"),
        (0x5333, "s3 graphics", false, "S3 display chip"),
        (0x15ad, "vmware", true, "VMware virtual display"),
        (0x80ee, "virtualbox", true, "VirtualBox virtual display"),
        (0x1af4, "virtio", true, "virtio virtual display"),
        (0x1b36, "qxl", true, "QXL virtual display"),
        (0x1234, "bochs", true, "QEMU standard VGA"),
        (0x1234, "device 1234:1111", true, "QEMU standard VGA"),
        (0x1013, "cirrus logic", true, "Cirrus Logic emulated VGA"),
        (0x1013, "gd 5446", true, "Cirrus Logic emulated VGA"),
        (0x1414, "hyper-v", true, "Hyper-V virtual display"),
        (0x1ab8, "parallels", true, "Parallels virtual display"),
        (0x1d0f, "amazon.com", true, "Amazon EC2 virtual display"),
        (0xfb5d, "device fb5d:40fb", true, "bhyve virtual display"),
        (0x5853, "xensource", true, "Xen virtual display"),
    ];
    let lower = name.to_ascii_lowercase();
    // The PCI id database calls WSL's paravirtual GPU a render driver.
    if is_wsl_gpu(vendor, &lower) {
        return None;
    }
    if lower.contains("es1000") {
        return Some(ConsoleChip { emulated: false, what: "ATI server display chip" });
    }
    ROWS.iter()
        .find(|(id, word, ..)| vendor == Some(*id) || (vendor.is_none() && lower.contains(word)))
        .map(|(_, _, emulated, what)| ConsoleChip { emulated: *emulated, what })
}

/// Is this WSL's paravirtual adapter for the GPU of the Windows host (1414:008e)?
pub fn is_wsl_gpu(vendor: Option<u16>, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let microsoft = vendor.map_or(lower.contains("microsoft"), |id| id == 0x1414);
    microsoft && (lower.contains("008e") || lower.contains("basic render"))
}

/// A display adapter without compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsoleChip {
    /// Emulated by a hypervisor, not physical.
    pub emulated: bool,
    /// Description.
    pub what: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_are_normalised() {
        let check = |text: &str, want: Option<&str>| assert_eq!(bus_id(text).as_deref(), want, "{text}");
        check("00000000:0C:00.0", Some("0000:0c:00.0"));
        check("0000000F:01:00.0", Some("000f:01:00.0"));
        check("4d:00.0", Some("0000:4d:00.0"));
        check("0000:00:1e.0", Some("0000:00:1e.0"));
        check("10000:01:00.0", Some("10000:01:00.0"));
        check("N/A", None);
        check("01:20.0", None);
        check("01:00.8", None);
        check("1:2:3:4.0", None);
        check("", None);
        check(":.", None);
        check("+1:00.0", None);
    }

    #[test]
    fn classes_that_are_gpus() {
        assert!(
            is_gpu_class(0x030000)
                && is_gpu_class(0x030200)
                && is_gpu_class(0x038000)
                && is_gpu_class(0x120000)
        );
        assert!(!is_gpu_class(0x068000) && !is_gpu_class(0x040300) && !is_gpu_class(0x0b4000));
    }

    #[test]
    fn accelerators_of_gpu_makers_are_gpus() {
        assert!(
            is_gpu(0x120000, Some(0x1002), "") && is_gpu(0x120000, None, "Advanced Micro Devices, Inc. X")
        );
        assert!(!is_gpu(0x120000, Some(0x8086), "") && !is_gpu(0x120000, None, "Intel Corporation NPU"));
        assert!(is_gpu(0x030000, Some(0x8086), "") && !is_gpu(0x040300, Some(0x1002), ""));
    }

    #[test]
    fn the_wsl_adapter_is_not_display_only() {
        assert_eq!(console_only(Some(0x1414), "Device [1414:008e]"), None);
        assert_eq!(console_only(None, "Microsoft Corporation Basic Render Driver"), None);
        assert!(console_only(Some(0x1414), "Hyper-V virtual VGA").is_some());
        assert!(console_only(Some(0x1002), "ES1000").is_some_and(|chip| !chip.emulated));
    }

    #[test]
    fn vendor_words_match_at_word_boundaries() {
        assert_eq!(vendor_in_name("NVIDIA GeForce RTX 3070"), Some(Vendor::Nvidia));
        assert_eq!(vendor_in_name("Virtio-GPU Venus (Apple M2)"), Some(Vendor::Apple));
        assert_eq!(vendor_in_name("Camd board"), None);
        assert_eq!(vendor_in_name("Intelligent Management system chip"), None);
        assert_eq!(vendor_in_name("gfx1100"), Some(Vendor::Amd));
        assert_eq!(vendor_in_name("Intel(R) Xeon(R) with AMD sticker"), Some(Vendor::Intel));
    }

    #[test]
    fn names_come_from_the_pci_id_database() {
        assert!(device_name(0x10de, 0x2330).is_some_and(|n| n.contains("H100")));
        assert_eq!(device_name(0xffff, 0xffff), None);
        // After the first lookups the index answers: the same result.
        for _ in 0..64 {
            assert!(device_name(0x8086, 0x56a0).is_some_and(|n| n.contains("A770")));
        }
    }
}
