//! Checks `disk` and `shared-memory`: free disk space for packages, size of `/dev/shm` for data loaders.

use gpuforge_detect::probe::filesystem::FileSystem;

use super::{framework, gb, mib};
use crate::doctor::{Finding, Status, SystemView, ViewOs};

/// Enough for an environment with a GPU framework.
const ENOUGH: u64 = 5_000_000_000;
/// Below this, installing will fail.
const LITTLE: u64 = 2_000_000_000;

/// `disk`
pub(super) fn disk(view: &SystemView) -> Finding {
    let found = package_dirs(view).into_iter().map(|(what, path)| match view.space(&path) {
        None => Finding::new(Status::Unknown, format!("{what}: its free space is not known")),
        Some(space) => judge_free_space(what, space.free),
    });
    Finding::all(found, || {
        Finding::new(Status::Unknown, "neither a home directory nor a temporary one is known")
    })
}

fn judge_free_space(what: &str, free: u64) -> Finding {
    let status = match free {
        free if free > ENOUGH => Status::Healthy,
        free if free > LITTLE => Status::Warning,
        _ => Status::Error,
    };
    let found = Finding::new(status, format!("{what}: {} free", gb(free)));
    match (status, what) {
        (Status::Healthy, _) => found,
        (_, "temporary files") => {
            found.step("set TMPDIR (on Windows TEMP) to a directory with free space while installing")
        }
        _ => found
            .step("make room, e.g. in package caches: `uv cache prune`, `pip cache purge`, `conda clean -a`"),
    }
}

/// Directories where packages are cached, unpacked and installed; deduplicated.
fn package_dirs(view: &SystemView) -> Vec<(&'static str, String)> {
    let home = view.home();
    let under = |tail: &str| home.as_ref().map(|h| format!("{h}/{tail}"));
    let variable = |name: &str| view.env_path(name);
    let (temporary, cache) = match view.os() {
        ViewOs::Windows => (variable("TEMP"), variable("LOCALAPPDATA")),
        ViewOs::Macos => (variable("TMPDIR"), under("Library/Caches")),
        ViewOs::Linux => (variable("TMPDIR"), variable("XDG_CACHE_HOME").or_else(|| under(".cache"))),
    };
    let temporary = temporary.or_else(|| (view.os() != ViewOs::Windows).then(|| "/tmp".to_owned()));
    let rows = [
        ("home", home.clone()),
        ("temporary files", temporary),
        ("package cache", cache),
        ("uv's cache", variable("UV_CACHE_DIR")),
        ("pip's cache", variable("PIP_CACHE_DIR")),
        ("conda's packages", variable("CONDA_PKGS_DIRS")),
        ("this environment", variable("VIRTUAL_ENV").or_else(|| variable("CONDA_PREFIX"))),
    ];
    let mut places: Vec<(&'static str, String)> = Vec::new();
    for (what, path) in rows {
        if let Some(path) = path.filter(|p| places.iter().all(|(_, known)| known != p)) {
            places.push((what, path));
        }
    }
    places
}

/// Default `/dev/shm` of container engines; too small for data loader workers.
const TINY: u64 = 64 << 20;
/// Enough for image batches of several workers.
const ROOMY: u64 = 1 << 30;

/// `shared-memory`
pub(super) fn shared_memory(view: &SystemView) -> Finding {
    if !view.is_dir("/dev/shm") {
        return match view.exists("/proc/self/status") {
            true => Finding::new(Status::Warning, "there is no /dev/shm: data loaders with workers fail")
                .step("mount it: a tmpfs at /dev/shm"),
            false => Finding::skipped("not a Linux system"),
        };
    }
    let Some(space) = view.space("/dev/shm") else {
        return Finding::new(Status::Unknown, "the size of /dev/shm is not known");
    };
    let torch = framework::installed(view).iter().any(|f| f.name == "torch");
    let status = match space.total {
        total if total >= ROOMY => Status::Healthy,
        // torch DataLoader workers die of SIGBUS; other frameworks rarely use shared memory.
        total if total <= TINY && torch => Status::Error,
        _ => Status::Warning,
    };
    let found = Finding::new(status, format!("/dev/shm: {}", mib(space.total)));
    match (status, view.host_facts().platform.container.as_deref()) {
        (Status::Healthy, _) => found,
        (_, Some("kubernetes")) => found.step("mount an emptyDir with medium: Memory at /dev/shm"),
        (_, Some(_)) => found.step("start the container with --shm-size=8g or --ipc=host"),
        (_, None) => found.step("sudo mount -o remount,size=50% /dev/shm"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_thresholds() {
        let status = |free| judge_free_space("home", free).status;
        assert_eq!(status(5_000_000_001), Status::Healthy);
        assert_eq!(status(5_000_000_000), Status::Warning);
        assert_eq!(status(2_000_000_001), Status::Warning);
        assert_eq!(status(2_000_000_000), Status::Error);
        assert_eq!(status(0), Status::Error);
    }
}
