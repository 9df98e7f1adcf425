//! Rolling windows: the last 1000 durations per name and thread, in small rings that outlive the thread's log.
//!
//! An average over the last 1000 calls stays right after the log has overwritten the records.

use crate::{
    ring::Ring,
    sync::{AtomicU64, Ordering},
    zeroed::zeroed,
};
use std::sync::OnceLock;

/// Number of calls in a rolling average.
pub const RECENT_CALLS: usize = 1000;

/// Power of two above [`RECENT_CALLS`]; the ring capacity is one less.
const SLOTS: usize = 1024;

/// Capacity of the open-addressing table of windows, and its maximum probe length.
const WINDOWS: usize = 256;
const PROBES: usize = 16;

/// Separates a name's nanosecond records (tracks) from its tick records (threads): raw values are never summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowKey {
    pub(crate) name: u32,
    pub(crate) in_ns: bool,
}

/// Rolling window of one name on one thread.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) key: WindowKey,
    /// (end, duration), in the unit of the key.
    pub(crate) ring: Ring<2>,
    total: AtomicU64,
}

impl Window {
    fn new(key: WindowKey) -> Self {
        Window { key, ring: Ring::new(zeroed(SLOTS)), total: AtomicU64::new(0) }
    }

    #[inline]
    fn push(&self, end: u64, duration: u64) {
        let total = self.total.load(Ordering::Relaxed);
        self.total.store(total.saturating_add(duration), Ordering::Relaxed);
        self.ring.push([end, duration]);
    }

    /// Sum of all durations ever.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// The windows of one thread.
#[derive(Debug)]
pub(crate) struct Windows {
    table: Box<[OnceLock<Box<Window>>]>,
    /// Durations of names for which the table had no slot.
    untracked: AtomicU64,
}

impl Windows {
    pub(crate) fn new() -> Self {
        Windows { table: (0..WINDOWS).map(|_| OnceLock::new()).collect(), untracked: AtomicU64::new(0) }
    }

    /// The probe sequence of a name (linear probing).
    #[inline]
    fn probe(&self, key: WindowKey) -> impl Iterator<Item = &OnceLock<Box<Window>>> {
        let home = (key.name as usize).wrapping_mul(2) + usize::from(key.in_ns);
        (0..PROBES).filter_map(move |step| self.table.get((home + step) % WINDOWS))
    }

    /// Adds a duration. Only the owner thread calls this.
    #[inline]
    pub(crate) fn push(&self, key: WindowKey, end: u64, duration: u64) {
        let mine = self.probe(key).find_map(|cell| {
            let window = cell.get_or_init(|| Box::new(Window::new(key)));
            (window.key == key).then_some(window)
        });
        match mine {
            Some(window) => window.push(end, duration),
            None => {
                self.untracked.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The windows in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Window> {
        self.table.iter().filter_map(|cell| cell.get().map(|window| &**window))
    }

    /// Durations without a window.
    pub(crate) fn untracked(&self) -> u64 {
        self.untracked.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_units_are_separate_and_the_table_is_bounded() {
        let windows = Windows::new();
        let key = |name, in_ns| WindowKey { name, in_ns };
        for _ in 0..3 {
            windows.push(key(7, false), 10, 4);
            windows.push(key(7, true), 20, 5);
        }
        let totals: Vec<_> = windows.iter().map(|w| (w.key.in_ns, w.total(), w.ring.read(0).next)).collect();
        assert_eq!(totals, [(false, 12, 3), (true, 15, 3)]);
        for name in 0..10_000 {
            windows.push(key(name, false), 1, 1);
        }
        let kept: u64 = windows.iter().map(|w| w.ring.read(0).next).sum();
        assert_eq!(windows.iter().count(), WINDOWS);
        assert_eq!(kept + windows.untracked(), 10_006);
    }
}
