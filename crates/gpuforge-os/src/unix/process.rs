//! Processes: signals, `/proc` on Linux, `clock_gettime` elsewhere.

use std::{
    io,
    os::unix::process::CommandExt as _,
    process::{Child, Command},
    time::Duration,
};

use rustix::process::{Pid, Signal};

use crate::process::{ProcessLimits, ProcessMemory};

/// USER_HZ: ticks per second of CPU times in `/proc`; part of the Linux ABI.
#[cfg(target_os = "linux")]
const TICKS: u64 = 100;

pub(crate) fn is_gone(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

// Not `clock_gettime`: `rustix` calls it through the vDSO, which valgrind does not provide.
#[cfg(target_os = "linux")]
pub(crate) fn thread_cpu_time() -> Option<Duration> {
    of_schedstat(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

#[cfg(target_os = "linux")]
pub(crate) fn cpu_time() -> Option<Duration> {
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

#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_cpu_time() -> Option<Duration> {
    Some(clock(rustix::time::ClockId::ThreadCPUTime))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn cpu_time() -> Option<Duration> {
    Some(clock(rustix::time::ClockId::ProcessCPUTime))
}

#[cfg(not(target_os = "linux"))]
fn clock(id: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(id);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

pub(crate) fn memory() -> Option<ProcessMemory> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| field(&text, "MemTotal:"));
    of_status(&status, machine)
}

fn of_status(status: &str, machine: Option<u64>) -> Option<ProcessMemory> {
    Some(ProcessMemory { resident: field(status, "VmRSS:")?, peak: field(status, "VmHWM:"), machine })
}

/// Parses a field such as `VmRSS:     1234 kB` to bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn affinity() -> Option<u32> {
    rustix::thread::sched_getaffinity(None).ok().map(|set| set.count()).filter(|n| *n > 0)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn affinity() -> Option<u32> {
    None
}

pub(crate) fn limits() -> ProcessLimits {
    ProcessLimits::default()
}

pub(crate) fn die_with_parent() {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
}

/// `exec`: signals then reach only that program, and it can clean up.
pub(crate) fn replace(mut command: Command) -> io::Result<i32> {
    Err(command.exec())
}

#[derive(Debug)]
pub(crate) struct Group(Option<Pid>);

impl Group {
    pub(crate) fn prepare(command: &mut Command) {
        command.process_group(0);
    }

    pub(crate) fn of(child: &Child) -> Self {
        Group(i32::try_from(child.id()).ok().and_then(Pid::from_raw))
    }

    pub(crate) fn kill(&self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_parsed_and_malformed_text_is_none() {
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let memory = of_status(status, Some(1 << 30)).unwrap();
        assert_eq!((memory.resident, memory.peak, memory.machine), (1 << 20, Some(2 << 20), Some(1 << 30)));
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
}
