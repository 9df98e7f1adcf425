//! What do several checks need to know? GPUs, the NVIDIA driver, the user, and where libraries are; read once.

use gpuforge_detect::{
    host,
    merge::merge,
    model::{Gpu, GpuType, Host, Vendor},
    probe::{filesystem::FileSystem, sysfs},
};

use super::{facts::Node, view::View};

/// Facts shared by checks.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// GPUs by the kernel's files; no driver was asked.
    pub gpus: Vec<Gpu>,
    /// Version of the NVIDIA kernel module that is loaded.
    pub nvidia: Option<String>,
    /// Kernel, container, WSL.
    pub host: Host,
    /// Who runs this.
    pub user: Option<User>,
}

/// A user by the kernel's account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Number.
    pub uid: u32,
    /// Name, where `/etc/passwd` has one.
    pub name: Option<String>,
    /// Every group.
    pub groups: Vec<u32>,
}

impl Machine {
    /// Reads kernel files only.
    pub(super) fn read(view: &View) -> Self {
        let merged = merge(sysfs::read(view));
        let version = view.read("/sys/module/nvidia/version").map(|v| v.trim().to_owned());
        let env = |name: &str| view.env(name).map(str::to_owned);
        Machine {
            gpus: merged.gpus,
            nvidia: version.filter(|v| !v.is_empty()).or(merged.driver_version),
            host: host::read(view, &env),
            user: user(view),
        }
    }

    /// GPUs of a maker.
    pub fn of(&self, vendor: Vendor) -> impl Iterator<Item = &Gpu> {
        self.gpus.iter().filter(move |g| g.vendor == Some(vendor) && g.kind != GpuType::Software)
    }

    /// Is there one?
    pub fn has(&self, vendor: Vendor) -> bool {
        self.of(vendor).next().is_some()
    }

    /// Is there a GPU that frameworks could use? The NVIDIA module without a PCI list counts; a server's VGA chip does not.
    pub fn has_gpu(&self) -> bool {
        self.nvidia.is_some() || [Vendor::Nvidia, Vendor::Amd, Vendor::Intel].iter().any(|v| self.has(*v))
    }
}

fn user(view: &View) -> Option<User> {
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

/// A number's name in `/etc/passwd` or `/etc/group`.
pub(super) fn named(view: &View, file: &str, id: u32) -> Option<String> {
    let text = view.read(file)?;
    let number = id.to_string();
    let line = text.lines().find(|l| l.split(':').nth(2) == Some(number.as_str()))?;
    line.split(':').next().filter(|n| !n.is_empty()).map(str::to_owned)
}

impl User {
    /// May this user read and write the node? The kernel's word counts before the bits.
    pub fn may_use(&self, node: &Node) -> bool {
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

/// Where the loader looks on the systems there are.
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

/// Where 32-bit libraries are; only manifests of 32-bit drivers need them.
const LIBRARIES_32: [&str; 3] = ["/usr/lib/i386-linux-gnu", "/usr/lib32", "/lib/i386-linux-gnu"];

/// Directories with shared libraries, each once: the usual ones and those that the loader's configuration names.
pub(super) fn library_folders(view: &View) -> Vec<String> {
    let mut folders: Vec<String> = LIBRARIES.iter().map(|f| (*f).to_owned()).collect();
    for file in view.list("/etc/ld.so.conf.d").iter().filter(|f| f.ends_with(".conf")) {
        let text = view.read(&format!("/etc/ld.so.conf.d/{file}")).unwrap_or_default();
        folders.extend(text.lines().map(str::trim).filter(|l| l.starts_with('/')).map(str::to_owned));
    }
    let mut seen = Vec::new();
    folders.retain(|folder| {
        // `/lib` is a link to `/usr/lib` on most systems: one of them is enough.
        let Ok(real) = std::fs::canonicalize(view.real(folder)) else { return false };
        let new = !seen.contains(&real);
        seen.push(real);
        new
    });
    folders
}

/// Is a library of this name where the loader looks, or in `LD_LIBRARY_PATH`?
pub(super) fn has_library(view: &View, folders: &[String], name: &str) -> bool {
    let added = view.env("LD_LIBRARY_PATH").unwrap_or_default().split(':').filter(|f| f.starts_with('/'));
    let all = folders.iter().map(String::as_str).chain(added).chain(LIBRARIES_32);
    all.into_iter().any(|folder| view.exists(&format!("{}/{name}", folder.trim_end_matches('/'))))
}
