//! Counters (monotonic) and gauges (last value, min, max), sampled into the trace at most once per millisecond.
//!
//! A value is one atomic. Changes are sampled into the log of the thread that makes them, rate-limited per name, so that
//! a counter in a hot loop cannot evict the spans from the ring.

use crate::{
    clock::{OFF, TSC, ticks},
    name::{SpanSite, text_of},
    profiler::Profiler,
    record::{Key, RecordKind},
    state::{GLOBAL, ProfilerState},
    thread_log::ThreadLog,
    tls,
};
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// A counter or a gauge of one profiler.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: u32,
    pub(crate) kind: RecordKind,
    /// A count, or the bits of a float.
    value: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    /// Time of the last sample, 0 before the first.
    sampled: AtomicU64,
}

/// Current value of a counter or gauge, from [`Profiler::metric_values`].
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// A monotonic counter.
    Counter {
        /// Its name.
        name: String,
        /// The total so far.
        value: u64,
    },
    /// A gauge.
    Gauge {
        /// Its name.
        name: String,
        /// The last value.
        value: f64,
        /// Smallest value it was ever set to.
        min: f64,
        /// Largest value it was ever set to.
        max: f64,
    },
}

impl MetricValue {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            MetricValue::Counter { name, .. } | MetricValue::Gauge { name, .. } => name,
        }
    }
}

/// All counters and gauges in use, sorted by name; reads no ring.
pub(crate) fn metric_values(state: &ProfilerState) -> Vec<MetricValue> {
    let one = |metric: &Arc<Metric>| {
        let name = text_of(metric.name)?.to_string();
        Some(match metric.kind {
            RecordKind::Gauge => {
                let (min, max) = metric.range()?;
                MetricValue::Gauge { name, value: f64::from_bits(metric.value()), min, max }
            }
            _ => MetricValue::Counter { name, value: metric.value() },
        })
    };
    let mut all: Vec<MetricValue> = state.metrics().iter().filter_map(one).collect();
    all.sort_by(|a, b| a.name().cmp(b.name()));
    all
}

/// Sampling period in ticks: about a millisecond at 2 to 3 GHz, exactly one in nanoseconds.
const fn period(mode: u8) -> u64 {
    if mode == TSC { 1 << 21 } else { 1_000_000 }
}

impl Metric {
    pub(crate) fn new(name: u32, kind: RecordKind) -> Self {
        let bits = |value: f64| AtomicU64::new(value.to_bits());
        Metric {
            name,
            kind,
            value: AtomicU64::new(0),
            min: bits(f64::INFINITY),
            max: bits(f64::NEG_INFINITY),
            sampled: AtomicU64::new(0),
        }
    }

    /// The count, or the bits of the gauge.
    pub(crate) fn value(&self) -> u64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Min and max a gauge was ever set to; `None` before the first.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let min = f64::from_bits(self.min.load(Ordering::Relaxed));
        let max = f64::from_bits(self.max.load(Ordering::Relaxed));
        (min <= max).then_some((min, max))
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
        let keep = |extreme: &AtomicU64, better: fn(f64, f64) -> bool| {
            let old = extreme.load(Ordering::Relaxed);
            if better(value, f64::from_bits(old)) {
                let swap = |bits| better(value, f64::from_bits(bits)).then(|| value.to_bits());
                // An error means that another thread already set a more extreme value.
                extreme.fetch_update(Ordering::Relaxed, Ordering::Relaxed, swap).ok();
            }
        };
        keep(&self.min, |new, old| new < old);
        keep(&self.max, |new, old| new > old);
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

fn push(log: Option<&ThreadLog>, state: &ProfilerState, record: [u64; 4]) {
    match log {
        Some(log) => log.push(record),
        None => state.count_dropped(1),
    }
}

/// A counter by name, from [`Profiler::counter`]. Looked up at each call; [`counter!`](crate::counter!) does it once.
#[derive(Debug, Clone, Copy)]
pub struct Counter<'a> {
    pub(crate) profiler: &'a Profiler,
    pub(crate) name: &'a str,
}

impl Counter<'_> {
    /// Adds `n`. Does nothing while the profiler is off.
    pub fn add(self, n: u64) {
        let state = self.profiler.state();
        match state.mode() {
            OFF => {}
            mode => state
                .metric(self.name, RecordKind::Counter)
                .add(n, mode, |record| push(self.profiler.log().as_deref(), state, record)),
        }
    }
}

/// A gauge by name, from [`Profiler::gauge`]. Looked up at each call; [`gauge!`](crate::gauge!) does it once.
#[derive(Debug, Clone, Copy)]
pub struct Gauge<'a> {
    pub(crate) profiler: &'a Profiler,
    pub(crate) name: &'a str,
}

impl Gauge<'_> {
    /// Sets the value. Does nothing while the profiler is off, or when the value is not finite.
    pub fn set(self, value: f64) {
        let state = self.profiler.state();
        match state.mode() {
            OFF => {}
            mode => state
                .metric(self.name, RecordKind::Gauge)
                .set(value, mode, |record| push(self.profiler.log().as_deref(), state, record)),
        }
    }
}

/// A call site of [`counter!`](crate::counter!): resolves its counter of the global profiler once.
#[derive(Debug)]
pub struct CounterSite {
    site: SpanSite,
    metric: OnceLock<Arc<Metric>>,
}

/// A call site of [`gauge!`](crate::gauge!): resolves its gauge of the global profiler once.
#[derive(Debug)]
pub struct GaugeSite {
    site: SpanSite,
    metric: OnceLock<Arc<Metric>>,
}

fn push_global(record: [u64; 4]) {
    if tls::with_global(|log| log.push(record)).is_none() {
        GLOBAL.count_dropped(1);
    }
}

impl CounterSite {
    /// An unresolved call site.
    pub const fn new(name: &'static str) -> Self {
        CounterSite { site: SpanSite::new(name), metric: OnceLock::new() }
    }

    /// Adds `n`. Does nothing while the profiler is off.
    #[inline]
    pub fn add(&self, n: u64) {
        match GLOBAL.mode() {
            OFF => {}
            mode => self.metric.get_or_init(|| GLOBAL.metric_of(self.site.name(), RecordKind::Counter)).add(
                n,
                mode,
                push_global,
            ),
        }
    }
}

impl GaugeSite {
    /// An unresolved call site.
    pub const fn new(name: &'static str) -> Self {
        GaugeSite { site: SpanSite::new(name), metric: OnceLock::new() }
    }

    /// Sets the value. Does nothing while the profiler is off, or when the value is not finite.
    #[inline]
    pub fn set(&self, value: f64) {
        match GLOBAL.mode() {
            OFF => {}
            mode => self.metric.get_or_init(|| GLOBAL.metric_of(self.site.name(), RecordKind::Gauge)).set(
                value,
                mode,
                push_global,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_values_are_sorted_and_only_those_in_use() {
        let profiler = Profiler::new();
        profiler.counter("level/off").add(1);
        assert_eq!(profiler.metric_values(), []);
        profiler.enable();
        profiler.gauge("level/b").set(2.0);
        profiler.gauge("level/b").set(-1.0);
        profiler.gauge("level/never").set(f64::NAN);
        profiler.counter("level/a").add(3);
        profiler.counter("level/a").add(4);
        let a = MetricValue::Counter { name: "level/a".to_owned(), value: 7 };
        let b = MetricValue::Gauge { name: "level/b".to_owned(), value: -1.0, min: -1.0, max: 2.0 };
        assert_eq!(profiler.metric_values(), [a, b]);
    }
}
