//! Span guards (RAII): read the clock when opened and when dropped, and append a record to the thread's log.

use crate::{
    category::Category,
    clock::{self, OFF},
    name::{Name, SpanName, SpanSite},
    profiler::Profiler,
    record::{Key, RecordKind, WORDS, pack_bytes},
    state::{ASYNC_TRACK, GLOBAL},
    thread_log::ThreadLog,
    tls,
};
use std::{marker::PhantomData, sync::Arc, time::Instant};

/// An open span of the global profiler; closes when dropped, also while a panic unwinds.
///
/// Made by [`span!`](crate::span!). Stays on its thread: a span that moves between threads is [`AsyncSpan`].
/// One that was opened while the profiler was enabled is recorded even if the profiler is disabled before it closes;
/// one that was opened while disabled is never recorded.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: bind it to a name"]
pub struct Span {
    open: OpenSpan,
    _on_one_thread: PhantomData<*const ()>,
}

/// State of an open span.
#[derive(Debug)]
struct OpenSpan {
    start: u64,
    name: u32,
    bytes: u64,
    depth: u16,
    category: Category,
    mode: u8,
}

impl OpenSpan {
    #[inline]
    const fn off() -> OpenSpan {
        OpenSpan { start: 0, name: 0, bytes: 0, depth: 0, category: Category::Cpu, mode: OFF }
    }

    /// The clock is read last on entry and first on exit: a span does not measure its own cost.
    #[inline]
    fn on(depth: u16, name: Name, category: Category, mode: u8) -> OpenSpan {
        OpenSpan { name: name.id(), bytes: 0, depth, category, mode, start: clock::ticks(mode) }
    }

    #[inline]
    fn record(&self, end: u64) -> [u64; WORDS] {
        let key = Key { name: self.name, kind: RecordKind::Span(self.category), depth: self.depth, track: 0 };
        [self.start, end, key.pack(), self.bytes]
    }
}

impl Span {
    /// Opens a span; [`span!`](crate::span!) calls this with its call site.
    #[inline]
    pub fn enter(site: &SpanSite, category: Category) -> Span {
        match GLOBAL.mode() {
            OFF => Span::off(),
            mode => Span::on(site.name(), category, mode),
        }
    }

    /// Opens a span with an interned name, for names made at run time.
    #[inline]
    pub fn named(name: impl SpanName, category: Category) -> Span {
        match GLOBAL.mode() {
            OFF => Span::off(),
            mode => Span::on(name.resolve(), category, mode),
        }
    }

    #[inline]
    const fn off() -> Span {
        Span { open: OpenSpan::off(), _on_one_thread: PhantomData }
    }

    #[inline]
    fn on(name: Name, category: Category, mode: u8) -> Span {
        match open_global() {
            Some(depth) => {
                Span { open: OpenSpan::on(depth, name, category, mode), _on_one_thread: PhantomData }
            }
            None => Span::off(),
        }
    }

    /// Sets the number of bytes the span moved or computed on.
    #[inline]
    pub fn bytes(&mut self, bytes: u64) {
        self.open.bytes = pack_bytes(bytes);
    }

    /// Will this span be recorded?
    pub fn is_recording(&self) -> bool {
        self.open.mode != OFF
    }
}

impl Drop for Span {
    #[inline]
    fn drop(&mut self) {
        if self.open.mode != OFF {
            let [start, end, key, bytes] = self.open.record(clock::ticks(self.open.mode));
            close_global(self.open.depth, start, end, key, bytes);
        }
    }
}

// The two functions below take and return plain integers, so that a guard stays in registers: while the profiler is
// disabled, nothing of it is written to the stack.

/// A thread whose thread-locals are destroyed has no log; its spans are counted as dropped.
#[inline(never)]
fn open_global() -> Option<u16> {
    let depth = tls::with_global(ThreadLog::open);
    if depth.is_none() {
        GLOBAL.count_dropped(1);
    }
    depth
}

#[inline(never)]
fn close_global(depth: u16, start: u64, end: u64, key: u64, bytes: u64) {
    if tls::with_global(|log| log.close(depth, [start, end, key, bytes])).is_none() {
        GLOBAL.count_dropped(1);
    }
}

/// An open span of any [`Profiler`](crate::Profiler), made by [`Profiler::span`](crate::Profiler::span).
///
/// Slightly more expensive than [`Span`]: it holds a reference to the thread's log.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: bind it to a name"]
pub struct OwnedSpan {
    open: Option<(Arc<ThreadLog>, OpenSpan)>,
    profiler: Option<Profiler>,
    _on_one_thread: PhantomData<*const ()>,
}

impl OwnedSpan {
    pub(crate) const OFF: OwnedSpan = OwnedSpan { open: None, profiler: None, _on_one_thread: PhantomData };

    pub(crate) fn open(
        profiler: &Profiler,
        log: Arc<ThreadLog>,
        name: Name,
        category: Category,
        mode: u8,
    ) -> Self {
        let profiler = Some(profiler.clone());
        let open = OpenSpan::on(log.open(), name, category, mode);
        OwnedSpan { open: Some((log, open)), profiler, _on_one_thread: PhantomData }
    }

    /// Sets the number of bytes the span moved or computed on.
    pub fn bytes(&mut self, bytes: u64) {
        if let Some((_, open)) = &mut self.open {
            open.bytes = pack_bytes(bytes);
        }
    }

    /// Will this span be recorded?
    pub fn is_recording(&self) -> bool {
        self.open.is_some()
    }
}

impl Drop for OwnedSpan {
    fn drop(&mut self) {
        if let Some((log, open)) = &self.open {
            let record = open.record(clock::ticks(open.mode));
            match &self.profiler {
                Some(profiler) if log.is_retired() => profiler.state().count_dropped(1),
                _ => log.close(open.depth, record),
            }
        }
    }
}

/// An open span that may end on another thread: what `#[profiled]` puts into an `async fn`.
///
/// It is elapsed time, waiting included, and overlaps what its threads did meanwhile. So it has its own track and is
/// excluded from self times and breakdowns.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: bind it to a name"]
pub struct AsyncSpan {
    open: Option<(Name, Category, Instant)>,
}

impl AsyncSpan {
    /// Opens a span; [`async_span!`](crate::async_span!) calls this with its call site.
    pub fn enter(site: &SpanSite, category: Category) -> AsyncSpan {
        let on = GLOBAL.mode() != OFF;
        AsyncSpan { open: on.then(|| (site.name(), category, Instant::now())) }
    }
}

impl Drop for AsyncSpan {
    fn drop(&mut self) {
        if let Some((name, category, start)) = self.open {
            let log = tls::global();
            GLOBAL.record(log.as_deref(), name, category, start, start.elapsed(), ASYNC_TRACK, None);
        }
    }
}
