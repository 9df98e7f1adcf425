//! Multi-threaded recording: every span is recorded or counted, with threads that run, end and outpace the reader.

use gpuforge_profile::{Category, ClockChoice, Profiler, ProfilerConfig, RECENT_CALLS, TrackKind};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

const THREADS: u64 = 8;
/// Ten million in total in release builds.
const EACH: u64 = if cfg!(debug_assertions) { 125_000 } else { 1_250_000 };

fn hammer(profiler: &Profiler, spans: u64) {
    for _ in 0..spans {
        drop(profiler.span("hammer", Category::Cpu));
    }
}

#[test]
fn eight_threads_count_every_dropped_span() {
    let profiler = Profiler::new();
    profiler.enable();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| hammer(&profiler, EACH));
        }
    });
    let trace = profiler.drain();
    assert_eq!(trace.spans.len() as u64 + trace.dropped, THREADS * EACH);
    assert!(trace.dropped > 0, "more was recorded than is kept");
    assert!(trace.spans.len() >= 1 << 18, "the configured number is kept");
    // The averages cover all of them.
    let [recent] = &trace.recent[..] else { panic!("{:?}", trace.recent) };
    assert_eq!((recent.count, recent.last), (THREADS * EACH, RECENT_CALLS as u64));
    assert!(recent.mean_ns > 0.0 && recent.total_ns > 0);
    let second = profiler.drain();
    assert_eq!((second.spans.len(), second.dropped), (0, 0));
}

#[test]
fn concurrent_reader_accounts_for_every_span() {
    let config = ProfilerConfig { ring_records: 1000, ..ProfilerConfig::default() };
    let profiler = Profiler::with_config(config);
    profiler.enable();
    let running = AtomicBool::new(true);
    let (mut got, mut dropped) = (0, 0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|_| scope.spawn(|| hammer(&profiler, EACH / 4))).collect();
        let running = &running;
        scope.spawn(move || {
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            running.store(false, Ordering::Release);
        });
        while running.load(Ordering::Acquire) {
            profiler.snapshot(); // A snapshot consumes nothing.
            let trace = profiler.drain();
            assert!(trace.spans.iter().all(|s| trace.name(s.name) == "hammer" && s.depth == 0));
            got += trace.spans.len() as u64;
            dropped += trace.dropped;
        }
    });
    let rest = profiler.drain();
    assert_eq!(got + dropped + rest.spans.len() as u64 + rest.dropped, EACH);
}

#[test]
fn wrapped_ring_keeps_the_newest_and_counts_the_rest() {
    let profiler = Profiler::with_config(ProfilerConfig { ring_records: 63, ..ProfilerConfig::default() });
    profiler.enable();
    for count in [0, 1, 62, 63, 64, 65, 127, 1000_u64] {
        for i in 0..count {
            profiler.span("wrap", Category::Cpu).bytes(i);
        }
        let (snapshot, trace) = (profiler.snapshot(), profiler.drain());
        // The same spans; only the clock rate is measured again.
        assert_eq!((snapshot.spans.len(), snapshot.dropped), (trace.spans.len(), trace.dropped));
        assert_eq!(trace.spans.len() as u64, count.min(63), "{count}");
        assert_eq!(trace.dropped, count.saturating_sub(63), "{count}");
        let kept: Vec<_> = trace.spans.iter().filter_map(|span| span.bytes).collect();
        assert_eq!(kept, (count.saturating_sub(63)..count).collect::<Vec<_>>());
    }
}

#[test]
fn ended_threads_are_kept_by_name_within_bounds() {
    let config = ProfilerConfig { ring_records: 100, finished_records: 250, ..ProfilerConfig::default() };
    let profiler = Profiler::with_config(config);
    profiler.enable();
    for index in 0..10 {
        let profiler = profiler.clone();
        let thread = std::thread::Builder::new().name(format!("worker {index}"));
        thread.spawn(move || hammer(&profiler, 50)).unwrap().join().unwrap();
    }
    let trace = profiler.drain();
    assert_eq!((trace.spans.len(), trace.dropped), (250, 250));
    assert_eq!(trace.tracks.len(), 10);
    let kept = |index: usize| trace.spans.iter().filter(|s| s.track as usize == index).count();
    assert_eq!((0..10).map(kept).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 50, 50, 50, 50, 50]);
    assert_eq!(trace.tracks[9].name.as_deref(), Some("worker 9"));
    assert_eq!(trace.recent.iter().map(|r| r.count).sum::<u64>(), 500);
    assert!(profiler.drain().tracks.is_empty());
}

#[test]
fn device_spans_with_both_clocks() {
    for clock in [ClockChoice::Auto, ClockChoice::Instant] {
        let profiler = Profiler::with_config(ProfilerConfig { clock, ..ProfilerConfig::default() });
        let track = profiler.track("gpu 0");
        let start = Instant::now();
        profiler.record("before", Category::Gpu, start, Duration::from_nanos(10), track);
        profiler.enable();
        let began = Instant::now();
        {
            let _host = profiler.span("host", Category::Wait);
            std::thread::sleep(Duration::from_millis(2));
        }
        let long = Duration::from_nanos(700);
        profiler.record("kernel", Category::Gpu, began, long, track);
        profiler.record_bytes("copy", Category::Transfer, began + long, long, track, 4096);
        profiler.record("old", Category::Gpu, start, Duration::MAX, track);
        let trace = profiler.snapshot();
        let find = |name: &str| trace.spans.iter().find(|s| trace.name(s.name) == name);
        assert_eq!(find("before"), None, "the profiler was disabled");
        let (kernel, copy, host) = (find("kernel").unwrap(), find("copy").unwrap(), find("host").unwrap());
        assert_eq!((kernel.duration_ns, copy.duration_ns, copy.bytes), (700, 700, Some(4096)));
        assert_eq!(copy.start_ns, kernel.end_ns());
        assert_eq!(trace.kind_of(kernel), Some(TrackKind::Device));
        assert_eq!(trace.kind_of(host), Some(TrackKind::Thread));
        // Both clocks share one origin: the kernel "started" just before the host span.
        assert!(host.start_ns.abs_diff(kernel.start_ns) < 1_000_000, "{host:?} {kernel:?}");
        assert!(host.duration_ns >= 1_900_000, "{host:?}");
        assert_eq!(find("old").map(|s| (s.start_ns, s.end_ns())), Some((0, u64::MAX)));
        let source = if clock == ClockChoice::Instant { "instant" } else { trace.clock.source.as_str() };
        assert_eq!(trace.clock.source, source);
    }
}

#[test]
fn never_enabled_profiler_has_an_empty_trace() {
    let profiler = Profiler::new();
    profiler.counter("c").add(1);
    drop(profiler.span("s", Category::Cpu));
    let trace = profiler.drain();
    assert_eq!((trace.spans.len(), trace.tracks.len(), trace.counters.len()), (0, 0, 0));
    assert_eq!((trace.wall_ns(), trace.taken_ns, trace.clock.source.as_str()), (None, 0, "none"));
    assert!(profiler.recent().is_empty());
}

#[test]
fn guards_dropped_out_of_order_keep_depths_consistent() {
    let profiler = Profiler::new();
    profiler.enable();
    let a = profiler.span("a", Category::Cpu);
    let b = profiler.span("b", Category::Cpu);
    drop(a);
    drop(b);
    drop(profiler.span("c", Category::Cpu));
    let trace = profiler.drain();
    let depths: Vec<_> = trace.spans.iter().map(|s| (trace.name(s.name), s.depth)).collect();
    assert_eq!(depths, [("a", 0), ("b", 1), ("c", 0)]);
}

#[test]
fn recent_averages_cover_the_last_thousand_calls() {
    let profiler = Profiler::with_config(ProfilerConfig { ring_records: 20, ..ProfilerConfig::default() });
    let track = profiler.track("gpu");
    profiler.enable();
    let now = Instant::now();
    for i in 0..3000_u64 {
        let long = Duration::from_nanos(if i < 1500 { 100 } else { 300 });
        profiler.record("kernel", Category::Gpu, now + Duration::from_nanos(i), long, track);
    }
    let recent = profiler.recent();
    assert_eq!((recent[0].name.as_str(), recent[0].count, recent[0].last), ("kernel", 3000, 1000));
    assert_eq!((recent[0].mean_ns, recent[0].total_ns), (300.0, 600_000));
    assert_eq!(profiler.snapshot().recent, recent);
}
