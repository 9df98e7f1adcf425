//! Detection cache: damaged, expired, foreign and contended entries cost one detection and nothing else.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use gpuforge_detect::{
    cache::{CacheLookup, Detected, DetectionCache, MAX_ENTRIES, fingerprint},
    model::{Gpu, Vendor},
    probe::filesystem::RecordedFs,
};

const HOUR: Duration = Duration::from_secs(3600);

fn store() -> (tempfile::TempDir, DetectionCache) {
    let dir = tempfile::tempdir().unwrap();
    let store = DetectionCache::new(dir.path().join("cache"), HOUR);
    (dir, store)
}

fn detected(name: &str) -> Detected {
    let gpu = Gpu { name: Some(name.to_owned()), ..Gpu::of(Some(Vendor::Nvidia), "test") };
    Detected { gpus: vec![gpu], ..Detected::default() }
}

fn only_file(store: &DetectionCache) -> PathBuf {
    let files: Vec<_> = fs::read_dir(store.dir()).unwrap().flatten().map(|e| e.path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

fn is_hit(lookup: &CacheLookup) -> bool {
    matches!(lookup, CacheLookup::Hit(..))
}

#[test]
fn an_entry_is_a_hit_until_its_ttl_expires() {
    let (_dir, store) = store();
    let now = SystemTime::now();
    store.store("a", &detected("x"), now).unwrap();
    let CacheLookup::Hit(found, age) = store.lookup("a", now + Duration::from_secs(10)) else {
        panic!("missed")
    };
    assert_eq!(*found, detected("x"));
    assert!((9..=11).contains(&age.as_secs()));
    assert!(is_hit(&store.lookup("a", now + HOUR - Duration::from_secs(1))));
    assert!(!is_hit(&store.lookup("a", now + HOUR)));
    assert!(!is_hit(&store.lookup("b", now)), "another fingerprint");
}

#[test]
fn a_clock_set_back_invalidates_entries() {
    let (_dir, store) = store();
    let now = SystemTime::now();
    store.store("a", &detected("x"), now).unwrap();
    assert_eq!(store.lookup("a", now - Duration::from_secs(60)), CacheLookup::Miss(None));
}

#[test]
fn a_ttl_of_zero_never_hits() {
    let dir = tempfile::tempdir().unwrap();
    let store = DetectionCache::new(dir.path(), Duration::ZERO);
    let now = SystemTime::now();
    store.store("a", &detected("x"), now).unwrap();
    assert!(!is_hit(&store.lookup("a", now)));
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let (_dir, store) = store();
    let now = SystemTime::now();
    store.store("a", &detected("x"), now).unwrap();
    let path = only_file(&store);
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            let lookup = store.lookup("a", now);
            assert!(matches!(lookup, CacheLookup::Miss(Some(_))), "bit {bit} of byte {at}: {lookup:?}");
        }
    }
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let lookup = store.lookup("a", now);
        assert!(matches!(lookup, CacheLookup::Miss(Some(_))), "cut at {length}: {lookup:?}");
    }
    store.store("a", &detected("y"), now).unwrap();
    assert!(is_hit(&store.lookup("a", now)), "a broken file is replaced");
}

#[test]
fn another_version_is_ignored_with_a_warning_that_names_both() {
    let (_dir, store) = store();
    let now = SystemTime::now();
    store.store("a", &detected("x"), now).unwrap();
    let path = only_file(&store);
    let text = fs::read_to_string(&path).unwrap().replacen("gpuforge-cache 1 ", "gpuforge-cache 9 ", 1);
    fs::write(&path, text).unwrap();
    let CacheLookup::Miss(Some(warning)) = store.lookup("a", now) else { panic!("hit") };
    assert!(
        warning.message.contains("version 9") && warning.message.contains("writes 1"),
        "{}",
        warning.message
    );
}

#[test]
fn an_unwritable_directory_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    // A file stands where the directory should be; permissions alone would not stop a test that runs as root.
    let blocked = dir.path().join("file");
    fs::write(&blocked, "in the way").unwrap();
    let store = DetectionCache::new(blocked.join("cache"), HOUR);
    assert!(store.store("a", &detected("x"), SystemTime::now()).is_err());
    assert!(!is_hit(&store.lookup("a", SystemTime::now())));
    assert_eq!(fs::read_to_string(&blocked).unwrap(), "in the way");
}

#[test]
fn beyond_max_entries_the_least_recently_used_is_evicted() {
    let (_dir, store) = store();
    let start = SystemTime::now() - Duration::from_secs(1000);
    let at = |i: u64| start + Duration::from_secs(i);
    for i in 0..MAX_ENTRIES as u64 {
        store.store(&format!("print {i}"), &detected("x"), at(i)).unwrap();
        // File times are the order of use; give each its own second.
        assert!(is_hit(&store.lookup(&format!("print {i}"), at(i))));
    }
    assert!(is_hit(&store.lookup("print 0", at(500))), "used again");
    store.store("print 8", &detected("x"), at(600)).unwrap();
    let left: Vec<bool> =
        (0..=MAX_ENTRIES as u64).map(|i| is_hit(&store.lookup(&format!("print {i}"), at(700)))).collect();
    assert_eq!(left.iter().filter(|l| **l).count(), MAX_ENTRIES);
    assert!(left[0] && !left[1] && left[8], "{left:?}");
}

#[test]
fn concurrent_writers_leave_a_complete_file() {
    let (_dir, store) = store();
    let now = SystemTime::now();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..50 {
                    store.store("a", &detected(&format!("{writer}-{round}")), now).unwrap();
                    assert!(is_hit(&store.lookup("a", now)), "a reader saw half a file");
                }
            });
        }
    });
    only_file(&store);
}

#[test]
fn entries_are_listed_and_cleared() {
    let (_dir, store) = store();
    let now = SystemTime::now();
    store.store("a", &detected("x"), now).unwrap();
    let entries = store.entries("a", now);
    assert!(entries[0].current && entries[0].gpus == ["x"]);
    fs::write(only_file(&store), "rubbish").unwrap();
    assert!(store.entries("a", now)[0].problem.is_some());
    assert_eq!(store.clear().unwrap(), 1);
    assert_eq!(store.clear().unwrap(), 0);
}

#[test]
fn the_fingerprint_changes_with_boot_driver_and_devices() {
    let base = [
        ("/proc/sys/kernel/random/boot_id", "boot-1\n"),
        ("/proc/driver/nvidia/version", "NVRM version: 550.1\n"),
        ("/proc/bus/pci/devices", "0100\t10de2204\t10\t0\t0\tnvidia\n"),
        ("/sys/bus/pci/devices/0000:01:00.0/class", "0x030000"),
    ];
    let none = |_: &str| None;
    let print = |files: &RecordedFs| fingerprint(files, &none);
    let first = print(&RecordedFs::of(&base));
    assert_eq!(first, print(&RecordedFs::of(&base)));
    for (path, text) in [
        ("/proc/sys/kernel/random/boot_id", "boot-2\n"),
        ("/proc/driver/nvidia/version", "NVRM version: 560.9\n"),
        ("/proc/bus/pci/devices", "0100\t10de2204\t10\t0\t0\tvfio-pci\n"),
        ("/sys/bus/pci/devices/0000:02:00.0/class", "0x030000"),
    ] {
        let mut changed = RecordedFs::of(&base);
        changed.files.insert(path.to_owned(), text.to_owned());
        assert_ne!(first, print(&changed), "{path}");
    }
    let mut gone = RecordedFs::of(&base);
    gone.files.remove("/sys/bus/pci/devices/0000:01:00.0/class");
    assert_ne!(first, print(&gone), "a GPU that disappears");
    let icd = |name: &str| (name == "VK_ICD_FILENAMES").then(|| "other.json".to_owned());
    assert_ne!(first, fingerprint(&RecordedFs::of(&base), &icd));
}
