//! Detection cache keyed by a machine fingerprint (cache fingerprint), with TTL, checksum and LRU eviction.
//!
//! The fingerprint covers everything that decides what a probe would find: boot id, kernel, PCI list with bound
//! drivers, driver versions, Vulkan manifests, and this program's version. One file per fingerprint, written to a
//! temporary name and renamed (atomic replace), with a version and a checksum. A file that is damaged or of another
//! version is a cache miss: a broken cache costs one detection and nothing else. Concurrent writers: the last one wins
//! with a complete file.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use crate::{
    model::{Cpu, Gpu, Host, Warning},
    overrides::Env,
    probe::filesystem::FileSystem,
};

/// Version of the file format.
const VERSION: u32 = 1;
/// Max entries (fingerprints) on disk; beyond it the least recently used is evicted.
pub const MAX_ENTRIES: usize = 8;
const PREFIX: &str = "detect-";

/// Merged detection result, before process limits, scores and environment overrides are applied. This is what is cached.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Detected {
    /// Merged devices.
    pub gpus: Vec<Gpu>,
    /// The CPU, without the limits of this process.
    pub cpu: Cpu,
    /// Operating system, container, WSL.
    pub host: Host,
    /// Driver version for the whole machine.
    pub driver_version: Option<String>,
    /// CUDA version the driver supports.
    pub cuda_version: Option<String>,
    /// Flavour of the NVIDIA kernel module.
    pub kernel_module: Option<String>,
    /// Warnings printed by the tools.
    pub warnings: Vec<Warning>,
}

/// On-disk cache: a directory of entries and their TTL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectionCache {
    dir: PathBuf,
    ttl: Duration,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    fingerprint: String,
    /// Milliseconds since 1970: whole numbers survive JSON exactly.
    created_ms: u64,
    detected: Detected,
}

/// Result of a cache lookup.
#[derive(Debug, Clone, PartialEq)]
pub enum CacheLookup {
    /// A valid entry within its TTL, and its age.
    Hit(Box<Detected>, Duration),
    /// No valid entry; the warning names a file that exists but is damaged.
    Miss(Option<Warning>),
}

/// One entry as `gpuforge cache show` lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheEntryInfo {
    /// File.
    pub path: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// Seconds since it was written; `None` when it does not parse or lies in the future.
    pub age_s: Option<f64>,
    /// Names of its GPUs.
    pub gpus: Vec<String>,
    /// It matches the current fingerprint and is within its TTL.
    pub current: bool,
    /// Why it cannot be used.
    pub problem: Option<String>,
}

impl DetectionCache {
    /// A cache in `dir` with this TTL; a zero TTL never hits.
    pub fn new(dir: impl Into<PathBuf>, ttl: Duration) -> Self {
        DetectionCache { dir: dir.into(), ttl }
    }

    /// The directory of the entries.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The entry of this fingerprint, if it is valid and within its TTL at `now`.
    pub fn lookup(&self, fingerprint: &str, now: SystemTime) -> CacheLookup {
        let path = self.path(fingerprint);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return CacheLookup::Miss(None),
            Err(e) => return CacheLookup::Miss(Some(warning(&path, &format!("cannot be read: {e}")))),
        };
        let entry = match decode(&bytes) {
            Ok(entry) => entry,
            Err(why) => {
                return CacheLookup::Miss(Some(warning(&path, &format!("{why}; ignored and written anew"))));
            }
        };
        if entry.fingerprint != fingerprint {
            return CacheLookup::Miss(None);
        }
        match age(entry.created_ms, now) {
            Some(age) if age < self.ttl => {
                // The mtime is the LRU stamp; failing to update it is harmless.
                let _ = fs::File::options().append(true).open(&path).and_then(|f| f.set_modified(now));
                CacheLookup::Hit(Box::new(entry.detected), age)
            }
            // Expired, or created in the future because the clock was set back.
            _ => CacheLookup::Miss(None),
        }
    }

    /// Writes an entry (atomic replace) and evicts the least recently used beyond [`MAX_ENTRIES`].
    pub fn store(&self, fingerprint: &str, detected: &Detected, now: SystemTime) -> io::Result<()> {
        use io::Write as _;
        let entry = Entry {
            fingerprint: fingerprint.to_owned(),
            created_ms: unix_ms(now),
            detected: detected.clone(),
        };
        fs::create_dir_all(&self.dir)?;
        let mut file = tempfile::Builder::new().prefix(".detect-").tempfile_in(&self.dir)?;
        file.write_all(&encode(&entry)?)?;
        let path = self.path(fingerprint);
        match replace(file, &path) {
            // Another writer's entry that is as new as ours is in place: the last one won, only it was not this one.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied && is_as_new(&path, &entry) => {}
            other => other?,
        }
        self.prune();
        Ok(())
    }

    /// Every entry; `fingerprint` is that of this machine.
    pub fn entries(&self, fingerprint: &str, now: SystemTime) -> Vec<CacheEntryInfo> {
        let own = self.path(fingerprint);
        let info = |path: PathBuf| {
            let bytes = fs::read(&path).unwrap_or_default();
            let decoded = decode(&bytes);
            let (age, gpus, problem) = match decoded {
                Ok(entry) => {
                    let names = entry.detected.gpus.iter().map(|g| g.display_name().to_owned()).collect();
                    (age(entry.created_ms, now), names, None)
                }
                Err(why) => (None, Vec::new(), Some(why)),
            };
            let current = path == own && problem.is_none() && age.is_some_and(|a| a < self.ttl);
            CacheEntryInfo {
                bytes: bytes.len() as u64,
                age_s: age.map(|a| a.as_secs_f64()),
                gpus,
                current,
                problem,
                path,
            }
        };
        self.files().into_iter().map(|(path, _)| info(path)).collect()
    }

    /// Removes every entry; returns how many.
    pub fn clear(&self) -> io::Result<usize> {
        let files = self.files();
        for (path, _) in &files {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Ok(files.len())
    }

    fn path(&self, fingerprint: &str) -> PathBuf {
        self.dir.join(format!("{PREFIX}{:016x}.json", fnv1a(fingerprint.as_bytes())))
    }

    /// Entry files, most recently used first.
    fn files(&self) -> Vec<(PathBuf, SystemTime)> {
        let Ok(dir) = fs::read_dir(&self.dir) else { return Vec::new() };
        let is_entry = |name: &str| name.starts_with(PREFIX) && name.ends_with(".json");
        let mut files: Vec<(PathBuf, SystemTime)> = dir
            .flatten()
            .filter(|e| e.file_name().to_str().is_some_and(is_entry))
            .map(|e| (e.path(), e.metadata().and_then(|m| m.modified()).unwrap_or(UNIX_EPOCH)))
            .collect();
        files.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        files
    }

    fn prune(&self) {
        for (path, _) in self.files().into_iter().skip(MAX_ENTRIES) {
            let _ = fs::remove_file(path);
        }
    }
}

/// Does the file hold a valid entry of this fingerprint that is not older?
fn is_as_new(path: &Path, than: &Entry) -> bool {
    let there = fs::read(path).ok().and_then(|bytes| decode(&bytes).ok());
    there.is_some_and(|e| e.fingerprint == than.fingerprint && e.created_ms >= than.created_ms)
}

/// Renames a complete file into place. Windows refuses while another process replaces or opens the same file, so the rename is
/// tried again for a short time; elsewhere the first try counts.
fn replace(mut file: tempfile::NamedTempFile, path: &Path) -> io::Result<()> {
    for wait_ms in [1, 2, 4, 8, 16, 32, 64] {
        match file.persist(path) {
            Ok(_) => return Ok(()),
            Err(e) if cfg!(windows) && e.error.kind() == io::ErrorKind::PermissionDenied => file = e.file,
            Err(e) => return Err(e.error),
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
    }
    file.persist(path).map(|_| ()).map_err(|e| e.error)
}

fn warning(path: &Path, message: &str) -> Warning {
    Warning { source: "cache".to_owned(), message: format!("{} {message}", path.display()), hint: None }
}

fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|d| u64::try_from(d.as_millis()).ok()).unwrap_or(0)
}

/// Age of an entry; `None` when it was created in the future.
fn age(created_ms: u64, now: SystemTime) -> Option<Duration> {
    unix_ms(now).checked_sub(created_ms).map(Duration::from_millis)
}

/// File format: `gpuforge-cache VERSION CHECKSUM LENGTH\n`, then the entry as JSON.
fn encode(entry: &Entry) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(entry)?;
    let mut bytes = format!("gpuforge-cache {VERSION} {:016x} {}\n", fnv1a(&body), body.len()).into_bytes();
    bytes.extend_from_slice(&body);
    Ok(bytes)
}

fn decode(bytes: &[u8]) -> Result<Entry, String> {
    let split = bytes.iter().position(|b| *b == b'\n').ok_or("is cut short")?;
    let (head, body) = bytes.split_at_checked(split).ok_or("is cut short")?;
    let body = body.get(1..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| "is not a cache file")?;
    let words: Vec<&str> = head.split(' ').collect();
    let ["gpuforge-cache", version, checksum, length] = words.as_slice() else {
        return Err("is not a cache file".to_owned());
    };
    if *version != VERSION.to_string() {
        return Err(format!("has version {version}, this program writes {VERSION}"));
    }
    if *length != body.len().to_string() || *checksum != format!("{:016x}", fnv1a(body)) {
        return Err("is damaged (checksum)".to_owned());
    }
    serde_json::from_slice(body).map_err(|e| format!("does not parse: {e}"))
}

/// FNV-1a checksum: every step is a bijection of the state, so any single changed byte is detected. It guards against
/// corruption, not tampering: whoever can write this directory can write anything else of the user's.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Machine fingerprint (cache key): everything that decides what probes would find. Reads a dozen small files and wakes
/// no device.
pub fn fingerprint(files: &dyn FileSystem, env: Env<'_>) -> String {
    const MODULES: [&str; 6] = ["nvidia", "amdgpu", "i915", "xe", "nouveau", "radeon"];
    const DRIVER_DIRS: [&str; 4] =
        ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/lib/wsl/lib"];
    const DEVICE_NODES: [&str; 4] = ["/dev/kfd", "/dev/nvidiactl", "/dev/dri", "/dev/dxg"];
    const VARIABLES: [&str; 9] = [
        "VK_ICD_FILENAMES",
        "VK_DRIVER_FILES",
        "VK_ADD_DRIVER_FILES",
        "VK_LOADER_DRIVERS_SELECT",
        "VK_LOADER_DRIVERS_DISABLE",
        "LD_LIBRARY_PATH",
        "WGPU_BACKEND",
        "KUBERNETES_SERVICE_HOST",
        crate::probe::isolate::FAULT_VARIABLE,
    ];
    let mut lines = vec![format!("gpuforge {} schema {}", env!("CARGO_PKG_VERSION"), crate::model::SCHEMA)];
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("{key}={}", value.trim()));
        }
    };
    for path in
        ["/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease", "/proc/driver/nvidia/version"]
    {
        add(path, files.read(path));
    }
    add("platform", crate::probe::platform_stamp());
    add("pci", Some(files.list("/sys/bus/pci/devices").join(" ")));
    // One file lists ids and bound drivers of all devices; per-device sysfs reads would cost a syscall each.
    add("ids", files.read("/proc/bus/pci/devices").map(|text| pci_ids_and_drivers(&text)));
    for module in MODULES {
        add(module, files.read(&format!("/sys/module/{module}/srcversion")));
    }
    for dir in DRIVER_DIRS {
        add(dir, files.mtime(dir).map(|s| s.to_string()));
    }
    for node in DEVICE_NODES {
        add(node, files.exists(node).then(String::new));
    }
    for variable in VARIABLES {
        add(variable, env(variable));
    }
    lines.join("\n")
}

/// First two columns (address, ids) and the last (bound driver) of `/proc/bus/pci/devices`; the rest are resources.
fn pci_ids_and_drivers(text: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split('\t');
        let (address, ids) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        format!("{address}:{ids}:{}", words.next_back().unwrap_or(""))
    };
    text.lines().map(line).collect::<Vec<_>>().join(" ")
}
