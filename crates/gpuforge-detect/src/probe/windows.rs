//! Windows probe: DXGI adapters, display devices of the device manager, registry values, memory status, CPU topology.
//!
//! Thin reads only: what they mean is decided in `snapshot/windows.rs`. Every value that Windows does not give is `None`.
#![expect(
    unsafe_code,
    reason = "Win32 has no safe interface for DXGI, devices, the registry and memory status"
)]

use std::path::Path;

use windows::{
    Win32::{
        Devices::{
            DeviceAndDriverInstallation::{
                CM_DEVNODE_STATUS_FLAGS, CM_GETIDLIST_FILTER_CLASS, CM_GETIDLIST_FILTER_PRESENT,
                CM_Get_DevNode_PropertyW, CM_Get_DevNode_Status, CM_Get_Device_ID_List_SizeW,
                CM_Get_Device_ID_ListW, CM_LOCATE_DEVNODE_NORMAL, CM_Locate_DevNodeW, CM_PROB, CR_SUCCESS,
                DN_HAS_PROBLEM,
            },
            Properties::{
                DEVPKEY_Device_Address, DEVPKEY_Device_BusNumber, DEVPKEY_Device_DeviceDesc,
                DEVPKEY_Device_Driver, DEVPKEY_Device_Service, DEVPROPTYPE,
            },
        },
        Foundation::{DEVPROPKEY, ERROR_SUCCESS},
        Graphics::Dxgi::{
            DXGI_ADAPTER_DESC1, DXGI_ADAPTER_FLAG_REMOTE, DXGI_ADAPTER_FLAG_SOFTWARE, IDXGIFactory1,
        },
        System::{
            LibraryLoader::{GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW},
            Registry::{
                HKEY, HKEY_CURRENT_USER, HKEY_LOCAL_MACHINE, KEY_READ, KEY_WOW64_64KEY, RegCloseKey,
                RegEnumKeyExW, RegOpenKeyExW, RegQueryValueExW,
            },
            SystemInformation::{
                GetLogicalProcessorInformationEx, GlobalMemoryStatusEx, MEMORYSTATUSEX, RelationAll,
            },
        },
    },
    core::{GUID, HRESULT, HSTRING, Interface as _, PWSTR, s},
};

use super::ProbeError;
use crate::{
    model::ProbeReport,
    snapshot::{
        processor_info::{self, CpuTopology},
        windows::{
            DisplayDevice, DxgiAdapter, MemoryStatus, SYSTEM_DLLS, WindowsSnapshot, WindowsVersion,
            WslDistribution, list_of, number_of, text_of,
        },
    },
};

/// Setup class of display adapters.
const DISPLAY_CLASS: &str = "{4d36e968-e325-11ce-bfc1-08002be10318}";
/// Registry path of setup classes.
const CLASSES: &str = r"SYSTEM\CurrentControlSet\Control\Class";
/// LUID of a display device: a property that Windows sets since version 10 and names in no public header.
const GPU_LUID: DEVPROPKEY =
    DEVPROPKEY { fmtid: GUID::from_u128(0x60b193cb_5276_4d0f_96fc_f173abad3ec6), pid: 2 };
/// Read limits: no value or list that is read here is longer.
const MAX_VALUE: u32 = 1 << 16;
const MAX_ENTRIES: u32 = 256;

/// Everything, DXGI included.
pub fn read() -> Result<ProbeReport, ProbeError> {
    Ok(WindowsSnapshot { adapters: adapters(), ..system() }.report())
}

/// Everything but DXGI: registry, device manager, memory status. No GPU library is loaded.
pub fn system() -> WindowsSnapshot {
    let machine = |path: &str| Key::open(HKEY_LOCAL_MACHINE, path);
    let cpu = machine(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0");
    let environment = machine(r"SYSTEM\CurrentControlSet\Control\Session Manager\Environment");
    let firmware = machine(r"HARDWARE\DESCRIPTION\System\BIOS");
    let pages = machine(r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management");
    let files = machine(r"SYSTEM\CurrentControlSet\Control\FileSystem");
    WindowsSnapshot {
        version: version(),
        process_arch: Some(std::env::consts::ARCH.to_owned()),
        native_arch: environment.and_then(|key| key.text("PROCESSOR_ARCHITECTURE")),
        adapters: None,
        devices: devices(),
        memory: memory(),
        cpu_name: cpu.and_then(|key| key.text("ProcessorNameString")),
        cpu: topology(),
        simd: simd().map(str::to_owned),
        firmware: firmware
            .and_then(|key| Some((key.text("SystemManufacturer")?, key.text("SystemProductName")?))),
        page_files: pages.and_then(|key| Some(list_of(&key.bytes("PagingFiles")?))),
        long_paths: files.and_then(|key| Some(key.number("LongPathsEnabled")? != 0)),
        vc_runtime: vc_runtime(),
        system_dlls: system_dlls(),
        wsl: wsl(),
    }
}

/// What changes with a boot or a driver, for the fingerprint of the cache: boot count and driver versions.
pub fn stamp() -> Option<String> {
    let boot = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters";
    let boot = Key::open(HKEY_LOCAL_MACHINE, boot).and_then(|key| key.number("BootId"));
    let class = format!(r"{CLASSES}\{DISPLAY_CLASS}");
    let names = Key::open(HKEY_LOCAL_MACHINE, &class)?.subkeys();
    let driver = |name: String| {
        let key = Key::open(HKEY_LOCAL_MACHINE, &format!(r"{class}\{name}"))?;
        Some(format!("{name}:{}:{}", key.text("MatchingDeviceId")?, key.text("DriverVersion")?))
    };
    let drivers: Vec<String> = names.into_iter().filter_map(driver).collect();
    Some(format!("boot {boot:?} {}", drivers.join(" ")))
}

/// An open registry key.
struct Key(HKEY);

impl Key {
    /// Opens a key of the 64-bit view for reading.
    fn open(root: HKEY, path: &str) -> Option<Key> {
        let path = HSTRING::from(path);
        let mut key = HKEY::default();
        // SAFETY: the path is NUL-terminated and outlives the call; `key` is writable, and used only on success.
        let status = unsafe { RegOpenKeyExW(root, &path, None, KEY_READ | KEY_WOW64_64KEY, &mut key) };
        (status == ERROR_SUCCESS).then_some(Key(key))
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let name = HSTRING::from(name);
        let mut size = 0;
        // SAFETY: the key is open, the name NUL-terminated; without a buffer only the size is written.
        let status = unsafe { RegQueryValueExW(self.0, &name, None, None, None, Some(&mut size)) };
        if status != ERROR_SUCCESS || size > MAX_VALUE {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(size).ok()?];
        let buffer = Some(bytes.as_mut_ptr());
        // SAFETY: the buffer has `size` bytes; a value that has grown since is an error and writes nothing beyond them.
        let status = unsafe { RegQueryValueExW(self.0, &name, None, None, buffer, Some(&mut size)) };
        bytes.truncate(usize::try_from(size).ok()?);
        (status == ERROR_SUCCESS).then_some(bytes)
    }

    fn text(&self, name: &str) -> Option<String> {
        text_of(&self.bytes(name)?)
    }

    fn number(&self, name: &str) -> Option<u64> {
        number_of(&self.bytes(name)?)
    }

    fn subkeys(&self) -> Vec<String> {
        let name = |index: u32| {
            // A key's name has 255 characters at most.
            let mut name = [0u16; 256];
            let mut length = 256;
            let buffer = Some(PWSTR(name.as_mut_ptr()));
            // SAFETY: the key is open; the buffer has the stated number of characters, NUL included.
            let status = unsafe { RegEnumKeyExW(self.0, index, buffer, &mut length, None, None, None, None) };
            let length = usize::try_from(length).ok()?;
            (status == ERROR_SUCCESS).then(|| name.get(..length).map(String::from_utf16_lossy))?
        };
        (0..MAX_ENTRIES).map_while(name).collect()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: `open` made this handle, and nobody else closes it.
        let _ = unsafe { RegCloseKey(self.0) };
    }
}

fn version() -> WindowsVersion {
    let Some(key) = Key::open(HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Windows NT\CurrentVersion") else {
        return WindowsVersion::default();
    };
    WindowsVersion {
        product: key.text("ProductName"),
        display: key.text("DisplayVersion"),
        build: key.text("CurrentBuild"),
        revision: key.number("UBR").and_then(|n| u32::try_from(n).ok()),
    }
}

fn vc_runtime() -> Option<String> {
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    ["", r"WOW6432Node\"].into_iter().find_map(|view| {
        let path = format!(r"SOFTWARE\{view}Microsoft\VisualStudio\14.0\VC\Runtimes\{arch}");
        Key::open(HKEY_LOCAL_MACHINE, &path)?.text("Version")
    })
}

fn system_dlls() -> Option<Vec<String>> {
    let dir = Path::new(&std::env::var_os("SystemRoot")?).join("System32");
    let there = SYSTEM_DLLS.iter().filter(|name| dir.join(name).is_file());
    dir.is_dir().then(|| there.map(|name| (*name).to_owned()).collect())
}

fn wsl() -> Option<Vec<WslDistribution>> {
    const LXSS: &str = r"Software\Microsoft\Windows\CurrentVersion\Lxss";
    let distribution = |name: String| {
        let key = Key::open(HKEY_CURRENT_USER, &format!(r"{LXSS}\{name}"))?;
        let version = key.number("Version").and_then(|n| u32::try_from(n).ok());
        Some(WslDistribution { name: key.text("DistributionName")?, version })
    };
    let names = Key::open(HKEY_CURRENT_USER, LXSS)?.subkeys();
    Some(names.into_iter().filter_map(distribution).collect())
}

fn memory() -> Option<MemoryStatus> {
    let mut status = MEMORYSTATUSEX {
        dwLength: u32::try_from(size_of::<MEMORYSTATUSEX>()).ok()?,
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: the structure is writable and states its own length, as the call requires.
    unsafe { GlobalMemoryStatusEx(&mut status) }.ok()?;
    Some(MemoryStatus {
        physical_bytes: status.ullTotalPhys,
        physical_free_bytes: status.ullAvailPhys,
        commit_limit_bytes: status.ullTotalPageFile,
        commit_free_bytes: status.ullAvailPageFile,
    })
}

fn topology() -> Option<CpuTopology> {
    let mut size = 0;
    // SAFETY: without a buffer the call only writes the size that it needs, and fails.
    let _ = unsafe { GetLogicalProcessorInformationEx(RelationAll, None, &mut size) };
    let words = usize::try_from(size).ok().filter(|size| *size > 0)?.div_ceil(size_of::<u64>());
    // Words, not bytes: the records hold masks and must be aligned for them.
    let mut buffer = vec![0u64; words];
    // SAFETY: the buffer has at least `size` bytes and the alignment of the records; it is filled, never read through
    // the pointer.
    unsafe { GetLogicalProcessorInformationEx(RelationAll, Some(buffer.as_mut_ptr().cast()), &mut size) }
        .ok()?;
    let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let filled = bytes.get(..usize::try_from(size).ok()?)?;
    Some(processor_info::decode(filled, size_of::<usize>()))
}

fn simd() -> Option<&'static str> {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    {
        use std::arch::is_x86_feature_detected as has;
        let levels = [
            (has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl"), "avx512"),
            (has!("avx2") && has!("fma"), "avx2"),
            (has!("avx"), "avx"),
            (has!("sse4.2"), "sse4.2"),
            (has!("sse2"), "sse2"),
        ];
        levels.into_iter().find_map(|(there, name)| there.then_some(name))
    }
    #[cfg(target_arch = "aarch64")]
    {
        Some("neon")
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    {
        None
    }
}

/// Display devices that are plugged in.
fn devices() -> Option<Vec<DisplayDevice>> {
    let class = HSTRING::from(DISPLAY_CLASS);
    let flags = CM_GETIDLIST_FILTER_CLASS | CM_GETIDLIST_FILTER_PRESENT;
    let mut length = 0;
    // SAFETY: the filter is NUL-terminated and outlives the call; `length` is writable.
    let status = unsafe { CM_Get_Device_ID_List_SizeW(&mut length, &class, flags) };
    if status != CR_SUCCESS || length > MAX_VALUE {
        return None;
    }
    let mut ids = vec![0u16; usize::try_from(length).ok()?];
    // SAFETY: the filter outlives the call; the slice carries its own length, and a list that has grown since is an error.
    let status = unsafe { CM_Get_Device_ID_ListW(&class, &mut ids, flags) };
    let bytes: Vec<u8> = ids.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    (status == CR_SUCCESS).then(|| list_of(&bytes).iter().filter_map(|id| device(id)).collect())
}

fn device(id: &str) -> Option<DisplayDevice> {
    let wide = HSTRING::from(id);
    let mut node = 0;
    // SAFETY: the id is NUL-terminated and outlives the call; `node` is writable, and used only on success.
    if unsafe { CM_Locate_DevNodeW(&mut node, &wide, CM_LOCATE_DEVNODE_NORMAL) } != CR_SUCCESS {
        return None;
    }
    let text = |key: &DEVPROPKEY| text_of(&property(node, key)?);
    let number = |key: &DEVPROPKEY| number_of(&property(node, key)?);
    let narrow = |key: &DEVPROPKEY| number(key).and_then(|n| u32::try_from(n).ok());
    let driver = text(&DEVPKEY_Device_Driver)
        .and_then(|driver| Key::open(HKEY_LOCAL_MACHINE, &format!(r"{CLASSES}\{driver}")));
    let driver = driver.as_ref();
    let memory = |name: &str| driver.and_then(|key| key.number(name)).filter(|bytes| *bytes > 0);
    Some(DisplayDevice {
        // The last part is of this machine, at times a serial number.
        hardware_id: id.rsplit_once('\\').map_or(id, |(kept, _)| kept).to_owned(),
        description: text(&DEVPKEY_Device_DeviceDesc),
        service: text(&DEVPKEY_Device_Service),
        luid: number(&GPU_LUID),
        bus_number: narrow(&DEVPKEY_Device_BusNumber),
        address: narrow(&DEVPKEY_Device_Address),
        driver_version: driver.and_then(|key| key.text("DriverVersion")),
        driver_date: driver.and_then(|key| key.text("DriverDate")),
        memory_bytes: memory("HardwareInformation.qwMemorySize")
            .or_else(|| memory("HardwareInformation.MemorySize")),
        problem: problem(node),
    })
}

/// Bytes of a device property.
fn property(node: u32, key: &DEVPROPKEY) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 2048];
    let mut size = 2048;
    let mut kind = DEVPROPTYPE::default();
    let buffer = Some(bytes.as_mut_ptr());
    // SAFETY: the node was located; key, type and size are valid for the call, and the buffer has the stated size.
    let status = unsafe { CM_Get_DevNode_PropertyW(node, key, &mut kind, buffer, &mut size, 0) };
    bytes.truncate(usize::try_from(size).ok()?);
    (status == CR_SUCCESS).then_some(bytes)
}

/// Problem code of a device; 0 where it has none.
fn problem(node: u32) -> Option<u32> {
    let (mut flags, mut problem) = (CM_DEVNODE_STATUS_FLAGS::default(), CM_PROB::default());
    // SAFETY: the node was located; both results are writable.
    let status = unsafe { CM_Get_DevNode_Status(&mut flags, &mut problem, node, 0) };
    let has = flags.0 & DN_HAS_PROBLEM.0 != 0;
    (status == CR_SUCCESS).then_some(if has { problem.0 } else { 0 })
}

/// `CreateDXGIFactory1`
type CreateFactory = unsafe extern "system" fn(*const GUID, *mut *mut core::ffi::c_void) -> HRESULT;

/// DXGI's adapters. The library is loaded here and not imported: servers without a desktop do not have it, and the
/// program must start there too.
fn adapters() -> Option<Vec<DxgiAdapter>> {
    let name = HSTRING::from("dxgi.dll");
    // SAFETY: the name is NUL-terminated; the library is searched in the system directory only, and never unloaded.
    let library = unsafe { LoadLibraryExW(&name, None, LOAD_LIBRARY_SEARCH_SYSTEM32) }.ok()?;
    // SAFETY: the library is loaded and the name NUL-terminated.
    let entry = unsafe { GetProcAddress(library, s!("CreateDXGIFactory1")) }?;
    // SAFETY: dxgi.dll documents this signature for the function of this name.
    let create =
        unsafe { core::mem::transmute::<unsafe extern "system" fn() -> isize, CreateFactory>(entry) };
    let mut raw = core::ptr::null_mut();
    // SAFETY: the interface id and the result are valid for the call.
    unsafe { create(&IDXGIFactory1::IID, &mut raw) }.ok().ok()?;
    if raw.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so `raw` is an owned reference to the interface whose id was asked for.
    let factory = unsafe { IDXGIFactory1::from_raw(raw) };
    let description = |index: u32| {
        // SAFETY: the factory is alive; an index beyond the last adapter is an error.
        let adapter = unsafe { factory.EnumAdapters1(index) }.ok()?;
        // SAFETY: the adapter is alive.
        unsafe { adapter.GetDesc1() }.ok()
    };
    Some((0..MAX_ENTRIES).map_while(description).map(|d| adapter(&d)).collect())
}

/// Plain data of a description.
fn adapter(found: &DXGI_ADAPTER_DESC1) -> DxgiAdapter {
    let name: Vec<u16> = found.Description.iter().copied().take_while(|unit| *unit != 0).collect();
    let flag = |flag: i32| found.Flags & flag.unsigned_abs() != 0;
    let bytes = |size: usize| u64::try_from(size).unwrap_or(0);
    let (low, high) = (found.AdapterLuid.LowPart, found.AdapterLuid.HighPart);
    DxgiAdapter {
        description: String::from_utf16_lossy(&name),
        vendor_id: found.VendorId,
        device_id: found.DeviceId,
        subsystem_id: found.SubSysId,
        revision: found.Revision,
        luid: u64::from(high.cast_unsigned()) << 32 | u64::from(low),
        dedicated_video_bytes: bytes(found.DedicatedVideoMemory),
        dedicated_system_bytes: bytes(found.DedicatedSystemMemory),
        shared_system_bytes: bytes(found.SharedSystemMemory),
        software: flag(DXGI_ADAPTER_FLAG_SOFTWARE.0),
        remote: flag(DXGI_ADAPTER_FLAG_REMOTE.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_system_answers() {
        let snapshot = system();
        assert!(snapshot.memory.is_some_and(|m| m.physical_bytes > 0 && m.commit_limit_bytes > 0));
        assert!(snapshot.cpu.as_ref().is_some_and(|cpu| cpu.threads() > 0), "{:?}", snapshot.cpu);
        assert!(snapshot.version.build.is_some());
        let report = read().unwrap();
        assert!(report.host.is_some_and(|host| host.kernel.is_some()));
    }

    #[test]
    fn missing_keys_and_values_are_none() {
        assert!(Key::open(HKEY_LOCAL_MACHINE, r"SOFTWARE\gpuforge\no such key").is_none());
        let key = Key::open(HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft").unwrap();
        assert_eq!((key.text("no such value"), key.number("no such value")), (None, None));
        assert!(!key.subkeys().is_empty());
    }
}
