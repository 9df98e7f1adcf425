//! Check `wsl`: inside WSL `/dev/dxg`, the libraries of the Windows driver, and Linux drivers that shadow them; on Windows
//! the distributions beside it.

use gpuforge_detect::{probe::filesystem::FileSystem, snapshot::windows::WslDistribution};

use crate::doctor::{Finding, Status, SystemView, host_facts};

/// Mount point of the Windows driver libraries.
const WSL_LIB_DIR: &str = "/usr/lib/wsl/lib";

/// `wsl`
pub(super) fn wsl(view: &SystemView) -> Finding {
    if let Some(windows) = view.windows() {
        return beside(windows.wsl.as_deref().unwrap_or_default());
    }
    match view.host_facts().platform.wsl {
        None => return Finding::skipped("not WSL"),
        Some(1) => {
            return Finding::new(Status::Error, "WSL 1 has no GPU")
                .step("in Windows: wsl --set-version <distribution> 2");
        }
        Some(_) => {}
    }
    if !view.exists("/dev/dxg") {
        return Finding::new(Status::Error, "WSL 2, and there is no /dev/dxg")
            .step("in Windows: wsl --update, then wsl --shutdown; and a GPU driver that supports WSL");
    }
    let libraries = view.list(WSL_LIB_DIR);
    if libraries.is_empty() {
        return Finding::new(Status::Error, format!("WSL 2 with /dev/dxg, and {WSL_LIB_DIR} is empty"))
            .step("in Windows: install the GPU's driver, then wsl --shutdown");
    }
    let linux = linux_driver(view);
    if let Some(file) = linux {
        return Finding::new(
            Status::Error,
            format!("a Linux driver inside WSL shadows that of Windows: {file}"),
        )
        .step("remove the Linux NVIDIA packages inside WSL (packages libnvidia-compute-*, nvidia-driver-*)");
    }
    let cuda = libraries.iter().any(|l| l.starts_with("libcuda.so"));
    let what = if cuda { "with CUDA" } else { "without CUDA (no NVIDIA GPU in Windows)" };
    Finding::healthy(format!("WSL 2 with /dev/dxg and the libraries of Windows, {what}"))
}

/// Seen from Windows: the distributions beside it.
fn beside(distributions: &[WslDistribution]) -> Finding {
    let found = distributions.iter().map(|one| match one.version {
        Some(1) => Finding::new(Status::Warning, format!("{}: WSL 1, which has no GPU", one.name))
            .step(format!("wsl --set-version {} 2", one.name)),
        Some(2) => Finding::healthy(format!(
            "{}: WSL 2; it uses the driver of Windows, install none inside",
            one.name
        )),
        _ => Finding::new(Status::Unknown, format!("{}: its WSL version is not known", one.name)),
    });
    Finding::all(found, || Finding::skipped("no WSL distribution is installed"))
}

/// A user-space driver outside the WSL directory; symlinks into it are fine.
fn linux_driver(view: &SystemView) -> Option<String> {
    host_facts::library_dirs(view).into_iter().filter(|f| !f.contains("/wsl/")).find_map(|dir| {
        ["libcuda.so.1", "libnvidia-ml.so.1"].iter().find_map(|name| {
            let path = format!("{dir}/{name}");
            let foreign =
                view.exists(&path) && !view.symlink_chain(&path).iter().any(|p| p.starts_with(WSL_LIB_DIR));
            foreign.then_some(path)
        })
    })
}
