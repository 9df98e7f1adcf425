//! Is every interleaving right? The very source files of the pool, the limit and the gates, with loom's locks and atomics.
//!
//! The files are compiled a second time below, under a `sync` module of loom's types; all other types are the crate's own.
//! So no `--cfg loom` and no second build of the dependencies is needed. (What is not chosen: cores that are generic
//! over their atomics, which would put the test into the types of the program.)
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
        AllocError, Allocation, Allocator, BlockClass, ClassPeak, Clock, Limits, ManualClock, Reclaim,
        Request, SizeClass, Tag,
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

    pub(crate) mod gate;
    pub(crate) mod idle;
    pub(crate) mod limit;
    pub(crate) mod pool;
}

/// Where the source files expect it.
mod units {
    pub(crate) use gpuforge_runtime::units::Bytes;
}

use memory::{
    AllocError, Allocation, Allocator, BlockClass, ManualClock, Reclaim, Request, Tag,
    gate::{Changes, OneAtATime},
    limit::Limit,
    pool::{Pool, PoolSettings},
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

    fn allocate(&self, request: Request) -> Result<Allocation<()>, AllocError> {
        let live = self.live.fetch_add(request.size.0, SeqCst) + request.size.0;
        assert!(live <= self.capacity, "{live} of {}", self.capacity);
        Ok(Allocation::new((), request))
    }

    fn release(&self, allocation: Allocation<()>) {
        self.live.fetch_sub(allocation.request().size.0, SeqCst);
    }
}

fn storage(size: u64) -> Request {
    Request { size: Bytes(size), tag: Tag("loom"), class: BlockClass::Storage }
}

/// Every interleaving with up to three forced switches of thread, for models of three threads: all of them would take
/// minutes, and loom's documentation calls two or three switches enough for most defects.
fn model_bounded(work: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(work);
}

#[test]
fn the_limit_holds_at_every_moment() {
    model_bounded(|| {
        let limit = Arc::new(Limit::new(Device::new(512), Bytes(512)));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let limit = limit.clone();
                thread::spawn(move || match limit.allocate(storage(256)) {
                    Ok(allocation) => limit.release(allocation),
                    Err(error) => assert!(error.is_shortage()),
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
fn what_fits_is_refused_neither_by_what_fits_nor_by_what_does_not() {
    model_bounded(|| {
        let limit = Arc::new(Limit::new(Device::new(512), Bytes(512)));
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

fn pool(capacity: u64) -> Arc<Pool<Limit<Device>>> {
    let limit = Limit::new(Device::new(capacity), Bytes(capacity));
    Arc::new(Pool::new(limit, PoolSettings::default(), StdArc::new(ManualClock::default())))
}

fn assert_exact(pool: &Pool<Limit<Device>>, in_use: u64) {
    let stats = pool.stats();
    assert_eq!(stats.in_use, Bytes(in_use));
    assert_eq!(stats.in_use + stats.idle, pool.held());
    assert_eq!(pool.held(), pool.below().used());
    assert_eq!(pool.held().0, pool.below().below().live.load(SeqCst));
}

#[test]
fn the_pool_hands_a_block_to_one_thread_only_and_trims_no_block_in_use() {
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
fn two_misses_are_both_counted() {
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
fn two_trims_free_each_block_once() {
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
fn at_the_limit_a_miss_and_a_release_leave_exact_books() {
    model(|| {
        let pool = pool(512);
        let theirs = pool.allocate(storage(512)).unwrap();
        let other = pool.clone();
        let thread = thread::spawn(move || other.release(theirs));
        // Either the block is back and is trimmed for this one, or there is no room: both are right.
        let in_use = match pool.allocate(storage(256)) {
            Ok(block) => {
                drop(block);
                256
            }
            Err(error) => {
                assert!(error.is_shortage());
                0
            }
        };
        thread.join().unwrap();
        assert_exact(&pool, in_use);
    });
}

#[test]
fn no_change_of_level_goes_untold() {
    model_bounded(|| {
        let level = Arc::new(AtomicU64::new(0));
        let changes = Arc::new(Changes::new(0));
        let told = Arc::new(AtomicU64::new(0));
        let settle = |level: &AtomicU64, changes: &Changes, told: &AtomicU64| {
            // Relaxed on purpose: the gate itself must make the level visible.
            changes.settle(
                || level.load(Relaxed) as u8,
                |from, to| {
                    let before = told.swap(to.into(), SeqCst);
                    assert_eq!(before, u64::from(from), "in order, one at a time");
                },
            );
        };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (level, changes, told) = (level.clone(), changes.clone(), told.clone());
                thread::spawn(move || {
                    level.fetch_add(1, Relaxed);
                    settle(&level, &changes, &told);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(told.load(SeqCst), 2);
    });
}

#[test]
fn a_level_that_rises_and_falls_ends_told_as_it_is() {
    // One thread raises it, one lowers it: the one who finds it as it was told may not leave the other with an old look.
    model(|| {
        let level = Arc::new(AtomicU64::new(5));
        let changes = Arc::new(Changes::new(5));
        let told = Arc::new(AtomicU64::new(5));
        let settle = |level: &AtomicU64, changes: &Changes, told: &AtomicU64| {
            let read = || level.load(Relaxed) as u8;
            changes.settle(read, |_, to| told.store(to.into(), SeqCst));
        };
        let (l, c, t) = (level.clone(), changes.clone(), told.clone());
        let thread = thread::spawn(move || {
            l.fetch_add(1, Relaxed);
            settle(&l, &c, &t);
        });
        level.fetch_sub(1, Relaxed);
        settle(&level, &changes, &told);
        thread.join().unwrap();
        assert_eq!(told.load(SeqCst), 5);
    });
}

#[test]
fn a_clean_up_never_waits_and_misses_nothing() {
    model(|| {
        let dirt = Arc::new(AtomicU64::new(0));
        let gate = Arc::new(OneAtATime::new());
        // As the monitor does: clean while there is something and nobody else is cleaning.
        let clean = |dirt: &AtomicU64, gate: &OneAtATime| {
            while dirt.load(Relaxed) > 0 {
                let cleaned = gate.run(|| {
                    assert!(gate.run(|| ()).is_none(), "not even inside itself");
                    dirt.store(0, Relaxed);
                });
                if cleaned.is_none() {
                    break;
                }
            }
        };
        let (d, g) = (dirt.clone(), gate.clone());
        let thread = thread::spawn(move || {
            d.fetch_add(1, Relaxed);
            clean(&d, &g);
        });
        dirt.fetch_add(1, Relaxed);
        clean(&dirt, &gate);
        thread.join().unwrap();
        assert_eq!(dirt.load(SeqCst), 0);
    });
}
