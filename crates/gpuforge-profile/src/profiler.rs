//! Profiler handle: the global profiler behind the macros, or a private one.

use crate::{
    category::Category,
    clock::{ClockChoice, OFF},
    collect,
    counter::{self, Counter, Gauge, MetricValue},
    name::SpanName,
    recent::{self, RecentStats},
    span::OwnedSpan,
    state::{FINISHED_RECORDS, GLOBAL, ProfilerState, RING_RECORDS},
    thread_log::ThreadLog,
    tls,
    trace::Trace,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Settings of a profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfilerConfig {
    /// Ring capacity per live thread in records, rounded up to a power of two minus one; then the oldest are dropped.
    pub ring_records: usize,
    /// Records kept of all ended threads; then the oldest are dropped.
    pub finished_records: usize,
    /// Which clock.
    pub clock: ClockChoice,
}

impl Default for ProfilerConfig {
    fn default() -> Self {
        let (ring_records, finished_records) = (RING_RECORDS, FINISHED_RECORDS);
        ProfilerConfig { ring_records, finished_records, clock: ClockChoice::Auto }
    }
}

/// Records spans, counters and gauges. Clones share everything.
#[derive(Debug, Clone)]
pub struct Profiler {
    state: StateRef,
}

#[derive(Debug, Clone)]
enum StateRef {
    Global,
    Own(Arc<ProfilerState>),
}

/// A device queue or another timeline that is not a thread, from [`Profiler::track`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Track(u16);

impl Default for Profiler {
    fn default() -> Self {
        Profiler::new()
    }
}

impl Profiler {
    /// The global profiler, used by the macros.
    pub fn global() -> &'static Profiler {
        static PROFILER: Profiler = Profiler { state: StateRef::Global };
        &PROFILER
    }

    /// A private profiler, disabled.
    pub fn new() -> Self {
        Profiler::with_config(ProfilerConfig::default())
    }

    /// A private profiler with other settings, disabled.
    pub fn with_config(config: ProfilerConfig) -> Self {
        let state = ProfilerState::new(config.ring_records, config.finished_records, config.clock);
        Profiler { state: StateRef::Own(Arc::new(state)) }
    }

    pub(crate) fn state(&self) -> &ProfilerState {
        match &self.state {
            StateRef::Global => &GLOBAL,
            StateRef::Own(state) => state,
        }
    }

    /// This thread's log; `None` when its thread-locals are already destroyed.
    pub(crate) fn log(&self) -> Option<Arc<ThreadLog>> {
        match &self.state {
            StateRef::Global => tls::global(),
            StateRef::Own(state) => tls::of(state),
        }
    }

    /// Enables it. Spans that are already open stay unrecorded.
    pub fn enable(&self) {
        self.state().enable();
    }

    /// Disables it. Spans that are open are still recorded when they close.
    pub fn disable(&self) {
        self.state().disable();
    }

    /// Is it enabled?
    pub fn is_enabled(&self) -> bool {
        self.state().mode() != OFF
    }

    /// Changes [`ProfilerConfig::ring_records`] for threads without a log yet.
    pub fn set_ring_records(&self, records: usize) {
        self.state().set_ring_records(records);
    }

    /// Opens a span that closes when the guard is dropped.
    pub fn span(&self, name: impl SpanName, category: Category) -> OwnedSpan {
        match self.state().mode() {
            OFF => OwnedSpan::OFF,
            mode => match self.log() {
                Some(log) => OwnedSpan::open(self, log, name.resolve(), category, mode),
                None => {
                    self.state().count_dropped(1);
                    OwnedSpan::OFF
                }
            },
        }
    }

    /// Records a closure as a span.
    pub fn scope<R>(&self, name: impl SpanName, category: Category, f: impl FnOnce() -> R) -> R {
        let _span = self.span(name, category);
        f()
    }

    /// A timeline that is not a thread, such as a device queue. The same name gives the same track.
    pub fn track(&self, name: &str) -> Track {
        Track(self.state().track(name))
    }

    /// Records a span measured elsewhere, such as by device timestamps.
    ///
    /// A start before the profiler was first enabled is clamped to that time. Does nothing while disabled.
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
            self.state().record(log.as_deref(), name.resolve(), category, start, duration, track.0, bytes);
        }
    }

    /// A counter by name; created at its first [`Counter::add`] while the profiler is enabled.
    pub fn counter<'a>(&'a self, name: &'a str) -> Counter<'a> {
        Counter { profiler: self, name }
    }

    /// A gauge by name; created at its first [`Gauge::set`] while the profiler is enabled.
    pub fn gauge<'a>(&'a self, name: &'a str) -> Gauge<'a> {
        Gauge { profiler: self, name }
    }

    /// Current values of all counters and gauges, sorted by name. The cost depends on their number only.
    pub fn metric_values(&self) -> Vec<MetricValue> {
        counter::metric_values(self.state())
    }

    /// A trace of what was recorded since the last [`Profiler::drain`]; consumes nothing.
    pub fn snapshot(&self) -> Trace {
        collect::trace(self.state(), false)
    }

    /// A trace of what was recorded since the last call; consumes it. Over all drains, spans and samples plus
    /// [`Trace::dropped`] is exactly what was ever recorded.
    pub fn drain(&self) -> Trace {
        collect::trace(self.state(), true)
    }

    /// Averages over the last [`RECENT_CALLS`](crate::RECENT_CALLS) calls of each name, whatever the rings have dropped.
    pub fn recent(&self) -> Vec<RecentStats> {
        match self.state().clock() {
            Some(clock) => recent::recent(self.state(), clock.scale()).0,
            None => Vec::new(),
        }
    }
}
