//! Profiler clock: the CPU's time-stamp counter (TSC) if invariant and trusted by the kernel, else [`Instant`].
//!
//! Ticks are converted to nanoseconds only when a trace is taken, with the rate measured since the clock was started: the
//! longer the run, the better the rate, and the hot path has no multiplication.

use serde::{Deserialize, Serialize};
use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The profiler is off.
pub(crate) const OFF: u8 = 0;
/// On, ticks of the time-stamp counter.
pub(crate) const TSC: u8 = 1;
/// On, nanoseconds of [`Instant`].
pub(crate) const INSTANT: u8 = 2;

/// Minimum baseline of the rate measurement: both clocks are read to within tens of nanoseconds.
const BASELINE: Duration = Duration::from_micros(200);

/// Which clock to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClockChoice {
    /// The time-stamp counter if it runs at one rate on all cores, else [`Instant`].
    #[default]
    Auto,
    /// Always [`Instant`].
    Instant,
}

impl ClockChoice {
    /// The clock that spans would use, as a function: for benchmarks and other uses that need a cheap clock. The unit is
    /// unspecified; differences are proportional to time.
    pub fn reader(self) -> fn() -> u64 {
        match TickClock::start(self).mode {
            TSC => tsc,
            _ => instant_ticks,
        }
    }
}

/// Which clock a trace was taken with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockInfo {
    /// `tsc` or `instant`; `none` when nothing was ever recorded.
    pub source: String,
    /// Ticks per second, measured over the run.
    pub ticks_per_second: Option<f64>,
    /// Why this source.
    pub reason: String,
}

/// Time 0 of [`INSTANT`] ticks.
fn base() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time now, in the ticks of `mode`.
#[inline(always)]
pub(crate) fn ticks(mode: u8) -> u64 {
    if mode == TSC { tsc() } else { instant_ticks() }
}

#[inline(never)]
fn instant_ticks() -> u64 {
    nanos(base().elapsed())
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tsc() -> u64 {
    #[expect(unsafe_code, reason = "the intrinsic is declared unsafe")]
    // SAFETY: RDTSC exists on every x86-64 CPU, reads a register and touches no memory.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn tsc() -> u64 {
    instant_ticks()
}

/// Does the CPU have an invariant TSC (constant rate, also in sleep states)?
#[cfg(target_arch = "x86_64")]
fn invariant() -> bool {
    const ADVANCED_POWER: u32 = 0x8000_0007;
    let leaf = core::arch::x86_64::__cpuid;
    leaf(0x8000_0000).eax >= ADVANCED_POWER && leaf(ADVANCED_POWER).edx & (1 << 8) != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant() -> bool {
    false
}

/// The clock source of the Linux kernel; it monitors the TSC and abandons it when cores disagree.
fn kernel_clocksource() -> Option<String> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok()
}

/// The clock mode, and the reason; pure.
fn choose_clock(choice: ClockChoice, x86: bool, invariant: bool, kernel: Option<&str>) -> (u8, String) {
    /// Kernel clock sources that are derived from the TSC.
    const FROM_TSC: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
    let kernel = kernel.map(str::trim);
    match kernel {
        _ if choice == ClockChoice::Instant => (INSTANT, "requested".to_owned()),
        _ if !x86 => (INSTANT, "no time-stamp counter on this CPU".to_owned()),
        _ if !invariant => (INSTANT, "the time-stamp counter may change its rate".to_owned()),
        Some(name) if !FROM_TSC.contains(&name) => {
            (INSTANT, format!("the kernel does not trust the time-stamp counter, it uses {name}"))
        }
        Some(name) => (TSC, format!("invariant time-stamp counter, kernel clock {name}")),
        None => (TSC, "invariant time-stamp counter".to_owned()),
    }
}

/// A running clock: its origin, and how to read it.
#[derive(Debug)]
pub(crate) struct TickClock {
    /// [`TSC`] or [`INSTANT`].
    pub(crate) mode: u8,
    reason: String,
    ticks: u64,
    instant: Instant,
}

impl TickClock {
    /// Starts a clock; its time 0 is now.
    pub(crate) fn start(choice: ClockChoice) -> Self {
        let (mode, reason) =
            choose_clock(choice, cfg!(target_arch = "x86_64"), invariant(), kernel_clocksource().as_deref());
        base();
        let (ticks, instant) = read_pair(mode);
        TickClock { mode, reason, ticks, instant }
    }

    /// Tick-to-nanosecond scale, measured since the start. Spins for up to 200 µs right after the start.
    pub(crate) fn scale(&self) -> Scale {
        while self.mode == TSC && self.instant.elapsed() < BASELINE {
            std::hint::spin_loop();
        }
        let (ticks, instant) = read_pair(self.mode);
        let ran = nanos(instant.saturating_duration_since(self.instant));
        match self.mode {
            TSC => Scale { zero: self.ticks, ns: ran, ticks: ticks.saturating_sub(self.ticks) },
            _ => Scale { zero: self.ticks, ns: 1, ticks: 1 },
        }
    }

    /// Nanoseconds from time 0 to `instant`; 0 for earlier instants.
    pub(crate) fn ns_of(&self, instant: Instant) -> u64 {
        nanos(instant.saturating_duration_since(self.instant))
    }

    /// Clock description for a trace.
    pub(crate) fn info(&self, scale: Scale) -> ClockInfo {
        let source = if self.mode == TSC { "tsc" } else { "instant" };
        let rate = (scale.ns > 0).then(|| scale.ticks as f64 / scale.ns as f64 * 1e9);
        ClockInfo { source: source.to_owned(), ticks_per_second: rate, reason: self.reason.clone() }
    }
}

/// Reads both clocks at once: the closest of a few tries, because a thread may be preempted between the reads.
fn read_pair(mode: u8) -> (u64, Instant) {
    let read = || {
        let before = ticks(mode);
        let instant = Instant::now();
        let width = ticks(mode).saturating_sub(before);
        (width, before + width / 2, instant)
    };
    let (_, ticks, instant) = (0..8).map(|_| read()).min_by_key(|(width, ..)| *width).unwrap_or_else(read);
    (ticks, instant)
}

/// From ticks to nanoseconds since time 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) zero: u64,
    pub(crate) ns: u64,
    pub(crate) ticks: u64,
}

impl Scale {
    /// Ticks that are nanoseconds already.
    pub(crate) const NANOSECONDS: Scale = Scale { zero: 0, ns: 1, ticks: 1 };

    /// Nanoseconds since time 0; earlier readings are 0. Monotonic in `ticks`.
    pub(crate) fn at(self, ticks: u64) -> u64 {
        self.duration(ticks.saturating_sub(self.zero))
    }

    /// Nanoseconds of a number of ticks.
    pub(crate) fn duration(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * u128::from(self.ns) / u128::from(self.ticks.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsc_is_used_only_if_invariant_and_trusted_by_the_kernel() {
        let check = |x86, invariant, kernel| choose_clock(ClockChoice::Auto, x86, invariant, kernel).0;
        assert_eq!(check(true, true, Some("tsc\n")), TSC);
        assert_eq!(check(true, true, Some("kvm-clock")), TSC);
        assert_eq!(check(true, true, None), TSC);
        assert_eq!(check(true, true, Some("hpet\n")), INSTANT);
        assert_eq!(check(true, true, Some("acpi_pm")), INSTANT);
        assert_eq!(check(true, false, Some("tsc")), INSTANT);
        assert_eq!(check(false, true, Some("arch_sys_counter")), INSTANT);
        assert_eq!(
            choose_clock(ClockChoice::Instant, true, true, Some("tsc")),
            (INSTANT, "requested".to_owned())
        );
        assert!(choose_clock(ClockChoice::Auto, true, true, Some("hpet")).1.contains("hpet"));
    }

    #[test]
    fn both_clocks_agree_with_instant_over_a_sleep() {
        for choice in [ClockChoice::Auto, ClockChoice::Instant] {
            let clock = TickClock::start(choice);
            let (from, began) = (ticks(clock.mode), Instant::now());
            std::thread::sleep(Duration::from_millis(20));
            let (to, took) = (ticks(clock.mode), nanos(began.elapsed()));
            let scale = clock.scale();
            let ours = scale.at(to) - scale.at(from);
            // 2 % or 200 µs: another process may run between the two pairs of reads.
            assert!(ours.abs_diff(took) < took / 50 + 200_000, "{choice:?}: {ours} against {took}");
            let info = clock.info(scale);
            assert!(info.ticks_per_second.is_some_and(|rate| rate > 1e6), "{info:?}");
        }
    }

    #[test]
    fn reader_is_monotonic() {
        for choice in [ClockChoice::Auto, ClockChoice::Instant] {
            let read = choice.reader();
            let times: Vec<u64> = (0..1000).map(|_| read()).collect();
            assert!(times.is_sorted() && times.first() < times.last(), "{choice:?}");
        }
    }

    #[test]
    fn scale_saturates_instead_of_wrapping() {
        let scale = Scale { zero: 1000, ns: 10, ticks: 26 };
        assert_eq!(scale.at(999), 0);
        assert_eq!(scale.at(1026), 10);
        assert_eq!(Scale { zero: 0, ns: u64::MAX, ticks: 1 }.at(u64::MAX), u64::MAX);
        assert_eq!(Scale { zero: 0, ns: 5, ticks: 0 }.at(0), 0);
        assert_eq!(Scale::NANOSECONDS.at(77), 77);
    }
}
