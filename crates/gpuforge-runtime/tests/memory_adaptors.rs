//! Unit tests of each memory adaptor: pool, limiting and tracking, over a device that counts calls and fails on demand.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code fails loudly")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use gpuforge_runtime::{
    memory::{
        AllocError, AllocRequest, Allocation, Allocator, BlockClass, ClassPeak, LeakSettings,
        LimitingAdaptor, ManualClock, Pool, PoolSettings, Pooled, Reclaim, Tag, TrackingAdaptor,
    },
    units::Bytes,
};

mod memory_dummy;
use memory_dummy::{AllocFault, Dummy, Id, Rng, storage};

const SECOND: Duration = Duration::from_secs(1);

fn pool_over<A: Allocator>(upstream: A) -> (Pool<A>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Pool::new(upstream, PoolSettings::default(), clock.clone()), clock)
}

fn pool() -> (Pool<Dummy>, Arc<ManualClock>) {
    pool_over(Dummy::default())
}

fn id(allocation: &Allocation<Pooled<Id>>) -> u64 {
    allocation.block().inner().block().0
}

#[test]
fn pool_hit_does_not_call_upstream() {
    let (pool, _) = pool();
    let first = pool.allocate(storage(1000)).unwrap();
    assert_eq!((id(&first), first.capacity()), (1, Bytes(1024)));
    pool.release(first);
    for size in [1024, 961, 1000] {
        let again = pool.allocate(storage(size)).unwrap();
        assert_eq!((id(&again), again.request().size, again.capacity()), (1, Bytes(size), Bytes(1024)));
        pool.release(again);
    }
    assert_eq!(pool.upstream().calls(), (1, 0));
    let stats = pool.stats();
    assert_eq!((stats.hits, stats.misses, stats.reuse_percent), (3, 1, Some(75.0)));
    assert_eq!((stats.idle, stats.in_use, pool.held()), (Bytes(1024), Bytes::ZERO, Bytes(1024)));
}

#[test]
fn size_classes_and_block_classes_are_not_mixed() {
    let (pool, _) = pool();
    let block = pool.allocate(storage(1024)).unwrap();
    pool.release(block);
    for class in BlockClass::ALL.into_iter().filter(|c| *c != BlockClass::Storage) {
        let other = pool.allocate(AllocRequest { class, ..storage(1024) }).unwrap();
        assert_ne!(id(&other), 1, "{class:?}");
        pool.release(other);
    }
    for size in [960, 1025] {
        let other = pool.allocate(storage(size)).unwrap();
        assert_ne!(id(&other), 1, "{size}");
        pool.release(other);
    }
    assert_eq!(pool.stats().hits, 0);
}

#[test]
fn steady_mixed_sizes_are_reused_with_little_fragmentation() {
    // Forty live blocks of log-uniform sizes from 1 KiB to 64 MiB; one at random is replaced in each step.
    let (pool, _) = pool();
    let mut rng = Rng::new(7);
    let mut size = move || {
        let octave = 1 << (10 + rng.below(16));
        octave + rng.below(octave)
    };
    let mut pick = Rng::new(11);
    let mut live: Vec<_> = (0..40).map(|_| pool.allocate(storage(size())).unwrap()).collect();
    for _ in 0..20_000 {
        let old = live.swap_remove(pick.below(40) as usize);
        pool.release(old);
        live.push(pool.allocate(storage(size())).unwrap());
    }
    let stats = pool.stats();
    println!("reuse {:.2} %, waste {:.2} %", stats.reuse_percent.unwrap(), stats.waste_percent.unwrap());
    assert!(stats.reuse_percent.unwrap() >= 95.0, "{stats:?}");
    assert!(stats.waste_percent.unwrap() < 10.0, "{stats:?}");
    assert_eq!(stats.in_use + stats.idle, pool.upstream().live());
}

#[test]
fn trim_evicts_in_lru_order_and_nothing_in_use() {
    let (pool, clock) = pool();
    let blocks: Vec<_> =
        [256, 512, 256, 1024, 512].map(|s| pool.allocate(storage(s)).unwrap()).into_iter().collect();
    let mut blocks = blocks.into_iter();
    let kept = blocks.next().unwrap();
    for block in blocks {
        clock.advance(SECOND);
        pool.release(block);
    }
    // Idle, oldest first: 2 (512), 3 (256), 4 (1024), 5 (512).
    assert_eq!(pool.trim(Bytes(1536)), Bytes(768));
    assert_eq!(pool.upstream().ids(), [1, 4, 5].into());
    assert_eq!(pool.trim(Bytes(10_000)), Bytes::ZERO);
    assert_eq!(pool.trim(Bytes::ZERO), Bytes(1536));
    assert_eq!(pool.upstream().ids(), [1].into());
    assert_eq!((pool.held(), pool.idle(), pool.stats().in_use), (Bytes(256), Bytes::ZERO, Bytes(256)));
    pool.release(kept);
    assert_eq!(pool.stats().idle_blocks, 1);
}

#[test]
fn idle_blocks_expire() {
    let clock = Arc::new(ManualClock::default());
    let settings = PoolSettings { idle_for: 10 * SECOND, ..PoolSettings::default() };
    let pool = Pool::new(Dummy::default(), settings, clock.clone());
    let (a, b) = (pool.allocate(storage(256)).unwrap(), pool.allocate(storage(512)).unwrap());
    pool.release(a);
    clock.advance(10 * SECOND);
    assert_eq!(pool.expire(), Bytes::ZERO, "ten seconds are not longer than ten seconds");
    pool.release(b);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(pool.expire(), Bytes(256));
    assert_eq!(pool.trim_older(Duration::ZERO), Bytes(512));
    assert_eq!(pool.upstream().live(), Bytes::ZERO);
}

#[test]
fn large_trim_evicts_everything_in_batches() {
    let (pool, _) = pool();
    let blocks: Vec<_> = (0..1000).map(|i| pool.allocate(storage(i * 10)).unwrap()).collect();
    for block in blocks {
        pool.release(block);
    }
    let held = pool.held();
    assert_eq!(pool.trim(Bytes::ZERO), held);
    assert_eq!(
        (pool.upstream().live(), pool.held(), pool.stats().trimmed_blocks),
        (Bytes::ZERO, Bytes::ZERO, 1000)
    );
}

#[test]
fn upstream_oom_evicts_and_retries_exactly_once() {
    let (pool, _) = pool();
    let idle = pool.allocate(storage(4096)).unwrap();
    pool.release(idle);
    pool.upstream().fail([2], AllocFault::OutOfMemory);
    let block = pool.allocate(storage(512)).unwrap();
    assert_eq!(pool.upstream().calls(), (3, 1), "one failure, one trimmed block, one retry");
    assert_eq!((pool.stats().retries, pool.stats().failures), (1, 0));
    pool.release(block);

    pool.upstream().fail([4, 5], AllocFault::OutOfMemory);
    let error = pool.allocate(storage(9000)).unwrap_err();
    assert_eq!(error, AllocError::OutOfMemory { asked: Bytes(9216), tag: Tag("test") });
    assert_eq!(pool.upstream().calls(), (5, 2), "no second retry");
    assert_eq!((pool.stats().retries, pool.stats().failures, pool.held()), (2, 1, Bytes::ZERO));
    assert!(pool.allocate(storage(9000)).is_ok(), "the pool works on after a failure");
}

#[test]
fn device_lost_is_not_retried() {
    let (pool, _) = pool();
    let idle = pool.allocate(storage(4096)).unwrap();
    pool.release(idle);
    pool.upstream().fail([2], AllocFault::Lost);
    assert_eq!(pool.allocate(storage(512)).unwrap_err(), AllocError::Device { reason: "lost".into() });
    assert_eq!(pool.upstream().calls(), (2, 0));
    assert_eq!(pool.idle(), Bytes(4096), "nothing was trimmed: it would not have helped");
}

#[test]
fn at_the_limit_only_the_missing_bytes_are_evicted() {
    let (pool, clock) = pool_over(LimitingAdaptor::new(Dummy::default(), Bytes(4096)));
    let blocks = [512, 1024, 2048].map(|s| pool.allocate(storage(s)).unwrap());
    for block in blocks {
        clock.advance(SECOND);
        pool.release(block);
    }
    // 512 free; 1536 requested; 1024 missing: the two oldest blocks are evicted, 2048 stays.
    let block = pool.allocate(storage(1536)).unwrap();
    assert_eq!((pool.idle(), pool.held()), (Bytes(2048), Bytes(3584)));
    pool.release(block);
    assert_eq!(pool.upstream().stats().peak, Bytes(3584));
}

#[test]
fn too_large_request_is_refused_without_calling_upstream() {
    let (pool, _) = pool_over(Dummy::with_largest(Bytes(5000)));
    let error = pool.allocate(storage(5001)).unwrap_err();
    assert_eq!(error, AllocError::TooLarge { asked: Bytes(5001), most: Bytes(5000) });
    assert_eq!(pool.upstream().calls(), (0, 0));
    // The last class (4609..=5120) is clamped to the bound; all its blocks have the same size, so all can be reused.
    let block = pool.allocate(storage(4700)).unwrap();
    assert_eq!(block.capacity(), Bytes(5000));
    pool.release(block);
    let block = pool.allocate(storage(5000)).unwrap();
    assert_eq!((block.capacity(), pool.stats().hits), (Bytes(5000), 1));
    assert_eq!(pool.rounded_size(Bytes(u64::MAX)), None);
    pool.release(block);
}

#[test]
fn zero_max_idle_disables_pooling() {
    let settings = PoolSettings { max_idle: Bytes::ZERO, ..PoolSettings::default() };
    let pool = Pool::new(Dummy::default(), settings, Arc::new(ManualClock::default()));
    for _ in 0..3 {
        let block = pool.allocate(storage(100)).unwrap();
        pool.release(block);
    }
    assert_eq!(pool.upstream().calls(), (3, 3));
    assert_eq!(pool.preallocate(BlockClass::Storage, Bytes(256), 4), 0);
}

#[test]
fn max_idle_evicts_the_oldest() {
    let settings = PoolSettings { max_idle: Bytes(600), ..PoolSettings::default() };
    let pool = Pool::new(Dummy::default(), settings, Arc::new(ManualClock::default()));
    let blocks: Vec<_> = (0..4).map(|_| pool.allocate(storage(256)).unwrap()).collect();
    for block in blocks {
        pool.release(block);
    }
    assert_eq!(pool.upstream().ids(), [3, 4].into());
}

#[test]
fn preallocation_gives_hits_and_stops_at_the_limit() {
    let (pool, _) = pool_over(LimitingAdaptor::new(Dummy::default(), Bytes(1024)));
    assert_eq!(pool.preallocate(BlockClass::Storage, Bytes(256), 10), 4);
    assert_eq!(
        pool.upstream().upstream().calls(),
        (4, 0),
        "the limit refused the fifth; nothing was trimmed for it"
    );
    assert_eq!((pool.stats().prewarmed, pool.stats().reuse_percent), (4, None));
    let block = pool.allocate(storage(256)).unwrap();
    assert_eq!(pool.stats().hits, 1);
    pool.release(block);
}

#[test]
fn peaks_are_tracked_per_class() {
    let (pool, _) = pool();
    let uniform = AllocRequest { class: BlockClass::Uniform, ..storage(1) };
    let first = [storage(300), storage(300), uniform].map(|r| pool.allocate(r).unwrap());
    for block in first {
        pool.release(block);
    }
    let one = pool.allocate(storage(300)).unwrap();
    pool.release(one);
    let peak = |class, size, peak| ClassPeak { class, size: Bytes(size), peak };
    assert_eq!(pool.peaks(), [peak(BlockClass::Uniform, 256, 1), peak(BlockClass::Storage, 320, 2)]);
}

#[test]
fn limit_is_exact_and_reported_in_the_error() {
    let limit = LimitingAdaptor::new(Dummy::default(), Bytes(1000));
    let a = limit.allocate(storage(600)).unwrap();
    let error = limit.allocate(storage(401)).unwrap_err();
    assert_eq!(error, AllocError::Limit { asked: Bytes(401), used: Bytes(600), limit: Bytes(1000) });
    assert_eq!(limit.upstream().calls(), (1, 0), "the device was not asked");
    let b = limit.allocate(storage(400)).unwrap();
    assert!(limit.allocate(storage(u64::MAX)).is_err(), "no overflow");
    limit.release(a);
    limit.release(b);
    let stats = limit.stats();
    assert_eq!((stats.used, stats.peak, stats.refused), (Bytes::ZERO, Bytes(1000), 2));
}

#[test]
fn failed_or_panicking_allocation_returns_its_reservation() {
    let limit = LimitingAdaptor::new(Dummy::default(), Bytes(1000));
    limit.upstream().fail([1], AllocFault::OutOfMemory);
    limit.upstream().fail([2], AllocFault::Panic);
    assert!(limit.allocate(storage(600)).is_err());
    assert_eq!(limit.used(), Bytes::ZERO);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(limit.allocate(storage(600))))).is_err());
    assert_eq!(limit.used(), Bytes::ZERO);
}

fn track() -> (TrackingAdaptor<Dummy>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (TrackingAdaptor::new(Dummy::default(), LeakSettings::default(), clock.clone()), clock)
}

fn tagged(tag: &'static str, size: u64) -> AllocRequest {
    AllocRequest { tag: Tag(tag), ..storage(size) }
}

#[test]
fn usage_and_peaks_by_tag() {
    let (track, _) = track();
    let a = track.allocate(tagged("weights", 100)).unwrap();
    let b = track.allocate(tagged("batch", 30)).unwrap();
    let c = track.allocate(tagged("batch", 50)).unwrap();
    track.release(b);
    track.upstream().fail([4], AllocFault::OutOfMemory);
    assert!(track.allocate(tagged("batch", 1)).is_err());
    let stats = track.stats();
    assert_eq!((stats.live, stats.live_blocks, stats.peak), (Bytes(150), 2, Bytes(180)));
    assert_eq!((stats.allocations, stats.failures), (3, 1));
    let tags: Vec<_> = stats
        .tags
        .iter()
        .map(|t| (t.tag.as_str(), t.live.0, t.peak.0, t.live_blocks, t.allocations))
        .collect();
    assert_eq!(tags, [("batch", 50, 80, 1, 2), ("weights", 100, 100, 1, 1)]);
    track.release(a);
    track.release(c);
    assert_eq!((track.stats().live, track.stats().live_blocks), (Bytes::ZERO, 0));
}

/// A slow upstream allocator.
struct Slow(Dummy, Arc<ManualClock>);

impl Allocator for Slow {
    type Block = Id;
    fn allocate(&self, request: AllocRequest) -> Result<Allocation<Id>, AllocError> {
        self.1.advance(Duration::from_nanos(request.size.0));
        self.0.allocate(request)
    }
    fn release(&self, allocation: Allocation<Id>) {
        self.0.release(allocation);
    }
}

#[test]
fn upstream_time_is_measured() {
    let clock = Arc::new(ManualClock::default());
    let device = Slow(Dummy::default(), clock.clone());
    let track = TrackingAdaptor::new(device, LeakSettings::default(), clock);
    assert_eq!(track.stats().allocating_ns, None, "not measured unless asked for");
    let track = track.timed();
    for size in [5, 90, 7] {
        let block = track.allocate(storage(size)).unwrap();
        track.release(block);
    }
    assert_eq!((track.stats().allocating_ns, track.stats().slowest_ns), (Some(102), Some(90)));
}

#[test]
fn old_blocks_are_reported_with_tag_and_age() {
    let (track, clock) = track();
    let old = track.allocate(tagged("forgotten", 64)).unwrap();
    clock.advance(40 * SECOND);
    let younger = track.allocate(tagged("late", 32)).unwrap();
    clock.advance(260 * SECOND);
    assert!(!track.leaks().is_suspect(), "300 s are not longer than 300 s");
    clock.advance(SECOND);
    let report = track.leaks();
    assert_eq!((report.old_blocks, report.old_bytes), (1, Bytes(64)));
    assert_eq!((report.old[0].tag.as_str(), report.old[0].age), ("forgotten", 301 * SECOND));
    clock.advance(60 * SECOND);
    let ages: Vec<_> = track.leaks().old.iter().map(|b| (b.tag.clone(), b.age.as_secs())).collect();
    assert_eq!(ages, [("forgotten".to_owned(), 361), ("late".to_owned(), 321)]);
    track.release(old);
    track.release(younger);
    assert!(!track.leaks().is_suspect());
}

#[test]
fn only_the_oldest_are_listed_and_all_are_counted() {
    let clock = Arc::new(ManualClock::default());
    let settings = LeakSettings { named: 3, ..LeakSettings::default() };
    let track = TrackingAdaptor::new(Dummy::default(), settings, clock.clone());
    for _ in 0..10 {
        drop(track.allocate(tagged("lost", 10)).unwrap());
        clock.advance(SECOND);
    }
    clock.advance(400 * SECOND);
    let report = track.leaks();
    assert_eq!((report.old.len(), report.old_blocks, report.old_bytes), (3, 10, Bytes(100)));
    assert_eq!(report.old[0].age, 410 * SECOND);
}

#[test]
fn dropped_allocation_is_reported_as_a_leak() {
    let (track, clock) = track();
    drop(track.allocate(tagged("dropped", 10)).unwrap());
    clock.advance(301 * SECOND);
    assert_eq!(track.leaks().old[0].tag, "dropped");
}

/// One more block every `step`; every block is replaced before it gets old, so that only growth can be detected.
fn grow(settings: LeakSettings, steps: u32, add: impl Fn(u32) -> u64) -> Option<(u64, u64)> {
    let clock = Arc::new(ManualClock::default());
    let track = TrackingAdaptor::new(Dummy::default(), settings, clock.clone());
    let mut live = Vec::new();
    for step in 0..steps {
        for block in live.drain(..) {
            track.release(block);
        }
        live.extend((0..add(step)).map(|_| track.allocate(storage(1000)).unwrap()));
        clock.advance(settings.every());
        track.sample();
    }
    track.leaks().growth.map(|g| (g.first.0 / 1000, g.last.0 / 1000))
}

#[test]
fn growth_over_the_window_is_suspect() {
    let settings = LeakSettings::default();
    assert!(grow(settings, 90, |step| 10 + u64::from(step)).is_some());
    assert_eq!(grow(settings, 90, |step| 10 + u64::from(step % 5)), None);
    assert_eq!(grow(settings, 8, |step| 10 + u64::from(step)), None, "nine samples");
    // Old growth leaves the window: usage has been constant since.
    assert_eq!(grow(settings, 300, |step| if step < 100 { 1 } else { 50 }), None);
    // Window and threshold are settings.
    let lenient = LeakSettings { threshold_percent: 100_000, ..settings };
    assert_eq!(grow(lenient, 90, |step| 10 + u64::from(step)), None);
    let coarse = LeakSettings { samples: 12, window: 60 * SECOND, ..settings };
    assert!(grow(coarse, 12, |step| 10 + u64::from(step)).is_some());
}

#[test]
fn sampling_is_bounded() {
    let settings = LeakSettings { samples: 20, threshold_percent: 1, ..LeakSettings::default() };
    let clock = Arc::new(ManualClock::default());
    let track = TrackingAdaptor::new(Dummy::default(), settings, clock.clone());
    for _ in 0..5000 {
        drop(track.allocate(storage(1)).unwrap());
        clock.advance(SECOND);
    }
    // The window is inclusive at both ends.
    assert!((20..=21).contains(&track.leaks().growth.unwrap().samples));
}
