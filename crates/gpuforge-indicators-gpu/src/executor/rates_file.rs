//! Rates file: measured device rates in the data directory, per device and driver, written atomically (temporary file and
//! rename).

use std::{fs, io::Write as _, path::Path, sync::Mutex};

use serde::{Deserialize, Serialize};

use super::DeviceKey;
use crate::cost_model::DeviceRates;

/// Name of the file in the data directory.
pub(super) const NAME: &str = "indicator-rates.json";
const VERSION: u32 = 1;
/// Larger files are ignored.
const MAX_BYTES: u64 = 64 << 10;
/// Entries that are kept, most recent first.
const MAX_DEVICES: usize = 16;

#[derive(Serialize, Deserialize)]
struct RatesFile {
    version: u32,
    gpuforge: String,
    devices: Vec<Entry>,
}

/// A device with its driver, and its rates.
#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    name: String,
    driver: Option<String>,
    rates: DeviceRates,
}

fn read(path: &Path) -> Vec<Entry> {
    let small = fs::metadata(path).is_ok_and(|m| m.len() <= MAX_BYTES);
    let text = small.then(|| fs::read(path).ok()).flatten().unwrap_or_default();
    match serde_json::from_slice::<RatesFile>(&text) {
        Ok(file) if file.version == VERSION && file.gpuforge == env!("CARGO_PKG_VERSION") => file.devices,
        _ => Vec::new(),
    }
}

/// Stored rates of a device; implausible ones are ignored.
pub(super) fn load(path: &Path, key: &DeviceKey) -> Option<DeviceRates> {
    let entry = read(path).into_iter().find(|k| k.name == key.name && k.driver == key.driver)?;
    Some(entry.rates).filter(DeviceRates::is_sound)
}

/// One writer at a time in this process; other processes are safe because of the atomic rename.
static WRITE_LOCK: Mutex<()> = Mutex::new(());

/// Stores rates for the next process. Errors are ignored: that process calibrates again.
pub(super) fn save(path: &Path, key: &DeviceKey, rates: &DeviceRates) {
    let _guard = WRITE_LOCK.lock();
    let mut devices = read(path);
    devices.retain(|k| k.name != key.name || k.driver != key.driver);
    devices.insert(0, Entry { name: key.name.clone(), driver: key.driver.clone(), rates: *rates });
    devices.truncate(MAX_DEVICES);
    let file = RatesFile { version: VERSION, gpuforge: env!("CARGO_PKG_VERSION").to_owned(), devices };
    let write = || {
        let directory = path.parent()?;
        fs::create_dir_all(directory).ok()?;
        let mut temporary = tempfile::NamedTempFile::new_in(directory).ok()?;
        temporary.write_all(&serde_json::to_vec_pretty(&file).ok()?).ok()?;
        temporary.persist(path).ok()
    };
    let _ = write();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;
    use crate::cost_model::RateProbes;

    #[test]
    fn rates_are_stored_per_device_and_driver_and_corrupt_files_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new").join(NAME);
        let key = |driver: &str| DeviceKey { name: "Card".to_owned(), driver: Some(driver.to_owned()) };
        let mut rates = RateProbes::default().rates(0.25);
        save(&path, &key("1"), &rates);
        rates.up = 1e-9;
        save(&path, &key("2"), &rates);
        assert_eq!(load(&path, &key("1")).unwrap().up, 0.0);
        assert_eq!(load(&path, &key("2")), Some(rates));
        assert_eq!(load(&path, &key("3")), None);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("0.25", "-0.25")).unwrap();
        assert_eq!(load(&path, &key("1")), None);
        fs::write(&path, text.get(..text.len() / 2).unwrap()).unwrap();
        assert_eq!(load(&path, &key("1")), None);
    }
}
