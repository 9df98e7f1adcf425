//! CPU topology: files of the kernel (Linux) and `sysctl` (macOS) have it, and their readers are elsewhere.

use crate::cpu::CpuTopology;

pub(crate) fn topology() -> Option<CpuTopology> {
    None
}
