//! Stress test: sixteen threads on one memory stack; exact accounting, limit respected, no deadlock.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code fails loudly")]

use std::{
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use gpuforge_runtime::{
    memory::{AllocRequest, BlockClass, MemoryStack, StackAllocation, StackSettings, Tag},
    units::Bytes,
};

mod memory_dummy;
use memory_dummy::{AllocFault, Dummy, Id, Rng, exactly, storage, within};

type Stack = MemoryStack<Dummy>;
const THREADS: u64 = 16;
const OPERATIONS: u64 = 10_000;
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(120);
const TAGS: [&str; 4] = ["a", "b", "c", "d"];

/// Random allocations and releases; frees everything at the end. Returns the number of refused requests.
fn hammer(stack: &Stack, seed: u64, operations: u64) -> u64 {
    let mut rng = Rng::new(seed + 1);
    let mut live: Vec<StackAllocation<Id>> = Vec::new();
    let mut refused = 0;
    for _ in 0..operations {
        if live.len() < 12 && rng.below(2) == 0 {
            let octave = 256 << rng.below(8);
            let size = Bytes(octave + rng.below(octave));
            let (tag, class) = (Tag(TAGS[rng.below(4) as usize]), BlockClass::ALL[rng.below(4) as usize]);
            match stack.allocate(AllocRequest { size, tag, class }) {
                Ok(grant) => {
                    assert!(grant.capacity() >= size && grant.request().class == class);
                    live.push(grant);
                }
                Err(error) => {
                    assert!(error.is_out_of_memory(), "{error}");
                    refused += 1;
                }
            }
        } else if !live.is_empty() {
            stack.release(live.swap_remove(rng.below(live.len() as u64) as usize));
        }
        if rng.below(500) == 0 {
            stack.trim(Bytes(rng.below(100_000)));
            stack.tick();
            let _ = (stack.can_allocate(Bytes(1000)), stack.leaks(), stack.peaks());
        }
    }
    live.into_iter().for_each(|grant| stack.release(grant));
    refused
}

fn all_at_once(stack: &Arc<Stack>, work: impl Fn(&Stack, u64) -> u64 + Send + Sync + 'static) -> u64 {
    let start = Arc::new(Barrier::new(THREADS as usize));
    let work = Arc::new(work);
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let (stack, start, work) = (stack.clone(), start.clone(), work.clone());
            thread::spawn(move || {
                start.wait();
                work(&stack, seed)
            })
        })
        .collect();
    threads.into_iter().map(|t| t.join().unwrap()).sum()
}

/// Everything is freed, in the accounting of every layer.
fn assert_empty(stack: &Stack) {
    let stats = stack.stats();
    assert_eq!((stats.users.live, stats.users.live_blocks), (Bytes::ZERO, 0));
    assert!(stats.users.tags.iter().all(|t| t.live == Bytes::ZERO && t.live_blocks == 0));
    assert_eq!((stats.pool.in_use, stats.pool.in_use_blocks), (Bytes::ZERO, 0));
    assert_eq!(stats.pool.idle, stack.device().live());
    assert_eq!(stats.limit.used, stack.device().live());
    stack.trim(Bytes::ZERO);
    let stats = stack.stats();
    assert_eq!(
        (stats.pool.idle, stats.limit.used, stats.device.live),
        (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO)
    );
    assert_eq!(stack.device().live(), Bytes::ZERO);
    let (given, back) = stack.device().calls();
    assert_eq!(given - stats.device.failures, back);
}

#[test]
fn sixteen_threads_with_ample_memory() {
    within(DEADLOCK_TIMEOUT, || {
        let stack = Arc::new(MemoryStack::new(Dummy::default(), StackSettings::new(exactly(1 << 40))));
        let refused = all_at_once(&stack, |stack, seed| hammer(stack, seed, OPERATIONS));
        assert_eq!(refused, 0);
        let stats = stack.stats();
        assert_eq!(stats.pool.hits + stats.pool.misses, stats.users.allocations);
        assert_eq!(stats.pool.misses, stats.device.allocations);
        assert_empty(&stack);
    });
}

#[test]
fn sixteen_threads_at_the_limit() {
    within(DEADLOCK_TIMEOUT, || {
        // Sixteen threads need about 3 MiB at the peak; the limit is one.
        let limit = Bytes::mib(1);
        let stack = Arc::new(MemoryStack::new(Dummy::default(), StackSettings::new(exactly(limit.0))));
        let refused = all_at_once(&stack, |stack, seed| hammer(stack, seed, OPERATIONS));
        assert!(refused > 0, "the limit was never reached: the test is too easy");
        assert!(stack.device().peak() <= limit, "the device saw {}", stack.device().peak());
        assert!(stack.stats().limit.peak <= limit);
        assert!(stack.stats().monitor.evictions > 0);
        assert_empty(&stack);
    });
}

#[test]
fn sixteen_threads_with_a_device_that_fails() {
    within(DEADLOCK_TIMEOUT, || {
        let device = Dummy::default();
        device.fail((0..20_000).filter(|n| n % 7 == 0 || n % 11 < 2), AllocFault::OutOfMemory);
        let stack = Arc::new(MemoryStack::new(device, StackSettings::new(exactly(Bytes::mib(2).0))));
        all_at_once(&stack, |stack, seed| hammer(stack, seed, OPERATIONS));
        assert!(stack.stats().device.failures > 0);
        assert_empty(&stack);
    });
}

#[test]
fn eviction_with_concurrent_allocations_and_an_allocating_subscriber() {
    within(DEADLOCK_TIMEOUT, || {
        let stack =
            Arc::new(MemoryStack::new(Dummy::default(), StackSettings::new(exactly(Bytes::mib(1).0))));
        let (weak, calls, inside) =
            (Arc::downgrade(&stack), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, busy) = (calls.clone(), inside.clone());
        let chain = Arc::new(Mutex::new(Vec::new()));
        let links = chain.clone();
        let subscriber = stack.subscribe(move |event| {
            assert!(!busy.swap(true, SeqCst), "events are delivered one at a time");
            let Some(stack) = weak.upgrade() else { return };
            links.lock().unwrap().push((event.from, event.to));
            count.fetch_add(1, SeqCst);
            let grants: Vec<_> =
                (0..8).filter_map(|i| stack.allocate(storage(1000 << (i % 4))).ok()).collect();
            stack.trim(Bytes::ZERO);
            grants.into_iter().for_each(|grant| stack.release(grant));
            busy.store(false, SeqCst);
        });
        all_at_once(&stack, |stack, seed| hammer(stack, seed, OPERATIONS));
        let stats = stack.stats();
        assert!(calls.load(SeqCst) > 0 && stats.monitor.evictions > 0, "{stats:?}");
        assert_eq!(stats.monitor.subscriber_panics, 0);
        assert!(stats.limit.peak <= Bytes::mib(1));
        stack.tick();
        assert!(stack.unsubscribe(subscriber));
        let chain = chain.lock().unwrap();
        assert!(chain.windows(2).all(|two| two[0].1 == two[1].0), "each event starts at the previous level");
        assert_eq!(chain.last().unwrap().1, stack.pressure(), "the last event reports the current level");
        assert_empty(&stack);
    });
}
