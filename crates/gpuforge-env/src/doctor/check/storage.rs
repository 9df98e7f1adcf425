//! Is there room? On disk for packages, and in shared memory for data loaders.

use gpuforge_detect::probe::filesystem::FileSystem;

use super::{framework, gb, mib};
use crate::doctor::{Finding, Status, View};

/// More than this is enough for an environment with a GPU framework.
const ENOUGH: u64 = 5_000_000_000;
/// More than this is enough to go on for now.
const LITTLE: u64 = 2_000_000_000;

/// `disk`
pub(super) fn disk(view: &View) -> Finding {
    let found = places(view).into_iter().map(|(what, path)| match view.space(&path) {
        None => Finding::new(Status::Unknown, format!("{what}: its free space is not known")),
        Some(space) => room(what, space.free),
    });
    Finding::all(found, || {
        Finding::new(Status::Unknown, "neither a home folder nor a temporary one is known")
    })
}

fn room(what: &str, free: u64) -> Finding {
    let status = match free {
        free if free > ENOUGH => Status::Healthy,
        free if free > LITTLE => Status::Warning,
        _ => Status::Error,
    };
    let found = Finding::new(status, format!("{what}: {} free", gb(free)));
    match (status, what) {
        (Status::Healthy, _) => found,
        (_, "temporary files") => found.step("set TMPDIR to a folder with room while installing"),
        _ => found
            .step("make room, e.g. in package caches: `uv cache prune`, `pip cache purge`, `conda clean -a`"),
    }
}

/// Where packages are kept, unpacked and installed; each path once.
fn places(view: &View) -> Vec<(&'static str, String)> {
    let home = view.home().map(str::to_owned);
    let under = |tail: &str| home.as_ref().map(|h| format!("{h}/{tail}"));
    let variable = |name: &str| view.set(name).filter(|v| v.starts_with('/')).map(str::to_owned);
    let rows = [
        ("home", home.clone()),
        ("temporary files", Some(variable("TMPDIR").unwrap_or_else(|| "/tmp".to_owned()))),
        ("package cache", variable("XDG_CACHE_HOME").or_else(|| under(".cache"))),
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

/// What container engines give by default, and what is too little for workers that pass batches.
const TINY: u64 = 64 << 20;
/// A batch of images of several workers fits.
const ROOMY: u64 = 1 << 30;

/// `shared-memory`
pub(super) fn shm(view: &View) -> Finding {
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
        // Workers of torch's data loader die of a bus error; others seldom use it.
        total if total <= TINY && torch => Status::Error,
        _ => Status::Warning,
    };
    let found = Finding::new(status, format!("/dev/shm: {}", mib(space.total)));
    match (status, view.machine().host.container.as_deref()) {
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
    fn room_is_judged_at_its_limits() {
        let status = |free| room("home", free).status;
        assert_eq!(status(5_000_000_001), Status::Healthy);
        assert_eq!(status(5_000_000_000), Status::Warning);
        assert_eq!(status(2_000_000_001), Status::Warning);
        assert_eq!(status(2_000_000_000), Status::Error);
        assert_eq!(status(0), Status::Error);
    }
}
