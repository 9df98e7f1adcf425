//! How much processor time and memory does this process use? From the kernel's own books; `None` where it keeps none.

use std::time::Duration;

use super::snapshot::Memory;

/// Processor time of the calling thread.
pub fn thread_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return Some(clock(rustix::time::ClockId::ThreadCPUTime));
    #[cfg(not(unix))]
    None
}

/// Processor time of the process.
pub fn process_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return Some(clock(rustix::time::ClockId::ProcessCPUTime));
    #[cfg(not(unix))]
    None
}

#[cfg(unix)]
fn clock(id: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(id);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

/// The process's own memory, beside what the machine has.
pub fn memory() -> Option<Memory> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let budget = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:"));
    of_status(&status, budget)
}

fn of_status(status: &str, budget: Option<u64>) -> Option<Memory> {
    let (used, peak) = (field(status, "VmRSS:")?, field(status, "VmHWM:"));
    Some(Memory { name: "this process".to_owned(), used, budget, peak, ..Memory::default() })
}

/// The bytes after a name, as the kernel writes them: `VmRSS:     1234 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_text_is_read_and_nonsense_is_unknown() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let memory = of_status(status, Some(1 << 30)).unwrap();
        assert_eq!((memory.used, memory.peak, memory.budget), (1 << 20, Some(2 << 20), Some(1 << 30)));
        assert_eq!(of_status("VmRSS:\tmany kB\n", None), None);
        assert_eq!(field("MemTotal: 18446744073709551615 kB", "MemTotal:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_time() {
        assert!(memory().unwrap().used > 0);
        assert!(process_cpu().unwrap() >= thread_cpu().unwrap());
    }
}
