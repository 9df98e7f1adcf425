//! How much, and how full? Counters that only grow and gauges that hold their last value.
//!
//! A value is one atomic. Changes are sampled into the log of the thread that makes them, at most one about every
//! millisecond per name, so that a counter in a hot loop cannot push the spans out of the ring.

use crate::{
    clock::{OFF, TSC, ticks},
    local,
    log::ThreadLog,
    name::{Site, text_of},
    profiler::Profiler,
    record::{Key, Kind},
    shared::{GLOBAL, Shared},
};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// A counter or a gauge of one profiler.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) name: u32,
    pub(crate) kind: Kind,
    /// A count, or the bits of a float.
    value: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
    /// Time of the last sample, 0 before the first.
    sampled: AtomicU64,
}

/// What a counter or a gauge holds now, from [`Profiler::levels`].
#[derive(Debug, Clone, PartialEq)]
pub enum Level {
    /// It only grows.
    Counter {
        /// Its name.
        name: String,
        /// How much there was so far.
        value: u64,
    },
    /// It holds its last value.
    Gauge {
        /// Its name.
        name: String,
        /// The last value.
        value: f64,
        /// The least it was ever set to.
        least: f64,
        /// The most it was ever set to.
        most: f64,
    },
}

impl Level {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Level::Counter { name, .. } | Level::Gauge { name, .. } => name,
        }
    }
}

/// Every counter and gauge that came to life, by name; reads no ring.
pub(crate) fn levels(shared: &Shared) -> Vec<Level> {
    let one = |cell: &Arc<Cell>| {
        let name = text_of(cell.name)?.to_string();
        Some(match cell.kind {
            Kind::Gauge => {
                let (least, most) = cell.range()?;
                Level::Gauge { name, value: f64::from_bits(cell.value()), least, most }
            }
            _ => Level::Counter { name, value: cell.value() },
        })
    };
    let mut all: Vec<Level> = shared.cells().iter().filter_map(one).collect();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    all
}

/// Ticks between two samples: about a millisecond at 2 to 3 GHz, a millisecond exactly in nanoseconds.
const fn period(mode: u8) -> u64 {
    if mode == TSC { 1 << 21 } else { 1_000_000 }
}

impl Cell {
    pub(crate) fn new(name: u32, kind: Kind) -> Self {
        let bits = |value: f64| AtomicU64::new(value.to_bits());
        Cell {
            name,
            kind,
            value: AtomicU64::new(0),
            least: bits(f64::INFINITY),
            most: bits(f64::NEG_INFINITY),
            sampled: AtomicU64::new(0),
        }
    }

    /// The count, or the bits of the gauge.
    pub(crate) fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Least and greatest value a gauge was ever set to; `None` before the first.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let least = f64::from_bits(self.least.load(Ordering::Relaxed));
        let most = f64::from_bits(self.most.load(Ordering::Relaxed));
        (least <= most).then_some((least, most))
    }

    fn add(&self, n: u64, mode: u8, log: impl FnOnce([u64; 4])) {
        let value = self.value.fetch_add(n, Ordering::Relaxed).wrapping_add(n);
        self.sample(value, mode, log);
    }

    fn set(&self, value: f64, mode: u8, log: impl FnOnce([u64; 4])) {
        if !value.is_finite() {
            return;
        }
        self.value.store(value.to_bits(), Ordering::Relaxed);
        let keep = |place: &AtomicU64, better: fn(f64, f64) -> bool| {
            let old = place.load(Ordering::Relaxed);
            if better(value, f64::from_bits(old)) {
                let swap = |bits| better(value, f64::from_bits(bits)).then(|| value.to_bits());
                // An error means that another thread set something better still.
                place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, swap).ok();
            }
        };
        keep(&self.least, |new, old| new < old);
        keep(&self.most, |new, old| new > old);
        self.sample(value.to_bits(), mode, log);
    }

    fn sample(&self, value: u64, mode: u8, log: impl FnOnce([u64; 4])) {
        let (now, last) = (ticks(mode), self.sampled.load(Ordering::Relaxed));
        let due = last == 0 || now.saturating_sub(last) >= period(mode);
        let mine =
            due && self.sampled.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine {
            let key = Key { name: self.name, kind: self.kind, depth: 0, track: 0 };
            log([now, value, key.pack(), 0]);
        }
    }
}

fn push(log: Option<&ThreadLog>, home: &Shared, record: [u64; 4]) {
    match log {
        Some(log) => log.push(record),
        None => home.lose(1),
    }
}

/// A counter by name, from [`Profiler::counter`]. Looked up at each call; [`counter!`](crate::counter!) does it once.
#[derive(Debug, Clone, Copy)]
pub struct Counter<'a> {
    pub(crate) home: &'a Profiler,
    pub(crate) name: &'a str,
}

impl Counter<'_> {
    /// Adds `n`. Does nothing while the profiler is off.
    pub fn add(self, n: u64) {
        let shared = self.home.shared();
        match shared.mode() {
            OFF => {}
            mode => shared
                .cell(self.name, Kind::Counter)
                .add(n, mode, |record| push(self.home.log().as_deref(), shared, record)),
        }
    }
}

/// A gauge by name, from [`Profiler::gauge`]. Looked up at each call; [`gauge!`](crate::gauge!) does it once.
#[derive(Debug, Clone, Copy)]
pub struct Gauge<'a> {
    pub(crate) home: &'a Profiler,
    pub(crate) name: &'a str,
}

impl Gauge<'_> {
    /// Sets the value. Does nothing while the profiler is off, or when the value is not finite.
    pub fn set(self, value: f64) {
        let shared = self.home.shared();
        match shared.mode() {
            OFF => {}
            mode => shared
                .cell(self.name, Kind::Gauge)
                .set(value, mode, |record| push(self.home.log().as_deref(), shared, record)),
        }
    }
}

/// A call site of [`counter!`](crate::counter!): finds its counter of the global profiler once.
#[derive(Debug)]
pub struct CounterSite {
    site: Site,
    cell: OnceLock<Arc<Cell>>,
}

/// A call site of [`gauge!`](crate::gauge!): finds its gauge of the global profiler once.
#[derive(Debug)]
pub struct GaugeSite {
    site: Site,
    cell: OnceLock<Arc<Cell>>,
}

fn to_global(record: [u64; 4]) {
    if local::with_global(|log| log.push(record)).is_none() {
        GLOBAL.lose(1);
    }
}

impl CounterSite {
    /// A site that has not been passed yet.
    pub const fn new(name: &'static str) -> Self {
        CounterSite { site: Site::new(name), cell: OnceLock::new() }
    }

    /// Adds `n`. Does nothing while the profiler is off.
    #[inline]
    pub fn add(&self, n: u64) {
        match GLOBAL.mode() {
            OFF => {}
            mode => self
                .cell
                .get_or_init(|| GLOBAL.cell_of(self.site.name(), Kind::Counter))
                .add(n, mode, to_global),
        }
    }
}

impl GaugeSite {
    /// A site that has not been passed yet.
    pub const fn new(name: &'static str) -> Self {
        GaugeSite { site: Site::new(name), cell: OnceLock::new() }
    }

    /// Sets the value. Does nothing while the profiler is off, or when the value is not finite.
    #[inline]
    pub fn set(&self, value: f64) {
        match GLOBAL.mode() {
            OFF => {}
            mode => self
                .cell
                .get_or_init(|| GLOBAL.cell_of(self.site.name(), Kind::Gauge))
                .set(value, mode, to_global),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_by_name_and_only_once_they_live() {
        let profiler = Profiler::new();
        profiler.counter("level/off").add(1);
        assert_eq!(profiler.levels(), []);
        profiler.enable();
        profiler.gauge("level/b").set(2.0);
        profiler.gauge("level/b").set(-1.0);
        profiler.gauge("level/never").set(f64::NAN);
        profiler.counter("level/a").add(3);
        profiler.counter("level/a").add(4);
        let a = Level::Counter { name: "level/a".to_owned(), value: 7 };
        let b = Level::Gauge { name: "level/b".to_owned(), value: -1.0, least: -1.0, most: 2.0 };
        assert_eq!(profiler.levels(), [a, b]);
    }
}
