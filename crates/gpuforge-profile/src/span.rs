//! How does a piece of code become a span? By a guard that reads the clock when made and again when dropped.

use crate::{
    category::Category,
    clock::{self, OFF},
    local,
    log::ThreadLog,
    name::{Name, Site, SpanName},
    profiler::Profiler,
    record::{Key, Kind, WORDS, pack_bytes},
    shared::{ASYNC_TRACK, GLOBAL},
};
use std::{marker::PhantomData, sync::Arc, time::Instant};

/// An open span of the global profiler; closes when dropped, also while a panic unwinds.
///
/// Made by [`span!`](crate::span!). Stays on its thread: a span that moves between threads is [`AsyncSpan`].
/// One that was opened while the profiler was on is kept even if the profiler is switched off before it closes;
/// one that was opened while it was off is never recorded.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: bind it to a name"]
pub struct Span {
    open: Open,
    _on_one_thread: PhantomData<*const ()>,
}

/// What a guard remembers.
#[derive(Debug)]
struct Open {
    start: u64,
    name: u32,
    bytes: u64,
    depth: u16,
    category: Category,
    mode: u8,
}

impl Open {
    #[inline]
    const fn off() -> Open {
        Open { start: 0, name: 0, bytes: 0, depth: 0, category: Category::Cpu, mode: OFF }
    }

    /// The clock is read last on the way in and first on the way out: a span does not measure its own cost.
    #[inline]
    fn on(depth: u16, name: Name, category: Category, mode: u8) -> Open {
        Open { name: name.id(), bytes: 0, depth, category, mode, start: clock::ticks(mode) }
    }

    #[inline]
    fn record(&self, end: u64) -> [u64; WORDS] {
        let key = Key { name: self.name, kind: Kind::Span(self.category), depth: self.depth, track: 0 };
        [self.start, end, key.pack(), self.bytes]
    }
}

impl Span {
    /// Opens a span; [`span!`](crate::span!) calls this with the site it stands at.
    #[inline]
    pub fn enter(site: &Site, category: Category) -> Span {
        match GLOBAL.mode() {
            OFF => Span::off(),
            mode => Span::on(site.name(), category, mode),
        }
    }

    /// Opens a span with a name made before, for names that no literal can have.
    #[inline]
    pub fn named(name: impl SpanName, category: Category) -> Span {
        match GLOBAL.mode() {
            OFF => Span::off(),
            mode => Span::on(name.resolve(), category, mode),
        }
    }

    #[inline]
    const fn off() -> Span {
        Span { open: Open::off(), _on_one_thread: PhantomData }
    }

    #[inline]
    fn on(name: Name, category: Category, mode: u8) -> Span {
        match open_global() {
            Some(depth) => Span { open: Open::on(depth, name, category, mode), _on_one_thread: PhantomData },
            None => Span::off(),
        }
    }

    /// Says how many bytes the span moved or computed on.
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

// The two calls below take and return plain numbers, so that a guard lives in registers: while the profiler is off,
// nothing of it is ever written to the stack.

/// A thread that is past its end has no log; what it would have recorded is counted as dropped.
#[inline(never)]
fn open_global() -> Option<u16> {
    let depth = local::with_global(ThreadLog::open);
    if depth.is_none() {
        GLOBAL.lose(1);
    }
    depth
}

#[inline(never)]
fn close_global(depth: u16, start: u64, end: u64, key: u64, bytes: u64) {
    if local::with_global(|log| log.close(depth, [start, end, key, bytes])).is_none() {
        GLOBAL.lose(1);
    }
}

/// An open span of any [`Profiler`](crate::Profiler), made by [`Profiler::span`](crate::Profiler::span).
///
/// Costs a few nanoseconds more than [`Span`]: it holds on to the thread's log of its profiler.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: bind it to a name"]
pub struct OwnedSpan {
    open: Option<(Arc<ThreadLog>, Open)>,
    home: Option<Profiler>,
    _on_one_thread: PhantomData<*const ()>,
}

impl OwnedSpan {
    pub(crate) const OFF: OwnedSpan = OwnedSpan { open: None, home: None, _on_one_thread: PhantomData };

    pub(crate) fn open(
        home: &Profiler,
        log: Arc<ThreadLog>,
        name: Name,
        category: Category,
        mode: u8,
    ) -> Self {
        let home = Some(home.clone());
        let open = Open::on(log.open(), name, category, mode);
        OwnedSpan { open: Some((log, open)), home, _on_one_thread: PhantomData }
    }

    /// Says how many bytes the span moved or computed on.
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
            match &self.home {
                Some(home) if log.is_retired() => home.shared().lose(1),
                _ => log.close(open.depth, record),
            }
        }
    }
}

/// An open span that may end on another thread: what `#[profiled]` puts into an `async fn`.
///
/// It is elapsed time, waiting included, and overlaps whatever else its threads did meanwhile. So it goes to a track
/// of its own and has no part in self times and breakdowns.
#[derive(Debug)]
#[must_use = "a span ends when its guard is dropped: bind it to a name"]
pub struct AsyncSpan {
    open: Option<(Name, Category, Instant)>,
}

impl AsyncSpan {
    /// Opens a span; [`async_span!`](crate::async_span!) calls this with the site it stands at.
    pub fn enter(site: &Site, category: Category) -> AsyncSpan {
        let on = GLOBAL.mode() != OFF;
        AsyncSpan { open: on.then(|| (site.name(), category, Instant::now())) }
    }
}

impl Drop for AsyncSpan {
    fn drop(&mut self) {
        if let Some((name, category, start)) = self.open {
            let log = local::global();
            GLOBAL.record(log.as_deref(), name, category, start, start.elapsed(), ASYNC_TRACK, None);
        }
    }
}
