//! Description of the machine (CPU, cores, memory, OS) and date, for benchmark tables.

use crate::sh;
use std::{
    env, fs,
    process::Command,
    thread,
    time::{Duration, SystemTime},
};

/// One line: CPU, cores, memory, OS. Unknown parts are left out.
pub(crate) fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let sysctl = |key: &str| sh::capture(Command::new("sysctl").args(["-n", key])).ok();
    let macos = cfg!(target_os = "macos");
    let cpu = if macos { sysctl("machdep.cpu.brand_string") } else { cpu_model(&read("/proc/cpuinfo")) };
    let memory = if macos {
        sysctl("hw.memsize").and_then(|text| text.trim().parse().ok())
    } else {
        memory_bytes(&read("/proc/meminfo"))
    };
    let system = pretty_name(&read("/etc/os-release")).unwrap_or_else(|| env::consts::OS.to_owned());
    let cores = thread::available_parallelism().ok().map(|n| format!("{n} cores"));
    let memory = memory.map(|bytes: u64| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30)));
    let parts = [cpu.map(|name| name.trim().to_owned()), cores, memory, Some(system)];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    format!("{} {}", known.join(", "), env::consts::ARCH)
}

/// Today in UTC, `2026-11-20`.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    date(since.as_secs() / 86_400)
}

/// The first `model name` of /proc/cpuinfo.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// `MemTotal` of /proc/meminfo, which counts in KiB.
fn memory_bytes(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// `PRETTY_NAME` of /etc/os-release, without its quotes.
fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches('"').to_owned())
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar.
fn date(mut days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_at_the_edges_of_years_and_leap_days() {
        let check = |days, want: &str| assert_eq!(date(days), want);
        check(0, "1970-01-01");
        check(364, "1970-12-31");
        check(365, "1971-01-01");
        check(789, "1972-02-29");
        check(790, "1972-03-01");
        check(11_016, "2000-02-29");
        check(20_777, "2026-11-20");
        check(47_540, "2100-02-28");
        check(47_541, "2100-03-01");
    }

    #[test]
    fn system_files_are_parsed_and_unknown_is_none() {
        assert_eq!(
            cpu_model("processor : 0\nmodel name\t: Example 9000 @ 3 GHz\nmodel name: other"),
            Some("Example 9000 @ 3 GHz".to_owned())
        );
        assert_eq!(cpu_model("processor : 0"), None);
        assert_eq!(memory_bytes("MemTotal:       16384 kB\nMemFree: 1 kB"), Some(16 << 20));
        assert_eq!(memory_bytes("MemTotal: lots"), None);
        assert_eq!(pretty_name("ID=x\nPRETTY_NAME=\"Example OS 12\"\n"), Some("Example OS 12".to_owned()));
        assert_eq!(pretty_name(""), None);
    }

    #[test]
    fn the_description_is_one_line() {
        let text = describe();
        assert!(text.contains(env::consts::ARCH) && !text.contains('\n'), "{text}");
        assert_eq!(today().len(), 10);
    }
}
