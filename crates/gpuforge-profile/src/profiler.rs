//! How is profiling used? The global profiler behind the macros, or one of your own.

use crate::{
    category::Category,
    clock::{ClockChoice, OFF},
    collect,
    counter::{self, Counter, Gauge, Level},
    local,
    log::ThreadLog,
    name::SpanName,
    recent::{self, Recent},
    shared::{FINISHED_RECORDS, GLOBAL, RING_RECORDS, Shared},
    span::OwnedSpan,
    trace::Trace,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Bounds of a profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Records kept per running thread, rounded up to a power of two less one; then the oldest are dropped.
    pub ring_records: usize,
    /// Records kept of threads that ended, all together; then the oldest are dropped.
    pub finished_records: usize,
    /// Which clock.
    pub clock: ClockChoice,
}

impl Default for Config {
    fn default() -> Self {
        let (ring_records, finished_records) = (RING_RECORDS, FINISHED_RECORDS);
        Config { ring_records, finished_records, clock: ClockChoice::Auto }
    }
}

/// Where spans are recorded. Clones share everything.
#[derive(Debug, Clone)]
pub struct Profiler {
    home: Home,
}

#[derive(Debug, Clone)]
enum Home {
    Global,
    Own(Arc<Shared>),
}

/// A device or another timeline that is no thread, from [`Profiler::track`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Track(u16);

impl Default for Profiler {
    fn default() -> Self {
        Profiler::new()
    }
}

impl Profiler {
    /// The one the macros write to.
    pub fn global() -> &'static Profiler {
        static PROFILER: Profiler = Profiler { home: Home::Global };
        &PROFILER
    }

    /// A profiler of its own, switched off.
    pub fn new() -> Self {
        Profiler::with_config(Config::default())
    }

    /// A profiler of its own with other bounds, switched off.
    pub fn with_config(config: Config) -> Self {
        let shared = Shared::new(config.ring_records, config.finished_records, config.clock);
        Profiler { home: Home::Own(Arc::new(shared)) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        match &self.home {
            Home::Global => &GLOBAL,
            Home::Own(shared) => shared,
        }
    }

    /// This thread's log; `None` when the thread is past its end.
    pub(crate) fn log(&self) -> Option<Arc<ThreadLog>> {
        match &self.home {
            Home::Global => local::global(),
            Home::Own(shared) => local::of(shared),
        }
    }

    /// Switches it on. Spans that are open already stay unrecorded.
    pub fn enable(&self) {
        self.shared().enable();
    }

    /// Switches it off. Spans that are open are still recorded when they close.
    pub fn disable(&self) {
        self.shared().disable();
    }

    /// Is it on?
    pub fn is_enabled(&self) -> bool {
        self.shared().mode() != OFF
    }

    /// Changes [`Config::ring_records`] for threads that have not recorded anything yet.
    pub fn set_ring_records(&self, records: usize) {
        self.shared().set_ring_records(records);
    }

    /// Opens a span that closes when the guard is dropped.
    pub fn span(&self, name: impl SpanName, category: Category) -> OwnedSpan {
        match self.shared().mode() {
            OFF => OwnedSpan::OFF,
            mode => match self.log() {
                Some(log) => OwnedSpan::open(self, log, name.resolve(), category, mode),
                None => {
                    self.shared().lose(1);
                    OwnedSpan::OFF
                }
            },
        }
    }

    /// Measures a closure as a span.
    pub fn scope<R>(&self, name: impl SpanName, category: Category, f: impl FnOnce() -> R) -> R {
        let _span = self.span(name, category);
        f()
    }

    /// A timeline that is no thread: a device queue, say. The same name gives the same track.
    pub fn track(&self, name: &str) -> Track {
        Track(self.shared().track(name))
    }

    /// Records a span whose time was taken elsewhere, such as by a device's time stamps.
    ///
    /// What began before the profiler was first switched on is moved to that moment. Does nothing while it is off.
    pub fn record(
        &self,
        name: impl SpanName,
        category: Category,
        start: Instant,
        duration: Duration,
        track: Track,
    ) {
        self.record_external(name, category, start, duration, track, None);
    }

    /// [`Profiler::record`] with the number of bytes the span moved or computed on.
    pub fn record_bytes(
        &self,
        name: impl SpanName,
        category: Category,
        start: Instant,
        duration: Duration,
        track: Track,
        bytes: u64,
    ) {
        self.record_external(name, category, start, duration, track, Some(bytes));
    }

    fn record_external(
        &self,
        name: impl SpanName,
        category: Category,
        start: Instant,
        duration: Duration,
        track: Track,
        bytes: Option<u64>,
    ) {
        if self.is_enabled() {
            let log = self.log();
            self.shared().record(log.as_deref(), name.resolve(), category, start, duration, track.0, bytes);
        }
    }

    /// A counter by name; it comes to life at its first [`Counter::add`] while the profiler is on.
    pub fn counter<'a>(&'a self, name: &'a str) -> Counter<'a> {
        Counter { home: self, name }
    }

    /// A gauge by name; it comes to life at its first [`Gauge::set`] while the profiler is on.
    pub fn gauge<'a>(&'a self, name: &'a str) -> Gauge<'a> {
        Gauge { home: self, name }
    }

    /// What every counter and gauge holds now, by name. Costs as much as there are of them, whatever was recorded.
    pub fn levels(&self) -> Vec<Level> {
        counter::levels(self.shared())
    }

    /// What was recorded since the last [`Profiler::drain`], left in place.
    pub fn snapshot(&self) -> Trace {
        collect::trace(self.shared(), false)
    }

    /// What was recorded since the last call, taken out. Over all drains, spans and samples recorded plus
    /// [`Trace::dropped`] is exactly what was ever recorded.
    pub fn drain(&self) -> Trace {
        collect::trace(self.shared(), true)
    }

    /// Averages over the last [`RECENT`](crate::RECENT) calls of each name, whatever the rings have dropped.
    pub fn recent(&self) -> Vec<Recent> {
        match self.shared().clock() {
            Some(clock) => recent::recent(self.shared(), clock.scale()).0,
            None => Vec::new(),
        }
    }
}
