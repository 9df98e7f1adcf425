//! Check `wsl`: `/dev/dxg`, the libraries of the Windows driver, and Linux drivers that shadow them.

use gpuforge_detect::probe::filesystem::FileSystem;

use crate::doctor::{Finding, Status, SystemView, host_facts};

/// Mount point of the Windows driver libraries.
const WSL_LIB_DIR: &str = "/usr/lib/wsl/lib";

/// `wsl`
pub(super) fn wsl(view: &SystemView) -> Finding {
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
