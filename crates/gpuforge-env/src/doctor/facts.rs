//! What do files not tell? Free space, owners of device nodes, and whether a host can be reached.

use std::{collections::BTreeMap, path::Path, time::Duration};

/// Room of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Size of the whole, in bytes.
    pub total: u64,
    /// What an ordinary user may still write, in bytes.
    pub free: u64,
}

/// Who may use a device node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// What the kernel says of this process, which also knows access lists; `None` where it cannot be asked.
    pub opens: Option<bool>,
}

/// Source of these facts. A path is given twice: as that machine calls it, and where it is on this one.
pub trait Facts: Send + Sync {
    /// Room of the file system that holds a directory.
    fn space(&self, path: &str, real: &Path) -> Option<Space>;
    /// Who may use a node.
    fn node(&self, path: &str, real: &Path) -> Option<Node>;
    /// How long a TCP connection took, or why there is none.
    fn connect(&self, host: &str, port: u16, limit: Duration) -> Result<Duration, String>;
}

/// What the system says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Real;

impl Facts for Real {
    #[cfg(unix)]
    fn space(&self, _: &str, real: &Path) -> Option<Space> {
        let stat = rustix::fs::statvfs(real).ok()?;
        let unit = if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize };
        let bytes = |blocks: u64| blocks.saturating_mul(unit);
        Some(Space { total: bytes(stat.f_blocks), free: bytes(stat.f_bavail) })
    }

    #[cfg(not(unix))]
    fn space(&self, _: &str, _: &Path) -> Option<Space> {
        None
    }

    #[cfg(unix)]
    fn node(&self, _: &str, real: &Path) -> Option<Node> {
        use std::os::unix::fs::MetadataExt as _;
        let meta = std::fs::metadata(real).ok()?;
        let both = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK;
        let opens = Some(rustix::fs::access(real, both).is_ok());
        Some(Node { uid: meta.uid(), gid: meta.gid(), mode: meta.mode() & 0o777, opens })
    }

    #[cfg(not(unix))]
    fn node(&self, _: &str, _: &Path) -> Option<Node> {
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
                // The kernel's words, without the address in them.
                Err(e) => why = e.kind().to_string(),
            }
        }
        Err(why)
    }
}

/// Facts of a machine that is only told of; what is not told comes from its files, or is unknown.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Room by mount point.
    pub space: BTreeMap<String, Space>,
    /// Nodes by path.
    pub nodes: BTreeMap<String, Node>,
    /// Hosts that answer, and after how long.
    pub hosts: BTreeMap<String, Duration>,
}

impl Facts for Told {
    fn space(&self, path: &str, _: &Path) -> Option<Space> {
        let holds = |point: &str| Path::new(path).starts_with(point);
        let nearest =
            self.space.iter().filter(|(point, _)| holds(point)).max_by_key(|(point, _)| point.len());
        nearest.map(|(_, space)| *space)
    }

    fn node(&self, path: &str, real: &Path) -> Option<Node> {
        self.nodes.get(path).copied().or_else(|| Real.node(path, real))
    }

    fn connect(&self, host: &str, _: u16, limit: Duration) -> Result<Duration, String> {
        let silent = || format!("no answer within {} ms", limit.as_millis());
        self.hosts.get(host).copied().ok_or_else(silent)
    }
}
