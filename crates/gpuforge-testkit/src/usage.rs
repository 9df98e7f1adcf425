//! Process resource usage: resident memory (RSS), threads and open file descriptors, from `/proc/self`.

use std::fs;

use gpuforge_runtime::units::Bytes;

/// Resource usage of the process; `None` if `/proc` is not available.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Resident set size (`VmRSS`).
    pub resident: Option<Bytes>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors: entries of `/proc/self/fd`, without the one that reading it opens.
    pub handles: Option<u64>,
}

/// Current usage.
pub fn now() -> ProcessUsage {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let handles = fs::read_dir("/proc/self/fd").ok().map(|all| (all.count() as u64).saturating_sub(1));
    ProcessUsage { handles, ..parse_status(&status) }
}

/// Parses `/proc/self/status`; pure.
pub fn parse_status(text: &str) -> ProcessUsage {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    ProcessUsage { resident: field("VmRSS").map(Bytes::kib), threads: field("Threads"), handles: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed() {
        let text = "Name:\tworker\nVmHWM:\t   9000 kB\nVmRSS:\t    5120 kB\nThreads:\t7\n";
        let usage = parse_status(text);
        assert_eq!((usage.resident, usage.threads), (Some(Bytes::mib(5)), Some(7)));
        assert_eq!(parse_status(""), ProcessUsage::default());
        assert_eq!(parse_status("VmRSS:\tmany kB\nThreads:\n"), ProcessUsage::default());
    }

    #[test]
    fn open_file_descriptors_are_counted() {
        let Some(before) = now().handles else { return };
        let held: Vec<_> = (0..40).filter_map(|_| fs::File::open("/proc/self/status").ok()).collect();
        // Other tests of this binary open files too, but not forty.
        assert!(now().handles.unwrap() > before + 20, "{} files", held.len());
    }
}
