//! Signal handling (SIGINT, SIGTERM, SIGHUP) in a thread.

use std::sync::{Arc, atomic::AtomicBool};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    flag, low_level,
};

/// Signals that terminate the process.
const TERMINATING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Exit code of a process that a signal terminated, as shells report it.
const fn code(signal: i32) -> i32 {
    128 + signal
}

pub(crate) fn on_interrupt(cleanup: fn()) {
    let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |text| ignored(&text));
    let signals: Vec<i32> = TERMINATING.into_iter().filter(|s| ignored & (1 << (s - 1)) == 0).collect();
    // Only Linux shows whether SIGHUP is ignored (`nohup`); elsewhere it keeps its default action.
    #[cfg(not(target_os = "linux"))]
    let signals: Vec<i32> = signals.into_iter().filter(|s| *s != SIGHUP).collect();
    let seen = Arc::new(AtomicBool::new(false));
    for signal in &signals {
        // In this order: the first signal finds the flag unset, the second one set.
        let second = flag::register_conditional_shutdown(*signal, code(*signal), seen.clone());
        if second.is_err() || flag::register(*signal, seen.clone()).is_err() {
            return;
        }
    }
    let Ok(mut arrived) = signal_hook::iterator::Signals::new(signals) else { return };
    let wait = move || {
        if let Some(signal) = arrived.forever().next() {
            cleanup();
            // Without the `atexit` handlers of drivers, which may be in the middle of work.
            low_level::exit(code(signal));
        }
    };
    // Without a thread the second signal ends the process.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
}

pub(crate) fn send_break(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::kill_process(pid, rustix::process::Signal::INT).is_ok())
}

/// Parses the mask of ignored signals from `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let mask =
            ignored("Name:\tgpuforge\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\nSigCgt:\t0\n");
        assert_eq!(mask & 1, 1, "SIGHUP");
        assert_eq!(mask & (1 << (SIGINT - 1)), 2);
        assert_eq!(mask & (1 << (SIGTERM - 1)), 0);
        assert_eq!((ignored(""), ignored("SigIgn:\tno\n")), (0, 0));
        assert_eq!((code(SIGINT), code(SIGTERM)), (130, 143));
    }
}
