//! CPU time and memory of this process from the kernel (`/proc`, `clock_gettime`); `None` where not available.

use std::time::Duration;

use super::snapshot::MemoryStatus;

/// USER_HZ: ticks per second of CPU times in `/proc`; part of the Linux ABI.
#[cfg(target_os = "linux")]
const TICKS: u64 = 100;

/// CPU time of the calling thread up to when it last slept.
// Not `clock_gettime`: `rustix` calls it through the vDSO, which valgrind does not provide.
#[cfg(target_os = "linux")]
pub fn thread_cpu() -> Option<Duration> {
    of_schedstat(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// CPU time of the process, in units of 10 ms.
#[cfg(target_os = "linux")]
pub fn process_cpu() -> Option<Duration> {
    of_stat(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Parses `schedstat`: the first number is the run time in nanoseconds.
#[cfg(target_os = "linux")]
fn of_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Parses `stat`: user and system time are fields 12 and 13 after the name, which is in brackets and may hold anything.
#[cfg(target_os = "linux")]
fn of_stat(text: &str) -> Option<Duration> {
    let (_, after) = text.rsplit_once(')')?;
    let mut words = after.split_whitespace().skip(11);
    let mut ticks = || words.next()?.parse::<u64>().ok();
    let all = ticks()?.checked_add(ticks()?)?;
    Some(Duration::from_millis(all.checked_mul(1000 / TICKS)?))
}

/// CPU time of the calling thread.
#[cfg(not(target_os = "linux"))]
pub fn thread_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return Some(clock(rustix::time::ClockId::ThreadCPUTime));
    #[cfg(not(unix))]
    None
}

/// CPU time of the process.
#[cfg(not(target_os = "linux"))]
pub fn process_cpu() -> Option<Duration> {
    #[cfg(unix)]
    return Some(clock(rustix::time::ClockId::ProcessCPUTime));
    #[cfg(not(unix))]
    None
}

#[cfg(all(unix, not(target_os = "linux")))]
fn clock(id: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(id);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

/// Resident memory of the process; the budget is the machine's total.
pub fn memory() -> Option<MemoryStatus> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let budget = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:"));
    of_status(&status, budget)
}

fn of_status(status: &str, budget: Option<u64>) -> Option<MemoryStatus> {
    let (used, peak) = (field(status, "VmRSS:")?, field(status, "VmHWM:"));
    Some(MemoryStatus { name: "this process".to_owned(), used, budget, peak, ..MemoryStatus::default() })
}

/// Parses a field such as `VmRSS:     1234 kB` to bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed_and_malformed_text_is_none() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let memory = of_status(status, Some(1 << 30)).unwrap();
        assert_eq!((memory.used, memory.peak, memory.budget), (1 << 20, Some(2 << 20), Some(1 << 30)));
        assert_eq!(of_status("VmRSS:\tmany kB\n", None), None);
        assert_eq!(field("MemTotal: 18446744073709551615 kB", "MemTotal:"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stat_is_parsed_for_any_process_name() {
        let stat = "7 (a) 1 (b) R 1 7 7 0 -1 4194304 95 0 0 0 250 50 3 4 20 0 1 0 5 6 7\n";
        assert_eq!(of_stat(stat), Some(Duration::from_secs(3)));
        for wrong in ["", "7 a R 1", "7 (a) R 1", "7 (a) R 1 7 7 0 -1 4194304 95 0 0 0 x 50 3"] {
            assert_eq!(of_stat(wrong), None, "{wrong}");
        }
        assert_eq!(of_schedstat("1500 20 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!((of_schedstat(""), of_schedstat("-1 0 0")), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_time() {
        assert!(memory().unwrap().used > 0);
        let tick = Duration::from_millis(1000 / TICKS);
        assert!(process_cpu().unwrap() + 2 * tick >= thread_cpu().unwrap());
    }
}
