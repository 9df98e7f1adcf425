//! Host facts shared by doctor checks: GPUs, NVIDIA driver version, user and groups, library directories; read once.

use gpuforge_detect::{
    host,
    merge::merge,
    model::{Gpu, GpuType, Host, ProbeReport, Usable, Vendor},
    probe::{filesystem::FileSystem, sysfs},
};

use super::{system::NodePermissions, view::SystemView};

/// Facts shared by checks.
#[derive(Debug, Clone, Default)]
pub struct HostFacts {
    /// GPUs by kernel files (tier 0); no driver is queried.
    pub gpus: Vec<Gpu>,
    /// Version of the loaded NVIDIA kernel module.
    pub nvidia: Option<String>,
    /// Kernel, container, WSL.
    pub platform: Host,
    /// The user of this process.
    pub user: Option<User>,
}

/// Effective user and groups of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Effective uid.
    pub uid: u32,
    /// Name, where `/etc/passwd` has one.
    pub name: Option<String>,
    /// All gids.
    pub groups: Vec<u32>,
}

impl HostFacts {
    /// Reads kernel files only.
    pub(super) fn read(view: &SystemView) -> Self {
        if let Some(stated) = view.windows().map(|w| w.report()).or_else(|| view.macos().map(|m| m.report()))
        {
            return HostFacts::stated(view, stated);
        }
        let merged = merge(sysfs::read(view));
        let version = view.read("/sys/module/nvidia/version").map(|v| v.trim().to_owned());
        let env = |name: &str| view.env(name).map(str::to_owned);
        HostFacts {
            gpus: merged.gpus,
            nvidia: version.filter(|v| !v.is_empty()).or(merged.driver_version),
            platform: host::read(view, &env),
            user: user(view),
        }
    }

    /// Facts of a platform without kernel files, as its API states them.
    fn stated(view: &SystemView, report: ProbeReport) -> Self {
        let env = |name: &str| view.env(name).map(str::to_owned);
        let mut platform = host::read(view, &env);
        if let Some(stated) = &report.host {
            platform.os.clone_from(&stated.os);
            host::fill(&mut platform, stated);
        }
        let nvidia = |g: &&Gpu| g.vendor == Some(Vendor::Nvidia) && g.usable_for_compute != Usable::No;
        let version = report.gpus.iter().find(nvidia).and_then(|g| g.driver_version.clone());
        HostFacts { nvidia: version, platform, gpus: report.gpus, user: None }
    }

    /// GPUs of a vendor.
    pub fn of(&self, vendor: Vendor) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter(move |g| g.vendor == Some(vendor) && g.kind != GpuType::Software)
    }

    /// Is there a GPU of this vendor?
    pub fn has(&self, vendor: Vendor) -> bool {
        self.of(vendor).next().is_some()
    }

    /// Is there a GPU that frameworks could use? The NVIDIA module without a PCI list counts; a BMC VGA chip does not.
    pub fn has_gpu(&self) -> bool {
        self.nvidia.is_some() || [Vendor::Nvidia, Vendor::Amd, Vendor::Intel].iter().any(|v| self.has(*v))
    }
}

fn user(view: &SystemView) -> Option<User> {
    let status = view.read("/proc/self/status")?;
    let numbers = |key: &str| -> Vec<u32> {
        let line = status.lines().find_map(|l| l.strip_prefix(key));
        line.into_iter().flat_map(str::split_whitespace).filter_map(|n| n.parse().ok()).collect()
    };
    // Real, effective, saved, file system: the effective one opens files.
    let uid = *numbers("Uid:").get(1)?;
    let groups: Vec<u32> = numbers("Gid:").get(1).copied().into_iter().chain(numbers("Groups:")).collect();
    Some(User { uid, name: named(view, "/etc/passwd", uid), groups })
}

/// The name of a uid or gid in `/etc/passwd` or `/etc/group`.
pub(super) fn named(view: &SystemView, file: &str, id: u32) -> Option<String> {
    let text = view.read(file)?;
    let number = id.to_string();
    let line = text.lines().find(|l| l.split(':').nth(2) == Some(number.as_str()))?;
    line.split(':').next().filter(|n| !n.is_empty()).map(str::to_owned)
}

impl User {
    /// May this user read and write the node? `access(2)` takes precedence over the permission bits.
    pub fn may_use(&self, node: &NodePermissions) -> bool {
        let bits = |shift: u32| node.mode >> shift & 0o6 == 0o6;
        let by_bits = match () {
            () if self.uid == 0 => true,
            () if self.uid == node.uid => bits(6),
            () if self.groups.contains(&node.gid) => bits(3),
            () => bits(0),
        };
        node.opens.unwrap_or(by_bits)
    }
}

/// Library search directories of the dynamic loader on common distributions.
const LIBRARIES: [&str; 15] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/lib",
    "/usr/lib",
    "/usr/lib/nvidia",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/run/opengl-driver/lib",
    "/usr/lib/wsl/lib",
];

/// Directories of 32-bit libraries, for Vulkan manifests of 32-bit drivers.
const LIBRARIES_32: [&str; 3] = ["/usr/lib/i386-linux-gnu", "/usr/lib32", "/lib/i386-linux-gnu"];

/// Library directories, deduplicated: the common ones and those of `/etc/ld.so.conf.d`.
pub(super) fn library_dirs(view: &SystemView) -> Vec<String> {
    let mut dirs: Vec<String> = LIBRARIES.iter().map(|f| (*f).to_owned()).collect();
    for file in view.list("/etc/ld.so.conf.d").iter().filter(|f| f.ends_with(".conf")) {
        let text = view.read(&format!("/etc/ld.so.conf.d/{file}")).unwrap_or_default();
        dirs.extend(text.lines().map(str::trim).filter(|l| l.starts_with('/')).map(str::to_owned));
    }
    let mut seen = Vec::new();
    dirs.retain(|dir| {
        // `/lib` is a symlink to `/usr/lib` on most systems.
        let Ok(real) = std::fs::canonicalize(view.resolve_path(dir)) else { return false };
        let new = !seen.contains(&real);
        seen.push(real);
        new
    });
    dirs
}

/// Is a library of this name in the loader's directories or in `LD_LIBRARY_PATH`?
pub(super) fn has_library(view: &SystemView, dirs: &[String], name: &str) -> bool {
    let added = view.env("LD_LIBRARY_PATH").unwrap_or_default().split(':').filter(|f| f.starts_with('/'));
    let all = dirs.iter().map(String::as_str).chain(added).chain(LIBRARIES_32);
    all.into_iter().any(|dir| view.exists(&format!("{}/{name}", dir.trim_end_matches('/'))))
}
