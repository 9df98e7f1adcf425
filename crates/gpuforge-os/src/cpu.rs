//! CPU topology from a system call. On Linux and macOS it is read from files and tools instead, and `None` here.

use crate::sys;

/// What the system says of its CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuTopology {
    /// Name of the model.
    pub brand: Option<String>,
    /// Sockets.
    pub packages: u32,
    /// One per core: its hardware threads and its class; a higher class is faster.
    pub cores: Vec<CpuCore>,
    /// Caches that serve instructions or data.
    pub caches: Vec<CpuCache>,
    /// NUMA nodes.
    pub numa_nodes: u32,
    /// Memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
}

/// A core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuCore {
    /// Hardware threads.
    pub threads: u32,
    /// Efficiency class: 0 is the slowest.
    pub class: u8,
}

/// A cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuCache {
    /// 1 is the nearest.
    pub level: u8,
    /// What it holds.
    pub kind: CacheKind,
    /// Bytes.
    pub bytes: u64,
    /// Hardware threads that share it.
    pub shared_by: u32,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheKind {
    /// Both.
    Unified,
    /// Instructions.
    Instruction,
    /// Data.
    Data,
}

/// The topology, where a system call gives it.
pub fn topology() -> Option<CpuTopology> {
    sys::cpu::topology()
}
