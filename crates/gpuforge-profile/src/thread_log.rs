//! Log of one thread: ring buffer of records, nesting depth, rolling windows.
//!
//! Written only by its thread, read by whichever thread takes a trace.

use crate::{
    record::{Key, RecordKind, WORDS},
    ring::Ring,
    sync::Ordering,
    window::{WindowKey, Windows},
    zeroed::zeroed,
};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Bounds of the ring size.
const MIN_SLOTS: usize = 16;
const MAX_SLOTS: usize = 1 << 24;

/// Records of one thread.
#[derive(Debug)]
pub(crate) struct ThreadLog {
    pub(crate) ring: Ring<WORDS>,
    depth: AtomicU32,
    pub(crate) windows: Windows,
    /// Number of the thread within its profiler, from 1.
    pub(crate) thread: u32,
    /// Name of the thread, if it has one.
    pub(crate) name: Option<String>,
    /// The profiler has collected this log; later records are dropped.
    retired: AtomicBool,
}

impl ThreadLog {
    /// A log that keeps at least the last `records`, within bounds.
    pub(crate) fn new(records: usize, thread: u32, name: Option<String>) -> Self {
        let slots = records.saturating_add(1).clamp(MIN_SLOTS, MAX_SLOTS).next_power_of_two();
        ThreadLog {
            ring: Ring::new(zeroed(slots)),
            depth: AtomicU32::new(0),
            windows: Windows::new(),
            thread,
            name,
            retired: AtomicBool::new(false),
        }
    }

    /// Enters a span and returns its depth.
    #[inline]
    pub(crate) fn open(&self) -> u16 {
        let depth = self.depth.load(Ordering::Relaxed);
        self.depth.store(depth.saturating_add(1), Ordering::Relaxed);
        depth.min(u32::from(u16::MAX)) as u16
    }

    /// Leaves the span of that depth and records it.
    ///
    /// Guards dropped out of order set the depth to the outermost closed one, so it cannot drift.
    #[inline]
    pub(crate) fn close(&self, depth: u16, record: [u64; WORDS]) {
        if depth < u16::MAX {
            let open = self.depth.load(Ordering::Relaxed);
            self.depth.store(open.min(u32::from(depth)), Ordering::Relaxed);
        }
        self.push(record);
    }

    /// Marks the thread as ended.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Has the thread ended? For guards that outlive the thread-local log.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Appends a record, and its duration to the rolling window of its name.
    ///
    /// Both at once: folding records into the windows in batches was slower, because here the CPU overlaps it with the
    /// latency of the clock read.
    #[inline]
    pub(crate) fn push(&self, record: [u64; WORDS]) {
        self.ring.push(record);
        if let Some((key, end, duration)) = duration_of(record) {
            self.windows.push(key, end, duration);
        }
    }
}

/// The duration of a record; `None` if it is not a span. A clock that ran backwards gives 0.
#[inline]
fn duration_of([start, end, key, _]: [u64; WORDS]) -> Option<(WindowKey, u64, u64)> {
    let key = Key::unpack(key)?;
    let RecordKind::Span(_) = key.kind else { return None };
    Some((WindowKey { name: key.name, in_ns: key.track != 0 }, end, end.saturating_sub(start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Category;

    fn span(name: u32, start: u64, end: u64) -> [u64; WORDS] {
        [start, end, Key { name, kind: RecordKind::Span(Category::Cpu), depth: 0, track: 0 }.pack(), 0]
    }

    #[test]
    fn depth_is_right_for_guards_dropped_out_of_order() {
        let log = ThreadLog::new(100, 1, None);
        let (a, b) = (log.open(), log.open());
        assert_eq!((a, b), (0, 1));
        log.close(a, span(1, 0, 1));
        let c = log.open();
        log.close(b, span(1, 0, 1));
        log.close(c, span(1, 0, 1));
        assert_eq!(log.open(), 0);
        // A forgotten guard is corrected by the enclosing one.
        let outer = log.open();
        log.open();
        log.close(outer, span(1, 0, 1));
        assert_eq!(log.open(), 1);
    }

    #[test]
    fn windows_cover_every_span_for_any_ring_size() {
        let log = ThreadLog::new(40, 1, None);
        for i in 0..1000 {
            log.push(span(3, i, i + 2));
            // A clock that goes backwards is a duration of 0, not a huge one.
            log.push(span(4, i, i.saturating_sub(1)));
        }
        let seen: Vec<_> = log.windows.iter().map(|w| (w.key.name, w.ring.read(0).next, w.total())).collect();
        assert_eq!(seen, [(3, 1000, 2000), (4, 1000, 0)]);
    }

    #[test]
    fn samples_have_no_duration() {
        let key = Key { name: 1, kind: RecordKind::Counter, depth: 0, track: 0 };
        assert_eq!(duration_of([1, 2, key.pack(), 0]), None);
        assert_eq!(duration_of([1, 2, 7 << 24, 0]), None);
    }
}
