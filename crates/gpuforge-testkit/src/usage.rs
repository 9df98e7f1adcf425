//! What does this process hold? Resident memory, threads and open handles, where the kernel tells.

use std::fs;

use gpuforge_runtime::units::Bytes;

/// Figures of the process at one moment; `None` where there is no such file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Memory that is really there (`VmRSS`).
    pub resident: Option<Bytes>,
    /// Threads.
    pub threads: Option<u64>,
    /// Entries of `/proc/self/fd`, without the one that reading it opens.
    pub handles: Option<u64>,
}

/// Now.
pub fn now() -> Usage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let handles = fs::read_dir("/proc/self/fd").ok().map(|all| (all.count() as u64).saturating_sub(1));
    Usage { handles, ..parse_status(&status) }
}

/// The lines of `/proc/self/status` that matter; pure.
pub fn parse_status(text: &str) -> Usage {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Usage { resident: field("VmRSS").map(Bytes::kib), threads: field("Threads"), handles: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed() {
        let text = "Name:\tworker\nVmHWM:\t   9000 kB\nVmRSS:\t    5120 kB\nThreads:\t7\n";
        let usage = parse_status(text);
        assert_eq!((usage.resident, usage.threads), (Some(Bytes::mib(5)), Some(7)));
        assert_eq!(parse_status(""), Usage::default());
        assert_eq!(parse_status("VmRSS:\tmany kB\nThreads:\n"), Usage::default());
    }

    #[test]
    fn a_handle_is_counted() {
        let Some(before) = now().handles else { return };
        let held: Vec<_> = (0..40).filter_map(|_| fs::File::open("/proc/self/status").ok()).collect();
        // Other tests of this binary open files too, but not forty.
        assert!(now().handles.unwrap() > before + 20, "{} files", held.len());
    }
}
