//! What were the last thousand durations of a name? A small ring per name that outlives the big one of the thread.
//!
//! An average over the last 1000 calls stays right when the log itself has long overwritten them.

use crate::{
    ring::Ring,
    sync::{AtomicU64, Ordering},
    zeroed::zeroed,
};
use std::sync::OnceLock;

/// How many durations an average covers.
pub const RECENT: usize = 1000;

/// Power of two above [`RECENT`]; the ring of a window holds one less.
const SLOTS: usize = 1024;

/// Names a thread keeps windows for, and how far a name may lie from its place in the table.
const WINDOWS: usize = 256;
const PROBES: usize = 16;

/// Tells a name's nanosecond records (tracks) from its tick records (threads): the two are never added up raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowKey {
    pub(crate) name: u32,
    pub(crate) in_ns: bool,
}

/// The last durations of one name on one thread.
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
    /// Durations of names for which there was no place.
    homeless: AtomicU64,
}

impl Windows {
    pub(crate) fn new() -> Self {
        Windows { table: (0..WINDOWS).map(|_| OnceLock::new()).collect(), homeless: AtomicU64::new(0) }
    }

    /// The places a name may have, nearest first.
    #[inline]
    fn places(&self, key: WindowKey) -> impl Iterator<Item = &OnceLock<Box<Window>>> {
        let place = (key.name as usize).wrapping_mul(2) + usize::from(key.in_ns);
        (0..PROBES).filter_map(move |step| self.table.get((place + step) % WINDOWS))
    }

    /// Adds a duration. Only the owner thread calls this.
    #[inline]
    pub(crate) fn push(&self, key: WindowKey, end: u64, duration: u64) {
        let mine = self.places(key).find_map(|cell| {
            let window = cell.get_or_init(|| Box::new(Window::new(key)));
            (window.key == key).then_some(window)
        });
        match mine {
            Some(window) => window.push(end, duration),
            None => {
                self.homeless.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The windows in use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Window> {
        self.table.iter().filter_map(|cell| cell.get().map(|window| &**window))
    }

    /// Durations that no window took.
    pub(crate) fn homeless(&self) -> u64 {
        self.homeless.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_units_are_kept_apart_and_the_table_is_bounded() {
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
        assert_eq!(kept + windows.homeless(), 10_006);
    }
}
