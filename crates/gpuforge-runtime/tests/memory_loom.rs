//! Model checking with loom: every interleaving of the pool, the limiting adaptor and the single-flight gates.
//!
//! The source files are compiled a second time below, with loom's locks and atomics as `sync`; all other types are the
//! crate's own. So no `--cfg loom` and no second build of the dependencies is needed. (Not chosen: types generic over their
//! atomics, which would put the test into the types of the program.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code fails loudly")]

use std::sync::Arc as StdArc;

use loom::{
    model,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
};

#[allow(dead_code, unreachable_pub, reason = "source files of the crate, of which the models use a part")]
#[path = "../src/memory"]
mod memory {
    pub(crate) use gpuforge_runtime::memory::{
        AllocError, AllocLimits, AllocRequest, Allocation, Allocator, BlockClass, ClassPeak, Clock,
        ManualClock, Reclaim, SizeClass, Tag,
    };

    /// In place of `src/memory/sync.rs`.
    pub(crate) mod sync {
        pub(crate) use loom::sync::{
            Mutex, MutexGuard,
            atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
        };

        pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
            mutex.lock().unwrap()
        }
    }

    pub(crate) mod free_list;
    pub(crate) mod limiting_adaptor;
    pub(crate) mod pool;
    pub(crate) mod single_flight;
}

/// Path expected by the source files.
mod units {
    pub(crate) use gpuforge_runtime::units::Bytes;
}

use memory::{
    AllocError, AllocRequest, Allocation, Allocator, BlockClass, ManualClock, Reclaim, Tag,
    limiting_adaptor::LimitingAdaptor,
    pool::{Pool, PoolSettings},
    single_flight::{ChangeNotifier, SingleFlight},
};
use units::Bytes;

/// A device that checks that it never holds more than its capacity, not even for a moment.
struct Device {
    live: AtomicU64,
    capacity: u64,
}

impl Device {
    fn new(capacity: u64) -> Self {
        Device { live: AtomicU64::new(0), capacity }
    }
}

impl Allocator for Device {
    type Block = ();

    fn allocate(&self, request: AllocRequest) -> Result<Allocation<()>, AllocError> {
        let live = self.live.fetch_add(request.size.0, SeqCst) + request.size.0;
        assert!(live <= self.capacity, "{live} of {}", self.capacity);
        Ok(Allocation::new((), request))
    }

    fn release(&self, allocation: Allocation<()>) {
        self.live.fetch_sub(allocation.request().size.0, SeqCst);
    }
}

fn storage(size: u64) -> AllocRequest {
    AllocRequest { size: Bytes(size), tag: Tag("loom"), class: BlockClass::Storage }
}

/// Every interleaving with up to three preemptions, for models of three threads: all of them would take
/// minutes, and loom's documentation calls two or three preemptions enough for most bugs.
fn model_bounded(work: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(work);
}

#[test]
fn limit_holds_at_every_point_in_time() {
    model_bounded(|| {
        let limit = Arc::new(LimitingAdaptor::new(Device::new(512), Bytes(512)));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let limit = limit.clone();
                thread::spawn(move || match limit.allocate(storage(256)) {
                    Ok(allocation) => limit.release(allocation),
                    Err(error) => assert!(error.is_out_of_memory()),
                })
            })
            .collect();
        let mine = limit.allocate(storage(300));
        for thread in threads {
            thread.join().unwrap();
        }
        let held = if mine.is_ok() { Bytes(300) } else { Bytes::ZERO };
        assert_eq!(limit.used(), held);
        if let Ok(allocation) = mine {
            limit.release(allocation);
        }
        assert_eq!(limit.used(), Bytes::ZERO);
        assert!(limit.stats().peak <= Bytes(512));
    });
}

#[test]
fn fitting_request_is_never_refused_by_concurrent_requests() {
    model_bounded(|| {
        let limit = Arc::new(LimitingAdaptor::new(Device::new(512), Bytes(512)));
        let try_in_thread = |size| {
            let limit = limit.clone();
            thread::spawn(move || limit.allocate(storage(size)).map(drop).is_ok())
        };
        let (too_large, fits) = (try_in_thread(513), try_in_thread(256));
        assert!(limit.allocate(storage(256)).map(drop).is_ok());
        assert_eq!((too_large.join().unwrap(), fits.join().unwrap()), (false, true));
        assert_eq!(limit.used(), Bytes(512));
    });
}

fn pool(capacity: u64) -> Arc<Pool<LimitingAdaptor<Device>>> {
    let limit = LimitingAdaptor::new(Device::new(capacity), Bytes(capacity));
    Arc::new(Pool::new(limit, PoolSettings::default(), StdArc::new(ManualClock::default())))
}

fn assert_exact(pool: &Pool<LimitingAdaptor<Device>>, in_use: u64) {
    let stats = pool.stats();
    assert_eq!(stats.in_use, Bytes(in_use));
    assert_eq!(stats.in_use + stats.idle, pool.held());
    assert_eq!(pool.held(), pool.upstream().used());
    assert_eq!(pool.held().0, pool.upstream().upstream().live.load(SeqCst));
}

#[test]
fn pool_block_has_one_owner_and_blocks_in_use_are_not_evicted() {
    model(|| {
        let pool = pool(1024);
        let first = pool.allocate(storage(256)).unwrap();
        pool.release(first);
        let other = pool.clone();
        let thread = thread::spawn(move || {
            let block = other.allocate(storage(256)).unwrap();
            other.release(block);
        });
        let mine = pool.allocate(storage(256)).unwrap();
        pool.trim(Bytes::ZERO);
        thread.join().unwrap();
        assert_exact(&pool, 256);
        pool.release(mine);
        pool.trim(Bytes::ZERO);
        assert_exact(&pool, 0);
        assert_eq!(pool.held(), Bytes::ZERO);
    });
}

#[test]
fn concurrent_misses_are_both_counted() {
    model(|| {
        let pool = pool(1024);
        let other = pool.clone();
        let thread = thread::spawn(move || other.allocate(storage(256)).map(drop).is_ok());
        assert!(pool.allocate(storage(512)).map(drop).is_ok());
        assert!(thread.join().unwrap());
        assert_exact(&pool, 768);
        assert_eq!(pool.stats().misses, 2);
    });
}

#[test]
fn concurrent_trims_free_each_block_once() {
    model(|| {
        let pool = pool(1024);
        for block in [256, 512].map(|size| pool.allocate(storage(size)).unwrap()) {
            pool.release(block);
        }
        let other = pool.clone();
        let thread = thread::spawn(move || other.trim(Bytes::ZERO));
        let freed = pool.trim(Bytes::ZERO) + thread.join().unwrap();
        assert_eq!(freed, Bytes(768));
        assert_exact(&pool, 0);
    });
}

#[test]
fn accounting_is_exact_for_a_miss_and_a_release_at_the_limit() {
    model(|| {
        let pool = pool(512);
        let theirs = pool.allocate(storage(512)).unwrap();
        let other = pool.clone();
        let thread = thread::spawn(move || other.release(theirs));
        // Either the block is released and evicted for this one, or memory is exhausted: both are right.
        let in_use = match pool.allocate(storage(256)) {
            Ok(block) => {
                drop(block);
                256
            }
            Err(error) => {
                assert!(error.is_out_of_memory());
                0
            }
        };
        thread.join().unwrap();
        assert_exact(&pool, in_use);
    });
}

#[test]
fn no_level_change_goes_unreported() {
    model_bounded(|| {
        let level = Arc::new(AtomicU64::new(0));
        let changes = Arc::new(ChangeNotifier::new(0));
        let reported = Arc::new(AtomicU64::new(0));
        let notify = |level: &AtomicU64, changes: &ChangeNotifier, reported: &AtomicU64| {
            // Relaxed on purpose: the notifier itself must make the level visible.
            changes.notify(
                || level.load(Relaxed) as u8,
                |from, to| {
                    let before = reported.swap(to.into(), SeqCst);
                    assert_eq!(before, u64::from(from), "in order, one at a time");
                },
            );
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (level, changes, reported) = (level.clone(), changes.clone(), reported.clone());
                thread::spawn(move || {
                    level.fetch_add(1, Relaxed);
                    notify(&level, &changes, &reported);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(reported.load(SeqCst), 2);
    });
}

#[test]
fn final_level_is_reported_after_rise_and_fall() {
    // One thread raises it, one lowers it: the one that finds the reported level must not leave the other with a stale read.
    model(|| {
        let level = Arc::new(AtomicU64::new(5));
        let changes = Arc::new(ChangeNotifier::new(5));
        let reported = Arc::new(AtomicU64::new(5));
        let notify = |level: &AtomicU64, changes: &ChangeNotifier, reported: &AtomicU64| {
            let read = || level.load(Relaxed) as u8;
            changes.notify(read, |_, to| reported.store(to.into(), SeqCst));
        };
        let (l, c, t) = (level.clone(), changes.clone(), reported.clone());
        let thread = thread::spawn(move || {
            l.fetch_add(1, Relaxed);
            notify(&l, &c, &t);
        });
        level.fetch_sub(1, Relaxed);
        notify(&level, &changes, &reported);
        thread.join().unwrap();
        assert_eq!(reported.load(SeqCst), 5);
    });
}

#[test]
fn single_flight_never_blocks_and_misses_nothing() {
    model(|| {
        let idle = Arc::new(AtomicU64::new(0));
        let gate = Arc::new(SingleFlight::new());
        // As the monitor does: evict while there is something to evict and no other thread is evicting.
        let evict = |idle: &AtomicU64, gate: &SingleFlight| {
            while idle.load(Relaxed) > 0 {
                let evicted = gate.try_run(|| {
                    assert!(gate.try_run(|| ()).is_none(), "not even re-entrantly");
                    idle.store(0, Relaxed);
                });
                if evicted.is_none() {
                    break;
                }
            }
        };
        let (d, g) = (idle.clone(), gate.clone());
        let thread = thread::spawn(move || {
            d.fetch_add(1, Relaxed);
            evict(&d, &g);
        });
        idle.fetch_add(1, Relaxed);
        evict(&idle, &gate);
        thread.join().unwrap();
        assert_eq!(idle.load(SeqCst), 0);
    });
}
