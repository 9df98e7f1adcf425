//! macOS probe: `sysctl` values, Metal devices, and their properties in IOKit's registry.
//!
//! Thin reads only: what they mean is decided in `snapshot/macos.rs`. Every value that macOS does not give is `None`.
#![expect(unsafe_code, reason = "sysctlbyname and IOKit's registry have no safe interface")]

use std::{collections::BTreeMap, ffi::CString, ptr};

use objc2_core_foundation::{CFData, CFDictionary, CFNumber, CFRetained, CFString, CFType};
use objc2_io_kit::{
    IOObjectRelease, IORegistryEntryIDMatching, IORegistryEntrySearchCFProperty, IOServiceGetMatchingService,
    io_service_t, kIORegistryIterateParents, kIORegistryIterateRecursively,
};
use objc2_metal::{MTLCopyAllDevices, MTLDevice};

use super::ProbeError;
use crate::{
    model::ProbeReport,
    snapshot::macos::{
        CLASS_KEYS, KEYS, MAX_CLASSES, MacosSnapshot, MetalDevice, SysctlType, number_of, text_of,
    },
};

/// Everything, Metal included.
pub fn read() -> Result<ProbeReport, ProbeError> {
    Ok(MacosSnapshot { metal: Some(metal()), ..system() }.report())
}

/// `sysctl` only: no framework of the GPU is asked.
pub fn system() -> MacosSnapshot {
    let mut values = BTreeMap::new();
    let mut add = |key: String, kind: SysctlType| values.extend(sysctl(&key, kind).map(|value| (key, value)));
    KEYS.iter().for_each(|(key, kind)| add((*key).to_owned(), *kind));
    // A class that does not exist has no keys.
    for class in 0..MAX_CLASSES {
        CLASS_KEYS.iter().for_each(|(key, kind)| add(format!("hw.perflevel{class}.{key}"), *kind));
    }
    MacosSnapshot { sysctl: values, metal: None }
}

/// What changes with a boot or a system update, for the fingerprint of the cache.
pub fn stamp() -> Option<String> {
    let boot = sysctl("kern.bootsessionuuid", SysctlType::Text)?;
    Some(format!("boot {boot} {}", sysctl("kern.osversion", SysctlType::Text).unwrap_or_default()))
}

fn sysctl(key: &str, kind: SysctlType) -> Option<String> {
    let key = CString::new(key).ok()?;
    let mut bytes = vec![0u8; 512];
    let mut size = bytes.len();
    let buffer = bytes.as_mut_ptr().cast();
    // SAFETY: the key is NUL-terminated, the buffer has `size` bytes, and no new value is given.
    let status = unsafe { libc::sysctlbyname(key.as_ptr(), buffer, &mut size, ptr::null_mut(), 0) };
    bytes.truncate(size);
    if status != 0 {
        return None;
    }
    match kind {
        SysctlType::Text => text_of(&bytes),
        SysctlType::Number => number_of(&bytes).map(|number| number.to_string()),
    }
}

fn metal() -> Vec<MetalDevice> {
    let devices = MTLCopyAllDevices().to_vec();
    let describe = devices.iter().map(|device| {
        let entry = RegistryEntry::of(device.registryID());
        let number = |key: &'static str| entry.as_ref().and_then(|entry| entry.number(key));
        let id = |key| number(key).and_then(|n| u16::try_from(n & 0xffff).ok()).filter(|n| *n != 0);
        MetalDevice {
            name: device.name().to_string(),
            registry_id: device.registryID(),
            unified_memory: device.hasUnifiedMemory(),
            low_power: device.isLowPower(),
            removable: device.isRemovable(),
            headless: device.isHeadless(),
            working_set_bytes: Some(device.recommendedMaxWorkingSetSize()),
            max_buffer_bytes: u64::try_from(device.maxBufferLength()).ok(),
            core_count: number("gpu-core-count").and_then(|n| u32::try_from(n).ok()),
            pci_vendor: id("vendor-id"),
            pci_device: id("device-id"),
            vram_mib: number("VRAM,totalMB"),
        }
    });
    describe.collect()
}

/// An entry of IOKit's registry.
struct RegistryEntry(io_service_t);

impl RegistryEntry {
    fn of(id: u64) -> Option<RegistryEntry> {
        // SAFETY: any number may be asked for; the dictionary is used as an opaque whole.
        let matching = unsafe { IORegistryEntryIDMatching(id) }?;
        let matching: CFRetained<CFDictionary> = (&**matching).into();
        // SAFETY: port 0 is the default one; the call takes the dictionary over.
        let service = unsafe { IOServiceGetMatchingService(0, Some(matching)) };
        (service != 0).then_some(RegistryEntry(service))
    }

    /// A number of the entry or of its parents (PCI ids are those of the bus device).
    fn number(&self, key: &'static str) -> Option<u64> {
        let key = CFString::from_static_str(key);
        let mut plane = [0; 128];
        for (unit, byte) in plane.iter_mut().zip(b"IOService") {
            *unit = byte.cast_signed();
        }
        let options = kIORegistryIterateParents | kIORegistryIterateRecursively;
        // SAFETY: the entry is held, plane and key are valid for the call; no allocator means the default one.
        let value =
            unsafe { IORegistryEntrySearchCFProperty(self.0, &mut plane, Some(&key), None, options) }?;
        number_in(&value)
    }
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        let _ = IOObjectRelease(self.0);
    }
}

/// A number, or data in the byte order of the machine.
fn number_in(value: &CFType) -> Option<u64> {
    let number = value.downcast_ref::<CFNumber>().and_then(|n| u64::try_from(n.as_i64()?).ok());
    number.or_else(|| number_of(&value.downcast_ref::<CFData>()?.to_vec()))
}
