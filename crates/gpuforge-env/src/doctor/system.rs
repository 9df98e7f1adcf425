//! System queries beyond file contents: disk space, device node permissions, TCP connect, the APIs of Windows and macOS;
//! real and simulated.

use std::{collections::BTreeMap, path::Path, time::Duration};

use gpuforge_detect::snapshot::{MacosSnapshot, WindowsSnapshot};

/// Disk space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Total size in bytes.
    pub total: u64,
    /// Bytes available to unprivileged users.
    pub free: u64,
}

/// Owner and permissions of a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePermissions {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Result of `access(2)` for this process, which honours ACLs; `None` where it does not apply.
    pub opens: Option<bool>,
}

/// System queries. Each path is given twice: as the viewed machine names it, and where it is on this one.
pub trait System: Send + Sync {
    /// Disk space of the file system of a directory.
    fn space(&self, path: &str, real: &Path) -> Option<DiskSpace>;
    /// Permissions of a device node.
    fn node(&self, path: &str, real: &Path) -> Option<NodePermissions>;
    /// TCP connect time, or why it failed.
    fn connect(&self, host: &str, port: u16, limit: Duration) -> Result<Duration, String>;
    /// What Windows states about itself, without DXGI; `None` elsewhere.
    fn windows(&self) -> Option<WindowsSnapshot>;
    /// What macOS states about itself, without Metal; `None` elsewhere.
    fn macos(&self) -> Option<MacosSnapshot>;
    /// It describes the machine of a view whatever its root is.
    fn is_simulated(&self) -> bool {
        false
    }
}

/// The real system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealSystem;

impl System for RealSystem {
    fn space(&self, _: &str, real: &Path) -> Option<DiskSpace> {
        let gpuforge_os::files::DiskSpace { total, free } = gpuforge_os::files::disk_space(real)?;
        Some(DiskSpace { total, free })
    }

    fn windows(&self) -> Option<WindowsSnapshot> {
        #[cfg(windows)]
        return Some(gpuforge_detect::probe::windows::system());
        #[cfg(not(windows))]
        None
    }

    fn macos(&self) -> Option<MacosSnapshot> {
        #[cfg(target_os = "macos")]
        return Some(gpuforge_detect::probe::macos::system());
        #[cfg(not(target_os = "macos"))]
        None
    }

    #[cfg(unix)]
    fn node(&self, _: &str, real: &Path) -> Option<NodePermissions> {
        use std::os::unix::fs::MetadataExt as _;
        let meta = std::fs::metadata(real).ok()?;
        let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
        let opens = Some(rustix::fs::access(real, both).is_ok());
        Some(NodePermissions { uid: meta.uid(), gid: meta.gid(), mode: meta.mode() & 0o777, opens })
    }

    #[cfg(not(unix))]
    fn node(&self, _: &str, _: &Path) -> Option<NodePermissions> {
        None
    }

    fn connect(&self, host: &str, port: u16, limit: Duration) -> Result<Duration, String> {
        use std::net::ToSocketAddrs as _;
        let began = std::time::Instant::now();
        let addresses =
            (host, port).to_socket_addrs().map_err(|_| "its name is not known here".to_owned())?;
        let mut why = "its name has no address".to_owned();
        for address in addresses {
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(format!("no answer within {} ms", limit.as_millis()));
            }
            match std::net::TcpStream::connect_timeout(&address, left) {
                Ok(_) => return Ok(began.elapsed()),
                Err(e) if e.kind() == std::io::ErrorKind::TimedOut => {
                    why = format!("no answer within {} ms", limit.as_millis());
                }
                // The error kind, without the address.
                Err(e) => why = e.kind().to_string(),
            }
        }
        Err(why)
    }
}

/// A simulated system; what is not specified comes from its files, or is unknown.
#[derive(Debug, Clone, Default)]
pub struct SimulatedSystem {
    /// Disk space by mount point.
    pub space: BTreeMap<String, DiskSpace>,
    /// Device nodes by path.
    pub nodes: BTreeMap<String, NodePermissions>,
    /// Reachable hosts and their connect time.
    pub hosts: BTreeMap<String, Duration>,
    /// It runs Windows.
    pub windows: Option<WindowsSnapshot>,
    /// It runs macOS.
    pub macos: Option<MacosSnapshot>,
}

impl System for SimulatedSystem {
    fn space(&self, path: &str, _: &Path) -> Option<DiskSpace> {
        let holds = |point: &str| Path::new(path).starts_with(point);
        let nearest =
            self.space.iter().filter(|(point, _)| holds(point)).max_by_key(|(point, _)| point.len());
        nearest.map(|(_, space)| *space)
    }

    fn node(&self, path: &str, real: &Path) -> Option<NodePermissions> {
        self.nodes.get(path).copied().or_else(|| RealSystem.node(path, real))
    }

    fn connect(&self, host: &str, _: u16, limit: Duration) -> Result<Duration, String> {
        let silent = || format!("no answer within {} ms", limit.as_millis());
        self.hosts.get(host).copied().ok_or_else(silent)
    }

    fn windows(&self) -> Option<WindowsSnapshot> {
        self.windows.clone()
    }

    fn macos(&self) -> Option<MacosSnapshot> {
        self.macos.clone()
    }

    fn is_simulated(&self) -> bool {
        true
    }
}
