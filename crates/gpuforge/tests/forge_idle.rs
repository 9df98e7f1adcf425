//! An unused `Forge` loads nothing. Alone in its process: other tests would load drivers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use gpuforge::{
    Forge,
    runtime::lazy::LoadState,
    settings::{Settings, UserPaths},
};

#[test]
fn new_forge_loads_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let paths = UserPaths { config_file: path("c.toml"), cache_dir: path("cache"), data_dir: path("data") };
    let forge = Forge::with(&Settings::load_lenient(&paths, &|_| None, &[]), &paths, &|_| None);
    let status = forge.status();
    assert!(status.components.iter().all(|c| c.state == LoadState::Idle), "{:?}", status.components);
    assert!(status.device.is_none() && status.choice.is_none());
    assert_eq!(forge.metrics().live_bytes, None);
    if let Ok(maps) = std::fs::read_to_string("/proc/self/maps") {
        assert!(!maps.contains("libvulkan") && !maps.contains("libcuda"));
    }
    drop(forge);
    assert!(!paths.data_dir.exists() && !paths.cache_dir.exists(), "nothing used, nothing remembered");
}
