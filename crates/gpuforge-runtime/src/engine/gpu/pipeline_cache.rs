//! On-disk pipeline cache: compiled pipelines of earlier runs, keyed by driver and device, checksummed and owner-checked.
//!
//! The driver loads them through an `unsafe` call that trusts them. So the directory must be owned by us and closed to
//! others (0700), the file regular, owned by us and not writable by others, and its header must name this format, this
//! driver and this device and carry the right checksum. Anything else is ignored with a warning.

use std::path::{Path, PathBuf};

/// The largest file that is read or written.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// Maximum number of files read per directory; there is one per driver and device.
const MAX_FILES: usize = 16;
const MAGIC: [u8; 8] = *b"gf-pipes";
const VERSION: u32 = 1;
/// Magic, version, length of the key, length of the data, checksum.
const HEADER: usize = 8 + 4 + 4 + 8 + 8;

/// Why a file or directory was ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CacheError {
    #[error("pipeline cache {path}: {why}; it is not used")]
    NotOurs { path: String, why: &'static str },
    #[error("pipeline cache {path}: {why}; it is not used and will be replaced")]
    Damaged { path: String, why: &'static str },
    #[error("pipeline cache {path}: {error}")]
    Io { path: String, error: String },
}

/// Cache key: what the compiled code depends on. `None` if wgpu has no key for this backend.
pub(super) fn key(info: &wgpu::AdapterInfo) -> Option<String> {
    let wgpu = wgpu::util::pipeline_cache_key(info)?;
    let wgpu::AdapterInfo { name, driver, driver_info, vendor, device, .. } = info;
    Some(format!(
        "{wgpu}\n{name}\n{driver}\n{driver_info}\n{vendor:04x}:{device:04x}\n{}",
        env!("CARGO_PKG_VERSION")
    ))
}

/// FNV-1a over 8-byte words and the length: every step is a bijection, so every single-byte change is detected.
fn checksum(regions: [&[u8]; 2]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    let mut step = |word: u64| {
        sum = (sum ^ word).wrapping_mul(PRIME);
        sum ^= sum >> 32;
    };
    for region in regions {
        let (words, rest) = region.as_chunks::<8>();
        words.iter().for_each(|w| step(u64::from_le_bytes(*w)));
        rest.iter().for_each(|b| step(u64::from(*b)));
        step(region.len() as u64);
    }
    sum
}

/// File name: one per key.
fn file_name(key: &str) -> String {
    format!("pipelines-{:016x}.bin", checksum([key.as_bytes(), &[]]))
}

/// Serialises a cache file; pure.
fn encode(key: &str, data: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(HEADER + key.len() + data.len());
    file.extend(MAGIC);
    file.extend(VERSION.to_le_bytes());
    file.extend(u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
    file.extend((data.len() as u64).to_le_bytes());
    file.extend(checksum([key.as_bytes(), data]).to_le_bytes());
    file.extend(key.as_bytes());
    file.extend(data);
    file
}

/// The payload of a cache file, or what is wrong with it; pure.
fn decode<'a>(key: &str, file: &'a [u8]) -> Result<&'a [u8], &'static str> {
    fn take<'a>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], &'static str> {
        let (head, tail) = bytes.split_at_checked(n).ok_or("it is truncated")?;
        *bytes = tail;
        Ok(head)
    }
    let mut rest = file;
    if take(&mut rest, 8)? != MAGIC {
        return Err("it is not a pipeline cache");
    }
    if take(&mut rest, 4)? != VERSION.to_le_bytes() {
        return Err("it has another version");
    }
    let key_len = take(&mut rest, 4)?;
    let data_len = take(&mut rest, 8)?;
    let sum = take(&mut rest, 8)?;
    if key_len != u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes()
        || take(&mut rest, key.len())? != key.as_bytes()
    {
        return Err("it is of another driver or device");
    }
    if data_len != (rest.len() as u64).to_le_bytes() {
        return Err("its length is wrong");
    }
    if sum != checksum([key.as_bytes(), rest]).to_le_bytes() {
        return Err("its checksum is wrong");
    }
    Ok(rest)
}

/// A file name, and its bytes if it passed the checks.
type Candidate = (String, Result<Vec<u8>, CacheError>);

/// All candidate files of a directory, read before the device is known, while the driver is loaded.
#[derive(Debug, Default)]
pub(super) struct CacheFiles {
    files: Vec<Candidate>,
    warning: Option<CacheError>,
}

impl CacheFiles {
    /// The payload for one driver and device; `None` when there is none yet.
    pub(super) fn take(self, key: &str) -> Result<Option<Vec<u8>>, CacheError> {
        if let Some(warning) = self.warning {
            return Err(warning);
        }
        let name = file_name(key);
        let Some((_, file)) = self.files.into_iter().find(|(n, _)| *n == name) else { return Ok(None) };
        let file = file?;
        match decode(key, &file) {
            Ok(data) => Ok(Some(data.to_vec())),
            Err(why) => Err(CacheError::Damaged { path: name, why }),
        }
    }
}

/// The pipeline cache of one device.
pub(super) struct CacheStore {
    dir: PathBuf,
    key: String,
    cache: wgpu::PipelineCache,
    /// Checksum of the payload on disk.
    stored: u64,
    /// Pipelines were compiled since the last save.
    pub(super) dirty: bool,
}

impl CacheStore {
    /// Passes the loaded payload to the driver.
    #[allow(unsafe_code, reason = "the one call that passes compiled code to the driver")]
    pub(super) fn open(
        device: &wgpu::Device,
        dir: PathBuf,
        key: String,
        found: Result<Option<Vec<u8>>, CacheError>,
    ) -> (Self, Option<u64>, Option<String>) {
        let (data, warning) = match found {
            Ok(data) => (data, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let descriptor =
            wgpu::PipelineCacheDescriptor { label: Some("gpuforge"), data: data.as_deref(), fallback: true };
        // SAFETY: `data` came from `get_data` of this wgpu on this adapter: it was in a directory that only our user can
        // enter, in a file that only our user can write, under a key of driver and device, and its checksum is right.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        let stored = checksum([data.as_deref().unwrap_or_default(), &[]]);
        let loaded = data.map(|d| d.len() as u64);
        (CacheStore { dir, key, cache, stored, dirty: false }, loaded, warning)
    }

    /// The wgpu cache that pipelines are compiled with.
    pub(super) fn cache(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// Saves new pipelines. Best effort: after a failure the next start only compiles again.
    pub(super) fn save(&mut self) {
        if !std::mem::take(&mut self.dirty) {
            return;
        }
        let Some(data) = self.cache.get_data() else { return };
        let sum = checksum([&data, &[]]);
        if sum != self.stored && write(&self.dir, &self.key, &data).is_ok() {
            self.stored = sum;
        }
    }
}

/// Reads every candidate file; creates the directory if necessary.
pub(super) fn read(dir: &Path) -> CacheFiles {
    match files::read_all(dir) {
        Ok(files) => CacheFiles { files, warning: None },
        Err(error) => CacheFiles { files: Vec::new(), warning: Some(error) },
    }
}

/// Replaces the file atomically (temporary file and rename).
fn write(dir: &Path, key: &str, data: &[u8]) -> Result<(), CacheError> {
    let file = encode(key, data);
    if file.len() as u64 > MAX_FILE_BYTES {
        return Err(CacheError::NotOurs { path: file_name(key), why: "it grew too large" });
    }
    files::replace(dir, &file_name(key), &file)
}

#[cfg_attr(unix, path = "pipeline_cache/unix.rs")]
#[cfg_attr(not(unix), path = "pipeline_cache/other.rs")]
mod files;

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails loudly")]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use super::*;

    const KEY: &str = "vulkan_4711\nExample 9000\nexample\n1.2.3\n10de:2684";
    const DATA: &[u8] = b"twenty-five bytes of code";

    fn private_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    fn stored(dir: &Path) -> PathBuf {
        write(dir, KEY, DATA).unwrap();
        dir.join(file_name(KEY))
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn cache_is_found_by_its_key_only() {
        let dir = private_dir();
        let nested = dir.path().join("deep/er");
        assert_eq!(read(&nested).take(KEY), Ok(None), "a missing directory is created");
        let path = stored(&nested);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(&nested).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(read(&nested).take(KEY).unwrap().unwrap(), DATA);
        assert_eq!(read(&nested).take("another driver"), Ok(None));
        // The right name with another key inside: a collision of names, or a renamed file.
        fs::rename(&path, nested.join(file_name("another driver"))).unwrap();
        let error = read(&nested).take("another driver").unwrap_err();
        assert!(error.to_string().contains("another driver or device"), "{error}");
        assert_eq!(fs::read_dir(&nested).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn every_corrupt_byte_and_every_truncation_is_detected() {
        let whole = encode(KEY, DATA);
        assert_eq!(decode(KEY, &whole), Ok(DATA));
        for at in 0..whole.len() {
            for flip in [1u8, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] ^= flip;
                assert!(decode(KEY, &changed).is_err(), "byte {at} ^ {flip:#x}");
            }
            assert!(decode(KEY, &whole[..at]).is_err(), "cut at {at}");
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert!(decode(KEY, &longer).is_err());
        let long: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
        let whole = encode(KEY, &long);
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] = changed[at].wrapping_add(13);
            assert!(decode(KEY, &changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn file_writable_by_others_is_ignored() {
        let check = |spoil: &dyn Fn(&Path, &Path), want: &str| {
            let dir = private_dir();
            let path = stored(dir.path());
            spoil(dir.path(), &path);
            let error = read(dir.path()).take(KEY).unwrap_err().to_string();
            assert!(error.contains(want), "{error:?} does not say {want:?}");
            mode(dir.path(), 0o700);
        };
        check(&|_, path| mode(path, 0o620), "other users may write");
        check(&|_, path| mode(path, 0o602), "other users may write");
        check(&|dir, _| mode(dir, 0o701), "open to other users");
        check(&|dir, _| mode(dir, 0o750), "open to other users");
        check(
            &|dir, path| {
                fs::rename(path, dir.join("elsewhere")).unwrap();
                symlink(dir.join("elsewhere"), path).unwrap();
            },
            "link",
        );
        check(
            &|_, path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
            "not a regular file",
        );
        check(&|_, path| fs::write(path, "").unwrap(), "truncated");
        check(
            &|_, path| {
                fs::File::options().write(true).open(path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap()
            },
            "too large",
        );
    }

    #[test]
    fn directory_that_is_a_symlink_or_a_file_is_ignored() {
        let dir = private_dir();
        stored(dir.path());
        let outside = tempfile::tempdir().unwrap();
        let link = outside.path().join("link");
        symlink(dir.path(), &link).unwrap();
        assert!(read(&link).take(KEY).is_err());
        assert!(write(&link, KEY, DATA).is_err());
        let file = outside.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(read(&file).take(KEY).is_err());
    }

    #[test]
    fn fifo_does_not_block_and_stale_temporary_files_are_removed() {
        let dir = private_dir();
        let pipe = dir.path().join(file_name(KEY));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let error = read(dir.path()).take(KEY).unwrap_err();
        assert!(error.to_string().contains("regular"), "{error}");
        let (old, new) = (dir.path().join("1-0.tmp"), dir.path().join("1-1.tmp"));
        let past = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
        fs::File::create(&old).unwrap().set_modified(past).unwrap();
        fs::File::create(&new).unwrap();
        stored(dir.path());
        assert!(!old.exists() && new.exists());
        assert_eq!(read(dir.path()).take(KEY).unwrap().unwrap(), DATA, "the FIFO was replaced");
    }

    #[test]
    fn concurrent_writers_leave_one_complete_file() {
        let dir = private_dir();
        let versions: Vec<Vec<u8>> = (0..8u8).map(|i| vec![i; 50_000 + usize::from(i)]).collect();
        std::thread::scope(|scope| {
            for version in &versions {
                scope.spawn(|| (0..20).for_each(|_| write(dir.path(), KEY, version).unwrap()));
            }
            for _ in 0..200 {
                let found = read(dir.path()).take(KEY).unwrap();
                assert!(found.is_none_or(|data| versions.contains(&data)));
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
