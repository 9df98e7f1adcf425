//! Low-overhead profiler: spans, counters and gauges in per-thread ring buffers; statistics, percentiles and
//! Chrome trace/Perfetto export.
//!
//! # Design
//! ```text
//! span! ─► SpanSite (interned name, once) ─► Span guard ─┐                        ┌─► Trace::summary, bottlenecks,
//! #[profiled], scope ────────────────────────────────────┤ 4 words per record      │   breakdown, timeline (stats, timeline)
//! record (device time) ── nanoseconds, track ────────────┼─► ThreadLog ─► Trace ───┼─► JSON, version 1       (export/raw)
//! counter!, gauge! ── one sample per millisecond ────────┘   │            (data)    └─► Chrome/Perfetto JSON  (export/chrome)
//!                                                            └─► Windows: last 1000 durations per name ─► RecentStats
//! ```
//! * A **record** is four words: start, end, key (name id, category, depth, track), bytes. Ticks, not nanoseconds.
//! * A **ring buffer** per thread, single writer, lock-free, no unsafe code: the oldest record is overwritten, and counted.
//! * **Rolling windows** per thread and name keep the last 1000 durations, so averages survive the ring.
//! * A thread that ends hands its records to its profiler, which keeps them, within bounds, until they are collected.
//! * `snapshot` and `drain` convert ticks to nanoseconds with the rate measured over the whole run, and sort each track.
//! * Disabled, a span is one relaxed load and a branch. Nothing is allocated before the first span of a thread while enabled.
//! * Depth tells the nesting, so no parent id is stored. Not chosen: a queue to a collector thread (it costs a core and
//!   loses the end of a crash), `Instant` (two calls cost more than all the rest).
//!
//! | file | what is in it |
//! |---|---|
//! | `span.rs` · `name.rs` · `category.rs` | span guards; string interning and call sites; categories |
//! | `counter.rs` | counters and gauges |
//! | `clock.rs` | time-stamp counter or `Instant`; ticks to nanoseconds |
//! | `thread_log.rs` · `ring.rs` · `record.rs` · `zeroed.rs` | log of one thread; seqlock ring buffer; packed record; zeroed slots |
//! | `window.rs` · `recent.rs` | rolling window of durations; averages over the last calls |
//! | `profiler.rs` · `state.rs` · `tls.rs` | public handle; shared state of a profiler; thread-local logs |
//! | `collect.rs` · `trace.rs` | records to trace; the trace as plain data |
//! | `stats.rs` · `self_time.rs` · `timeline.rs` | percentiles, bottlenecks, breakdown; self times; busy time over time |
//! | `export/*` · `env.rs` · `error.rs` | JSON, Chrome trace events, files; `GPUFORGE_TRACE`; errors |
//!
//! # Use
//! ```
//! use gpuforge_profile::{Category, Profiler, counter, profiled, scope, span};
//!
//! #[profiled]
//! fn load(n: u64) -> u64 {
//!     let mut copy = span!("copy", Category::Transfer);
//!     copy.bytes(8 * n);
//!     counter!("bytes_uploaded").add(8 * n);
//!     n
//! }
//!
//! Profiler::global().enable();
//! let total: u64 = scope("all", || (0..10).map(load).sum());
//! let trace = Profiler::global().drain();
//! assert_eq!(total, 45);
//! assert_eq!(trace.summary().iter().map(|row| row.count).sum::<u64>(), 21);
//! assert_eq!(trace.counter("bytes_uploaded").map(|c| c.value), Some(360));
//! ```
//! Spans inside a `#[global_allocator]` are not supported: the first one of a thread allocates.

mod category;
mod clock;
mod collect;
mod counter;
mod env;
mod error;
mod export;
mod name;
mod profiler;
mod recent;
mod record;
mod ring;
#[cfg(test)]
mod ring_tests;
mod self_time;
mod span;
mod state;
mod stats;
mod sync;
#[cfg(test)]
mod test_trace;
mod thread_log;
mod timeline;
mod tls;
mod trace;
mod window;
mod zeroed;

pub use category::Category;
pub use clock::{ClockChoice, ClockInfo};
pub use counter::{Counter, CounterSite, Gauge, GaugeSite, MetricValue};
pub use env::{TRACE_VARIABLE, TraceGuard, trace_from_env};
pub use error::TraceError;
pub use export::TraceFormat;
pub use name::{MAX_NAME_BYTES, MAX_NAMES, Name, SpanName, SpanSite};
pub use profiler::{Profiler, ProfilerConfig, Track};
pub use recent::RecentStats;
pub use span::{AsyncSpan, OwnedSpan, Span};
pub use state::{FINISHED_RECORDS, RING_RECORDS};
pub use stats::{Bottleneck, Breakdown, PERCENTILE_DIGITS, SpanStats};
pub use timeline::{MAX_BUCKETS, TimelineBucket};
pub use trace::{CounterSeries, GaugeSeries, ProcessInfo, SpanRecord, Trace, TrackInfo, TrackKind, VERSION};
pub use window::RECENT_CALLS;

/// Records each call of a function as a span.
///
/// `#[profiled]` names the span after the function's path, with category `cpu`;
/// `#[profiled(name = "…", category = "cpu|gpu|transfer|wait|overhead")]` overrides both, and
/// `crate = "path"` is the path of gpuforge-profile when it is re-exported. Works on functions, methods and generics; not
/// on `const fn`.
///
/// An `async fn` is measured from its first poll to its completion, or to the drop of a future that was polled and not
/// completed: elapsed time, waiting included. A function that merely returns a future is measured until it returns it.
///
/// ```
/// use gpuforge_profile::profiled;
///
/// #[profiled(name = "dot", category = "cpu")]
/// fn dot<T: Copy + std::ops::Mul<Output = T> + std::iter::Sum>(a: &[T], b: &[T]) -> T {
///     a.iter().zip(b).map(|(a, b)| *a * *b).sum()
/// }
/// assert_eq!(dot(&[1, 2], &[3, 4]), 11);
/// ```
///
/// ```compile_fail
/// #[gpuforge_profile::profiled(category = "disk")]
/// fn load() {}
/// ```
///
/// ```compile_fail
/// #[gpuforge_profile::profiled]
/// const fn two() -> u8 { 2 }
/// ```
pub use gpuforge_profile_macros::profiled;

/// Opens a [`Span`] of the global profiler: `let _span = span!("name");` or `span!("name", Category::Wait)`.
///
/// The name is a constant; it is interned once per call site. For names made at run time see [`Span::named`].
#[macro_export]
macro_rules! span {
    ($name:expr $(,)?) => {
        $crate::span!($name, $crate::Category::Cpu)
    };
    ($name:expr, $category:expr $(,)?) => {{
        static SITE: $crate::SpanSite = $crate::SpanSite::new($name);
        $crate::Span::enter(&SITE, $category)
    }};
}

/// Opens an [`AsyncSpan`] of the global profiler, which may be held over an `.await`.
#[macro_export]
macro_rules! async_span {
    ($name:expr $(,)?) => {
        $crate::async_span!($name, $crate::Category::Cpu)
    };
    ($name:expr, $category:expr $(,)?) => {{
        static SITE: $crate::SpanSite = $crate::SpanSite::new($name);
        $crate::AsyncSpan::enter(&SITE, $category)
    }};
}

/// A counter of the global profiler, found once per call site: `counter!("bytes_uploaded").add(n)`.
#[macro_export]
macro_rules! counter {
    ($name:expr) => {{
        static SITE: $crate::CounterSite = $crate::CounterSite::new($name);
        &SITE
    }};
}

/// A gauge of the global profiler, found once per call site: `gauge!("used_bytes").set(v)`.
#[macro_export]
macro_rules! gauge {
    ($name:expr) => {{
        static SITE: $crate::GaugeSite = $crate::GaugeSite::new($name);
        &SITE
    }};
}

/// Records a closure as a span of the global profiler, category `cpu`; [`Span::named`] takes another category.
#[inline]
pub fn scope<R>(name: impl SpanName, f: impl FnOnce() -> R) -> R {
    let _span = Span::named(name, Category::Cpu);
    f()
}

/// A counter of the global profiler by name; [`counter!`] is faster.
pub fn counter(name: &str) -> Counter<'_> {
    Profiler::global().counter(name)
}

/// A gauge of the global profiler by name; [`gauge!`] is faster.
pub fn gauge(name: &str) -> Gauge<'_> {
    Profiler::global().gauge(name)
}
