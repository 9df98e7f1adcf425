//! Embeds the PCI id names: all vendors, and the devices of GPU vendors, as one text (`pci-names.txt`).
//!
//! Not the pci-ids crate's own tables: those are pointers that a position-independent executable relocates at every
//! start. A text needs no relocations.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

/// Vendors of GPUs and of display adapters that are listed beside them.
const GPU_VENDORS: [u16; 20] = [
    0x10de, 0x12d2, 0x1002, 0x1022, 0x8086, 0x106b, 0x1a03, 0x102b, 0x126f, 0x19e5, 0x18ca, 0x15ad, 0x80ee,
    0x1af4, 0x1b36, 0x1234, 0x1013, 0x1414, 0x1ab8, 0x1d0f,
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    for vendor in pci_ids::Vendors::iter() {
        writeln!(text, "{:04x} {}", vendor.id(), vendor.name())?;
        if GPU_VENDORS.contains(&vendor.id()) {
            for device in vendor.devices() {
                writeln!(text, "\t{:04x} {}", device.id(), device.name())?;
            }
        }
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("pci-names.txt"), text)?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
