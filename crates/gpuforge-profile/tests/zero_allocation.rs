//! Zero allocation: nothing is allocated while the profiler is disabled, nor per span once a thread has its log.

#![expect(unsafe_code, reason = "a global allocator can only be written with unsafe code")]

use gpuforge_profile::{Category, Name, Profiler, Span, async_span, counter, gauge, profiled, scope, span};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    time::{Duration, Instant},
};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Per thread: the test harness allocates on its own threads whenever it likes.
        COUNT.try_with(|count| count.set(count.get() + 1)).ok();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    f();
    COUNT.with(Cell::get) - before
}

#[profiled]
fn measured() -> u32 {
    7
}

fn everything(profiler: &Profiler) {
    for i in 0..1000 {
        let mut guard = span!("guard", Category::Wait);
        guard.bytes(i);
        drop(profiler.span("owned", Category::Gpu));
        scope("closure", measured);
        drop(async_span!("async"));
        counter!("count").add(i);
        gauge!("level").set(0.5);
    }
}

#[test]
fn no_allocation_while_disabled_and_none_per_span_while_enabled() {
    let own = Profiler::new();
    let track = own.track("device");
    let name = Name::new("made before");
    let off = allocations(|| {
        everything(&own);
        everything(Profiler::global());
        drop(Span::named(name, Category::Cpu));
        own.record("device work", Category::Gpu, Instant::now(), Duration::ZERO, track);
        own.counter("looked up").add(3);
        own.gauge("looked up too").set(3.0);
    });
    assert_eq!(off, 0);
    assert!(Profiler::global().snapshot().spans.is_empty() && own.snapshot().spans.is_empty());

    own.enable();
    Profiler::global().enable();
    let round = || {
        everything(&own);
        own.record("device work", Category::Gpu, Instant::now(), Duration::ZERO, track);
    };
    assert_ne!(allocations(round), 0, "sanity check: the first round allocates logs, names and windows");
    assert_eq!(allocations(round), 0);
}
