//! Pipeline cache on disk: written once, reused, ignored with a warning if it is corrupt or not ours.
#![cfg(unix)]
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
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use gpuforge_runtime::engine::{
    Engine as _,
    gpu::{GpuEngine, GpuOpener},
    init::DeviceInitStats,
};
use gpuforge_testkit::plans;

mod gpu_common;
use gpu_common::{assert_success, check, child, is_child, open, session};

fn options(dir: &Path) -> GpuOpener {
    GpuOpener { pipeline_cache_dir: Some(dir.to_owned()), ..GpuOpener::default() }
}

/// Opens, computes, closes; returns the initialisation stats.
fn work(dir: &Path) -> Option<DeviceInitStats> {
    let gpu: Arc<GpuEngine> = open(&options(dir))?;
    let (plan, expected) = plans::chain(1000, 4).unwrap();
    check(&session(&gpu), plan, &expected, "with a pipeline cache");
    gpu.init().cloned()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

/// A directory with the cache of this adapter; `None` without an adapter or if it supports no cache.
fn filled() -> Option<(tempfile::TempDir, PathBuf)> {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("pipelines");
    let first = work(&dir)?;
    assert!(first.warnings.is_empty() && first.cached_pipelines.is_none(), "{first:?}");
    match files(&dir).as_slice() {
        [] => {
            println!("skipped: this adapter has no pipeline cache");
            None
        }
        [file] => {
            let file = file.clone();
            Some((home, file))
        }
        more => panic!("{more:?}"),
    }
}

#[test]
fn pipelines_are_cached_and_reused() {
    let Some((home, file)) = filled() else { return };
    let dir = home.path().join("pipelines");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
    let bytes = fs::read(&file).unwrap();
    let second = work(&dir).unwrap();
    assert!(second.warnings.is_empty(), "{second:?}");
    assert!(second.cached_pipelines.is_some_and(|n| n > 0 && n < bytes.len() as u64), "{second:?}");
    let names: Vec<&str> = second.phases.iter().map(|p| p.name).collect();
    assert!(names.contains(&"pipeline cache, read") && names.contains(&"pipeline cache, load"), "{names:?}");
    assert_eq!(files(&dir), [file], "and no other file is left");
}

#[test]
fn untrusted_cache_is_ignored_with_a_warning() {
    let Some((home, file)) = filled() else { return };
    let dir = home.path().join("pipelines");
    let good = fs::read(&file).unwrap();
    let restore = || {
        fs::write(&file, &good).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let ignored = |what: &str| {
        let init = work(&dir).unwrap();
        assert_eq!((init.cached_pipelines, init.warnings.len()), (None, 1), "{what}: {init:?}");
        println!("{what}: {}", init.warnings[0]);
    };
    // Unit tests corrupt every byte; here one of each field goes through the driver.
    for at in [0, 9, 13, 17, 25, 33, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&file, bad).unwrap();
        ignored(&format!("byte {at} changed"));
        restore();
    }
    fs::write(&file, &good[..good.len() / 2]).unwrap();
    ignored("truncated");
    assert_eq!(work(&dir).unwrap().warnings, Vec::<String>::new(), "a corrupt file is replaced on close");
    restore();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    ignored("writable by all");
    restore();
    fs::rename(&file, home.path().join("moved")).unwrap();
    std::os::unix::fs::symlink(home.path().join("moved"), &file).unwrap();
    ignored("a symbolic link");
    fs::remove_file(&file).unwrap();
    restore();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    ignored("a directory open to others");
    assert_eq!(fs::read(&file).unwrap(), good, "and nothing is written into it");
    let nowhere = work(Path::new("/proc/no-such-place/pipelines")).unwrap();
    assert_eq!(nowhere.warnings.len(), 1, "{nowhere:?}");
}

const TOGETHER: &str = "concurrent_processes_and_threads_leave_a_complete_file";

#[test]
fn concurrent_processes_and_threads_leave_a_complete_file() {
    if is_child(TOGETHER) {
        let dir = PathBuf::from(std::env::var_os("GPUFORGE_TEST_DIR").unwrap());
        let init = work(&dir).unwrap();
        assert!(init.warnings.is_empty(), "{init:?}");
        return;
    }
    let Some((home, file)) = filled() else { return };
    let dir = home.path().join("pipelines");
    fs::remove_file(&file).unwrap();
    let said = dir.display().to_string();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_success(&child(TOGETHER, &[("GPUFORGE_TEST_DIR", &said)])));
            scope.spawn(|| assert!(work(&dir).unwrap().warnings.is_empty()));
        }
    });
    let after = work(&dir).unwrap();
    assert!(after.warnings.is_empty() && after.cached_pipelines.is_some(), "{after:?}");
    assert_eq!(files(&dir), [file]);
}
